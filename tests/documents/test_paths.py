"""Paths from files and agents stay inside the workspace."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents import inside, relative
from interlock.errors import PathRefused

BAD = [
    "",
    "/etc/passwd",
    "../x",
    "a/../../x",
    "a/..",
    "a\0b",
    "C:\\x",
    "c:/x",
    "\\\\server\\share",
    "a\\..\\b",
    "\ud800",
]


@pytest.mark.req("CM-26")
@pytest.mark.parametrize("path", BAD)
def test_a_path_that_could_lead_out_is_refused_by_name(tmp_path: Path, path: str) -> None:
    """Absolute paths, `..`, NUL, drives and broken text are refused, and the error names the path."""
    with pytest.raises(PathRefused) as caught:
        inside(tmp_path, path)
    assert caught.value.path == path
    assert repr(path) in str(caught.value)


@pytest.mark.parametrize("path", ["a", "a/b.md", "./a", "a//b", "..a/b..", "a:b", "ü/x y.md", "."])
def test_a_plain_relative_path_is_made_absolute(tmp_path: Path, path: str) -> None:
    """Nothing needs to exist for that."""
    assert inside(tmp_path, path) == tmp_path / path


@pytest.mark.req("CM-26")
@pytest.mark.parametrize("path", ["link", "link/x", "link/deep/er", "inner/link2/x", "dangling"])
def test_a_symlink_that_leaves_is_refused_at_any_level(tmp_path: Path, path: str) -> None:
    """Wherever on the way the link stands, and whether or not its target exists."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "inner").mkdir(parents=True)
    outside.mkdir()
    (root / "link").symlink_to(outside)
    (root / "inner/link2").symlink_to("../../outside")
    (root / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(PathRefused, match="symlink"):
        inside(root, path)


@pytest.mark.req("CM-26")
def test_a_symlink_out_and_back_in_is_refused(tmp_path: Path) -> None:
    """What lies outside decides where such a path ends, so its end does not matter."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "out").symlink_to(outside)
    (outside / "back").symlink_to(root)
    with pytest.raises(PathRefused):
        inside(root, "out/back/file.md")


def test_a_symlink_that_stays_inside_is_followed(tmp_path: Path) -> None:
    """Links within the workspace are a person's own business, also when the workspace is reached through one."""
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / "alias").symlink_to("docs")
    (tmp_path / "door").symlink_to(root)
    assert inside(root, "alias/x.md") == root / "alias/x.md"
    assert inside(tmp_path / "door", "alias/x.md") == tmp_path / "door/alias/x.md"


def test_relative_turns_inside_around(tmp_path: Path) -> None:
    """Both spellings of a workspace that is reached through a link are understood; other places are refused."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "door").symlink_to(root)
    assert relative(root, root / "a/b.md") == "a/b.md"
    assert relative(root, "a/b.md") == "a/b.md"
    assert relative(tmp_path / "door", root / "a.md") == "a.md"
    with pytest.raises(PathRefused):
        relative(root, tmp_path / "other")
    with pytest.raises(PathRefused):
        relative(root, root / "../other")


@given(st.text(max_size=40))
def test_any_text_is_a_place_inside_or_refused(text: str) -> None:
    """Nothing else happens, whatever the text."""
    root = Path("/nowhere/at/all")
    try:
        place = inside(root, text)
    except PathRefused:
        return
    assert place.is_relative_to(root)
    assert ".." not in place.parts

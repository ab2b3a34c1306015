"""The attic: what has to leave the tree is set aside, never over something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.errors import PathRefused
from interlock.workspace.attic import Attic


@pytest.mark.req("CM-34")
def test_things_are_moved_with_their_paths_and_never_over_each_other(folder: Path) -> None:
    """Files, links and folders; a second visit takes another place."""
    attic = Attic(folder / ".interlock")
    for content in ("one", "two"):
        (folder / "out/deep").mkdir(parents=True, exist_ok=True)
        (folder / "out/deep/a.txt").write_text(content)
        (folder / "dangling").symlink_to("nowhere")
        file, link = (attic.take(folder, path, "run/step 1") for path in ("out/deep/a.txt", "dangling"))
        assert file is not None and file.read_text() == content
        assert link is not None and link.is_symlink()
        assert not (folder / "out/deep/a.txt").exists()
    (folder / "out/deep/b").mkdir()
    (folder / "out/deep/b/c").write_text("c")
    place = attic.take(folder, "out/deep/b", "run/step 1")
    assert place is not None and (place / "c").read_text() == "c"
    assert attic.take(folder, "not/there", "run") is None


@pytest.mark.req("CM-26")
@pytest.mark.parametrize("path", ["/etc/passwd", "../x", ".git/hooks/x", "sub/.git", "a/../../b", ".GIT/config"])
def test_paths_out_of_the_workspace_are_refused(folder: Path, path: str) -> None:
    """Outside of it, inside git's folder, or into a place that is not the attic: nothing is moved."""
    (folder / "README.md").write_text("kept")
    attic = Attic(folder / ".interlock")
    with pytest.raises(PathRefused):
        attic.take(folder, path, "run")
    with pytest.raises(PathRefused):
        attic.take(folder, "README.md", "../outside")
    assert (folder / "README.md").read_text() == "kept"


@pytest.mark.req("CM-26")
def test_no_link_is_followed(folder: Path, tmp_path: Path) -> None:
    """What lies behind a link of the tree stays where it is."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("outside")
    (folder / "link").symlink_to(outside)
    assert Attic(folder / ".interlock").take(folder, "link/x", "run") is None
    assert (outside / "x").read_text() == "outside"

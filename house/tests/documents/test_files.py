"""Files of the workspace: nothing hangs, nothing is half written, no path leads out, nothing is deleted."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents import files
from interlock.errors import DocumentInvalid, PathRefused, WorkspaceFailed

REFUSED = {
    "": "empty",
    "a\0b": "NUL",
    "\ud800": "valid text",
    "/etc/passwd": "absolute",
    "\\\\host\\x": "absolute",
    "C:\\x": "absolute",
    "c:/x": "absolute",
    "..": "'..'",
    "a/../../b": "'..'",
    "a\\..\\b": "'..'",
}


@pytest.mark.parametrize(("path", "why"), REFUSED.items())
def test_a_path_that_is_not_relative_and_plain_is_refused(path: str, why: str) -> None:
    """Whatever is on disk; the error says why."""
    with pytest.raises(PathRefused) as caught:
        files.plain_parts(path)
    assert why in caught.value.why
    assert caught.value.exit_code == 2


@given(
    st.lists(st.text(st.characters(blacklist_characters="\0/\\:", blacklist_categories=["Cs"]), min_size=1), min_size=1)
)
def test_what_is_accepted_stays_below_the_top(parts: list[str]) -> None:
    """Joined to the top, a path never leaves it."""
    path = "/".join(parts)
    if ".." not in parts:
        assert (Path("/top").joinpath(*files.plain_parts(path))).is_relative_to("/top")


def test_a_link_that_leads_out_is_refused_at_any_level(tmp_path: Path) -> None:
    """Even where a further link leads back in; one that stays inside is followed."""
    top, outside = tmp_path / "top", tmp_path / "outside"
    (top / "docs").mkdir(parents=True)
    outside.mkdir()
    (top / "out").symlink_to(outside)
    (outside / "back").symlink_to(top)
    (top / "alias").symlink_to("docs")
    (top / "docs/a.md").write_text("a")
    for path in ("out/x", "out", "out/back/docs/a.md"):
        with pytest.raises(PathRefused, match="symlink out leaves"):
            files.inside(top, path)
    assert files.read(top, "alias/a.md") == b"a"


def test_a_place_is_told_as_people_name_it(tmp_path: Path) -> None:
    """From the workspace, also where the way there leads over a link; anything outside is refused."""
    top = tmp_path / "top"
    (top / "sub").mkdir(parents=True)
    (tmp_path / "alias").symlink_to(top)
    assert files.relative(top, top / "sub/x.md") == "sub/x.md"
    assert files.relative(top, tmp_path / "alias/sub/x.md") == "sub/x.md"
    assert files.relative(top, top) == "."
    with pytest.raises(PathRefused, match="not inside"):
        files.relative(top, tmp_path)


def _names(folder: Path) -> list[str]:
    return sorted(place.name for place in folder.iterdir())


def _fifo(place: Path) -> None:
    os.mkfifo(place)


def _socket(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(place.parent)  # the name of a socket must be short
        try:
            server.bind(place.name)
        finally:
            os.chdir(here)


def _folder(place: Path) -> None:
    place.mkdir()


def _device(place: Path) -> None:
    place.symlink_to("/dev/null")


@pytest.mark.req("RUN-19")
@pytest.mark.parametrize("plant", [_fifo, _socket, _folder, _device])
def test_what_is_no_plain_file_is_an_error_at_once(tmp_path: Path, plant: Callable[[Path], None]) -> None:
    """A pipe without a writer once hung the engine for good; a link to a device is looked at, never opened."""
    plant(tmp_path / "output.md")
    with pytest.raises(OSError) as caught:
        files.read_plain(tmp_path / "output.md", follow=True)
    assert caught.value.errno in (errno.ENXIO, errno.EISDIR)
    with pytest.raises((DocumentInvalid, PathRefused)):
        files.read(tmp_path, "output.md")
    with pytest.raises((DocumentInvalid, WorkspaceFailed)):
        files.write(tmp_path, "output.md", b"x")


@pytest.mark.req("RUN-19")
def test_a_link_is_read_only_where_it_is_asked_for_and_never_written(tmp_path: Path) -> None:
    """A document that is a link is read through it; writing would go where nobody looked."""
    (tmp_path / "real.md").write_text("real")
    (tmp_path / "link.md").symlink_to("real.md")
    with pytest.raises(OSError):
        files.read_plain(tmp_path / "link.md")
    assert files.read(tmp_path, "link.md") == b"real"
    with pytest.raises(DocumentInvalid, match="symlink"):
        files.write(tmp_path, "link.md", b"new")
    assert (tmp_path / "real.md").read_text() == "real"


def test_a_file_larger_than_the_bound_is_an_error(tmp_path: Path) -> None:
    """Neither read whole nor cut in silence."""
    (tmp_path / "big").write_bytes(b"x" * 11)
    assert files.read_plain(tmp_path / "big", limit=11) == b"x" * 11
    with pytest.raises(files.NotPlain, match="larger than 10 bytes"):
        files.read_plain(tmp_path / "big", limit=10)
    with pytest.raises(DocumentInvalid, match="refusing to write"):
        files.write(tmp_path, "new", b"x" * (files.LIMIT + 1))
    assert files.read(tmp_path, "new") is None


def test_a_write_keeps_the_mode_and_makes_folders(tmp_path: Path) -> None:
    """What was there before is told by its digest, nothing by an empty one; no other file stays behind."""
    assert files.write(tmp_path, "a/b/run.sh", b"one") == ""
    (tmp_path / "a/b/run.sh").chmod(0o750)
    assert files.write(tmp_path, "a/b/run.sh", b"two") == files.digest(b"one")
    assert stat.S_IMODE((tmp_path / "a/b/run.sh").stat().st_mode) == 0o750
    assert _names(tmp_path / "a/b") == ["run.sh"]


@pytest.mark.parametrize(("there", "expect"), [(b"a", b"b"), (None, b"b"), (b"a", None)])
def test_nothing_is_written_over_an_edit(tmp_path: Path, there: bytes | None, expect: bytes | None) -> None:
    """The file must be what it was when it was read, its absence too."""
    if there is not None:
        (tmp_path / "x").write_bytes(there)
    with pytest.raises(files.EditedMeanwhile):
        files.write(tmp_path, "x", b"new", expect=files.digest(expect))
    assert files.read(tmp_path, "x") == there


def test_an_edit_in_the_last_moment_is_seen(tmp_path: Path) -> None:
    """The last look is after all is written, right before the rename; what it refuses leaves no trace."""
    target = tmp_path / "x"
    target.write_bytes(b"old")

    def refuse() -> None:
        assert len(_names(tmp_path)) == 2  # the whole content lies beside it
        raise files.EditedMeanwhile("no", path="x")

    with pytest.raises(files.EditedMeanwhile):
        files.replace(target, b"new", check=refuse)
    assert _names(tmp_path) == ["x"]
    assert target.read_bytes() == b"old"


def test_leftovers_of_killed_writers_go_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    """A leftover is a temporary file that can be locked; they are in no listing."""
    dead, living = (tmp_path / f".x.md.interlock-{digit * 16}.tmp" for digit in "01")
    dead.write_text("half")
    with living.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert files.listing(tmp_path, ".") == []
        files.write(tmp_path, "x.md", b"whole")
        assert _names(tmp_path) == [living.name, "x.md"]


def test_a_name_as_long_as_names_may_be_can_be_written(tmp_path: Path) -> None:
    """The name of the temporary file is cut so that its ending fits."""
    name = "é" * 127
    files.write(tmp_path, name, b"x")
    assert files.read(tmp_path, name) == b"x"


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And an error that says what to do."""
    (tmp_path / "x").write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WorkspaceFailed) as caught:
        files.write(tmp_path, "x", b"new")
    assert "Free some space" in str(caught.value.remedy)
    assert caught.value.exit_code == 5
    assert _names(tmp_path) == ["x"]
    assert (tmp_path / "x").read_bytes() == b"old"


def test_listings_have_plain_files_by_pattern(tmp_path: Path) -> None:
    """Links that lead out and folders are left out; a pattern never leaves the folder."""
    for path in ("docs/a.md", "docs/deep/b.md", "docs/c.txt"):
        files.write(tmp_path, path, b"")
    (tmp_path / "docs/out.md").symlink_to("/etc/hostname")
    assert files.listing(tmp_path, "docs", "*.md") == ["docs/a.md"]
    assert files.listing(tmp_path, "docs", "**/*.md") == ["docs/a.md", "docs/deep/b.md"]
    assert files.listing(tmp_path, "none") == []
    with pytest.raises(PathRefused):
        files.listing(tmp_path, "docs", "../*")


def test_setting_aside_moves_and_never_overwrites(tmp_path: Path) -> None:
    """The place is chosen before and noted; chosen again, or done already, it goes on as if nothing had happened."""
    for text in ("one", "two"):
        files.write(tmp_path, "docs/plan.md", text.encode())
        place = files.place_aside(tmp_path, "docs/plan.md", ".interlock/attic/r1")
        files.set_aside(tmp_path, "docs/plan.md", place)
        files.set_aside(tmp_path, "docs/plan.md", place)
        assert files.read(tmp_path, "docs/plan.md") is None
        assert files.read(tmp_path, place) == text.encode()
    assert place == ".interlock/attic/r1/docs/plan-2.md"


def test_a_folder_and_a_link_can_be_set_aside(tmp_path: Path) -> None:
    """As they are; but not the workspace, nor what holds the attic."""
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    for path in ("dir", "link"):
        files.set_aside(tmp_path, path, files.place_aside(tmp_path, path, "attic"))
    assert (tmp_path / "attic/link").is_symlink()
    for path in (".", "attic"):
        with pytest.raises(PathRefused):
            files.set_aside(tmp_path, path, "attic/x/y")
    with pytest.raises(DocumentInvalid, match="not found"):
        files.set_aside(tmp_path, "nowhere", "attic/z")


def test_a_place_in_the_attic_is_bounded(tmp_path: Path) -> None:
    """Deep below something deep it has a name that stands for the whole path."""
    path = "/".join(["n" * 200] * 20)
    place = files.place_aside(tmp_path, path, "attic")
    assert len(place) < 300
    assert place.startswith("attic/")


def test_what_cannot_be_looked_at_is_told_and_not_taken_for_nothing(tmp_path: Path) -> None:
    """A name longer than names may be is an error with a sentence, never an absence."""
    with pytest.raises(DocumentInvalid, match="cannot read"):
        files.read(tmp_path, "x" * 300)

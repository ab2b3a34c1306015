"""Files of the workspace: nothing hangs, nothing is half written, no path leads out."""

from __future__ import annotations

import errno
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

REFUSED = {"": "empty", "a\0b": "NUL", "\ud800": "valid text", "/etc/passwd": "absolute", "a/../../b": "'..'"}


@pytest.mark.req("RUN-19")
@pytest.mark.parametrize(("path", "why"), REFUSED.items())
def test_a_path_that_is_not_relative_and_plain_is_refused(path: str, why: str) -> None:
    """Whatever is on disk; the error says why."""
    with pytest.raises(PathRefused, match=why) as caught:
        files.inside(Path("/top"), path)
    assert caught.value.exit_code == 2


@given(
    st.lists(st.text(st.characters(blacklist_characters="\0/", blacklist_categories=["Cs"]), min_size=1), min_size=1)
)
def test_what_is_accepted_stays_below_the_top(parts: list[str]) -> None:
    """Whatever names git can hold."""
    if ".." not in parts:
        assert files.inside(Path("/top"), "/".join(parts)).is_relative_to("/top")


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
            files.read(top, path)
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


def _socket(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(place.parent)  # the name of a socket must be short
        try:
            server.bind(place.name)
        finally:
            os.chdir(here)


@pytest.mark.req("RUN-19")
@pytest.mark.parametrize("plant", [os.mkfifo, _socket, Path.mkdir, lambda place: place.symlink_to("/dev/null")])
def test_what_is_no_plain_file_is_an_error_at_once(tmp_path: Path, plant: Callable[[Path], None]) -> None:
    """A pipe without a writer once hung the engine for good; a link to a device is looked at, never opened."""
    plant(tmp_path / "output.md")
    with pytest.raises(OSError) as caught:
        files.read_plain(tmp_path / "output.md", follow=True)
    assert caught.value.errno in (errno.ENXIO, errno.EISDIR)
    with pytest.raises((DocumentInvalid, PathRefused)):
        files.read(tmp_path, "output.md")


@pytest.mark.req("RUN-19")
def test_what_cannot_be_read_whole_is_an_error_and_never_an_absence(tmp_path: Path) -> None:
    """Neither cut in silence, nor taken for nothing. A document that is a link is read through it; what lies in a run's
    folder never is."""
    (tmp_path / "big").write_bytes(b"x" * 11)
    (tmp_path / "link").symlink_to("big")
    assert files.read(tmp_path, "link") == b"x" * 11
    with pytest.raises(OSError, match="symlink"):
        files.read_plain(tmp_path / "link")
    assert files.read_plain(tmp_path / "big", limit=11) == b"x" * 11
    with pytest.raises(OSError, match="larger than 10 bytes"):
        files.read_plain(tmp_path / "big", limit=10)
    assert files.read(tmp_path, "big/there/is/none") is None
    with pytest.raises(DocumentInvalid, match="cannot read"):
        files.read(tmp_path, "x" * 300)


@pytest.mark.req("RUN-19")
def test_without_descriptors_no_document_is_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to do."""
    (tmp_path / "x").write_bytes(b"")

    def none_left(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", none_left)
    with pytest.raises(WorkspaceFailed) as caught:
        files.read(tmp_path, "x")
    assert "ulimit -n" in str(caught.value.remedy)


@pytest.mark.req("RUN-19")
def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the mode that it shall have, under names as long as names may be; a full disk leaves the old one."""
    target = tmp_path / ("é" * 127)
    files.replace(target, b"old", mode=0o640)
    assert (target.read_bytes(), stat.S_IMODE(target.stat().st_mode)) == (b"old", 0o640)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.replace(target, b"new", mode=0o640)
    assert [(place, place.read_bytes()) for place in tmp_path.iterdir()] == [(target, b"old")]


def test_a_document_is_written_whole_with_its_mode_and_never_through_a_link(tmp_path: Path) -> None:
    files.write(tmp_path, "a/b.txt", b"one")
    (tmp_path / "new").touch()
    assert (tmp_path / "a/b.txt").stat().st_mode == (tmp_path / "new").stat().st_mode
    (tmp_path / "a/b.txt").chmod(0o640)
    files.write(tmp_path, "a/b.txt", b"two")
    assert ((tmp_path / "a/b.txt").read_bytes(), (tmp_path / "a/b.txt").stat().st_mode & 0o777) == (b"two", 0o640)
    (tmp_path / "link").symlink_to("a/b.txt")
    with pytest.raises(PathRefused):
        files.write(tmp_path, "link", b"three")
    place = files.move(tmp_path, "a/b.txt", tmp_path / "attic")  # and set aside once
    assert (place, (tmp_path / place).read_bytes()) == ("attic/a/b.txt", b"two")
    files.write(tmp_path, "a/b.txt", b"new")
    assert files.move(tmp_path, "a/b.txt", tmp_path / "attic") == place
    assert (tmp_path / "a/b.txt").read_bytes() == b"new"

"""Single files: nothing hangs, nothing is half written, nothing of a killed write stays."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.documents import DocumentState, Store
from interlock.documents.files import LEFTOVER, NotPlain, read_plain, remove_leftovers, replace_file, replacing
from interlock.errors import DocumentInvalid, WorkspaceFailed


def pipe(place: Path) -> None:
    os.mkfifo(place)


def listening(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        # The name of a socket may have 108 bytes: it is made from inside its folder.
        here = Path.cwd()
        os.chdir(place.parent)
        try:
            made.bind(place.name)
        finally:
            os.chdir(here)


IN_THE_WAY = pytest.mark.parametrize("left", [pipe, listening], ids=["pipe", "socket"])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    root = tmp_path / "workspace"
    root.mkdir()
    return Store(root, root / ".interlock/attic")


@pytest.fixture(autouse=True)
def not_for_ever() -> Iterator[None]:
    """Whatever waits for somebody at the other end of a pipe is ended here, and fails."""

    def waited(*_: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, waited)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.req("LY-40")
@IN_THE_WAY
def test_what_is_no_file_blocks_no_reader(store: Store, left: Callable[[Path], None]) -> None:
    """Facts, reading and listing say what is there, at once."""
    left(store.root / "state.md")
    facts = store.facts("state.md")
    assert (facts.exists, facts.plain, facts.content) == (True, False, None)
    assert store.read("state.md").state is DocumentState.UNREADABLE
    assert store.list(".") == []
    (store.root / "link.md").symlink_to("state.md")
    assert not store.facts("link.md").plain
    with pytest.raises(NotPlain):
        read_plain(store.root / "state.md")


@pytest.mark.req("LY-40")
@IN_THE_WAY
def test_what_is_no_file_blocks_no_writer(store: Store, left: Callable[[Path], None]) -> None:
    """It is neither written to nor replaced: a clean error says what stands there. It can be set aside."""
    left(store.root / "state.md")
    for expect in (None, "", "0" * 64):
        with pytest.raises(WorkspaceFailed, match=r"cannot write state\.md: is not a plain file") as caught:
            store.write("state.md", "x", expect=expect)
        assert "move it away" in str(caught.value.remedy)
    store.set_aside("state.md", "run")
    assert store.write("state.md", "x").before == ""


@pytest.mark.req("LY-40")
def test_a_device_is_not_even_opened(store: Store) -> None:
    """Opening one may already do something. Links out of the workspace are refused before."""
    (store.root / "zero").symlink_to("/dev/zero")
    assert store.read("zero").state is DocumentState.UNREADABLE
    with pytest.raises(NotPlain):
        read_plain(Path("/dev/zero"))
    with pytest.raises(OSError, match="symlink"):
        read_plain(store.root / "zero")


@pytest.mark.req("LY-40")
def test_a_pipe_that_takes_the_place_of_a_file_in_the_last_moment_blocks_nobody(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the opening: the opening does not wait, and looks again."""
    place = store.root / "state.md"
    place.write_text("x")
    opened = os.open

    def swapped(path: object, *rest: int, **more: int) -> int:
        if path == place:
            place.unlink()
            os.mkfifo(place)
        return opened(path, *rest, **more)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(os, "open", swapped)
    assert store.read("state.md").state is DocumentState.UNREADABLE


@pytest.mark.req("CM-02", "LY-42")
def test_a_failed_replacement_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    """Whatever goes wrong on the way."""
    place = tmp_path / "a"
    replace_file(place, b"old")
    with pytest.raises(ZeroDivisionError), replacing(place) as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert place.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.req("LY-42")
def test_a_killed_write_is_cleared_up_by_the_next_one(store: Store) -> None:
    """The temporary file of a process that is gone; a file of a living one stays until that has ended."""
    store.write("a.md", "old")
    writer = subprocess.Popen([sys.executable, "-c", SLOW, str(store.root / "a.md")], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.readline()
    assert len(leftovers(store.root)) == 1
    Store(store.root, store.root / "attic").write("b.md", "x")
    assert len(leftovers(store.root)) == 1
    writer.kill()
    writer.wait()
    writer.stdout.close()
    Store(store.root, store.root / "attic").write("b.md", "y")
    assert leftovers(store.root) == []
    assert store.read("a.md").text == "old"


SLOW = """
import signal, sys
from pathlib import Path
from interlock.documents.files import replacing
with replacing(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("written", flush=True)
    signal.pause()
"""


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if LEFTOVER.fullmatch(path.name)]


@pytest.mark.req("LY-42")
def test_only_what_can_be_locked_and_is_a_file_is_removed(tmp_path: Path) -> None:
    """A pipe, a link, a folder of such a name, and a file that somebody holds stay."""
    names = [f".{kind}.interlock-0123456789abcdef.tmp" for kind in ("file", "held", "pipe", "link", "folder")]
    file, held, pipe_, link, folder = (tmp_path / name for name in names)
    file.write_text("x")
    held.write_text("x")
    os.mkfifo(pipe_)
    link.symlink_to(tmp_path / "mine")
    (tmp_path / "mine").write_text("a person's")
    folder.mkdir()
    with held.open("rb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert remove_leftovers(tmp_path) == [file]
    assert (tmp_path / "mine").read_text() == "a person's"
    assert remove_leftovers(tmp_path) == [held]
    assert remove_leftovers(tmp_path / "none") == []


@pytest.mark.req("LY-42")
def test_a_writer_whose_temporary_file_was_cleared_away_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever clears up may find the file in the moment before it is locked."""
    removed = []
    flock = fcntl.flock

    def late(descriptor: int, operation: int) -> None:
        if not removed:
            removed.extend(path for path in tmp_path.iterdir() if LEFTOVER.fullmatch(path.name))
            removed[0].unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    replace_file(tmp_path / "a", b"x")
    assert len(removed) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.req("LY-42")
def test_where_there_are_no_locks_nothing_is_taken_for_a_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing works; clearing up cannot tell whose file it is."""

    def none(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    replace_file(tmp_path / "a", b"x")
    (tmp_path / ".a.interlock-0123456789abcdef.tmp").write_text("x")
    assert remove_leftovers(tmp_path) == []


FULL = """
import resource, sys
from pathlib import Path
from interlock.documents import Store
from interlock.errors import InterlockError
store = Store(Path(sys.argv[1]), Path(sys.argv[1], "attic"))
kind, limit = getattr(resource, sys.argv[2]), int(sys.argv[3])
store.write("first.md", "x")
resource.setrlimit(kind, (limit, limit))
try:
    store.write("a.md", "n" * 5000)
    print("written")
except InterlockError as error:
    print(type(error).__name__, error.exit_code, error.what, error.remedy, sep="|")
"""


@pytest.mark.req("LY-42")
@pytest.mark.parametrize(
    ("kind", "limits", "word"),
    [("RLIMIT_FSIZE", (0, 1, 4096, 4999), "Free some space"), ("RLIMIT_NOFILE", (3, 4), "ulimit -n")],
)
def test_no_room_and_no_descriptors_are_said_with_what_to_do(
    store: Store, kind: str, limits: tuple[int, ...], word: str
) -> None:
    """The old file stays, nothing else is left; exit 5."""
    for limit in limits:
        store.write("a.md", "old")
        done = subprocess.run(
            [sys.executable, "-c", FULL, str(store.root), kind, str(limit)], capture_output=True, text=True, check=True
        )
        if done.stdout != "written\n":
            assert done.stdout.startswith("WorkspaceFailed|5|cannot write a.md: ")
            assert word in done.stdout
            assert store.read("a.md").text == "old"
        assert kind == "RLIMIT_NOFILE" or done.stdout != "written\n"
        assert leftovers(store.root) == []


@pytest.mark.req("LY-42")
def test_a_folder_that_vanishes_while_it_is_written_to_is_an_error_that_says_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No half file, no fault of ours."""
    store.write("folder/a.md", "old")
    sync = os.fsync

    def vanish(descriptor: int) -> None:
        sync(descriptor)
        for path in (store.root / "folder").iterdir():
            path.unlink()
        (store.root / "folder").rmdir()

    monkeypatch.setattr(os, "fsync", vanish)
    with pytest.raises(WorkspaceFailed, match="no such file") as caught:
        store.write("folder/a.md", "new")
    assert "put it back" in str(caught.value.remedy)


@pytest.mark.req("LY-42")
def test_a_text_that_is_none_is_refused_before_anything_is_touched(store: Store) -> None:
    """Half a character cannot be written."""
    with pytest.raises(DocumentInvalid, match="not valid Unicode"):
        store.write("a.md", "\udce9")
    assert list(store.root.iterdir()) == []


def test_a_name_for_a_temporary_file_fits_any_file_system() -> None:
    """Also beside a file whose name is as long as names may be, in letters of several bytes."""
    with tempfile.TemporaryDirectory() as folder:
        replace_file(Path(folder, "ä" * 127), b"x")
        replace_file(Path(folder, "x" * 255), b"x")
        assert len(list(Path(folder).iterdir())) == 2

"""Who holds a lock, and who started us: a process is known by more than its number."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.engine import processes
from interlock.engine.locks import Holder, Lock
from interlock.engine.nesting import engines_above, find_parent, is_nested
from interlock.engine.processes import seen, start_of, this_process
from interlock.errors import Locked, WorkspaceFailed


def note(root: Path, holder: Holder, name: str = "toy-1") -> Path:
    folder = root / ".interlock" / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{name}.json"
    place.write_text(json.dumps(holder.to_json()))
    return place


def of_parent() -> Holder:
    """The note that our parent would have written, were it the engine."""
    parent = seen(os.getppid())
    return replace(Holder.me("run-1"), pid=parent.pid, start=parent.start)


@pytest.mark.req("LY-41", "CM-37")
def test_an_engine_above_us_is_found_by_its_note(tmp_path: Path) -> None:
    """Host, boot, namespace, number and start agree: whatever our environment says, it started us."""
    note(tmp_path, of_parent())
    assert engines_above(tmp_path) == ["run-1"]
    assert is_nested({}, tmp_path)


@pytest.mark.req("LY-41")
@pytest.mark.parametrize(
    "other",
    [
        {"start": "1"},
        {"start": ""},
        {"boot": "another start of the machine"},
        {"boot": ""},
        {"namespace": "pid:[1]"},
        {"host": "elsewhere"},
    ],
    ids=str,
)
def test_a_number_that_is_used_again_is_nobody_above_us(tmp_path: Path, other: dict[str, str]) -> None:
    """The process of that number was another one, or is one of another container: nothing is refused."""
    note(tmp_path, replace(of_parent(), **other))
    assert engines_above(tmp_path) == []
    assert find_parent({}, tmp_path) is None


@pytest.mark.req("LY-41")
def test_a_note_of_an_earlier_version_proves_nothing_and_is_read(tmp_path: Path) -> None:
    """It has a bare number: it names a holder, and never a parent."""
    place = note(tmp_path, of_parent())
    old = {"pid": os.getppid(), "host": socket.gethostname(), "started": "2026-01-04T12:00:00+00:00", "run": "run-0"}
    place.write_text(json.dumps(old))
    holder = Holder.read(place)
    assert holder is not None
    assert (holder.run, holder.process, holder.lives) == ("run-0", None, False)
    assert engines_above(tmp_path) == []
    assert Lock(place.parent, "toy-1").acquire("run-2") == holder


@pytest.mark.req("LY-41")
def test_a_note_of_a_later_version_is_read_as_far_as_it_is_known(tmp_path: Path) -> None:
    """What nobody knows yet is passed over."""
    place = note(tmp_path, Holder.me("run-1"))
    place.write_text(json.dumps({**json.loads(place.read_bytes()), "colour": "red"}))
    assert Holder.read(place) == Holder.me("run-1")


@pytest.mark.req("LY-41", "CM-01")
@pytest.mark.parametrize(
    "other",
    [
        {},
        {"start": "1"},
        {"namespace": "pid:[1]"},
        {"host": "a-container-with-a-name-of-its-own"},
        {"boot": "before the restart"},
    ],
    ids=str,
)
def test_a_free_lock_of_this_machine_is_taken_whoever_the_note_names(tmp_path: Path, other: dict[str, str]) -> None:
    """A living process of the same number, another namespace or host name on this machine: nobody is locked out."""
    holder = replace(Holder.me("run-1"), **other)
    place = note(tmp_path, holder)
    lock = Lock(place.parent, "toy-1")
    assert lock.acquire("run-2") == holder
    now = lock.holder()
    assert now is not None
    assert now.process == this_process()
    lock.release()


@pytest.mark.req("LY-41", "EN-39")
def test_another_machine_needs_a_persons_word(tmp_path: Path) -> None:
    """Neither host nor boot are ours: our lock says nothing about it."""
    place = note(tmp_path, replace(Holder.me("run-1"), host="elsewhere", boot="theirs"))
    lock = Lock(place.parent, "toy-1")
    with pytest.raises(Locked) as caught:
        lock.acquire("run-2")
    assert "--take-over" in str(caught.value.remedy)
    assert lock.is_free()
    lock.acquire("run-2", take_over=True)
    lock.release()


@pytest.mark.req("LY-41", "LY-42")
@pytest.mark.parametrize("content", [b"", b"[]", b"null", b'{"pid":1}', b"\xff", b"[" * 9000, b"x" * 20_000])
def test_an_odd_note_locks_nobody_out(tmp_path: Path, content: bytes) -> None:
    """It says nothing: the lock itself decides."""
    place = note(tmp_path, Holder.me("run-1"))
    place.write_bytes(content)
    assert Holder.read(place) is None
    assert engines_above(tmp_path) == []
    lock = Lock(place.parent, "toy-1")
    assert lock.acquire("run-2") is None
    lock.release()


@pytest.mark.req("LY-40")
def test_a_pipe_in_place_of_a_note_blocks_nobody(tmp_path: Path) -> None:
    """Neither whoever looks for engines nor whoever takes the lock."""
    place = note(tmp_path, Holder.me("run-1"))
    place.unlink()
    os.mkfifo(place)
    assert engines_above(tmp_path) == []
    lock = Lock(place.parent, "toy-1")
    assert lock.acquire("run-2") is None
    assert place.is_file()
    lock.release()


@pytest.mark.req("LY-41")
def test_looking_whether_a_lock_is_free_leaves_no_trace(tmp_path: Path) -> None:
    """Nor does it need leave to write there."""
    lock = Lock(tmp_path / "locks", "toy-1")
    assert lock.is_free()
    assert not (tmp_path / "locks").exists()


HOLDER = """
import sys
from pathlib import Path
from interlock.engine.locks import Lock
lock = Lock(Path(sys.argv[1]), "toy-1")
lock.acquire("run-1")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.req("LY-41", "CM-01")
def test_a_lock_is_known_to_be_held_and_freed_by_the_death_of_its_holder(tmp_path: Path) -> None:
    """The note says which process it is; killed, that process locks nobody out."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        lock = Lock(tmp_path, "toy-1")
        assert not lock.is_free()
        known = lock.holder()
        assert known is not None
        assert (known.pid, known.lives) == (holder.pid, True)
        with pytest.raises(Locked, match="run-1"):
            lock.acquire("run-2")
        holder.kill()
    dead = lock.acquire("run-2")
    assert dead == known
    assert not known.lives
    lock.release()


@pytest.mark.req("LY-42")
def test_a_lock_that_cannot_be_taken_says_what_to_do(tmp_path: Path) -> None:
    """A file stands where the folder should be: exit 5, and no fault of ours."""
    (tmp_path / "locks").write_text("")
    with pytest.raises(WorkspaceFailed) as caught:
        Lock(tmp_path / "locks", "toy-1").acquire("run-1")
    assert caught.value.exit_code == 5
    assert caught.value.remedy is not None


@pytest.mark.req("LY-41")
def test_the_start_of_a_process_is_found_whatever_it_is_called(tmp_path: Path) -> None:
    """A program's name may have brackets and spaces; a process that is gone has no start."""
    program = tmp_path / ") 1 2 (x"
    shutil.copy(shutil.which("cat") or "/bin/cat", program)
    with subprocess.Popen([program], stdin=subprocess.PIPE) as process:
        start = start_of(process.pid)
        assert float(start) >= float(start_of(os.getpid()))
        assert start_of(process.pid) == start
    assert start_of(process.pid) == ""


@pytest.mark.req("LY-41")
def test_this_process_is_the_same_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked twice it is equal; of another boot or namespace it is another."""
    assert this_process() == seen(os.getpid())
    assert this_process().boot
    monkeypatch.setattr(processes, "namespace_of", lambda _pid: "pid:[1]")
    assert this_process().namespace == "pid:[1]"

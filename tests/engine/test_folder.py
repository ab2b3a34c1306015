"""A run's folder: objects, messages, locks (RUN-01, RUN-07, RUN-19)."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.folder import Message, RunFolder, holder, locked
from interlock.errors import JournalDamaged, Locked

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def born(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "run-1")
    folder.settle()
    return folder


@pytest.mark.req("RUN-11")
def test_nothing_is_on_disk_before_the_first_effect(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run-1")
    digest = folder.put(b"late")
    assert folder.get(digest) == b"late"
    assert folder.messages() == []
    assert list(tmp_path.iterdir()) == []
    folder.settle()
    assert RunFolder(folder.path).get(digest) == b"late"


@pytest.mark.parametrize("damage", [lambda place: place.write_bytes(b"other"), Path.unlink], ids=["changed", "gone"])
def test_an_object_that_is_not_what_was_put_is_damage_and_is_put_anew(tmp_path: Path, damage: Any) -> None:
    folder = born(tmp_path)
    for content in (b"", b"\xff\xfe\0"):
        digest = folder.put(content)
        assert folder.get(digest) == content
        damage(folder.path / "objects" / digest)
        with pytest.raises(JournalDamaged):
            folder.get(digest)
        assert folder.get(folder.put(content)) == content


@pytest.mark.req("RUN-07")
def test_messages_wait_in_order_until_they_are_taken(tmp_path: Path) -> None:
    folder = born(tmp_path)
    for number, what in enumerate(("approve", "reject", "cancel")):
        folder.say(Message(what=what, who="ann", at=NOW + timedelta(seconds=number), note="\udcff\0`"))  # type: ignore[arg-type]
    told = folder.messages()
    assert [message.what for _, message in told] == ["approve", "reject", "cancel"]
    folder.taken(told[0][0])
    folder.taken(told[0][0])  # by a process that died meanwhile
    assert [message.what for _, message in folder.messages()] == ["reject", "cancel"]


@pytest.mark.req("RUN-19")
def test_odd_files_in_the_inbox_block_nobody(tmp_path: Path) -> None:
    folder = born(tmp_path)
    inbox = folder.path / "inbox"
    os.mkfifo(inbox / "a.json")
    (inbox / "b.json").symlink_to("/dev/zero")
    (inbox / "c.json").mkdir()
    (inbox / "d.json").write_bytes(b"[" * 100_000)
    (inbox / "e.json").write_bytes(b'{"what": "approve"}')
    (inbox / ".f.json.123").write_bytes(b"half")
    with (inbox / "g.json").open("wb") as file:
        file.truncate(10_000_000_000)
    folder.say(Message(what="cancel", who="ann", at=NOW))
    assert [message.what for _, message in folder.messages()] == ["cancel"]


HOLDS = """
import sys
from pathlib import Path
from interlock.engine.folder import locked
with locked(Path(sys.argv[1]), "run x", "run-1"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.req("RUN-07")
def test_a_lock_is_held_by_one_named_and_free_when_its_process_is_killed(tmp_path: Path) -> None:
    place = tmp_path / "run-1" / "lock"
    assert holder(place) is None
    with locked(place, "run run-1"):
        assert (holder(place) or {})["pid"] == os.getpid()
        with pytest.raises(Locked), locked(place, "run run-1"):  # two of one process are two
            pass
    assert holder(place) is None
    with subprocess.Popen([sys.executable, "-c", HOLDS, place], stdin=-1, stdout=-1) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert (holder(place) or {}).get("pid") == other.pid
        with pytest.raises(Locked, match=str(other.pid)) as caught, locked(place, "run run-1"):
            pass
        assert caught.value.remedy == "Watch it: interlock watch run-1"
        other.kill()
        other.wait()
    with locked(place, "run run-1"):
        pass


def test_a_lock_whose_note_is_nonsense_still_locks(tmp_path: Path) -> None:
    place = tmp_path / "lock"
    place.write_bytes(b"[nonsense")
    assert holder(place) is None
    with locked(place, "it"):
        place.write_bytes(b"\xff")
        assert holder(place) == {}
        with pytest.raises(Locked, match=r"process \?"), locked(place, "it"):
            pass

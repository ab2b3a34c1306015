"""The journal of a run on its way: read once and checked as it grows, whatever was done to its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.engine.folder import RunFolder
from interlock.engine.head import Mark
from interlock.engine.identity import Identity, identity_bytes
from interlock.engine.journal import Journal, stamp_now
from interlock.engine.keys import sha256
from interlock.errors import JournalDamaged
from interlock.fleet.growing import GrowingJournal


@pytest.fixture
def run(tmp_path: Path) -> tuple[RunFolder, Journal]:
    """A run whose journal has three lines."""
    folder = RunFolder(tmp_path, "toy-1")
    content = identity_bytes(Identity("toy-1", "toy", "x", {}, {}, "1", "2026-01-01", order=1))
    journal = Journal(folder.medium(), run_id="toy-1", genesis=sha256(content), clock=stamp_now, held=True)
    for event in ("run.start", "note", "note"):
        journal.append(event)
    folder.create(content)
    journal.release()
    return folder, journal


@pytest.mark.req("WK-18")
def test_a_look_reads_what_came_since(run: tuple[RunFolder, Journal]) -> None:
    """What was read is not read again: lines that are closed cost nothing, however many they are."""
    folder, journal = run
    growing = GrowingJournal(folder)
    assert [line.seq for line in growing.look()] == [1, 2, 3]
    assert growing.look() == []
    journal.append("gate.opened")
    place = folder.path / "journal.jsonl"
    with place.open("r+b") as file:
        file.write(b"#")  # nobody looks there any more; whoever appends does
    assert [line.event for line in growing.look()] == ["gate.opened"]
    assert growing.mark(4) == Mark(4, journal.head)
    assert growing.begins_with(Mark(4, journal.head))
    assert not growing.begins_with(Mark(3, journal.head)) and not growing.begins_with(Mark(5, journal.head))
    assert [line.event for line in growing.telling(3)] == ["run.start"]
    assert [line.event for line in growing.telling(4)] == ["run.start", "gate.opened"]
    assert growing.between(3, 4) == place.read_bytes().splitlines(keepends=True)[3]
    assert growing.between(4, 4) == b""


def test_what_is_being_written_is_no_line_yet(run: tuple[RunFolder, Journal]) -> None:
    """Half a line is left for the next look; a whole one whose end of line is missing counts."""
    folder, _ = run
    place = folder.path / "journal.jsonl"
    whole = place.read_bytes()
    half = whole.rindex(b"\n", 0, -1) + 20
    place.write_bytes(whole[:half])
    growing = GrowingJournal(folder)
    assert [line.seq for line in growing.look()] == [1, 2]
    place.write_bytes(whole[:-1])
    assert [line.seq for line in growing.look()] == [3]
    assert growing.between(0, 3) == whole
    assert growing.look() == []
    place.write_bytes(whole)
    assert growing.look() == []


def test_a_journal_that_was_mended_is_read_anew(run: tuple[RunFolder, Journal]) -> None:
    """A file that is another one, or shorter: all of it came; a line that does not follow is damage."""
    folder, _ = run
    place = folder.path / "journal.jsonl"
    whole = place.read_bytes()
    growing = GrowingJournal(folder)
    growing.look()
    place.with_name("new").write_bytes(whole)
    place.with_name("new").replace(place)
    assert [line.seq for line in growing.look()] == [1, 2, 3]
    place.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))
    assert [line.seq for line in growing.look()] == [1, 2]
    with place.open("ab") as file:
        file.write(whole.splitlines(keepends=True)[0])
    with pytest.raises(JournalDamaged):
        growing.look()

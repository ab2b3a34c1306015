"""The journal: typed lines in a chain, whatever happens to its bytes (RUN-03, RUN-06, RUN-21)."""

from __future__ import annotations

import errno
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.documents.files import sha256
from interlock.engine import events as ev
from interlock.engine.journal import FIRST, Journal, Memory, OnDisk, Unknown, lines_of, mend, read_lines
from interlock.engine.view import fold
from interlock.errors import JournalDamaged, WorkspaceFailed
from tests.engine.bench import Bench

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
TEXTS = st.text(st.characters(codec=None), max_size=20)  # half surrogates and all


def notes(count: int) -> bytes:
    journal = Journal(medium := Memory())
    for number in range(count):
        journal.append(AT + timedelta(seconds=number), f"note#{number}", ev.Noted(name="n", facts={"n": number}))
    journal.sync()
    return bytes(medium.content)


def forged(event: Any, *, number: int = 1, prev: str = FIRST) -> bytes:
    """A line as another version of interlock may have written it."""
    body = json.dumps({"seq": number, "at": AT.isoformat(), "key": "k#1", "event": event, "prev": prev}).encode()
    return body[:-1] + f',"hash":"{sha256(body)}"}}\n'.encode()


@pytest.mark.req("RUN-03")
@given(st.dictionaries(TEXTS, st.recursive(st.none() | st.booleans() | st.integers() | TEXTS, st.lists, max_leaves=5)))
def test_what_is_read_is_what_was_appended(facts: dict[str, Any]) -> None:
    journal = Journal(medium := Memory())
    line = journal.append(AT, "a/b#1", ev.Noted(name="n", facts=facts))
    journal.sync()
    assert Journal(Memory(bytes(medium.content))).lines == [line]


def test_nothing_is_written_before_the_first_sync(tmp_path: Path) -> None:
    journal = Journal(OnDisk(tmp_path / "journal.jsonl"))
    journal.append(AT, "", ev.Warned(text="a"))
    assert not (tmp_path / "journal.jsonl").exists()
    journal.sync()
    journal.append(AT, "", ev.Warned(text="b"))
    assert [line.event.text for line in read_lines(tmp_path / "journal.jsonl")] == ["a", "b"]  # type: ignore[attr-defined]


@pytest.mark.req("RUN-06")
@settings(deadline=None)
@given(st.integers(0, 5), st.data())
def test_torn_anywhere_whole_lines_stand_and_the_next_one_follows(count: int, data: st.DataObject) -> None:
    """A last line that is whole but for its newline is kept; anything less is cut when the next one is written."""
    content = notes(count)
    size = data.draw(st.integers(0, len(content)))
    medium = Memory(content[:size])
    whole = sum(len(line) + 1 for line in content[: size + 1].split(b"\n")[:-1])
    kept = content[: size + 1].count(b"\n")
    journal = Journal(medium)
    assert len(journal.lines) == len(lines_of(content[:size], "")) == kept
    assert bool(journal.torn) == (size > whole and kept < count)
    journal.append(AT, "", ev.Warned(text="on"))
    journal.sync()
    assert len(Journal(Memory(bytes(medium.content))).lines) == kept + 1


@pytest.mark.req("RUN-06")
@settings(deadline=None)
@given(st.integers(2, 5), st.data())
def test_any_other_damage_names_its_line_and_is_mended_by_a_cut(count: int, data: st.DataObject) -> None:
    content = bytearray(notes(count))
    place = data.draw(st.integers(0, len(content) - 2))  # not the last newline: that is a tear
    number = bytes(content[:place]).count(b"\n") + 1
    change = data.draw(st.integers(1, 255))
    content[place] ^= change
    with pytest.raises(JournalDamaged) as caught:
        Journal(Memory(bytes(content)))
    assert caught.value.line == number
    assert "--mend" in (caught.value.remedy or "")


def test_mended_the_rest_lies_beside_and_a_sound_one_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run-1" / "journal.jsonl"
    path.parent.mkdir()
    first, second, third = notes(3).splitlines(keepends=True)
    path.write_bytes(first + second.replace(b"note", b"goat") + third)
    count, beside = mend(path)
    assert (count, path.read_bytes()) == (1, first)
    assert beside is not None
    assert beside.read_bytes().endswith(third)
    assert mend(path) == (1, None)
    assert len(Journal(OnDisk(path)).lines) == 1


@pytest.mark.parametrize("order", [[0, 2], [1, 0, 2], [0, 1, 2, 2], [0, 1, 2, 3]])
@pytest.mark.req("RUN-06")
def test_whole_lines_that_do_not_follow_each_other_are_damage(order: list[int]) -> None:
    """One is missing, in another order, one twice, one of another chain."""
    lines = [*notes(3).splitlines(keepends=True), forged({"e": "warned", "text": "x"}, number=4)]
    with pytest.raises(JournalDamaged):
        Journal(Memory(b"".join(lines[place] for place in order)))


@pytest.mark.req("RUN-21")
@pytest.mark.parametrize(
    "event", [{"e": "of tomorrow", "a": 1}, {"e": "warned", "text": "x", "more": 1}, {"e": "warned"}, {}, [], 7, None]
)
def test_a_line_of_another_version_is_shown_as_it_is(event: Any) -> None:
    (line,) = Journal(Memory(forged(event))).lines
    assert line.event == Unknown(e=event.get("e", "?") if isinstance(event, dict) else "?", facts=event)
    assert fold([line]).unknown == [line]


@pytest.mark.req("RUN-21")
def test_any_line_of_a_run_may_be_of_another_version_and_the_rest_is_still_told() -> None:
    bench = Bench()
    bench.start()
    for place, line in enumerate(bench.lines):
        lines = [*bench.lines]
        lines[place] = line._replace(event=Unknown(e="of tomorrow"))
        view = fold(lines)
        assert view.unknown == [lines[place]]
        json.dumps(view.to_json())


def test_a_write_that_fails_leaves_no_half_line_and_ends_the_writing(tmp_path: Path, monkeypatch: Any) -> None:
    """A full disk: the half line is taken back, and this process takes no further one."""
    path = tmp_path / "journal.jsonl"
    journal = Journal(OnDisk(path))
    journal.append(AT, "", ev.Warned(text="a"))
    journal.sync()
    good, write = path.read_bytes(), os.write

    def half(fd: int, content: bytes) -> int:
        if len(content) < 50:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, bytes(content)[: len(content) // 2])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", half)
        with pytest.raises(WorkspaceFailed, match="no space"):
            journal.append(AT, "", ev.Warned(text="b"))
    assert path.read_bytes() == good
    with pytest.raises(WorkspaceFailed, match="no further line"):
        journal.append(AT, "", ev.Warned(text="c"))
    assert len(Journal(OnDisk(path)).lines) == 1


@pytest.mark.parametrize("sync", [True, False])
def test_what_cannot_be_synced_takes_no_further_line(tmp_path: Path, monkeypatch: Any, sync: bool) -> None:
    def broken(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    journal = Journal(OnDisk(tmp_path / "journal.jsonl"))
    journal.append(AT, "", ev.Warned(text="a"))
    monkeypatch.setattr(os, "fdatasync" if sync else "write", broken)
    with pytest.raises(WorkspaceFailed):
        journal.sync()
    monkeypatch.undo()
    with pytest.raises(WorkspaceFailed, match="no further line"):
        journal.append(AT, "", ev.Warned(text="b"))

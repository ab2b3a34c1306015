"""The journal, line by line: what is written when, what is looked at, and the words for each kind of damage."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from interlock.engine.head import Head, Mark, disagreements
from interlock.engine.journal import (
    Journal,
    Line,
    MemoryMedium,
    is_chain,
    is_whole,
    read_lines,
    seal_of,
    split_torn,
    stamp_now,
    verify,
    whole_beginning,
)
from interlock.engine.keys import sha256
from interlock.errors import JournalDamaged, WorkspaceFailed

GENESIS = sha256(b"run.json")
NOW = "2026-01-04T12:00:00.000+00:00"


class Watched(MemoryMedium):
    """Tells what was asked of it, and that somebody may have touched it."""

    def __init__(self, content: bytes = b"") -> None:
        super().__init__(content)
        self.asked: list[tuple[Any, ...]] = []
        self.fails = ""
        self.touched = True

    def untouched(self) -> bool:
        return not self.touched

    def confirm(self, lines: Sequence[Line], torn: bytes) -> None:
        self.confirmed = (len(lines), torn)

    def announce(self, settled: Mark, coming: Mark, chunk: bytes) -> None:
        self._note("announce", settled.seq, coming.seq)

    def write(self, chunk: bytes) -> None:
        self._note("write", chunk.count(b"\n"))
        super().write(chunk)

    def sync(self) -> None:
        self._note("sync")

    def settle(self, settled: Mark) -> None:
        self._note("settle", settled.seq)

    def keep(self, content: bytes) -> None:
        self._note("keep", content.count(b"\n"))

    def close(self, settled: Mark) -> None:
        self._note("close", settled.seq)

    def _note(self, what: str, *facts: object) -> None:
        self.asked.append((what, *facts))
        if what == self.fails:
            raise OSError(28, "No space left on device")


def opened(medium: MemoryMedium | None = None, **how: Any) -> Journal:
    return Journal(medium or MemoryMedium(), run_id="toy-1", genesis=GENESIS, clock=lambda: NOW, **how)


def sample(lines: int = 3, text: str = "x") -> bytes:
    medium = MemoryMedium()
    journal = opened(medium)
    for number in range(lines):
        journal.append("note", data={"n": number, "text": text})
    return medium.load()


def foreign(lines: int) -> bytes:
    """The journal of another run."""
    medium = MemoryMedium()
    journal = Journal(medium, run_id="toy-1", genesis="0" * 64, clock=lambda: NOW)
    for number in range(lines):
        journal.append("note", data={"n": number})
    return medium.load()


def rows(raw: bytes) -> list[bytes]:
    return raw.splitlines(keepends=True)


@pytest.mark.req("CM-24")
def test_a_line_is_what_was_appended() -> None:
    """Every field, in memory, for who listens, and when it is read again; what is not said is empty."""
    medium, heard = MemoryMedium(), []
    journal = opened(medium)
    journal.listen(heard.append)
    full = journal.append(
        "end", key="k#1", agent="a", attempt=2, iteration=3, digest="d", data={"out": 1, "del": "\x7f"}
    )
    bare = journal.append("note")
    assert full[:10] == (1, NOW, "toy-1", "end", "k#1", "a", 2, 3, "d", {"out": 1, "del": "\x7f"})
    assert bare[:10] == (2, NOW, "toy-1", "note", None, None, None, None, None, {})
    assert opened(MemoryMedium(medium.load())).lines == journal.lines == heard == [full, bare]
    assert (full.settles, bare.settles) == (True, False)
    assert full.to_bytes() + bare.to_bytes() == medium.load()
    assert full.to_json() == json.loads(rows(medium.load())[0])
    assert b"\x7f" not in medium.load()
    assert journal.head == bare.hash
    assert opened().head == GENESIS


@pytest.mark.req("CM-24")
def test_the_time_of_a_line_is_utc_in_milliseconds() -> None:
    assert datetime.fromisoformat(stamp_now()).utcoffset() == timedelta(0)
    assert len(stamp_now()) == len(NOW)


@pytest.mark.req("EN-08")
def test_only_a_long_line_is_made_smaller() -> None:
    """More than 4,096 bytes, before its hash; what is made of its data is the line's data."""

    def length(text: str) -> int:
        return len(opened().append("note", data={"t": text}).to_bytes()) - len(',"hash":""') - 64 - 1

    room = 4096 - length("")
    for text, smaller in (("x" * room, False), ("x" * (room + 1), True)):
        line = opened().append("note", data={"t": text}, shrink=lambda data: {"short": len(data)})
        assert line.data == ({"short": 1} if smaller else {"t": text})
        assert line.to_bytes().count(b"short") == smaller
    assert opened().append("note", data={"t": "x" * 5000}).data == {"t": "x" * 5000}


@pytest.mark.req("CM-25")
def test_each_line_is_announced_written_synced_and_settled() -> None:
    """In this order, looking for damage before; the points at which a crash matters are between."""
    medium = Watched()
    journal = opened(medium, tripwire=lambda point: medium.asked.append((point,)))
    journal.append("a")
    journal.append("b")
    journal.close()
    once = [("write", 1), ("before-sync",), ("sync",), ("after-sync",)]
    assert medium.asked == [
        *(("announce", 0, 1), *once, ("settle", 1)),
        *(("announce", 1, 2), *once, ("settle", 2)),
        ("close", 2),
    ]
    again = Watched(medium.load())
    opened(again).append("c")
    assert again.confirmed == (2, b"")
    assert again.asked[0] == ("announce", 2, 3)


@pytest.mark.req("EN-24")
def test_until_its_first_effect_a_run_writes_nothing() -> None:
    """Its lines are held, then written together; what comes later goes through at once."""
    medium = Watched()
    journal = opened(medium, held=True)
    journal.append("a")
    journal.append("b")
    journal.check()
    journal.close()
    assert (journal.held, medium.asked) == (True, [])
    medium.touched = False
    journal.release()
    journal.release()
    assert medium.asked == [("announce", 0, 2), ("write", 2), ("sync",), ("settle", 2)]
    assert not journal.held
    assert medium.load() == b"".join(line.to_bytes() for line in journal.lines)
    empty = Watched()
    journal = opened(empty, held=True)
    journal.release()
    journal.close()
    assert empty.asked == []
    assert not opened().held


def test_a_note_that_fails_loses_no_line() -> None:
    """The line is safe already; nor does closing matter then."""
    medium = Watched()
    journal = opened(medium)
    for medium.fails in ("settle", "close"):
        journal.append("a")
        journal.close()
    assert len(journal.lines) == 2


def test_after_a_failure_a_journal_takes_nothing_more() -> None:
    """Whatever failed: the same is said again, nothing is written, nothing is closed."""
    medium = Watched()
    journal = opened(medium)
    journal.append("a")
    medium.fails = "announce"
    with pytest.raises(WorkspaceFailed):
        journal.append("b")
    medium.fails, asked = "", len(medium.asked)
    with pytest.raises(WorkspaceFailed):
        journal.append("b")
    journal.close()
    assert len(medium.asked) == asked

    def die(_point: str) -> None:
        raise KeyboardInterrupt

    journal = opened(MemoryMedium(), tripwire=die)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            journal.append("a")
        journal.tripwire = str
    assert journal.lines == []


@pytest.mark.req("CM-25")
@pytest.mark.parametrize(
    ("found", "what"),
    [
        (b"".join(rows(sample(3))[:1]), "lines 2 to 3 are missing at the end"),
        (sample(5), "lines 4 to 5 were not written by the process that works on the run"),
        (sample(3) + b"{?", "2 bytes were added behind its last line"),
        (sample(2) + rows(sample(3))[2].replace(b'"n":2', b'"n":7'), "was changed: its hash does not fit its content"),
    ],
)
def test_what_somebody_did_to_the_file_meanwhile_is_told(found: bytes, what: str) -> None:
    """Before the next line, with a copy of what the process knows; from then on nothing is taken."""
    medium = Watched()
    journal = opened(medium)
    for number in range(3):
        journal.append("note", data={"n": number, "text": "x"})
    medium.content, medium.asked = bytearray(found), []
    for _ in range(2):
        with pytest.raises(JournalDamaged, match=what):
            journal.append("more")
    assert medium.asked == [("keep", 3)]
    assert medium.load() == found


@pytest.mark.req("CM-25")
def test_another_last_line_is_told() -> None:
    """As long and as well chained as ours; and a copy that cannot be kept hides no damage."""
    medium = Watched()
    journal = opened(medium)
    journal.append("a")
    other = MemoryMedium()
    opened(other).append("b")
    medium.content, medium.fails = bytearray(other.load()), "keep"
    said = "the journal was changed while the run was going on: journal line 1 is not the one that was written"
    with pytest.raises(JournalDamaged) as caught:
        journal.check()
    assert (caught.value.what, caught.value.path) == (said, medium.name)
    assert MemoryMedium().untouched()


@pytest.mark.req("CM-25")
def test_what_was_cut_off_is_quoted_in_part() -> None:
    """Its first 200 bytes, whatever they are."""
    journal = opened(MemoryMedium(sample(1) + b'{"' + b"\xff" * 300))
    assert journal.lines[-1].data == {"bytes": 302, "text": '{"' + "\ufffd" * 198}


@pytest.mark.req("CM-25")
@pytest.mark.parametrize("raw", [sample(1) + b"{", sample(2).rstrip(b"\n")])
def test_behind_a_torn_end_the_file_is_whole_again(raw: bytes) -> None:
    """The torn line is gone, a missing newline is there, and the next line has one of its own."""
    medium = MemoryMedium(raw)
    journal = opened(medium)
    journal.append("next", data={"t": "x" * 5000}, shrink=lambda _data: {"t": "short"})
    assert medium.load() == b"".join(line.to_bytes() for line in journal.lines)
    assert verify(medium.load(), genesis=GENESIS, name="j") == []


@pytest.mark.parametrize(
    ("raw", "whole", "torn"),
    [
        (b"", b"", b""),
        (b"{}", b"{}", b""),
        (b"{}\n", b"{}\n", b""),
        (b"1", b"", b"1"),
        (b"{}\nx", b"{}\n", b"x"),
        (b'{}\n{"b\n', b"{}\n", b'{"b\n'),
        (b"\n{", b"\n", b"{"),
        (b"{}\n" + b"[" * 100_000, b"{}\n", b"[" * 100_000),
    ],
)
def test_what_is_torn(raw: bytes, whole: bytes, torn: bytes) -> None:
    """A last line that is no object, with its newline or without."""
    assert split_torn(raw) == (whole, torn)


@pytest.mark.req("CM-24", "CM-25")
@pytest.mark.parametrize(
    ("raw", "finding"),
    [
        (b"".join(rows(sample(4))[::3]), "journal line 2 has number 4: lines 2 to 3 are missing"),
        (rows(sample())[0] * 2, "journal line 2 has number 1: it was repeated or moved"),
        (
            rows(sample(2, "x"))[0] + rows(sample(2, "y"))[1],
            "journal line 2 does not follow the line before it: the chain is broken",
        ),
        (
            sample(2).replace(GENESIS.encode(), b"f" * len(GENESIS)),
            "journal line 1 was changed: its hash does not fit its content",
        ),
        (foreign(2), "journal line 1 does not belong to this run.json: the chain is broken"),
        (b"{}\n" + sample(1), "journal line 1 is not a journal line"),
        (b"[1]\n" + sample(1), "journal line 1 is not a journal line"),
        (b"?\n" + sample(1), "journal line 1 is not a journal line"),
        (b"[" * 100_000 + b"\n" + sample(1), "journal line 1 is not a journal line"),
        (sample(1).replace(b'"seq":1', b'"seq":"1"'), "journal line 1 is not a journal line"),
        (sample(1).replace(b'"seq":1', b'"seq":true'), "journal line 1 is not a journal line"),
    ],
)
def test_the_words_for_each_damage(raw: bytes, finding: str) -> None:
    """With the line, and with the numbers that are missing; it is no chain by its bytes either."""
    assert not is_chain(raw, genesis=GENESIS, seal_of=seal_of)
    assert verify(raw, genesis=GENESIS, name="j") == [finding]
    with pytest.raises(JournalDamaged) as caught:
        opened(MemoryMedium(raw))
    assert (caught.value.what, caught.value.path) == (finding, MemoryMedium.name)


@pytest.mark.req("CM-25")
def test_a_chain_is_told_by_its_bytes_alone() -> None:
    """Any byte of it that is another one breaks it."""

    def is_one(raw: bytes) -> bool:
        return is_chain(raw, genesis=GENESIS, seal_of=seal_of)

    whole = sample(2)
    assert is_one(whole) and is_one(b"") and is_one(whole[:-1]) and not is_one(whole + b"{")
    for place in range(len(whole) - 1):
        assert not is_one(whole[:place] + b"~" + whole[place + 1 :]), place


@pytest.mark.req("CM-25")
def test_a_torn_end_is_told_beside_other_damage() -> None:
    """Each damage has its sentence."""
    raw = rows(sample())[1] + b"{"
    assert verify(raw, genesis=GENESIS, name="j") == [
        "the last line is torn (1 bytes)",
        "journal line 1 has number 2: lines 1 to 1 are missing",
    ]
    assert verify(b"", genesis=GENESIS, name="j") == []


@pytest.mark.req("CM-25")
def test_the_line_that_was_last_is_known_by_its_hash() -> None:
    """Another journal of the same length is told, and so is one that is shorter; lines behind it do not matter."""
    lines = list(read_lines(sample(), genesis=GENESIS, name="j"))

    def told(number: int, seal: str) -> list[str]:
        head = Head(Mark(number, seal))
        return disagreements(lines, b"", head, head, needed=True)

    for number, line in enumerate(lines, start=1):
        assert told(number, line.hash) == []
        assert told(number, "x") == [f"journal line {number} is not the one that was written"]
    assert told(0, GENESIS) == []
    assert told(5, "x") == ["lines 4 to 5 are missing at the end"]


def test_lines_that_are_known_are_not_read_again() -> None:
    """Whoever opens it has read them: here the file would not even bear it."""
    lines = list(read_lines(sample(), genesis=GENESIS, name="j"))
    again = opened(MemoryMedium(b"{}\n" * 3), known=lines)
    assert again.lines == lines


@pytest.mark.parametrize(("line", "whole"), [(b"{}", True), (b"[]", False), (b"{", False), (b"", False)])
def test_a_line_is_whole_when_it_is_an_object(line: bytes, whole: bool) -> None:
    """Whatever it says."""
    assert is_whole(line) is whole


@pytest.mark.req("CM-25")
def test_the_whole_beginning_ends_before_any_damage() -> None:
    """At a changed line, and at a torn one."""
    one, two, three = rows(sample())
    damaged = one + two + three.replace(b'"n":2', b'"n":7') + b"{"
    assert [line.seq for line in whole_beginning(damaged, genesis=GENESIS, name="j")] == [1, 2]
    assert [line.seq for line in whole_beginning(sample() + b"{", genesis=GENESIS, name="j")] == [1, 2, 3]
    assert all(isinstance(line, Line) for line in whole_beginning(sample(), genesis=GENESIS, name="j"))

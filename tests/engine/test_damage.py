"""A run folder that somebody changed: noticed when it is used, also while the run works, and there is a way on."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine import Ending, Run, Status
from interlock.engine.folder import RunFolder, known_runs, next_order, unreadable_runs
from interlock.engine.head import SIZE, Head, HeadFile, Mark, disagreements
from interlock.engine.identity import Identity, identity_bytes
from interlock.engine.journal import Journal, stamp_now
from interlock.engine.keys import sha256
from interlock.engine.run import behind
from interlock.engine.salvage import put_back_identity, salvage
from interlock.errors import DocumentInvalid, JournalDamaged, WorkspaceFailed
from tests.conformance.harness import Death, Real
from tests.engine.toys import CHAINED, GATED, Work, producing, toy
from tests.proofs import long

Start = Callable[..., Real]
BIG = "x" * 9000


def journal_of(root: Path) -> Path:
    return known_runs(root)[-1].folder.path / "journal.jsonl"


def forged(raw: bytes) -> bytes:
    """A line that fits the chain: whoever can write the file can compute a hash."""
    last = json.loads(raw.splitlines()[-1])
    fields = {**last, "seq": last["seq"] + 1, "event": "gate.decided", "prev": last["hash"]}
    del fields["hash"]
    body = json.dumps(fields, separators=(",", ":")).encode()
    return raw + body[:-1] + b',"hash":"' + sha256(body).encode() + b'"}\n'


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "emptied": lambda raw: b"",
    "removed": lambda raw: None,
    "its last line cut off": lambda raw: b"".join(raw.splitlines(keepends=True)[:-1]),
    "cut in the middle": lambda raw: b"".join(raw.splitlines(keepends=True)[:2]),
    "cut within its last line": lambda raw: raw[:-20],
    "a line changed": lambda raw: raw.replace(b'"event":"run.start"', b'"event":"run.STArt"', 1),
    "its last line changed": lambda raw: raw[:-100] + bytes([raw[-100] ^ 1]) + raw[-99:],
    "a line removed": lambda raw: b"".join([*raw.splitlines(keepends=True)[:1], *raw.splitlines(keepends=True)[2:]]),
    "a forged line added": forged,
    "garbage added": lambda raw: raw + b"garbage",
    "written anew": lambda raw: b'{"seq":1}\n',
}
FIRST = ("emptied", "removed", "cut in the middle", "a line changed", "a forged line added")
EACH_DAMAGE = [*FIRST, *long(*(name for name in DAMAGES if name not in FIRST))]


def apply(place: Path, damage: str) -> None:
    content = DAMAGES[damage](place.read_bytes())
    if content is None:
        place.unlink()
    else:
        place.write_bytes(content)


def crashed(played: Real) -> None:
    """Killed when the third agent was about to be called, with all lines safe."""
    played.dies(Death("dispatch.start", key="three#1", lost=False))
    HeadFile(played.run.folder.path).note(Mark(played.lines[-1].seq, played.lines[-1].hash))


def ended(played: Real) -> None:
    played.go()


@pytest.mark.req("LY-35")
@pytest.mark.parametrize("damage", EACH_DAMAGE)
@pytest.mark.parametrize("state", [crashed, ended], ids=["crashed", "ended"])
def test_a_damaged_journal_is_noticed_and_nothing_of_it_is_lost(real: Start, state, damage: str) -> None:
    """Exit 2, nobody called, the file as it was found; recovered, it has every line again and the run goes on."""
    played = real(CHAINED, Work(), {})
    state(played)
    before, calls = played.raw(), len(played.calls)
    place = journal_of(played.root)
    apply(place, damage)
    found = place.read_bytes() if place.exists() else None
    for use in (played.run.folder.lines, played.go):
        with pytest.raises(JournalDamaged) as caught:
            use()
        assert caught.value.exit_code == 2
        assert f"interlock recover {played.run.identity.run_id}" in str(caught.value.remedy)
    assert played.run.folder.verify() != []
    assert len(played.calls) == calls
    assert (place.read_bytes() if place.exists() else None) == found

    said = salvage(played.run.folder, stamp_now)
    assert said.findings
    assert said.dropped == 0
    assert place.read_bytes().startswith(before)
    told = [] if state is ended else ["journal.recovered"]
    assert [line.event for line in played.lines[said.lines :]] == told
    assert played.run.folder.verify() == []
    if found is not None:
        assert any((place.parent / name).read_bytes() == found for name in said.aside)
    assert played.go().status is Status.COMPLETE
    assert played.agents[:2] == ["one", "two"]
    assert set(played.agents[2:]) == {"three"}


@pytest.mark.req("LY-35")
@pytest.mark.parametrize("damage", EACH_DAMAGE)
def test_a_journal_that_changes_while_the_run_works_is_noticed_at_the_next_line(real: Start, damage: str) -> None:
    """What the process knew is kept; the work that had ended is not done again."""
    done: list[str] = []

    def meddle() -> None:
        if not done:
            done.append(damage)
            apply(journal_of(played.root), damage)

    async def body(run: Run, _work: Work) -> Ending:
        await run.dispatch(producing("one.md", "one"))
        meddle()
        await run.dispatch(producing("two.md", "two"))
        return Ending.complete()

    played = real(toy(body), Work(), {})
    with pytest.raises(JournalDamaged) as caught:
        played.go()
    assert caught.value.exit_code == 2
    assert played.agents == ["one"]
    assert salvage(played.run.folder, stamp_now).dropped == 0
    assert played.go().status is Status.COMPLETE
    assert played.agents == ["one", "two"]


@pytest.mark.req("LY-35")
def test_what_only_looks_like_a_change_is_none(real: Start) -> None:
    """A backup that links the file, a changed mode, another file with the same bytes: the run goes on."""

    def touch() -> None:
        place = journal_of(played.root)
        os.link(place, place.with_name("backup"))
        place.chmod(0o600)
        content = place.read_bytes()
        place.unlink()
        place.write_bytes(content)

    async def body(run: Run, _work: Work) -> Ending:
        await run.dispatch(producing("one.md", "one"))
        touch()
        await run.dispatch(producing("two.md", "two"))
        return Ending.complete()

    played = real(toy(body), Work(), {})
    assert played.go().status is Status.COMPLETE
    assert played.run.folder.verify() == []


@pytest.mark.req("LY-35")
def test_a_journal_can_be_looked_at_between_two_lines(tmp_path: Path) -> None:
    """Whoever works for an hour without a line asks now and then; the file is read only when it was touched."""
    folder, journal = born(tmp_path)
    journal.check()
    place = folder.path / "journal.jsonl"
    os.utime(place, ns=(1, 1))
    journal.check()
    place.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(JournalDamaged, match="lines 1 to 3 are missing"):
            journal.check()


@pytest.mark.req("LY-35")
@pytest.mark.parametrize("damage", EACH_DAMAGE)
def test_nobody_who_would_write_opens_a_damaged_journal(tmp_path: Path, damage: str) -> None:
    """Whatever its caller looked at before: the journal itself refuses."""
    folder, journal = born(tmp_path)
    for event in ("run.start", "note"):
        journal.append(event)
    apply(folder.path / "journal.jsonl", damage)
    with pytest.raises(JournalDamaged):
        folder.journal(stamp_now)


@pytest.mark.req("LY-35")
@pytest.mark.parametrize("damage", ["emptied", "a line changed"])
def test_what_only_the_process_still_knows_is_kept_by_it(tmp_path: Path, damage: str) -> None:
    """Journal and copy are both changed under its hands: it writes down all it knows before it stops."""
    folder, journal = born(tmp_path)
    journal.append("run.start")
    before = (folder.path / "journal.jsonl").read_bytes()
    for name in ("journal.jsonl", "journal.copy"):
        apply(folder.path / name, damage)
    with pytest.raises(JournalDamaged):
        journal.append("note")
    assert (folder.path / "journal.copy").read_bytes() == before
    assert salvage(folder, stamp_now).dropped == 0


@pytest.mark.req("LY-42")
def test_what_failed_first_is_what_is_said(real: Start) -> None:
    """A journal that takes no more lines hides nothing of why the run stops."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.write("a.txt", "a")
        (behind(run).world.records.folder("x").parents[1] / "journal.jsonl").write_bytes(b"")
        raise WorkspaceFailed("the first thing")

    played = real(toy(body), Work(), {})
    with pytest.raises(WorkspaceFailed, match="the first thing"):
        played.go()


@pytest.mark.req("LY-35")
@pytest.mark.parametrize("copy", ["whole", "gone", *long("damaged")])
@pytest.mark.parametrize("note", ["whole", "damaged", *long("gone")])
def test_the_longest_beginning_that_is_left_counts(real: Start, copy: str, note: str) -> None:
    """Journal, copy and note damaged in any combination: what is whole of any of them is put back."""
    played = real(CHAINED, Work(), {})
    crashed(played)
    folder = played.run.folder.path
    lines = played.raw().splitlines(keepends=True)
    (folder / "journal.jsonl").write_bytes(b"".join(lines[:4]))
    spoil(folder / "journal.copy", copy, b"".join(lines[:2]) + b"{")
    spoil(folder / "head", note, b"?" * SIZE)
    with pytest.raises(JournalDamaged):
        played.go()
    said = salvage(played.run.folder, stamp_now)
    assert said.lines == (len(lines) if copy == "whole" else 4)
    assert (said.dropped > 0) == (copy != "whole" and note == "whole")
    assert played.run.folder.verify() == []
    assert played.go().status is Status.COMPLETE


def spoil(place: Path, how: str, content: bytes) -> None:
    if how == "gone":
        place.unlink()
    elif how == "damaged":
        place.write_bytes(content)


@pytest.mark.req("LY-35")
def test_a_run_of_which_nothing_is_left_but_its_identity_begins_anew_when_a_person_says_so(real: Start) -> None:
    """It is not taken for a new run: nobody is called before that."""
    played = real(CHAINED, Work(), {})
    crashed(played)
    for name in ("journal.jsonl", "journal.copy", "head"):
        (played.run.folder.path / name).unlink()
    with pytest.raises(JournalDamaged):
        played.go()
    assert played.agents == ["one", "two"]
    assert salvage(played.run.folder, stamp_now).lines == 0
    assert played.go().status is Status.COMPLETE
    assert len(known_runs(played.root)) == 1


@pytest.mark.req("LY-35", "EN-16")
def test_a_run_that_never_had_a_line_is_open(tmp_path: Path) -> None:
    """Its note says so: the process died between run.json and the first line."""
    folder, _ = born(tmp_path, lines=0)
    assert not (folder.path / "journal.jsonl").exists()
    assert folder.lines() == []
    assert folder.verify() == []


@pytest.mark.req("LY-35", "LY-17")
def test_a_run_of_an_earlier_version_goes_on_and_is_noted_from_then_on(real: Start) -> None:
    """It has no note, or one with a line's number and hash, and no copy; with its first line both are there."""
    played = real(CHAINED, Work(), {})
    crashed(played)
    folder = played.run.folder
    made_old(folder.path)
    assert folder.verify() == []
    assert played.go().status is Status.COMPLETE
    raw = played.raw()
    assert (folder.path / "journal.copy").read_bytes() == raw
    played.overwrite(raw[: raw.rfind(b"\n", 0, -1) + 1])
    assert "missing at the end" in played.run.folder.verify()[0]


def made_old(folder: Path) -> None:
    """The run as a version without order, note and copy would have left it."""
    identity = json.loads((folder / "run.json").read_bytes())
    identity.pop("order")
    content = (json.dumps(identity, indent=2) + "\n").encode()
    prev, lines = sha256(content), []
    for text in (folder / "journal.jsonl").read_bytes().splitlines():
        fields = {**json.loads(text), "prev": prev}
        fields.pop("hash")
        body = json.dumps(fields, separators=(",", ":")).encode()
        prev = sha256(body)
        lines.append(body[:-1] + b',"hash":"' + prev.encode() + b'"}\n')
    (folder / "run.json").write_bytes(content)
    (folder / "journal.jsonl").write_bytes(b"".join(lines))
    (folder / "journal.copy").unlink()
    (folder / "head").write_text(f"{len(lines)} {prev}\n")


@pytest.mark.req("LY-35", "CM-24")
def test_a_damaged_object_is_put_back_from_where_its_content_still_is(real: Start) -> None:
    """Another run that read the same document has it, too; the wrong one is kept."""

    async def body(run: Run, work: Work) -> Ending:
        text = (await run.read("big.md")).text
        await run.write(f"{work.name}.txt", "x")
        await run.dispatch(producing(f"{work.name}.md", "one"))
        return Ending.complete(str(len(text)))

    playbook = toy(body)
    other = real(playbook, Work("other"), {"big.md": BIG})
    other.go()
    played = real(playbook, Work("mine"), {})
    played.dies(Death("dispatch.start", lost=False))
    place = played.run.folder.path / "objects" / sha256(BIG.encode())
    place.write_bytes(b"planted")
    with pytest.raises(JournalDamaged, match="was changed"):
        played.go()
    said = salvage(played.run.folder, stamp_now)
    assert said.mended == (f"objects/{place.name}",)
    assert place.read_bytes() == BIG.encode()
    assert place.with_name(f"{place.name}.damaged-1").read_bytes() == b"planted"
    assert played.go().output == str(len(BIG))


@pytest.mark.req("LY-35")
def test_what_stood_behind_a_lost_object_happens_again(real: Start) -> None:
    """The journal is cut before the line that needs it; the lines from there on are kept beside it."""

    async def body(run: Run, _work: Work) -> Ending:
        await run.dispatch(producing("one.md", "one"))
        text = (await run.read("big.md")).text
        await run.dispatch(producing("two.md", "two"))
        await run.gate("g", "Go on?")
        return Ending.complete(str(len(text)))

    played = real(toy(body), Work(), {"big.md": BIG})
    played.go()
    (played.run.folder.path / "objects" / sha256(BIG.encode())).unlink()
    with pytest.raises(JournalDamaged, match="is missing"):
        played.go()
    before = played.raw()
    said = salvage(played.run.folder, stamp_now)
    assert said.dropped > 0
    assert (played.run.folder.path / said.aside[0]).read_bytes() == before
    assert played.go().status is Status.WAITING
    assert played.agents == ["one", "two", "two"]


@pytest.mark.req("LY-35", "LY-40")
def test_an_object_is_checked_before_it_is_believed_to_be_there(tmp_path: Path) -> None:
    """Storing a content whose name is taken by something else puts the right thing there; a pipe does not block."""
    folder, _ = born(tmp_path)
    digest = folder.objects.put(BIG.encode())
    place = folder.path / "objects" / digest
    for plant in (lambda: place.write_bytes(b"planted"), lambda: os.mkfifo(place), lambda: place.symlink_to("/etc")):
        place.unlink()
        plant()
        again = RunFolder(tmp_path, folder.run_id)
        with pytest.raises(JournalDamaged):
            again.objects.get(digest)
        assert again.objects.put(BIG.encode()) == digest
        assert again.objects.get(digest) == BIG.encode()


@pytest.mark.req("LY-35", "LY-40")
def test_a_kept_file_is_what_it_was_when_it_was_kept(tmp_path: Path) -> None:
    """What somebody writes to it later is not in the object; a pipe in its place is an error and no wait."""
    folder, _ = born(tmp_path)
    output = tmp_path / "output.md"
    output.write_bytes(b"said")
    digest = folder.objects.put_file(output)
    with output.open("ab") as file:
        file.write(b" and more")
    assert folder.objects.get(digest) == b"said"
    output.unlink()
    os.mkfifo(output)
    with pytest.raises(OSError, match="not a plain file"):
        folder.objects.put_file(output)


@pytest.mark.req("LY-35")
@pytest.mark.parametrize("damage", ["changed", "garbled", "removed", "a folder"])
def test_run_json_is_put_back_from_what_the_run_keeps(real: Start, damage: str) -> None:
    """Without it nobody knows what the run was asked for; its digest is the first link of the chain."""
    played = real(CHAINED, Work(), {})
    crashed(played)
    known, folder = played.run, played.run.folder
    place = folder.path / "run.json"
    content = place.read_bytes()
    place.unlink()
    if damage == "changed":
        place.write_bytes(content.replace(b'"size": 1', b'"size": 9'))
    elif damage == "garbled":
        place.write_bytes(b"{")
    elif damage == "a folder":
        place.mkdir()
    assert folder.verify() != []
    if damage != "changed":
        assert [error.path for error in unreadable_runs(played.root)] == [str(place)]
        with pytest.raises(DocumentInvalid, match=r"run\.json of") as caught:
            folder.identity()
        assert f"interlock recover {folder.run_id}" in str(caught.value.remedy)
    folder = RunFolder(played.root, folder.run_id)  # as somebody finds it who comes later
    assert put_back_identity(folder) is not None
    assert place.read_bytes() == content
    assert folder.identity() == known.identity
    assert put_back_identity(folder) is None
    assert played.go().status is Status.COMPLETE


@pytest.mark.req("LY-35")
def test_a_copy_of_a_run_folder_is_no_second_run(real: Start) -> None:
    """A folder under another name is not listed as the run that it was copied from."""
    played = real(CHAINED, Work(), {})
    played.go()
    folder = played.run.folder.path
    folder.rename(folder.with_name("backup"))
    assert known_runs(played.root) == []
    assert "is that of another run" in unreadable_runs(played.root)[0].what


@pytest.mark.req("LY-35", "LY-42")
@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"null", b"{}", b'{"a":1}', b"\xff", b"[" * 100_000, b'{"run_id":[1]}', b"\xef\xbb\xbf{}", b"NaN"],
)
def test_an_odd_run_json_is_bad_input(tmp_path: Path, content: bytes) -> None:
    """With where and what to do; never a fault of ours."""
    folder, _ = born(tmp_path)
    (folder.path / "run.json").write_bytes(content)
    with pytest.raises(DocumentInvalid) as caught:
        folder.lines()
    assert (caught.value.where, caught.value.exit_code) == (str(folder.path / "run.json"), 2)
    assert known_runs(tmp_path) == []


@pytest.mark.req("LY-35", "LY-42")
@pytest.mark.parametrize("moment", ["", "yesterday", "2026-02-30T01:02:03+00:00"])
def test_a_run_began_at_a_moment(tmp_path: Path, moment: str) -> None:
    """Anything else in run.json is damage: no list of runs fails because of it."""
    folder, _ = born(tmp_path)
    place = folder.path / "run.json"
    place.write_text(json.dumps({**json.loads(place.read_bytes()), "started_at": moment}), "utf-8")
    assert known_runs(tmp_path) == []
    assert "is no time" in unreadable_runs(tmp_path)[0].what


# -- order


@pytest.mark.req("LY-35", "CM-35")
def test_the_order_of_runs_does_not_depend_on_the_clock(tmp_path: Path) -> None:
    """A clock that goes back changes nothing; runs that nobody counted stand first, by the clock."""
    stamps = ["2026-03-01", "2026-01-01", "2025-01-01", "2026-02-01"]
    for number, stamp in enumerate(stamps):
        born(tmp_path, run_id=f"toy-{number}", started_at=stamp, order=next_order(tmp_path))
    born(tmp_path, run_id="old-b", started_at="2030-01-01", order=0)
    born(tmp_path, run_id="old-a", started_at="2029-01-01", order=0)
    assert [known.identity.run_id for known in known_runs(tmp_path)] == [
        *("old-a", "old-b"),
        *("toy-0", "toy-1", "toy-2", "toy-3"),
    ]
    assert next_order(tmp_path) == 5


@pytest.mark.req("LY-35", "EN-18")
def test_the_last_run_is_the_one_that_began_last(real: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock goes back between two runs: the third continues the second, and `latest` is the third."""
    import datetime as clock

    times = itertools.count(0, -86_400)

    class Backwards(clock.datetime):
        @classmethod
        def now(cls, tz=None):
            return clock.datetime.fromtimestamp(1_800_000_000 + next(times), tz)

    monkeypatch.setattr("interlock.engine.runs.datetime", Backwards)

    async def body(run: Run, _work: Work) -> Ending:
        await run.dispatch(producing("one.md", "one"))
        return Ending.stopped("no")

    played = real(toy(body), Work(), {})
    chain = []
    for _ in range(3):
        played.go()
        chain.append((played.run.identity.run_id, played.run.identity.continues))
    assert [continues for _, continues in chain] == [None, chain[0][0], chain[1][0]]
    assert len({run_id for run_id, _ in chain}) == 3


# -- the note


MARKS = st.builds(Mark, st.integers(0, 10**6), st.text("0123456789abcdef", min_size=64, max_size=64))


@given(MARKS, st.none() | MARKS, st.booleans())
def test_the_note_says_again_what_was_noted_and_nothing_else(settled: Mark, coming: Mark | None, closed: bool) -> None:
    """Whatever it says it takes the same room; with one byte changed it says nothing."""
    head = Head(settled, coming, "boot-1", closed)
    raw = head.to_bytes()
    assert len(raw) == SIZE
    assert Head.from_bytes(raw) == head
    for at in range(0, len(raw.rstrip()), 17):
        assert Head.from_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]) is None


@pytest.mark.req("LY-35")
def test_after_a_power_loss_an_older_note_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines are synced, the note is not: more lines than it knows are fine then, fewer are not."""
    folder, journal = born(tmp_path, lines=2)
    note = (folder.path / "head").read_bytes()
    journal.append("note")
    (folder.path / "head").write_bytes(note)
    assert "were not written" in folder.verify()[0]
    monkeypatch.setattr("interlock.engine.head.boot_id", lambda: "after the power loss")
    assert folder.verify() == []
    (folder.path / "journal.jsonl").write_bytes(b"")
    assert folder.verify() == ["lines 1 to 2 are missing at the end"]


@pytest.mark.req("LY-35")
def test_a_note_that_was_closed_holds_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was synced: on another machine, or after a restart, a line more is still one too many."""
    folder, journal = born(tmp_path, lines=2)
    journal.close()
    monkeypatch.setattr("interlock.engine.head.boot_id", lambda: "another")
    place = folder.path / "journal.jsonl"
    place.write_bytes(forged(place.read_bytes()))
    assert "were not written by a process of this run" in folder.verify()[0]


@pytest.mark.req("LY-35")
def test_a_reader_beside_the_writer_sees_no_damage(tmp_path: Path) -> None:
    """At every point of writing a line, whoever reads finds the run whole."""
    folder, _ = born(tmp_path, lines=1)
    seen = []

    def look(point: str) -> None:
        other = RunFolder(tmp_path, folder.run_id)
        seen.append((point, len(other.lines()), other.verify()))

    journal = folder.journal(stamp_now, tripwire=look)
    for _ in range(3):
        journal.append("note")
        look("between")
    assert {point for point, _, _ in seen} == {"before-sync", "after-sync", "between"}
    assert [findings for _, _, findings in seen] == [[]] * 9
    assert [count for _, count, _ in seen] == [2, 2, 2, 3, 3, 3, 4, 4, 4]


@pytest.mark.req("LY-35")
@given(st.integers(0, 5), st.integers(0, 5), st.none() | st.integers(1, 2), st.booleans())
def test_the_lines_that_can_be_there_are_the_settled_and_the_coming_ones(
    count: int, settled: int, ahead: int | None, closed: bool
) -> None:
    """Of all lengths of a journal, exactly these agree with a note."""

    class Made:
        def __init__(self, number: int) -> None:
            self.hash = f"{number}"

    coming = None if ahead is None or closed else Mark(settled + ahead, f"{settled + ahead}")
    from interlock.engine.processes import boot_id

    head = Head(Mark(settled, f"{settled}"), coming, boot_id(), closed)
    lines = [Made(number) for number in range(1, count + 1)]
    possible = range(settled, (settled if coming is None else coming.seq) + 1)
    assert (disagreements(lines, b"", head, head, needed=True) == []) == (count in possible)


# -- writing fails


@pytest.mark.req("LY-42")
@pytest.mark.parametrize("name", ["journal.jsonl", "head", "journal.copy"])
def test_a_full_disk_stops_the_run_with_what_to_do_and_it_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whichever of its files finds no room: the journal stays whole, and takes lines again when there is room."""
    folder, _ = born(tmp_path, lines=2)
    journal = folder.journal(stamp_now)
    real_write, real_pwrite = os.write, os.pwrite

    def full(descriptor: int) -> None:
        if os.fstat(descriptor).st_ino == (folder.path / name).stat().st_ino:
            raise OSError(28, "No space left on device")

    def write(descriptor: int, content: bytes) -> int:
        if len(content) > 10:
            real_write(descriptor, content[:10])
            full(descriptor)
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - 10)
        return real_write(descriptor, content)

    def pwrite(descriptor: int, content: bytes, place: int) -> int:
        full(descriptor)
        return real_pwrite(descriptor, content, place)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        patch.setattr(os, "pwrite", pwrite)
        with pytest.raises(WorkspaceFailed, match="the journal cannot be written: no space left") as caught:
            journal.append("note")
    assert caught.value.exit_code == 5
    assert "Free some space" in str(caught.value.remedy)
    again = RunFolder(tmp_path, folder.run_id)
    assert again.verify() == []
    more = again.journal(stamp_now)
    more.append("later")
    more.close()
    assert again.verify() == []
    assert (folder.path / "journal.copy").read_bytes() == (folder.path / "journal.jsonl").read_bytes()


@pytest.mark.req("LY-42")
def test_what_killed_writes_left_is_removed_by_the_next_process(tmp_path: Path) -> None:
    """Temporary files of the run folder, of any version; a folder that never became a run; nothing else."""
    folder, _ = born(tmp_path)
    left = [
        *(folder.path / name for name in (".run.json.tmp", ".head.tmp", ".run.json.interlock-0123456789abcdef.tmp")),
        *(folder.path / "objects" / name for name in (".0123456789abcdef.tmp", ".x.interlock-0123456789abcdef.tmp")),
        folder.inbox / ".0123456789abcdef.json.tmp",
        folder.path / "bases" / ".toy-1-abcdef.tmp",
    ]
    folder.inbox.mkdir()
    (folder.path / "bases").mkdir()
    kept = [folder.path / "mine.tmp", folder.path / "objects" / ".mine"]
    for place in (*left, *kept):
        place.write_bytes(b"half")
    unborn, damaged = folder.path.with_name("toy-unborn"), folder.path.with_name("toy-damaged")
    for other in (unborn, damaged):
        (other / "objects").mkdir(parents=True)
        (other / "objects" / sha256(b"x")).write_bytes(b"x")
    (damaged / "journal.jsonl").write_bytes(b"{}\n")
    folder.journal(stamp_now)
    assert [place for place in left if place.exists()] == []
    assert all(place.exists() for place in kept)
    born(tmp_path, run_id="toy-next")
    assert not unborn.exists()
    assert damaged.exists()


@pytest.mark.req("LY-42")
def test_a_run_that_cannot_be_begun_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full when it would come into being: exit 5 with what to do, and nothing to clean up."""
    real_fsync = os.fsync

    def full(descriptor: int) -> None:
        if list(tmp_path.glob(".interlock/runs/*/.run.json*")):
            raise OSError(28, "No space left on device")
        real_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WorkspaceFailed, match="the run cannot be begun: no space left on device"):
        born(tmp_path)
    assert list((tmp_path / ".interlock" / "runs").iterdir()) == []


def born(
    root: Path, *, lines: int = 3, run_id: str = "toy-1", started_at: str = "2026-01-01", order: int = 1
) -> tuple[RunFolder, Journal]:
    """A run that has come into being, with so many lines."""
    identity = Identity(run_id, "toy", "x", {}, {}, "1", started_at, order=order)
    folder, content = RunFolder(root, run_id), identity_bytes(identity)
    journal = Journal(folder.medium(), run_id=run_id, genesis=sha256(content), clock=stamp_now, held=True)
    for _ in range(lines):
        journal.append("note")
    folder.create(content)
    if lines:
        journal.release()
    assert re.fullmatch(r"[0-9a-f]{64}", folder.genesis())
    return folder, journal


@pytest.mark.req("LY-35")
def test_a_gate_is_not_decided_in_a_journal_that_lost_lines(real: Start) -> None:
    """approve is exit 2, too, and changes nothing."""
    played = real(GATED, Work(), {})
    played.go()
    raw = played.raw()
    played.overwrite(raw[: raw.rfind(b"\n", 0, -1) + 1])
    found = played.raw()
    with pytest.raises(JournalDamaged):
        played.decide("approve")
    assert played.raw() == found
    assert HeadFile(played.run.folder.path).read() is not None

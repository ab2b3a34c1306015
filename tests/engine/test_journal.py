"""The journal: gapless, chained, cut only where a crash can have torn it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine import Ending, Run, Status
from interlock.engine.head import Head, Mark, disagreements
from interlock.engine.journal import Journal, MemoryMedium, split_torn, verify
from interlock.engine.journal_file import FileMedium
from interlock.engine.keys import sha256
from interlock.engine.objects import FileObjects, MemoryObjects, pack, unpack
from interlock.errors import JournalDamaged, WorkspaceFailed
from tests.conformance.harness import Death, Real
from tests.engine.toys import CHAINED, Work, producing, toy

GENESIS = sha256(b"run.json")


def opened(content: bytes = b"", genesis: str = GENESIS) -> tuple[Journal, MemoryMedium]:
    medium = MemoryMedium(content)
    return Journal(medium, run_id="toy-1", genesis=genesis, clock=lambda: "2026-01-04T12:00:00.000+00:00"), medium


def sample(lines: int = 6) -> bytes:
    journal, medium = opened()
    for number in range(lines):
        journal.append("note", key=f"note#{number + 1}", data={"in": {}, "n": number, "out": "äöü"})
    return medium.load()


@pytest.mark.req("CM-24")
def test_lines_are_gapless_and_chained() -> None:
    """Numbers count from 1; each line names the hash of the one before, the first that of run.json."""
    journal, _medium = opened(sample())
    assert [line.seq for line in journal.lines] == [1, 2, 3, 4, 5, 6]
    assert [line.prev for line in journal.lines] == [GENESIS, *(line.hash for line in journal.lines[:-1])]
    assert set(json.loads(sample().splitlines()[0])) == {
        *("seq", "ts", "run", "event", "key", "agent", "attempt", "iteration", "digest", "data", "prev", "hash")
    }


@pytest.mark.req("CM-25")
def test_a_torn_last_line_is_cut_off_and_noted_at_every_byte() -> None:
    """Whatever part of the last line reached the disk, the lines before it stand and the cut is an event."""
    raw = sample()
    start = raw.rfind(b"\n", 0, -1) + 1
    for end in range(start + 1, len(raw) - 1):
        torn = raw[:end]
        assert verify(torn, genesis=GENESIS, name="j") == [f"the last line is torn ({end - start} bytes)"]
        journal, medium = opened(torn)
        assert [line.seq for line in journal.lines] == [1, 2, 3, 4, 5, 6]
        assert journal.lines[-1].event == "journal.cut"
        assert journal.lines[-1].data["bytes"] == end - start
        assert verify(medium.load(), genesis=GENESIS, name="j") == []
        assert medium.load().startswith(raw[:start])


@pytest.mark.req("CM-25")
def test_a_whole_last_line_without_its_newline_is_kept() -> None:
    """Only the newline is missing: the outcome counts, and the next line stands on a line of its own."""
    raw = sample().rstrip(b"\n")
    assert verify(raw, genesis=GENESIS, name="j") == []
    journal, medium = opened(raw)
    assert [line.event for line in journal.lines] == ["note"] * 6
    journal.append("next")
    assert len(opened(medium.load())[0].lines) == 7


@pytest.mark.req("CM-25", "CM-24")
@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("damage", ["changed", "missing", "doubled", "swapped", "respelled", "garbled"])
def test_damage_before_the_last_line_is_reported_and_not_repaired(damage: str, number: int) -> None:
    """Verifying and loading both name a line; the file is left as it is."""
    raw = damaged(sample().splitlines(keepends=True), damage, number)
    (finding,) = verify(raw, genesis=GENESIS, name="j")
    assert "journal line" in finding
    medium = MemoryMedium(raw)
    with pytest.raises(JournalDamaged) as caught:
        Journal(medium, run_id="toy-1", genesis=GENESIS, clock=str)
    assert caught.value.exit_code == 2
    assert caught.value.line is not None
    assert abs(caught.value.line - (number + 1)) <= 1
    assert medium.load() == raw


def damaged(lines: list[bytes], damage: str, number: int) -> bytes:
    line = lines[number]
    match damage:
        case "changed":
            lines[number] = line.replace(b'"n":%d' % number, b'"n":9')
        case "missing":
            del lines[number]
        case "doubled":
            lines.insert(number, line)
        case "swapped":
            lines[number], lines[number + 1] = lines[number + 1], lines[number]
        case "respelled":
            lines[number] = json.dumps(json.loads(line)).encode() + b"\n"
        case "garbled":
            lines[number] = line[: len(line) // 2] + b"\n"
    return b"".join(lines)


@pytest.mark.req("CM-24", "CM-25")
@given(st.data())
def test_any_changed_byte_is_found(data: st.DataObject) -> None:
    """No byte of a journal can be changed without a finding, newlines included."""
    raw = bytearray(sample(4))
    position = data.draw(st.integers(0, len(raw) - 1))
    raw[position] ^= data.draw(st.integers(1, 255))
    assert verify(bytes(raw), genesis=GENESIS, name="j") or position == len(raw) - 1


@pytest.mark.req("CM-24", "EN-07")
def test_the_chain_is_bound_to_run_json() -> None:
    """Other inputs or caps in run.json are another first link."""
    (finding,) = verify(sample(), genesis=sha256(b"another run.json"), name="j")
    assert finding == "journal line 1 does not belong to this run.json: the chain is broken"
    with pytest.raises(JournalDamaged, match=r"does not belong to this run\.json"):
        opened(sample(), sha256(b"another run.json"))


@pytest.mark.req("CM-24")
def test_lines_missing_at_the_end_are_found_by_the_head() -> None:
    """A chain alone does not show that its end was cut off; the remembered head does."""
    lines = opened(sample())[0].lines
    short = b"".join(sample().splitlines(keepends=True)[:4])
    assert verify(short, genesis=GENESIS, name="j") == []
    head, other = Head(Mark(6, lines[5].hash), closed=True), Head(Mark(5, lines[5].hash))
    assert disagreements(lines[:4], b"", head, head, needed=True) == ["lines 5 to 6 are missing at the end"]
    assert disagreements(lines, b"", head, head, needed=True) == []
    found = disagreements(lines, b"", other, other, needed=True)
    assert found == ["journal line 5 is not the one that was written"]


def test_a_failed_write_closes_the_journal_for_this_process() -> None:
    """After a failed sync nobody knows what is on the disk: nothing more is taken."""

    class Full(MemoryMedium):
        def sync(self) -> None:
            raise OSError(28, "No space left on device")

    journal = Journal(Full(), run_id="toy-1", genesis=GENESIS, clock=str)
    for _ in range(2):
        with pytest.raises(WorkspaceFailed, match="no space") as caught:
            journal.append("note")
        assert "Free some space" in str(caught.value.remedy)
    assert journal.lines == []


def test_reading_a_journal_makes_no_file(workspace: Path) -> None:
    """Looking is not writing."""
    journal = Journal(FileMedium(workspace / "journal.jsonl"), run_id="r", genesis=GENESIS, clock=str)
    assert journal.lines == []
    assert list(workspace.iterdir()) == []


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.text(min_size=1100, max_size=6000)
    | st.binary(max_size=6000),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | st.just("$text"), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.mark.req("EN-08")
@given(JSON)
def test_a_packed_value_comes_back_and_is_small(value) -> None:
    """Whatever a verb returned is the same after the journal; what stands in the line has at most 4 KB."""
    objects = MemoryObjects()
    packed = pack(value, objects)
    assert unpack(json.loads(json.dumps(packed)), objects) == value
    assert len(json.dumps(packed)) <= 6 * 4096


@pytest.mark.req("EN-08")
def test_a_large_value_is_stored_once_under_its_digest(tmp_path: Path) -> None:
    """4,096 bytes stand in the line, more stand in objects/<sha256>; the same content twice is one file."""
    objects = FileObjects(tmp_path / "objects")
    assert pack("x" * 4096, objects) == "x" * 4096
    first, second = pack("x" * 4097, objects), pack(["x" * 4097], objects)
    assert first == {"$text": sha256(b"x" * 4097)} == second[0]
    assert [path.name for path in (tmp_path / "objects").iterdir()] == [sha256(b"x" * 4097)]


@pytest.mark.req("EN-08")
def test_a_missing_or_changed_object_is_damage(tmp_path: Path) -> None:
    """An object is only what its name says."""
    objects = FileObjects(tmp_path / "objects")
    digest = objects.put(b"content")
    (tmp_path / "objects" / digest).write_bytes(b"changed")
    with pytest.raises(JournalDamaged, match="was changed"):
        objects.get(digest)
    (tmp_path / "objects" / digest).unlink()
    with pytest.raises(JournalDamaged, match="is missing"):
        objects.get(digest)


@pytest.mark.req("EN-08")
def test_a_large_document_that_is_read_often_leaves_a_small_journal(real: Callable[..., Real]) -> None:
    """640 KB read 200 times: one object, 200 short lines; replay reads the object only when it is asked for."""
    text = "# Roadmap\n" + "x" * 640_000

    async def body(run: Run, _work: Work) -> Ending:
        await run.write("a.txt", "a")
        lengths = {len((await run.read("roadmap.json")).text) for _ in range(200)}
        await run.dispatch(producing("b.md"))
        return Ending.complete(str(lengths))

    played = real(toy(body), Work(), {"roadmap.json": text})
    played.dies(Death("dispatch.start", lost=False))
    folder = played.run.folder.path
    assert (folder / "journal.jsonl").stat().st_size < 300_000
    assert [path.stat().st_size for path in (folder / "objects").iterdir() if path.stat().st_size > 4096] == [len(text)]
    assert max(len(line) for line in played.raw().splitlines()) < 5000
    close = played.go()
    assert (close.status, close.output) == (Status.COMPLETE, str({len(text)}))


@pytest.mark.req("CM-24", "CM-25")
def test_a_run_whose_journal_was_tampered_with_is_not_resumed(real: Callable[..., Real]) -> None:
    """Exit 2, nothing called, nothing repaired; `verify` of the run folder says where."""
    played = real(CHAINED, Work(), {})
    played.dies(Death("dispatch.start", key="two#1", lost=False))
    assert played.run.folder.verify() == []
    raw = played.raw()
    played.overwrite(raw.replace(b'"outcome":"OK"', b'"outcome":"KO"', 1))
    calls = len(played.calls)
    with pytest.raises(JournalDamaged) as caught:
        played.go()
    assert caught.value.exit_code == 2
    assert len(played.calls) == calls
    assert "was changed" in played.run.folder.verify()[0]
    played.overwrite(raw)
    assert played.go().status is Status.COMPLETE


@pytest.mark.req("CM-24")
def test_the_run_folder_remembers_how_far_its_journal_went(real: Callable[..., Real]) -> None:
    """Lines cut off at the end of an ended run's journal are missed."""
    played = real(CHAINED, Work(), {})
    played.go()
    played.overwrite(b"".join(played.raw().splitlines(keepends=True)[:-2]))
    (finding,) = played.run.folder.verify()
    assert "missing at the end" in finding


@pytest.mark.req("CM-25")
def test_a_torn_line_of_a_real_run_is_cut_and_the_run_goes_on(real: Callable[..., Real]) -> None:
    """The half line is noted in the journal; the agent whose end it should have told is not called again."""
    played = real(CHAINED, Work(), {})
    played.dies(Death("dispatch.end", key="two#1"))
    played.overwrite(played.raw() + b'{"seq":99,"ts":"2026')
    assert played.go().status is Status.COMPLETE
    assert played.events("journal.cut")[0].data["text"] == '{"seq":99,"ts":"2026'
    assert played.agents == ["one", "two", "three"]
    assert played.run.folder.verify() == []


@pytest.mark.req("EN-07", "CM-24")
def test_changed_inputs_in_run_json_are_found(real: Callable[..., Real]) -> None:
    """Inputs and caps are fixed when a run begins: run.json is the first link of the chain."""
    played = real(CHAINED, Work(), {})
    played.dies(Death("dispatch.start", key="two#1", lost=False))
    place = played.run.folder.path / "run.json"
    place.write_bytes(place.read_bytes().replace(b'"size": 1', b'"size": 9'))
    with pytest.raises(JournalDamaged, match=r"does not belong to this run\.json"):
        played.go()


def test_split_torn_never_loses_a_whole_line() -> None:
    """Both parts together are the file."""
    raw = sample(3)
    for end in range(len(raw) + 1):
        whole, torn = split_torn(raw[:end])
        assert whole + torn == raw[:end]

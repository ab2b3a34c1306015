"""Documents of a process: a value at a time, once, and never over what a person wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.documents.changing import set_json
from interlock.documents.reading import read_json
from interlock.engine.run import Call, Outcome, Run
from interlock.errors import Status
from tests.engine.bench import WRITER, Bench, small

FILE = "state.json"
TEXT = '{"n": 0,  "mine": "a remark"}\n'


def n(text: str) -> Any:
    return read_json(text, FILE).data["n"]


async def counting(run: Run, inputs: Any) -> Outcome:
    """Counts in a document, a call for each number; a person who counts, too, ends it."""
    run.watch(FILE, n)
    await run.read(FILE)
    for turn in (1, 2):
        wrote = await run.change(FILE, lambda text, turn=turn: set_json(text, {("n",): turn}))
        if wrote.state == "edited":
            return Outcome.stopped("a person counts")
        report = await run.dispatch(Call(WRITER))
        if report.reason == "edited":
            return Outcome.stopped(f"edited before call {turn}: {n(await run.read(FILE) or '')}")
    aside = await run.set_aside("old.txt")
    await run.change("new/log.txt", lambda text: text if "line\n" in text else f"{text}line\n")
    return Outcome.complete(f"{aside} {await run.names('new')}")


def _bench() -> Bench:
    return Bench(small(counting), files={FILE: TEXT.encode(), "old.txt": b"old\n"}, commands=())


def test_a_value_is_changed_and_the_rest_stays() -> None:
    bench = _bench()
    view = bench.start()
    assert view.why == ".interlock/attic/aside#1/old.txt ['log.txt']"
    assert bench.text(FILE) == TEXT.replace("0", "2")
    assert bench.text("new/log.txt") == "line\n"
    assert bench.world.attic == {".interlock/attic/aside#1/old.txt": b"old\n"}
    assert set(view.documents) == {FILE, "new/log.txt"}


class Meddled(Bench):
    """A person writes the document behind the first event of a kind."""

    behind, text_then = "", ""

    def _told(self, event: Any, key: str) -> None:
        super()._told(event, key)
        if event.e == self.behind:
            self.behind = ""
            self.world.files[FILE] = self.text_then.encode()


@pytest.mark.req("PERSON-04")
@pytest.mark.parametrize(
    ("behind", "text", "status", "why"),
    [
        ("done", '{"n": 7}', Status.STOPPED, "a person counts"),
        ("wrote", '{"n": 7}', Status.STOPPED, "edited before call 1: 7"),
        ("wrote", '{"n": 1, "mine": "another"}', Status.COMPLETE, "old.txt"),
        ("wrote", '{"n": 1', Status.STOPPED, "not valid JSON"),
    ],
)
def test_a_person_is_heard_and_not_written_over(behind: str, text: str, status: Status, why: str) -> None:
    bench = Meddled(small(counting), files={FILE: TEXT.encode(), "old.txt": b"old\n"}, commands=())
    bench.behind, bench.text_then = behind, text
    view = bench.start()
    assert (view.status, why in view.why) == (status, True), view.why
    if status is Status.STOPPED:
        assert bench.text(FILE) == text
    else:
        assert json.loads(bench.text(FILE)) == {"n": 2, "mine": "another"}


async def approved(run: Run, inputs: Any) -> Outcome:
    async def again(note: str) -> None:
        await run.dispatch(Call(WRITER, inputs={"words": note}))

    await again("")
    decided = await run.approve("plan", "This plan?", again, rounds=2)
    return Outcome.complete(decided.choice) if decided.choice == "approve" else Outcome.stopped(decided.note)


@pytest.mark.req("PERSON-03")
@pytest.mark.parametrize(
    ("answers", "calls", "ends"), [("a", 1, "approve"), ("ra", 2, "approve"), ("rrr", 3, "no 3"), ("rrra", 3, "no 3")]
)
def test_a_rejection_revises_and_the_last_one_ends_it(answers: str, calls: int, ends: str) -> None:
    bench = Bench(small(approved, caps={"plan": 9}), commands=())
    told = [
        {"choice": "approve"} if one == "a" else {"choice": "reject", "note": f"no {at}"}
        for at, one in enumerate(answers, 1)
    ]
    bench.cast.decisions = list(told)
    view = bench.start()
    assert view.why == ends
    assert len(bench.cast.asks) == calls
    assert all(f"no {at}" in brief for at, brief in enumerate(bench.briefs("writer")[1:], 1))

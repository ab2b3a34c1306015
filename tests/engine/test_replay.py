"""A run is played again after any death, and stops where the playbook asks otherwise (RUN-03, RUN-04, RUN-21)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from interlock.documents.files import sha256
from interlock.engine.folder import Message
from interlock.engine.holds import BY_CHANCE
from interlock.engine.journal import FIRST, Memory
from interlock.engine.run import Call, Limits, Outcome, Run
from interlock.engine.view import GateView
from interlock.errors import Diverged, Status
from tests.engine.bench import WRITER, Bench, Done, Nothing, cut_off_anywhere, small
from tests.engine.everything import EVERYTHING


def staged() -> Bench:
    files = {"lib.py": b"x\n", **{path: text.encode() for path, text in EVERYTHING.files.items()}}
    bench = Bench(EVERYTHING, files={**files, "mess.txt": b"unsaved"}, head=files)
    bench.cast.person = _revises  # type: ignore[method-assign]
    return bench


def _revises(gate: GateView) -> Message:
    """Rejects the first plan."""
    choice = "reject" if "approve-1/" in gate.key else "approve"
    return Message(what="answer", who="ann", at=gate.at, choice=choice, note="otherwise")


def story(bench: Bench) -> dict[str, Any]:
    """What a run came to, times and ids aside."""
    view = bench.last.view
    output = view.ended and view.ended.output
    return {
        "files": {path: BY_CHANCE.sub(b"", content) for path, content in bench.world.files.items()},
        "head": bench.world.head,
        "stashes": bench.world.stashes,
        "refs": sorted(bench.world.refs),
        "ended": (view.status, view.why),
        "output": output and bench.world.folder.get(output),
        "notes": sorted(map(str, view.notes)),
        "decisions": [(one.key, one.inputs, one.result) for one in view.decisions],
        "warnings": view.warnings,
        "calls": sorted((key, one.report.paths) for key, one in view.calls.items() if one.report),
    }


@pytest.mark.req("RUN-03", "RUN-05")
@pytest.mark.parametrize("make", [Bench, staged], ids=["task", "every verb"])
def test_after_a_power_cut_behind_any_line_it_comes_to_the_same_end(make: Callable[[], Bench]) -> None:
    """Only what was synced is left; who is killed and loses nothing is rehearsed."""
    for line, usual, bench in cut_off_anywhere(make):
        assert story(bench) == story(usual), f"killed behind line {line}"
        assert story(bench)["ended"][0] is Status.COMPLETE


# --- what is asked otherwise


def parked(play: Callable[[Run, Nothing], Any]) -> Bench:
    bench = Bench(small(play, caps={"round": 3}))
    assert bench.start().status is Status.WAITING
    return bench


def asks(*, more: Callable[[Run], Any] | None = None, **call: Any) -> Callable[[Run, Nothing], Any]:
    """A dispatch, a decision and a gate; `more` is done in front of the gate."""

    async def play(run: Run, inputs: Nothing) -> Outcome:
        await run.dispatch(Call(**{"row": WRITER, "inputs": {"a": 1}, **call}))
        if more is not None:
            more(run)
        await run.gate("end", "Enough?")
        return Outcome.complete("done")

    return play


class Other(Done):
    extra: str


OTHERWISE = [
    (asks(), asks(inputs={"a": 2}), "writer#1", "inputs: recorded {'a': 1}, now {'a': 2}"),
    (asks(), asks(inputs={"a": True}), "writer#1", "inputs"),
    (asks(), asks(attempt=2), "writer#1", "attempt"),
    (asks(), asks(member="x"), "writer#1", "not asked for before x#1"),
    (asks(), asks(row=replace(WRITER, form=Other)), "writer#1", "form"),
    (asks(more=lambda run: run.note("n", x=1)), asks(more=lambda run: run.note("n", x=2)), "n#1", "facts"),
    (asks(more=lambda run: run.note("n")), asks(), "n#1", "it is recorded, and not asked for before gate-end#1"),
    (asks(more=lambda run: run.note("n")), asks(more=lambda run: run.decide(n, of=1)), "n#1", "recorded is `noted`"),
    (asks(more=lambda run: run.decide(n, of=1)), asks(more=lambda run: run.decide(n, of=2)), "n#1", "result"),
]


def n(of: int) -> int:
    return of


def noted(run: Run, **facts: int) -> None:
    for name, fact in facts.items():
        run.note(name, x=fact)


def told(run: Run, text: str) -> None:
    run.say(text)
    run.warn(text)


@pytest.mark.req("RUN-04")
@pytest.mark.parametrize(("recorded", "now", "key", "what"), OTHERWISE, ids=range(len(OTHERWISE)))
def test_asked_otherwise_it_stops_and_names_what_differs_until_a_person_has_it_go_on(
    recorded: Any, now: Any, key: str, what: str
) -> None:
    bench = parked(recorded)
    bench.playbook = small(now, caps={"round": 3})
    paid = len(bench.world.paid)
    with pytest.raises(Diverged) as caught:
        bench.resume()
    assert (caught.value.key, what in caught.value.what) == (key, True)
    assert "interlock resume run-1 --accept-recorded" in (caught.value.remedy or "")
    assert len(bench.world.paid) == paid, "nothing is paid for first"
    assert bench.resume(accepted=True).status is Status.WAITING
    bench.says("approve")
    assert bench.resume().status is Status.COMPLETE, "what was accepted once is not asked about again"


@pytest.mark.req("RUN-04")
def test_what_was_recorded_behind_a_persons_word_may_not_differ() -> None:
    bench = parked(asks(more=lambda run: run.note("n", x=1)))
    bench.playbook = small(asks(more=lambda run: noted(run, n=2, m=1)))
    bench.resume(accepted=True)
    bench.playbook = small(asks(more=lambda run: noted(run, n=3, m=2)))
    with pytest.raises(Diverged) as caught:
        bench.resume()
    assert caught.value.key == "m#1"


@pytest.mark.req("RUN-04", "RUN-21")
def test_words_settings_and_deadlines_are_no_difference() -> None:
    bench = parked(asks(texts={"words": "so"}, more=lambda run: told(run, "a")))
    form = type("Done", (Done,), {"__doc__": "Other words."})
    row = replace(WRITER, form=form, timeout_s=1, prompt="judge", title="Writes", repeats=0)
    bench.playbook = small(asks(row=row, texts={"words": "or so"}, more=lambda run: told(run, "b")))
    bench.limits = Limits(max_parallel=1, replay="off")
    bench.says("approve")
    assert bench.resume().status is Status.COMPLETE


@pytest.mark.req("RUN-04")
def test_a_member_that_asks_otherwise_is_stopped_before_it_pays_and_its_siblings_records_are_no_fault() -> None:
    def members(name: str) -> Callable[[Run, Nothing], Any]:
        async def play(run: Run, inputs: Nothing) -> Outcome:
            async def first() -> None:
                await run.dispatch(Call(WRITER, member=name))
                await run.gate("go", "Go?")
                run.note("went")

            async def second() -> None:
                await run.dispatch(Call(WRITER, member="other"))

            await run.together("group", {"a": first, "b": second})
            return Outcome.complete("done")

        return play

    bench = parked(members("x"))
    paid = len(bench.world.paid)
    bench.playbook = small(members("y"))
    with pytest.raises(Diverged) as caught:
        bench.resume()
    assert (caught.value.key, len(bench.world.paid)) == ("group/a/x#1", paid)
    bench.playbook = small(members("x"))
    bench.says("approve")
    assert bench.resume().status is Status.COMPLETE
    assert len(bench.world.paid) == paid


# --- other versions


def rewritten(content: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The journal as another version would have written it."""
    prev, lines = FIRST, []
    for raw in content.splitlines():
        line = json.loads(raw)
        change(line["event"])
        body = json.dumps({**{name: line[name] for name in ("seq", "at", "key", "event")}, "prev": prev}).encode()
        prev = sha256(body)
        lines.append(body[:-1] + f',"hash":"{prev}"}}\n'.encode())
    return b"".join(lines)


@pytest.mark.req("RUN-21")
@pytest.mark.parametrize("kind", ["done", "noted", "gate opened"])
def test_an_outcome_that_this_version_does_not_know_is_not_done_again(kind: str) -> None:
    bench = parked(asks(more=lambda run: run.note("n")))
    content = bench.world.folder.medium.load()
    bench.world.folder.medium = Memory(
        rewritten(content, lambda event: event.update({"of_tomorrow": 1} if event["e"] == kind else {}))
    )
    paid = len(bench.world.paid)
    with pytest.raises(Diverged, match=f"recorded is `{kind}`") as caught:
        bench.resume()
    assert "version 1.0" in (caught.value.remedy or "")
    assert len(bench.world.paid) == paid
    bench.says("approve")
    view = bench.resume(accepted=True)
    assert view.status is (Status.WAITING if kind == "gate opened" else Status.COMPLETE)


@pytest.mark.req("RUN-21")
def test_an_open_run_of_another_version_goes_on_and_says_so() -> None:
    bench = parked(asks())
    bench.says("approve")
    view = bench.resume(version="2.0")
    assert view.status is Status.COMPLETE
    assert view.warnings == ["interlock is 2.0 now; 1.0 worked on this run before"]


@pytest.mark.req("RUN-21")
def test_inputs_that_the_playbook_no_longer_takes_stop_it() -> None:
    bench = parked(asks())
    bench.playbook = replace(bench.playbook, inputs=type("Some", (Nothing,), {"__annotations__": {"x": "int"}}))
    with pytest.raises(Diverged, match="does not take the run's inputs"):
        bench.resume()

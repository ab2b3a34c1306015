"""The bench that playbooks are tested with: agents by function, people, crashes, rehearsals (OW-09)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

import pytest

from interlock.contracts import Artifact, Contract
from interlock.engine import Dispatch, Ending, Options, Playbook, Run, Status, playbook
from interlock.errors import BadInput, Refused
from interlock.testing import (
    ALWAYS,
    Bench,
    Invariant,
    Played,
    Rehearsal,
    SimulatedWorld,
    Simulation,
    both,
    lasting,
    leaves_out,
    meanwhile,
    rehearse,
    says,
    standard_rehearsal,
    writes,
)


@dataclass(frozen=True)
class Wish:
    name: str


@playbook("toy", inputs=Wish, key=lambda wish: wish.name, caps={"turn": 2})
async def toy(run: Run, wish: Wish) -> Ending:
    """Make it, twice at most, and ask."""
    if not wish.name:
        raise BadInput("nothing is wished for")
    made = Contract(artifacts=(Artifact("made.md"),))
    async for _turn in run.loop("turn"):
        report = await run.dispatch(Dispatch("maker", "Make it.", made, timeout_s=60))
        if report.ok:
            break
        run.warn("not yet")
    run.say("made\n")
    decision = await run.gate("ship", "Ship it?", shows=("made.md",))
    return Ending.complete("shipped\n") if decision.approved else Ending.stopped(decision.note)


WISH = Wish("bread")


@pytest.mark.req("OW-09")
def test_agents_do_what_they_are_told_call_by_call() -> None:
    """At the first call this, at the second that, and whoever is told nothing does its part well."""
    bench = Bench(toy).on("maker", leaves_out("made.md"), None)
    assert bench.play(WISH).status is Status.WAITING
    assert bench.called == ["maker"] * 2 and "made.md" in bench.paths
    assert "missing" in bench.brief("maker", 1)
    assert bench.output == "made\n" and len(bench.events("gate.opened")) == 1
    bench = Bench(toy).ever("maker", both(writes({"made.md": "# Bread\n"}), says("DONE: well"), lasting(59.0)))
    bench.play(WISH)
    assert bench.text("made.md") == "# Bread\n"
    assert Bench(toy).ever("maker", lasting(61.0)).play(WISH).status is Status.WAITING


@pytest.mark.req("OW-09")
def test_people_answer_and_edit() -> None:
    """At a gate, between two processes, and while an agent works."""
    bench = Bench(toy, {"notes.md": "old\n"}).on("maker", meanwhile({"notes.md": "mine\n"}))
    bench.play(WISH)
    assert bench.text("notes.md") == "mine\n"
    bench.edit("notes.md", None)
    bench.answer("reject", note="too dark", who="ann")
    finished = bench.resume()
    assert (finished.status, finished.reason) == (Status.STOPPED, "too dark")
    assert bench.events("gate.decided")[0]["who"] == "ann" and "notes.md" not in bench.paths
    with pytest.raises(Refused):
        bench.answer("approve")


@pytest.mark.req("OW-09")
def test_a_refusal_leaves_nothing_behind_and_what_is_none_is_said() -> None:
    assert Bench(toy).refuse(Wish("")).what == "nothing is wished for"
    with pytest.raises(AssertionError, match="it was not refused: waiting"):
        Bench(toy).refuse(WISH)


@pytest.mark.req("OW-09")
def test_a_crash_at_any_point_changes_nothing() -> None:
    """Every point at which the process can die is tried; each run comes to where the whole one came."""
    bench = Bench(toy).on("maker", leaves_out("made.md"))
    finished = list(bench.crashes(WISH))
    assert len(finished) > 10 and {one.status for one in finished} == {Status.WAITING}


def careless() -> Playbook:
    @playbook("careless", inputs=Wish, key=lambda wish: wish.name)
    async def careless(run: Run, _wish: Wish) -> Ending:
        """Believe whatever is said."""
        await run.dispatch(Dispatch("maker", "Make it.", Contract(artifacts=(Artifact("made.md"),))))
        return Ending.complete()

    return careless


@pytest.mark.req("OW-09")
def test_a_rehearsal_says_which_rule_is_broken() -> None:
    """A playbook that never claims what is not there breaks none; one that believes everything does."""

    def not_made(played: Played) -> str | None:
        there = "made.md" in played.simulation.world.tree.files
        return "nothing is there" if played.finished.status is Status.COMPLETE and not there else None

    def rehearsal(of: Playbook) -> Rehearsal:
        return Rehearsal(
            lambda agent, options: Simulation(of, WISH, SimulatedWorld({}, agent), options=options),
            invariants=(*ALWAYS, Invariant("complete means made", not_made)),
        )

    assert rehearse(rehearsal(toy), most=1) == []
    broken = rehearse(rehearsal(careless()), most=1, options=Options())
    assert broken and all(problem.startswith("complete means made: nothing is there") for problem in broken)


# -- a playbook that offers no rehearsal


@pytest.mark.req("OW-03", "OW-09")
def test_any_playbook_can_be_rehearsed() -> None:
    """With inputs that are made up, or with each of its samples; people answer at its gates, and files change."""

    @dataclass(frozen=True)
    class Asked:
        name: str
        size: int
        kind: Literal["small", "large"]
        tags: list[str]
        loud: bool = False

    seen: list[Asked] = []

    @playbook("own", inputs=Asked, key=lambda asked: asked.name, agents=("worker",), needs_roles=False)
    async def own(run: Run, asked: Asked) -> Ending:
        """Work and ask."""
        seen.append(asked)
        done = await run.dispatch(Dispatch("worker", "Work.", Contract(must_change=True), writes=("**",)))
        if not done.ok:
            return Ending.failed("no work")
        decision = await run.gate("fine", "Fine?")
        return Ending.complete("yes") if decision.approved else Ending.stopped("no")

    endings = Counter(played.finished.status for played in standard_rehearsal(own).paths(Options(), most=1))
    assert set(endings) == {Status.COMPLETE, Status.STOPPED, Status.FAILED}
    assert set(map(str, seen)) == {str(Asked("sample", 1, "small", ["sample"]))}
    seen.clear()
    samples = (Asked("a", 1, "small", []), Asked("b", 2, "large", []))
    sampled = standard_rehearsal(replace(own, samples=lambda _asking: samples))
    assert [played.finished.status for played in sampled.paths(Options(), most=0)] == [Status.COMPLETE] * 2
    assert {one.name for one in seen} == {"a", "b"}


@pytest.mark.req("OW-03")
def test_a_playbook_that_never_ends_is_found_out_without_a_rehearsal_of_its_own() -> None:
    """So is one that goes on calling agents whatever they say."""

    @playbook("endless", inputs=Wish, key=lambda wish: wish.name, agents=("worker",), needs_roles=False)
    async def endless(run: Run, wish: Wish) -> Ending:
        """Work for ever."""
        turn = 0
        while True:
            turn += 1
            with run.step(f"turn-{turn}"):
                await run.dispatch(Dispatch("worker", wish.name))

    assert any("comes to an end" in one for one in rehearse(standard_rehearsal(endless), most=0))

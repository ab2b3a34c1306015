"""The pipeline rehearsed, and its invariants shown to notice broken copies of it."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from interlock.agents.runner import AgentRequest
from interlock.engine import CRASH, Act, Ending, Options, Playbook, Played, Rehearsal, Report
from interlock.engine.simulation import Crash, Simulation
from interlock.playbooks.feature import decisions, diagram, rehearsal
from interlock.playbooks.feature.briefs import Brief, Desk
from interlock.playbooks.feature.clusters import Panel, judge_reviews
from interlock.playbooks.feature.crew import Call, Crew, Heard, said_of
from interlock.playbooks.feature.decisions import Onward, Reviewed, Verified
from interlock.playbooks.feature.layout import POST_MORTEM, Layout
from interlock.playbooks.feature.rehearsing import REMARK
from interlock.playbooks.feature.shared_memory import LESSONS, Edit, edited
from interlock.playbooks.feature.stages import MOVES, Move, Stage, Walk
from tests.playbooks.broken import ALWAYS_FAULTS, Fault, expect_notice, never_ends

OPTIONS = Options()
AT = Layout("login")
PAGE = Path(__file__).parents[3] / "docs" / "playbooks" / "feature.md"


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Callable[[str, Counter[str]], None]:
    """Prints how many paths a test played, how they ended and what they took."""
    began = time.process_time()

    def told(what: str, endings: Counter[str]) -> None:
        seconds = time.process_time() - began
        shown = ", ".join(f"{status} {count}" for status, count in sorted(endings.items()))
        with capsys.disabled():
            print(f"\nfeature, {what}: {endings.total()} paths in {seconds:.1f} s of CPU; {shown}")

    return told


@pytest.mark.long
def test_every_invariant_holds_with_one_deviation(tell: Callable[[str, Counter[str]], None]) -> None:
    """Whatever one agent does wrong once, at whatever call, the run completes, at worst degraded."""
    setup = rehearsal()
    endings: Counter[str] = Counter()
    for played in setup.paths(OPTIONS, most=1):
        assert setup.broken(played) == []
        endings[played.close.status.value] += 1
    tell("every one with at most one deviation", endings)
    assert endings.total() > 100
    assert set(endings) == {"complete", "degraded"}


@dataclass
class Dice:
    """An agent that deviates so many times in a run, at calls that a seeded generator picks."""

    setup: Rehearsal
    left: int
    draw: random.Random
    schedule: dict[int, str] = field(default_factory=dict)
    calls: int = 0

    def __call__(self, request: AgentRequest) -> Act:
        number, self.calls = self.calls, self.calls + 1
        able = [one for one in (*self.setup.deviations, CRASH) if one.fits(request)]
        if not self.left or self.draw.random() > 0.15:
            return self.setup.base(request)
        self.left -= 1
        chosen = self.draw.choice(able)
        self.schedule[number] = chosen.name
        return chosen.act(request, self.setup.base(request))


def rolled(setup: Rehearsal, deviations: int, seed: int) -> Played:
    """One path with at most this many deviations."""
    dice = Dice(setup, deviations, random.Random(seed))
    simulation = setup.make(dice, OPTIONS)
    while True:
        try:
            return Played(dice.schedule, simulation.go(), simulation)
        except Crash:
            continue


@pytest.mark.long
@pytest.mark.parametrize(("deviations", "paths"), [(2, 60), (3, 100), (8, 80)])
def test_every_invariant_holds_on_a_seeded_sample(
    deviations: int, paths: int, tell: Callable[[str, Counter[str]], None]
) -> None:
    """All paths with two deviations are what `interlock rehearse feature` plays; here some of them, and of more."""
    setup = rehearsal()
    endings: Counter[str] = Counter()
    for seed in range(paths):
        played = rolled(setup, deviations, seed)
        assert setup.broken(played) == [], f"seed {seed}"
        endings[played.close.status.value] += 1
    tell(f"a sample with at most {deviations} deviations", endings)
    assert endings["complete"] and (endings["failed"] or deviations < 8)


def clean() -> Simulation:
    setup = rehearsal()
    return setup.make(setup.base, OPTIONS)


# -- deliberately broken copies


async def takes_any_review(*given: Any) -> Panel:
    """The reviewers are asked, and content whatever they say."""
    return replace(await judge_reviews(*given), reviewed=Reviewed.DONE)


async def takes_the_whole(crew: Crew, report: Report, before: Mapping[str, str]) -> None:
    """What a reviewer made of the decisions stands."""
    for path in before:
        await crew.run.write(path, report.text(path))


async def calls_quietly(crew: Crew, call: Call) -> Heard:
    """The post-mortem is called and not told of."""
    if call.member != POST_MORTEM:
        return await Crew_call(crew, call)
    report = await crew.run.dispatch(call.spec)
    return Heard(call, report, said_of(report, crew.at.mem(call.member)))


async def takes_a_fifth(crew: Crew, name: str, specs: Sequence[Brief], *, iteration: int = 1) -> dict[str, Heard]:
    """Pattern A with one agent more than it has places."""
    return await Crew_pattern_a(crew, name, [*specs, crew.desk.spec()], iteration=iteration)


def skips_verification(walk: Walk, move: Move) -> Stage:
    """Goes from the waves to the review, and stays where the table knows no way."""
    stage = MOVES.get((walk.stage, move), walk.stage)
    walk.stage = Stage.REVIEW if stage is Stage.VERIFY else stage
    return walk.stage


def loses_the_lessons(text: str, *edits: Edit) -> str:
    return edited(text, *edits).replace(f"{LESSONS}\n", "")


def loses_remarks(text: str, *edits: Edit) -> str:
    return edited(text, *edits).replace(REMARK, "")


def may_write_anywhere(desk: Desk) -> Brief:
    return replace(Desk_designer(desk), writes=("**",))


def ends_in_other_words(_crew: Crew, _first: str, _flaws: Sequence[str]) -> str:
    return "It is finished."


decided_by_all = decisions.v_cluster


def v_cluster(*given: Any) -> Verified:
    """Goes by what the verifiers say, and by nothing else."""
    return decided_by_all(*given[:4])


def goes_on(_failed: bool, _lost: object, _to_do: object) -> Onward:
    """The next wave comes whatever became of this one."""
    return Onward.NEXT


def revising_twice(playbook: Playbook) -> Playbook:
    return replace(playbook, caps={**playbook.caps, "ct": 2})


def with_eight_places(playbook: Playbook) -> Playbook:
    return replace(playbook, max_parallel=8)


def retrying_twice(playbook: Playbook) -> Playbook:
    return replace(playbook, retries=replace(playbook.retries, error=2))


Crew_call, Crew_pattern_a, Desk_designer = Crew.call, Crew.pattern_a, Desk.designer
FAULTS: Mapping[str, Fault] = {
    **ALWAYS_FAULTS,
    "every path comes to an end": Fault(copy=never_ends),
    "DONE only when the reviewers are": Fault(
        {"clusters.judge_reviews": takes_any_review}, most=1, by=("gives the worst verdict",)
    ),
    "nothing passes while a task is open": Fault({"decisions.v_cluster": v_cluster}, most=1, by=("says ERROR",)),
    "the end is DONE or ERROR": Fault({"closing.report": ends_in_other_words}),
    "loops are bounded": Fault(copy=revising_twice, most=1, by=("gives the worst verdict",)),
    "steps follow the table": Fault({"stages.Walk.go": skips_verification}),
    "never more than four at once": Fault({"crew.Crew.pattern_a": takes_a_fifth}, copy=with_eight_places),
    "no task starts before what it needs is done": Fault(
        {"decisions.after_group": goes_on}, most=1, by=("says ERROR",)
    ),
    "the shared memory is whole and has no mark": Fault({"shared_memory.edited": loses_the_lessons}),
    "nothing changes outside of its scope": Fault(
        {"briefs.Desk.designer": may_write_anywhere}, most=1, by=("writes outside",)
    ),
    "decisions only grow": Fault({"clusters.take_additions": takes_the_whole}, most=1, by=("rewrites the decisions",)),
    "what a person writes into memory or decisions stays there": Fault(
        {"shared_memory.edited": loses_remarks}, most=1, by=("a person edits the shared memory",)
    ),
    "one retry each": Fault(copy=retrying_twice, most=2, by=("says ERROR",)),
    "telemetry is complete": Fault({"crew.Crew.call": calls_quietly}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_invariant_notices_a_broken_copy(name: str) -> None:
    """The real process with one fault: some path of it is complained about by this invariant alone."""
    expect_notice(rehearsal(), OPTIONS, name, FAULTS[name])


def test_every_invariant_has_a_broken_copy() -> None:
    """An invariant that cannot fail proves nothing."""
    assert {one.name for one in rehearsal().invariants} == set(FAULTS)


async def _claims_success(_run: object, _inputs: object) -> Ending:
    return Ending.complete("DONE: trust me")


def test_a_playbook_that_skips_the_work_is_found_out() -> None:
    """It cannot claim DONE."""
    simulation = clean()
    simulation = replace(simulation, playbook=replace(simulation.playbook, function=_claims_success))
    simulation.world.tree.put(AT.memory, b"")
    played = Played({}, simulation.go(), simulation)
    broken = [one.name for one in rehearsal().invariants if one.name.startswith("DONE") and one.broken(played)]
    assert broken == ["DONE only when the reviewers are"]


# -- the page


def test_the_page_shows_the_table_of_moves() -> None:
    """The diagram in the documentation is the generated one."""
    assert f"```mermaid\n{diagram()}\n```" in PAGE.read_text("utf-8")


def test_the_page_names_every_invariant() -> None:
    """What a rehearsal checks is what the documentation says."""
    names = "".join(f"- {one.name}\n" for one in rehearsal().invariants)
    assert f"\n\n{names}\n" in PAGE.read_text("utf-8")

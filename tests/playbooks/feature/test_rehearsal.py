"""The pipeline rehearsed, and its invariants shown to notice broken copies of it."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from interlock.agents.runner import AgentRequest
from interlock.engine import Ending, Options, Playbook
from interlock.engine.simulation import Crash, Simulation
from interlock.playbooks.feature import decisions, rehearsal
from interlock.playbooks.feature.briefs import Brief, Briefs
from interlock.playbooks.feature.calls import Calls, Heard, said_of
from interlock.playbooks.feature.decisions import Concluded, Decided, Onward, Vote
from interlock.playbooks.feature.layout import Layout
from interlock.playbooks.feature.members import POST_MORTEM, Blocks
from interlock.playbooks.feature.shared_memory import LESSONS, SharedEdit, edited
from interlock.playbooks.feature.work import Work
from interlock.testing import CRASH, REMARK, Act, Played, Rehearsal
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
        endings[played.finished.status.value] += 1
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
        endings[played.finished.status.value] += 1
    tell(f"a sample with at most {deviations} deviations", endings)
    assert endings["complete"] and (endings["failed"] or deviations < 8)


def clean() -> Simulation:
    setup = rehearsal()
    return setup.make(setup.base, OPTIONS)


# -- deliberately broken copies


def conclusion(*_given: object) -> Concluded:
    """Nothing is ever good enough."""
    return Concluded.ERROR


decided_by_all_reviewers = decisions.r_cluster


def r_cluster(votes: Sequence[Vote]) -> Decided:
    """Goes by those who were there before the last that counts."""
    return decided_by_all_reviewers([one for one in votes if one.blocks is not Blocks.NEVER][:-1])


async def takes_the_whole(work: Work, one: Heard, before: Mapping[str, str]) -> None:
    """What a reviewer made of the decisions stands."""
    for path in before:
        if path in one.report.artifacts:
            await work.run.write(path, one.report.text(path))


async def calls_quietly(calls: Calls, brief: Brief) -> Heard:
    """The post-mortem is called and not told of."""
    if brief.name != POST_MORTEM:
        return await Calls_call(calls, brief)
    report = await calls.run.dispatch(brief)
    return Heard(brief, report, said_of(report, calls.at.mem(brief.name)))


async def takes_a_fifth(calls: Calls, name: str, briefs: Iterable[Brief], *given: Any) -> dict[str, Heard]:
    """A cluster with one agent more than it has places."""
    spec = Briefs(calls.at, calls.available).spec(())
    return await Calls_together(calls, name, [*briefs, spec], *given)


async def skips_verification(_work: Work) -> None:
    """Goes from the waves to the review."""


def loses_the_lessons(text: str, *edits: SharedEdit) -> str:
    return edited(text, *edits).replace(f"{LESSONS}\n", "")


def loses_remarks(text: str, *edits: SharedEdit) -> str:
    return edited(text, *edits).replace(REMARK, "")


def may_write_anywhere(briefs: Briefs, *given: Any) -> Brief:
    return replace(Briefs_designer(briefs, *given), writes=("**",))


def ends_in_other_words(_work: Work, _first: str, _flaws: Sequence[str]) -> str:
    return "It is finished."


decided_by_all = decisions.v_cluster


def v_cluster(votes: Sequence[Vote], *_known: object) -> Decided:
    """Goes by what the verifiers say, and by nothing else."""
    return decided_by_all(votes)


def goes_on(_failed: bool, _lost: object, _to_do: object) -> Onward:
    """The next wave comes whatever became of this one."""
    return Onward.NEXT


def revising_twice(playbook: Playbook) -> Playbook:
    return replace(playbook, caps={**playbook.caps, "ct": 2})


def with_eight_places(playbook: Playbook) -> Playbook:
    return replace(playbook, max_parallel=8)


def retrying_twice(playbook: Playbook) -> Playbook:
    return replace(playbook, retries=replace(playbook.retries, error=2))


Calls_call, Calls_together, Briefs_designer = Calls.call, Calls.together, Briefs.designer
FAULTS: Mapping[str, Fault] = {
    **ALWAYS_FAULTS,
    "every path comes to an end": Fault(copy=never_ends),
    "DONE when the reviewers are, and only then": Fault(
        {"decisions.conclusion": conclusion, "closing.unreviewed": lambda *_given: (["never good enough"], ())}
    ),
    "no reviewer is passed over": Fault({"decisions.r_cluster": r_cluster}, most=1, by=("gives the worst verdict",)),
    "nothing passes while a task is open": Fault({"decisions.v_cluster": v_cluster}, most=1, by=("says ERROR",)),
    "the end is DONE or ERROR": Fault({"closing.report": ends_in_other_words}),
    "loops are bounded": Fault(copy=revising_twice, most=1, by=("gives the worst verdict",)),
    "no step is left out": Fault({"playbook.verify": skips_verification}),
    "never more than four at once": Fault({"calls.Calls.together": takes_a_fifth}, copy=with_eight_places),
    "no task starts before what it needs is done": Fault(
        {"decisions.after_group": goes_on}, most=1, by=("says ERROR",)
    ),
    "the shared memory is whole and has no mark": Fault({"shared_memory.edited": loses_the_lessons}),
    "nothing changes outside of its scope": Fault(
        {"briefs.Briefs.designer": may_write_anywhere}, most=1, by=("writes outside",)
    ),
    "decisions only grow": Fault({"clusters.take_additions": takes_the_whole}, most=1, by=("rewrites the decisions",)),
    "what people write meanwhile is theirs": Fault(
        {"shared_memory.edited": loses_remarks}, most=1, by=("a person edits the shared memory",)
    ),
    "one retry each": Fault(copy=retrying_twice, most=2, by=("says ERROR",)),
    "telemetry is complete": Fault({"calls.Calls.call": calls_quietly}),
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
    assert broken == ["DONE when the reviewers are, and only then"]


# -- the page


def test_the_page_names_every_invariant() -> None:
    """What a rehearsal checks is what the documentation says."""
    names = "".join(f"- {one.name}\n" for one in rehearsal().invariants)
    assert f"\n\n{names}\n" in PAGE.read_text("utf-8")

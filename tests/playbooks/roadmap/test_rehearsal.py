"""The roadmap rehearsed: every combination of at most two faults, a sample of three, and invariants that notice."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.contracts import Outcome
from interlock.documents import Document
from interlock.engine import Edit, Ending, Options, Playbook, Status, Table
from interlock.playbooks.roadmap import TOKEN
from interlock.playbooks.roadmap.answers import Verdict
from interlock.playbooks.roadmap.briefs import ALWAYS_BRIEFED
from interlock.playbooks.roadmap.decisions import (
    AFTER_ATTEMPT,
    AGENT_OF,
    PIPELINES,
    AfterAttempt,
    AfterCall,
    AttemptResult,
    RetryBudget,
    Ruling,
    Step,
    after_call,
    judge,
)
from interlock.playbooks.roadmap.documents import Item
from interlock.playbooks.roadmap.iteration import Iteration
from interlock.playbooks.roadmap.ledger import transition
from interlock.playbooks.roadmap.playbook import STEPS, one_item
from interlock.playbooks.roadmap.rehearsing import FILE, item, rehearsal
from interlock.playbooks.roadmap.schema import STATE_FIELDS, Complexity
from interlock.playbooks.roadmap.settings import RoadmapSettings
from tests.playbooks.broken import ALWAYS_FAULTS, Fault, expect_notice

OPTIONS = Options(settings=RoadmapSettings())
SAMPLED = 0.004
"""Share of the paths with three faults that are played, besides those on which judges are negative three times."""
NEGATIVE = {"judges negatively", "passes against its own evidence", "finds drift"}
PAGE = Path(__file__).parents[3] / "docs" / "playbooks" / "roadmap.md"


@pytest.mark.long
@pytest.mark.req("RM-12", "RM-33", "RM-34", "RM-21", "RM-62", "RM-31", "CM-17", "CM-22")
def test_every_invariant_holds_on_every_path(capsys: pytest.CaptureFixture[str]) -> None:
    """All paths with at most two deviations, and a sample of three drawn with a fixed seed, end in a known way."""
    setup, chance = rehearsal(), random.Random(7)
    endings, faults = Counter[str](), Counter[int]()

    def sampled(schedule: Mapping[int, str]) -> bool:
        return NEGATIVE.issuperset(schedule.values()) or chance.random() < SAMPLED

    began = time.process_time()
    for played in setup.paths(OPTIONS, most=setup.most + 1, sample_of=sampled):
        assert setup.broken(played) == []
        assert "gate.opened" not in {line.event for line in played.simulation.lines}
        endings[played.finished.status.value] += 1
        faults[len(played.schedule)] += 1
    seconds = time.process_time() - began
    with capsys.disabled():
        print(
            f"\nroadmap: {endings.total()} paths in {seconds:.1f} s of CPU, by faults {dict(faults)}, {dict(endings)}"
        )
    assert faults[0] == 1
    assert faults[1] + faults[2] > 1500
    assert faults[3] > 100
    assert set(endings) == {Status.COMPLETE, Status.STOPPED, Status.FAILED}


# -- deliberately broken copies


SMALL = json.dumps([item("2", "simple", priority=2), item("1", "simple")], indent=2)
"""Two items that do not depend on each other."""


async def researches_for_ever(work: Iteration) -> bool:
    while True:
        await work.call(Step.RESEARCH)


async def goes_on(work: Iteration, *, first: bool) -> Ending | None:
    """Whatever became of the item, the next one is taken."""
    await one_item(work, first=first)
    return None


def marks_the_title(document: Document, place: str, item: Item, changes: Mapping[str, Any]) -> Edit:
    return transition(document, place, item, {**changes, "title": f"{item.title} ({changes.get('status', 'again')})"})


def begins_all(document: Document, place: str, item: Item, changes: Mapping[str, Any]) -> Edit:
    """Whoever is begun takes all that are ready along."""
    done = transition(document, place, item, changes)
    if changes.get("status") != "in_progress" or done.content is None:
        return done
    return replace(done, content=done.content.replace(b'"status": "ready"', b'"status": "in_progress"'))


def believes_the_word(step: Step, answer: Any, _outcome: Any, _against: Any) -> Ruling:
    """A pass is a pass, whatever speaks against it."""
    said = judge(step, answer, Outcome.OK)
    return Ruling() if answer.verdict is Verdict.PASS else said


def blocks_by_weather(step: Step, outcome: Outcome, *more: Any) -> AfterCall:
    return AfterCall.BLOCK if outcome is Outcome.FAIL else after_call(step, outcome, *more)


def with_a_fourth_attempt(playbook: Playbook) -> Playbook:
    return replace(playbook, caps={**playbook.caps, "attempt": 4})


def with_a_planner(playbook: Playbook) -> Playbook:
    return replace(playbook, agents=(*playbook.agents, "Planner"))


def pipelines(*steps: Step) -> Mapping[Complexity, tuple[Step, ...]]:
    """With these steps for a complex item."""
    return {**PIPELINES, Complexity.COMPLEX: steps}


SKIPS_REVIEW = pipelines(Step.RESEARCH, Step.DESIGN, Step.IMPLEMENT, Step.VALIDATION, Step.TESTING)
TESTS_FIRST = pipelines(Step.RESEARCH, Step.DESIGN, Step.IMPLEMENT, Step.TESTING, Step.VALIDATION, Step.REVIEW)
BLOCKED_IS_DONE = Table(
    "after_attempt", {**AFTER_ATTEMPT.rows, (AttemptResult.STOPPED, RetryBudget.LEFT): AfterAttempt.FINISH}
)

ENDS = "every path comes to an end"
ONLY_STATE = "only state fields change"
ONE = "at most one item is in progress at any moment"
TURNS = "items are taken by priority and id, none before what it depends on"
STOPS = "nothing follows a blocked item"
ORDER = "the steps keep their order"
ATTEMPTS = "no item has more than three attempts"
PROVEN = "done means that every verdict passed in the last attempt"
WORDS = "no verdict counts that is negative, unusable or not borne out by its evidence"
WEATHER = "an agent that did not do its part blocks no item"
TRUE_TOKEN = "the token is printed when all items pass, and only then"
AGENTS = "only the five agents are called"
BRIEFS = "every brief has the item and the skills line"
REPORTED = "each iteration is reported once"

BROKEN: Mapping[str, tuple[str, str, Fault]] = {
    **{name: (name, FILE, fault) for name, fault in ALWAYS_FAULTS.items()},
    "Research is asked again and again": (
        ENDS,
        FILE,
        Fault({"playbook.STEPS": {**STEPS, Step.RESEARCH: researches_for_ever}}),
    ),
    "the title says how the item stands": (
        ONLY_STATE,
        FILE,
        Fault({"schema.STATE_FIELDS": (*STATE_FIELDS, "title"), "ledger.transition": marks_the_title}),
    ),
    "all ready items are begun at once": (ONE, SMALL, Fault({"ledger.transition": begins_all})),
    "the last priority goes first": (
        TURNS,
        SMALL,
        Fault({"documents.Item.order": property(lambda item: (-item.priority, item.id))}),
    ),
    "dependencies are not looked at": (TURNS, FILE, Fault({"decisions.waits_on": lambda _item, _known: ()})),
    "a blocked item does not stop the run": (
        STOPS,
        SMALL,
        Fault({"playbook.one_item": goes_on}, most=1, by=("is blocked",)),
    ),
    "tests come before validation": (ORDER, FILE, Fault({"decisions.PIPELINES": TESTS_FIRST})),
    "three retries": (
        ATTEMPTS,
        SMALL,
        Fault({"schema.MOST_RETRIES": 3}, with_a_fourth_attempt, most=3, by=("judges negatively",)),
    ),
    "Review is left out": (PROVEN, FILE, Fault({"decisions.PIPELINES": SKIPS_REVIEW})),
    "an item whose agent is blocked is done": (
        PROVEN,
        SMALL,
        Fault({"decisions.AFTER_ATTEMPT": BLOCKED_IS_DONE}, most=1, by=("is blocked",)),
    ),
    "the judge's word is enough": (
        WORDS,
        SMALL,
        Fault({"decisions.judge": believes_the_word}, most=1, by=("passes against its own evidence",)),
    ),
    "every review is a good one": (
        WORDS,
        SMALL,
        Fault({"decisions.judge": lambda *_said: Ruling()}, most=1, by=("judges negatively",)),
    ),
    "a dead agent blocks the item": (
        WEATHER,
        SMALL,
        Fault({"decisions.after_call": blocks_by_weather}, most=2, by=("dies",)),
    ),
    "the token stands below a blocked item": (
        TRUE_TOKEN,
        SMALL,
        Fault({"report.blocked_text": lambda *_known: TOKEN}, most=1, by=("is blocked",)),
    ),
    "another agent designs": (
        AGENTS,
        FILE,
        Fault({"decisions.AGENT_OF": {**AGENT_OF, Step.DESIGN: "Planner"}}, with_a_planner),
    ),
    "the verification commands are not handed over": (
        BRIEFS,
        FILE,
        Fault({"briefs.ALWAYS_BRIEFED": tuple(name for name in ALWAYS_BRIEFED if name != "verification")}),
    ),
    "nothing is reported": (REPORTED, FILE, Fault({"report.iteration_block": lambda *_known: ""})),
}
"""What is broken in a copy: the invariant that notices, the roadmap on which it shows, the fault."""


def test_the_whole_playbook_has_no_complaint_on_the_small_roadmap() -> None:
    """So that a complaint there comes from the fault."""
    setup = rehearsal(SMALL)
    assert [problem for played in setup.paths(OPTIONS, most=1) for problem in setup.broken(played)] == []


@pytest.mark.parametrize("what", BROKEN)
def test_each_invariant_notices_a_broken_copy_of_the_playbook(what: str) -> None:
    """The real process with one fault has a path about which that invariant complains, and no other."""
    name, file, fault = BROKEN[what]
    expect_notice(rehearsal(file), OPTIONS, name, fault)


def test_every_invariant_has_a_broken_copy_and_a_line_on_the_page() -> None:
    """An invariant that cannot fail proves nothing, and one that nobody knows of promises nothing."""
    names = [one.name for one in rehearsal().invariants]
    assert {name for name, _file, _fault in BROKEN.values()} == set(names)
    assert "".join(f"- {name}\n" for name in names) in PAGE.read_text("utf-8")

"""Selection, research, verdicts: pure, total, the same on every machine."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.contracts import Evidence, Outcome, Reason
from interlock.engine import Proof
from interlock.playbooks.roadmap.answers import StepAnswer, Verdict, read_answer
from interlock.playbooks.roadmap.decisions import (
    AFTER_ATTEMPT,
    AGENT_OF,
    AGENTS,
    JUDGES,
    PIPELINES,
    RESEARCH,
    RETRY_PIPELINES,
    REVIEWED,
    AfterAttempt,
    AfterCall,
    AttemptResult,
    Failure,
    Knowledge,
    Pick,
    QualityGate,
    Research,
    RetryBudget,
    Ruling,
    Source,
    Step,
    after_call,
    budget,
    changed_scope,
    is_empty,
    judge,
    judge_proofs,
    knowledge,
    select,
)
from interlock.playbooks.roadmap.documents import Item
from interlock.playbooks.roadmap.ledger import upcoming
from interlock.playbooks.roadmap.schema import Complexity

from .conftest import item

DONE = {"status": "done", "passes": True}


def items(*raw: dict[str, Any]) -> list[Item]:
    return [Item(n, one) for n, one in enumerate(raw)]


@pytest.mark.req("CM-17")
def test_the_tables_are_total() -> None:
    """Every combination has a row."""
    assert [*RESEARCH.missing()] == []
    assert [*AFTER_ATTEMPT.missing()] == []
    assert PIPELINES.keys() == RETRY_PIPELINES.keys() == set(Complexity)
    for step, outcome, reason, before in product(Step, Outcome, [None, *Reason], [False, True]):
        assert after_call(step, outcome, reason, before) in AfterCall


# -- selection


@pytest.mark.req("RM-13")
@pytest.mark.parametrize("state", [DONE, {"status": "blocked"}])
def test_only_ready_items_that_have_not_passed_are_candidates(state: dict[str, Any]) -> None:
    """Done and blocked items are never chosen, whatever their priority."""
    found = select(items(item(1, priority=0, **state), item(2)))
    assert (found.choice, found.item.id) == (Pick.SELECTED, "2")  # type: ignore[union-attr]


@pytest.mark.req("RM-14")
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.sampled_from(["a-2", "a-10", "b", "7", "70"])), unique_by=lambda p: p[1]),
    st.randoms(use_true_random=False),
)
def test_the_choice_does_not_depend_on_the_order_of_the_array(
    pairs: list[tuple[int, str]], chance: random.Random
) -> None:
    """The least by priority, then by id in natural order, from any permutation."""
    raw = [item(identity, priority=priority) for priority, identity in pairs]
    shuffled = chance.sample(raw, len(raw))
    first, second = select(items(*raw)), select(items(*shuffled))
    assert (first.item and first.item.id) == (second.item and second.item.id)
    if first.item is not None:
        assert first.item.priority == min(priority for priority, _ in pairs)


@pytest.mark.req("RM-14")
def test_two_comes_before_ten() -> None:
    """Ids are compared as people do, not letter by letter."""
    assert select(items(item("ITEM-10"), item("ITEM-2"))).item.id == "ITEM-2"  # type: ignore[union-attr]
    assert select(items(item(10), item(9), item(100))).item.id == "9"  # type: ignore[union-attr]


@pytest.mark.req("RM-15")
@pytest.mark.parametrize("status", ["ready", "blocked"])
def test_an_item_waits_until_its_dependencies_are_done(status: str) -> None:
    """The best priority does not help; what it waits on is named."""
    found = select(
        items(item(1, priority=0, dependencies=[3, "4"]), item(2), item(3, status=status, priority=9), item(4, **DONE))
    )
    assert found.item is not None
    assert found.item.id == "2"
    assert [(one.item.id, [other.id for other in one.on]) for one in found.passed_over] == [("1", ["3"])]
    ready = select(items(item(1, priority=0, dependencies=[3]), item(2), item(3, **DONE)))
    assert ready.item is not None
    assert ready.item.id == "1"


@pytest.mark.req("RM-16", "RM-98")
def test_an_item_in_progress_comes_first_and_alone() -> None:
    """It is resumed before anything new is selected."""
    found = select(items(item(1, priority=0), item(2, priority=9, status="in_progress")))
    assert (found.choice, found.item.id) == (Pick.RESUMED, "2")  # type: ignore[union-attr]


@pytest.mark.req("RM-93")
def test_the_next_candidate_is_an_item_complete_or_the_numbers() -> None:
    """Id and title; COMPLETE; or how many are blocked and how many wait."""
    assert upcoming(items(item(1, **DONE), item(2, title="Log\n out"))) == "2 Log out"
    assert upcoming(items(item(1, **DONE))) == "COMPLETE"
    stuck = items(item(1, status="blocked"), item(2, dependencies=[1]), item(3, dependencies=[2]), item(4, **DONE))
    assert upcoming(stuck) == "none (1 blocked, 2 waiting)"


# -- pipelines and research


@pytest.mark.req("RM-22", "RM-23", "RM-24", "RM-65", "RM-37", "RM-33", "RM-34")
def test_the_pipelines_are_those_of_the_written_process() -> None:
    """By complexity; a retry never researches or designs; validation is for complex items alone."""
    agents = {complexity: [AGENT_OF[step] for step in PIPELINES[complexity]] for complexity in Complexity}
    assert agents == {
        Complexity.SIMPLE: ["Implement", "Testing", "Review"],
        Complexity.MEDIUM: ["Research", "Architect", "Implement", "Testing", "Review"],
        Complexity.COMPLEX: ["Research", "Architect", "Implement", "Architect", "Testing", "Review"],
    }
    for complexity, steps in RETRY_PIPELINES.items():
        assert steps == tuple(step for step in PIPELINES[complexity] if step not in (Step.RESEARCH, Step.DESIGN))
        assert (Step.VALIDATION in steps) == (complexity is Complexity.COMPLEX)
    assert AGENTS == ("Research", "Architect", "Implement", "Testing", "Review")


@pytest.mark.req("RM-25", "RM-26", "RM-27", "RM-28", "RM-29")
@pytest.mark.parametrize(
    ("planning", "expected"),
    [
        (None, Knowledge.NONE),
        ("", Knowledge.NONE),
        (" \n", Knowledge.NONE),
        ([], Knowledge.NONE),
        ({}, Knowledge.NONE),
        ({"findings": [], "scope": {"title": "Item 7"}}, Knowledge.NONE),
        ("Known.", Knowledge.CURRENT),
        (["Known."], Knowledge.CURRENT),
        (["", "Known."], Knowledge.CURRENT),
        ({"findings": ["Known."], "gaps": []}, Knowledge.CURRENT),
        (5, Knowledge.CURRENT),
        ({"findings": ["Known."]}, Knowledge.CURRENT),
        ({"findings": ["Known."], "scope": {"title": "Item 7"}}, Knowledge.CURRENT),
        ({"findings": ["Known."], "scope": {"title": "Other"}}, Knowledge.OUTDATED),
        ({"findings": ["Known."], "scope": "nonsense"}, Knowledge.CURRENT),
    ],
)
def test_what_planning_research_is_worth(planning: Any, expected: Knowledge) -> None:
    """Empty in any form is nothing; populated counts unless the snapshot of the scope shows a change."""
    assert knowledge(Item(0, item(planningResearch=planning))) is expected
    assert is_empty(planning) == (expected is Knowledge.NONE)


@pytest.mark.req("RM-25", "RM-26", "RM-27", "RM-28", "RM-29")
def test_how_much_is_researched() -> None:
    """By complexity and by what is known: nothing, current, outdated."""
    table = {complexity: [RESEARCH(complexity, known) for known in Knowledge] for complexity in Complexity}
    assert table == {
        Complexity.SIMPLE: [Research.SKIPPED, Research.SKIPPED, Research.SKIPPED],
        Complexity.MEDIUM: [Research.FULL, Research.NOT_NEEDED, Research.NARROWED],
        Complexity.COMPLEX: [Research.FULL, Research.NARROWED, Research.NARROWED],
    }


def test_the_changed_fields_of_the_scope_are_named() -> None:
    """Only fields that the snapshot has, and that differ."""
    scope = {"title": "Old", "acceptanceCriteria": ["It works.", "It is fast."], "verification": ["make"]}
    planned = Item(0, item(planningResearch={"findings": ["x"], "scope": scope}))
    assert changed_scope(planned) == ("title", "verification")
    assert changed_scope(Item(0, item(planningResearch=None))) == ()


def test_a_ruling_passes_without_failures_and_with_every_gate_open() -> None:
    """Either alone is not enough."""
    failure = Failure(Source.REVIEW, "a.ts: x")
    assert Ruling({QualityGate.BUILD: True}).passed
    assert not Ruling({QualityGate.BUILD: True}, (failure,)).passed
    assert not Ruling({QualityGate.BUILD: False}).passed


# -- verdicts

CHECKED = dict.fromkeys(["lint", "typecheck", "build", "quality"], "pass")


def reviewed(verdict: Verdict, issues: tuple[str, ...] = (), **marks: str) -> StepAnswer:
    return StepAnswer(verdict, evidence=Evidence(marks={**CHECKED, **marks}), issues=issues)


@pytest.mark.req("RM-59", "RM-84", "EV-01")
@pytest.mark.parametrize(
    ("answer", "outcome", "against", "said"),
    [
        (StepAnswer(Verdict.PASS), Outcome.OK, (), None),
        (StepAnswer(Verdict.FAIL, evidence=Evidence(failures=("t: boom",))), Outcome.OK, (), "tests: verdict fail"),
        (StepAnswer(), Outcome.OK, (), "tests: verdict missing"),
        (StepAnswer(Verdict.ALIGNED), Outcome.OK, (), "tests: verdict aligned"),
        (
            StepAnswer(Verdict.PASS),
            Outcome.REVISE,
            ("says pass, but: 1 test failed",),
            "says pass, but: 1 test failed",
        ),
        (StepAnswer(Verdict.PASS), Outcome.REVISE, (), "tests: needs revision"),
        (StepAnswer(), Outcome.REVISE, (), "tests: needs revision"),
    ],
)
def test_the_verdict_on_the_tests(
    answer: StepAnswer, outcome: Outcome, against: tuple[str, ...], said: str | None
) -> None:
    """Pass needs the word, and that nothing speaks against it; everything else is a named failure of Testing."""
    ruling = judge(Step.TESTING, answer, outcome, against)
    assert ruling.gates == {QualityGate.TESTS: said is None}
    assert ruling.passed == (said is None)
    assert [failure.source for failure in ruling.failures] == [Source.TESTING] * len(ruling.failures)
    assert [failure.reason for failure in ruling.failures] == ([said, *answer.evidence.failures] if said else [])


@pytest.mark.req("RM-59", "RM-71", "RM-94")
def test_the_verdicts_of_review() -> None:
    """What fails is named for its gate; a negative word without one counts for the quality."""
    assert judge(Step.REVIEW, reviewed(Verdict.PASS), Outcome.OK).gates == dict.fromkeys(REVIEWED, True)
    for gate in REVIEWED:
        failing = judge(Step.REVIEW, reviewed(Verdict.FAIL, ("a.ts: x",), **{gate: "fail"}), Outcome.OK)
        assert [failure.reason for failure in failing.failures] == [f"{gate}: verdict fail", "a.ts: x"]
        assert all(failure.source is Source.REVIEW for failure in failing.failures)
        assert failing.gates == {name: name != gate for name in REVIEWED}
    skipped = judge(Step.REVIEW, reviewed(Verdict.PASS, typecheck="skipped"), Outcome.OK)
    assert skipped.passed
    bare = judge(Step.REVIEW, reviewed(Verdict.FAIL), Outcome.OK)
    assert [failure.reason for failure in bare.failures] == ["quality: verdict fail"]
    unfinished = judge(Step.REVIEW, reviewed(Verdict.PASS), Outcome.REVISE)
    assert [failure.reason for failure in unfinished.failures] == ["quality: needs revision"]
    torn = judge(Step.REVIEW, reviewed(Verdict.PASS, build="fail"), Outcome.REVISE, ("says pass, but: build: fail",))
    assert [failure.reason for failure in torn.failures] == ["says pass, but: build: fail"]
    listed = StepAnswer(Verdict.PASS, evidence=Evidence(failures=("test_a", "test_b")), issues=("it is slow",))
    twice = judge(Step.TESTING, listed, Outcome.REVISE, ("says pass, but: failure listed: test_a",))
    reasons = [failure.reason for failure in twice.failures]
    assert reasons == ["says pass, but: failure listed: test_a", "test_b", "it is slow"]  # each once
    assert torn.gates[QualityGate.BUILD] is False


@pytest.mark.req("RM-39", "RM-40", "RM-41")
def test_the_verdict_on_the_design() -> None:
    """Aligned passes; drift fails with its issues."""
    assert judge(Step.VALIDATION, StepAnswer(Verdict.ALIGNED), Outcome.OK).passed
    drift = judge(Step.VALIDATION, StepAnswer(Verdict.DRIFT, issues=("a.ts: x", "b.ts: y")), Outcome.OK)
    assert [(one.source, one.reason) for one in drift.failures] == [
        (Source.VALIDATION, "a.ts: x"),
        (Source.VALIDATION, "b.ts: y"),
    ]
    asked = judge(Step.VALIDATION, StepAnswer(Verdict.ALIGNED), Outcome.REVISE)
    assert [one.reason for one in asked.failures] == ["validation: needs revision"]


@pytest.mark.req("EV-04")
def test_what_the_engines_own_proofs_say() -> None:
    """A red command fails the attempt with how it ended and the end of its output; none red, none fails."""
    green = Proof("verification-1", "make", 0, 1.0, "ok", "t")
    red = replace(green, exit=1, problem="ended with exit status 1", tail="\n".join(f"line {n}" for n in range(40)))
    assert judge_proofs([green]) == Ruling({QualityGate.VERIFICATION: True})
    ruling = judge_proofs([green, red])
    assert ruling.gates == {QualityGate.VERIFICATION: False}
    (failure,) = ruling.failures
    assert failure.source == "Engine"
    assert failure.reason.splitlines()[0] == "verification-1: make: ended with exit status 1"
    assert failure.reason.splitlines()[1:] == [f"line {n}" for n in range(28, 40)]


@given(
    st.builds(dict, verdict=st.sampled_from([*Verdict, "x", None, 3]), status=st.just("success")),
    st.sampled_from([*Outcome]),
)
def test_verdicts_are_total_and_silence_never_passes(data: dict[str, Any], outcome: Outcome) -> None:
    """Whatever a judge says or leaves out: only the one good word passes, and only as an answer that counts."""
    answer = read_answer(data)
    for step in JUDGES:
        good = outcome is Outcome.OK and data["verdict"] == ("aligned" if step is Step.VALIDATION else "pass")
        assert judge(step, answer, outcome).passed == good


@pytest.mark.req("RM-62", "RM-63")
def test_what_follows_an_attempt() -> None:
    """A failure is retried while retryCount is below 2, and blocks from then on."""
    assert [budget(retries) for retries in (0, 1, 2)] == [RetryBudget.LEFT, RetryBudget.LEFT, RetryBudget.USED]
    assert AFTER_ATTEMPT(AttemptResult.FAILED, RetryBudget.LEFT) is AfterAttempt.RETRY
    assert AFTER_ATTEMPT(AttemptResult.FAILED, RetryBudget.USED) is AfterAttempt.BLOCK
    assert {AFTER_ATTEMPT(AttemptResult.PASSED, left) for left in RetryBudget} == {AfterAttempt.FINISH}
    assert {AFTER_ATTEMPT(AttemptResult.STOPPED, left) for left in RetryBudget} == {AfterAttempt.BLOCK}


@pytest.mark.req("RM-83", "RM-84", "EV-25")
def test_what_follows_a_call() -> None:
    """Blocked blocks; a judge's needs_revision is a verdict; a producer's is asked about once, then blocks. Behind a
    failed call nothing is decided about the item."""
    assert {Step.VALIDATION, Step.TESTING, Step.REVIEW} == JUDGES
    for step in Step:
        assert after_call(step, Outcome.OK, None, False) is AfterCall.GO_ON
        assert after_call(step, Outcome.BLOCKED, None, False) is AfterCall.BLOCK
        first, second = (after_call(step, Outcome.REVISE, None, before) for before in (False, True))
        judging = step in JUDGES
        assert (first, second) == ((AfterCall.GO_ON,) * 2 if judging else (AfterCall.ASK_AGAIN, AfterCall.BLOCK))
        for reason in Reason:
            again = AfterCall.ASK_AGAIN if reason is Reason.SCOPE_VIOLATION else AfterCall.LEAVE_OPEN
            assert after_call(step, Outcome.FAIL, reason, False) is again
            assert after_call(step, Outcome.FAIL, reason, True) is AfterCall.LEAVE_OPEN
            assert after_call(step, Outcome.FAIL, reason, False, in_conflict=True) is AfterCall.ASK_AGAIN
            assert after_call(step, Outcome.FAIL, reason, True, in_conflict=True) is AfterCall.LEAVE_OPEN

"""An answer counts only together with its artifacts."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from interlock.contracts import (
    TRANSIENT,
    UNUSABLE,
    Answer,
    Artifact,
    ArtifactCheck,
    ArtifactClass,
    Claim,
    Contract,
    Judgement,
    Outcome,
    Reason,
    judge,
    parse_answer,
    why_no_change,
)
from interlock.errors import EngineFault
from tests.playbooks.answer_words import HARNESS, PLAIN

CONTRACT = Contract((Artifact("a.md"), Artifact("b.md"), Artifact("extra.md", required=False)))
POSITIVE = (Outcome.OK, Outcome.REVISE)


def checks(a: ArtifactClass, b: ArtifactClass, extra: ArtifactClass = ArtifactClass.OK) -> list[ArtifactCheck]:
    return [ArtifactCheck(path, cls, "why") for path, cls in (("a.md", a), ("b.md", b), ("extra.md", extra))]


@pytest.mark.req("CM-11", "CM-16")
def test_every_answer_meets_every_class_of_artifacts() -> None:
    """All combinations: a broken required artifact turns OK and REVISE into a contract violation, and nothing else."""
    answers = [Answer(outcome) for outcome in Outcome if outcome is not Outcome.FAIL]
    answers += [Answer(Outcome.FAIL, reason, detail="said") for reason in Reason]
    for answer, a, b, extra in itertools.product(answers, ArtifactClass, ArtifactClass, ArtifactClass):
        found = judge(CONTRACT, answer, checks(a, b, extra))
        broken = tuple(f"{path}: {cls}: why" for path, cls in (("a.md", a), ("b.md", b)) if cls is not ArtifactClass.OK)
        if answer.outcome is Outcome.FAIL:
            more = broken if answer.reason in UNUSABLE else ()
            assert found == Judgement(Outcome.FAIL, answer.reason, ("said", *more))
        elif answer.outcome in POSITIVE and broken:
            assert found == Judgement(Outcome.FAIL, Reason.CONTRACT_VIOLATION, broken)
        else:
            assert found == Judgement(answer.outcome, None, broken)


def test_an_artifact_that_was_not_looked_at_is_missing() -> None:
    """Forgetting a check is never a pass."""
    found = judge(CONTRACT, Answer(Outcome.OK), checks(ArtifactClass.OK, ArtifactClass.OK)[:1])
    assert found == Judgement(Outcome.FAIL, Reason.CONTRACT_VIOLATION, ("b.md: missing",))


@pytest.mark.req("EN-42")
def test_exit_0_needs_the_verified_artifact() -> None:
    """Where the artifact is the verdict: with it a pass, without it a violation; a contract without one is a fault."""
    contract = Contract((Artifact("design.md"),), HARNESS)
    answer = parse_answer(contract.answer, code=0, message="")
    assert judge(contract, answer, [ArtifactCheck("design.md", ArtifactClass.OK)]).outcome is Outcome.OK
    found = judge(contract, answer, [ArtifactCheck("design.md", ArtifactClass.STALE)])
    assert (found.outcome, found.reason) == (Outcome.FAIL, Reason.CONTRACT_VIOLATION)
    with pytest.raises(EngineFault):
        Contract((Artifact("x.md", required=False),), HARNESS)


def test_a_contract_may_ask_for_nothing_but_a_verdict() -> None:
    """Then the answer decides."""
    assert Contract().answer is PLAIN
    assert judge(Contract(), Answer(Outcome.OK), []) == Judgement(Outcome.OK)


@pytest.mark.req("EN-42")
def test_one_required_artifact_is_enough_for_a_verdict() -> None:
    """Beside others that may be missing."""
    contract = Contract((Artifact("design.md"), Artifact("notes.md", required=False)), HARNESS)
    assert not contract.must_change


def test_a_failure_that_says_nothing_has_no_complaint() -> None:
    """An empty line helps nobody."""
    assert judge(Contract(), Answer(Outcome.FAIL, Reason.CRASHED), []).complaints == ()


def test_a_claim_is_read_from_the_data_and_the_texts() -> None:
    """Of an answer that says OK; any other word stands without a claim."""
    seen: list[object] = []

    def claim(data: Mapping[str, Any], texts: Mapping[str, str]) -> Claim:
        seen.append((data, texts))
        return Claim(passes=False)

    contract = Contract(claim=claim)
    judge(contract, Answer(Outcome.OK, data={"a": 1}), [], {"a.md": "x"})
    judge(contract, Answer(Outcome.OK), [])
    assert seen == [({"a": 1}, {"a.md": "x"}), ({}, {})]
    assert judge(contract, Answer(Outcome.REVISE), []).passed is None
    assert len(seen) == 2


@pytest.mark.req("EV-06")
@pytest.mark.parametrize(
    ("data", "texts", "why"),
    [
        ({"noChange": " it is\n right "}, (), "it is right"),
        ({"no_change": "right"}, ("No change: other",), "right"),
        (
            {"noChange": " ", "no_change": 5},
            ("# T\n\n- **No change**: it was mended before\n",),
            "it was mended before",
        ),
        (None, ("nothing", "No change: as it should be"), "as it should be"),
        (None, ("> No change: somebody else's word",), ""),
        (None, (), ""),
    ],
)
def test_why_nothing_was_changed(data: Mapping[str, Any] | None, texts: tuple[str, ...], why: str) -> None:
    """The agent's own words, in its data or behind the label; empty when it does not say."""
    assert why_no_change(data, texts) == why


def test_which_failures_may_pass_and_which_are_asked_about_again() -> None:
    """No verdict at all: the same call again. Something that cannot be used: with the complaint."""
    assert {Reason.TIMEOUT, Reason.SPAWN_FAILED, Reason.CRASHED} == TRANSIENT
    unusable = {Reason.NO_VERDICT, Reason.CONTRACT_VIOLATION, Reason.BAD_FORMAT, Reason.SESSION_MISMATCH}
    assert {*unusable, Reason.NO_CHANGE} == UNUSABLE

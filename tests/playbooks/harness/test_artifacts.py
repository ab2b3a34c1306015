"""Artifacts: the four checks, and what a QA artifact says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.contracts import (
    Answer,
    Artifact,
    ArtifactCheck,
    ArtifactClass,
    Contract,
    Judgement,
    Outcome,
    Reason,
    Structure,
)
from interlock.contracts import judge as weigh
from interlock.documents import Document, DocumentState
from interlock.playbooks.harness import artifacts
from interlock.playbooks.harness.artifacts import Findings, claim_in, good_judgement, inspect, marked, structure_of
from interlock.playbooks.harness.briefs import ANSWER
from interlock.playbooks.harness.decisions import AfterVerdict, after_verdict
from interlock.playbooks.harness.stages import LIFECYCLE, PLANNING, QA, Stage, StageContract
from tests.playbooks.harness.conftest import NEGATIVE, qa

assert QA.judging is not None
JUDGING = QA.judging
CRITERIA = ("AC1: It greets by name.", "AC-7: `greet` alone prints *world*")


def judged(text: str) -> Judgement:
    """What a QA report comes to, by the rule that all playbooks share."""
    contract = Contract((Artifact("qa.md"),), ANSWER, claim=claim_in(JUDGING, "qa.md"))
    return weigh(contract, Answer(Outcome.OK), [ArtifactCheck("qa.md", ArtifactClass.OK)], {"qa.md": text})


def is_positive(text: str) -> bool:
    return after_verdict(bool(judged(text).passed), False, True) is AfterVerdict.ADVANCE


def qa_problem(text: str, criteria: tuple[str, ...] = ()) -> str | None:
    return artifacts.judge_problem(JUDGING, text, criteria)


def qa_findings(text: str) -> Findings:
    return artifacts.findings_of(JUDGING, text)


def structure(stage: Stage, criteria: tuple[str, ...] = ()) -> Structure:
    assert stage.contract is not None
    return structure_of(stage, stage.contract, criteria)


def document(text: str = "", state: DocumentState = DocumentState.OK, problem: str | None = None) -> Document:
    return Document("a.md", state, text, digest="d", problem=problem)


@pytest.mark.req("HN-16", "HN-19")
@pytest.mark.parametrize(
    ("found", "cls", "complaint", "answers"),
    [
        (document(state=DocumentState.MISSING), ArtifactClass.MISSING, "a.md: missing", (False,) * 4),
        (
            document(state=DocumentState.UNREADABLE, problem="is a directory"),
            ArtifactClass.UNREADABLE,
            "a.md: unreadable: is a directory",
            (True, False, False, False),
        ),
        (document(" \n"), ArtifactClass.EMPTY, "a.md: empty", (True, True, False, False)),
        (
            document("# T\n"),
            ArtifactClass.MALFORMED,
            "a.md: malformed: ## Steps missing",
            (True, True, True, False),
        ),
        (document("# T\n## Steps\n"), ArtifactClass.OK, "a.md: ok", (True,) * 4),
    ],
)
def test_the_four_checks(found: Document, cls: ArtifactClass, complaint: str, answers: tuple[bool, ...]) -> None:
    """Existing, readable, not empty, structured: the first No gives the class, with the exact path."""
    inspection = inspect(found, structure(PLANNING))
    assert inspection.cls is cls
    assert inspection.complaint == complaint
    assert tuple(inspection.answers().values()) == answers
    assert list(inspection.answers()) == ["exists", "readable", "non_empty", "structured"]


@pytest.mark.parametrize("stage", LIFECYCLE.working, ids=lambda stage: stage.name)
def test_every_least_structure_has_a_sample_that_satisfies_it(stage: Stage) -> None:
    """What the scripted player writes counts; without any one heading it does not."""
    least = structure(stage, CRITERIA)
    text = least.sample()
    assert least.problem(text) is None
    for heading in headings_of(stage):
        assert least.problem(text.replace(heading, "## Other")) is not None
    assert least.problem(text.replace("# ", "", 1)) is not None


def headings_of(stage: Stage) -> tuple[str, ...]:
    return stage.judging.headings if stage.judging else stage.contract.headings if stage.contract else ()


def test_further_headings_of_a_qa_contract_count_too() -> None:
    """A team's own headings come on top of the marks that are always asked for."""
    more = structure_of(QA, StageContract((), headings=("## Blocking Issues", "## Views")), ())
    assert more.problem(good_judgement(JUDGING, ())) == "## Views missing"
    assert more.problem(more.sample()) is None


@pytest.mark.req("HN-69", "HN-70", "HN-71", "HN-72", "HN-73")
@pytest.mark.parametrize(
    ("text", "positive"),
    [
        (qa(), True),
        (qa(result="Issues Found"), False),
        (qa(readiness="Back to Build"), False),
        (qa(issues="- It crashes"), False),
        (qa(criteria="- [x] A\n- [ ] B"), False),
        (qa(criteria="- [x] A\n  - [ ] a part of it"), False),
        (qa(criteria="- [~] half"), False),
        (qa(criteria="* [X] A\n+ [x] B"), True),
        (qa(issues="- none."), True),
        (qa(issues="None found."), True),
        (qa(issues="- None\n- It crashes"), False),
        (qa() + "\nValidation Result: Issues Found\n", False),
        (qa() + "\n## Blocking Issues\n\n- Later found\n", False),
        (qa() + "\n```\nValidation Result: Issues Found\n- [ ] x\n```\n", True),
        (qa().replace("Validation Result:", "**Validation Result**:"), True),
        (NEGATIVE, False),
    ],
)
def test_one_negative_mark_is_enough(text: str, positive: bool) -> None:
    """Whatever the other fields say, one of the four marks sends the task back."""
    assert qa_problem(text) is None
    assert is_positive(text) is positive


NOTHING_SAID = (
    "Validation Result missing; Approval Readiness missing; ## Blocking Issues and ## Acceptance Criteria missing"
)
"""All at once: a judge is asked again once only."""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (qa().replace("Validation Result: Passed\n", ""), "Validation Result missing"),
        (qa().replace("Approval Readiness: Ready\n", ""), "Approval Readiness missing"),
        (qa(result="Fine"), 'Validation Result is "Fine"; expected Passed or Issues Found'),
        (qa(readiness="Soon"), 'Approval Readiness is "Soon"; expected Ready or Back to Build'),
        (qa(issues="It is fine."), "## Blocking Issues has neither bullets nor - None"),
        (qa(criteria="All are met."), "## Acceptance Criteria has no checklist (- [x] or - [ ])"),
        (qa(criteria="- [x] A\n- B is met"), "## Acceptance Criteria: 'B is met' has no box"),
        (qa().replace("# QA\n", ""), "title (a line starting with '# ') missing"),
        (qa().replace("## Blocking Issues", "## Issues"), "## Blocking Issues missing"),
        ("# QA\n\n```\n" + qa() + "```\n", NOTHING_SAID),
        (qa(criteria="- [✓] A\n- [x] B"), "## Acceptance Criteria: '[✓] A' is neither [x] nor [ ]"),
        (qa(criteria="- [\u0445] A\n- [x] B"), "## Acceptance Criteria: '[\u0445] A' is neither [x] nor [ ]"),
        ("<!--\n" + qa() + "-->\n# QA\n", NOTHING_SAID),
    ],
)
def test_a_qa_artifact_that_cannot_be_judged(text: str, problem: str) -> None:
    """Without both lines and a checklist it is malformed, never positive."""
    assert qa_problem(text) == problem


# -- evidence


@pytest.mark.req("EV-01")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (qa(evidence="- `npm test`: exit 1"), "says pass, but: `npm test` ended with exit status 1"),
        (
            qa(evidence="- `make`: exit 0\n- `make test`: exit 2"),
            "says pass, but: `make test` ended with exit status 2",
        ),
        (qa(criteria="- [x] AC1\n- [ ] AC2 not seen"), "says pass, but: criterion not met: AC2 not seen"),
        (qa(issues="- It crashes"), "says pass, but: blocking issue: It crashes"),
    ],
)
def test_a_pass_against_its_own_evidence_is_none(text: str, said: str) -> None:
    """It counts as the negative verdict, and the reason quotes what speaks against it."""
    found = judged(text)
    assert (found.passed, found.reason) == (False, Reason.CONTRADICTED)
    assert said in found.complaints


@pytest.mark.req("EV-02", "EV-03")
@pytest.mark.parametrize(
    ("evidence", "usable"),
    [
        ("All tests pass. Trust me.", False),
        ("- `make test`: passed", False),
        ("> - `make test`: exit 0", False),
        ("- `make test`: exit 0", True),
        ("Nothing to run: the project is one page of text", True),
    ],
)
def test_a_pass_shows_a_command_with_its_exit_status(evidence: str, usable: bool) -> None:
    """Or says why there is none; else the report cannot be used, which is for QA to mend and not for Build."""
    found = judged(qa(evidence=evidence))
    assert (found.passed is True) is usable
    assert (found.reason is Reason.CONTRACT_VIOLATION) is not usable


@pytest.mark.req("EV-09")
@pytest.mark.parametrize(
    "said",
    ["None found.", "N/A", "n/a.", "No blocking issues", "**None**", "Nothing.", "There are no blocking issues.", "-"],
)
def test_ways_to_say_that_nothing_blocks(said: str) -> None:
    """None of them is an issue."""
    assert qa_findings(qa(issues=f"- {said}")).issues == ()
    assert is_positive(qa(issues=f"- {said}")) is True


@pytest.mark.req("EV-09")
@pytest.mark.parametrize("said", ["None of it works", "No tests were added", "N/A is printed for Ada", "Nothing works"])
def test_issues_that_only_begin_like_none(said: str) -> None:
    """Whoever says more has one."""
    assert qa_findings(qa(issues=f"- {said}")).issues == (said,)


@pytest.mark.req("EV-09")
@pytest.mark.parametrize(
    ("boxes", "lacking"),
    [
        ("- [x] AC1: seen\n- [x] AC-7: seen", ()),
        ("- [x] ac1: it greets by name\n- [x] AC-71: `greet` alone prints world", ("AC-7",)),
        ("- [x] In short: AC1: It greets by name\n- [x] AC-7", ()),
        ("- [x] AC1", ("AC-7",)),
        ("- [x] AC10\n- [x] AC-71", ("AC1", "AC-7")),
        ("- [x] Everything", ("AC1", "AC-7")),
    ],
)
def test_each_criterion_of_the_task_has_a_box_of_its_own(boxes: str, lacking: tuple[str, ...]) -> None:
    """By its mark or in its words; a positive report without one is not usable, and names those that it lacks."""
    problem = qa_problem(qa(criteria=boxes), CRITERIA)
    assert (problem is None) is (lacking == ())
    assert all(f"- [ ] {one.shown}" in (problem or "") for one in marked(CRITERIA) if one.mark in lacking)
    assert problem is None or "not fully satisfied" in problem
    assert qa_problem(qa("Issues Found", criteria=boxes), CRITERIA) is None


@pytest.mark.req("EV-09")
@pytest.mark.parametrize(
    ("criteria", "marks"),
    [
        (("It greets.", "It is fast."), ("AC1", "AC2")),
        (("R1 It greets.", "R2.1: It is fast."), ("R1", "R2.1")),
        (("R1: It greets.", "It is fast."), ("AC1", "AC2")),
        (("R1: It greets.", "R1: It is fast."), ("AC1", "AC2")),
        (("HTTP2 works", "HTTP3 works"), ("AC1", "AC2")),
        (("LOGIN-1: works", "A1) too"), ("AC1", "AC2")),
        (("LOG-1: works", "A1) too"), ("LOG-1", "A1")),
    ],
)
def test_criteria_have_marks_by_which_their_boxes_are_known(criteria: tuple[str, ...], marks: tuple[str, ...]) -> None:
    """Their own, if each has one; no two have the same."""
    assert tuple(one.mark for one in marked(criteria)) == marks


@given(st.text(max_size=400))
def test_any_text_is_judged_or_malformed(text: str) -> None:
    """Nothing makes the judge fail; a text without a problem has findings."""
    if qa_problem(text) is None:
        qa_findings(text)


@given(st.text(max_size=200), st.integers(0, 400))
def test_a_positive_result_cannot_be_made_by_adding_text(extra: str, place: int) -> None:
    """Whatever is put into a negative artifact, it does not become a positive one unless a mark of it is destroyed."""
    place = min(place, len(NEGATIVE))
    text = NEGATIVE[:place] + "\n" + extra.replace("`", "").replace("<", "").replace("#", "") + "\n" + NEGATIVE[place:]
    intact = all(
        part in text
        for part in ("Validation Result: Issues Found\n", "Approval Readiness: Back to Build\n", "- [ ] B", "# QA\n")
    )
    if intact and qa_problem(text) is None:
        assert is_positive(text) is False

"""Artifacts: the four checks, and what a QA artifact says."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.contracts import ArtifactClass, Outcome, Reason
from interlock.documents import Document, DocumentState
from interlock.playbooks.harness.artifacts import (
    GOOD_QA,
    LEAST_HEADINGS,
    QaFindings,
    Readiness,
    Validation,
    inspect,
    qa_findings,
    qa_problem,
    structure_of,
)
from interlock.playbooks.harness.decisions import (
    AFTER_FAILURE,
    AFTER_QA,
    QA_VERDICT,
    Failure,
    Presence,
    Verdict,
    failure_of,
    marks,
)
from interlock.playbooks.harness.lifecycle import WORKING, Stage
from tests.playbooks.harness.conftest import NEGATIVE, qa


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
    inspection = inspect(found, structure_of(Stage.PLANNING, None))
    assert inspection.cls is cls
    assert inspection.complaint == complaint
    assert tuple(inspection.answers().values()) == answers
    assert list(inspection.answers()) == ["exists", "readable", "non_empty", "structured"]


@pytest.mark.parametrize("stage", WORKING)
def test_every_least_structure_has_a_sample_that_satisfies_it(stage: Stage) -> None:
    """What the scripted player writes counts; without any one heading it does not."""
    structure = structure_of(stage, None)
    text = structure.sample()
    assert structure.problem(text) is None
    for heading in LEAST_HEADINGS[stage]:
        assert structure.problem(text.replace(heading, "## Other")) is not None
    assert structure.problem(text.replace("# ", "", 1)) is not None


def test_further_headings_of_a_qa_contract_count_too() -> None:
    """A team's own headings come on top of the marks that are always asked for."""
    structure = structure_of(Stage.QA, ("## Blocking Issues", "## Evidence"))
    assert structure.problem(GOOD_QA) == "## Evidence missing"
    assert structure.problem(structure.sample()) is None


@pytest.mark.req("HN-69", "HN-70", "HN-71", "HN-72", "HN-73")
@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (qa(), Verdict.POSITIVE),
        (qa(result="Issues Found"), Verdict.NEGATIVE),
        (qa(readiness="Back to Build"), Verdict.NEGATIVE),
        (qa(issues="- It crashes"), Verdict.NEGATIVE),
        (qa(criteria="- [x] A\n- [ ] B"), Verdict.NEGATIVE),
        (qa(criteria="- [x] A\n  - [ ] a part of it"), Verdict.NEGATIVE),
        (qa(criteria="- [~] half"), Verdict.NEGATIVE),
        (qa(criteria="* [X] A\n+ [x] B"), Verdict.POSITIVE),
        (qa(issues="- none."), Verdict.POSITIVE),
        (qa(issues="- None\n- It crashes"), Verdict.NEGATIVE),
        (qa() + "\nValidation Result: Issues Found\n", Verdict.NEGATIVE),
        (qa() + "\n## Blocking Issues\n\n- Later found\n", Verdict.NEGATIVE),
        (qa() + "\n```\nValidation Result: Issues Found\n- [ ] x\n```\n", Verdict.POSITIVE),
        (qa().replace("Validation Result:", "**Validation Result**:"), Verdict.POSITIVE),
        (NEGATIVE, Verdict.NEGATIVE),
    ],
)
def test_one_negative_mark_is_enough(text: str, verdict: Verdict) -> None:
    """Whatever the other fields say, one of the four marks sends the task back."""
    assert qa_problem(text) is None
    assert QA_VERDICT(*marks(qa_findings(text))) is verdict


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (qa().replace("Validation Result: Passed\n", ""), "Validation Result missing"),
        (qa().replace("Approval Readiness: Ready\n", ""), "Approval Readiness missing"),
        (qa(result="Fine"), 'Validation Result is "Fine"; expected Passed or Issues Found'),
        (qa(readiness="Soon"), 'Approval Readiness is "Soon"; expected Ready or Back to Build'),
        (qa(issues="Nothing found."), "## Blocking Issues has neither bullets nor - None"),
        (qa(criteria="All are met."), "## Acceptance Criteria has no checklist (- [x] or - [ ])"),
        (qa(criteria="- [x] A\n- B is met"), "## Acceptance Criteria: 'B is met' has no box"),
        (qa().replace("# QA\n", ""), "title (a line starting with '# ') missing"),
        (qa().replace("## Blocking Issues", "## Issues"), "## Blocking Issues missing"),
        ("# QA\n\n```\n" + qa() + "```\n", "Validation Result missing"),
        ("<!--\n" + qa() + "-->\n# QA\n", "Validation Result missing"),
    ],
)
def test_a_qa_artifact_that_cannot_be_judged(text: str, problem: str) -> None:
    """Without both lines and a checklist it is malformed, never positive."""
    assert qa_problem(text) == problem


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
        assert QA_VERDICT(*marks(qa_findings(text))) is Verdict.NEGATIVE


@pytest.mark.req("HN-73")
def test_the_tables_are_total() -> None:
    """Every combination has one row, and only the one without any negative mark is positive."""
    assert list(QA_VERDICT.missing()) == []
    assert list(AFTER_QA.missing()) == []
    positive = [row for row, verdict in QA_VERDICT.rows.items() if verdict is Verdict.POSITIVE]
    assert positive == [(Validation.PASSED, Readiness.READY, Presence.NONE, Presence.NONE)]
    found = QaFindings(Validation.PASSED, Readiness.READY, (), ())
    assert marks(found) == positive[0]


@pytest.mark.req("HN-15", "HN-22")
def test_how_a_dispatch_counts_is_total() -> None:
    """Every combination of outcome, reason and artifact has one meaning; success needs a verified artifact."""
    for outcome, reason, cls, *trespassed in itertools.product(
        Outcome, (None, *Reason), ArtifactClass, *[(False, True)] * 3
    ):
        failure = failure_of(outcome, reason, cls, *trespassed)
        if failure is Failure.NONE:
            assert cls is ArtifactClass.OK
            assert outcome in (Outcome.OK, Outcome.REVISE)
            assert not any(trespassed)
        else:
            assert failure in AFTER_FAILURE

"""Every form in which judges answer, attacked with passes that their own evidence contradicts, and with honest ones.

What counts are marks and what programs print; sentences decide nothing, so there are none among the lies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from interlock.contracts import Answer, Contract, Judgement, Outcome, Reason, judge, parse_answer
from interlock.flows.calls import SAID, reported
from interlock.playbooks.feature.findings import claim_of
from interlock.playbooks.feature.members import MEMBERS
from interlock.playbooks.harness.artifacts import claim_in
from interlock.playbooks.harness.stages import QA
from interlock.playbooks.roadmap.answers import contract_of
from interlock.playbooks.router.handover import claim as router_claim
from interlock.playbooks.task import briefs as task
from interlock.playbooks.ticket.artifacts import review_claim
from tests.contracts.honest import COMMANDS, MEANT, OUTPUTS, SUMMARIES
from tests.contracts.honest import DATA as HONEST_DATA
from tests.contracts.honest_reports import READERS, REPORTS
from tests.contracts.told import (
    EMPTY_OUTPUT,
    ENDINGS,
    GREEN_OUTPUT,
    LIES,
    MADE_OUT_AS_MEANT,
    MARKS,
    NO_MARKS,
    RED_OUTPUT,
    RED_REPORTS,
    TRUTHS,
    Command,
)

GREEN: Command = {"command": "make test", "exit": 0}


# -- the forms: each with a command and more data, or with a report's own lines


def _said(contract: Contract, data: Mapping[str, Any]) -> Judgement:
    answer = parse_answer(contract.answer, code=0, message=json.dumps(data))
    return judge(contract, answer, ())


def roadmaps_testing(command: Command, more: Mapping[str, Any]) -> Judgement:
    evidence = {"tests": {"passed": 3, "failed": 0, "failures": []}, "verification": [command], **more}
    return _said(contract_of("testing"), {"status": "success", "verdict": "pass", "evidence": evidence})


def roadmaps_review(command: Command, more: Mapping[str, Any]) -> Judgement:
    checks = dict.fromkeys(("lint", "typecheck", "build", "quality"), "pass")
    evidence = {"checks": checks, "verification": [command], **more}
    return _said(contract_of("review"), {"status": "success", "verdict": "pass", "evidence": evidence})


def tasks_reviewer(command: Command, more: Mapping[str, Any]) -> Judgement:
    contract = Contract(answer=task.REVIEW, claim=task.claim)
    return _said(contract, {"verdict": "accept", "findings": [], "evidence": {"verification": [command], **more}})


def _read(claim: Callable[..., Any], data: Mapping[str, Any], texts: Mapping[str, str]) -> Judgement:
    return judge(Contract(claim=claim), Answer(Outcome.OK, data=data), (), texts)


def router(command: Command, more: Mapping[str, Any]) -> Judgement:
    return _read(router_claim, {"status": "completed", "errors": [], "verification": [command], **more}, {})


def tickets_reviewer(command: Command, more: Mapping[str, Any]) -> Judgement:
    report = {"status": "ACCEPTED", "build": "PASSED", "tests": "PASSED", "checks": [command], **more}
    return _read(review_claim, {}, {"review_report.yaml": json.dumps(report)})


DATA = {one.__name__: one for one in (roadmaps_testing, roadmaps_review, tasks_reviewer, router, tickets_reviewer)}


def qa(report: str) -> Judgement:
    judging = QA.judging
    assert judging is not None
    lines = "\n".join(f"{mark.label}: {mark.positive}" for mark in judging.marks)
    boxes = f"{judging.criteria}\n\n- [x] AC1 as asked\n" if judging.criteria else ""
    text = f"# QA\n\n{lines}\n\n{judging.issues}\n\n- None\n\n{boxes}\n## Evidence\n\n{report}"
    return _read(claim_in(judging, "qa.md"), {}, {"qa.md": text})


def verifier(report: str) -> Judgement:
    row = MEMBERS.row("v-tests")
    assert row is not None
    memory = "# Memory\n\n## Status\nDONE\n\n## Highest Severity\nPASS\n"
    return _read(claim_of(row, "v.md", "v.mem.md"), {}, {"v.md": f"# Tests\n\n{report}", "v.mem.md": memory})


def flows_judge(report: str) -> Judgement:
    return _read(lambda data, texts: reported(data, texts, shows=True), {SAID: f"{report}\n\nDONE: all well"}, {})


def roadmaps_testing_in_words(report: str) -> Judgement:
    contract = contract_of("testing")
    message = f"Status: success\nVerdict: pass\nTests: 3 passed, 0 failed\nVerification:\n{report}\n"
    return judge(contract, parse_answer(contract.answer, code=0, message=message), ())


TEXT = {one.__name__: one for one in (qa, verifier, flows_judge, roadmaps_testing_in_words)}


def is_refused(judgement: Judgement) -> bool:
    """It is the negative verdict, and the reason quotes why; or it cannot be used, and the judge is asked again."""
    if judgement.reason is Reason.CONTRADICTED:
        return judgement.outcome is Outcome.REVISE and bool(judgement.complaints)
    return judgement.outcome is Outcome.FAIL and judgement.reason is Reason.CONTRACT_VIOLATION


# -- what programs print


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("output", RED_OUTPUT)
@pytest.mark.parametrize("form", DATA)
def test_what_a_program_printed_speaks_against_a_pass(form: str, output: str) -> None:
    """Beside an exit status of 0, in whichever field, alone or below other lines."""
    for name in ("summary", "output", "stderr"):
        assert is_refused(DATA[form]({**GREEN, name: output}, {})), name
        assert is_refused(DATA[form]({**GREEN, "summary": "as asked", name: f"$ make test\n{output}\n"}, {})), name


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("output", RED_OUTPUT)
@pytest.mark.parametrize("form", TEXT)
def test_what_a_report_quotes_beside_its_command_speaks_against_a_pass(form: str, output: str) -> None:
    """Behind the status, and before it."""
    assert is_refused(TEXT[form](f"- `make test`: exit 0, {output}"))
    assert is_refused(TEXT[form](f"- `make test`: {output}; exit 0"))


@pytest.mark.req("EV-02")
@pytest.mark.parametrize("output", EMPTY_OUTPUT)
def test_tests_that_did_not_run_show_nothing(output: str) -> None:
    """In every form the judge is asked again; whoever also shows something that ran has shown it."""
    said = {**GREEN, "summary": output}
    for name, form in DATA.items():
        assert form(said, {}).reason is Reason.CONTRACT_VIOLATION or name == "router", name
    for form_of_text in TEXT.values():
        judgement = form_of_text(f"- `make test`: exit 0, {output}")
        assert judgement.reason is Reason.CONTRACT_VIOLATION
        assert "ran nothing" in judgement.complaints[0]
        assert form_of_text(f"- `make test`: exit 0, {output}\n- `make unit`: exit 0, 3 passed").passed is True


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("output", GREEN_OUTPUT)
def test_an_honest_pass_stays_one_whatever_its_words_are_about(output: str) -> None:
    """Words for failure in the names of tests, in what was mended and in numbers that are 0."""
    for name, form in DATA.items():
        assert form({**GREEN, "summary": output}, {}).passed is True, name
        assert form({**GREEN, "output": f"$ make test\n{output}\n", "error": None}, {}).passed is True, name
    for name, form_of_text in TEXT.items():
        assert form_of_text(f"- `make test`: exit 0, {output}").passed is True, name


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("summary", SUMMARIES)
def test_what_is_said_beside_a_green_command_stays_honest(summary: str) -> None:
    """Numbers that are 0, tests named for failures, what was before, what a bad input comes to; before the status and
    behind it."""
    for name, form in DATA.items():
        assert form({**GREEN, "summary": summary}, {}).passed is True, name
    for name, form_of_text in TEXT.items():
        assert form_of_text(f"- `make test`: exit 0, {summary}").passed is True, name
        assert form_of_text(f"- `make test`: {summary}; exit 0").passed is True, name


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("output", OUTPUTS)
def test_whole_outputs_of_green_runs_speak_against_nobody(output: str) -> None:
    """Of many programs, with warnings, skipped tests and what a program logs while it is tested."""
    for name, form in DATA.items():
        assert form({**GREEN, "output": output}, {}).passed is True, name


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_a_command_that_ended_well_is_one_however_that_is_said(command: Command) -> None:
    for name, form in DATA.items():
        assert form(command, {}).passed is True, name


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("command", MEANT, ids=str)
def test_a_command_that_had_to_fail_speaks_against_nobody(command: Command) -> None:
    """It shows nothing either: beside it stands one that ended well."""
    for name, form in DATA.items():
        assert form(GREEN, {"more": [command]}).passed is True, name
        assert form(command, {}).passed is not True or name == "router"


@pytest.mark.req("EV-03")
@pytest.mark.parametrize("ending", MADE_OUT_AS_MEANT, ids=str)
def test_a_check_of_the_project_is_not_meant_to_fail(ending: Command) -> None:
    """Who says so is asked again."""
    for name, form in DATA.items():
        said = {"command": "npm test", **ending}
        assert form(said, {}).reason is form(GREEN, {"more": [said]}).reason is Reason.CONTRACT_VIOLATION, name
    judgement = qa("- `make lint`: exit 0\n- `npm test`: exit 1 (expected)")
    assert judgement.reason is Reason.CONTRACT_VIOLATION
    assert "is said to be meant" in judgement.complaints[0]


# -- data


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("data", HONEST_DATA, ids=str)
@pytest.mark.parametrize("form", DATA)
def test_honest_data_stays_honest(form: str, data: Mapping[str, Any]) -> None:
    """Lists of none, cases that expect an error, what is for later, other languages."""
    assert DATA[form](GREEN, data).passed is True


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("lie", LIES, ids=str)
@pytest.mark.parametrize("form", DATA)
def test_data_that_nobody_asked_for_speaks_against_a_pass(form: str, lie: Mapping[str, Any]) -> None:
    """By names and marks, in other languages too, however deep."""
    assert is_refused(DATA[form](GREEN, lie))


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("truth", TRUTHS, ids=str)
@pytest.mark.parametrize("form", DATA)
def test_data_about_something_else_speaks_against_nobody(form: str, truth: Mapping[str, Any]) -> None:
    """What was before, what is expected, what is 0, what is a name."""
    assert DATA[form](GREEN, truth).passed is True


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("ending", ENDINGS, ids=str)
@pytest.mark.parametrize("form", DATA)
def test_a_command_that_did_not_end_well_speaks_against_a_pass(form: str, ending: Command) -> None:
    """However its status is spelled."""
    assert is_refused(DATA[form]({"command": "make test", **ending}, {}))


# -- reports


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("marks", [*MARKS, *RED_REPORTS])
@pytest.mark.parametrize("form", TEXT)
def test_marks_in_a_report_speak_against_a_pass(form: str, marks: str) -> None:
    """Labels with one word, cells of results, boxes that are open, commands: anywhere in it."""
    assert is_refused(TEXT[form](f"- `make test`: exit 0\n\n{marks}\n"))


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("marks", NO_MARKS)
@pytest.mark.parametrize("form", TEXT)
def test_sentences_and_marks_about_something_else_decide_nothing(form: str, marks: str) -> None:
    """What was before, what is for later, what is quoted or code, what is a name."""
    assert TEXT[form](f"- `make test`: exit 0\n\n{marks}\n").passed is True


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("form", TEXT)
def test_honest_reports_stay_honest(form: str, report: str) -> None:
    """Negative tests, what was before, tables of what was expected, boxes for later, names, rules, other languages."""
    assert TEXT[form](f"- `make test`: exit 0\n\n{report}\n").passed is True


@pytest.mark.req("EV-02")
@pytest.mark.parametrize(
    "command",
    [
        *("true", "make test || true", "sh -c 'make test || true'", "(make test; exit 0)", "make test; echo done"),
        *("pytest --version", "pytest --collect-only", "npx jest --listTests", "make --help"),
    ],
)
def test_a_command_that_cannot_fail_shows_nothing(command: str) -> None:
    """The judge is asked again."""
    for name, form in DATA.items():
        assert form({"command": command, "exit": 0}, {}).reason is Reason.CONTRACT_VIOLATION or name == "router"


# -- findings of those who read


@pytest.mark.req("EV-01")
@pytest.mark.parametrize(
    "findings",
    [["a.py:3: data is lost"], [{"file": "a.py", "problem": "data is lost"}], {"a.py": "data is lost"}, "data is lost"],
)
def test_a_finding_of_the_tasks_reviewer_speaks_against_its_acceptance(findings: Any) -> None:
    """Whatever shape it has."""
    contract = Contract(answer=task.REVIEW, claim=task.claim)
    said = {"verdict": "accept", "findings": findings, "evidence": {"verification": [GREEN]}}
    assert "data is lost" in _said(contract, said).complaints[0]


@pytest.mark.parametrize("findings", [[], None, "none", "No findings.", ["none"], [""], "N/A"])
def test_no_finding_speaks_against_nobody(findings: Any) -> None:
    contract = Contract(answer=task.REVIEW, claim=task.claim)
    said = {"verdict": "accept", "findings": findings, "evidence": {"verification": [GREEN]}}
    assert _said(contract, said).passed is True


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("severity", ["Blocker", "blocker", "MAJOR", "critical", "High", "", None])
def test_an_issue_of_the_tickets_reviewer_speaks_against_its_acceptance(severity: Any) -> None:
    """Unless it is said to be harmless."""
    issue = {"severity": severity, "problem": "data is lost"}
    assert tickets_reviewer(GREEN, {"issues": [issue]}).complaints == ("says pass, but: blocking issue: data is lost",)
    assert tickets_reviewer(GREEN, {"issues": "data is lost"}).reason is Reason.CONTRADICTED
    assert tickets_reviewer(GREEN, {"issues": [{**issue, "severity": "Minor"}]}).passed is True
    assert tickets_reviewer(GREEN, {"issues": "none"}).passed is tickets_reviewer(GREEN, {"issues": []}).passed is True


def reader(report: str) -> Judgement:
    row = MEMBERS.row("r-security")
    assert row is not None
    best = row.words.content[-1]
    memory = f"# Memory\n\n## Status\nDONE\n\n## Highest Severity\n{best}\n"
    worst = row.words.worst
    text = f"# Review\n\n{report.replace('WORST', worst)}"
    return _read(claim_of(row, "r.md", "r.mem.md"), {}, {"r.md": text, "r.mem.md": memory})


@pytest.mark.req("EV-01")
@pytest.mark.parametrize(
    "report",
    [
        *("### WORST: open to all", "## WORST: open to all", "#### WORST: open to all", "- **WORST**: open to all"),
        *("WORST: open to all", "1. WORST: open to all", "- [WORST]: open to all", "**WORST:** open to all"),
        "| Severity | Finding |\n| --- | --- |\n| WORST | open to all |",
        "| # | Severity | Finding |\n| --- | --- | --- |\n| 1 | **WORST** | open to all |",
        *("## Unresolved\n\n### WORST: open to all", "## Large-scale use\n\n- WORST: open to all"),
        *("WORST: 0 checks, open to all", "- WORST: nothing is escaped, open to all"),
    ],
)
def test_a_grave_finding_speaks_against_a_clean_verdict(report: str) -> None:
    """However it is set."""
    assert "open to all" in reader(report).complaints[0]


@pytest.mark.parametrize("report", READERS)
def test_a_reader_that_lists_none_is_content(report: str) -> None:
    """Counts, legends, what was mended."""
    assert reader(report).passed is True


@pytest.mark.parametrize(
    "report",
    [
        *("### WORST: none", "- WORST: 0", "WORST: No findings.", "> WORST: open to all", "```\nWORST: open\n```"),
        "| Severity | Count |\n| --- | --- |\n| WORST | 0 |",
        "Nothing here is WORST.",
    ],
)
def test_words_that_say_there_is_none_speak_against_nobody(report: str) -> None:
    assert reader(report).passed is True

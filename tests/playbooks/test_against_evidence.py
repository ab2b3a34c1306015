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

Command = Mapping[str, Any]
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

RED_OUTPUT = (
    "FAILED (failures=2)",
    "1 failed, 3 passed",
    "not ok 3 - adds",
    "Tests: 2 failed, 1 passed",
    "exit code: 2",
    "exited with 1",
    "thread 'main' panicked at src/lib.rs:3",
    "error[E0308]: mismatched types",
    "--- FAIL: TestAdd (0.00s)",
    "BUILD FAILURE",
    "[INFO] BUILD FAILURE",
    "BUILD FAILED in 3s",
    "Traceback (most recent call last)",
    "npm ERR! Test failed.",
    "make: *** [Makefile:4: test] Error 1",
    "FAIL src/a.test.js",
    "FAILED tests/test_a.py::test_b",
    "3 examples, 1 failure",
    "2 failing",
    "Tests run: 3, Failures: 1, Errors: 0",
    "FAILURES! Tests: 3",
    "Found 1 error in a.ts:3",
    "1 error, 0 warnings",
    "50% tests passed, 1 tests failed out of 2",
    "test result: FAILED. 2 passed; 1 failed",
    "5/7 passed",
    "5 of 7 tests passed",
    "two tests failed",
    "2 tests did not pass",
    "Segmentation fault",
    "panic: runtime error",
    "fatal error: stdio.h: No such file",
    "error: could not compile `calc`",
    "test adds ... FAILED",
)
EMPTY_OUTPUT = (
    "collected 0 items",
    "0 tests ran",
    "skipped 40 of 40 tests",
    "40 of 40 tests skipped",
    "no tests ran in 0.01s",
    "No tests found",
    "Ran 0 tests in 0.000s",
    "running 0 tests",
    "Tests run: 0, Failures: 0",
    "0 passing",
    "? calc [no test files]",
    "all tests skipped",
)
GREEN_OUTPUT = (
    "",
    "0 failed",
    "3 passed, 0 failed",
    "no failures",
    "no errors",
    "test that failed login is rejected: ok",
    "test failed login is rejected: ok",
    "fixed the failing test",
    "exit 0",
    "exit code: 0",
    "Tests run: 3, Failures: 0, Errors: 0, Skipped: 1",
    "12 passed, 2 skipped",
    "5 of 7 passed, 2 skipped",
    "7/7 passed",
    "3 failed before the change, 0 now",
    "all 12 tests pass; the error page is shown for 404",
    "exits with 1 on bad input, as asked",
    "1 xfailed, 4 passed",
    "0 errors, 0 warnings",
    "running 0 tests; 5 passed",
    "ok 3 - not ok is printed in red",
    "checks that BUILD FAILURE is reported",
    "handles error[E0308] of the compiler",
    "retries after 2 failed attempts: ok",
    "2 failure modes covered",
    "fixed 3 failing tests; 12 passed",
    "fixed 2 errors, all green",
    "the 2 failing tests are mended",
    "Segmentation fault fixed, 3 passed",
    "BUILD FAILURE is told to people",
    "all skipped tests are listed",
    "10 passed, 1 failed as expected of it",
    "Failures: 0",
    "the panicked thread is restarted, 4 tests",
    "read as a whole",
    "matrix 3 \u00d7 4 multiplied: ok",
    "TODO list is sorted: ok",
)


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


# -- data

LIES: tuple[Mapping[str, Any], ...] = (
    {"unit": {"failed": 2}},
    {"suites": [{"name": "unit", "result": "FAILED"}]},
    {"e2e": "red"},
    {"ci": {"status": "broken"}},
    {"ci": {"status": "\u274c"}},
    {"unit": "2 failed, 3 passed"},
    {"results": ["ok 1", "not ok 2 - adds"]},
    {"criteria": [{"id": "AC1", "met": "no"}]},
    {"criteria": [{"id": "AC1", "status": "TODO"}]},
    {"criteria": {"AC1": {"status": "open"}}},
    {"acceptance": [{"id": "AC1", "done": False}]},
    {"acceptance_criteria": {"AC1": "unmet", "AC2": "met"}},
    {"requirements": {"R1": {"state": "not tested"}}},
    {"more_tests": {"e2e": {"status": "pending"}}},
    {"coverage": {"passed": False}},
    {"coverage": {"passed": "false"}},
    {"unit": {"passed": 0, "failed": 0, "skipped": 40}},
    {"unit": "fehlgeschlagen"},
    {"unit": {"statut": "\u00e9chec"}},
    {"unit": {"resultado": "fall\u00f3"}},
    {"unit": {"\u7ed3\u679c": "\u5931\u8d25"}},
    {"more": [{"command": "npm run e2e", "exit": 1}]},
    {"more": {"e2e": {"cmd": ["npm", "run", "e2e"], "rc": "2"}}},
    {"testsFailed": 1},
    {"blockers": ["data is lost"]},
    {"regressions": "login"},
    {"failing_tests": ["test_a"]},
    {"output": "make: *** [test] Error 2"},
    {"log": "collected 3 items\n1 failed, 2 passed"},
    {"nested": {"a": {"b": {"c": [{"d": {"success": False}}]}}}},
    {"build": "BUILD FAILURE"},
)
TRUTHS: tuple[Mapping[str, Any], ...] = (
    {"unit": {"failed": 0, "errors": [], "passed": 3}},
    {"e2e": "3 passed, 0 failed"},
    {"criteria": [{"id": "AC1", "met": True, "status": "done"}]},
    {"before": {"unit": {"failed": 3}, "command": "make test", "exit": 1}},
    {"baseline": [{"command": "make test", "exit": 1}]},
    {"expected": {"exit": 1, "result": "failed"}},
    {"colour": "red", "kind": "error page"},
    {"names": ["test failed login is rejected", "test that errors are shown"]},
    {"tests_named": {"failed login is rejected": "ok"}},
    {"pull_request": {"status": "open"}},
    {"latest": {"status": "open"}},
    {"unit_tests": {"kind": "partial", "passed": 3}},
    {"unit": {"passed": 3, "skipped": 2, "failed": 0}},
    {"failures": "none"},
    {"failures": "N/A"},
    {"blockers": []},
    {"regressions": 0},
    {"note": "2 tests failed before this was mended"},
    {"criteria": "all met"},
    {"output": "no failures"},
    {"log": "INFO failed login is rejected"},
    {"unit": {"status": "ok", "error": None}},
)


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


ENDINGS: tuple[Command, ...] = (
    {"exit": 1},
    {"exitCode": 2},
    {"exit": "1"},
    {"exit": "exit status 3"},
    {"exit": "non-zero"},
    {"exit": 0, "exit_code": 1},
    {"exit": [0, 1]},
    {"exit_codes": [0, 2]},
    {"exit": "0, but 2 failed"},
    {"exit": 0, "error": "cannot open shared object"},
    {"exit": 0, "signal": "SIGSEGV"},
    {"exit": 0, "timed_out": True},
    {"exit": 0, "ok": "no"},
    {"exit": 0, "result": "fehlgeschlagen"},
    {"exit": 0, "result": "\u5931\u8d25"},
    {"exit": "failed"},
    {"exit": 139},
    {"exit": -9},
    {"status": "red"},
    {"exit": 0, "status": "not ok"},
)


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("ending", ENDINGS, ids=str)
@pytest.mark.parametrize("form", DATA)
def test_a_command_that_did_not_end_well_speaks_against_a_pass(form: str, ending: Command) -> None:
    """However its status is spelled."""
    assert is_refused(DATA[form]({"command": "make test", **ending}, {}))


# -- reports

MARKS = (
    "Status: red",
    "- **Tests**: FAILED",
    "Unit tests: failed",
    "Build: broken",
    "1. Lint: errors",
    "- Checks\n  - E2E: \u274c",
    "Result: fehlgeschlagen",
    "Tests: \u00e9chec",
    "Result \u2192 FAIL",
    "All tests pass: no",
    "Passed? No",
    "| Check | Result |\n| --- | --- |\n| unit | pass |\n| e2e | FAIL |",
    "| Criterion | Met |\n| --- | --- |\n| AC1 | no |",
    "| Check | Status |\n| --- | --- |\n| unit | \u274c |",
    "## Criteria\n\n| Criterion | Status |\n| --- | --- |\n| names are trimmed | TODO |",
    "## Left\n\n- [ ] names are trimmed",
    "## Plan\n\n1. [ ] names are trimmed",
    "- tests\n  - [ ] e2e",
    "- `npm run e2e` rc=1",
    "| Command | Exit |\n| --- | --- |\n| `npm run e2e` | 1 |",
    "| Command | Result |\n| --- | --- |\n| `npm run e2e` | failed |",
    "- `npm run e2e` \u274c",
    "- npm run e2e: exit 2",
)
NO_MARKS = (
    "Status: green",
    "Tests: 3 passed, 0 failed",
    "Tests: failed login is rejected, empty name is rejected",
    "Build: no errors",
    "The tests failed before the fix and pass now.",
    "## Red before this feature\n\n| Check | Result |\n| --- | --- |\n| e2e | FAIL |",
    "## Before\n\nStatus: red",
    "## Follow-up\n\n- [ ] tell the others",
    "## Suggestions\n\n- [ ] a shorter name",
    "> Status: red",
    "```\nStatus: red\n- [ ] x\n```",
    "- [x] names are trimmed",
    "| Colour | Value |\n| --- | --- |\n| red | #f00 |",
    "| Case | Result |\n| --- | --- |\n| failed login | rejected, as it should be |",
    "| Issue | Status |\n| --- | --- |\n| a wish of another day | open |",
    "| Check | Result |\n| --- | --- |\n| test failed login is rejected | pass |",
    "All tests pass: yes",
    "No failures.",
    "Errors: none",
    "- `parse('')`: fails with ValueError",
    "I fixed the failing test.",
)


@pytest.mark.req("EV-01")
@pytest.mark.parametrize("marks", MARKS)
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
    ],
)
def test_a_grave_finding_speaks_against_a_clean_verdict(report: str) -> None:
    """However it is set."""
    assert "open to all" in reader(report).complaints[0]


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

"""Answers as JSON and in words, the contract about them, and what of them is passed on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.contracts import Check, Evidence, Outcome, Reason, judge, parse_answer, sample
from interlock.playbooks.roadmap.answers import (
    ArchitectsDecision,
    FileNote,
    StepAnswer,
    Verdict,
    answer_format,
    complaint,
    contract_of,
    read_answer,
)
from interlock.playbooks.roadmap.decisions import Step
from interlock.playbooks.roadmap.forwarding import essence, short_line
from interlock.playbooks.roadmap.labelled import data_of_text

WHOLE = {
    "status": "success",
    "evidence": {
        "files": [{"path": "src/a.ts", "change": "created", "note": "one\nline"}, "src/b.ts"],
        "tests": {"passed": 12, "failed": 1, "failures": [{"name": "t", "message": "a\nb\nc\nd"}]},
        "checks": {"lint": "pass", "typecheck": "pass", "build": "fail", "quality": "skipped"},
        "verification": [{"command": "npm test", "exit": 1, "summary": "12 passed"}],
    },
    "verdict": "pass",
    "issues": ["i1", {"file": "src/c.ts", "message": "i2"}],
    "decision": {"adr": "docs/adr/0007.md", "interfaces": ["f(): void"], "boundaries": ["src only"]},
    "learnings": ["l1"],
    "nextSteps": ["n1"],
    "diff": "--- a\n+++ b",
    "stdout": "raw",
    "praise": "well done",
    "alternatives": ["not this"],
}


@pytest.mark.req("RM-79", "RM-80", "RM-81", "RM-82")
def test_every_part_of_an_answer_is_extracted() -> None:
    """The object of the specification, field by field."""
    assert read_answer(WHOLE) == StepAnswer(
        verdict=Verdict.PASS,
        files=(FileNote("src/a.ts", "created", "one line"), FileNote("src/b.ts")),
        evidence=Evidence(
            checks=(Check("npm test", 1, "12 passed"),),
            passed=12,
            failed=1,
            failures=("t: a\nb\nc",),
            marks={"lint": "pass", "typecheck": "pass", "build": "fail", "quality": "skipped"},
        ),
        issues=("i1", "src/c.ts: i2"),
        decision=ArchitectsDecision("docs/adr/0007.md", ("f(): void",), ("src only",)),
        findings=("l1",),
        next_steps=("n1",),
    )
    assert read_answer(WHOLE).errors == (
        "t: a\nb\nc",
        "i1",
        "src/c.ts: i2",
        "`npm test` ended with exit status 1: 12 passed",
    )


NAMES = ["path", "name", "message", "files", "tests", "checks", "passed", "failures", "command", "exit", "lint", "x"]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*WHOLE]), anything), st.sampled_from([*Step]))
def test_any_data_can_be_read_and_complained_about(data: dict[str, Any], step: Step) -> None:
    """Reading never fails; the contract always has an answer."""
    assert isinstance(read_answer(data), StepAnswer)
    assert complaint(step, {**data, "status": "success"}) is None or isinstance(complaint(step, data), str | None)


@pytest.mark.parametrize("step", Step)
def test_the_sample_of_each_step_fulfils_its_contract(step: Step) -> None:
    """What scripted and simulated agents say by themselves is the best verdict."""
    answer = parse_answer(answer_format(step), code=0, message=sample(answer_format(step)))
    assert (answer.outcome, answer.token) == (Outcome.OK, "success")


@pytest.mark.req("RM-39")
@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"verdict": "ok"}, 'verdict "ok"; expected aligned | drift_detected'),
        ({}, "verdict missing; expected aligned | drift_detected"),
        ({"verdict": "pass"}, 'verdict "pass"; expected aligned | drift_detected'),
        (
            {"verdict": "drift_detected", "issues": []},
            "verdict drift_detected without an issue; expected issues: at least one concrete issue",
        ),
        ({"verdict": "drift_detected", "issues": ["a.ts: x"]}, None),
        ({"verdict": "aligned"}, None),
    ],
)
def test_the_contract_of_a_validation(data: dict[str, Any], said: str | None) -> None:
    """One of two words; drift only with a concrete issue; everything else is asked again with this complaint."""
    assert complaint("validation", {"status": "success", **data}) == said
    answer = parse_answer(answer_format("validation"), code=0, message=json.dumps({"status": "success", **data}))
    assert answer.reason == (Reason.CONTRACT_VIOLATION if said else None)


def test_verdicts_and_checks_that_are_no_words_of_ours_are_asked_about_again() -> None:
    """A missing verdict and a wrong one are breaches of contract; of a negative review no check is missed."""
    assert complaint("testing", {"status": "success"}) == "verdict missing; expected pass | fail"
    assert complaint("testing", {"status": "success", "verdict": "green"}) == 'verdict "green"; expected pass | fail'
    checks = {"status": "success", "verdict": "fail", "evidence": {"checks": {"lint": "clean"}}}
    assert complaint("review", checks) == 'evidence.checks.lint is "clean"; expected pass | fail | skipped'
    assert complaint("review", {"status": "blocked", "verdict": "green"}) is None
    assert complaint("implement", {"status": "success", "verdict": "whatever"}) is None


PASSED = dict.fromkeys(["lint", "typecheck", "build", "quality"], "pass")
RAN = [{"command": "npm run build", "exit": 0}]


@pytest.mark.req("EV-03", "RM-59")
@pytest.mark.parametrize(
    ("checks", "absent", "said"),
    [
        (PASSED, (), None),
        ({**PASSED, "lint": ...}, (), "evidence.checks.lint is missing; expected pass | fail | skipped"),
        ({**PASSED, "quality": ...}, (), "evidence.checks.quality is missing; expected pass | fail | skipped"),
        ({**PASSED, "build": "green"}, (), 'evidence.checks.build is "green"; expected pass | fail | skipped'),
        (
            {**PASSED, "typecheck": "skipped"},
            ("lint",),
            "evidence.checks.typecheck is skipped, but it is not declared absent; expected pass | fail",
        ),
        ({**PASSED, "typecheck": "skipped"}, ("typecheck",), None),
    ],
)
def test_a_pass_of_review_has_a_word_for_each_check(
    checks: dict[str, Any], absent: tuple[str, ...], said: str | None
) -> None:
    """One that is missing, malformed or skipped against the policy is asked about again; a negative verdict is not."""
    given = {name: word for name, word in checks.items() if word is not ...}
    answer = {"status": "success", "verdict": "pass", "evidence": {"checks": given, "verification": RAN}}
    assert complaint("review", answer, absent) == said
    negative = complaint("review", {**answer, "verdict": "fail"}, absent)
    assert negative == (said if said and "green" in said else None)


def weighed(step: str, **said: Any) -> tuple[Outcome, Reason | None, tuple[str, ...]]:
    contract = contract_of(step)
    message = json.dumps({"status": "success", **said})
    verdict = judge(contract, parse_answer(contract.answer, code=0, message=message), [])
    return verdict.outcome, verdict.reason, verdict.complaints


@pytest.mark.req("EV-01")
@pytest.mark.parametrize(
    ("step", "evidence", "issues", "against"),
    [
        ("testing", {"verification": [{"command": "npm test", "exit": 1}]}, [], "`npm test` ended with exit status 1"),
        ("testing", {"verification": RAN, "tests": {"passed": 3, "failed": 1}}, [], "1 test failed"),
        (
            "testing",
            {"verification": RAN, "tests": {"failures": [{"name": "login", "message": "boom"}]}},
            [],
            "failure listed: login: boom",
        ),
        ("testing", {"verification": RAN}, ["Criterion 3 has no test."], "criterion not met: Criterion 3 has no test."),
        ("review", {"verification": RAN, "checks": {**PASSED, "build": "fail"}}, [], "build: fail"),
        (
            "review",
            {"verification": [{"command": "make", "exit": 2}], "checks": PASSED},
            [],
            "`make` ended with exit status 2",
        ),
    ],
)
def test_a_pass_against_its_own_evidence_is_a_negative_verdict(
    step: str, evidence: dict[str, Any], issues: list[str], against: str
) -> None:
    """And the reason quotes what contradicts it; the judge is not asked again, since it has answered."""
    found = weighed(step, verdict="pass", evidence=evidence, issues=issues)
    assert found == (Outcome.REVISE, Reason.CONTRADICTED, (f"says pass, but: {against}",))


@pytest.mark.req("EV-02", "RM-61")
@pytest.mark.parametrize("evidence", [{}, "trust me", {"tests": {"passed": 9}}, {"verification": ["npm test"]}])
@pytest.mark.parametrize("step", ["testing", "review"])
def test_a_pass_without_a_command_is_no_answer(step: str, evidence: Any) -> None:
    """Words and numbers alone are no evidence; a command without its exit status is none either."""
    checks = {"checks": PASSED} if step == "review" else {}
    said = {**evidence, **checks} if isinstance(evidence, dict) else evidence
    outcome, reason, complaints = weighed(step, verdict="pass", evidence=said)
    assert (outcome, reason) == (Outcome.FAIL, Reason.CONTRACT_VIOLATION)
    if isinstance(said, dict):
        assert complaints[0].startswith("a pass needs at least one command that was run, with its exit status")
        nothing = weighed(step, verdict="pass", evidence={**said, "nothingToRun": "documents only"})
        assert nothing == (Outcome.OK, None, ())


# -- in words

SPOKEN = """\
I looked at everything.

**Status:** success
Verdict: fail
Evidence: ran the whole suite
- Files:
  - created `src/a b.ts` - the new one
  - src/old.ts (deleted): not needed
  - src/c.ts
- Tests: 12 passed, 2 failed
- Failures:
  - login: expected 401
- Lint: passed
- Typecheck: FAIL (3 errors)
- Build: skipped
- Code quality: pass
- Verification:
  - npm test -> exit 1
## Issues
1. src/a.ts:3: unused
## Learnings
- errors are values
Next steps: none
"""


@pytest.mark.req("RM-79", "RM-81", "RM-82")
def test_an_answer_in_labelled_lines_is_converted() -> None:
    """Labels plain, bold, as bullets or as headings; values on the line or below it."""
    answer = read_answer(data_of_text(SPOKEN))
    assert answer.verdict is Verdict.FAIL
    assert answer.files == (
        FileNote("src/a b.ts", "created", "the new one"),
        FileNote("src/old.ts", "deleted", "not needed"),
        FileNote("src/c.ts"),
    )
    assert answer.evidence == Evidence(
        checks=(Check("npm test", 1),),
        passed=12,
        failed=2,
        failures=("login: expected 401",),
        marks={"lint": "pass", "typecheck": "fail", "build": "skipped", "quality": "pass"},
    )
    assert answer.issues == ("src/a.ts:3: unused",)
    assert answer.findings == ("errors are values",)
    assert answer.next_steps == ()
    spoken = parse_answer(answer_format("testing"), code=0, message=SPOKEN)
    assert (spoken.outcome, spoken.data) == (Outcome.OK, data_of_text(SPOKEN))


@pytest.mark.req("EV-01", "EV-02")
@pytest.mark.parametrize(
    ("line", "outcome", "reason"),
    [
        ("Verification: npm test: exit 0", Outcome.OK, None),
        ("Verification:\n- `npm test` -> exit status 1 (2 failed)", Outcome.REVISE, Reason.CONTRADICTED),
        ("Evidence:\n- `npm test` ended with exit 1", Outcome.REVISE, Reason.CONTRADICTED),
        ("Nothing to run: the project has no tests", Outcome.OK, None),
        ("Evidence: all green", Outcome.FAIL, Reason.CONTRACT_VIOLATION),
    ],
)
def test_evidence_in_words_counts_like_data(line: str, outcome: Outcome, reason: Reason | None) -> None:
    """Commands with their exit status, or why there is none."""
    contract = contract_of("testing")
    message = f"Status: success\nVerdict: pass\n{line}\nIssues: None found.\n"
    found = judge(contract, parse_answer(contract.answer, code=0, message=message), [])
    assert (found.outcome, found.reason) == (outcome, reason)


@pytest.mark.req("RM-78")
@pytest.mark.parametrize(
    ("message", "outcome", "reason"),
    [
        ("Status: success\nEvidence: none", Outcome.OK, None),
        ("- **Status**: `needs_revision`", Outcome.REVISE, None),
        ("STATUS: Blocked", Outcome.BLOCKED, None),
        ("all fine", Outcome.FAIL, Reason.NO_VERDICT),
        ("Status: splendid", Outcome.FAIL, Reason.BAD_FORMAT),
        ("", Outcome.FAIL, Reason.NO_VERDICT),
        ('{"verdict": "pass"}', Outcome.FAIL, Reason.NO_VERDICT),
        ('{"status": "done"}', Outcome.FAIL, Reason.BAD_FORMAT),
    ],
)
def test_the_status_is_one_of_three_words_or_there_is_none(
    message: str, outcome: Outcome, reason: Reason | None
) -> None:
    """Anything else is a breach of contract that is asked about again."""
    answer = parse_answer(answer_format("implement"), code=0, message=message)
    assert (answer.outcome, answer.reason) == (outcome, reason)


def test_the_verdict_of_testing_may_be_its_word_on_the_tests() -> None:
    """`Tests: pass` is a verdict; counts are not."""
    assert read_answer(data_of_text("Status: success\nTests: pass")).verdict is Verdict.PASS
    assert read_answer(data_of_text("Status: success\nTests: 3 passed")).verdict is None


def test_a_design_in_words() -> None:
    """ADR, interfaces and boundaries have labels of their own."""
    spoken = "Status: success\nADR: `docs/adr/1.md`\nInterfaces:\n- f(x: int) -> str\nBoundaries:\n- src only\n"
    assert read_answer(data_of_text(spoken)).decision == ArchitectsDecision(
        "docs/adr/1.md", ("f(x: int) -> str",), ("src only",)
    )


@given(st.text(alphabet=st.sampled_from("StatusEvidnc:*-#\n `./ab1")))
def test_any_text_can_be_converted(text: str) -> None:
    """Words never make the reader fail."""
    assert isinstance(read_answer(data_of_text(text)), StepAnswer)


# -- compression


@pytest.mark.req("RM-53")
def test_an_error_is_cut_to_its_first_three_lines() -> None:
    """Ten lines go in, the first three come out."""
    assert essence("\n".join(f"line {n}" for n in range(10))) == "line 0\nline 1\nline 2"


@pytest.mark.req("RM-54")
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("boom\n    at run (src/a.js:1:2)\n    at src/b.js:3:4\nreally", "boom\nreally"),
        (
            'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nValueError: no',
            "ValueError: no",
        ),
        ("before\n```diff\n- a\n+ b\n```\nafter", "before\nafter"),
        ("look at rooms and cats", "look at rooms and cats"),
        ("panic: x\ngoroutine 1 [running]:\nmain", "panic: x\nmain"),
    ],
)
def test_stack_frames_and_code_are_dropped(text: str, kept: str) -> None:
    """The message stays, wherever it stands among them."""
    assert essence(text) == kept


@pytest.mark.req("RM-54")
def test_what_is_to_be_dropped_has_no_field() -> None:
    """Raw output, diffs, praise, rejected alternatives are not in what is read of an answer."""
    read = str(read_answer(WHOLE))
    assert not any(word in read for word in ("raw", "+++", "well done", "not this"))


paths = st.from_regex(r"[a-z][a-z0-9_/-]{0,60}\.[a-z]{1,4}", fullmatch=True)


@pytest.mark.req("RM-52", "RM-57")
@given(st.lists(paths, max_size=6), st.text(max_size=60))
def test_no_path_is_ever_shortened_and_the_same_words_give_the_same_bytes(named: list[str], text: str) -> None:
    """All files are passed on, in full; compressing again changes nothing."""
    data = {"evidence": {"files": [{"path": path, "note": text} for path in named]}, "issues": [text]}
    first, second = read_answer(data), read_answer(json.loads(json.dumps(data)))
    assert [file.path for file in first.files] == named
    assert first == second
    assert essence(essence(text)) == essence(text)
    assert "\n" not in short_line(text)
    assert len(essence(text).splitlines()) <= 3


@pytest.mark.req("RM-52")
def test_a_cut_in_a_long_line_never_falls_into_a_path() -> None:
    """The line ends at a space before the limit."""
    line = "x" * 1990 + " src/a/very/long/path/that/crosses/the/limit.ts and more"
    assert essence(line) == "x" * 1990 + " …"
    assert essence("y" * 5000) == "y" * 5000

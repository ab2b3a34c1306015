"""What agents answer: the forms, the seed's own four parts, and what of an answer goes on to the next agent. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from textwrap import dedent
from typing import Any, Literal

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from interlock.documents.markdown import Markdown, bullet, label
from interlock.engine.forms import Claim, Criterion, Finding, Form, Given, Unusable, Weakened, read_form
from interlock.engine.prompts import quoted

Checked = Literal["pass", "fail", "skipped"]
BEST = dict.fromkeys(("lint", "typecheck", "build", "quality"), "pass")
WORST = {**dict.fromkeys(BEST, "skipped"), "quality": "fail"}


class File(Form):
    path: str
    change: Literal["created", "modified", "deleted"] = "modified"
    note: str = Field("", description="What was done to it, in a line.")


class Ran(Form):
    command: str = Field(min_length=1, description="As typed in the folder where you began.")
    exit: int
    expected: bool = Field(False, description="True if it has to fail, and that is as it should be.")
    summary: str = ""


class Work(Form):
    files: list[File] = []
    verification: list[Ran] = []


class Answer(Form):
    """What all answer."""

    status: Literal["success", "blocked", "needs_revision"]
    evidence: Work = Work()
    issues: list[Finding | str] = Field([], description="Findings; if you are blocked or not finished, the reason.")
    learnings: list[str] = Field([], description="What the next agents have to know.")
    nextSteps: list[str] = Field([], description="For people; they decide nothing.")
    said: SkipJsonSchema[str] = ""
    """The evidence of an answer in four parts: handed on, and nothing is decided by it."""

    @model_validator(mode="before")
    @classmethod
    def _owes_a_reason(cls, value: Any) -> Any:
        """Who does not succeed owes the reason alone: what else its form asks for stands at its worst."""
        if not isinstance(value, dict) or value.get("status") not in ("blocked", "needs_revision"):
            return value
        told = {name: one for name, one in value.items() if one}
        evidence = told.get("evidence", {})
        if isinstance(evidence, dict):
            told["evidence"] = {"checks": WORST, **evidence}
        verdict = "drift_detected" if cls is Validated else "fail"
        return {"verdict": verdict, "learnings": ["(none)"], "decision": {"adr": "(none)"}, **told}

    @property
    def reasons(self) -> list[str]:
        return [essence(one if isinstance(one, str) else one.text) for one in self.issues]


class Found(Answer):
    learnings: list[str] = Field(min_length=1, description="Your findings, each with the paths that it rests on.")


class Decision(Form):
    adr: str = Field(min_length=1, description="The path of a decision record, or the design as text.")
    interfaces: list[str] = []
    boundaries: list[str] = []


class Designed(Answer):
    decision: Decision


class Built(Answer):
    already_so: str = Field("", description="Only if nothing needs changing: why; `verification` has what shows it.")
    takes_back: list[str] = Field([], description="Paths of unsaved work of the person that the item means to remove.")


class Judged(Answer):
    """What all judges answer; an issue of one who does not pass is why."""

    verdict: str
    criteria: list[Criterion] = []
    weakened: list[Weakened] = Field([], description="For each weakened test that you were told of: why it is right.")

    def claim(self, criteria: Sequence[str]) -> Claim:
        passes, ran = self.status == "success" and self.verdict in ("pass", "aligned"), self.evidence.verification
        green = [one.command for one in ran if one.exit == 0]
        found = [one for one in self.issues if isinstance(one, Finding)]
        blocking = [essence(one.text) for one in found if one.criterion or (one.check and one.check not in green)]
        return Claim(
            passes=passes,
            checks=tuple((one.command, "green" if one.exit == 0 else "red", one.expected) for one in ran),
            criteria=tuple((one.criterion, one.met) for one in self.criteria),
            blocking=(*self.against(), *(blocking if passes else self.reasons)),
            notes=tuple(self.reasons) if passes else (),
            no_check=getattr(self, "nothing_to_run", ""),
            explained=tuple(one.path for one in self.weakened),
        )

    def against(self) -> list[str]:
        """What else in it speaks against the work."""
        return []


class Validated(Judged):
    verdict: Literal["aligned", "drift_detected"]
    nothing_to_run: SkipJsonSchema[str] = "it compares, and runs nothing"

    @model_validator(mode="after")
    def _says_what(self) -> Validated:
        if self.status == "success" and self.verdict == "drift_detected" and not self.issues:
            raise ValueError("drift_detected needs at least one concrete issue")
        return self


class Failure(Form):
    name: str
    message: str = Field("", description="Exactly as it was printed, without the stack.")


class Tests(Form):
    passed: int = Field(0, ge=0)
    failed: int = Field(0, ge=0)
    failures: list[Failure] = []


class Proof(Work):
    tests: Tests = Tests.model_validate({})


class Tested(Judged):
    verdict: Literal["pass", "fail"]
    evidence: Proof = Proof()

    def against(self) -> list[str]:
        tests = self.evidence.tests
        told = [f"{one.name}: {essence(one.message)}" for one in tests.failures]
        return told or ([f"{tests.failed} tests failed"] if tests.failed else [])


class Checks(Form):
    lint: Checked
    typecheck: Checked
    build: Checked
    quality: Literal["pass", "fail"]


class Inspection(Work):
    checks: Checks


class Reviewed(Judged):
    verdict: Literal["pass", "fail"]
    nothing_to_run: str = Field("", description="Why there was no command to run.")
    evidence: Inspection

    def against(self) -> list[str]:
        return [f"{name}: fail" for name, word in self.evidence.checks if word == "fail"]


# --- reading


def read(form: Any, absent: Sequence[str], green: bool, given: Given) -> Form | Unusable:
    """The form, or the same in the seed's own four parts (RM-103).

    Args:
        absent: checks that the project does not have.
        green: the engine ran commands on that very tree, and they bear a pass out.
    """
    answer: Any = read_form(form, given.structured, given.text)
    if isinstance(answer, Unusable) and given.structured is None and "status" in (said := _parts(given.text)):
        answer = _of_parts(form, said, green)
    if isinstance(answer, Unusable) and form is Validated and given.told:
        why = ["validation gave no usable verdict"]
        return Validated.model_validate({"status": "success", "verdict": "drift_detected", "issues": why})
    if isinstance(answer, Reviewed) and answer.verdict == "pass":
        skipped = [name for name, word in answer.evidence.checks if word == "skipped" and name not in absent]
        if skipped:
            problem = "is `skipped`, but not declared absent; expected pass | fail"
            return Unusable(problems=tuple(f"evidence.checks.{name} {problem}" for name in skipped))
    return answer  # type: ignore[no-any-return]


def _parts(text: str) -> dict[str, str]:
    """What stands behind or below each label or heading of the seed, the first of each."""
    found: dict[str, list[str]] = {}
    below: list[str] = []
    document = Markdown(text)
    plain = {line for _, line in document.open_lines(deep=True)}
    for n, line in enumerate(document.under(deep=True).splitlines(), 1):
        heading, named = re.fullmatch(r"#{1,6}[ \t]+(.*?):?[ \t]*", line), label(line)
        name = heading[1] if heading else named["name"] if named else ""
        name = name.strip(" *_`").casefold() if n in plain else ""
        if name in ("status", "verdict", "evidence", "learnings", "next steps"):
            below = [named["value"] if named and not heading else ""]
            found.setdefault(name, below)
        else:
            below.append(line)
    return {name: "\n".join(lines).strip("\n") for name, lines in found.items()}


def _of_parts(form: type[Answer], said: dict[str, str], green: bool) -> Any:
    evidence, learned = said.get("evidence", ""), said.get("learnings", "")
    status, verdict = (said.get(name, "").strip(" *_`.!\n").casefold() for name in ("status", "verdict"))
    if verdict == "pass" and not (form is Tested and green):
        return Unusable(problems=("a pass names the checks that bear it out: end with the JSON block of the form",))
    data = {
        "status": status,
        "verdict": verdict if status == "success" else "",
        "said": evidence,
        "issues": _entries(evidence) if issubclass(form, Judged) or status != "success" else [],
        "learnings": _entries(learned) or (_entries(evidence) if form is Found else []),
        "nextSteps": _entries(said.get("next steps", "")),
        "decision": {"adr": evidence or learned},
        "evidence": {"checks": WORST},
    }
    return read_form(form, data, "")


def _entries(text: str) -> list[str]:
    """Its bullets and lines, each with what is indented below it."""
    entries: list[str] = []
    for line in dedent(essence(text, MUCH)).splitlines():
        if entries and line[:1].isspace():
            entries[-1] += f"\n{line.strip()}"
        else:
            item = bullet(line)
            entries.append(item[1] if item else line)
    return entries


# --- handing on

MUCH = 40
"""Lines of what may be raw output, where it is no message."""
_DIFF = re.compile(
    r"^[ \t]*(`{3,}|~{3,})[ \t]*(?:diff|patch)\b.*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_FRAME = re.compile(
    r"\s*`{3,}[^`]*|\s*~{3,}.*|\s+at \S.*|\s*at .+:\d+(:\d+)?\)?\s*|Traceback \(most recent call last\):\s*"
    r"|\s*\.\.\. \d+ more\s*|\s*\d+: +0x[0-9a-f]+ - .*|goroutine \d+ .*"
)
_PYTHON_FRAME = re.compile(r'\s*File ".+", line \d+.*')


def essence(text: str, most: int | None = 3) -> str:
    """The first lines that tell something, of a message three: no diffs, no marks of fences, no stack frames (a Python
    frame's source goes with it)."""
    told: list[str] = []
    below_frame = False
    for line in _DIFF.sub("", text).splitlines():
        source, below_frame = below_frame and line[:4] == "    ", bool(_PYTHON_FRAME.fullmatch(line))
        if line.strip() and not (source or below_frame or _FRAME.fullmatch(line)):
            told.append(line.rstrip())
    return "\n".join(told[:most])


def findings(found: Found) -> str:
    return "\n".join(filter(None, [essence(found.said, MUCH), *_listed(found.learnings)]))


def decision(designed: Designed) -> str:
    """ADR path, interfaces and boundaries, always all three."""
    made = designed.decision
    lines = ["Interfaces:", *_listed(made.interfaces or ["(none named)"])]
    lines += ["Boundaries:", *_listed(made.boundaries or ["(none named)"])]
    learned = ["Key findings:", *_listed(designed.learnings)] if designed.learnings else []
    return "\n".join([f"ADR: {essence(made.adr, None)}", *lines, *learned])


def _listed(entries: Iterable[str]) -> list[str]:
    return [f"- {essence(one, None)}".replace("\n", "\n  ") for one in entries]


def evidence(built: Built) -> str:
    """Which commands Implement says that it ran, and how they ended; none of their output."""
    ran = [f"- {quoted(one.command)}: exit {one.exit}" for one in built.evidence.verification]
    why = [f"- nothing was changed: {essence(built.already_so, None)}"] if built.already_so else []
    return "\n".join(filter(None, [*ran, *why, essence(built.said, MUCH)])) or "(it reported no commands)"


def files(built: Built, changed: Sequence[str]) -> dict[str, str]:
    """A line for each file that Implement names or that really changed (RM-55)."""
    told = {one.path.removeprefix("./"): one for one in built.evidence.files}
    lines = {path: f"- {quoted(path)} (changed; not named)" for path in changed}
    for path, one in told.items():
        seen = f"({one.change}): {essence(one.note, 1)}" if path in changed else "(no change of it was seen)"
        lines[path] = f"- {quoted(path)} {seen}"
    return lines


def tests(tested: Tested, word: str) -> str:
    counted = tested.evidence.tests
    return f"Tests: {word} ({counted.passed} passed, {counted.failed} failed)"

"""Answers of stage agents: the artifact decides, and that of QA is a judge's form in the seed's layout (4.5)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from interlock.documents.markdown import Markdown, bullet, cells, markdown, plain_value
from interlock.engine.forms import Claim, Form, Given, Judgement, Unusable, read_form
from interlock.playbooks.harness.documents import mark_of
from interlock.playbooks.harness.stages import Stage

_WORDS = {
    "Validation Result": {"passed": "Passed", "pass": "Passed", "issues found": "Issues Found"},
    "Approval Readiness": {"ready": "Ready", "ready for approval": "Ready", "back to build": "Back to Build"},
}
_POSITIVE = "Passed, Ready"
_MET = re.compile(
    r"(?:^\W*|[|:)\u2013\u2014]\s*|\s-\s+)(?:fully )?(?:met|pass(?:ed|es)?|satisfied|yes|done|ok|verified)\s*"
    r"(?:$|[|,;:.(\u2013\u2014]|-\s)|[\u2705\u2713\u2714\u2611]"
)
_UNMET = re.compile(
    r"\b(?:not|no|never|cannot|(?:do|does|did|is|was|ca)nt|un\w+|fail\w*|partial\w*|missing|open|blocked)\b"
    r"|[\u274c\u2717\u2718\u2610]"
)
"""A criterion without a box is met by a word that stands alone, or a tick, if no word speaks against it."""
_CHECK = re.compile(
    r"``?\s*([^`]+?)\s*``?.*?\bexit(?:ed|s)?(?:\s+(?:code|status|with))*\s*:?\s*(-?\d+)(.*)", re.IGNORECASE
)


class Answer(Form):
    """What the agent of a stage may say; its answer is its artifact."""

    status: Literal["done", "blocked", "error"] = "done"
    reason: str = Field("", description="If it is not done: what is missing or went wrong, in a sentence.")

    def gives_up(self) -> bool:
        return self.status != "done"


class Built(Answer):
    already_so: list[str] = Field([], description="If nothing has to be changed: the commands that show it.")
    takes_back: list[str] = Field([], description="Paths of the person's unsaved work that the task means to remove.")


class Judged(Judgement, Answer):
    """What a QA artifact says; whatever stands under its Blocking Issues blocks."""

    about: str = ""

    def claim(self, criteria: Sequence[str]) -> Claim:
        said = super().claim(criteria)
        blocking = [one.text for one in self.findings] or ([] if said.passes else [self.summary])
        return said.model_copy(update={"blocking": tuple(blocking), "notes": ()})


def read_answer(
    given: Given, *, stage: Stage, path: str, headings: Sequence[str], old: str | None, criteria: Sequence[str] = ()
) -> Form | Unusable:
    """What the agent of a stage answers; its artifact decides, unless it says that it could not do its work.

    Args:
        old: what stood at its place when it began; Build's own work shows that its report is not the old one.
    """
    form = Built if stage is Stage.BUILD else Answer
    said = read_form(form, given.structured, given.text)
    answer = said if isinstance(said, Answer) else form.model_validate({})
    if answer.gives_up():
        return Judged(verdict="revise", **answer.model_dump()) if stage is Stage.QA else answer
    text = given.outputs.get(path)
    if text is None or (text == old and stage is not Stage.BUILD):
        return Unusable(problems=(f"{path}: missing: it was not written in this stage",))
    if why := flaw(text, headings):
        return Unusable(problems=(f"{path}: {why}",))
    return read_judged(text, path, criteria) if stage is Stage.QA else answer


def flaw(text: str, headings: Sequence[str]) -> str:
    """What is wrong with an artifact, by its class; empty: nothing."""
    if not text.strip():
        return "empty"
    if "\ufffd" in text or "\0" in text:
        return "unreadable: it is no UTF-8 text"
    page = markdown(text)
    missing = [title for title in headings if not page.find(title.lstrip("# "))]
    if not any(section.level == 1 for section in page.sections):
        missing.insert(0, "a title")
    return f"malformed: {', '.join(missing)} missing" if missing else ""


def read_judged(text: str, path: str, criteria: Sequence[str]) -> Judged | Unusable:
    """What an artifact says of the criteria; all that is malformed, at once. Of two words the worse counts."""
    page, problems, said = markdown(text), list[str](), dict[str, str]()
    for name, known in _WORDS.items():
        every = [plain_value(value).rstrip(".") for value in page.every(name)]
        found = {known.get(one.casefold(), "") for one in every}
        worse = list(known.values())[-1]
        said[name] = worse if worse in found else next(iter(found), "")
        if not found or "" in found:
            words = " or ".join(dict.fromkeys(known.values()))
            problems.append(f"{path}: malformed: {name}: {every[0] if every else 'nothing'}; expected {words}")
    empty = [name for name in ("Blocking Issues", "Acceptance Criteria") if not page.under(name, deep=True).strip()]
    problems += [f"{path}: malformed: nothing stands under ## {name}" for name in empty]
    if problems:
        return Unusable(problems=tuple(problems))
    summary, (checks, no_check) = ", ".join(said.values()), _checks(page)
    weakened = [match for item in page.items("Weakened") if (match := re.match(r"`([^`]+)`\W+(\w.*)", item.text))]
    return Judged.model_validate(
        {
            "verdict": "accept" if summary == _POSITIVE else "revise",
            "summary": summary,
            "findings": [{"text": one} for one in _issues(page)],
            "criteria": _criteria(page, criteria),
            "checks": checks,
            "no_check": no_check,
            "weakened": [{"path": match[1], "why": match[2]} for match in weakened],
        }
    )


def _issues(page: Markdown) -> list[str]:
    """A bullet each; a line that is none counts, too."""
    listed = [" ".join(item.text.split()) for item in page.items("Blocking Issues")]
    listed = listed or [" ".join(page.under("Blocking Issues", deep=True).split())]
    return [one for one in listed if plain_value(one).casefold().strip(" .") != "none"]


def _criteria(page: Markdown, criteria: Sequence[str]) -> list[dict[str, Any]]:
    """Each line under the heading with what it says; a criterion of the task is known by its mark or its text."""
    found: list[dict[str, Any]] = []
    for text, _ in page.open_lines("Acceptance Criteria", deep=True):
        box, listed = re.match(r"\s*(?:[-*+]|\d+[.)])\s+\[(.)\]", text), bullet(text)
        said = " | ".join(cells(text)) or (listed[1] if listed else "")
        if not said.strip(" -:|") or re.match(r"\s{4,}|\t", text):
            continue
        criterion = max(criteria, key=lambda one: _fits(said, one), default="")
        criterion = criterion if any(_fits(said, criterion)) else ""
        if box or criterion:
            says = _words(said).removeprefix(mark_of(criterion).casefold()).replace(_text(criterion), "")
            met = box[1] in "xX" if box else bool(_MET.search(says) and not _UNMET.search(says))
            found.append({"criterion": criterion or said, "met": met, "evidence": said})
    return found


def _fits(said: str, criterion: str) -> tuple[int, int]:
    """How much of a criterion a line names: of its mark, then of its text."""
    mark, text, words = mark_of(criterion), _text(criterion), _words(said)
    marked = re.match(rf"{re.escape(mark.casefold())}(?![\w-]|\.\d)", words)
    return len(mark) if marked else 0, len(text) if text in words else 0


def _text(criterion: str) -> str:
    """What a criterion says behind its mark."""
    return _words(criterion.removeprefix(mark_of(criterion)).lstrip(" :.)-*_`")) or _words(criterion)


def _words(text: str) -> str:
    return " ".join(re.sub(r"[*_`\"']", "", text).casefold().split()).rstrip(".")


def _checks(page: Markdown) -> tuple[list[dict[str, Any]], str]:
    """Each command with how it ended, and why there is none."""
    checks, why = [], ""
    for item in page.items("Checks"):
        text = " ".join(item.text.split())
        if found := _CHECK.match(text):
            ended, said = int(found[2]), found[3].casefold()
            wanted = re.search(r"expected\D{0,9}(\d+)", said)
            as_told = ended == int(wanted[1]) if wanted else ended == 0 or "expected" in said
            result = "green" if ended == 0 and as_told else "red"
            checks.append({"command": found[1], "result": result, "expected": as_told and ended != 0})
        elif none := re.match(r"none\s*[:\u2013\u2014-]\s*(\S.*)", plain_value(text), re.IGNORECASE):
            why = none[1]
    return checks, why


def spell_judged(form: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, str]:
    """The artifact that says so: the inverse of `read_judged`."""
    one = Judged.model_validate(form)
    words = ("Passed", "Ready") if one.verdict == "accept" else ("Issues Found", "Back to Build")
    expected = {True: ", expected", False: ""}
    lines = [
        *(f"# QA {one.about}", f"Validation Result: {words[0]}", f"Approval Readiness: {words[1]}"),
        *("## Blocking Issues", *(f"- {each.text}" for each in one.findings), *([] if one.findings else ["- None"])),
        *("## Acceptance Criteria", *(f"- [{'x' if each.met else ' '}] {each.criterion}" for each in one.criteria)),
        *([] if one.criteria else ["(none)"]),
        "## Checks",
        *(f"- `{each.command}`: exit {int(each.result == 'red')}{expected[each.expected]}" for each in one.checks),
        *([f"- None: {one.no_check}"] if one.no_check else []),
        *(["## Weakened", *(f"- `{each.path}`: {each.why}" for each in one.weakened)] if one.weakened else []),
    ]
    return {path: "\n".join(lines) + "\n" for path in outputs}

"""What agents leave is read: a last line, a private memory, an artifact, as the seed has them.

Code reads literal headings and front matter alone (EVID-02).  What is ours beside the seed's layout (findings, checks,
criteria, weakened files) is read where it is there, and nothing more is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import ValidationError

from interlock.documents.markdown import Markdown, front_matter, markdown
from interlock.engine.forms import Check, Criterion, Given, Unusable, Weakened, read_form
from interlock.errors import DocumentInvalid
from interlock.playbooks.feature.decisions import Kind, Said
from interlock.playbooks.feature.forms import NOTHING, Answer, Closing, Graded
from interlock.playbooks.feature.members import Agent

_COMPLETION = re.compile(r"[\s>*_`#-]*(DONE|NEEDS_REVISION|ERROR)[*_`]*:[*_`]*\s*(.*)")
_WORD = re.compile(r"(\w+)[*_`]*\s*(?:$|[—–:;.(]|-\s)")
"""A word, and maybe a remark behind it: `**Low** — only names`."""
_CHECK = re.compile(r"`+([^`]+)`+\s*:\s*exit (\d+)(?:\s*,\s*expected (\d+))?.*", re.DOTALL)
_CRITERION = re.compile(r"([^:\s]+)\s*:\s*(met|not met)\b.*", re.IGNORECASE | re.DOTALL)
_NO_CHECK = re.compile(r"[\s*-]*nothing to run\s*:\s*(.+)", re.IGNORECASE)


def answer(
    agent: Agent,
    given: Given,
    *,
    memory: str,
    artifact: str,
    before: Mapping[str, str] | None = None,
    check: Callable[[Given], list[str]] = lambda given: [],
) -> Answer | Unusable:
    """What an agent left; unusable with all that is missing, at once.

    Args:
        memory, artifact: their paths; no artifact: its work is elsewhere.
        before: documents that only grow, as they were.
        check: what else is wrong with what it left.
    """
    closing = _closing(given)
    if closing is None:
        return Unusable(problems=("no DONE:/NEEDS_REVISION:/ERROR: line",))
    page = markdown(given.outputs.get(memory, ""))
    said = max(Said(closing.status), Said(_word(page, "Status", tuple(Said)) or "DONE"), key=list(Said).index)
    if said is Said.ERROR:
        return Unusable(problems=(f"ERROR: {closing.summary or 'it says so in its memory'}",), final=agent.final)
    if said is Said.NEEDS_REVISION and not (agent.revises or agent.kind in (Kind.CRITIC, Kind.ASIDE)):
        why = f"NEEDS_REVISION: is not {agent.name}'s to say, and counts as ERROR: {closing.summary}"
        return Unusable(problems=(why,), final=True)
    values: dict[str, Any] = {"status": said, "summary": closing.summary, "memory": page.text}
    problems = [*_untitled(given, artifact), *check(given)]
    if agent.kind is Kind.WORKER:
        values["already_so"] = [one for item in page.items("Already So") for one in re.findall("`([^`]+)`", item.text)]
        values["takes_back"] = [item.text.strip("` ") for item in page.items("Takes Back")]
    if before is not None:
        grew = {path: text for path, text in given.outputs.items() if path in before}
        values["rewrote"] = [path for path, text in grew.items() if not text.startswith(before[path].rstrip("\n"))]
    if agent.kind.judges:
        judged, open_ones = _judged(agent.kind, given, page, memory, artifact)
        values |= judged
        problems += [] if given.told else open_ones
    return agent.form(**values) if not problems else Unusable(problems=tuple(problems))


def _closing(given: Given) -> Closing | None:
    """The completion line, the last one that there is, or what a client gave as a form."""
    if given.structured is None:
        for line in reversed(given.text.splitlines()):
            if found := _COMPLETION.fullmatch(line):
                return Closing.model_validate({"status": found[1], "summary": found[2].strip("*_` ")})
    form = read_form(Closing, given.structured, given.text)
    return form if isinstance(form, Closing) else None


def _untitled(given: Given, artifact: str) -> list[str]:
    text = given.outputs.get(artifact)
    titled = text is None or any(section.level == 1 for section in _body(text, artifact).sections)
    return [] if titled else [f"{artifact}: a `# ` title is missing"]


def _body(text: str, path: str) -> Markdown:
    try:
        return front_matter(text, path).body if text.startswith("---") else markdown(text)
    except DocumentInvalid:
        return markdown(text)


def _word(page: Markdown, title: str, words: tuple[str, ...]) -> str:
    """The one of these words that stands below a heading, or behind a name."""
    said = _WORD.match(page.value(title) or "")
    return next((one for one in words if said and one.casefold() == said[1].casefold()), "")


def severity_of(kind: Kind, page: Markdown) -> str:
    """What a judge's memory says, the graver of its two headings (FT-61); empty: no word of its cluster (FT-56)."""
    words = (*kind.words, "Critical") if kind is Kind.REVIEWER else kind.words
    severity = _word(page, "Highest Severity", words)
    if kind is not Kind.CRITIC or not severity:
        return severity
    items = [item.text for item in page.items("Medium Severity")]
    said = items or [line.text for line in page.open_lines("Medium Severity") if line.text.strip()]
    passes = all(one.strip(" .*_`").casefold() in (*NOTHING, "low") for one in said)
    return kind.worse(severity, "Low" if passes else "Medium")


def _judged(kind: Kind, given: Given, page: Markdown, memory: str, artifact: str) -> tuple[dict[str, Any], list[str]]:
    """What only a judge leaves, and what of it cannot be read: asked for once, then it is the worst (FT-56)."""
    open_ones, findings = [], []
    severity, text = severity_of(kind, page), given.outputs.get(artifact, "")
    if not severity:
        open_ones.append(f"{memory}: `## Highest Severity` is missing, or none of {', '.join(kind.words)}")
    try:
        front = front_matter(text, artifact)
        findings = [Graded.model_validate(one) for one in front.source.data.get("findings") or ()]
    except (DocumentInvalid, ValidationError, TypeError) as error:
        what = error.what if isinstance(error, DocumentInvalid) else "`findings` is no list of severity and title"
        open_ones.append(f"{artifact}: {what}")
    body = _body(text, artifact)
    criteria = filter(None, (_CRITERION.fullmatch(item.text) for item in body.items("Criteria")))
    checks = filter(None, (_CHECK.match(item.text) for item in body.items("Checks")))
    nothing = filter(None, (_NO_CHECK.match(line.text) for line in body.open_lines("Checks")))
    weakened = (item.text.partition(":") for item in body.items("Weakened"))
    met = ((one[1].strip("*`"), one[2].casefold() == "met") for one in criteria)
    judged = {
        "severity": severity,
        "findings": findings,
        "criteria": [Criterion(criterion=name, met=is_met, evidence="") for name, is_met in met],
        "checks": [*map(_check, checks)],
        "no_check": next((one[1] for one in nothing), ""),
        "weakened": [Weakened(path=path.strip(" *`"), why=why.strip() or path) for path, _, why in weakened],
        "affected": [item.text.split(":")[0].strip(" *`") for item in page.items("Affected Tasks")],
    }
    return judged, open_ones


def _check(found: re.Match[str]) -> Check:
    """Green as told, or red as it has to be; one that ended otherwise than it says it should is red."""
    ended, expected = int(found[2]), int(found[3] or 0)
    result: Literal["green", "red"] = "green" if ended == expected == 0 else "red"
    return Check(command=found[1].strip(), result=result, expected=ended == expected and result == "red", why="")


def criteria_of(feature: str) -> dict[str, str]:
    """`AC-n` -> the acceptance criterion of `feature.md` (FT-157)."""
    items = (item.text for item in markdown(feature).items("Acceptance Criteria"))
    found = (re.match(r"[*`_]*(AC-\d+)[*`_]*[\s:.—-]*(.*)", item, re.DOTALL) for item in items)
    return {one[1]: " ".join(one[2].split()) for one in found if one}


def grown(before: str, now: str) -> str:
    """A document that only grows: what stood there, and behind it the lines that are new (FT-32)."""
    if now.startswith(before.rstrip("\n")):
        return now
    there = set(before.splitlines())
    new = "\n".join(line for line in now.splitlines() if line not in there or not line.strip()).strip("\n")
    return f"{before.rstrip()}\n\n{new}\n" if new else before

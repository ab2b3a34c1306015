"""What agents leave: a last line, a private memory, an artifact, as the seed has them (4.3, 4.4).

`answer` reads them into a form, one per kind of agent; `spelled` is its inverse, for who plays by script.  Code reads
literal headings and front matter alone (EVID-02).  What is ours beside the seed's layout (findings, checks, criteria,
weakened files) is read where it is there, and nothing more is asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, ValidationError

from interlock.documents.markdown import Markdown, front_matter, markdown
from interlock.engine.forms import Check, Claim, Criterion, Form, Given, Unusable, Weakened, read_form
from interlock.errors import DocumentInvalid
from interlock.playbooks.feature.decisions import Kind, Said

if TYPE_CHECKING:
    from interlock.playbooks.feature.members import Agent

NOTHING = ("", "none", "n/a", "-", "—")
FLAG = "security flag: "
"""Before a flag of who gave nothing usable, among what is wrong with it: no flag is lost (FT-41)."""
_COMPLETION = re.compile(r"[\s>*_`#-]*(DONE|NEEDS_REVISION|ERROR)[*_`]*:[*_`]*\s*(.*)")
_WORD = re.compile(r"(\w+)[*_`]*\s*(?:$|[—–:;.(]|-\s)")
"""A word, and maybe a remark behind it: `**Low** — only names`."""
_CHECK = re.compile(r"`+([^`]+)`+\s*:\s*exit (\d+)(?:\s*,\s*expected (\d+))?.*", re.DOTALL)
_CRITERION = re.compile(r"([^:\s]+)\s*:\s*(met|not met)\b.*", re.IGNORECASE | re.DOTALL)
_NO_CHECK = re.compile(r"[\s*-]*nothing to run\s*:\s*(.+)", re.IGNORECASE)


# --- as values


class Closing(Form):
    """The last message, of a client that holds its model to a form."""

    status: Literal["DONE", "NEEDS_REVISION", "ERROR"]
    summary: str = ""
    paths: list[str] = []


class Answer(Form):
    """What an agent left, as far as code acts on it."""

    status: Literal["DONE", "NEEDS_REVISION", "ERROR"] = "DONE"
    """The worse of its last line and its memory (FT-76)."""
    summary: str = ""
    memory: str = ""
    """Its private memory, as written; empty: none."""

    def listed(self, title: str) -> list[str]:
        """The bullets below a heading of its memory."""
        return listed(markdown(self.memory), title)


class Worked(Answer):
    """Of a task agent."""

    already_so: list[str] = []
    """The commands that show it, where nothing has to be changed (EVID-08)."""
    takes_back: list[str] = []
    """The person's unsaved work that the task means to remove (TREE-03)."""


class Graded(Form):
    """A finding in the front matter of a judge's artifact."""

    severity: str
    title: str = Field(min_length=1)
    files: list[str] = []
    tasks: list[str] = []

    def __str__(self) -> str:
        return f"{self.severity}: {self.title}"


class Judged(Answer):
    """Of a judge."""

    kind: ClassVar[Kind]
    severity: str = ""
    """Empty: there is none, or no word of its cluster."""
    findings: list[Graded] = []
    criteria: list[Criterion] = []
    checks: list[Check] = []
    no_check: str = ""
    weakened: list[Weakened] = []
    affected: list[str] = []

    @classmethod
    def known(cls, criteria: Sequence[str], green: bool) -> dict[str, Any]:
        met = [{"criterion": one, "met": True, "evidence": ""} for one in criteria]
        return {"criteria": met, **({} if green or cls is not Verifier else {"no_check": "there is none here"})}

    def grave(self) -> list[Graded]:
        """Its own findings that are against the work."""
        return [one for one in self.findings if self.kind.against(one.severity)]

    def claim(self, criteria: Sequence[str]) -> Claim:
        """What it says (FT-156): its word passes unless what it wrote beside it says otherwise."""
        against = self.status != Said.DONE or self.kind.against(self.severity)
        said = [f"{self.status}, severity {self.severity or 'unknown'}"] if against else []
        named = [(one.criterion, one.met) for one in self.criteria] or [(one, True) for one in criteria]
        return Claim(
            passes=not against,
            checks=tuple((one.command, one.result, one.expected) for one in self.checks),
            criteria=tuple(named),
            blocking=(*said, *map(str, self.grave())),
            no_check=self.no_check or ("" if self.kind is Kind.VERIFIER else "judged by reading"),
            explained=tuple(one.path for one in self.weakened),
        )


class Critic(Judged):
    kind = Kind.CRITIC
    severity: Literal["Low", "Medium", "High", "Critical", ""] = "Low"


class Verifier(Judged):
    kind = Kind.VERIFIER
    severity: Literal["PASS", "FAIL", ""] = "PASS"


class Reviewer(Judged):
    kind = Kind.REVIEWER
    severity: Literal["None", "Minor", "Major", "Blocker", "Critical", ""] = "None"


FORMS: Mapping[Kind, type[Answer]] = {
    Kind.PRODUCER: Answer,
    Kind.WORKER: Worked,
    Kind.ASIDE: Answer,
    Kind.CRITIC: Critic,
    Kind.VERIFIER: Verifier,
    Kind.REVIEWER: Reviewer,
}


# --- read


def answer(
    agent: Agent, given: Given, *, memory: str, artifact: str, check: Callable[[Given], list[str]] = lambda given: []
) -> Answer | Unusable:
    """What an agent left; unusable with all that is missing, at once.

    Args:
        memory, artifact: their paths; no artifact: its work is elsewhere.
        check: what else is wrong with what it left.
    """
    closing, page, text = _closing(given), markdown(given.outputs.get(memory, "")), given.outputs.get(artifact)
    flags = [f"{FLAG}{one}" for one in listed(page, "Security Flags")]
    if closing is None:
        return Unusable(problems=("no DONE:/NEEDS_REVISION:/ERROR: line", *flags))
    said = max(Said(closing.status), Said(_word(page, "Status", tuple(Said)) or "DONE"), key=list(Said).index)
    if said is Said.ERROR:
        return Unusable(problems=(f"ERROR: {closing.summary or 'it says so in its memory'}", *flags), final=agent.final)
    if said is Said.NEEDS_REVISION and not (agent.revises or agent.kind in (Kind.CRITIC, Kind.ASIDE)):
        why = f"NEEDS_REVISION: is not {agent.name}'s to say, and counts as ERROR: {closing.summary}"
        return Unusable(problems=(why, *flags), final=True)
    values: dict[str, Any] = {"status": said, "summary": closing.summary, "memory": page.text}
    titled = text is None or any(section.level == 1 for section in _body(text, artifact).sections)
    problems = [*([] if titled else [f"{artifact}: a `# ` title is missing"]), *check(given)]
    if agent.kind is Kind.WORKER:
        values["already_so"] = [one for item in page.items("Already So") for one in re.findall("`([^`]+)`", item.text)]
        values["takes_back"] = [item.text.strip("` ") for item in page.items("Takes Back")]
    if agent.kind.judges:
        judged, unread = _judged(agent.kind, page, text or "", memory, artifact)
        values |= judged
        problems += [] if given.told else unread  # asked for once, then it is the worst (FT-56)
    return Unusable(problems=(*problems, *flags)) if problems else agent.form(**values)


def _closing(given: Given) -> Closing | None:
    """The completion line, the last one that there is, or what a client gave as a form."""
    lines = reversed(given.text.splitlines()) if given.structured is None else ()
    if found := next(filter(None, map(_COMPLETION.fullmatch, lines)), None):
        return Closing.model_validate({"status": found[1], "summary": found[2].strip("*_` ")})
    form = read_form(Closing, given.structured, given.text)
    return form if isinstance(form, Closing) else None


def _body(text: str, path: str) -> Markdown:
    try:
        return front_matter(text, path).body
    except DocumentInvalid:
        return markdown(text)


def listed(page: Markdown, title: str) -> list[str]:
    """The bullets below a heading, each in a line; those that say that there is nothing are none."""
    items = (" ".join(item.text.split()) for item in page.items(title))
    return [item for item in items if item.strip(" .*_`").casefold() not in NOTHING]


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
    said = page.items("Medium Severity") or [*page.open_lines("Medium Severity")]
    passes = all(one.text.strip(" .*_`").casefold() in (*NOTHING, "low") for one in said)
    return kind.worse(severity, "Low" if passes else "Medium")


def _judged(kind: Kind, page: Markdown, text: str, memory: str, artifact: str) -> tuple[dict[str, Any], list[str]]:
    """What only a judge leaves, and what of it cannot be read."""
    unread, findings, severity = [], [], severity_of(kind, page)
    if not severity:
        unread.append(f"{memory}: `## Highest Severity` is missing, or none of {', '.join(kind.words)}")
    try:
        front = front_matter(text, artifact)
        findings = [Graded.model_validate(one) for one in front.source.data.get("findings") or ()]
    except (DocumentInvalid, ValidationError, TypeError) as error:
        what = error.what if isinstance(error, DocumentInvalid) else "`findings` is no list of severity and title"
        unread.append(f"{artifact}: {what}")
    body = _body(text, artifact)
    criteria = filter(None, (_CRITERION.fullmatch(item.text) for item in body.items("Criteria")))
    checks = filter(None, (_CHECK.match(item.text) for item in body.items("Checks")))
    nothing = filter(None, (_NO_CHECK.match(line.text) for line in body.open_lines("Checks")))
    weakened = (item.text.partition(":") for item in body.items("Weakened"))
    judged = {
        "severity": severity,
        "findings": findings,
        "criteria": [
            Criterion(criterion=one[1].strip("*`"), met=one[2].casefold() == "met", evidence="") for one in criteria
        ],
        "checks": [*map(_check, checks)],
        "no_check": next((one[1] for one in nothing), ""),
        "weakened": [Weakened(path=path.strip(" *`"), why=why.strip() or path) for path, _, why in weakened],
        "affected": [item.text.split(":")[0].strip(" *`") for item in page.items("Affected Tasks")],
    }
    return judged, unread


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


# --- written


def spelled(form: Mapping[str, Any], paths: Sequence[str]) -> dict[str, str]:
    """The private memory and, of a judge, the artifact in which these values stand."""
    left = {}
    for path in paths:
        name = path.rpartition("/")[2].partition(".")[0]
        if path.endswith(".mem.md"):
            parts = {
                "Status": [form.get("status", "DONE")],
                "Highest Severity": [form.get("severity", "N/A")],
                "Key Findings": [f"- What {name} found."],
                "Decisions": [f"- What {name} decided. Rationale: a reason."],
                "Affected Tasks": [f"- {one}" for one in form.get("affected", ())],
                "Already So": [f"- `{one}`" for one in form.get("already_so", ())],
                "Takes Back": [f"- {one}" for one in form.get("takes_back", ())],
            }
            left[path] = f"# Memory: {name}\n" + _sections(parts)
        elif "criteria" in form and re.search(r"/(ct-review|verification|review)/[crv]t?-\w+\.md$", path):
            findings = "".join(f"  - {json.dumps(one)}\n" for one in form.get("findings", ()))
            checks = [
                f"- `{one['command']}`: exit {int(one['result'] == 'red')}{', expected 1' * bool(one.get('expected'))}"
                for one in form.get("checks", ())
            ]
            parts = {
                "Checks": [*checks, *([f"Nothing to run: {form['no_check']}"] if form.get("no_check") else [])],
                "Criteria": [f"- {one['criterion']}: {'met' if one['met'] else 'not met'}" for one in form["criteria"]],
                "Weakened": [f"- {one['path']}: {one['why']}" for one in form.get("weakened", ())],
            }
            head = f"---\nfindings:\n{findings}---\n" if findings else ""
            left[path] = f"{head}# {name}\n" + _sections(parts)
    return left


def _sections(parts: Mapping[str, Sequence[str]]) -> str:
    return "".join(f"\n## {title}\n\n" + "\n".join(lines) + "\n" for title, lines in parts.items() if any(lines))

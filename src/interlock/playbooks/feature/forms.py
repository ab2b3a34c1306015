"""What agents leave, as values: a form a kind of agent, and the documents in which such values stand (4.3, 4.4).

`answers` reads those documents; `spelled` is its inverse, for who plays by script.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from interlock.documents.markdown import Markdown, markdown
from interlock.engine.forms import Check, Claim, Criterion, Form, Weakened
from interlock.playbooks.feature.decisions import Kind, Said

NOTHING = ("", "none", "n/a", "-", "—")


def listed(page: Markdown, title: str) -> list[str]:
    """The bullets below a heading, each in a line; those that say that there is nothing are none."""
    items = (" ".join(item.text.split()) for item in page.items(title))
    return [item for item in items if item.strip(" .*_`").casefold() not in NOTHING]


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


class Appended(Answer):
    """Of r-knowledge."""

    rewrote: list[str] = []
    """Documents that only grow and of which it changed what stood there."""


class Graded(Form):
    """A finding in the front matter of a judge's artifact."""

    severity: str
    title: str = Field(min_length=1)
    files: list[str] = []
    tasks: list[str] = []


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
        said = () if not against else (f"{self.status}, severity {self.severity or 'unknown'}",)
        named = [(one.criterion, one.met) for one in self.criteria] or [(one, True) for one in criteria]
        reads = "" if self.kind is Kind.VERIFIER else "judged by reading"
        return Claim(
            passes=not against,
            checks=tuple((one.command, one.result, one.expected) for one in self.checks),
            criteria=tuple(named),
            blocking=(*said, *(f"{one.severity}: {one.title}" for one in self.grave())),
            no_check=self.no_check or reads,
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


def spelled(form: Mapping[str, Any], paths: Sequence[str]) -> dict[str, str]:
    """The private memory and, of a judge, the artifact in which these values stand."""
    left = {}
    for path in paths:
        name = path.rpartition("/")[2].partition(".")[0]
        if path.endswith(".mem.md"):
            left[path] = f"# Memory: {name}\n" + _sections(_memory(name, form))
        elif "criteria" in form and re.search(r"/(ct-review|verification|review)/[crv]t?-\w+\.md$", path):
            findings = [f"  - {json.dumps(one)}\n" for one in form.get("findings", ())]
            head = f"---\nfindings:\n{''.join(findings)}---\n" if findings else ""
            left[path] = f"{head}# {name}\n" + _sections(_artifact(form))
    return left


def _memory(name: str, form: Mapping[str, Any]) -> dict[str, list[str]]:
    return {
        "Status": [form.get("status", "DONE")],
        "Highest Severity": [form.get("severity", "N/A")],
        "Key Findings": [f"- What {name} found."],
        "Decisions": [f"- What {name} decided. Rationale: a reason."],
        "Affected Tasks": [f"- {one}" for one in form.get("affected", ())],
        "Already So": [f"- `{one}`" for one in form.get("already_so", ())],
        "Takes Back": [f"- {one}" for one in form.get("takes_back", ())],
    }


def _artifact(form: Mapping[str, Any]) -> dict[str, list[str]]:
    checks = [
        f"- `{one['command']}`: exit {int(one['result'] == 'red')}{', expected 1' * bool(one.get('expected'))}"
        for one in form.get("checks", ())
    ]
    return {
        "Checks": [*checks, *([f"Nothing to run: {form['no_check']}"] if form.get("no_check") else [])],
        "Criteria": [f"- {one['criterion']}: {'met' if one['met'] else 'not met'}" for one in form["criteria"]],
        "Weakened": [f"- {one['path']}: {one['why']}" for one in form.get("weakened", ())],
    }


def _sections(parts: Mapping[str, Sequence[str]]) -> str:
    return "".join(f"\n## {title}\n\n" + "\n".join(lines) + "\n" for title, lines in parts.items() if any(lines))

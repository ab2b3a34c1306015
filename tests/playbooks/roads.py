"""A roadmap in the simulated world, and agents that answer as told."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from interlock.agents.values import Ask
from interlock.engine.simulation import Act, Files
from interlock.engine.view import View
from interlock.playbooks.roadmap import ROADMAP
from interlock.playbooks.roadmap.playbook import Settings
from tests.engine.bench import Bench, said

FILE = "roadmap.json"
NAMES = {
    "Research": "research",
    "Architect": "design",
    "Implement": "implement",
    "Architect validation": "validation",
    "Testing": "testing",
    "Review": "review",
}
"""Who is called, by the name of the dispatch."""


def item(identity: Any = 7, complexity: str = "simple", **more: Any) -> dict[str, Any]:
    """An item that is ready; `...` leaves a field out."""
    known = {
        "id": identity,
        "title": "Login",
        "complexity": complexity,
        "priority": 1,
        "status": "ready",
        "passes": False,
        "acceptanceCriteria": ["one can log in", "one can log out"],
        "verification": ["make test", "make lint"],
    }
    return {name: value for name, value in {**known, **more}.items() if value is not ...}


def done(identity: Any = 1, **more: Any) -> dict[str, Any]:
    return item(identity, status="done", passes=True, **more)


class Road(Bench):
    """One roadmap, through as many processes and runs as it takes."""

    def __init__(self, *items: Any, text: str | None = None, files: Files | None = None, **settings: Any) -> None:
        spelled = json.dumps(items, indent=2) + "\n" if text is None else text
        playbook = replace(ROADMAP, settings=partial(Settings, **settings))  # type: ignore[arg-type]
        files = {"lib.py": b"x = 1\n", FILE: spelled.encode(), **(files or {})}
        super().__init__(playbook, {path: content for path, content in files.items() if content != b"\0"})
        self.usual = self.cast.agent
        self.cast.agent = self._agent  # type: ignore[method-assign]
        self.stood: list[tuple[str, Any]] = []
        """At each call: who is called, and the items as they stand on disk."""

    def _agent(self, ask: Ask, key: str, files: Files) -> Act:
        self.stood.append((ask.env["INTERLOCK_MEMBER"], self.items))
        return self.usual(ask, key, files)

    @property
    def items(self) -> Any:
        data = json.loads(self.text(FILE).removeprefix("\ufeff"))
        return data["items"] if isinstance(data, dict) else data

    @property
    def called(self) -> list[str]:
        return [NAMES[ask.env["INTERLOCK_MEMBER"]] for ask in self.cast.asks]

    def brief(self, step: str, number: int = -1) -> str:
        return [ask.brief for ask in self.cast.asks if NAMES[ask.env["INTERLOCK_MEMBER"]] == step][number]


def sections(brief: str) -> dict[str, str]:
    """What stands below the headings of a brief's task."""
    task = brief.partition("## Task\n")[2].partition("\n## Context\n")[0]
    parts = re.split(r"^### (.*)$", task, flags=re.MULTILINE)
    return dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))


def output(bench: Bench, view: View) -> str:
    """What the run has printed."""
    return "".join(bench.world.folder.get(digest).decode() + "\n" for digest in view.said.values())


# --- answers


def answers(status: str = "success", *, files: Mapping[str, str] | None = None, **form: Any) -> Act:
    """Any agent's form, and the files that it leaves."""
    left = {path: text.encode() for path, text in (files or {}).items()}
    return said({"status": status, **form}, left)


def built(text: str = "worked on by me\n", path: str = "lib.py", **form: Any) -> Act:
    return answers(files={path: text}, **form)


def ran_tests(verdict: str = "pass", *failures: str, ran: Sequence[str] = ("make test",), **form: Any) -> Act:
    failed = [{"name": one.partition(": ")[0], "message": one.partition(": ")[2]} for one in failures]
    evidence = {
        "tests": {"passed": 3, "failed": len(failed), "failures": failed},
        "verification": [{"command": line, "exit": 0} for line in ran if verdict == "pass"],
    }
    return answers(verdict=verdict, evidence={**evidence, **form.pop("evidence", {})}, **form)


def reviewed(verdict: str = "pass", *issues: str, ran: Sequence[str] = ("make lint",), **checks: str) -> Act:
    words = {"lint": "pass", "typecheck": "pass", "build": "pass", "quality": "pass", **checks}
    evidence = {"checks": words, "verification": [{"command": line, "exit": 0} for line in ran]}
    return answers(verdict=verdict, issues=list(issues), evidence=evidence)


def drift(*issues: str) -> Act:
    return answers(verdict="drift_detected", issues=list(issues))

"""Agents of `feature`: what they do and say is drawn, or honest in the seed's fields alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from benchmarks.lies import Told
from interlock.agents.values import Ask, CommandExit
from interlock.engine.simulation import WORK, Act, Clean, Files
from interlock.engine.view import View
from interlock.engine.world import Command
from interlock.playbooks.feature.answers import spelled
from tests.engine.bench import GREEN, RED, said
from tests.playbooks.features import BEST, ROOT, Feature

GOOD, BAD = WORK + b"right\n", b"broken\n"


class Liars(Clean):
    """Task agents do it right, wrong or not at all; judges pass or refuse as they like, and name what they like."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw

    def agent(self, ask: Ask, key: str, files: Files) -> Act:
        draw, left = self.draw, {path: text.encode() for path, text in ask.samples.items()}
        role = ask.role.name
        if role == "implementer":
            does = draw.choice([GOOD, GOOD, BAD, None])
            left |= {path: does or b"" for path in ask.samples if "docs/feature" not in path}
            left = {path: text for path, text in left.items() if does or "docs/feature" in path}
            form = {"already_so": draw.choice([[], ["make test"], ["true"]])}
            left |= {path: text.encode() for path, text in spelled({**BEST[role], **form}, tuple(left)).items()}
        elif "criteria" in BEST[role]:
            left |= {path: text.encode() for path, text in spelled(self._word(ask, role), tuple(left)).items()}
        last = draw.choice(["DONE: yes"] * 100 + ["ERROR: no", "NEEDS_REVISION: no", "well"])
        return said(last, {path: text for path, text in left.items() if draw.random() < 0.998})

    def _word(self, ask: Ask, role: str) -> dict[str, Any]:
        draw, grave = self.draw, {"c": "High", "v": "FAIL", "r": "Major"}[role[0]]
        form = {**BEST[role], **ask.known, "no_check": "I looked"}
        if draw.random() < 0.05:
            form["findings"] = [{"severity": draw.choice([grave, "Low", "None"]), "title": "something"}]
        if draw.random() < 0.05:
            form["checks"] = [{"command": draw.choice(["make test", "false"]), "result": draw.choice(["green", "red"])}]
        if draw.random() < 0.04:
            form["severity"] = draw.choice([grave, ""])
        return form

    def command(self, command: Command, tree: Any, files: Files, *, own: bool) -> CommandExit:
        if command.line in ("true", "false"):
            return GREEN if command.line == "true" else RED
        return self.truth(files)

    @staticmethod
    def truth(files: Files) -> CommandExit:
        code = b"".join(text for path, text in files.items() if "docs/" not in path)
        return GREEN if GOOD in code and BAD not in code else RED


HONEST: dict[str, Callable[[str, str], str]] = {
    "headings": lambda status, severity: f"# Memory\n\n## Status\n{status}\n\n## Highest Severity\n{severity}\n",
    "labels": lambda status, severity: f"- **Status:** {status}\n- **Highest Severity:** {severity}\n",
    "with prose": lambda status, severity: (
        f"# Memory: me\n\nI looked at all of it.\n\n## Key Findings\n\n- Fine.\n\n## Status\n\n`{status}`\n\n"
        f"## Highest Severity\n\n**{severity}**\n\n## Decisions\n\nNone.\n"
    ),
    "a table": lambda status, severity: (
        f"| Field | Value |\n| --- | --- |\n| Status | {status} |\n| Highest Severity | {severity} |\n"
    ),
    "CRLF": lambda status, severity: f"## Status\r\n{status}\r\n## Highest Severity\r\n{severity}\r\n",
}


class Honest(Clean):
    """Reports in the seed's fields alone, laid out as agents do."""

    def __init__(self, layout: str) -> None:
        self.layout = HONEST[layout]

    def agent(self, ask: Ask, key: str, files: Files) -> Act:
        left = {path: text for path, text in super().agent(ask, key, files).files.items() if text is not None}
        judges = "criteria" in BEST.get(ask.role.name, {})
        word = {"c": "Low", "v": "PASS", "r": "Minor"}[ask.role.name[0]] if judges else "N/A"
        for path in left:
            if path.endswith(".mem.md"):
                left[path] = self.layout("DONE", word).encode()
            elif "/review/r-" in path or "/verification/" in path or "/ct-review/" in path:
                left[path] = b"# Report\n\nAll of it is fine.\n"
        return said("I am done.\n\nDONE: it is fine", left)


def refuted(view: View) -> str:
    """Who decided an end, and named a check that runs otherwise; where verification never passed, that is told."""
    decided = ("r-security", "r-quality", "r-testing", *(("v-tests", "v-feature") if view.status == "complete" else ()))
    reports = {call.member: call.report for call in view.calls.values() if call.member in decided}
    forms = {name: (report.form if report else None) or {} for name, report in reports.items()}
    if view.status == "complete" and not all(forms.values()):
        return "complete, and somebody who decides has not judged"
    named = [(name, one) for name, form in forms.items() for one in form.get("checks", ())]
    lied = [name for name, one in named if (one["command"] == "false") == (one["result"] == "green")]
    return f"accepted, and what {lied} name runs otherwise" if lied else ""


def hostile(seed: int) -> Told:
    bench = Feature(commands=(Command("test", "make test", "found"),))
    bench.world.cast = Liars(random.Random(seed))
    before = dict(bench.world.files)
    view = bench.go()
    code, wrong = {path: text for path, text in bench.world.files.items() if not path.startswith(ROOT)}, ""
    if view.status in ("complete", "degraded"):
        wrong = "accepted, and its command is red" if Liars.truth(bench.world.files) is RED else refuted(view)
    elif code != before:
        wrong = f"refused, and delivered: {sorted(code.keys() - before)}"
    return Told(view.status.value, wrong=wrong)


def honest(seed: int) -> str:
    bench, layout = Feature(), list(HONEST)[seed % len(HONEST)]
    bench.world.cast = Honest(layout)
    view = bench.go()
    calls = max(call.calls for call in view.calls.values())
    return "" if (view.status, calls) == ("complete", 1) else f"{layout}: {view.status}, {calls} calls: {view.why}"

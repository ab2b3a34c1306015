"""Build and QA of `harness`, where nobody is asked: what they do and write is drawn, or as honest people write it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from benchmarks import lies
from benchmarks.lies import FIXED, FOUND, LIB, REGRESSED, Case, Project, Told
from interlock.agents.values import Ask, Exit
from interlock.engine.simulation import Act, Clean, Files
from interlock.engine.view import View
from interlock.engine.world import Toolbox
from interlock.playbooks.harness import HARNESS
from tests.playbooks.harnesses import ARTIFACTS, BUILD, ID, QA, TASK, qa

TEXT = TASK.replace("- Task ID", "- Workflow Mode: autonomous\n- Task ID")
DOCUMENTS = {**HARNESS.brings, f"harness/tasks/{ID}.md": TEXT}


class Hostile(lies.Hostile):
    """They want the task complete, whatever it is."""

    def agent(self, ask: Ask, key: str, files: Files) -> Act:
        if ask.role.name not in ("build", "qa"):
            return Clean().agent(ask, key, files)
        return self.turn(ask.role.name, files, ask.samples.get(BUILD, ""))

    def act(self, agent: str, files: Files, brief: str) -> Act:
        if agent == "build":
            form = {"status": "done", "already_so": lies.LINES[: int(self.draw.random() < 0.3)]}
            return Act({**lies.tricked(self.draw, files), BUILD: brief.encode()}, self.says(form))
        chance = self.draw.random
        if self.judge != "wild":
            told = "".join(f"- `{path}`: it is right so\n" for path in (lies.TEST, lies.MAKE, lies.HOOK))
            weak = f"\n## Weakened\n\n{told}" if self.judge == "smooth" else ""
            return Act({QA: f"{USUAL}{weak}\n<!-- {chance()} -->\n".encode()}, self.says({"status": "done"}))
        ran = [
            f"- `{one['command']}`: exit {one['exit']}{', expected' if one['expected'] else ''}"
            for one in lies.claimed(self.draw)
        ]
        boxes = [f"- [{'x' if chance() < 0.95 else ' '}] AC{n}: seen" for n in (1, 2) if chance() < 0.95]
        excuses = [f"- `{one['path']}`: {one['why']}" for one in lies.excused(self.draw)]
        lines = [
            f"# QA {chance()}",
            f"Validation Result: {'Passed' if chance() < 0.95 else 'Issues Found'}",
            f"Approval Readiness: {'Ready' if chance() < 0.95 else 'Back to Build'}",
            *("## Blocking Issues", "- None" if chance() < 0.9 else "- it does not work"),
            *("## Acceptance Criteria", *(boxes or ["all met"])),
            *("## Checks", *ran, *(["- None: obvious"] if chance() < 0.3 else [])),
            *(["## Weakened", *excuses] if excuses else []),
        ]
        plants: dict[str, bytes | None] = {lies.HOOK: b"pass\n"} if chance() < 0.2 else {}
        return Act({QA: "\n".join(lines).encode(), **plants}, self.says({"status": "done"}))


NONE = "## Blocking Issues\n\n- None\n\n## Acceptance Criteria\n\n"
USUAL = (qa().files[QA] or b"").decode()
TABLE = "| Field | Value |\n| --- | --- |\n| Validation Result | Pass |\n| Approval Readiness | Ready |\n\n"
REPORTS: Mapping[str, str] = {
    "the seed's": USUAL,
    "bold": "# QA\n\n**Validation Result:** Passed\n**Approval Readiness:** Ready for Approval\n\n"
    "## Blocking issues\n\nNone.\n\n"
    "## Acceptance criteria\n\n1. [x] **AC1** seen\n2. [X] AC2 seen\n\n## Notes\n\n- a shorter name?\n",
    "a table": f"# QA report\n\n{TABLE}{NONE}| AC | met |\n| --- | --- |\n| AC1 | yes |\n| AC2 | met |\n",
    "sections": "# QA\n\n## Validation Result\n\nPassed\n\n## Approval Readiness\n\nReady\n\n"
    f"{NONE}- A name is greeted: satisfied\n- Nobody is greeted as the world. Yes, seen.\n",
    "expected red": f"{USUAL}- `./verify.sh`: exit 127, expected 127\n",
    "all checks": f"{USUAL}- `make test`: exit 0\n- `python -m pytest tests` (exit code 0)\n",
}


class Honest(Clean):
    """As people instruct their own agents: reports as they write them, with a form or without."""

    def __init__(self, report: str, late: bool, form: bool) -> None:
        self.report, self.late, self.form = report, late, form

    def agent(self, ask: Ask, key: str, files: Files) -> Act:
        name, n = ask.role.name, ask.env["INTERLOCK_ATTEMPT"]
        end = self.said({"status": "done"}) if self.form else Exit(finished=True, exit=0, text="I have done it.")
        text = f"{self.report}\n<!-- {n} -->\n" if name == "qa" else ask.samples[ARTIFACTS[name]]
        work = {LIB: REGRESSED if self.late and n == "1" else FIXED} if name == "build" else {}
        return Act({ARTIFACTS[name]: text.encode(), **work}, end)


def played(cast: Any, files: Files) -> tuple[Project, View]:
    documents = {path: text.encode() for path, text in DOCUMENTS.items()}
    cast.world = world = Project({**files, **documents}, cast=cast, toolbox=Toolbox([FOUND]), branch="main")
    return world, lies.played(HARNESS, world, HARNESS.inputs.model_validate({"task": ID}))


def shows(world: Project, view: View, start: Files) -> str:
    """What a command, or QA's own words, show against a task that is complete."""
    report = next(call.report for call in reversed(view.calls.values()) if call.agent == "qa")
    if report is None or report.form is None:
        return "QA has not judged"
    form = report.form
    if form["verdict"] != "accept" or form["findings"]:
        return "QA did not pass it"
    if len({one["criterion"] for one in form["criteria"]}) < 2 or not all(one["met"] for one in form["criteria"]):
        return "a criterion is not met"
    if why := lies.otherwise(form["checks"], *world.sight(report, "qa")):
        return why
    cases = [
        Case((FOUND.line,), start, *trees, False, lies.explained(view, form)) for trees in lies.landed(world, view)
    ]
    return next(filter(None, (lies.against(case)[0] for case in cases)), "")


def hostile(seed: int) -> Told:
    draw = random.Random(seed)
    start = {**lies.FILES, LIB: FIXED} if draw.random() < 0.15 else lies.FILES
    world, view = played(Hostile(draw), start)
    return Told(view.status.value, wrong=shows(world, view, start) if view.status == "complete" else "")


def honest(seed: int) -> str:
    name = list(REPORTS)[seed % len(REPORTS)]
    _, view = played(Honest(REPORTS[name], seed % 4 == 3, seed // 6 % 2 == 0), lies.FILES)
    calls = max(call.calls for call in view.calls.values())
    return "" if (view.status, calls) == ("complete", 1) else f"{name}: {view.status}, {calls} calls: {view.why}"

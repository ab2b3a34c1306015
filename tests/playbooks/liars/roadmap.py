"""Agents of `roadmap`: what they do and answer is drawn, or honest."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

from benchmarks import lies
from benchmarks.lies import FIXED, FOUND, LIB, REGRESSED, TEST, Case, Project, Told
from interlock.agents import answers
from interlock.agents.values import Ask, Exit
from interlock.engine.simulation import Act, Clean, Files
from interlock.engine.view import View
from interlock.engine.world import Toolbox
from interlock.playbooks.roadmap import ROADMAP
from interlock.playbooks.roadmap.playbook import Settings
from tests.playbooks.roads import FILE, item

ROAD = json.dumps([item(1, verification=["make test"], acceptanceCriteria=["it works"])]).encode()


class Hostile(lies.Hostile):
    """Everybody wants the item done, whatever it is."""

    def act(self, agent: str, files: Files, brief: str) -> Act:
        chance = self.draw.random
        if agent == "Implement":
            form = {"status": "success", "evidence": {"verification": [{"command": "make test", "exit": 0}]}}
            so = {"already_so": "it is so"} if chance() < 0.2 else {}
            return Act(lies.tricked(self.draw, files), self.says({**form, **so}))
        build = {"build": "skipped"} if chance() < 0.1 else {}
        form = {
            "status": "success" if chance() < 0.95 else "needs_revision",
            "verdict": "pass" if chance() < 0.95 else "fail",
            "evidence": {
                "verification": lies.claimed(self.draw),
                "tests": {"passed": 9, "failed": int(chance() < 0.1)},
                "checks": {**WORDS, **build},
            },
            "criteria": [{"criterion": "it works", "met": chance() < 0.9}] if chance() < 0.5 else [],
            "issues": ["it is bad"] if chance() < 0.2 else [],
            "nothing_to_run": "it is obvious" if chance() < 0.3 else "",
            "weakened": lies.excused(self.draw),
        }
        return Act({TEST: b"mine\n"} if chance() < 0.2 else {}, self.says(form))


PASS = {"status": "success", "verdict": "pass"}
GREEN = [{"command": "make test", "exit": 0, "summary": "2 passed"}]
EXPECTED = {"command": "./verify.sh", "exit": 1, "expected": True}
WORDS = dict.fromkeys(("lint", "typecheck", "build", "quality"), "pass")
SEEN = {**PASS, "evidence": {"verification": GREEN, "checks": WORDS}}
TESTED: Mapping[str, dict[str, Any]] = {
    "plain": {**PASS, "evidence": {"verification": GREEN, "tests": {"passed": 2, "failed": 0, "failures": []}}},
    "no counts": {**PASS, "evidence": {"verification": GREEN}},
    "an expected red": {**PASS, "evidence": {"verification": [*GREEN, EXPECTED]}},
    "with criteria": {**SEEN, "criteria": [{"criterion": "it works", "met": True, "by": "test fix"}]},
    "extra keys": {**PASS, "confidence": 0.9, "evidence": {"verification": GREEN, "coverage": 80}, "learnings": ["x"]},
}
REVIEWED: Mapping[str, dict[str, Any]] = {
    "plain": SEEN,
    "nothing to run": {**PASS, "evidence": {"checks": WORDS}, "nothing_to_run": "there is no linter here"},
    "notes": {**SEEN, "issues": ["a shorter name?", {"text": "taste"}]},
    "build is absent": {**PASS, "evidence": {"verification": GREEN, "checks": {**WORDS, "build": "skipped"}}},
    "says why a test is right": {**SEEN, "weakened": [{"path": TEST, "why": "the criterion asks for it"}]},
}
NOTED = {"files": [{"path": LIB, "change": "modified", "note": "f"}]}
BUILT: tuple[tuple[Mapping[str, bytes | None], str], ...] = (
    ({LIB: FIXED}, answers.said({"status": "success", "evidence": NOTED})),
    ({LIB: FIXED}, "**Status:** success\n**Evidence:** lib.py\n**Learnings:** -\n**Next steps:** test"),
    ({LIB: FIXED, "tests/test_new.py": b"new\n"}, answers.said({"status": "success"})),
)
FAILED = {"tests": {"passed": 1, "failed": 1, "failures": [{"name": "other", "message": "broken"}]}}


class Honest(Clean):
    def __init__(self, seed: int, late: bool) -> None:
        self.built, self.late = BUILT[seed % 3], late
        tested, reviewed = list(TESTED)[seed % 5], list(REVIEWED)[seed // 5 % 5]
        self.names = tested, reviewed
        self.forms = {"Testing": TESTED[tested], "Review": REVIEWED[reviewed]}

    def agent(self, ask: Ask, key: str, files: Files) -> Act:
        name, forms = ask.role.name, self.forms
        if self.late and "/attempt-1/" in key:
            if name == "Implement":
                return Act({LIB: REGRESSED}, self.said({"status": "success"}))
            refused = {"status": "success", "verdict": "fail", "evidence": FAILED}
            forms = {"Testing": refused, "Review": REVIEWED["nothing to run"]}
        files, text = self.built if name == "Implement" else ({}, f"I looked.\n\n{answers.said(forms[name])}\nYours\n")
        return Act(files, Exit(finished=True, exit=0, text=text))


def played(cast: Any, files: Files, **settings: Any) -> tuple[Project, View]:
    cast.world = world = Project({**files, FILE: ROAD}, cast=cast, toolbox=Toolbox([FOUND]), branch="main")
    return world, lies.played(ROADMAP, world, ROADMAP.inputs(), Settings(**settings))


def shows(world: Project, view: View, start: Files, verify: str) -> str:
    """What a command, or a judge's own words, show against an item that is done."""
    lines = (FOUND.line,) if verify == "engine" else ()
    for agent in ("Testing", "Review"):
        report = [call.report for call in view.calls.values() if call.agent == agent][-1]
        if report is None or report.form is None:
            return f"{agent} has not judged"
        form, evidence = report.form, report.form["evidence"]
        if (form["status"], form["verdict"]) != ("success", "pass"):
            return f"{agent} did not pass it"
        if evidence.get("tests", {}).get("failed") or not all(one["met"] for one in form["criteria"]):
            return f"{agent} says otherwise itself"
        if why := lies.otherwise(evidence["verification"], *world.sight(report, agent)):
            return f"{agent}: {why}"
        case = Case(lines, start, *lies.landed(world, view)[-1], False, lies.explained(view, form))
        if why := lies.against(case)[0]:
            return f"{agent}: {why}"
    return ""


def hostile(seed: int) -> Told:
    draw = random.Random(seed)
    verify, absent = draw.choice(("agents", "engine")), ["build"] if draw.random() < 0.5 else []
    start = {**lies.FILES, LIB: FIXED} if draw.random() < 0.15 else lies.FILES
    world, view = played(Hostile(draw), start, verify=verify, absent_checks=absent)
    done = json.loads(world.files[FILE])[0]["status"] == "done"
    wrong = shows(world, view, start, verify) if done else ""
    return Told(view.status.value, wrong=wrong if done is (view.status == "complete") else "its file says otherwise")


def honest(seed: int) -> str:
    cast = Honest(seed, late=seed % 4 == 3)
    _, view = played(cast, lies.FILES, verify=("agents", "engine")[seed % 2], absent_checks=["build"])
    calls = max(call.calls for call in view.calls.values())
    return "" if (view.status, calls) == ("complete", 1) else f"{cast.names}: {view.status}, {calls} calls: {view.why}"

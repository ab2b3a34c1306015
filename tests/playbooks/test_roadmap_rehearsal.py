"""`roadmap`, rehearsed: every path holds, each rule can fail, liars are not believed, a death changes nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from benchmarks import lies
from benchmarks.lies import FIXED, FOUND, LIB, LINES, MAKE, REGRESSED, TEST, Project
from interlock.agents import answers as agents
from interlock.agents.values import Ask, Exit
from interlock.engine.holds import broken
from interlock.engine.playbook import Playbook
from interlock.engine.playing import Player
from interlock.engine.prompts import Prompts
from interlock.engine.rehearsal import explore
from interlock.engine.run import Outcome, Run
from interlock.engine.simulation import Act, Clean, Files, begin, drive
from interlock.engine.stage import EACH
from interlock.engine.world import Toolbox
from interlock.errors import Status
from interlock.playbooks.roadmap import ROADMAP, decisions, playbook
from interlock.playbooks.roadmap.decisions import PIPELINES, Step
from interlock.playbooks.roadmap.documents import Complexity
from interlock.playbooks.roadmap.playbook import Inputs, Settings
from tests.engine.bench import SAMPLED, cut_off_anywhere, wrong
from tests.playbooks.broken import Copy, swap
from tests.playbooks.roads import FILE, Road, built, done, drift, item, output, ran_tests


def world(*items: dict[str, Any], **settings: Any) -> Playbook:
    files = {FILE: json.dumps(items)}
    return replace(ROADMAP, files=files, settings=partial(Settings, **settings))  # type: ignore[arg-type]


WHY = [{"attempt": 1, "source": "Review", "reason": "why"}]
WORLDS: dict[str, tuple[Playbook, dict[str, Any]]] = {
    "medium, run by the engine, committed": (world(item(complexity="medium"), verify="engine"), {"commit": True}),
    "in progress, the last try": (
        world(item(1, retryCount=2, blockedReasons=WHY, status="in_progress"), item(2), fail_fast=True),
        {},
    ),
}


@SAMPLED
@pytest.mark.req("PROOF-01", "RUN-03", "RUN-10", "EVID-10", "RM-12", "RM-31", "RM-62", "RM-65")
def test_every_path_with_one_deviation_holds(sample: int) -> None:
    paths = list(explore(ROADMAP, Inputs(), sample=sample))  # type: ignore[call-arg]
    assert wrong(paths) == []
    assert sample or len(paths) > 500


@SAMPLED
@pytest.mark.req("PROOF-01", "RM-100", "RM-98")
@pytest.mark.parametrize("name", WORLDS)
def test_every_path_holds_with_other_roadmaps(name: str, sample: int) -> None:
    road, asked = WORLDS[name]
    paths = explore(road, Inputs.model_validate(asked), sample=sample)
    assert wrong(paths) == []


@pytest.mark.long
@pytest.mark.req("PROOF-03")
def test_two_deviations_hold_in_a_sample() -> None:
    paths = explore(ROADMAP, Inputs(), deviations=2, sample=2000, seed=1)  # type: ignore[call-arg]
    assert wrong(paths) == []


async def _asks(run: Run, inputs: Any) -> Outcome:
    await run.gate("go", "Shall I?")
    return await playbook.roadmap(run, inputs)


async def _believes(work: Any, step: Step) -> None:
    await playbook.ask(work, step)


FAILS = f"verdict=fail{EACH}"
MIXED = (Step.IMPLEMENT, Step.REVIEW, Step.TESTING)
SIMPLE = item(1)
ORDERED, FIX, JUDGED, UNASKED = ROADMAP.invariants
COPIES = {
    "reviews first": Copy(ORDERED, "", swap(decisions, "PIPELINES", {Complexity.SIMPLE: MIXED}), world(SIMPLE)),
    "does all of it again": Copy(FIX, FAILS, swap(decisions, "RETRIES", PIPELINES), ROADMAP),
    "hears no judge": Copy(JUDGED, FAILS, swap(playbook, "judge", _believes), ROADMAP),
    "asks": Copy(UNASKED, "", playbook=replace(ROADMAP, play=_asks)),
}


@pytest.mark.req("PROOF-03")
@pytest.mark.parametrize("name", COPIES)
def test_a_broken_copy_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = COPIES[name]
    copy.patch(monkeypatch)
    paths = explore(copy.playbook, Inputs(), only=lambda one: one == copy.by)  # type: ignore[call-arg]
    assert any(why.startswith(copy.rule) for path in paths for why in broken(path))


def test_every_rule_of_its_own_has_a_copy_that_breaks_it() -> None:
    assert {copy.rule for copy in COPIES.values()} == set(ROADMAP.invariants)


@pytest.mark.long
@pytest.mark.req("RUN-03", "RUN-05", "RM-17", "RM-63", "RM-75", "RM-102")
def test_a_process_that_dies_at_any_line_changes_nothing() -> None:
    """Two items, a drift, red tests, a conflict: the same files, the same words, nobody called twice."""

    by_key: dict[str, Act] = {
        "item-1/attempt-1/implement": built("worked on by: 1\n"),
        "item-1/attempt-1/validation": drift("elsewhere"),
        "item-1/attempt-2/implement": built("worked on by: 2\n"),
        "item-1/attempt-2/testing": ran_tests("fail", "test_a: boom"),
        "item-1/attempt-3/implement": built("worked on by: 3\n"),
    }

    def make() -> Road:
        road = Road(done(1), item(2, "complex"), item(3), verify="engine")
        road.usual = lambda ask, key, files: by_key.get(key.rpartition("/")[0]) or Clean().agent(ask, key, files)
        return road

    count = 0
    for line, usual, again in cut_off_anywhere(make):
        assert isinstance(again, Road)
        assert again.world.files == usual.world.files, line
        assert output(again, again.last.view) == output(usual, usual.last.view), line
        count += 1
    assert count > 100


# --- liars


class Hostile(lies.Hostile):
    """Everybody wants the item done, whatever it is."""

    def turn(self, agent: str, files: Files, brief: str = "") -> Act:
        if agent == "Implement":
            act = self._builder(files)
            form = {"status": "success", "evidence": {"verification": [{"command": "make test", "exit": 0}]}}
            return Act(act.files, self._says({**form, "already_so": "it is so"} if self.draw.random() < 0.2 else form))
        chance, some = self.draw.random, self.draw.sample
        ran = [
            {"command": line, "exit": int(chance() < 0.15), "expected": chance() < 0.3, "summary": "ran it"}
            for line in some(LINES, self.draw.randint(0, 3))
        ]
        tests = {"passed": 9, "failed": int(chance() < 0.1)}
        checks = dict.fromkeys(("lint", "typecheck", "build", "quality"), "pass") | (
            {"build": "skipped"} if chance() < 0.1 else {}
        )
        form = {
            "status": "success" if chance() < 0.95 else "needs_revision",
            "verdict": "pass" if chance() < 0.95 else "fail",
            "evidence": {"verification": ran, "tests": tests, "checks": checks},
            "criteria": [{"criterion": "it works", "met": chance() < 0.9}] if chance() < 0.5 else [],
            "issues": ["it is bad"] if chance() < 0.2 else [],
            "nothing_to_run": "it is obvious" if chance() < 0.3 else "",
            "weakened": [{"path": path, "why": "right so"} for path in (TEST, MAKE, lies.HOOK) if chance() < 0.3],
        }
        return Act({TEST: b"mine\n"} if chance() < 0.2 else {}, self._says(form))


ROADS = [item(1, verification=["make test"], acceptanceCriteria=["it works"])]


def played(cast: Any, files: Files, **settings: Any) -> tuple[Project, Player]:
    road = world(*ROADS)
    text = json.dumps(ROADS).encode()
    cast.world = project = Project({**files, FILE: text}, cast=cast, toolbox=Toolbox([FOUND]), branch="main")
    player = Player(road, project, Prompts(road.prompts), settings=Settings.model_validate(settings))
    begin(player, Inputs())  # type: ignore[call-arg]
    drive(player.play())
    return project, player


def shows(project: Project, player: Player, settings: Mapping[str, Any]) -> str:
    """What a command shows against an item that is done."""
    view = player.view
    landed = [one for one in view.delivered if one.before and one.merged]
    after = project.trees[landed[-1].merged or lies.Tree("")] if landed else project.files
    if settings["verify"] == "engine" and not lies.run("make test", after).green:
        return "`make test` is red on what came into the tree"
    for agent in ("Testing", "Review"):
        report = [call.report for call in view.calls.values() if call.agent == agent][-1]
        if report is None or report.form is None:
            return f"{agent} has not judged"
        form, shown = report.form, project.trees[report.shown or lies.Tree("")]
        own = next(seat.files for name, seat in reversed(project.seats.items()) if name.startswith(agent))
        if (form["status"], form["verdict"]) != ("success", "pass"):
            return f"{agent} did not pass it"
        if form["evidence"].get("tests", {}).get("failed") or not all(one["met"] for one in form["criteria"]):
            return f"{agent} says otherwise itself"
        for one in form["evidence"]["verification"]:
            told = one["exit"] == 0
            if told not in (lies.run(one["command"], shown).green, lies.run(one["command"], own).green):
                return f"{agent}: `{one['command']}` runs otherwise"
            if not told and not one["expected"]:
                return f"{agent}: `{one['command']}` is red"
    return ""


def hostile(seed: int) -> tuple[bool, str]:
    """Whether the item was done, and what a command shows against it."""
    draw = random.Random(seed)
    settings = {"verify": draw.choice(("agents", "engine")), "absent_checks": ["build"] if draw.random() < 0.5 else []}
    project, player = played(
        Hostile(draw), {**lies.FILES, LIB: FIXED} if draw.random() < 0.15 else lies.FILES, **settings
    )
    is_done = json.loads(project.files[FILE])[0]["status"] == "done"
    assert is_done == (player.view.status is Status.COMPLETE)
    return is_done, shows(project, player, settings) if is_done else ""


PASS = {"status": "success", "verdict": "pass"}
GREEN = [{"command": "make test", "exit": 0, "summary": "2 passed"}]
WORDS = dict.fromkeys(("lint", "typecheck", "build", "quality"), "pass")
TESTED: dict[str, dict[str, Any]] = {
    "plain": {**PASS, "evidence": {"verification": GREEN, "tests": {"passed": 2, "failed": 0, "failures": []}}},
    "no counts": {**PASS, "evidence": {"verification": GREEN}},
    "an expected red": {
        **PASS,
        "evidence": {"verification": [*GREEN, {"command": "./verify.sh", "exit": 1, "expected": True}]},
    },
    "with criteria": {
        **PASS,
        "criteria": [{"criterion": "it works", "met": True, "by": "test fix"}],
        "evidence": {"verification": GREEN},
    },
    "extra keys": {**PASS, "confidence": 0.9, "evidence": {"verification": GREEN, "coverage": 80}, "learnings": ["x"]},
}
REVIEWED: dict[str, dict[str, Any]] = {
    "plain": {**PASS, "evidence": {"verification": GREEN, "checks": WORDS}},
    "nothing to run": {**PASS, "evidence": {"checks": WORDS}, "nothing_to_run": "there is no linter here"},
    "notes": {
        **PASS,
        "issues": ["a shorter name?", {"text": "taste"}],
        "evidence": {"verification": GREEN, "checks": WORDS},
    },
    "build is absent": {**PASS, "evidence": {"verification": GREEN, "checks": {**WORDS, "build": "skipped"}}},
    "says why a test is right": {
        **PASS,
        "evidence": {"verification": GREEN, "checks": WORDS},
        "weakened": [{"path": TEST, "why": "the criterion asks for it"}],
    },
}
BUILT: dict[str, tuple[Mapping[str, bytes | None], str]] = {
    "with a note for each file": (
        {LIB: FIXED},
        agents.said({"status": "success", "evidence": {"files": [{"path": LIB, "change": "modified", "note": "f"}]}}),
    ),
    "in four parts": (
        {LIB: FIXED},
        "**Status:** success\n**Evidence:** lib.py\n**Learnings:** -\n**Next steps:** test",
    ),
    "with a test": ({LIB: FIXED, "tests/test_new.py": b"new\n"}, agents.said({"status": "success"})),
}


class Honest(Clean):
    def __init__(self, seed: int, late: bool) -> None:
        self.built, self.late = list(BUILT.values())[seed % len(BUILT)], late
        forms = list(TESTED.values())[seed % len(TESTED)], list(REVIEWED.values())[seed // 5 % len(REVIEWED)]
        self.forms = dict(zip(("Testing", "Review"), forms, strict=True))

    def agent(self, ask: Ask, key: str, files: Files) -> Act:
        name, late = ask.role.name, self.late and "/attempt-1/" in key
        if name == "Implement":
            return (
                Act({LIB: REGRESSED}, self.said({"status": "success"}))
                if late
                else Act(self.built[0], _text(self.built[1]))
            )
        if late and name == "Review":
            return Act({}, self.said(REVIEWED["nothing to run"]))
        if late and name == "Testing":
            told = {"tests": {"passed": 1, "failed": 1, "failures": [{"name": "other", "message": "broken"}]}}
            return Act({}, self.said({"status": "success", "verdict": "fail", "evidence": told}))
        return Act({}, _text(f"I looked at it.\n\n{agents.said(self.forms[name])}\nYours\n"))


def _text(text: str) -> Exit:
    return Exit(finished=True, exit=0, text=text)


@pytest.mark.req("EVID-11", "EVID-03", "EVID-04", "RM-58", "RM-61")
@pytest.mark.parametrize("number", [75, pytest.param(200, marks=pytest.mark.long)])
def test_no_liar_is_believed_and_nobody_honest_is_refused(number: int) -> None:
    told = [hostile(seed) for seed in range(1, number + 1)]
    assert [(seed, why) for seed, (_, why) in enumerate(told, 1) if why] == []
    assert sum(is_done for is_done, _ in told) > 5, "who never accepts proves nothing"
    for seed in range(75):
        verify = ("agents", "engine")[seed % 2]
        _, player = played(Honest(seed, late=seed % 3 == 0), lies.FILES, verify=verify, absent_checks=["build"])
        assert player.view.status is Status.COMPLETE, (seed, player.view.why)
        assert player.view.calls["item-1/attempt-1/implement/Implement#1"].calls == 1
        assert all(call.calls == 1 for call in player.view.calls.values()), seed


@pytest.mark.req("EVID-11")
def test_the_figures_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playbook, "judge", _believes)
    assert any(why for _, why in map(hostile, range(60)))

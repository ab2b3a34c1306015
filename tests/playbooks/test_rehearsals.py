"""`harness`, `roadmap` and `router`, rehearsed: every path holds, each rule can fail, a death changes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from interlock.engine.holds import broken
from interlock.engine.playbook import Playbook
from interlock.engine.rehearsal import explore
from interlock.engine.run import Outcome, Run
from interlock.engine.simulation import Act, Clean
from interlock.engine.stage import EACH
from interlock.engine.view import View
from interlock.playbooks.harness import HARNESS
from interlock.playbooks.harness import playbook as harness
from interlock.playbooks.harness.stages import CONTRACTS, ORDER, Stage
from interlock.playbooks.roadmap import ROADMAP, decisions
from interlock.playbooks.roadmap import playbook as roadmap
from interlock.playbooks.roadmap.decisions import PIPELINES, Step
from interlock.playbooks.roadmap.playbook import Settings
from interlock.playbooks.router import ROUTER
from interlock.playbooks.router import playbook as router
from interlock.playbooks.router.decisions import Came
from interlock.playbooks.router.playbook import EXAMPLE
from tests.engine.bench import SAMPLED, cut_off_anywhere, said, wrong
from tests.playbooks.broken import Copy, swap
from tests.playbooks.harnesses import ID, TASK, Task, bad, reject
from tests.playbooks.roads import FILE, Road, built, done, drift, item, output, ran_tests
from tests.playbooks.test_router import HEADER, IMPLEMENT, Router

INPUTS: dict[str, dict[str, Any]] = {"harness": {"task": ID}, "router": {"request": "/implement 259 be brief"}}


def governed(text: str = TASK, *, asks: bool = True) -> Playbook:
    """With this task; its contracts may ask for nothing but that."""
    contracts = HARNESS.brings[CONTRACTS]
    contracts = contracts if asks else re.sub(r"required: .*", "required: [task_file]", contracts)
    return replace(HARNESS, files={f"harness/tasks/{ID}.md": text, CONTRACTS: contracts})


def road(*items: dict[str, Any], **settings: Any) -> Playbook:
    files = {FILE: json.dumps(items)}
    return replace(ROADMAP, files=files, settings=partial(Settings, **settings))  # type: ignore[arg-type]


def world(playbook: Playbook, name: str, *rows: str, long: bool = False, **asked: Any) -> Any:
    """A playbook, what it is asked, and the rows that hold on its paths."""
    marks = [pytest.mark.req(*rows), *([pytest.mark.long] if long else [])]
    inputs = playbook.inputs.model_validate({**INPUTS.get(playbook.name, {}), **asked})
    return pytest.param(playbook, inputs, id=f"{playbook.name}{name}", marks=marks)


AUTONOMOUS = governed(TASK.replace("- Task ID", "- Workflow Mode: autonomous\n- Task ID"))
WHY = [{"attempt": 1, "source": "Review", "reason": "why"}]
LAST_TRY = road(item(1, retryCount=2, blockedReasons=WHY, status="in_progress"), item(2), fail_fast=True)
TEXT = replace(ROUTER, files={**EXAMPLE, IMPLEMENT: HEADER.format("agent: lean-agent")})
WORLDS = [
    world(HARNESS, "", "HN-06", "HN-07", "HN-109"),
    world(replace(AUTONOMOUS, invariants={}), ", nobody asked", "HN-94", long=True),
    world(ROADMAP, "", "RM-12", "RM-31", "RM-62", "RM-65"),
    world(road(item(complexity="medium"), verify="engine"), ", run by the engine", "RM-100", commit=True),
    world(LAST_TRY, ", the last try", "RM-98"),
    world(ROUTER, ", json", "RT-56", "RT-75"),
    world(TEXT, ", text", "RT-56", "RT-75"),
]


@SAMPLED
@pytest.mark.req("PROOF-01", "RUN-03", "RUN-10", "EVID-10")
@pytest.mark.parametrize(("playbook", "inputs"), WORLDS)
def test_every_path_with_one_deviation_holds(playbook: Playbook, inputs: Any, sample: int) -> None:
    paths = list(explore(playbook, inputs, sample=sample))
    assert wrong(paths) == []
    assert len(paths) >= 60


@pytest.mark.long
@pytest.mark.req("PROOF-03")
@pytest.mark.parametrize("playbook", [HARNESS, ROADMAP, ROUTER], ids=lambda one: one.name)
def test_two_deviations_hold_in_a_sample(playbook: Playbook) -> None:
    inputs = playbook.inputs.model_validate(INPUTS.get(playbook.name, {}))
    assert wrong(explore(playbook, inputs, deviations=2, sample=2000, seed=1)) == []


# --- broken copies


def _skips(stage: Stage) -> Stage:
    return ORDER[ORDER.index(stage) + (2 if stage is Stage.SPECIFICATION else 1)]


async def _approves(house: Any, gate: str, *_: Any) -> bool:
    approvals = (*house.state.approvals, f"{gate}: nobody")
    await house.keep(house.state.at(house.state.stage, house.day, approvals=approvals), "nobody was asked")
    return True


async def _returns(house: Any, *_: Any, **__: Any) -> None:
    await house.keep(house.state.at(Stage.BUILD, house.day), "once more")


async def _believes(work: Any, step: Step) -> None:
    await roadmap.ask(work, step)


async def _vouches(run: Run, agent: str, report: Any) -> tuple[Came, str]:
    await run.deliver("answer", unjudged=True)
    return Came.COMPLETED, ""


def _asks(known: Playbook) -> Playbook:
    async def play(run: Run, inputs: Any) -> Outcome:
        await run.gate("go", "Shall I?")
        return await known.play(run, inputs)

    return replace(known, play=play)


async def _twice(run: Run, inputs: Any) -> Outcome:
    await router.router(run, inputs)
    return await router.router(run, inputs)


FAILS = f"verdict=fail{EACH}"
MIXED = {"simple": (Step.IMPLEMENT, Step.REVIEW, Step.TESTING)}
ORDERED, ASKED, BOUNDED = HARNESS.invariants
IN_ORDER, FIX, JUDGED, UNASKED = ROADMAP.invariants
ONE, VOUCHED, NOBODY = ROUTER.invariants
COPIES = {
    "skips a stage": Copy(ORDERED, "", swap(Stage, "next", property(_skips)), governed(asks=False)),
    "approves itself": Copy(ASKED, "", swap(harness, "ask", _approves), HARNESS),
    "returns for ever": Copy(BOUNDED, f"verdict=revise{EACH}", swap(harness, "negative", _returns), HARNESS),
    "reviews first": Copy(IN_ORDER, "", swap(decisions, "PIPELINES", MIXED), road(item(1))),
    "does all of it again": Copy(FIX, FAILS, swap(decisions, "RETRIES", PIPELINES), ROADMAP),
    "hears no judge": Copy(JUDGED, FAILS, swap(roadmap, "judge", _believes), ROADMAP),
    "asks for the roadmap": Copy(UNASKED, playbook=_asks(ROADMAP)),
    "calls another one": Copy(ONE, playbook=replace(ROUTER, play=_twice)),
    "believes who has failed": Copy(VOUCHED, "status=failed", swap(router, "_settled", _vouches), ROUTER),
    "asks where to": Copy(NOBODY, playbook=_asks(ROUTER)),
}


@pytest.mark.req("PROOF-03")
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.long] if one == "returns for ever" else []) for one in COPIES]
)
def test_a_broken_copy_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = COPIES[name]
    copy.patch(monkeypatch)
    inputs = copy.playbook.inputs.model_validate(INPUTS.get(copy.playbook.name, {}))
    paths = explore(copy.playbook, inputs, only=lambda one: one == copy.by)
    assert any(why.startswith(copy.rule) for path in paths for why in broken(path))


def test_every_rule_of_their_own_has_a_copy_that_breaks_it() -> None:
    copied = {(copy.playbook.name, copy.rule) for copy in COPIES.values()}
    assert copied == {(one.name, rule) for one in (HARNESS, ROADMAP, ROUTER) for rule in one.invariants}


# --- deaths


def a_task() -> Task:
    """A rejected plan, a negative QA, a rejected result."""

    class Again(Task):
        def start(self, **inputs: Any) -> View:
            return self.run(until="")

    task, seen = Again(), set[str]()
    decided = {"gate-build#1": reject("smaller"), "gate-complete#1": reject("nicer")}

    def person(gate: Any) -> Any:
        name = gate.key.rpartition("/")[2]
        first = not any(one.endswith(name) and one != gate.key for one in seen)
        seen.add(gate.key)
        task.cast.decisions = [decided[name] if first else {"choice": "approve"}]
        return type(task.cast).person(task.cast, gate)

    task.cast.person = person  # type: ignore[method-assign]
    usual = task.usual
    task.usual = lambda ask, key, files: bad(1) if key == "stage-8/QA/qa#1" else usual(ask, key, files)
    return task


def two_items() -> Road:
    """A drift, red tests, a retry to the last."""
    by_key: dict[str, Act] = {
        "item-1/attempt-1/implement": built("worked on by: 1\n"),
        "item-1/attempt-1/validation": drift("elsewhere"),
        "item-1/attempt-2/implement": built("worked on by: 2\n"),
        "item-1/attempt-2/testing": ran_tests("fail", "test_a: boom"),
        "item-1/attempt-3/implement": built("worked on by: 3\n"),
    }
    made = Road(done(1), item(2, "complex"), item(3), verify="engine")
    made.usual = lambda ask, key, files: by_key.get(key.rpartition("/")[0]) or Clean().agent(ask, key, files)
    return made


def a_delegation() -> Router:
    class Same(Router):
        def start(self, **inputs: Any) -> Any:
            return self.ask()

    made = Same({IMPLEMENT: HEADER.format("agent: implementer")})
    made.cast.acts["implementer"] = [said("Status: completed", {"done.txt": b"worked\n"})] * 9
    return made


def _left(bench: Any) -> tuple[Any, ...]:
    """What there is at the end, but for times."""
    chance = rb"20\d\d-\d\d-\d\d(T[\d:.]+Z)?|[0-9a-f]{64}|, \d+$"
    files = {path: re.sub(chance, b"", text, flags=re.MULTILINE) for path, text in bench.world.files.items()}
    view = bench.last.view
    told = output(bench, view) if isinstance(bench, Road) else bench.output(view) if isinstance(bench, Router) else ""
    return view.status, files, told


@pytest.mark.req("RUN-03", "RUN-05", "HN-76", "HN-112", "RM-17", "RM-63", "RM-75", "RM-102", "RT-30", "RT-28")
@pytest.mark.parametrize(
    ("make", "most"),
    [
        pytest.param(a_task, 200, marks=pytest.mark.long),
        pytest.param(two_items, 100, marks=pytest.mark.long),
        (a_delegation, 15),
    ],
)
def test_a_process_that_dies_at_any_line_changes_nothing(make: Callable[[], Any], most: int) -> None:
    """The same files and words, and nobody is called twice."""
    count = 0
    for line, usual, again in cut_off_anywhere(make):
        assert _left(again) == _left(usual), line
        count += 1
    assert count > most

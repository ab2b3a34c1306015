"""`harness`, rehearsed: every path holds, each rule can fail, a death changes nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from interlock.engine.holds import broken
from interlock.engine.playbook import Playbook
from interlock.engine.rehearsal import explore
from interlock.engine.stage import EACH, IDLE, MEETS, WRONG
from interlock.engine.view import View
from interlock.errors import Status
from interlock.playbooks.harness import HARNESS, playbook
from interlock.playbooks.harness.stages import CONTRACTS, ORDER, Stage
from tests.engine.bench import SAMPLED, cut_off_anywhere, wrong
from tests.playbooks.broken import Copy, swap
from tests.playbooks.harnesses import ID, TASK, Task, bad, reject

INPUTS = HARNESS.inputs.model_validate({"task": ID})
AUTONOMOUS = TASK.replace("- Task ID", "- Workflow Mode: autonomous\n- Task ID")


def world(text: str, *, asks: bool = True) -> Playbook:
    """With this task; its contracts may ask for nothing but that."""
    contracts = HARNESS.brings[CONTRACTS]
    contracts = contracts if asks else re.sub(r"required: .*", "required: [task_file]", contracts)
    return replace(HARNESS, files={f"harness/tasks/{ID}.md": text, CONTRACTS: contracts})


@SAMPLED
@pytest.mark.req("PROOF-01", "RUN-03", "RUN-10", "EVID-10", "HN-06", "HN-07", "HN-109")
def test_every_path_with_one_deviation_holds(sample: int) -> None:
    paths = list(explore(HARNESS, INPUTS, sample=sample))
    assert wrong(paths) == []
    assert sample or len(paths) > 600


@pytest.mark.long
@pytest.mark.req("PROOF-01", "HN-94")
def test_every_path_holds_where_nobody_is_asked() -> None:
    nobody = replace(world(AUTONOMOUS), invariants={})
    only = (WRONG, IDLE, MEETS, "red", f"red{EACH}")
    paths = explore(nobody, INPUTS, only=lambda name: "=" in name or name in only)
    assert wrong(paths) == []


@pytest.mark.long
@pytest.mark.req("PROOF-03")
def test_two_deviations_hold_in_a_sample() -> None:
    paths = explore(HARNESS, INPUTS, deviations=2, sample=2000, seed=1)
    assert wrong(paths) == []


def _skips(stage: Stage) -> Stage:
    return ORDER[ORDER.index(stage) + (2 if stage is Stage.SPECIFICATION else 1)]


async def _approves(house: Any, gate: str, *_: Any) -> None:
    approvals = (*house.state.approvals, f"{gate}: nobody")
    await house.keep(house.state.at(house.state.stage, house.day, approvals=approvals), "nobody was asked")


async def _returns(house: Any, *_: Any, **__: Any) -> None:
    await house.keep(house.state.at(Stage.BUILD, house.day), "once more")


ORDERED, ASKED, BOUNDED = HARNESS.invariants
COPIES = {
    "skips a stage": Copy(ORDERED, "", swap(Stage, "next", property(_skips)), world(TASK, asks=False)),
    "approves itself": Copy(ASKED, "", swap(playbook, "ask", _approves), HARNESS),
    "returns for ever": Copy(BOUNDED, f"verdict=revise{EACH}", swap(playbook, "negative", _returns), HARNESS),
}


@pytest.mark.req("PROOF-03")
@pytest.mark.parametrize(
    "name", ["skips a stage", "approves itself", pytest.param("returns for ever", marks=pytest.mark.long)]
)
def test_a_broken_copy_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = COPIES[name]
    copy.patch(monkeypatch)
    paths = explore(copy.playbook, INPUTS, only=lambda one: one == copy.by)
    assert any(why.startswith(copy.rule) for path in paths for why in broken(path))


def test_every_rule_of_its_own_has_a_copy_that_breaks_it() -> None:
    assert {copy.rule for copy in COPIES.values()} == set(HARNESS.invariants)


@pytest.mark.long
@pytest.mark.req("RUN-03", "RUN-05", "HN-76", "HN-112")
def test_a_process_that_dies_at_any_line_changes_nothing() -> None:
    """A rejected plan, a negative QA, a rejected result: the same documents, nobody called twice."""

    class Again(Task):
        def start(self, **inputs: Any) -> View:
            return self.run(until="")

    def make() -> Task:
        task = Again()
        decided = {"gate-build#1": reject("smaller"), "gate-complete#1": reject("nicer")}
        seen = set[str]()

        def person(gate: Any) -> Any:
            name = gate.key.rpartition("/")[2]
            turn = f"{name} {gate.key}"
            first = not any(one.startswith(name) and one != turn for one in seen)
            seen.add(turn)
            task.cast.decisions = [decided[name] if first else {"choice": "approve"}]
            return type(task.cast).person(task.cast, gate)

        task.cast.person = person  # type: ignore[method-assign]
        usual = task.usual
        task.usual = lambda ask, key, files: bad(1) if key == "stage-8/QA/qa#1" else usual(ask, key, files)
        return task

    count = 0
    for line, usual, again in cut_off_anywhere(make):
        assert _timeless(again) == _timeless(usual), line
        assert again.last.view.status is usual.last.view.status is Status.COMPLETE, line
        count += 1
    assert count > 200


def _timeless(task: Any) -> dict[str, bytes]:
    chance = rb"20\d\d-\d\d-\d\d(T[\d:.]+Z)?|[0-9a-f]{64}|, \d+$"
    return {path: re.sub(chance, b"", text, flags=re.MULTILINE) for path, text in task.world.files.items()}

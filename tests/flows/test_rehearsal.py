"""Any flow is rehearsed without further work, and each rule would be seen to break (OW-24)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.plan import play
from interlock.engine import Ending, Options
from interlock.flows import Flow, performing, read, rehearsal
from interlock.flows.performing import Performance
from interlock.flows.tree import Repeat
from interlock.playbooks.task import task
from interlock.testing import rehearse
from tests.proofs import long

FIX = read((Path(__file__).parent / "fix.yaml").read_text(encoding="utf-8"), "fix.yaml")
CHECKED = read(
    """
playbook: checked
summary: Work, a check that must pass, and a person who may let it through all the same.
key: once
agents:
  worker: {instructions: You work., writes: src/**}
steps:
  - agent: worker
    task: Work.
  - run: check
    command: make check
    must: pass
  - decide: after_check
    rows:
      - {check: passed, then: go on}
      - {check: failed, then: go on}
  - ask: ship
    question: Ship it?
    choices: {ship: it is shipped, wait: nothing happens, drop: it is dropped}
  - decide: what_now
    rows:
      - {ship: ship, then: end shipped}
      - {ship: wait, then: end waiting}
      - {ship: drop, then: end dropped}
  - {end: shipped, status: complete, words: Shipped.}
  - {end: waiting, status: stopped, words: Somebody waits.}
  - {end: dropped, status: stopped, words: Dropped.}
""",
    "checked.yaml",
)


CALLS = read(
    """
playbook: calls
summary: Another playbook, whose agents are not of this one.
key: once
steps:
  - call: task
    with: {request: Work., check: make check}
  - {end: done, status: complete, words: Done.}
""",
    "calls.yaml",
)


@pytest.mark.req("OW-20", "OW-24")
def test_a_flow_that_calls_another_playbook_is_rehearsed_too() -> None:
    """With the agents of both."""
    assert rehearse(rehearsal(CALLS, lambda _name: task), most=1) == []


@pytest.mark.req("OW-24")
@pytest.mark.parametrize("flow", [FIX, CHECKED], ids=lambda flow: flow.name)
@pytest.mark.parametrize("most", [1, *long(2)])
def test_every_rule_holds_on_every_path(flow: Flow, most: int) -> None:
    """Whatever agents, commands and people do; and every step and ending is reached."""
    assert rehearse(rehearsal(flow), most=most) == []


@pytest.mark.req("OW-24")
def test_the_number_of_paths_and_of_calls_is_told() -> None:
    """The shortest path that completes, and the longest there is."""
    result = play(rehearsal(FIX), Options(), most=1)
    assert result.broken == []
    assert result.paths == sum(result.faults.values()) > 50
    assert result.fewest == 4
    assert result.most_calls == 10  # the plan, and three turns of a builder and two reviewers


@pytest.mark.req("OW-24")
def test_faults_happen_at_agents_commands_and_gates() -> None:
    """A command that fails or hangs, each verdict, each answer of a person."""
    seen = {name for played in rehearsal(CHECKED).paths(Options(), most=1) for name in played.schedule.values()}
    assert seen >= {"fails", "does not end", "is blocked", "wants a revision", "crash", "changes nothing"}
    assert seen >= {"answers with choice 2", "answers with choice 3"}
    assert "answers with choice 4" not in seen


def broken(flow: Flow) -> str:
    return "\n".join(rehearse(rehearsal(flow), most=1))


@pytest.mark.req("OW-24")
def test_a_repeat_that_never_ends_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Termination: a copy whose loop forgets to count is cut off, and the rule complains."""

    async def forever(self: Performance, step: Repeat) -> Any:
        while True:
            self.turns.append((step.name, 1))
            await self.steps(step.steps[:1])
            self.turns.pop()

    monkeypatch.setattr(Performance, "_repeat", forever)
    assert "every path comes to an end: no end after" in "\n".join(rehearse(rehearsal(FIX), most=0))


@pytest.mark.req("OW-24")
def test_a_turn_beyond_the_cap_is_noticed() -> None:
    """Caps: a copy that allows one turn more than is declared."""
    loose = replace(
        FIX, steps=tuple(replace(step, at_most=4) if isinstance(step, Repeat) else step for step in FIX.steps)
    )
    setup = replace(rehearsal(FIX), make=rehearsal(loose).make, unreached=lambda: ())
    assert "no repeat goes beyond its cap: turn 4 of revise" in "\n".join(rehearse(setup, most=1))


@pytest.mark.req("OW-24")
def test_a_gate_without_a_person_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that answers its own question."""
    gate = performing.Run.gate

    async def answered(self: Any, *args: Any, **more: Any) -> Any:
        return await gate(self, *args, **more, answered="ship")

    monkeypatch.setattr(performing.Run, "gate", answered)
    assert "no gate is passed without a person: nobody was asked at ship#1" in broken(CHECKED)


@pytest.mark.req("OW-24")
def test_completing_behind_a_failed_check_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that ends as its table says, without looking at what must pass."""
    end = Performance._end

    async def credulous(self: Performance, step: Any) -> Ending:
        self.checks.clear()
        return await end(self, step)

    monkeypatch.setattr(Performance, "_end", credulous)
    assert "nothing is complete behind what must pass and failed: complete, although check failed" in broken(CHECKED)


@pytest.mark.req("OW-24")
def test_a_step_that_no_path_comes_to_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy whose tables have only their first row."""
    monkeypatch.setattr(performing, "row_for", lambda _step, _found: 0)
    told = broken(CHECKED)
    assert "everything is reached: no path came to dropped" in told
    assert "no path came to shipped" not in told


@pytest.mark.req("OW-24")
def test_what_no_path_came_to_is_said_only_when_all_were_played() -> None:
    """Fewer faults than the flow wants reach fewer places: that is no complaint."""
    assert play(rehearsal(CHECKED), Options(), most=0).broken == []

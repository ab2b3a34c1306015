"""The verbs carry flows: a list of steps, read by forty lines, runs and is rehearsed like any other playbook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from interlock.documents.model import Model
from interlock.engine.forms import Judgement
from interlock.engine.holds import broken
from interlock.engine.outlook import outlook
from interlock.engine.playbook import Playbook
from interlock.engine.playing import Player
from interlock.engine.prompts import Prompts
from interlock.engine.rehearsal import explore
from interlock.engine.run import Call, Command, Outcome, Row, Run
from interlock.engine.simulation import Simulated, begin, drive
from interlock.engine.stage import COLLIDES
from interlock.engine.world import Toolbox


class Inputs(Model):
    request: str


@dataclass(frozen=True)
class Ask:
    """An agent does its part; a judge's word ends a loop or goes back into it."""

    row: Row


@dataclass(frozen=True)
class Check:
    command: str


@dataclass(frozen=True)
class Beside:
    """Agents side by side."""

    name: str
    rows: Sequence[Row]


@dataclass(frozen=True)
class Loop:
    name: str
    steps: Sequence[Any]


@dataclass(frozen=True)
class Gate:
    question: str


Step = Ask | Check | Beside | Loop | Gate


async def walk(run: Run, steps: Sequence[Step], said: str = "") -> str:
    """What speaks against the work; empty: nothing."""
    against = ""
    for step in steps:
        match step:
            case Ask(row):
                report = await run.dispatch(call(row, said))
                if report.reason == "conflict":
                    against = f"somebody else changed {', '.join(report.conflicts)}"
                elif report.ruling is not None and not report.ruling.passes:
                    against = "; ".join(report.ruling.against)
            case Check(command):
                proved = await run.prove([Command("check", command)])
                against = "".join(run.tail(one.after) for one in proved if one.after and not one.after.green)
                against = against or ("a conflict" if proved[0].after is None else "")
            case Beside(name, rows):
                calls = {row.agent: (lambda row=row: run.dispatch(call(row, said))) for row in rows}
                came = await run.together(name, calls)
                against = "; ".join(f"{name}: {one.reason}" for name, one in came.items() if not one.ok)
            case Loop(name, inner):
                async for _ in run.loop(name):
                    if not (against := await walk(run, inner, against or said)):
                        break
            case Gate(question):
                decided = await run.gate("ship", question)
                against = decided.note if decided.choice == "reject" else ""
        if against:
            return against
    return ""


def call(row: Row, said: str) -> Call:
    criteria = ("the request",) if row.judges else ()
    return Call(row, texts={"said": said}, criteria=criteria)


def flow(*steps: Step, rows: Sequence[Row], caps: Mapping[str, int]) -> Playbook:
    async def play(run: Run, inputs: Inputs) -> Outcome:
        if against := await walk(run, steps):
            return Outcome.stopped(against[:200])
        delivered = await run.deliver("end")
        return Outcome.complete("done") if delivered.state == "done" else Outcome.stopped(delivered.state)

    texts = {row.prompt: "Do your part. {{ said }}" for row in rows}
    return Playbook("flow", play, Inputs, rows, caps, lambda inputs: inputs.request, lambda *_: "flow", texts=texts)


PLANNER = Row("planner", "plan", outputs=("docs/plan.md",))
CODER = Row("coder", "code", writes=("src/**",))
TESTER = Row("tester", "test", writes=("checks/**", "src/**"))
CRITIC = Row("critic", "judge", Judgement, judges=True)
FLOW = flow(
    Ask(PLANNER),
    Loop("attempt", [Beside("build", (CODER, TESTER)), Check("make test"), Ask(CRITIC)]),
    Gate("Ship it?"),
    rows=(PLANNER, CODER, TESTER, CRITIC),
    caps={"attempt": 3},
)
INPUTS = Inputs(request="make it")


def test_a_flow_runs() -> None:
    world = Simulated(toolbox=Toolbox())
    player = Player(FLOW, world, Prompts(FLOW.prompts))
    begin(player, INPUTS)
    view = drive(player.play())
    assert view.why == "done"
    assert {"docs/plan.md", "src/coder.txt", "checks/tester.txt"} <= {*world.files}
    assert [call.agent for call in view.calls.values()] == ["planner", "coder", "tester", "critic"]


@pytest.mark.req("PROOF-01", "OWN-02")
def test_every_path_of_a_flow_holds() -> None:
    paths = list(explore(FLOW, INPUTS))
    assert [(dict(path.schedule), why) for path in paths if (why := broken(path))] == []
    assert {path.view.status.value for path in paths} == {"complete", "stopped", "cancelled"}
    collided = [path for path in paths if COLLIDES in path.schedule.values()]
    reports = [call.report for path in collided for call in path.view.calls.values() if call.report]
    assert "conflict" in {report.reason for report in reports}


@pytest.mark.long
@pytest.mark.req("PROOF-01", "OWN-02")
def test_two_deviations_of_a_flow_hold_in_a_sample() -> None:
    paths = explore(FLOW, INPUTS, deviations=2, sample=1000, seed=1)
    assert [(dict(path.schedule), why) for path in paths if (why := broken(path))] == []


def test_members_who_write_the_same_file_do_not_overwrite_each_other() -> None:
    """The later one has failed, and its work is kept."""
    both = replace(TESTER, writes=("src/coder.txt",))
    one = flow(Beside("build", (CODER, both)), rows=(CODER, both), caps={})
    (path, *_) = explore(one, INPUTS, deviations=0)
    assert path.view.why == "tester: conflict"
    assert path.view.calls["build/tester#1"].report.kept is not None  # type: ignore[union-attr]


def test_what_a_flow_takes() -> None:
    found = outlook(FLOW, INPUTS)
    assert (found.fewest, found.gates, found.documents) == (4, ("ship",), ("docs/plan.md",))

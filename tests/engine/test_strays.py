"""What dispatches side by side leave in nobody's scope, when the engine dies before their cluster ends."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from interlock.agents import AgentRequest
from interlock.contracts import Artifact, Contract
from interlock.engine import Act, Dispatch, Ending, Run, SimulatedWorld, Simulation, best, playbook
from interlock.engine.simulation import Crash
from tests.crash.process import Inputs


def work(name: str) -> Dispatch:
    return Dispatch("worker", f"Work as {name}.", Contract((Artifact(f"out/{name}.md"),)), member=name)


@playbook("pair", inputs=Inputs, key=lambda inputs: inputs.name)
async def pair(run: Run, inputs: Inputs) -> Ending:
    """Two dispatches side by side."""
    await run.cluster("", {name: partial(run.dispatch, work(name)) for name in ("a", "b")})
    return Ending.complete()


@playbook("busy", inputs=Inputs, key=lambda inputs: inputs.name)
async def busy(run: Run, inputs: Inputs) -> Ending:
    """A dispatch beside a build."""

    async def build() -> None:
        await run.command(["make"])

    await run.cluster("", {"a": partial(run.dispatch, work("a")), "build": build})
    return Ending.complete()


def straying(request: AgentRequest, *, slow: str = "b") -> Act:
    """Agent a is done first and leaves a file that nobody may write."""
    act = replace(best(request), seconds=5.0 if request.member == slow else 1.0)
    return replace(act, files={**act.files, "stray.txt": "left by a"}) if request.member == "a" else act


def died_in_b(world: SimulatedWorld) -> Simulation:
    """The engine dies when a has ended and b has done its work, but nothing is recorded of that."""

    def agent(request: AgentRequest) -> Act:
        return replace(straying(request), crash=request.member == "b")

    world.agent = agent
    simulation = Simulation(pair, Inputs(), world)
    with pytest.raises(Crash):
        simulation.go()
    world.agent = straying
    assert [line.key for line in simulation.lines if line.event == "dispatch.end"] == ["a#1"]
    return simulation


@pytest.mark.req("EN-37", "CM-22")
def test_a_crash_does_not_save_a_stray() -> None:
    """The file is undone when the cluster ends, as it is without a crash; its patch is kept."""
    world = SimulatedWorld({"mine.txt": "a person's"})
    simulation = died_in_b(world)
    assert "stray.txt" in world.tree.files
    assert simulation.go().exit_code == 0
    assert set(world.tree.files) == {"mine.txt", "out/a.md", "out/b.md"}
    (cleaned,) = [line.data for line in simulation.lines if line.event == "scope.cleaned"]
    assert cleaned["paths"] == ["stray.txt"]


@pytest.mark.req("EN-13")
def test_what_a_person_did_since_the_crash_stays() -> None:
    """A stray that a person took up, and a file of their own, are not undone."""
    world = SimulatedWorld({"mine.txt": "a person's"})
    simulation = died_in_b(world)
    world.tree.put("stray.txt", b"taken up by a person")
    world.tree.put("mine.txt", b"edited")
    assert simulation.go().exit_code == 0
    assert world.tree.files["stray.txt"] == b"taken up by a person"
    assert world.tree.files["mine.txt"] == b"edited"


def test_what_a_command_made_beside_a_dispatch_stays() -> None:
    """Where a build ran in the tree meanwhile, nothing is undone in its name."""
    world = SimulatedWorld({})
    simulation = Simulation(busy, Inputs(), world)
    world.agent = partial(straying, slow="a")
    assert simulation.go().exit_code == 0
    assert "stray.txt" in world.tree.files

"""What becomes of a call that its engine did not live to record: nothing is paid twice, nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.agents import AgentRequest
from interlock.engine import Status
from interlock.engine.folder import known_runs
from interlock.engine.journal import Journal, MemoryMedium
from interlock.engine.keys import sha256
from interlock.engine.simulation import Crash
from interlock.testing import Act, SimulatedWorld, Simulation, best
from tests.conformance.harness import Death, Simulated
from tests.engine.test_people import command_runs
from tests.engine.toys import Work, producing, single

SPEC = replace(producing("made.md", timeout_s=600.0), writes=("src/**",))


@pytest.mark.req("LY-38", "CM-22")
@pytest.mark.parametrize("lost", ["dispatch.importing", "dispatch.end"])
def test_an_agent_that_had_ended_is_not_called_again(workspace: Path, lost: str) -> None:
    """Its launcher left its exit, its answer and its files are there: resume examines them."""
    agent = "cat > /dev/null; mkdir -p src; echo work > src/app.py; echo made > made.md; echo DONE: fine"
    dying = command_runs(workspace, single(SPEC), agent, tripwire=dies_before(workspace, lost))
    with pytest.raises(Crash):
        asyncio.run(dying.run(dying.setup.playbooks[0], Work()))
    wreck = command_runs(workspace, single(SPEC), "exit 9")
    finished = asyncio.run(wreck.resume("latest"))
    assert finished.status is Status.COMPLETE
    lines = known_runs(workspace)[-1].folder.lines()
    assert len([line for line in lines if line.event == "dispatch.start"]) == 1
    assert (workspace / "src" / "app.py").read_text() == "work\n"
    assert (workspace / "made.md").read_text() == "made\n"
    assert not list((workspace / ".interlock" / "layers").glob("toy-*"))


@pytest.mark.req("LY-38", "EN-35")
def test_what_a_call_did_outside_its_scope_is_not_forgotten_in_a_crash(workspace: Path) -> None:
    """It was journaled and taken out of the layer; then the engine died. Resume concludes from it what there is."""
    agent = "cat > /dev/null; echo mine > outside.txt; echo made > made.md; echo DONE: fine"
    dying = command_runs(workspace, single(SPEC), agent, tripwire=dies_before(workspace, "dispatch.importing"))
    with pytest.raises(Crash):
        asyncio.run(dying.run(dying.setup.playbooks[0], Work()))
    wreck = command_runs(workspace, single(SPEC), "exit 9")
    assert asyncio.run(wreck.resume("latest")).status is not Status.COMPLETE
    lines = known_runs(workspace)[-1].folder.lines()
    (said,) = [line.data["paths"] for line in lines if line.event == "scope.violation"]
    assert said == ["outside.txt"]
    end = next(line for line in lines if line.event == "dispatch.end")
    assert (end.data["outcome"], end.data["reason"]) == ("FAIL", "scope_violation")
    assert len([line for line in lines if line.event == "dispatch.start"]) == 1


def dies_before(root: Path, event: str) -> Callable[[str], None]:
    """The process dies when a line of this kind would be synced, and the line is lost."""

    def trip(point: str) -> None:
        if point != "before-sync":
            return
        journals = list(root.glob(".interlock/runs/*/journal.jsonl"))
        raw = journals[0].read_bytes() if journals else b"-"
        if f'"event":"{event}"'.encode() in raw.splitlines()[-1]:
            journals[0].write_bytes(raw[: raw.rfind(b"\n", 0, -1) + 1])
            raise Crash

    return trip


@pytest.mark.req("LY-15")
def test_a_call_that_was_cut_off_goes_on_with_its_session_in_its_layer() -> None:
    """The same session, the files as it left them, one attempt; the tree had nothing of it before."""
    requests: list[AgentRequest] = []

    def agent(request: AgentRequest) -> Act:
        requests.append(request)
        if len(requests) == 1:
            return Act({"src/half.py": "begun"}, session="s-1", crash=True)
        return replace(best(request), files={"made.md": "# made", "src/rest.py": "ended"})

    world = SimulatedWorld({}, agent)
    simulation = Simulation(single(SPEC), Work(), world)
    with pytest.raises(Crash):
        simulation.go()
    assert world.tree.files == {}
    assert simulation.go().status is Status.COMPLETE
    first, second = requests
    assert (first.resume, second.resume) == (None, "s-1")
    assert (first.attempt, second.attempt) == (1, 1)
    assert sorted(world.tree.files) == ["made.md", "src/half.py", "src/rest.py"]


@pytest.mark.req("LY-15")
def test_a_call_without_a_session_starts_anew_and_its_work_is_kept_as_a_patch() -> None:
    """Nobody knows what is half done in it: the second call finds the tree as it is."""
    calls = 0

    def agent(request: AgentRequest) -> Act:
        nonlocal calls
        calls += 1
        if calls == 1:
            return Act({"src/half.py": "begun"}, crash=True)
        return best(request)

    world = SimulatedWorld({}, agent)
    simulation = Simulation(single(SPEC), Work(), world)
    with pytest.raises(Crash):
        simulation.go()
    assert simulation.go().status is Status.COMPLETE
    assert sorted(world.tree.files) == ["made.md"]
    (line,) = [line for line in simulation.lines if line.event == "dispatch.recovered"]
    assert line.data["paths"] == ["src/half.py"]
    assert b"begun" in next(content for (_key, name), content in world.records.kept.items() if "interrupted" in name)


@pytest.mark.req("LY-17")
def test_a_run_of_before_layers_resumes_and_says_what_stayed_in_the_tree() -> None:
    """An unfinished call of such a run has no layer: the agent starts anew, and a warning names what to look at."""
    played = Simulated(single(SPEC), Work(), {"made.md": "half of it\n"})
    played.dies(Death("dispatch.start", lost=False))
    forget_layers(played)
    assert played.go().status is Status.COMPLETE
    (warning,) = played.events("warning")
    assert "still there" in warning.data["text"]


def forget_layers(played: Simulated) -> None:
    """Make the journal one that an older version wrote: its starts name no layer."""
    identity = played.world.records.identity
    assert identity is not None
    medium = MemoryMedium()
    given = {"run_id": played.lines[0].run, "genesis": sha256(identity), "clock": lambda: played.lines[0].ts}
    journal = Journal(medium, **given)
    for line in Journal(MemoryMedium(played.raw()), **given).lines:
        data = {name: value for name, value in line.data.items() if name not in ("layer", "resumes")}
        journal.append(line.event, key=line.key, agent=line.agent, attempt=line.attempt, digest=line.digest, data=data)
    played.overwrite(bytes(medium.content))
    played.world.tree.layers.clear()

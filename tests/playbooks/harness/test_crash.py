"""Killed anywhere, resumed: the same documents, and no agent that had finished is called again."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.agents import AgentExit, AgentRequest, MemoryOutput, Observer
from interlock.engine import CommandResult, Playbook
from interlock.engine.folder import known_runs
from interlock.engine.options import Options
from interlock.engine.playing import Finished
from interlock.engine.runs import Quiet, Runs
from interlock.engine.simulation import Crash
from interlock.playbooks.harness import HarnessInputs, harness
from interlock.playbooks.harness.settings import HarnessSettings
from interlock.playbooks.harness.stages import LIFECYCLE
from tests.acting import write_within
from tests.crash.process import InProcess, TestSetup, last_event
from tests.crash.test_cut import copied
from tests.playbooks.harness.conftest import GOOD, NEGATIVE, REPORT, RUN_STATE, TASK, Bench, agents, qa, writing

pytestmark = pytest.mark.long


def outcome(bench: Bench) -> dict[str, bytes]:
    return {path: text for path, text in bench.tree.items() if not path.startswith(".interlock/")}


def sweep(bench: Bench, agent: Callable[[], Any], every: int, **how: Any) -> int:
    """Die at every n-th point of a run, resume it, and hold it to the uninterrupted one; how many points there were."""
    bench.play(agent(), **how)
    expected, calls, state = outcome(bench), len(bench.called), bench.state.position
    points = 0

    def count(_point: str) -> None:
        nonlocal points
        points += 1

    bench.simulate(agent(), **how).go(tripwire=count)
    for spot in range(1, points + 1, every):
        simulation = bench.simulate(agent(), **how)
        passed = 0

        def tripwire(_point: str, spot: int = spot) -> None:
            nonlocal passed
            passed += 1
            if passed == spot:
                raise Crash

        with pytest.raises(Crash):
            simulation.go(tripwire=tripwire)
        simulation.go()
        assert bench.state.position == state
        assert outcome(bench) == expected
        assert len({request.dispatch for request in simulation.world.calls}) == calls
        assert len(simulation.world.calls) <= calls + 1
    return points


@pytest.mark.req("HN-82", "HN-109", "HN-112")
def test_every_cut_of_a_short_run_resumes_to_the_same_documents(bench: Bench) -> None:
    """From QA to its end, with one way back: at every line, before every sync, between every intent and effect."""
    bench.autonomous().play(flags={"until": "Build"})
    bench.files = outcome(bench)
    assert sweep(bench, lambda: agents(qa=steady(NEGATIVE, qa())), every=1) > 150


def test_a_cut_of_a_whole_run_resumes_to_the_same_documents(bench: Bench) -> None:
    """From the first read to the last approval: at every line, before every sync, between intent and effect."""
    assert sweep(bench, agents, every=1) > 400


@pytest.mark.req("EV-04", "HN-112")
def test_a_cut_beside_commands_that_interlock_runs_resumes_to_the_same_documents(bench: Bench) -> None:
    """From Build to its end, with a command that is red until Build has mended it."""
    bench.autonomous().play(flags={"until": "Implementation Planning"})
    bench.files = outcome(bench)

    def command(_call: Any) -> CommandResult:
        builds = {request.dispatch for request in bench.simulation.world.calls if request.agent == "build"}
        return CommandResult(int(len(builds) == 1), stdout="1 failed")

    how = {"check_commands": ("make test",), "command": command}
    assert sweep(bench, lambda: agents(qa=steady(qa(), qa() + "\n")), every=2, **how) > 150
    assert bench.called == ["build", "qa", "build", "qa"]


def steady(*texts: str) -> Any:
    """Writes by pass and not by call: a call that is repeated after a crash writes the same again."""
    return lambda request, act: writing(texts[request.attempt - 1])(request, act)


# -- on disk, where a killed write may or may not have happened


class Stages(InProcess):
    """A runner that writes what the stage asks for, at once."""

    async def call(self, request: AgentRequest, observe: Observer) -> AgentExit:
        self.calls.append(request.dispatch)
        assert request.contract is not None
        await write_within(request, {request.contract.artifacts[0].path: GOOD[request.agent]})
        return AgentExit(0, MemoryOutput(b"Status: completed"))


class Setup(TestSetup):
    def options(self, playbook: Playbook) -> Options:
        return Options(settings=HarnessSettings())


def run(root: Path, runner: Stages, tripwire: Callable[[str], None] = lambda _point: None) -> Finished:
    runs = Runs(root, Setup(root, runner, os.environ), Quiet(), environ={}, tripwire=tripwire)
    return asyncio.run(runs.run(harness, HarnessInputs(TASK)))


def masked(root: Path) -> list[tuple[str, ...]]:
    """What the documents say, but for times."""
    from interlock.playbooks.harness import run_report, run_state

    state = run_state.parse_text((root / RUN_STATE).read_text(), LIFECYCLE)
    report = run_report.parse_text((root / REPORT).read_text(), REPORT)
    history = [(*row[:4], *row[6:]) for row in report.rows[run_report.Log.HISTORY]]
    return [(state.stage, state.status, state.notes), *history]


def lose_last_line(root: Path) -> None:
    """As a power loss before the sync would: the effect is there, its record is not."""
    (known,) = known_runs(root)
    journal = known.folder.path / "journal.jsonl"
    raw = journal.read_bytes()
    journal.write_bytes(raw[: raw.rfind(b"\n", 0, -1) + 1])


@pytest.mark.req("EN-22", "HN-112")
def test_a_killed_write_is_not_taken_for_a_persons_edit(bench: Bench, tmp_path: Path) -> None:
    """Cut on disk at every point, with and without the record of a write: the same run goes on to the same end."""
    bench.autonomous().play(flags={"until": "Build"})
    start = tmp_path / "start"
    for path, text in outcome(bench).items():
        (start / path).parent.mkdir(parents=True, exist_ok=True)
        (start / path).write_bytes(text)
    root = tmp_path / "whole"
    shutil.copytree(start, root)
    copies: list[Path] = []

    def copy(point: str) -> None:
        place = tmp_path / f"cut-{len(copies)}-{point}"
        copied(root, place)
        if point == "before-sync" and last_event(root) == "write":
            lose_last_line(place)
        copies.append(place)

    assert run(root, Stages(), copy).status == "complete"
    expected = masked(root)
    assert len(copies) > 100
    for place in copies:
        ended = {
            line.key for known in known_runs(place) for line in known.folder.lines() if line.event == "dispatch.end"
        }
        runner = Stages()
        assert run(place, runner).status == "complete"
        assert masked(place) == expected
        assert not ended & set(runner.calls)
        assert len(known_runs(place)) == 1

"""The process is cut off at every point where it matters; whoever goes on ends with the same roadmap."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.agents import AgentExit, AgentNews, AgentRequest, MemoryOutput, Observer
from interlock.contracts import sample
from interlock.engine import Playbook
from interlock.engine.folder import known_runs
from interlock.engine.options import Options
from interlock.engine.runs import Quiet, Runs
from interlock.playbooks.roadmap import RoadmapInputs, roadmap
from interlock.playbooks.roadmap.settings import RoadmapSettings
from interlock.testing import Act, Crash, dying_at
from tests.acting import write_within
from tests.crash.process import InProcess, TestSetup, documents
from tests.crash.test_cut import copied

from .conftest import FILE, TESTS_FAIL, Bench, good, item, spelled, with_data

pytestmark = pytest.mark.long

# -- in memory: a long run, cut everywhere


def long_bench() -> Bench:
    """A complex item that is retried, then a simple one that is blocked."""
    bench = Bench([item(7, complexity="complex", notes="kept"), item(8, priority=2)])
    bench.reactions = {"testing": failing_at_times, "implement": writing_a_file}
    return bench


def failing_at_times(request: Any) -> Act:
    fails = request.dispatch.startswith(("item-1/attempt-1", "item-2"))
    return with_data(request, **TESTS_FAIL) if fails else good(request)


def writing_a_file(request: Any) -> Act:
    return replace(good(request), files={f"src/{request.dispatch.split('/')[0]}.ts": request.dispatch})


def points(bench: Bench) -> int:
    count = 0

    def trip(_point: str) -> None:
        nonlocal count
        count += 1

    bench.simulate().go(tripwire=trip)
    return count


@pytest.mark.req("CM-22", "CM-03", "RM-89", "RM-98", "EN-10", "RM-57")
def test_every_cut_of_a_long_run_ends_with_the_same_bytes() -> None:
    """Before and after every line and between every intent and its effect: same files, nothing paid twice."""
    whole = long_bench()
    close = whole.play()
    assert whole.simulation is not None
    expected = dict(whole.simulation.world.tree.files)
    total = points(long_bench())
    assert total > 150
    for number in range(total):
        bench = long_bench()
        simulation = bench.simulate()
        with pytest.raises(Crash):
            simulation.go(tripwire=dying_at(number + 1))
        resumed = simulation.go()
        assert (resumed.status, resumed.reason) == (close.status, close.reason), number
        assert simulation.world.tree.files == expected, number
        ended = Counter(line.key for line in simulation.lines if line.event == "dispatch.end")
        assert max(ended.values()) == 1
        calls = Counter(request.dispatch for request in simulation.world.calls)
        assert sum(calls.values()) - len(calls) <= 1, "more than the interrupted call was repeated"
        briefs: dict[str, str] = {}
        for request in simulation.world.calls:
            assert briefs.setdefault(request.dispatch, request.brief) == request.brief


# -- on disk: a short run, with a copy of the workspace at every point


class Judging(InProcess):
    """A runner that says the best at once; Testing fails the first time. It counts its calls."""

    async def call(self, request: AgentRequest, observe: Observer) -> AgentExit:
        self.calls.append(request.dispatch)
        observe(AgentNews("started", {"pid": 1, "pgid": 1}))
        assert request.contract is not None
        said = sample(request.contract.answer)
        if request.dispatch.startswith("item-1/attempt-1/testing"):
            said = said.replace('"verdict": "pass"', '"verdict": "fail"')
        if request.step == "implement":
            await write_within(request, {"made.txt": f"{request.dispatch}\n"})
        return AgentExit(0, MemoryOutput(said.encode()))


class Setup(TestSetup):
    def options(self, playbook: Playbook) -> Options:
        return Options(settings=RoadmapSettings())


def runs(root: Path, runner: Judging, tripwire: Any = lambda _point: None) -> Runs:
    return Runs(root, Setup(root, runner, os.environ), Quiet(), environ={}, tripwire=tripwire)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """One uninterrupted run, with a copy of the whole workspace taken at every point."""
    base = tmp_path_factory.mktemp("recording")
    root = base / "workspace"
    root.mkdir()
    (root / FILE).write_text(spelled([item(7, notes="kept")]))
    copies: list[Path] = []

    def copy(_point: str) -> None:
        place = base / f"{len(copies):04d}"
        copied(root, place)
        copies.append(place)

    finished = asyncio.run(runs(root, Judging(), copy).run(roadmap, RoadmapInputs()))
    assert finished.exit_code == 0
    return root, copies


@pytest.mark.req("CM-22", "RM-89", "EN-10", "EN-13", "EN-14")
@pytest.mark.parametrize("part", range(4))
def test_every_cut_on_disk_resumes_to_the_same_roadmap(recording: tuple[Path, list[Path]], part: int) -> None:
    """The roadmap is never half, no finished dispatch is repeated, and the end is that of an uninterrupted run."""
    expected, copies = recording
    assert len(copies) > 60
    for place in copies[part::4]:
        json.loads((place / FILE).read_text())
        ended = {
            line.key for known in known_runs(place) for line in known.folder.lines() if line.event == "dispatch.end"
        }
        runner = Judging()
        finished = asyncio.run(runs(place, runner).run(roadmap, RoadmapInputs()))
        assert finished.exit_code == 0
        assert documents(place) == documents(expected)
        assert not ended & set(runner.calls), "a dispatch with a recorded end ran again"
        (known,) = known_runs(place)
        assert known.folder.verify() == []

"""The roadmap rehearsed: every combination of at most two faults, a sample of three; its invariants notice."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from interlock.agents.runner import AgentRequest
from interlock.engine import CRASH, Act, Options, Played, Status, best
from interlock.engine.simulation import Crash
from interlock.playbooks.roadmap import rehearsal
from interlock.playbooks.roadmap.rehearsing import DEVIATIONS
from interlock.settings.models import RoadmapSettings

from .conftest import FILE

OPTIONS = Options(settings=RoadmapSettings())
BY_NAME = {one.name: one for one in (*DEVIATIONS, CRASH)}
SAMPLE = 120


def play(schedule: Mapping[int, str]) -> Played:
    """The run in which the call of each number deviates so, where the deviation fits that call."""

    def agent(request: AgentRequest) -> Act:
        deviation = BY_NAME.get(schedule.get(len(simulation.world.calls) - 1, ""))
        act = best(request)
        return deviation.act(request, act) if deviation is not None and deviation.fits(request) else act

    simulation = rehearsal().make(agent, OPTIONS)
    while True:
        with contextlib.suppress(Crash):
            return Played(schedule, simulation.go(), simulation)


@pytest.mark.req("RM-12", "RM-33", "RM-34", "RM-21", "RM-62", "RM-31", "CM-17", "CM-22")
def test_every_invariant_holds_on_every_path(capsys: pytest.CaptureFixture[str]) -> None:
    """All paths with at most two deviations end in a known way, and none breaks a rule."""
    setup, endings = rehearsal(), Counter[str]()
    began = time.process_time()
    for played in setup.paths(OPTIONS):
        assert setup.broken(played) == []
        assert "gate.opened" not in {line.event for line in played.simulation.lines}
        endings[played.close.status] += 1
    with capsys.disabled():
        print(f"\nroadmap: {endings.total()} paths with at most two faults, {time.process_time() - began:.1f} s of CPU")
    assert endings.total() > 1000
    assert set(endings) == {Status.COMPLETE, Status.STOPPED, Status.FAILED}


def test_a_sample_of_paths_with_three_faults(capsys: pytest.CaptureFixture[str]) -> None:
    """Drawn with a fixed seed: the same paths each time."""
    setup, chance = rehearsal(), random.Random(7)
    endings, began = Counter[str](), time.process_time()
    for _ in range(SAMPLE):
        played = play({call: chance.choice([*BY_NAME]) for call in chance.sample(range(14), 3)})
        assert setup.broken(played) == []
        endings[played.close.status] += 1
    with capsys.disabled():
        print(f"\nroadmap: {SAMPLE} paths with three faults, {time.process_time() - began:.1f} s of CPU")
    assert set(endings) == {Status.COMPLETE, Status.STOPPED, Status.FAILED}


@pytest.fixture(scope="module")
def clean() -> Callable[[], Played]:
    def play() -> Played:
        (played,) = rehearsal().paths(OPTIONS, most=0)
        return played

    return play


def found(played: Played) -> set[str]:
    return {problem.split(":")[0] for problem in rehearsal().broken(played)}


def rewritten(played: Played, change: Callable[[list[dict[str, Any]]], Any]) -> Played:
    """As a playbook would leave the file that changes it so."""
    items = json.loads(played.simulation.world.tree.files[FILE])
    change(items)
    played.simulation.world.tree.put(FILE, json.dumps(items).encode())
    return played


def without(played: Played, keep: Callable[[Any], bool]) -> Played:
    played.simulation.lines = [line for line in played.simulation.lines if keep(line)]
    return played


def with_line(played: Played, event: str, **data: Any) -> Played:
    line = next(line for line in played.simulation.lines if line.event == event)
    played.simulation.lines.append(line._replace(data={**line.data, **data}, key=data.pop("key", line.key)))
    return played


def renamed(played: Played) -> Played:
    return rewritten(played, lambda items: items[0].update(title="Other"))


def unfinished(played: Played) -> Played:
    return rewritten(played, lambda items: items[1].update(status="ready", passes=False))


def unproven(played: Played) -> Played:
    return without(played, lambda line: not (line.event == "verdict" and line.data["source"] == "Review"))


def tireless(played: Played) -> Played:
    return rewritten(played, lambda items: items[0].update(retryCount=3))


def went_on(played: Played) -> Played:
    return rewritten(played, lambda items: items[0].update(status="blocked", passes=False))


def out_of_order(played: Played) -> Played:
    return with_line(played, "step", step="testing", key="item-1/attempt-9/testing/note#1")


def a_stranger(played: Played) -> Played:
    played.simulation.world.calls[0] = replace(played.simulation.world.calls[0], agent="Planner")
    return played


def a_poor_brief(played: Played) -> Played:
    played.simulation.world.calls[0] = replace(played.simulation.world.calls[0], brief="Do it.")
    return played


def reported_twice(played: Played) -> Played:
    played.simulation.said.append(played.simulation.said[0])
    return played


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (renamed, {"only state fields change"}),
        (unfinished, {"the token is printed when all items pass, and only then", "each iteration is reported once"}),
        (unproven, {"done means that every verdict passed in the last attempt"}),
        (
            tireless,
            {"no item has more than three attempts", "done means that every verdict passed in the last attempt"},
        ),
        (went_on, {"nothing follows a blocked item", "the token is printed when all items pass, and only then"}),
        (out_of_order, {"the steps keep their order"}),
        (a_stranger, {"only the five agents are called"}),
        (a_poor_brief, {"every brief has the item and the skills line"}),
        (reported_twice, {"each iteration is reported once"}),
    ],
)
def test_each_invariant_notices_when_it_is_broken(
    clean: Callable[[], Played], change: Callable[[Played], Played], expected: set[str]
) -> None:
    """An invariant that cannot fail proves nothing."""
    assert found(clean()) == set()
    assert found(change(clean())) == expected

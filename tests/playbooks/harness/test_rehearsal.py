"""The harness rehearsed: every combination of at most two faults, a sample with three, and invariants that notice."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from interlock.engine import Ending, Options, Played, best, explore
from interlock.playbooks.harness import harness, rehearsal, run_state
from interlock.playbooks.harness.run_report import report_path
from interlock.settings.models import HarnessSettings

OPTIONS = Options(settings=HarnessSettings())
REPORT = report_path("TASK-001")


SAMPLED = 0.015
"""Share of the paths with three faults that are played."""


@pytest.mark.req("HN-06", "HN-07", "HN-08", "HN-90", "HN-108", "HN-109")
def test_every_invariant_holds_on_every_path() -> None:
    """All combinations of at most two deviations, crashes of the engine included, and a seeded sample of three."""
    setup, chance = rehearsal(), random.Random(7)
    endings, faults = Counter[str](), Counter[int]()
    began = time.process_time()
    for played in explore(
        lambda agent: setup.make(agent, OPTIONS),
        setup.deviations,
        most=setup.most + 1,
        sample_of=lambda _schedule: chance.random() < SAMPLED,
    ):
        assert setup.broken(played) == []
        endings[played.close.status] += 1
        faults[len(played.schedule)] += 1
    seconds = time.process_time() - began
    print(f"\nharness: {endings.total()} paths in {seconds:.1f} s, by faults {dict(faults)}, {dict(endings)}")
    assert set(endings) == {"complete", "stopped", "failed"}
    assert faults[0] == 1
    assert faults[1] + faults[2] > 450
    assert faults[3] > 30


# -- invariants that notice


def broken_by(change: Callable[[Played], Played]) -> set[str]:
    setup = rehearsal()
    (clean,) = list(setup.paths(OPTIONS, most=0))
    return {problem.split(":")[0] for problem in setup.broken(change(clean))}


def put(path: str, change: Callable[[str], str]) -> Callable[[Played], Played]:
    def changed(played: Played) -> Played:
        tree = played.simulation.world.tree
        tree.put(path, change(tree.files[path].decode()).encode())
        return played

    return changed


def called_twice(played: Played) -> Played:
    played.simulation.world.calls.append(played.simulation.world.calls[-1])
    return played


def with_changed_line(played: Played) -> Played:
    content = played.simulation.medium.content
    content[content.index(b"TASK-001")] ^= 1
    return played


def without(event: str, **facts: Any) -> Callable[[Played], Played]:
    def cut(played: Played) -> Played:
        simulation = played.simulation
        simulation.lines = [
            line
            for line in simulation.lines
            if line.event != event or any(line.data.get(name) != value for name, value in facts.items())
        ]
        return played

    return cut


def called_for_another(played: Played) -> Played:
    calls = played.simulation.world.calls
    calls[1] = replace(calls[1], agent="build")
    return played


def skipped(played: Played) -> Played:
    del played.simulation.world.calls[1]
    return played


def judged_again(played: Played) -> Played:
    lines = played.simulation.lines
    lines += [line for line in lines if line.event == "qa.result"] * 3
    return played


STATES = "run-state and report can be read and agree"
SEQUENCE = "no stage is skipped, and only its own agent carries it out"
ASKED = "nothing is built or complete without a person's word"
EARNED = "complete means that the last QA was positive"
TWICE = "QA sends a task back at most twice"
PAID = "no dispatch is paid twice"
GOVERNED = "what governs the workflow stays as it was"
WHY = "whoever stops says why"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (put(run_state.PATH, lambda text: text.replace("Current position:", "Somewhere:")), {STATES}),
        (put(run_state.PATH, lambda text: text.replace("-COMPLETE", "-QA")), {STATES}),
        (put(REPORT, lambda text: text.replace("| po-spec |", "| me |")), {STATES}),
        (put(run_state.PATH, lambda text: text.replace("Stop Reason: None", "Stop Reason: x")), {STATES, WHY}),
        (
            put("harness/standards/task-lifecycle.md", lambda text: text + "x"),
            {"what governs the workflow stays as it was"},
        ),
        (called_twice, {PAID}),
        (with_changed_line, {"the chain is whole"}),
        (called_for_another, {SEQUENCE}),
        (skipped, {SEQUENCE}),
        (without("gate.decided", gate="approve-build"), {ASKED}),
        (without("gate.decided", gate="approve-complete"), {ASKED}),
        (without("qa.result"), {EARNED}),
        (judged_again, {TWICE}),
    ],
)
def test_each_invariant_notices_when_it_is_broken(change: Callable[[Played], Played], expected: set[str]) -> None:
    """An invariant that cannot fail proves nothing."""
    found = broken_by(change)
    assert expected <= found
    assert found <= expected | {WHY, STATES}


def test_a_playbook_that_breaks_the_rules_is_found_out() -> None:
    """A copy that calls the task complete without carrying it out breaks what a rehearsal holds it to."""
    setup = rehearsal()
    (clean,) = list(setup.paths(OPTIONS, most=0))
    files = clean.simulation.world.tree.files

    async def careless(run: Any, inputs: Any) -> Ending:
        for path in (run_state.PATH, REPORT):
            await run.write(path, files[path])
        return Ending.complete("done")

    simulation = setup.make(best, OPTIONS)
    simulation.playbook = replace(harness, function=careless)
    played = Played({}, simulation.go(), simulation)
    assert {problem.split(":")[0] for problem in setup.broken(played)} == {ASKED, EARNED}

"""A flow and the same process in Python are the same to the engine (OW-23)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.engine import Options, Status
from interlock.flows import compiled, read, rehearsal
from interlock.testing import Agent, Bench, Change, Played, Rehearsal, SimulatedWorld, Simulation, both, says, writes
from tests.flows import twin
from tests.proofs import long

FLOW = read((Path(__file__).parent / "fix.yaml").read_text(encoding="utf-8"), "fix.yaml")
IN_YAML, IN_PYTHON = compiled(FLOW), twin.FIX


def works(text: str) -> Change:
    return writes({"src/export.py": text})


def keys(bench: Bench) -> list[str | None]:
    return [line.key for line in bench.lines if line.settles]


def benches() -> tuple[Bench, Bench]:
    return Bench(IN_YAML), Bench(IN_PYTHON)


@pytest.mark.req("OW-23")
def test_the_good_path_has_the_same_keys() -> None:
    """Up to the gate, and behind it."""
    one, other = benches()
    for bench in (one, other):
        bench.on("builder", works("rows"))
        assert bench.play(bench.playbook.inputs("csv", "Write CSV.")).status is Status.WAITING
        bench.answer("approve")
        assert bench.resume().status is Status.COMPLETE
    assert keys(one) == keys(other)
    assert keys(one)[-1] == "revise-1/ship#1"
    assert one.output == other.output


@pytest.mark.req("OW-23")
def test_a_long_path_has_the_same_keys() -> None:
    """Reviewers that find something else each time, until the turns are used up."""
    one, other = benches()
    for bench in (one, other):
        bench.on("builder", *(works(f"{turn}") for turn in range(3)))
        finds = [
            both(writes({"docs/csv/review-security.md": f"Finding {turn}.\n"}), says("NEEDS_REVISION: not yet"))
            for turn in range(3)
        ]
        bench.on("security", *finds)
        finished = bench.play(bench.playbook.inputs("csv", "Write CSV."))
        assert (finished.status, finished.reason) == (Status.STOPPED, "no agreement within the cap")
    assert keys(one) == keys(other)
    assert "revise-3/after_review#1" in keys(one)


def in_python() -> Rehearsal:
    """The flow's own rehearsal, over the playbook in Python."""

    def make(agent: Agent, options: Options) -> Simulation:
        return Simulation(IN_PYTHON, twin.Issue("text", "text"), SimulatedWorld({}, agent), options=options)

    return replace(rehearsal(FLOW), make=make, unreached=lambda: ())


def told(played: Played) -> tuple[object, ...]:
    lines = [line.key for line in played.simulation.lines if line.settles]
    return tuple(played.schedule.items()), played.finished.status, tuple(lines)


@pytest.mark.req("OW-23", "OW-24")
@pytest.mark.parametrize("most", [1, *long(2)])
def test_the_rehearsals_are_the_same_path_by_path(most: int) -> None:
    """As many paths, and on each the same faults lead to the same end by the same keys."""
    one = [told(played) for played in rehearsal(FLOW).paths(Options(), most=most)]
    other = [told(played) for played in in_python().paths(Options(), most=most)]
    assert Counter(one) == Counter(other)
    assert len(one) > 50

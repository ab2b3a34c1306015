"""`task`, rehearsed: every path holds, and each rule can fail."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.engine.holds import HOLDS, broken
from interlock.engine.rehearsal import FILES, Make, explore, project, variants
from interlock.engine.run import Limits
from interlock.engine.simulation import WORK, Simulated
from interlock.engine.stage import Stage
from interlock.engine.world import Command, Toolbox
from interlock.playbooks.task import TASK
from tests.engine.bench import SAMPLED, wrong
from tests.playbooks.broken import COPIES, OWN, without_checks


def _inputs(**asked: Any) -> Any:
    return TASK.inputs.model_validate({"request": "Make it right", **asked})


def _green_before(stage: Stage) -> Simulated:
    world = project(stage)
    world.files["done.txt"] = world.head["done.txt"] = WORK + b"somebody\n"
    return world


def _two_checks(stage: Stage) -> Simulated:
    toolbox = Toolbox([Command("build", "make", "found"), Command("test", "make test", "found")])
    return Simulated(FILES, cast=stage, toolbox=toolbox)


@SAMPLED
@pytest.mark.req("PROOF-01", "RUN-03", "RUN-10", "EVID-10")
def test_every_path_with_one_deviation_holds(sample: int) -> None:
    """Of each variant of its inputs."""
    paths = [path for inputs in variants(TASK) for path in explore(TASK, inputs, sample=sample)]
    assert wrong(paths) == []
    assert sample or len(paths) > 1000


WORLDS: dict[str, tuple[Make, dict[str, Any], Limits]] = {
    "green before": (_green_before, {}, Limits()),
    "green before, without a reviewer": (_green_before, {"review": False}, Limits()),
    "without checks": (without_checks, {}, Limits()),
    "two checks, a person asked about weakened ones": (_two_checks, {}, Limits(weakened="ask")),
    "two checks, only named ones run again": (_two_checks, {"check": ["make"]}, Limits(replay="named")),
}


@SAMPLED
@pytest.mark.req("PROOF-01", "EVID-06", "EVID-07")
@pytest.mark.parametrize("world", WORLDS)
def test_every_path_holds_in_other_projects(world: str, sample: int) -> None:
    make, asked, limits = WORLDS[world]
    limits = limits.model_copy(update={"rate_limit_wait_s": 6 * 3600})
    paths = explore(TASK, _inputs(**asked), make=make, limits=limits, sample=sample)
    assert wrong(paths) == []


@pytest.mark.long
@pytest.mark.req("PROOF-03")
def test_two_deviations_hold_in_a_sample() -> None:
    paths = explore(TASK, _inputs(), deviations=2, sample=2000, seed=1)
    assert wrong(paths) == []


LENGTHY = ("loops for ever",)


@pytest.mark.req("PROOF-03")
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.long] if one in LENGTHY else []) for one in (*COPIES, *OWN)]
)
def test_a_broken_copy_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = {**COPIES, **OWN}[name]
    copy.patch(monkeypatch)
    paths = explore(copy.playbook, _inputs(**dict(copy.asked)), make=copy.make, only=lambda name: name == copy.by)
    assert any(why.startswith(copy.rule) for path in paths for why in broken(path))


def test_every_rule_has_a_copy_that_breaks_it() -> None:
    assert {copy.rule for copy in COPIES.values()} == set(HOLDS)
    assert {copy.rule for copy in OWN.values()} == set(TASK.invariants)

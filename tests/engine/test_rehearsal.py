"""Paths: what can go otherwise on a run, and that it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from interlock.engine.holds import broken
from interlock.engine.rehearsal import Path, explore
from interlock.engine.stage import BREAKS, CANCELS, COMMITS, DIES, EACH, FULL, LEAVES, MEANS_IT, MEETS, REFUSES, WEAKENS
from interlock.playbooks.task import TASK
from tests.engine.bench import SAMPLED, Nothing, wrong
from tests.engine.everything import EVERYTHING

pytestmark = pytest.mark.req("PROOF-01")


def _inputs(**asked: Any) -> Any:
    return TASK.inputs.model_validate({"request": "Make it right", **asked})


def _play(schedule: Mapping[str, str], **asked: Any) -> Path:
    return Path(TASK, _inputs(**asked), schedule).play()


@SAMPLED
@pytest.mark.req("OWN-02", "RUN-03")
def test_every_path_of_a_process_with_all_verbs_holds(sample: int) -> None:
    """Documents, gates, members side by side, answers in documents, git."""
    paths = list(explore(EVERYTHING, Nothing(), sample=sample))
    assert wrong(paths) == []
    assert {path.view.status.value for path in paths} <= {"complete", "stopped", "cancelled"}
    reports = [call.report for path in paths for call in path.view.calls.values() if call.report]
    assert sample or {"conflict", "crash", "scope"} <= {report.reason for report in reports}
    assert {"state.json", "docs/plan.md", "src/coder.txt", "checks/tester.txt"} <= {*paths[0].world.files}


@pytest.mark.long
def test_two_deviations_of_it_hold_in_a_sample() -> None:
    paths = explore(EVERYTHING, Nothing(), deviations=2, sample=1000, seed=1)
    assert wrong(paths) == []


def test_each_thing_that_could_have_happened_is_played_once() -> None:
    clean, *others = explore(TASK, _inputs())
    assert (clean.view.status.value, clean.view.why, clean.calls) == ("complete", "Accepted in round 1", 2)
    assert [dict(path.schedule) for path in others] == [{one: name} for one, name in clean.further()]
    assert len({tuple(path.schedule.items()) for path in others}) == len(others) > 100


BUILDER, GATE = "round-1/builder#1, call 1", "round-1/gate-accept#1, opening 1"
OFFERED: dict[str, set[str]] = {
    BUILDER: {"crashes", f"status=blocked{EACH}", "no JSON", "writes CLAUDE.md", MEANS_IT},
    "round-1/reviewer#1, call 1": {"is told a limit", "verdict=revise", "checks: one, result=red", "writes outside"},
    "before: `make test` on tree 1": {"green", "does not end", "is not installed"},
    "round-1: `make test` on tree 2": {"red", f"red{EACH}", "red, then green"},
    "round-1: `the commit hooks` on tree 1": {"red", f"red{EACH}"},
    "called round-1/builder#1": {DIES, MEETS, BREAKS, LEAVES, COMMITS, CANCELS},
    "round-1: run test": {FULL},
    "round-1/builder#1: line `call`": {DIES},
    "round-1/reviewer#1: line `done`": {DIES},
    "round-1: delivered": {DIES, MEETS},
    "round-1: publish": {DIES, FULL, REFUSES},
    GATE: {"chooses reject", "is not there", "rejects without a word", "is late"},
}


def test_deviations_follow_by_themselves() -> None:
    """From forms, exits, commands, people, effects and lines."""
    clean, asked = _play({}, commit=True), _play({BUILDER: WEAKENS}, review=False)
    came = {**asked.offers, **clean.offers}
    assert [occasion for occasion, others in OFFERED.items() if not others <= {*came[occasion]}] == []


@pytest.mark.req("PROOF-03")
def test_a_sample_is_the_seeds() -> None:
    drawn = [[dict(path.schedule) for path in explore(TASK, _inputs(), sample=5, seed=seed)] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0]) == 6


SCARS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    # a person comes back, and it goes on
    "what lasts ends": ({BUILDER: f"crashes{EACH}"}, {}),
    "room is made": ({"round-1: deliver": FULL}, {}),
    "who was not there is": ({BUILDER: WEAKENS, GATE: "is not there"}, {"review": False}),
    "what stopped goes on": ({BUILDER: "status=blocked", "the run has stopped": "is resumed"}, {}),
    # found by a rehearsal once
    "the answer of a call before is not taken for the next one's": (
        {BUILDER: "crashes", "round-1/builder#1: line `call` (2)": DIES},
        {},
    ),
    "a delivery over which a process died is recorded before a person's cancel": (
        {"round-1: deliver": CANCELS, "round-1: delivered": DIES},
        {},
    ),
    "what is found beside named checks and hangs with the work is broken": (
        {"round-1: `make test` on tree 1": f"does not end{EACH}"},
        {"check": ["pytest -q"]},
    ),
    "what only a person broke delivers nothing that nobody has accepted": (
        {"before: `make test` on tree 1": "green", "called round-1/builder#1": BREAKS},
        {"review": False},
    ),
}
GOES_ON = [*SCARS][:4]


@pytest.mark.parametrize("scar", SCARS)
def test_what_a_rehearsal_found_once_holds(scar: str) -> None:
    schedule, asked = SCARS[scar]
    path = _play(schedule, **asked)
    assert {*schedule} <= {*path.offers}, "it came to all of it"
    assert broken(path) == []
    assert scar not in GOES_ON or path.view.why == "Accepted in round 1"

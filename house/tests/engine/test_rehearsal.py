"""Paths: what can go otherwise on a run, and that it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from interlock.engine import events as ev
from interlock.engine.holds import broken
from interlock.engine.rehearsal import Path, explore, play
from interlock.engine.stage import BREAKS, CANCELS, DIES, EACH, LEAVES, MEETS
from interlock.playbooks.task import TASK


def _inputs(**asked: Any) -> Any:
    return TASK.inputs.model_validate({"request": "Make it right", **asked})


def _play(schedule: Mapping[str, str], **asked: Any) -> Path:
    return play(TASK, _inputs(**asked), schedule)


def test_the_clean_path_goes_as_it_should() -> None:
    path = _play({})
    assert (path.view.status.value, path.view.why, path.calls) == ("complete", "Accepted in round 1", 2)
    assert path.stage.world.files["builder.txt"] == b"worked on by round-1/builder#1\n"


def test_each_thing_that_could_have_happened_is_played_once() -> None:
    clean, *others = explore(TASK, _inputs())
    assert [dict(path.schedule) for path in others] == [{one: name} for one, name in clean.further()]
    assert len({tuple(path.schedule.items()) for path in others}) == len(others) > 100


@pytest.mark.parametrize(
    ("occasion", "names"),
    [
        ("round-1/builder#1, call 1", {"crashes", f"status=blocked{EACH}", "no JSON", "writes CLAUDE.md"}),
        ("round-1/reviewer#1, call 1", {"is told a limit", "verdict=revise", "checks: one, result=red"}),
        ("before: `make test` on tree 1", {"green", "does not end", "is not installed"}),
        ("round-1: `make test` on tree 2", {"red", f"red{EACH}", "red, then green"}),
        ("called round-1/builder#1", {DIES, MEETS, BREAKS, LEAVES, CANCELS}),
        ("round-1/reviewer#1: line `done`", {DIES}),
        ("round-1: delivered", {DIES, MEETS}),
    ],
)
def test_deviations_follow_by_themselves(occasion: str, names: set[str]) -> None:
    assert names <= {*_play({}).stage.offers[occasion]}


def test_a_gate_offers_its_other_choices_and_nobody_there() -> None:
    path = _play({"round-1/builder#1, call 1": "weakens a test"}, review=False)
    offered = path.stage.offers["round-1/gate-accept#1, opening 1"]
    assert {"chooses reject", "is not there", "rejects without a word", "is late"} <= {*offered}


def test_a_death_shifts_no_occasion() -> None:
    """What was to happen behind it still does."""
    late = {"round-1/reviewer#1, call 1": "verdict=revise"}
    usual, died = _play(late), _play({"called round-1/builder#1": DIES, **late})
    assert died.stage.deaths == 1
    assert died.stage.ended == usual.stage.ended == {"round-1/builder#1": 1, "round-1/reviewer#1": 2}


def test_what_lasts_ends_when_a_person_comes_back() -> None:
    path = _play({"round-1/builder#1, call 1": f"crashes{EACH}"})
    assert [event.status for _, event in path.lines if isinstance(event, ev.Paused)] == ["failed"]
    assert path.view.why == "Accepted in round 1"


def test_who_is_not_there_is_waited_for() -> None:
    gate = {"round-1/gate-accept#1, opening 1": "is not there"}
    path = _play({"round-1/builder#1, call 1": "weakens a test", **gate}, review=False)
    assert [event.status for _, event in path.lines if isinstance(event, ev.Paused)] == ["waiting"]
    assert path.view.why == "Accepted in round 1"


def test_what_stopped_can_be_taken_up_again() -> None:
    path = _play({"round-1/builder#1, call 1": "status=blocked", "the run has stopped": "is resumed"})
    assert path.view.why == "Accepted in round 1"
    assert any(isinstance(event, ev.Reopened) for _, event in path.lines)


def test_a_sample_is_the_seeds() -> None:
    drawn = [[dict(path.schedule) for path in explore(TASK, _inputs(), sample=5, seed=seed)] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0]) == 6


def test_a_fault_of_the_engine_is_told_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.engine.dispatch.examine", lambda *_, **__: 1 / 0)
    path = _play({})
    assert broken(path)[0] == "every path comes to an end: ZeroDivisionError: division by zero"


SCARS: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "the answer of a call before is not taken for the next one's": (
        {"round-1/builder#1, call 1": "crashes", "round-1/builder#1: line `call` (2)": DIES},
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


@pytest.mark.parametrize("scar", SCARS)
def test_what_a_rehearsal_found_once_holds(scar: str) -> None:
    schedule, asked = SCARS[scar]
    path = _play(schedule, **asked)
    assert {*schedule} <= {*path.stage.offers}, "it came to all of it"
    assert broken(path) == []

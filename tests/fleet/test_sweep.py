"""A handful of the fault sweep's schedules; all of them: ``python -m tests.fleet.sweep``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet.sweep import (
    AFTER_END,
    AFTER_PUSH,
    BEFORE_CLAIM,
    BEFORE_PUSH,
    DECIDED,
    OUTAGES,
    PHASES,
    WORKING,
    Schedule,
    Trial,
    opened,
    schedules,
    undisturbed,
)

AWAY = Schedule("relay", WORKING, "both away for a minute")
SOME = (
    Schedule("relay", BEFORE_CLAIM, "kill"),
    Schedule("relay", BEFORE_PUSH, "pause"),
    Schedule("toy", AFTER_PUSH, "neither"),
    Schedule("toy", DECIDED, "kill"),
    Schedule("relay", AFTER_END, "database restarts"),
)


@pytest.mark.req("WK-15")
def test_the_sweep_has_more_than_fifty_schedules() -> None:
    """Each fault at each phase, with both playbooks."""
    all_of_them = schedules()
    assert len(set(all_of_them)) > 50
    assert {one.phase for one in all_of_them} == set(PHASES)
    assert {one.playbook for one in all_of_them} == {"relay", "toy"}
    assert len(set(schedules(OUTAGES))) == 3 * len(PHASES)


@pytest.mark.long
@pytest.mark.req("WK-15")
def test_runs_end_once_whatever_happens(tmp_path: Path) -> None:
    """Documents and outcomes as undisturbed; no agent is called for what the ref has."""
    with opened(tmp_path) as fleet:
        expected = {playbook: undisturbed(fleet, playbook) for playbook in ("relay", "toy")}
        for number, schedule in enumerate(SOME):
            trial = Trial(fleet, schedule, f"word-{number}")
            trial.go()
            trial.check(expected[schedule.playbook])


@pytest.mark.long
@pytest.mark.req("WK-14")
def test_a_minute_without_database_and_remote_loses_nothing(tmp_path: Path) -> None:
    """Workers wait, or end and are started again; the run comes out as if nothing had happened."""
    with opened(tmp_path) as fleet:
        expected = undisturbed(fleet, AWAY.playbook)
        trial = Trial(fleet, AWAY, "word")
        trial.go()
        trial.check(expected)

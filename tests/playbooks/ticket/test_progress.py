"""Phases, statuses, and the arithmetic of progress."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import EngineFault
from interlock.playbooks.ticket.progress import (
    MOVES,
    STATUS_MOVES,
    STEPS,
    Confidence,
    Metrics,
    Phase,
    RunStatus,
    check_move,
    check_status,
    confidence,
    diagram,
    minutes_between,
    moment_of,
    percent,
    remaining_minutes,
    stamp,
)


def test_no_phase_is_entered_but_along_the_table() -> None:
    """Every pair of phases is either in the table, an interruption, or a fault."""
    for before, after in itertools.product(Phase, Phase):
        if before is after or (before, after) in MOVES:
            check_move(before, after)
        else:
            with pytest.raises(EngineFault):
                check_move(before, after)


def test_no_status_is_taken_but_along_the_table() -> None:
    """Every pair of statuses is decided; a rejected ticket stays rejected."""
    assert set(STATUS_MOVES) == set(RunStatus)
    for before, after in itertools.product(RunStatus, RunStatus):
        if before is after or after in STATUS_MOVES[before]:
            check_status(before, after)
        else:
            with pytest.raises(EngineFault):
                check_status(before, after)
    assert not STATUS_MOVES[RunStatus.REJECTED]


def test_work_is_reviewed_or_auto_accepted_before_the_documentation() -> None:
    """Only the review and the short cut lead to the refresh; code is written only behind the gate."""
    assert {before for before, after in MOVES if after is Phase.DOC_REFRESH} == {Phase.REVIEW, Phase.TASK_EXECUTION}
    assert {before for before, after in MOVES if after is Phase.TASK_EXECUTION} == {
        Phase.GIT_GATE,
        Phase.TASK_EXECUTION,
    }
    assert set(STEPS) == set(Phase)
    assert all(phase.value in diagram() for phase in Phase)


@pytest.mark.req("TK-145")
@given(st.integers(0, 500), st.integers(0, 500))
def test_percent_stays_below_100_until_acceptance(completed: int, total: int) -> None:
    """At most 95 before, exactly 100 after, never negative, growing with the work."""
    completed = min(completed, total)
    assert 0 <= percent(completed, total, accepted=False) <= 95
    assert percent(completed, total, accepted=True) == 100
    assert percent(completed, total + 1, accepted=False) <= percent(completed + 1, total + 1, accepted=False)


@pytest.mark.req("TK-144")
@pytest.mark.parametrize(
    ("elapsed", "completed", "total", "left"),
    [(0.0, 0, 3, None), (10.0, 1, 3, 20), (10.0, 3, 4, 4), (3.0, 3, 3, 0), (0.1, 1, 2, 1)],
)
def test_the_estimate_follows_from_what_was_done(elapsed: float, completed: int, total: int, left: int | None) -> None:
    """Minutes per completed task, for what is left, rounded up; none while nothing is completed."""
    assert remaining_minutes(elapsed, completed, total) == left


def test_confidence_grows_with_the_share() -> None:
    """Low under a quarter, medium under sixty per cent, then high."""
    found = [confidence(done, 100) for done in (0, 24, 25, 59, 60, 100)]
    low, medium, high = Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH
    assert found == [low, low, medium, medium, high, high]
    assert confidence(0, 0) is low


@pytest.mark.req("TK-143")
def test_the_progress_line() -> None:
    """The exact form, with a question mark while there is no estimate."""
    assert Metrics(4, 1, 2, 0, 5.0).line() == "Progress: 23% | Completed: 1/4 tasks | ETA: ~15 min remaining"
    assert Metrics(4, 0, 2, 0).line() == "Progress: 0% | Completed: 0/4 tasks | ETA: ~? min remaining"
    assert Metrics(4, 4, 2, 2, 5.0, accepted=True).line().startswith("Progress: 100% | Completed: 4/4 tasks")


@given(st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2100, 1, 1)))
def test_stamps_come_back(moment: datetime) -> None:
    """A stamp is UTC to the second, and is read as the same moment."""
    whole = moment.replace(microsecond=0, tzinfo=UTC)
    assert moment_of(stamp(whole)) == whole


def test_what_is_no_stamp_is_no_moment() -> None:
    """Foreign values give nothing; spans are never negative."""
    assert [moment_of(value) for value in (None, "soon", 5, "")] == [None] * 4
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert minutes_between(now, now - timedelta(hours=1)) == 0
    assert minutes_between(None, now) is None


PAGE = Path(__file__).parents[3] / "docs" / "playbooks" / "ticket.md"


def test_the_page_shows_the_diagram_of_the_code() -> None:
    """The diagram in the documentation is the one that the code makes."""
    assert f"```mermaid\n{diagram()}\n```\n" in PAGE.read_text(encoding="utf-8")

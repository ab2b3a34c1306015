"""The arithmetic of progress."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents import stamp
from interlock.playbooks.ticket.documents import (
    confidence,
    metrics,
    minutes_between,
    moment_of,
    percent,
    progress_line,
    remaining_minutes,
)


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
    assert found == ["low", "low", "medium", "medium", "high", "high"]
    assert confidence(0, 0) == "low"


@pytest.mark.req("TK-143")
def test_the_progress_line() -> None:
    """The exact form, with a question mark while there is no estimate."""
    begun, some = metrics(4, 0, 2, 0, 0, accepted=False), metrics(4, 1, 2, 0, 5.0, accepted=False)
    all_done = metrics(4, 4, 2, 2, 5.0, accepted=True)
    assert progress_line(some) == "Progress: 23% | Completed: 1/4 tasks | ETA: ~15 min remaining"
    assert progress_line(begun) == "Progress: 0% | Completed: 0/4 tasks | ETA: ~? min remaining"
    assert progress_line(all_done).startswith("Progress: 100% | Completed: 4/4 tasks")


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

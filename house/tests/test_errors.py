"""Errors carry their parts, and one table says how commands end."""

from __future__ import annotations

import errno

import pytest

from interlock import errors
from interlock.errors import Exit, Status


@pytest.mark.req("RUN-09")
def test_each_status_has_its_exit_and_is_open_or_ended() -> None:
    """The words and numbers of RUN-09; the answers of a command are neither."""
    assert {status.value: int(status.exit) for status in Status} == {
        "working": 0,
        "waiting": 4,
        "interrupted": 130,
        "failed": 5,
        "complete": 0,
        "degraded": 1,
        "stopped": 3,
        "cancelled": 3,
        "invalid": 2,
        "locked": 6,
    }
    assert {status for status in Status if status.is_open}.isdisjoint(s for s in Status if s.has_ended)
    assert {status for status in Status if not status.is_open and not status.has_ended} == {
        Status.INVALID,
        Status.LOCKED,
    }


@pytest.mark.req("RUN-09")
def test_each_error_has_its_exit() -> None:
    """By its type, never by its words."""
    wanted = {
        errors.ConfigInvalid: Exit.INPUT,
        errors.DocumentInvalid: Exit.INPUT,
        errors.PathRefused: Exit.INPUT,
        errors.Refused: Exit.INPUT,
        errors.NameRefused: Exit.INPUT,
        errors.Locked: Exit.LOCKED,
        errors.JournalDamaged: Exit.INPUT,
        errors.Diverged: Exit.INPUT,
        errors.AgentFailed: Exit.FAILED,
        errors.WorkspaceFailed: Exit.FAILED,
        errors.EngineFault: Exit.FAILED,
    }
    assert {kind: kind.exit_code for kind in wanted} == wanted


@pytest.mark.req("RUN-19", "CLI-05")
def test_an_error_of_the_system_says_what_to_do() -> None:
    """By its number, with the place it happened at, also where that is bytes."""
    told = errors.WorkspaceFailed.of(OSError(errno.ENOSPC, "No space left on device", b"/x/\xff"), "cannot write")
    assert told.what == "cannot write: no space left on device"
    assert told.where == "/x/\udcff"
    assert str(told.remedy).startswith("Free some space")
    assert "See why" in str(errors.WorkspaceFailed.of(OSError("odd")).remedy)


@pytest.mark.req("CLI-05")
def test_parts_are_what_is_known() -> None:
    """Where with line and column as editors read them."""
    told = errors.DocumentInvalid("x cannot be used", path="a.md", line=3, column=7, found="y")
    assert dict(told.parts()) == {"where": "a.md:3:7", "found": "y"}
    assert errors.place("a.md", None, 7) == "a.md"


@pytest.mark.req("CLI-05")
@pytest.mark.parametrize(
    ("name", "near"),
    [("max-paralel", "max_parallel"), ("LIMITS", "limits"), ("zzz", None), ("x" * 10_000, None), ("", None)],
)
def test_the_nearest_known_name(name: str, near: str | None) -> None:
    """Case, hyphens and a wrong letter aside; nothing where nothing is near."""
    assert errors.nearest(name, ["max_parallel", "limits", "runner"]) == near

"""Errors carry their parts, and one table says how commands end."""

from __future__ import annotations

import errno
import shutil

import pytest

from interlock import errors
from interlock.errors import Exit, InterlockError, Status

WORDS = {
    "working": (0, "open"),
    "waiting": (4, "open"),
    "interrupted": (130, "open"),
    "failed": (5, "open"),
    "complete": (0, "ended"),
    "degraded": (1, "ended"),
    "stopped": (3, "ended"),
    "cancelled": (3, "ended"),
    "invalid": (2, ""),
    "locked": (6, ""),
}


@pytest.mark.req("RUN-09")
def test_each_status_has_its_exit_and_is_open_or_ended() -> None:
    """The words and numbers of RUN-09; the answers of a command are neither."""
    told = {one.value: (int(one.exit), "open" * one.is_open + "ended" * one.has_ended) for one in Status}
    assert told == WORDS


@pytest.mark.req("RUN-09")
def test_each_error_has_its_exit() -> None:
    """By its type, never by its words."""
    inputs = (errors.BadInput, errors.ConfigInvalid, errors.DocumentInvalid, errors.PathRefused, errors.Refused)
    ends = dict.fromkeys((*inputs, errors.JournalDamaged, errors.Diverged), Exit.INPUT) | {errors.Locked: Exit.LOCKED}
    ends |= dict.fromkeys((errors.InterlockError, errors.WorkspaceFailed, errors.EngineFault), Exit.FAILED)
    ours = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, InterlockError)]
    assert {one: one.exit_code for one in ours} == ends


@pytest.mark.req("RUN-19", "CLI-05")
def test_an_error_of_the_system_says_what_to_do() -> None:
    """By its number, with the place it happened at, also where that is bytes."""
    told = errors.WorkspaceFailed.of(OSError(errno.ENOSPC, "No space left on device", b"/x/\xff"), "cannot write")
    assert told.what == "cannot write: no space left on device"
    assert told.where == "/x/\udcff"
    assert str(told.remedy).startswith("Free some space")
    assert "See why" in str(errors.WorkspaceFailed.of(OSError("odd")).remedy)
    several = shutil.Error([("a", "b", f"[Errno {errno.ENOSPC}] No space left on device: 'b'")])
    assert errors.WorkspaceFailed.of(several, "cannot copy").what == "cannot copy: no space left on device"


@pytest.mark.req("CLI-05")
@pytest.mark.parametrize(
    ("name", "near"),
    [("max-paralel", "max_parallel"), ("LIMITS", "limits"), ("zzz", None), ("x" * 10_000, None), ("", None)],
)
def test_the_nearest_known_name(name: str, near: str | None) -> None:
    """Case, hyphens and a wrong letter aside; nothing where nothing is near."""
    assert errors.nearest(name, ["max_parallel", "limits", "runner"]) == near

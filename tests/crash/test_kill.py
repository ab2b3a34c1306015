"""A real SIGKILL, with real agents, at points that cover each kind of line: nothing lost, repeated or left running."""

from __future__ import annotations

import asyncio
import os
import signal
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from interlock.engine.folder import known_runs
from interlock.engine.runs import Quiet, Runs
from tests.crash.process import Inputs, TestSetup, documents, last_event, lay_out, shell_agent, sweep

pytestmark = pytest.mark.long

LEAST_POINTS = 44


@dataclass(frozen=True)
class Point:
    """The n-th place at which a crash matters, and what the journal ended with there."""

    number: int
    kind: str
    event: str


def runs(root: Path, calls: Path, tripwire=lambda _point: None) -> Runs:
    environ = {**os.environ, "SWEEP_CALLS": str(calls)}
    setup = TestSetup(root, shell_agent(environ), environ)
    return Runs(root, setup, Quiet(), environ={}, tripwire=tripwire)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The points of a whole run and the documents that it ends with."""
    base = tmp_path_factory.mktemp("uninterrupted")
    root = base / "workspace"
    lay_out(root)
    points: list[Point] = []
    note = lambda kind: points.append(Point(len(points), kind, last_event(root)))  # noqa: E731
    finished = asyncio.run(runs(root, base / "calls", note).run(sweep, Inputs()))
    assert finished.status == "complete"
    return points, documents(root)


def chosen(points: list[Point]) -> list[Point]:
    """The first and the last point of every kind at every kind of line, then every n-th until there are enough."""
    first = {(point.kind, point.event): point for point in reversed(points)}
    last = {(point.kind, point.event): point for point in points}
    picked = {point.number: point for point in (*first.values(), *last.values())}
    for step in (7, 5, 3, 1):
        if len(picked) >= LEAST_POINTS:
            break
        picked |= {point.number: point for point in points[::step]}
    return [picked[number] for number in sorted(picked)]


def killed_at(root: Path, calls: Path, number: int) -> None:
    """Run in a child process that kills itself at the given point."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # forking beside xdist's threads; the child only runs and dies
        child = os.fork()
    if child == 0:
        seen = 0

        def tripwire(_kind: str) -> None:
            nonlocal seen
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += 1

        try:
            asyncio.run(runs(root, calls, tripwire).run(sweep, Inputs()))
        finally:
            os._exit(3)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the point was never reached"


def recorded_ends(root: Path) -> set[str | None]:
    return {line.key for known in known_runs(root) for line in known.folder.lines() if line.event == "dispatch.end"}


def left_running(run_id: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("INTERLOCK_MARKER", "").startswith(run_id):
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


@pytest.mark.req("CM-22", "CM-09", "EN-10", "EN-13", "CM-01")
@pytest.mark.parametrize("part", range(4))
def test_a_killed_run_goes_on_where_it_was(uninterrupted, tmp_path, part):
    """Killed at any kind of line: same documents, no paid work repeated, no process left, the dead lock taken over."""
    points, expected = uninterrupted
    picked = chosen(points)
    assert len(picked) >= LEAST_POINTS
    for point in picked[part::4]:
        root, calls = tmp_path / str(point.number), tmp_path / f"{point.number}.calls"
        lay_out(root)
        killed_at(root, calls, point.number)
        ended = recorded_ends(root)
        finished = asyncio.run(runs(root, calls).run(sweep, Inputs()))
        assert finished.status == "complete", point
        assert documents(root) == expected, point
        counts = Counter(calls.read_text().split("\n")[:-1])
        assert all(counts[key] == 1 for key in ended), point
        assert max(counts.values()) <= 2, point
        (known,) = known_runs(root)
        assert known.folder.verify() == [], point
        assert left_running(known.identity.run_id) == [], point


def test_the_points_cover_every_kind_of_line(uninterrupted):
    """Every event of the run is the last line at one of the chosen points."""
    points, _expected = uninterrupted
    events = {point.event for point in points}
    assert {point.event for point in chosen(points)} == events
    assert events >= {"dispatch.start", "dispatch.running", "dispatch.end", "write.intent", "write", "command.intent"}

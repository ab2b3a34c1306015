"""The engine is cut off in process at every point where it matters; each resume ends with the same documents."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from interlock.engine.folder import known_runs
from interlock.engine.runs import Quiet, Runs
from tests.crash.process import InProcess, Inputs, TestSetup, documents, lay_out, sweep

pytestmark = pytest.mark.long

POINTS = ("before-sync", "after-sync", "effect")


def runs(root: Path, runner: InProcess, tripwire=lambda _point: None) -> Runs:
    return Runs(root, TestSetup(root, runner, os.environ), Quiet(), environ={}, tripwire=tripwire)


def journal(root: Path) -> Path:
    (known,) = known_runs(root)
    return known.folder.path / "journal.jsonl"


def copied(source: Path, place: Path) -> None:
    """A copy of the workspace as it is at this moment; layers that are being removed beside us may miss files."""
    with suppress(shutil.Error):
        shutil.copytree(source, place, symlinks=True)


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """One uninterrupted run, with a copy of the whole workspace taken at every point."""
    base = tmp_path_factory.mktemp("recording")
    root = base / "workspace"
    lay_out(root)
    copies: list[tuple[str, Path]] = []

    def copy(point: str) -> None:
        place = base / f"{len(copies):04d}"
        copied(root, place)
        copies.append((point, place))

    runner = InProcess()
    finished = asyncio.run(runs(root, runner, copy).run(sweep, Inputs()))
    assert finished.status == "complete"
    return root, copies, Counter(runner.calls)


def resumed(place: Path, expected: Path) -> None:
    """Resume the copy and hold it to what an uninterrupted run gives."""
    ended = {line.key for known in known_runs(place) for line in known.folder.lines() if line.event == "dispatch.end"}
    runner = InProcess()
    finished = asyncio.run(runs(place, runner).run(sweep, Inputs()))
    assert finished.status == "complete"
    assert documents(place) == documents(expected)
    assert not ended & set(runner.calls), "a dispatch with a recorded end ran again"
    assert all(count == 1 for count in Counter(runner.calls).values())
    (known,) = known_runs(place)
    assert known.folder.verify() == []
    assert (place / "builds.txt").read_text() == "built\n"


@pytest.mark.req("CM-22", "CM-03", "EN-10", "EN-13", "EN-14")
@pytest.mark.parametrize("part", range(8))
def test_every_cut_resumes_to_the_same_documents(recording, part, tmp_path):
    """After every line, before every sync and between every intent and its effect: nothing is lost or repeated."""
    expected, copies, _calls = recording
    assert {point for point, _ in copies} == set(POINTS)
    for number, (_point, original) in enumerate(copies[part::8]):
        place = tmp_path / str(number)
        copied(original, place)
        resumed(place, expected)


@pytest.mark.req("CM-22", "CM-25")
@pytest.mark.parametrize("part", range(4))
def test_power_loss_before_a_sync(recording, part, tmp_path):
    """A line that was never synced may be gone, or torn, after a power loss; the run goes on all the same."""
    expected, copies, _calls = recording
    unsynced = [place for point, place in copies if point == "before-sync"]
    for number, original in enumerate(unsynced[part::4]):
        place = tmp_path / str(number)
        copied(original, place)
        if not known_runs(place):
            continue
        file = journal(place)
        raw = file.read_bytes()
        start = raw.rfind(b"\n", 0, len(raw) - 1) + 1
        keep = start if number % 2 else start + (len(raw) - start) // 2
        file.write_bytes(raw[:keep])
        resumed(place, expected)


def test_the_recording_covers_every_kind_of_line(recording):
    """The sweep would be empty if the process did not use every verb."""
    root, copies, calls = recording
    (known,) = known_runs(root)
    events = {line.event for line in known.folder.lines()}
    assert events >= {
        "run.start", "read", "decide", "wanted.read", "say", "now", "new_id", "dispatch.start", "dispatch.running",
        "dispatch.end", "command.intent", "command", "loop", "write.intent", "write", "cluster.end",
        "set_aside.intent", "set_aside", "list", "telemetry", "run.end",
    }  # fmt: skip
    assert len(copies) > 150
    assert sum(calls.values()) == 13

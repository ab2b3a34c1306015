"""`runs`: how the runs of a workspace stand, at a glance; cheap enough for hundreds of them."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from interlock.cli.commands import LOOK, command
from interlock.cli.door import Door
from interlock.cli.output import columns, complain
from interlock.documents.files import read_plain
from interlock.engine.folder import HOME, KnownRun, known_runs, unreadable_runs
from interlock.engine.head import HeadFile
from interlock.engine.journal import Line
from interlock.telemetry import State, in_words, printable, seconds_between, standing

TELLING = (b'"event":"run.', b'"event":"gate.')
"""In lines that tell how a run stands; members of a cluster may write any number of others after them."""
DISPATCH_END = b'"event":"dispatch.end","key":'
LAST_RUNS = 10
ENDED_WELL = ("complete", "degraded")


@dataclass(frozen=True)
class Glance:
    """One run in the list."""

    run_id: str
    playbook: str
    key: str
    status: str
    """An ending, or running, waiting, interrupted."""
    how: str
    """The same in a few words, with what can be done."""
    started_at: str
    last_at: str
    seconds: float
    dispatches: int

    @property
    def row(self) -> tuple[str, ...]:
        started, took = started_shown(self.started_at), in_words(self.seconds)
        key, dispatches = printable(self.key, 40), str(self.dispatches)
        return self.run_id, self.playbook, key, self.status, started, took, dispatches


class ListedAs(StrEnum):
    """How a run in the list can stand."""

    RUNNING = "running"
    WAITING = "waiting"
    INTERRUPTED = "interrupted"
    COMPLETE = "complete"
    DEGRADED = "degraded"
    STOPPED = "stopped"
    FAILED = "failed"
    INVALID = "invalid"
    DAMAGED = "damaged"


@command("runs", example="interlock runs --status waiting --json", honours=("fields",), panel=LOOK)
def runs(
    door: Door,
    status: Annotated[
        list[ListedAs] | None, typer.Option("--status", help="Only runs that stand so; may be repeated.")
    ] = None,
    playbook: Annotated[
        str | None,
        typer.Option("--playbook", metavar="NAME", help="Only runs of this playbook.", show_default=False),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="At most so many: the latest.")
    ] = None,
) -> int:
    """List the runs of this workspace, the latest last."""
    asked = (glance for glance in glances(door.root, playbook) if not status or glance.status in status)
    found = [*islice(asked, limit)][::-1]
    if door.json or found:
        head = ("RUN", "PLAYBOOK", "KEY", "STATUS", "STARTED", "DURATION", "DISPATCHES")
        door.answer([asdict(one) for one in found], columns([head, *(one.row for one in found)]))
    elif status or playbook:
        complain(f"No run is like that. See all of them: {door.spoken('runs')}")
    else:
        complain(f"This workspace has no runs yet. See how to start one: {door.spoken('run --help')}")
    for error in unreadable_runs(door.root):
        complain(f"{error.where}: {error.what}", f"  to do: {error.remedy}")
    return 0


def glances(root: Path, playbook: str | None = None) -> Iterator[Glance]:
    """All runs, or those of one playbook, the latest first; each is looked at when it is asked for."""
    live = running(root)
    for known in reversed(known_runs(root)):
        if playbook in (None, known.identity.playbook):
            yield glance(known, live)


def glance(known: KnownRun, live: Mapping[str, str] | None = None) -> Glance:
    """How one run stands, from the end of its journal and from its lock."""
    identity, folder = known.identity, known.folder
    known_lines = HeadFile(folder.path).read()
    count, lines, dispatches = _telling_lines(folder.path / "journal.jsonl")
    live = running(folder.root) if live is None else live
    status, how = told(lines, live.get(identity.run_id))
    if known_lines is not None and count < known_lines.settled.seq:
        status, how = "damaged", f"lines of its journal are missing: interlock show {identity.run_id} --verify"
    last = lines[-1].ts if lines else identity.started_at
    now = datetime.now(UTC).isoformat() if status == "running" else last
    return Glance(
        identity.run_id,
        identity.playbook,
        identity.key,
        status,
        how,
        identity.started_at,
        last,
        seconds_between(identity.started_at, now),
        dispatches,
    )


def told(lines: Sequence[Line], holder: str | None) -> tuple[str, str]:
    """Status and words of a run, from the lines that tell it and the process that holds its lock."""
    if holder is not None:
        return "running", f"running: {holder}"
    now = standing(lines)
    return now.status, {
        State.ASKING: "for a decision",
        State.DECIDED: "decided: resume goes on",
        State.PAUSED: f"paused: {now.why}",
        State.INTERRUPTED: "resume goes on",
        State.FAULT: f"fault: {now.why}",
        State.ENDED: now.why,
    }.get(now.state, "its process died: resume goes on")


def typical_seconds(root: Path, playbook: str) -> float | None:
    """How long the last runs of a playbook took that ended well; None when there are none."""
    runs = [known for known in known_runs(root) if known.identity.playbook == playbook][-LAST_RUNS:]
    took = [one.seconds for one in (glance(known, {}) for known in runs) if one.status in ENDED_WELL]
    return statistics.median(took) if took else None


def _telling_lines(path: Path) -> tuple[int, list[Line], int]:
    """How many lines there are; those that tell how the run stands, and the last one whatever it tells; how many
    dispatches are recorded."""
    try:
        raw = read_plain(path)
    except OSError:
        return 0, [], 0
    *before, last = raw.split(b"\n")[:-1] or [b""]  # what no line end follows is torn
    lines = []
    for text in (*(text for text in before if any(mark in text for mark in TELLING)), last):
        with suppress(ValueError, TypeError, RecursionError):
            line = Line(**json.loads(text))
            if isinstance(line.data, dict):
                lines.append(line)
    return raw.count(b"\n"), lines, raw.count(DISPATCH_END)


def running(root: Path) -> dict[str, str]:
    """The runs of this workspace on which a living process works, each with that process."""
    if not any((root / HOME / "locks").glob("*.json")):
        return {}
    from interlock.engine.locks import holders

    live = {}
    for run, (lock, holder) in holders(root / HOME).items():
        if holder.elsewhere:
            live[run] = f"process {holder.pid} on {holder.host}, as far as is known here"
        elif not lock.is_free():
            live[run] = f"process {holder.pid}"
    return live


def started_shown(stamp: str) -> str:
    """A start as the list shows it, in local time."""
    return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def shown_path(path: Path) -> str:
    """A path as the person would type it from where they are."""
    shown = os.path.relpath(path)
    return str(path) if shown.startswith("..") else shown

"""`runs`: how the runs of a workspace stand."""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from interlock.cli.commands import LOOK, command
from interlock.cli.door import Door
from interlock.cli.output import columns, complain
from interlock.engine.folder import unreadable_runs
from interlock.engine.glances import Glance, glances
from interlock.telemetry import in_words, printable


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
        door.answer([asdict(one) for one in found], columns([head, *map(_row, found)]))
    elif status or playbook:
        complain(f"No run is like that. See all of them: {door.spoken('runs')}")
    else:
        complain(f"This workspace has no runs yet. See how to start one: {door.spoken('run --help')}")
    for error in unreadable_runs(door.root):
        complain(f"{error.where}: {error.what}", f"  to do: {error.remedy}")
    return 0


def _row(one: Glance) -> tuple[str, ...]:
    started, took = started_shown(one.started_at), in_words(one.seconds)
    return one.run_id, one.playbook, printable(one.key, 40), one.status, started, took, str(one.dispatches)


def started_shown(stamp: str) -> str:
    """A start as the list shows it, in local time."""
    return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def shown_path(path: Path) -> str:
    """A path as the person would type it from where they are."""
    shown = os.path.relpath(path)
    return str(path) if shown.startswith("..") else shown

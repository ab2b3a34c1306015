"""`runs`: how the runs of a workspace stand, or those of the fleet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.commands import LOOK, command
from interlock.cli.door import Door, finish
from interlock.cli.output import columns, complain
from interlock.engine.folder import unreadable_runs
from interlock.engine.glances import Glance, glances
from interlock.telemetry import in_words, printable

if TYPE_CHECKING:
    from interlock.fleet.looking import Sighting


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
    fleet: Annotated[
        bool, typer.Option("--fleet", help="Those of the remote instead: who has each, and how it stands.")
    ] = False,
) -> int:
    """List the runs of this workspace, the latest last."""
    if fleet:
        return _of_the_fleet(door, status or [], playbook, limit)
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


@dataclass(frozen=True)
class Listed:
    """One run of the remote in the list."""

    run_id: str
    playbook: str
    key: str
    about: str
    status: str
    now: str
    """Who has it, or what it waits for, or why nobody can say more of it."""
    holder: str
    """Who has it, or had it last."""
    held: bool
    since: str
    remote: str
    commit: str


def listed(one: Sighting) -> Listed:
    """A run as its claim says it."""
    who = one.possession
    if who is None:
        return Listed(one.run_id, "", "", "", ListedAs.DAMAGED, one.problem, "", False, "", one.remote, one.commit)
    held, status, now = who.held and not who.ended, who.status, ""
    if not who.ended:
        now = "waits for a person" if status == ListedAs.WAITING else "free to be taken"
        status = ListedAs.RUNNING if held and status != ListedAs.WAITING else ListedAs.WAITING
    facts = (who.playbook, who.key, who.about, status, f"{who.holder} has it" if held else now)
    return Listed(one.run_id, *facts, who.holder, held, who.since, one.remote, one.commit)


def _of_the_fleet(door: Door, status: Sequence[str], playbook: str | None, limit: int | None) -> int:
    from interlock.fleet.looking import remote_here, sighted

    async def seen() -> list[Sighting]:
        return await sighted(await remote_here(door.root, door.setup.settings.fleet.remote, door.environ))

    found = sorted((listed(one) for one in finish(seen())), key=lambda one: (one.since, one.run_id))
    asked = [one for one in found if playbook in (None, one.playbook) and (not status or one.status in status)]
    shown = asked[-limit:] if limit else asked
    if door.json or shown:
        head = ("RUN", "PLAYBOOK", "KEY", "STATUS", "SINCE", "NOW", "ABOUT")
        door.answer([asdict(one) for one in shown], columns([head, *map(_fleet_row, shown)]))
    else:
        complain("No run is like that." if found else "The remote has no runs.")
    return 0


def _fleet_row(one: Listed) -> tuple[str, ...]:
    since = started_shown(one.since) if one.since else ""
    words = printable(one.key, 40), one.status, since, printable(one.now, 60), printable(one.about, 60)
    return printable(one.run_id), printable(one.playbook, 40), *words


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

"""`fleet`: who works, what waits and why; and the database behind it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.commands import ELSEWHERE, command
from interlock.cli.door import Door, finish
from interlock.cli.output import complain, print_lines, wrapped
from interlock.errors import ConfigInvalid
from interlock.fleet.orders import JobState
from interlock.fleet.remote import RemoteAway
from interlock.telemetry import in_words, printable

if TYPE_CHECKING:
    from interlock.fleet.freight import Possession
    from interlock.fleet.orders import QueuedJob, WorkerSeen
    from interlock.fleet.overview import Overview
    from interlock.fleet.queue import Queue


class FleetAction(StrEnum):
    """What can be done to a fleet as a whole."""

    SETUP = "setup"


@command("fleet", example="interlock fleet", panel=ELSEWHERE)
def fleet(
    door: Door,
    action: Annotated[
        FleetAction | None,
        typer.Argument(
            metavar="[setup]", help="setup: prepare the database, once, and after an update.", show_default=False
        ),
    ] = None,
    metrics: Annotated[bool, typer.Option("--metrics", help="Print figures in the text form of Prometheus.")] = False,
) -> int:
    """Show the workers of the fleet, the runs that are worked on and queued, and why each of them waits."""
    if action is FleetAction.SETUP:
        return _setup(door)
    seen = finish(_look(door))
    if metrics:
        print_lines(seen.metrics())
    else:
        door.answer(seen.to_json(), _lines(seen))
    return 0


def open_queue(door: Door, *, patient: bool = False) -> Queue:
    """The queue that the settings name; `ConfigInvalid` when there is none."""
    from interlock.fleet.queue import Queue

    return Queue.of(door.setup.settings.fleet.database, patient=patient)


def _setup(door: Door) -> int:
    async def prepare() -> list[str]:
        async with open_queue(door) as queue:
            return await queue.setup()

    done = finish(prepare())
    told = [*(f"{one}." for one in done), "The database is ready: interlock worker works, interlock submit gives work."]
    door.answer({"done": done}, told if done else ["The database was ready already."])
    return 0


async def _look(door: Door) -> Overview:
    from interlock.fleet.overview import Overview

    async with open_queue(door) as queue:
        unqueued = await _unqueued(door, queue)
        return Overview(await queue.workers(), await queue.jobs(), await queue.given_up(), await queue.now(), unqueued)


async def _unqueued(door: Door, queue: Queue) -> list[Possession] | None:
    """Runs that nobody is asked to work on; None where the remote does not say: in a folder that is no clone of it."""
    from interlock.fleet.looking import remote_here, sighted_and_unqueued

    try:
        remote = await remote_here(door.root, door.setup.settings.fleet.remote, door.environ)
        return (await sighted_and_unqueued(remote, queue))[1] if remote.repository is not None else None
    except ConfigInvalid:
        return None
    except RemoteAway as error:
        complain(f"Nobody can say which runs are not queued: {error.what}.")
        return None


def _lines(seen: Overview) -> Iterator[str]:
    if seen.workers:
        yield "WORKERS"
        for worker in seen.workers:
            yield from _worker(worker, alive=worker in seen.alive)
    else:
        yield "No worker is there. Start one: interlock worker"
    groups = {
        "WORKED ON": [job for job in seen.jobs if job.state is JobState.DOING],
        "QUEUED": [job for job in seen.jobs if job.state is JobState.TODO],
        "GIVEN UP": seen.given_up,
    }
    for title, jobs in groups.items():
        if jobs:
            yield title
        for job in jobs:
            yield from _job(seen, job)
    if not any(groups.values()):
        yield "Nothing is queued."
    if seen.unqueued:
        yield "NOT QUEUED"
    for who in seen.unqueued or ():
        yield from wrapped(f"{who.run}: {printable(who.about, 60)}", "  ")
        yield from ("    nobody is asked to work on it; queue it:", f"      interlock resume {who.run}")


def _worker(worker: WorkerSeen, *, alive: bool) -> Iterator[str]:
    age = in_words(worker.silent_s)
    does = f"works on {worker.run}" if worker.run else "is idle"
    parts = [does if alive else f"gave no sign of life for {age}"]
    parts += [f"labels {', '.join(worker.labels)}"] if worker.labels else []
    parts += [f"only queues {', '.join(worker.queues)}"] if worker.queues else []
    yield from wrapped(f"{printable(worker.name, 40)} {'; '.join(map(printable, parts))}", "  ")


def _job(seen: Overview, job: QueuedJob) -> Iterator[str]:
    order = job.order
    where = f" on {printable(job.worker, 24)}" if job.worker else ""
    age = in_words((seen.now - job.since).total_seconds())
    queue = f", queue {order.queue}" if order.queue != "default" else ""
    priority = f", priority {order.priority}" if order.priority else ""
    yield from wrapped(f"{order.run}{where}, for {age}{queue}{priority}: {printable(order.about, 60)}", "  ")
    if why := seen.why(job):
        yield from wrapped(printable(why), "    ")

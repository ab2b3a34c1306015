"""Runs on other machines.

`send`, `take`, `fetch`: a run moves to another clone, with nothing but git between them.  `submit`, `worker`, `fleet`:
runs for a fleet, a machine that works on them, and who works, what waits and why.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from interlock.cli.commands import ELSEWHERE, RunName, command, parameter
from interlock.cli.door import Door, finish
from interlock.cli.elsewhere import depot_of, far_run, open_depot
from interlock.cli.live import PlainView
from interlock.cli.output import complain, envelope, print_json, print_lines, wrapped
from interlock.cli.playbooks import Playbooks, command_for, group
from interlock.cli.run import deliver
from interlock.cli.unattended import HeardView
from interlock.errors import ConfigInvalid, InterlockError, Refused
from interlock.fleet.orders import JobState, Queued, order_of
from interlock.fleet.remote import RemoteAway
from interlock.telemetry import in_words, printable

if TYPE_CHECKING:
    from interlock.engine import Playbook
    from interlock.engine.asking import Asked
    from interlock.engine.identity import Identity
    from interlock.engine.playing import Finished
    from interlock.engine.runs import Follower, Runs, View
    from interlock.fleet.depot import Depot, Moved
    from interlock.fleet.freight import Possession
    from interlock.fleet.needs import Means, Needs
    from interlock.fleet.orders import Order, QueuedJob, WorkerSeen
    from interlock.fleet.overview import Overview
    from interlock.fleet.queue import Queue
    from interlock.fleet.steering import FarRun
    from interlock.fleet.working import WorkerTold, WorkPlace

RemoteName = Annotated[
    str | None,
    typer.Option(
        "--remote",
        metavar="NAME",
        help="Remote that carries it: its name, or an address. Default: fleet.remote of the settings, else origin.",
        show_default=False,
    ),
]


def remote_of(door: Door, remote: str | None) -> str:
    return remote if remote is not None else door.setup.settings.fleet.remote


# -- by git alone


@command("send", example="interlock send latest", panel=ELSEWHERE)
def send(door: Door, run: RunName, remote: RemoteName = None) -> int:
    """Give a run away that nobody works on: another clone takes it and goes on, with the exact tree as it is here."""
    moved = _moved(door, open_depot(door).send(run, remote_of(door, remote)))
    _arrived(door, moved, f"Run {moved.run_id} waits on {moved.remote}; here it rests.")
    complain(f"  go on in another clone: interlock take {moved.run_id}")
    return 0


@command("take", example="interlock take feature-20260102-0304", honours=("take_over",), panel=ELSEWHERE)
def take(door: Door, run: RunName, remote: RemoteName = None) -> int:
    """Take a run that somebody sent: its tree, its branch and its folder come here, and here it goes on."""
    moved = _moved(door, open_depot(door).take(run, remote_of(door, remote), take_over=door.take_over))
    _arrived(door, moved, f"Run {moved.run_id} is here now.")
    if moved.branch:
        complain(f"  branch: {moved.branch}")
    complain(f"  go on with: {door.spoken(f'resume {moved.run_id}')}")
    return 0


@command("fetch", example="interlock fetch feature-20260102-0304", panel=ELSEWHERE)
def fetch(door: Door, run: RunName, remote: RemoteName = None) -> int:
    """Bring branch, documents and folder of a run here, to look at; it stays where it is."""
    moved = _moved(door, open_depot(door).fetch(run, remote_of(door, remote)))
    _arrived(door, moved, f"Run {moved.run_id} can be looked at here: {door.spoken(f'show {moved.run_id}')}")
    if moved.branch:
        complain(f"  its work is on branch {moved.branch}")
    if moved.conflict:
        complain(f"  its documents were not written here: {moved.conflict}")
    return 0


def _moved(door: Door, work: Coroutine[Any, Any, Moved]) -> Moved:
    moved = finish(work)
    door.errand.run_id = moved.run_id
    return moved


def _arrived(door: Door, moved: Moved, text: str) -> None:
    if door.json:
        door.give(asdict(moved))
    complain(text)


# -- by a queue


QueueName = Annotated[
    str | None, typer.Option("--queue", metavar="NAME", help="Queue to put it into.", show_default=False)
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="NAME", help="Only for workers that have this; several times for several."),
]
Priority = Annotated[int, typer.Option("--priority", metavar="N", help="Higher ones are taken first.")]
At = Annotated[
    datetime | None,
    typer.Option("--at", metavar="TIME", help="Not before, as 2026-01-02T03:04:05, local time.", show_default=False),
]
Watch = Annotated[bool, typer.Option("--watch", help="Follow it until it ends or waits for somebody.")]


ALSO = (
    parameter("queue", QueueName, None),
    parameter("label", Labels, None),
    parameter("priority", Priority, 0),
    parameter("at", At, None),
    parameter("watch", Watch, False),
    parameter("remote", RemoteName, None),
)
ASKS = ("runner", "budget", "accept_baseline", "no_preflight", "new_run", "trust")
"""What of the common options a run takes along."""


class Submitted(Playbooks):
    """The sub-commands of `submit`: what `run` takes, they take."""

    def command_of(self, playbook: Playbook, word: str) -> Any:
        return command_for(playbook, word, spoken="submit {}", do=submit_one, honours=ASKS, also=ALSO)


submit = group(
    Submitted, "submit", "Give a run to the fleet: a worker takes it, with the exact tree as it is here.", ELSEWHERE
)


@dataclass(frozen=True)
class Wish:
    """What is asked of the fleet, beside what `run` is asked too."""

    queue: str
    labels: tuple[str, ...]
    priority: int
    at: datetime | None
    remote: str


@dataclass(frozen=True)
class Handed:
    """A run that is the fleet's now."""

    identity: Identity
    queued: Queued


def submit_one(
    door: Door,
    playbook: Playbook,
    said: Mapping[str, Any],
    *,
    queue: str | None,
    label: list[str] | None,
    priority: int,
    at: datetime | None,
    watch: bool,
    remote: str | None,
) -> int:
    """Begin a run here, send it, and put it into the queue."""
    asked = playbook.asked(said, door.setup.asking(playbook))
    door.errand.playbook, door.errand.key = playbook.name, playbook.key(asked.inputs)
    named = queue or door.setup.settings.fleet.queue
    when = at.astimezone() if at is not None else None
    wish = Wish(named, tuple(sorted(label or ())), priority, when, remote_of(door, remote))
    view = PlainView(door.errand, keep_output=door.json)
    done = _given(door, view, playbook, asked, wish)
    if not isinstance(done, Handed):  # there was nothing in it for anybody to do
        return deliver(door, done, view.said, asks=False)
    if watch:
        complain(f"Run {done.identity.run_id} is queued.")
        _watched(door, done.identity.run_id)
    return _told(door, done)


def _given(door: Door, view: PlainView, playbook: Playbook, asked: Asked, wish: Wish) -> Handed | Finished:
    """The run that is asked for is with the fleet; how it ended, where it had nothing to do.

    Whoever was cut off on the way asks again for the same: what was begun is sent, what was sent is queued.
    """
    runs = door.runs(view)
    call = door.call(flags=asked.flags, note=asked.note)
    before = _sent_before(door, playbook)

    async def give() -> Handed | Finished:
        async with open_queue(door) as queue:
            begun = await runs.begin(playbook, asked.inputs, call)
            if begun.run_id is None or (begun.lines and begun.lines[-1].event == "run.end"):
                return begun
            door.errand.run_id = begun.run_id
            identity = runs.find(begun.run_id).identity
            if before is not None and before.run_id == begun.run_id:
                return Handed(identity, await before.see_queued(queue, wish.at))
            depot = depot_of(runs, door.setup)
            orders = _orders(door, wish, call.flags, await needs_of(door, identity, playbook, wish))
            sent = await _sent(runs, depot, begun, wish.remote, orders)
            return Handed(identity, await _queued(queue, order_of(sent, by=depot.who), wish.at))

    return finish(give())


def _sent_before(door: Door, playbook: Playbook) -> FarRun | None:
    """The last run of the key where it was sent away from here, as its remote has it now."""
    from interlock.engine.folder import last_run
    from interlock.fleet.carried import SENDING

    known = last_run(door.root, playbook.name, door.errand.key or "")
    note = known.folder.elsewhere() if known is not None else None
    if known is None or note is None or note.how == SENDING:  # whether it was sent shows when it is sent again
        return None
    return far_run(door, known, "submit a run")


def _orders(door: Door, wish: Wish, flags: Mapping[str, Any], needs: Needs) -> dict[str, Any]:
    """What those who work on it are asked."""
    orders: dict[str, Any] = {"queue": wish.queue, "labels": list(wish.labels), "priority": wish.priority}
    orders |= {"runner": door.runner} if door.runner else {}
    orders |= {"budget": door.budget} if door.budget is not None else {}
    orders |= {"flags": dict(flags)} if flags else {}
    return {**orders, "needs": needs.to_json()}


async def _sent(runs: Runs, depot: Depot, begun: Finished, remote: str, orders: Mapping[str, Any]) -> Possession:
    """What the remote says of the run that was begun; where it cannot be sent, it ends."""
    from interlock.engine.people import cancel
    from interlock.fleet.remote import PushRefused

    assert begun.run_id is not None
    try:
        return await depot.left(await depot.send(begun.run_id, remote, orders))
    except (Refused, PushRefused):
        if len(begun.lines) == 1:  # it was begun for this, and nobody will go on with it
            await cancel(runs, begun.run_id)
        raise


async def _queued(queue: Queue, order: Order, at: datetime | None) -> Queued:
    try:
        return await queue.put(order, at=at)
    except InterlockError as error:
        error.remedy = (
            f"Run {order.run} was sent, and nobody is asked to work on it. When this is mended, submit it again, or: "
            f"interlock resume {order.run}"
        )
        raise


def _told(door: Door, done: Handed) -> int:
    from interlock.pages import headline

    run_id, how = done.identity.run_id, "already" if done.queued is Queued.ALREADY else "for the fleet"
    if door.json:
        about = replace(door.errand, run_id=run_id, started_at=None)
        print_json(envelope(about, status="queued", exit_code=0, reason="waits for a worker"))
    else:
        print_lines([run_id])
    complain(
        f"{headline(done.identity)}: run {run_id} is queued {how}.",
        f"  watch it: {door.spoken(f'watch {run_id}')}",
        f"  see why it waits: {door.spoken('fleet')}",
        f"  its work, when it is done: {door.spoken(f'fetch {run_id}')}",
    )
    return 0


def _watched(door: Door, run_id: str) -> NoReturn:
    """This process goes on as `watch`."""
    _become("-m", "interlock", "-C", str(door.root), "watch", run_id, *(("--json",) if door.json else ()))


def _become(*words: str) -> NoReturn:
    """This process goes on as a fresh one of this Python."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *words])


async def needs_of(door: Door, identity: Identity, playbook: Playbook, wish: Wish) -> Needs:
    """What the run needs of a worker."""
    from interlock.fleet.needs import Needs, place_of

    return Needs(
        repository=place_of(await address_of(door, wish.remote)),
        labels=wish.labels,
        programs=door.setup.programs_of(playbook),
        playbook=playbook.name if (files := door.library.needs_trust(identity)) else "",
        files=files,
    )


async def address_of(door: Door, remote_name: str) -> str:
    """Where a remote is, as git in the workspace knows it."""
    from interlock.workspace.git import UsersGit

    reply = await UsersGit(door.root, door.environ).run("remote", "get-url", "--", remote_name, reads=True)
    found = reply.text.strip() if reply.code == 0 else remote_name
    here = door.root / found
    return str(here.resolve()) if "://" not in found and here.is_dir() else found


@command("worker", example="interlock worker --labels gpu", panel=ELSEWHERE)
def worker(
    door: Door,
    queues: Annotated[
        str | None,
        typer.Option("--queues", metavar="A,B", help="Queues to serve. Default: all.", show_default=False),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option("--labels", metavar="A,B", help="What this machine has, beside fleet.labels.", show_default=False),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="What it is called.", show_default=False)
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End after one run.")] = False,
) -> int:
    """Work on runs of the fleet, one after the other, until it is stopped.

    A first TERM or Ctrl-C lets the agents at work finish and hands the run over, a second one hands it over at once.
    It ends with 75 when somebody else took its run over, with 69 when it reached nobody: have it started again then.
    """
    from interlock.agents.process_table import PLACE
    from interlock.fleet.worker import hear, own_folder
    from interlock.fleet.working import WorkerTold

    hear(told := WorkerTold())
    queue, fleet = open_queue(door, patient=True), door.setup.settings.fleet
    above = Path(fleet.folder) if fleet.folder else door.root / ".interlock" / "fleet"
    above = above if above.is_absolute() else door.root / above
    with own_folder(above) as folder:
        os.environ[PLACE] = str(folder)
        means = finish(_means(door, _words(queues), _words(labels), name or f"{socket.gethostname()}-{folder.name}"))
        order = finish(_one(door, queue, folder, means, told))
    if once or order is None or told.leave.is_set():  # it can have been told until just now
        return 0
    _become(*sys.orig_argv[1:])  # each run has a process of its own


def _words(said: str | None) -> frozenset[str]:
    return frozenset(word.strip() for word in (said or "").split(",") if word.strip())


async def _means(door: Door, queues: frozenset[str], labels: frozenset[str], name: str) -> Means:
    """What this machine has."""
    from interlock.agents.environment import without_our_own
    from interlock.fleet.needs import Means, place_of

    fleet, library = door.setup.settings.fleet, door.library
    addresses = fleet.repositories or (await address_of(door, fleet.remote),)
    path = without_our_own(door.environ, door.root).get("PATH")
    return Means(
        name=name,
        repositories={place_of(address): address for address in addresses},
        labels=labels | set(fleet.labels),
        queues=queues,
        has_program=lambda program: shutil.which(program, path=path) is not None,
        trusts=library.trust.knows,
    )


async def _one(door: Door, queued: Queue, folder: Path, means: Means, told: WorkerTold) -> Order | None:
    from interlock.fleet.clones import Clones
    from interlock.fleet.orders import Timing
    from interlock.fleet.worker import Worker

    fleet = door.setup.settings.fleet
    view = PlainView(door.errand, keep_output=False, verbose=door.verbose)
    with HeardView(door, view) as heard:  # whom this machine's settings name
        async with queued as queue:
            made = Worker(
                queue,
                means,
                Clones(folder, door.environ),
                place_for(door, means.name),
                heard,
                door.environ,
                told,
                stall_s=fleet.stall_s,
                timing=Timing.of(fleet.heartbeat_s, fleet.poll_s),
            )
            view.remark(f"{means.name} works for {', '.join(means.repositories)}; stop it with Ctrl-C or TERM")
            return await made.one()


def place_for(door: Door, name: str) -> WorkPlace:
    """Workspaces of runs, as the settings in them say; how programs are kept apart is this machine's to say."""
    from interlock.app import FromSettings, open_runs
    from interlock.engine.runs import Quiet
    from interlock.finding import Library

    sandbox = door.setup.settings.sandbox

    def place(
        root: Path, orders: Mapping[str, Any], view: View | None, follower: Follower | None
    ) -> tuple[Runs, Depot]:
        runs = open_runs(
            root,
            view or Quiet(),
            environ=door.environ,
            runner=orders.get("runner"),
            found=Library(root, door.environ, anywhere=True),
            sandbox=sandbox,
            follower=follower,
            interrupts=(),
        )
        setup = runs.setup
        assert isinstance(setup, FromSettings)
        return runs, depot_of(runs, setup, name)

    return place


# -- how the fleet stands


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

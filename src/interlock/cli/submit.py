"""`submit` and `worker`: runs for a fleet, and a machine that works on them."""

from __future__ import annotations

import inspect
import os
import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from interlock.cli.commands import ELSEWHERE, command
from interlock.cli.door import Door, finish
from interlock.cli.elsewhere import depot_of
from interlock.cli.fleet import open_queue
from interlock.cli.live import PlainView
from interlock.cli.moving import RemoteName, remote_of
from interlock.cli.output import complain, envelope, print_json, print_lines
from interlock.cli.playbooks import Playbooks, command_for, group
from interlock.cli.run import deliver
from interlock.errors import Refused

if TYPE_CHECKING:
    from interlock.engine import Playbook
    from interlock.engine.identity import Identity
    from interlock.engine.playing import Finished
    from interlock.engine.runs import Follower, Runs, View
    from interlock.fleet.depot import Depot
    from interlock.fleet.needs import Means, Needs
    from interlock.fleet.queue import Queue
    from interlock.fleet.working import WorkPlace

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


def _option(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


ALSO = (
    _option("queue", QueueName, None),
    _option("label", Labels, None),
    _option("priority", Priority, 0),
    _option("at", At, None),
    _option("watch", Watch, False),
    _option("remote", RemoteName, None),
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
    from interlock.engine.people import cancel
    from interlock.fleet.depot import Moved
    from interlock.fleet.orders import Order
    from interlock.fleet.remote import PushRefused

    setup = door.setup
    asked = playbook.asked(said, setup.asking(playbook))
    door.errand.playbook, door.errand.key = playbook.name, playbook.key(asked.inputs)
    view = PlainView(door.errand, keep_output=door.json)
    runs = door.runs(view)
    depot = depot_of(runs, setup)
    remote_name = remote_of(door, remote)
    call = door.call(flags=asked.flags, note=asked.note)
    fleet = setup.settings.fleet
    labels = tuple(sorted(label or ()))
    orders: dict[str, Any] = {"queue": queue or fleet.queue, "labels": list(labels), "priority": priority}
    orders |= {"runner": door.runner} if door.runner else {}
    orders |= {"budget": door.budget} if door.budget is not None else {}
    orders |= {"flags": dict(call.flags)} if call.flags else {}

    async def submitted() -> Moved | Finished:
        async with open_queue(door) as queued:
            finished = await runs.begin(playbook, asked.inputs, call)
            if finished.run_id is None or (finished.lines and finished.lines[-1].event == "run.end"):
                return finished
            door.errand.run_id = finished.run_id
            identity = runs.find(finished.run_id).identity
            needs = await needs_of(door, identity, playbook, remote_name, labels)
            try:
                moved = await depot.send(finished.run_id, remote_name, {**orders, "needs": needs.to_json()})
            except (Refused, PushRefused):
                if len(finished.lines) == 1:  # it was begun for this, and nobody will go on with it
                    await cancel(runs, finished.run_id)
                raise
            order = Order(
                run=finished.run_id,
                playbook=playbook.name,
                key=identity.key,
                about=_headline(identity),
                needs=needs,
                queue=orders["queue"],
                priority=priority,
                by=depot.who,
            )
            await queued.put(order, at=at.astimezone() if at is not None else None)
            return moved

    done = finish(submitted())
    if not isinstance(done, Moved):  # there was nothing in it for anybody to do
        return deliver(door, done, view.said, asks=False)
    if watch:
        complain(f"Run {done.run_id} is queued.")
        _watched(door, done.run_id)
    if door.json:
        about = replace(door.errand, run_id=done.run_id, started_at=None)
        print_json(envelope(about, status="queued", exit_code=0, reason="waits for a worker"))
    else:
        print_lines([done.run_id])
    complain(
        f"{_headline(runs.find(done.run_id).identity)}: run {done.run_id} is queued for the fleet.",
        f"  watch it: {door.spoken(f'watch {done.run_id}')}",
        f"  see why it waits: {door.spoken('fleet')}",
        f"  its work, when it is done: {door.spoken(f'fetch {done.run_id}')}",
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


def _headline(identity: Identity) -> str:
    from interlock.pages import headline

    return headline(identity)


async def needs_of(
    door: Door, identity: Identity, playbook: Playbook, remote_name: str, labels: tuple[str, ...]
) -> Needs:
    """What the run needs of a worker."""
    from interlock.fleet.needs import Needs, place_of

    return Needs(
        repository=place_of(await address_of(door, remote_name)),
        labels=labels,
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
    from interlock.fleet.worker import own_folder

    queue, fleet = open_queue(door, patient=True), door.setup.settings.fleet
    above = Path(fleet.folder) if fleet.folder else door.root / ".interlock" / "fleet"
    above = above if above.is_absolute() else door.root / above
    with own_folder(above) as folder:
        os.environ[PLACE] = str(folder)
        means = finish(_means(door, _words(queues), _words(labels), name or f"{socket.gethostname()}-{folder.name}"))
        order, left = finish(_one(door, queue, folder, means))
    if once or left or order is None:
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


async def _one(door: Door, queued: Queue, folder: Path, means: Means) -> tuple[Any, bool]:
    from interlock.fleet.clones import Clones
    from interlock.fleet.orders import Timing
    from interlock.fleet.worker import Worker

    fleet = door.setup.settings.fleet
    view = PlainView(door.errand, keep_output=False, verbose=door.verbose)
    async with queued as queue:
        made = Worker(
            queue,
            means,
            Clones(folder, door.environ),
            place_for(door, means.name),
            view,
            door.environ,
            stall_s=fleet.stall_s,
            timing=Timing.of(fleet.heartbeat_s, fleet.poll_s),
        )
        view.remark(f"{means.name} works for {', '.join(means.repositories)}; stop it with Ctrl-C or TERM")
        return await made.one(), made.told.leave.is_set()


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

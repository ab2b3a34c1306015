"""`interlock fleet ...`: runs between machines, in words (FLEET-01 to FLEET-06)."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

from interlock.app import Watcher
from interlock.cli import text
from interlock.cli.door import Door
from interlock.cli.output import print_json, print_lines, tell
from interlock.cli.trusting import settings_count
from interlock.cli.working import understood
from interlock.engine.playbook import Playbook
from interlock.errors import BadInput
from interlock.fleet import far, moving
from interlock.fleet.carriage import About
from interlock.fleet.queue import Queue, named
from interlock.settings import reaches_out

FEW = 12
UNIT = """\
# What keeps a worker at work: ~/.config/systemd/user/interlock-worker.service
[Unit]
Description=interlock worker
After=network-online.target

[Service]
WorkingDirectory={top}
EnvironmentFile=%h/.config/interlock/worker.env
ExecStart={program} fleet work
KillMode=mixed
TimeoutStopSec=120
Restart=on-failure

[Install]
WantedBy=default.target
"""


def _person(door: Door) -> None:
    door.people_only("move runs between machines")
    reaches = any(name.startswith("fleet.") for name in reaches_out(door.place.settings))
    if reaches and moving.WORKER not in os.environ:  # a worker has said which remote counts
        settings_count(door)


def send(door: Door, run: str) -> int:
    _person(door)
    entry = door.find(run)
    about = moving.send(door.place, entry)
    remote = moving.remote_of(door.place).shown
    return door.done(
        door.runs.find(entry.id),
        f"Run {entry.id} is {about.status}, and waits on {remote} with its workspace.",
        f"  go on elsewhere: interlock fleet take {entry.id}",
    )


def take(door: Door, run: str, *, over: bool) -> int:
    _person(door)
    taken = moving.take(door.place, run, over=over)
    rows = [f"Run {run} is here: {taken.headline}"]
    if taken.laid:
        rows.append(f"  {text.count(len(taken.laid), 'file')} as the run has them: {text.few(taken.laid, FEW)}")
    if taken.away:
        rows.append(f"  another branch is checked out; its files come with: git checkout {taken.away}")
    return door.done(door.runs.find(run), *rows, f"  go on with it: interlock resume {run}")


def fetch(door: Door, run: str) -> int:
    _person(door)
    found = moving.fetch(door.place, run)
    rows = [f"Run {run} is {found.about.status}: {found.about.headline}"]
    rows += [f"  its work: git log -p {found.branch}"] if found.branch else []
    rows += [f"  documents: {text.few(found.documents, FEW)}"] if found.documents else []
    rows += [f"  left as you have them: {text.few(found.left, FEW)}"] if found.left else []
    return door.done(door.runs.find(run), *rows, f"  look at it: interlock show {run}")


# --- workers


def submit(door: Door, playbook: Playbook, given: dict[str, Any]) -> int:
    """Give a run to workers; asked again, what was cut off between begun, sent and queued is put right."""
    from interlock.fleet.worker import needs_of

    _person(door)
    place = door.place
    inputs, flags, note = understood(door, playbook, given)
    if flags is not None and (lost := flags.model_fields_set - {"note", "new_run"}):
        said = ", ".join(f"--{name.strip('_').replace('_', '-')}" for name in sorted(lost))
        raise BadInput(f"a run that is given to workers takes no {said}", remedy="Say it later: interlock resume RUN")
    queue, needs = Queue(place.settings.fleet.database), needs_of(place, playbook, door.runner)
    queue.jobs()  # whether it answers: else nothing begins
    key = playbook.key(inputs, place.trees.where())
    for entry in place.runs.far():
        if (entry.first.get("playbook"), entry.first.get("key")) == (playbook.name, key) and entry.held.get("sent"):
            if entry.held.get("leaving"):  # it was cut off on its way: here again it is open, and sent anew
                moving.take(place, entry.id)
                break
            place.runs.look(entry.id)
            if entry.view().status.is_open:
                return door.done(entry, f"Run {entry.id} of the same is open; {far.wake(place, entry)} takes it up")
    begun = place.run(playbook, inputs, Watcher(), runner=door.runner, said=note, flags=flags, works=False)
    entry, _ = asyncio.run(begun)
    moving.send(place, entry, needs)
    queue.put(entry.id, needs)
    rows = ("  watch it: interlock watch", "  its work, then: interlock fleet fetch")
    return door.done(door.runs.find(entry.id), f"Run {entry.id} is queued.", *(f"{row} {entry.id}" for row in rows))


def work(door: Door, name: str, labels: Sequence[str]) -> int:
    from interlock.fleet.worker import Worker

    _person(door)
    queue = Queue(door.place.settings.fleet.database)
    queue.jobs()
    return Worker(door.place, queue, name, labels).serve()


def setup(door: Door, *, database: bool) -> int:
    """What workers need; the database is made ready where that is asked for."""
    _person(door)
    if not database:
        program = shutil.which("interlock") or "interlock"
        print_lines(
            [
                "# 1. PostgreSQL. Who submits or works has its address in the environment, workers in worker.env:",
                "#    INTERLOCK_FLEET_DATABASE=postgresql://USER:PASSWORD@HOST/NAME?sslmode=verify-full",
                "# 2. Its tables, once and after updates: interlock fleet setup --database",
                "# 3. On each worker a clone of the repository, whoever runs agents signed in, and this unit:",
                *UNIT.format(top=door.workspace.top, program=program).splitlines(),
            ]
        )
        return 0
    done = Queue(door.place.settings.fleet.database).setup()
    tell(*(f"{one}." for one in done), "The database is ready: interlock fleet work, interlock fleet submit")
    return 0


# --- how it stands


def overview(door: Door) -> int:
    """Runs that the remote has, who works, what waits and why."""
    _person(door)
    settings = door.place.settings.fleet
    runs = list(far.everything(door.place))
    queue = Queue(settings.database) if settings.database else None
    jobs, workers = (queue.jobs(), queue.workers()) if queue else ([], [])
    told = {job["args"]["run"]: _stands(job, workers) for job in jobs}
    if door.json:
        facts = [one.model_dump(mode="json", include=set(FACTS)) | {"job": told.get(one.run)} for one in runs]
        print_json({"runs": facts, "workers": workers, "exit_code": 0})
        return 0
    print_lines(_listed(runs, told, queue is not None))
    print_lines([f"{one['name']}  {one['run'] or 'idle'}" for one in workers])
    if queue and not workers:
        tell("No worker is there. Start one: interlock fleet work")
    return 0


FACTS = ("run", "playbook", "headline", "status", "at", "holder")


def _listed(runs: Sequence[About], told: dict[str, str], queued: bool) -> Iterator[str]:
    for one in runs:
        who = one.holder or "nobody"
        why = told.get(one.run, "")
        if queued and not why and not one.holder and one.status == "interrupted":
            why = f"nobody is asked to work on it: interlock resume {one.run}"
        status = "queued" if why.startswith("waits") else one.status
        yield text.line(f"{one.run}  {status:11}  {who:20}  {one.headline}", text.WIDTH)
        yield from [f"  {why}"] if why else []


def _stands(job: dict[str, Any], workers: Sequence[dict[str, Any]]) -> str:
    """Where a job is, and why, in words."""
    from interlock.fleet.worker import why_it_waits

    if job["status"] == "failed":
        return f"given up: {job['args'].get('why') or 'the log of its worker says why'}"
    if job["status"] == "doing":
        return (
            f"{job['worker']} works on it" if job["alive"] else "its worker gives no sign of life: others will take it"
        )
    return f"waits: {why_it_waits(job, workers, named(job['args']['needs']))}"

"""`interlock fleet ...`: runs between machines, in words (FLEET-01 to FLEET-06)."""

from __future__ import annotations

from interlock.cli import failures, text
from interlock.cli.door import Door
from interlock.cli.output import print_json, tell
from interlock.cli.trusting import settings_count
from interlock.fleet import moving
from interlock.fleet.carriage import About

FEW = 12


def _person(door: Door) -> None:
    door.people_only("move runs between machines")
    settings_count(door)


def _said(door: Door, run: str, *rows: str) -> int:
    tell(*(failures.here(row, door.dir) for row in rows))
    if door.json:
        print_json(door.runs.find(run).view().to_json() | {"exit_code": 0})
    return 0


def send(door: Door, run: str) -> int:
    _person(door)
    entry = door.find(run)
    about = moving.send(door.place, entry)
    remote = moving.remote_of(door.place).shown
    return _said(
        door,
        entry.id,
        f"Run {entry.id} is {about.status}, and waits on {remote} with its workspace.",
        f"  go on elsewhere: interlock fleet take {entry.id}",
    )


def take(door: Door, run: str, *, over: bool) -> int:
    _person(door)
    taken = moving.take(door.place, run, over=over)
    rows = [f"Run {run} is here: {taken.about.headline}"]
    if taken.laid:
        rows.append(f"  {text.count(len(taken.laid), 'file')} as the run has them: {text.few(taken.laid, FEW)}")
    if taken.away:
        rows.append(f"  another branch is checked out; its files come with: git checkout {_branch(taken.about)}")
    return _said(door, run, *rows, f"  go on with it: interlock resume {run}")


def _branch(about: About) -> str:
    return str(about.where.branch).removeprefix("refs/heads/")


def fetch(door: Door, run: str) -> int:
    _person(door)
    found = moving.fetch(door.place, run)
    rows = [f"Run {run} is {found.about.status}: {found.about.headline}"]
    rows += [f"  its work: git log -p {found.branch}"] if found.branch else []
    rows += [f"  documents: {text.few(found.documents, FEW)}"] if found.documents else []
    rows += [f"  left as you have them: {text.few(found.left, FEW)}"] if found.left else []
    return _said(door, run, *rows, f"  look at it: interlock show {run}")

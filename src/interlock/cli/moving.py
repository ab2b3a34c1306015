"""`send`, `take`, `fetch`: a run moves to another clone, with nothing but git between them."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.commands import ELSEWHERE, RunName, command
from interlock.cli.door import Door, finish
from interlock.cli.elsewhere import open_depot
from interlock.cli.output import complain

if TYPE_CHECKING:
    from interlock.fleet import Moved

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


@command("send", example="interlock send latest", panel=ELSEWHERE)
def send(door: Door, run: RunName, remote: RemoteName = None) -> int:
    """Give a run away that nobody works on: another clone takes it and goes on, with the exact tree as it is here."""
    moved = _moved(door, open_depot(door).send(run, remote_of(door, remote)))
    _tell(door, moved, f"Run {moved.run_id} waits on {moved.remote}; here it rests.")
    complain(f"  go on in another clone: interlock take {moved.run_id}")
    return 0


@command("take", example="interlock take feature-20260102-0304", honours=("take_over",), panel=ELSEWHERE)
def take(door: Door, run: RunName, remote: RemoteName = None) -> int:
    """Take a run that somebody sent: its tree, its branch and its folder come here, and here it goes on."""
    moved = _moved(door, open_depot(door).take(run, remote_of(door, remote), take_over=door.take_over))
    _tell(door, moved, f"Run {moved.run_id} is here now.")
    if moved.branch:
        complain(f"  branch: {moved.branch}")
    complain(f"  go on with: {door.spoken(f'resume {moved.run_id}')}")
    return 0


@command("fetch", example="interlock fetch feature-20260102-0304", panel=ELSEWHERE)
def fetch(door: Door, run: RunName, remote: RemoteName = None) -> int:
    """Bring branch, documents and folder of a run here, to look at; it stays where it is."""
    moved = _moved(door, open_depot(door).fetch(run, remote_of(door, remote)))
    _tell(door, moved, f"Run {moved.run_id} can be looked at here: {door.spoken(f'show {moved.run_id}')}")
    if moved.branch:
        complain(f"  its work is on branch {moved.branch}")
    if moved.conflict:
        complain(f"  its documents were not written here: {moved.conflict}")
    return 0


def _moved(door: Door, work: Coroutine[Any, Any, Moved]) -> Moved:
    moved = finish(work)
    door.errand.run_id = moved.run_id
    return moved


def _tell(door: Door, moved: Moved, text: str) -> None:
    if door.json:
        door.give(asdict(moved))
    complain(text)

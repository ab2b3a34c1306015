"""`recover`: a run whose records were damaged goes on with what is whole of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from interlock.cli.desk import Desk
from interlock.cli.options import RunName, command
from interlock.cli.output import print_json, print_lines
from interlock.cli.overview import lock_notes
from interlock.cli.panels import WORKSHOP
from interlock.engine.folder import HOME, RunFolder, find_run, run_folders
from interlock.errors import Locked

if TYPE_CHECKING:
    from interlock.engine.salvage import Salvaged


def add(app: typer.Typer) -> None:
    @command(app, "recover", example="interlock recover latest", panel=WORKSHOP)
    def recover(desk: Desk, run: RunName) -> int:
        """Put the damaged records of a run back as far as they are whole; what was found is kept beside them."""
        folder = _find(desk, run)
        said = mend(desk, folder)
        if desk.json:
            print_json({"run_id": folder.run_id, **asdict(said)})
        else:
            print_lines(_told(desk, folder, said))
        return 0


def _find(desk: Desk, name: str) -> RunFolder:
    """The run that is meant, also one whose ``run.json`` cannot be read."""
    exactly = [folder for folder in run_folders(desk.root) if folder.run_id == name]
    return exactly[0] if exactly else find_run(desk.root, name).folder


def mend(desk: Desk, folder: RunFolder) -> Salvaged:
    """Recover the run, with its lock held."""
    from dataclasses import replace

    from interlock.engine.journal import stamp_now
    from interlock.engine.locks import Holder, run_lock
    from interlock.engine.nesting import only_people
    from interlock.engine.salvage import put_back_identity, salvage

    only_people(desk.environ, desk.root, "recover a run")
    note = lock_notes(desk.root).get(folder.run_id)
    if note is not None and (holder := Holder.read(note[0])) is not None and holder.lives:
        raise Locked(
            f"{folder.run_id} is being worked on by {holder}",
            holder=holder.to_json(),
            remedy=f"Wait until it has stopped, or end it: {desk.spoken(f'cancel {folder.run_id}')}",
        )
    wrong = put_back_identity(folder)
    identity = folder.identity()
    lock = run_lock(desk.root / HOME, identity.playbook, identity.key)
    lock.acquire(folder.run_id)
    try:
        said = salvage(folder, stamp_now)
    finally:
        lock.release()
    if wrong is None:
        return said
    return replace(said, findings=(wrong, *said.findings), mended=("run.json", *said.mended))


def _told(desk: Desk, folder: RunFolder, said: Salvaged) -> list[str]:
    if not said.findings:
        return [f"{folder.run_id}: nothing is damaged; nothing was changed."]
    lines = [f"{folder.run_id}: {said.lines} lines of its journal are whole."]
    lines += [f"  was wrong: {finding}" for finding in said.findings]
    if said.dropped:
        lines.append(f"  gone: {said.dropped} lines; what they stood for happens again")
    lines += [f"  put back: {name}" for name in said.mended]
    lines += [f"  kept as it was found: {folder.shown(folder.path / name)}" for name in said.aside]
    return [*lines, f"  go on with: {desk.spoken(f'resume {folder.run_id}')}"]

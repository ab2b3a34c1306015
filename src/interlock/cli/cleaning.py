"""`runs --clean`: what runs left behind; never an open run, never work that nobody took over (CLI-08)."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from interlock.cli import text
from interlock.cli.door import Door
from interlock.cli.output import tell
from interlock.engine.runs import Entry
from interlock.errors import InterlockError


def clean_up(door: Door, days: int, *, dry: bool) -> int:
    """Layers of runs that have ended; and whole runs that ended so many days ago."""
    door.people_only("clean up")
    limit = datetime.now(UTC) - timedelta(days=days)
    kept, removed = 0, list[tuple[str, str, int]]()
    for entry in door.runs.all():
        head = entry.head()
        if head is None or not head.status.has_ended or entry.holder() is not None:
            continue
        old = head.changed < limit
        if old and _has_work(door, entry):
            old, kept = False, kept + 1
        freed = _size(door.place.workspace.own / "layers" / entry.id) + (_size(entry.path) if old else 0)
        if old or freed:
            removed.append((entry.id, "run" if old else "layers", freed))
            if not dry:
                with entry.lock():
                    door.place.forget(entry) if old else door.place.layers.clean(entry.id)
    total = sum(freed for _, _, freed in removed)
    named = [dict(zip(("run_id", "what", "bytes"), one, strict=True)) for one in removed]
    lines = (f"{run}  {text.padded(what, 6)}  {text.size(freed)}" for run, what, freed in removed)
    door.says({"removed": named, "bytes": total, "kept": kept, "dry_run": dry}, lines)
    tell(f"{'Would free' if dry else 'Freed'} {text.size(total)} of {text.count(len(removed), 'run')}.")
    if kept:
        tell(f"{text.count(kept, 'old run')} kept: there is work that nobody took over (interlock diff RUN)")
    return 0


def _has_work(door: Door, entry: Entry) -> bool:
    try:
        work = door.work(entry.view())
    except InterlockError:
        return True
    return bool(work.pending or work.held or work.problem)


def _size(folder: Path) -> int:
    return sum((Path(parent) / name).lstat().st_blocks * 512 for parent, _, names in os.walk(folder) for name in names)

"""What a playbook can learn of its workspace as a whole and of its own run: functions to which it hands its run.

A log that is made from the journal is a projection, completed by sequence number: no line is lost or doubled (EN-12).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from interlock.engine.journal import Line
from interlock.engine.model import Changed
from interlock.engine.run import Run, behind
from interlock.telemetry import dispatch_rows
from interlock.workspace import Scope

Render = Callable[[Line], Mapping[str, Any] | None]
"""What a journal line looks like in the log; None when it does not belong there. Pure."""


# -- the workspace


def place_of(run: Run, path: str) -> str:
    """The absolute path of a file: for messages to people, never for a digest."""
    return str(behind(run).world.tree.root / path)


def is_guarded(run: Run, path: str) -> bool:
    """Whether a path is one that no program may change unless its scope names it (LY-33)."""
    return behind(run).guarded(path)


async def snapshot(run: Run) -> Any:
    """The workspace as it is now, to be asked later what there is `changed_since`."""
    slot = behind(run).recall("snapshot", {})
    if not slot.recorded:
        behind(run).materialize()
        slot.settle("snapshot", await behind(run).world.tree.snapshot())
    return slot.value()


async def changed_since(
    run: Run, then: Any, *, besides: Sequence[str] = (), only: Collection[str] | None = None
) -> Changed:
    """What changed since a snapshot, paths under these globs left out; the difference is kept in the run folder.

    Args:
        only: the files that are looked at, where others change the workspace too.
    """
    named = {} if only is None else {"only": sorted(only)}
    slot = behind(run).recall("changes", {"since": then, "besides": list(besides), **named})
    if not slot.recorded:
        left_out, world = Scope(tuple(besides)), behind(run).world
        now = await world.tree.snapshot()
        paths = [one.path for one in await world.tree.changes(then, now) if not left_out.covers(one.path)]
        paths = [path for path in paths if only is None or path in only]
        patch = await world.tree.patch(then, now, paths) if paths else b""
        lines = sum(line[:1] in (b"+", b"-") and line[:4] not in (b"+++ ", b"--- ") for line in patch.split(b"\n"))
        kept = world.records.keep(slot.key, "changes.patch", patch)
        slot.settle("changes", asdict(Changed(tuple(paths), lines, kept)))
    return Changed.from_json(slot.value())


# -- the run


def dispatch_facts(run: Run) -> Sequence[dict[str, Any]]:
    """The facts of all dispatches so far."""
    slot = behind(run).recall("telemetry", {})
    if not slot.recorded:
        slot.settle("telemetry", dispatch_rows(behind(run).journal.lines))
    return list(slot.value())


async def project(run: Run, path: str, render: Render) -> None:
    """Bring a log up to date with the journal; `render` says what each line looks like there, or None."""
    recording = behind(run)
    slot = recording.recall("project", {"path": path})
    if slot.recorded:
        return
    recording.materialize()
    documents = recording.world.documents
    before = documents.read(path)
    log = completed(before.text, recording.journal.lines, render)
    if log != before.text:
        recording.effect()
        documents.write(path, log, expect=before.digest)
    slot.settle("project", len(log))


def completed(log: str, lines: Iterable[Line], render: Render) -> str:
    """The log with every line that it lacks. What a person or another run wrote before stays as it is."""
    shown, last = log, last_number(log)
    if shown and not shown.endswith("\n"):
        shown += "\n"
    for line in lines:
        if line.seq > last.get(line.run, 0) and (entry := render(line)) is not None:
            shown += _spelled({"seq": line.seq, "run": line.run, **entry}) + "\n"
    return shown


def _spelled(entry: Mapping[str, Any]) -> str:
    text = json.dumps(entry, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a file's name that is not UTF-8 can only be written as an escape
        return json.dumps(entry)
    return text


def last_number(log: str) -> dict[str, int]:
    """The highest number that the log has of each run; lines that are not ours do not count."""
    last: dict[str, int] = {}
    for text in log.splitlines():
        try:
            entry = json.loads(text)
            run, number = entry["run"], entry["seq"]
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
        if isinstance(run, str) and isinstance(number, int):
            last[run] = max(last.get(run, 0), number)
    return last

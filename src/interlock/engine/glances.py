"""How the runs of a workspace stand, at a glance; cheap enough for hundreds of them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from interlock.documents.files import read_plain
from interlock.engine.folder import ELSEWHERE, HOME, Elsewhere, KnownRun, RunFolder, known_runs
from interlock.engine.head import HeadFile
from interlock.engine.journal import Line
from interlock.telemetry import State, seconds_between, standing

TELLING = (b'"event":"run.', b'"event":"gate.')
"""In lines that tell how a run stands; members of a cluster may write any number of others after them."""
DISPATCH_END = b'"event":"dispatch.end","key":'
LAST_RUNS = 10
ENDED_WELL = ("complete", "degraded")


@dataclass(frozen=True)
class Glance:
    """One run in the list."""

    run_id: str
    playbook: str
    key: str
    status: str
    """An ending, or running, waiting, interrupted."""
    how: str
    """The same in a few words, with what can be done."""
    started_at: str
    last_at: str
    seconds: float
    dispatches: int


def glances(root: Path, playbook: str | None = None) -> Iterator[Glance]:
    """All runs, or those of one playbook, the latest first; each is looked at when it is asked for."""
    live = running(root)
    for known in reversed(known_runs(root)):
        if playbook in (None, known.identity.playbook):
            yield glance(known, live)


def glance(known: KnownRun, live: Mapping[str, str] | None = None) -> Glance:
    """How one run stands, from the end of its journal and from its lock."""
    folder = known.folder
    known_lines = HeadFile(folder.path).read()
    count, lines, dispatches = _telling_lines(folder.path / "journal.jsonl")
    holder = (running(folder.root) if live is None else live).get(folder.run_id)
    if known_lines is not None and count < known_lines.settled.seq:
        stands = "damaged", f"lines of its journal are missing: interlock show {folder.run_id} --verify"
    else:
        stands = told(lines, holder, folder.elsewhere())
    return _glance(known, lines, stands, dispatches)


def glance_of(known: KnownRun, lines: Sequence[Line], holder: str | None, away: Elsewhere | None) -> Glance:
    """The same, for whoever has read the whole journal."""
    dispatches = sum(line.event == "dispatch.end" for line in lines)
    return _glance(known, lines, told(lines, holder, away), dispatches)


def _glance(known: KnownRun, lines: Sequence[Line], stands: tuple[str, str], dispatches: int) -> Glance:
    identity, (status, how) = known.identity, stands
    last = lines[-1].ts if lines else identity.started_at
    now = datetime.now(UTC).isoformat() if status == "running" else last
    seconds = seconds_between(identity.started_at, now)
    return Glance(
        identity.run_id,
        identity.playbook,
        identity.key,
        status,
        how,
        identity.started_at,
        last,
        seconds,
        dispatches,
    )


def told(lines: Sequence[Line], holder: str | None, away: Elsewhere | None = None) -> tuple[str, str]:
    """Status and words of a run, from the lines that tell it and whoever works on it.

    Args:
        away: where the run is, if it is not here: it goes on there, not here.
    """
    if holder is not None:
        return "running", f"running: {holder}"
    now = standing(lines)
    if away is not None and now.state in (State.DECIDED, State.INTERRUPTED, State.CUT_OFF):
        return "waiting", away.who
    return now.status, {
        State.ASKING: "for a decision",
        State.DECIDED: "decided: resume goes on",
        State.PAUSED: f"paused: {now.why}",
        State.INTERRUPTED: "resume goes on",
        State.FAULT: f"fault: {now.why}",
        State.ENDED: now.why,
    }.get(now.state, "its process died: resume goes on")


def typical_seconds(root: Path, playbook: str) -> float | None:
    """How long the last runs of a playbook took that ended well; None when there are none."""
    runs = [known for known in known_runs(root) if known.identity.playbook == playbook][-LAST_RUNS:]
    took = [one.seconds for one in (glance(known, {}) for known in runs) if one.status in ENDED_WELL]
    return statistics.median(took) if took else None


def _telling_lines(path: Path) -> tuple[int, list[Line], int]:
    """How many lines there are; those that tell how the run stands, and the last one whatever it tells; how many
    dispatches are recorded."""
    try:
        raw = read_plain(path)
    except OSError:
        return 0, [], 0
    *before, last = raw.split(b"\n")[:-1] or [b""]  # what no line end follows is torn
    lines = []
    for text in (*(text for text in before if any(mark in text for mark in TELLING)), last):
        with suppress(ValueError, TypeError, RecursionError):
            line = Line(**json.loads(text))
            if isinstance(line.data, dict):
                lines.append(line)
    return raw.count(b"\n"), lines, raw.count(DISPATCH_END)


def running(root: Path) -> dict[str, str]:
    """The runs of this workspace on which somebody works: a living process here, or whoever has it elsewhere."""
    return {**_elsewhere(root), **_here(root)}


def _elsewhere(root: Path) -> dict[str, str]:
    """Of runs that are elsewhere, who worked on them when they were last seen."""
    places = (path.parent.name for path in (root / HOME / "runs").glob(f"*/{ELSEWHERE}"))
    notes = ((name, RunFolder(root, name).elsewhere()) for name in places)
    return {name: note.who for name, note in notes if note is not None and note.held}


def _here(root: Path) -> dict[str, str]:
    if not any((root / HOME / "locks").glob("*.json")):
        return {}
    from interlock.engine.locks import holders

    live = {}
    for run, (lock, holder) in holders(root / HOME).items():
        if holder.elsewhere:
            live[run] = f"process {holder.pid} on {holder.host}, as far as is known here"
        elif not lock.is_free():
            live[run] = f"process {holder.pid}"
    return live

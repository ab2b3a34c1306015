"""`logs` and `why`: what happened in a run, and what made it go the way it went."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock.cli.commands import LOOK, LatestRun, command
from interlock.cli.door import Door
from interlock.cli.elsewhere import Renewal, look
from interlock.cli.output import complain, print_journal_line, print_lines
from interlock.contracts import Evidence
from interlock.documents.files import open_plain, read_plain
from interlock.engine.folder import KnownRun
from interlock.engine.glances import glance
from interlock.engine.journal import Line
from interlock.errors import JournalDamaged, Refused
from interlock.telemetry import (
    Narrator,
    Telling,
    Weight,
    clock,
    dated,
    decision,
    indented,
    is_cancelled,
    is_good,
    lined,
    printable,
    waiting_gate,
)

POLL_S = 0.2
REASONS = ("decide", "dispatch.end", "proof", "gate.decided", "preflight", "work.noticed", "scope.violation", "run.end")
"""Events that move a run."""
LAST = 8
"""Of a run without a named step, so many of them are told: the last."""


@command("logs", example="interlock logs latest --follow", honours=("verbose",), panel=LOOK)
def logs(
    door: Door,
    run: LatestRun = "latest",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, until the run ends.")] = False,
) -> int:
    """Print what happened in a run, event by event; with --json the journal's own lines."""
    known, narrator = look(door, run), Narrator()
    for raw, line in journal(known, Renewal(door, known).when_due if follow else None):
        told = narrator.tell(line)
        if door.json:
            print_journal_line(raw)
        elif door.verbose or told.weight is not Weight.DETAIL:
            print_lines([dated(line, told)])
    known.folder.lines()  # what was shown is what the file has; whether that is all, the run folder knows
    return 0


def journal(known: KnownRun, follow: Callable[[], object] | None = None) -> Iterator[tuple[bytes, Line]]:
    """The lines of a run's journal, each as its bytes and as a line.

    The file is read as it grows: the process that writes it may be any other one.

    Args:
        follow: called again and again while those to come are waited for, up to the end of the run; None: nobody waits.
    """
    reader, ended = JournalReader(known), False
    while True:
        for raw, line in reader.fresh():
            ended = line.event == "run.end" or (ended and line.event not in ("run.reopened", "run.resumed"))
            yield raw, line
        if follow is None or ended:
            return
        time.sleep(POLL_S)
        follow()


class JournalReader:
    """A journal as it grows, read from its beginning."""

    def __init__(self, known: KnownRun) -> None:
        self._path = known.folder.path / "journal.jsonl"
        self._position = self._number = 0

    def fresh(self) -> Iterator[tuple[bytes, Line]]:
        """The lines that came since the last look, each as its bytes and as a line."""
        for raw in _fresh(self._path, self._position):
            self._position += len(raw) + 1
            self._number += 1
            yield raw, _parsed(raw, self._path, self._number)


def _fresh(path: Path, position: int) -> list[bytes]:
    """The whole lines behind a position; a line that is still being written comes with the next look."""
    try:
        descriptor = open_plain(path)
    except FileNotFoundError:
        size = 0
    else:
        with os.fdopen(descriptor, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size >= position:
                file.seek(position)
                return file.read().split(b"\n")[:-1]
    if position:
        raise JournalDamaged(f"the journal is shorter than it was: {size} bytes of {position}", path=str(path))
    return []


def _parsed(raw: bytes, path: Path, number: int) -> Line:
    try:
        return Line(**json.loads(raw))
    except (ValueError, TypeError, RecursionError) as error:
        raise JournalDamaged(f"journal line {number} is not a journal line", path=str(path), line=number) from error


@command("why", example="interlock why latest", honours=("fields",), panel=LOOK)
def why(
    door: Door,
    run: LatestRun = "latest",
    step: Annotated[
        str,
        typer.Argument(metavar="[STEP]", help="A step, an agent, an item or a key of the journal.", show_default=False),
    ] = "",
) -> int:
    """Say why a run went the way it went: the rule, its inputs by name, and the evidence."""
    known = look(door, run)
    lines = known.folder.lines()
    moves = list(_moves(lines, step))
    if not moves and step:
        steps = list(dict.fromkeys(str(line.data["step"]) for line in lines if line.data.get("step")))
        raise Refused(
            f"nothing was decided in {step!r}",
            expected=f"one of {', '.join(steps[:20])}" if steps else "a step of this run",
            remedy=f"See all of them with: {door.spoken(f'logs {known.identity.run_id}')}",
        )
    told = moves if step else moves[-LAST:]
    if door.json:
        door.give({"run_id": known.identity.run_id, "because": [_facts(known, line) for line, _ in told]})
        return 0
    now = glance(known)
    how = f": {indented(lined(now.how), '  ')}" if now.how else ""
    print_lines([f"{known.identity.run_id} is {now.status}{how}"])
    print_lines([text for line, said in told for text in _explained(known, line, said)])
    if now.status not in ("complete", "degraded", "running") and door.library.has(known.identity):
        complain(f"go on with: {door.spoken(_way_on(known, lines))}")
    return 0


def _way_on(known: KnownRun, lines: Sequence[Line]) -> str:
    """The command that lets the run go on; a cancelled one does not, and one at a gate waits for its answer."""
    name = known.identity.run_id
    if is_cancelled(lines):
        return "run --help"
    return f"show {name}" if waiting_gate(lines) is not None else f"resume {name}"


def _moves(lines: Sequence[Line], step: str) -> Iterator[tuple[Line, Telling]]:
    """What moved the run, in the place that is asked for."""
    narrator = Narrator()
    for line in lines:
        told = narrator.tell(line)
        names = [narrator.about(line), line.agent, line.data.get("member"), line.data.get("step"), line.key]
        here = {str(name).lower() for name in (*names, *(line.key or "").split("/"))}
        if line.event in REASONS and (step.lower() in here if step else _tells_something(line, told)):
            yield line, told


def _tells_something(line: Line, told: Telling) -> bool:
    """Whether an event explains the way of the run: not what simply went well, nor bookkeeping."""
    if line.event == "dispatch.end":
        return line.data.get("passed") is not None or not is_good(line.data)
    return told.weight is not Weight.DETAIL


def _explained(known: KnownRun, line: Line, told: Telling) -> list[str]:
    head = f"{clock(line.ts)}  {line.key or ''}".rstrip()
    match line.event:
        case "decide":
            made = decision(line.data)
            given = made.named or ("what the log has at this key",)
            return ["", head, f"  rule: {printable(made.rule)}", *_listed("from", given), f"  result: {made.result}"]
        case "dispatch.end":
            report = _report(known, line)
            shown = Evidence.from_json(report.get("evidence") or {})
            checks = [check.shown for check in shown.checks]
            said = [] if is_good(line.data) else [lined(one) for one in line.data.get("complaints", ())]
            nothing = [f"nothing to run: {shown.nothing_to_run}"] if shown.nothing_to_run else []
            return [
                "",
                head,
                f"  {indented(told.text, '    ')}",
                *_listed("evidence", [*checks, *nothing]),
                *_listed("against", shown.contradictions),
                *_listed("complaint", said),
            ]
    return ["", head, f"  {indented(told.text, '    ')}"]


def _listed(name: str, texts: Sequence[str]) -> list[str]:
    return [f"  {name}: {indented(lined(text), '    ')}" for text in texts]


def _report(known: KnownRun, line: Line) -> dict[str, Any]:
    try:
        value = json.loads(read_plain(known.folder.path / "dispatches" / str(line.key) / "result.json"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _facts(known: KnownRun, line: Line) -> dict[str, Any]:
    facts: dict[str, Any] = {"at": line.ts, "key": line.key, "event": line.event}
    if line.event == "decide":
        out = line.data["out"]
        return {**facts, "rule": out.get("rule"), "inputs": line.data.get("named"), "result": out.get("result")}
    if line.event == "dispatch.end":
        report = _report(known, line)
        names = ("agent", "member", "outcome", "reason", "passed", "complaints", "evidence")
        return {**facts, **{name: report.get(name) for name in names}}
    return {**facts, **{name: value for name, value in line.data.items() if name not in ("in", "out")}}

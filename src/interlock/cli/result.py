"""How a process ended its run: output to stdout, the rest to stderr, or all of it as the one JSON object."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from interlock.cli.changes import branch_line, change_lines, changes_of
from interlock.cli.failures import here, told
from interlock.cli.gates import gate_lines
from interlock.cli.output import as_text, complain, envelope, print_json, write_output
from interlock.engine.changes import Changes
from interlock.engine.glances import ENDED_WELL
from interlock.errors import InterlockError
from interlock.telemetry import (
    State,
    cost_line,
    in_words,
    indented,
    lined,
    printable,
    seconds_between,
    standing,
    totals,
)

if TYPE_CHECKING:
    from interlock.cli.door import Door
    from interlock.engine.playing import Finished


def deliver(door: Door, finished: Finished, said: Sequence[str | bytes], *, asks: bool) -> int:
    """Hand the end of a run over to whoever called; the exit code.

    Args:
        asks: a decision is asked for right behind it, so that nobody needs to be told how to decide.
    """
    if door.json:
        print_json(as_json(finished, said))
    else:
        write_output(finished.output)
        if ends_inside_a_line(finished.output) and sys.stdout.isatty():
            complain("")
    complain(*summary(door, finished, asks=asks))
    return finished.exit_code


def ended_at(finished: Finished) -> str | None:
    """When the run ended, which may be long before this process looked at it; else when this process left it."""
    last = finished.lines[-1] if finished.lines else None
    return last.ts if last is not None and last.event == "run.end" else finished.finished_at


def ends_inside_a_line(output: str | bytes) -> bool:
    return isinstance(output, bytes) and output != b"" and not output.endswith(b"\n")


def as_json(finished: Finished, said: Sequence[str | bytes] = ()) -> dict[str, Any]:
    """The end of a run as the one object of ``--json``."""
    error = {} if finished.error is None else {"error": {"what": finished.error.what, **dict(finished.error.parts())}}
    return envelope(
        status=finished.status.value,
        exit_code=finished.exit_code,
        reason=finished.reason,
        run_id=finished.run_id,
        playbook=finished.playbook,
        key=finished.key,
        output="".join(map(as_text, _with_newlines(said))) + as_text(finished.output),
        gate=finished.gate,
        sums=totals(finished.lines),
        started_at=finished.started_at,
        finished_at=ended_at(finished),
        **error,
    )


def _with_newlines(said: Sequence[str | bytes]) -> list[str | bytes]:
    """Each output as stdout would have had it."""
    return [text + "\n" if isinstance(text, str) and text and not text.endswith("\n") else text for text in said]


def summary(door: Door, finished: Finished, *, asks: bool) -> list[str]:
    """The last lines on stderr, which stay: how it ended, what it took, how to go on."""
    sums = totals(finished.lines)
    lines: list[str] = []
    if finished.error is not None:
        lines += told(finished.error.what, dict(finished.error.parts()), door.occasion)
    what = printable(f"{finished.playbook} {finished.key}", 100)
    took = ""
    if finished.started_at and (end := ended_at(finished)):
        took = f" after {in_words(seconds_between(finished.started_at, end))}"
    dispatches = f"{sums.dispatches} {'dispatch' if sums.dispatches == 1 else 'dispatches'}"
    cost = f", cost {cost_line(sums)}" if sums.dispatches else ""
    lines.append(f"{what}: {finished.status.value}{took}; {dispatches}{cost}")
    if finished.reason and finished.error is None and finished.gate is None:
        label = "reached" if finished.status.value in ENDED_WELL else "reason"
        lines.append(f"  {label}: {indented(lined(here(finished.reason, door.occasion)), '    ')}")
    if finished.run_id is None:
        return lines
    changes = _changes(door, finished.run_id)
    if finished.gate is not None:
        return [*lines, *gate_lines(door, finished.run_id, finished.gate, commands=not asks)]
    if changes is not None:
        lines += change_lines(changes)
    if away(door, finished.run_id):
        return [*lines, f"  next: {door.spoken(f'fetch {finished.run_id}')}"]
    if finished.started_at and sums.dispatches and (branch := branch_line(door.root, finished.started_at)):
        lines.append(f"  branch: {branch}")
    is_open = standing(finished.lines).state is not State.ENDED
    return [*lines, f"  next: {door.spoken(f'{_next(finished.status.value, changes, is_open)} {finished.run_id}')}"]


def away(door: Door, run_id: str) -> bool:
    """Whether the work of a run is elsewhere."""
    try:
        return door.find(run_id).folder.elsewhere() is not None
    except InterlockError:
        return False


def _next(status: str, changes: Changes | None, is_open: bool) -> str:
    """The one command that helps most now."""
    if is_open:
        return "resume"
    if status in ENDED_WELL:
        return "diff" if changes is not None and changes.code else "show"
    return "why"


def _changes(door: Door, run_id: str) -> Changes | None:
    """What the run changed; None where that cannot be read any more."""
    try:
        known = door.find(run_id)
        return changes_of(known, known.folder.lines())
    except (InterlockError, OSError, LookupError, ValueError):  # the run is what counts; `diff` says what is wrong
        return None

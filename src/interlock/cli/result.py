"""How a process ended its run: output to stdout, the rest to stderr, or all of it as the one JSON object."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from interlock.cli.changes import Changes, branch_line, change_lines, changes_of
from interlock.cli.envelope import envelope
from interlock.cli.failures import here, told
from interlock.cli.gates import can_ask, gate_lines, notify
from interlock.cli.output import as_text, complain, print_json, write_output
from interlock.cli.overview import ENDED_WELL
from interlock.engine.folder import find_run
from interlock.engine.lifecycle import ended_as
from interlock.errors import InterlockError
from interlock.telemetry import (
    cost_line,
    in_words,
    indented,
    lined,
    printable,
    seconds_between,
    totals,
    write_report,
)

if TYPE_CHECKING:
    from interlock.cli.desk import Desk
    from interlock.engine.host import Finished


def deliver(desk: Desk, finished: Finished, said: Sequence[str | bytes]) -> int:
    """Hand the end of a run over to whoever called; the exit code."""
    if finished.run_id is not None:
        _keep_report(desk, finished.run_id)
    if desk.json:
        print_json(as_json(finished, said))
    else:
        write_output(finished.close.output)
        if ends_inside_a_line(finished.close.output) and sys.stdout.isatty():
            complain("")
    complain(*summary(desk, finished))
    if finished.close.gate is not None:
        _call_somebody(desk, finished)
    return finished.close.exit_code


def _call_somebody(desk: Desk, finished: Finished) -> None:
    """The run waits for a person, who may be elsewhere."""
    from interlock.engine.host import Quiet

    question = finished.close.gate["question"] if finished.close.gate else ""
    text = printable(f"{finished.playbook} {finished.key} waits: {question}", 400)
    notify(desk, desk.application(Quiet()).settings.notify.command, text, as_json(finished))


def ended_at(finished: Finished) -> str | None:
    """When the run ended, which may be long before this process looked at it; else when this process left it."""
    last = finished.lines[-1] if finished.lines else None
    return last.ts if last is not None and last.event == "run.end" else finished.finished_at


def ends_inside_a_line(output: str | bytes) -> bool:
    return isinstance(output, bytes) and output != b"" and not output.endswith(b"\n")


def as_json(finished: Finished, said: Sequence[str | bytes] = ()) -> dict[str, Any]:
    """The end of a run as the one object of ``--json``."""
    close = finished.close
    error = {} if close.error is None else {"error": {"what": close.error.what, **dict(close.error.parts())}}
    return envelope(
        status=close.status.value,
        exit_code=close.exit_code,
        reason=close.reason,
        run_id=finished.run_id,
        playbook=finished.playbook,
        key=finished.key,
        output="".join(map(as_text, _with_newlines(said))) + as_text(close.output),
        gate=close.gate,
        sums=totals(finished.lines),
        started_at=finished.started_at,
        finished_at=ended_at(finished),
        **error,
    )


def _with_newlines(said: Sequence[str | bytes]) -> list[str | bytes]:
    """Each output as stdout would have had it."""
    return [text + "\n" if isinstance(text, str) and text and not text.endswith("\n") else text for text in said]


def summary(desk: Desk, finished: Finished) -> list[str]:
    """The last lines on stderr, which stay: how it ended, what it took, how to go on."""
    close, sums = finished.close, totals(finished.lines)
    lines: list[str] = []
    if close.error is not None:
        lines += told(close.error.what, dict(close.error.parts()), desk.occasion)
    what = printable(f"{finished.playbook} {finished.key}", 100)
    took = ""
    if finished.started_at and (end := ended_at(finished)):
        took = f" after {in_words(seconds_between(finished.started_at, end))}"
    dispatches = f"{sums.dispatches} {'dispatch' if sums.dispatches == 1 else 'dispatches'}"
    cost = f", cost {cost_line(sums)}" if sums.dispatches else ""
    lines.append(f"{what}: {close.status.value}{took}; {dispatches}{cost}")
    if close.reason and close.error is None and close.gate is None:
        label = "reached" if close.status.value in ENDED_WELL else "reason"
        lines.append(f"  {label}: {indented(lined(here(close.reason, desk.occasion)), '    ')}")
    if finished.run_id is None:
        return lines
    changes = _changes(desk, finished.run_id)
    if close.gate is not None:
        return [*lines, *gate_lines(desk, finished.run_id, close.gate, commands=not can_ask(desk))]
    if changes is not None:
        lines += change_lines(changes)
    if finished.started_at and sums.dispatches and (branch := branch_line(desk.root, finished.started_at)):
        lines.append(f"  branch: {branch}")
    is_open = ended_as(finished.lines) is None
    return [*lines, f"  next: {desk.spoken(f'{_next(close.status.value, changes, is_open)} {finished.run_id}')}"]


def _next(status: str, changes: Changes | None, is_open: bool) -> str:
    """The one command that helps most now."""
    if is_open:
        return "resume"
    if status in ENDED_WELL:
        return "diff" if changes is not None and changes.code else "show"
    return "why"


def _changes(desk: Desk, run_id: str) -> Changes | None:
    """What the run changed; None where that cannot be read any more."""
    try:
        known = find_run(desk.root, run_id)
        return changes_of(known, known.folder.lines())
    except (InterlockError, OSError, LookupError, ValueError):  # the run is what counts; `diff` says what is wrong
        return None


def _keep_report(desk: Desk, run_id: str) -> None:
    from interlock.engine.folder import RunFolder

    with suppress(InterlockError, OSError):  # the run is what counts; `report` says what is wrong with its journal
        write_report(RunFolder(desk.root, run_id))

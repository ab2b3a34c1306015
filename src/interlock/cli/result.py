"""How a process ended its run: output to stdout, the rest to stderr, or all of it as the one JSON object."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from interlock.cli.envelope import envelope
from interlock.cli.failures import told
from interlock.cli.output import as_text, complain, print_json, write_output
from interlock.errors import InterlockError
from interlock.telemetry import cost_line, in_words, printable, seconds_between, totals, write_report

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
    return finished.close.exit_code


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
        lines += told(close.error.what, dict(close.error.parts()))
    what = printable(f"{finished.playbook} {finished.key}", 100)
    took = ""
    if finished.started_at and (end := ended_at(finished)):
        took = f" after {in_words(seconds_between(finished.started_at, end))}"
    dispatches = f"{sums.dispatches} {'dispatch' if sums.dispatches == 1 else 'dispatches'}"
    cost = f", cost {cost_line(sums)}" if sums.dispatches else ""
    lines.append(f"{what}: {close.status.value}{took}; {dispatches}{cost}")
    if close.reason and close.error is None and close.gate is None:
        lines.append(f"  reason: {printable(close.reason, 400)}")
    if finished.run_id is None:
        return lines
    if close.gate is not None:
        lines += gate_lines(desk, finished.run_id, close.gate)
    lines.append(f"  run: {finished.run_id}")
    if close.status.value in ("interrupted", "waiting") and close.gate is None:
        lines.append(f"  go on with: {desk.spoken(f'resume {finished.run_id}')}")
    else:
        lines.append(f"  look at it with: {desk.spoken(f'show {finished.run_id}')}")
    return lines


def gate_lines(desk: Desk, run_id: str, gate: Mapping[str, Any]) -> list[str]:
    """A gate for people: the question, what it shows, the choices and the exact commands."""
    choices = [(str(choice["name"]), str(choice["leads_to"])) for choice in gate["choices"]]
    names = [name for name, _ in choices]
    lines = [f"  question: {printable(gate['question'], 1000)}"]
    lines += [f"  shows: {printable(path)}" for path in gate["digests"]]
    lines += [f"  choice: {printable(name)} - {printable(leads)}" for name, leads in choices]
    commands = []
    if "approve" in names:
        commands.append(f"approve {run_id} [--note TEXT]")
    if "reject" in names:
        commands.append(f"reject {run_id} --note TEXT")
    if others := [name for name in names if name not in ("approve", "reject")]:
        commands.append(f"answer {run_id} {'|'.join(others)}")
    if not names:
        commands.append(f'answer {run_id} "TEXT"')
    lines += [f"  decide with: {desk.spoken(command)}" for command in commands]
    return [*lines, f"  then: {desk.spoken(f'resume {run_id}')}"]


def _keep_report(desk: Desk, run_id: str) -> None:
    from interlock.engine.folder import RunFolder

    with suppress(InterlockError, OSError):  # the run is what counts; `report` says what is wrong with its journal
        write_report(RunFolder(desk.root, run_id))

"""`show` and `report`: everything about one run on one page, and whether its records are whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.commands import LOOK, LatestRun, command
from interlock.cli.door import Door
from interlock.cli.elsewhere import look
from interlock.cli.gates import gate_lines
from interlock.cli.output import columns, complain, gate_json, print_lines
from interlock.cli.runs import shown_path, started_shown
from interlock.documents.files import replace_file
from interlock.engine.folder import KnownRun
from interlock.engine.glances import glance, running
from interlock.errors import ConfigInvalid, JournalDamaged
from interlock.telemetry import (
    UNKNOWN,
    cost_line,
    counted,
    in_words,
    indented,
    lined,
    markdown,
    printable,
    read_report,
    waiting_gate,
)

if TYPE_CHECKING:
    from interlock.telemetry import Dispatched, ReportContent, WaitingGate

BROKEN = 2


@command("show", example="interlock show latest", honours=("fields",), panel=LOOK)
def show(
    door: Door,
    run: LatestRun = "latest",
    verify: Annotated[
        bool, typer.Option("--verify", help="Check the journal's chain and every stored object instead.")
    ] = False,
) -> int:
    """Show one run: how it stands, what it waits for, its dispatches, and where its records are."""
    known = look(door, run)
    if verify:
        return _verify(door, known)
    try:
        found = read_report(known.folder)
    except JournalDamaged as damage:
        name = known.identity.run_id
        damage.remedy = (
            f"Nothing was changed. See all that is wrong: {door.spoken(f'show {name} --verify')}. "
            f"Then go on with what is whole; the rest is kept beside it: {door.spoken(f'recover {name}')}."
        )
        raise
    waiting = _gate(door, known)
    if door.json:
        door.give(_facts(known, found, waiting))
    else:
        print_lines(page(door, known, found, waiting))
    return 0


@command("report", example="interlock report latest --html report.html", honours=("fields",), panel=LOOK)
def report(
    door: Door,
    run: LatestRun = "latest",
    page: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write one self-contained HTML page.", show_default=False),
    ] = None,
) -> int:
    """Print the report of a run as Markdown: dispatches, decisions, changes, telemetry."""
    known = look(door, run)
    found = read_report(known.folder)
    if page is not None:
        from interlock.pages import Shelf, one_file_of

        holder = running(door.root).get(known.identity.run_id)
        _write_page(page, one_file_of(Shelf.of(door.root.name, door.root), known, holder))
        complain(f"Written: {page}")
    if door.json:
        facts = {"run_id": known.identity.run_id, "status": found.status, "reason": found.reason}
        rows = [{**one.facts, "changes": list(one.changes)} for one in found.dispatches]
        door.give({**facts, "seconds": found.seconds, "totals": vars(found.totals), "dispatches": rows})
    elif page is None:
        print_lines(markdown(found).splitlines())
    return 0


def _write_page(place: Path, text: str) -> None:
    """Write the page, whole or not at all; to what is no plain file (a pipe, a terminal), as to a stream."""
    try:
        if place.exists() and not place.is_file():
            place.write_text(text, "utf-8")
        else:
            replace_file(place.resolve(), text.encode(), sync=False)
    except OSError as error:
        raise ConfigInvalid(
            f"the page cannot be written: {error.strerror}",
            where=str(place),
            expected="a file in a folder that is there, on a disk with room",
            remedy="Name another place: --html FILE",
        ) from error


def _gate(door: Door, known: KnownRun) -> WaitingGate | None:
    """The gate at which the run waits; opened anew when what it shows has changed."""
    waiting = waiting_gate(known.folder.lines())
    if waiting is None:
        return None
    from interlock.engine.people import reopen_gate
    from interlock.engine.runs import Quiet

    try:
        return reopen_gate(door.runs(Quiet()), known)
    except ConfigInvalid:  # settings that cannot be used, or a playbook that is not here: looking is still possible
        return waiting


def page(door: Door, known: KnownRun, report: ReportContent, waiting: WaitingGate | None) -> list[str]:
    """The page, line by line."""
    identity, now = known.identity, glance(known)
    how = f": {indented(lined(now.how), '    ')}" if now.how else ""
    until = "now" if now.status == "running" else "its last event"
    lines = [
        f"{identity.playbook} {printable(identity.key)}",
        f"  run: {identity.run_id}",
        f"  status: {now.status}{how}",
        f"  started: {started_shown(identity.started_at)}, {in_words(now.seconds)} up to {until}",
        f"  inputs: {printable(', '.join(f'{name} {value}' for name, value in identity.inputs.items() if value), 400)}",
        f"  version: {identity.version}",
    ]
    if (away := known.folder.elsewhere()) is not None:
        lines.append(f"  where: {printable(away.who)}{f', since {away.since}' if away.since else ''}")
    if identity.continues:
        lines.append(f"  continues: {identity.continues}")
    if waiting is not None:
        lines += gate_lines(door, identity.run_id, asdict(waiting))
    elif now.status in ("interrupted", "waiting") and door.library.has(identity):
        lines.append(f"  go on with: {door.spoken(f'resume {identity.run_id}')}")
    lines += ["", *_dispatches(report), ""]
    sums = report.totals
    lines += [
        f"  agents: {in_words(sums.seconds)}, dispatches: {sums.dispatches}, failed: {sums.failed}, "
        f"verdicts against the work: {sums.against}",
        f"  tokens: {counted(sums.input_tokens)} in, {counted(sums.output_tokens)} out; cost: {cost_line(sums)}",
        f"  records: {shown_path(known.folder.path)}",
        f"  more: {door.spoken(f'why {identity.run_id}')}   {door.spoken(f'diff {identity.run_id}')}",
        f"        {door.spoken(f'logs {identity.run_id}')}   {door.spoken(f'report {identity.run_id}')}",
    ]
    return lines


def _dispatches(report: ReportContent) -> list[str]:
    if not report.dispatches:
        return ["  No dispatch has ended yet."]
    table = columns(_without_empty([HEAD, *map(_row, report.dispatches)]))
    lines = [f"  {table[0]}"]
    for text, one in zip(table[1:], report.dispatches, strict=True):
        lines.append(f"  {text}")
        lines += [f"      {indented(lined(text), '        ')}" for text in one.complaints[:3] if not one.good]
        lines += [f"      not taken over, outside its scope: {printable(path)}" for path in one.violations[:3]]
    return lines


HEAD = ("ABOUT", "STEP", "AGENT", "ATTEMPT", "OUTCOME", "TIME", "CHANGES", "TOKENS", "COST")


def _row(one: Dispatched) -> tuple[str, ...]:
    facts = one.facts
    return (
        one.about,
        printable(facts["step"], 30),
        printable(facts["member"], 30),
        one.attempt,
        one.outcome,
        one.took,
        str(len(one.changes)) if one.changes else "",
        one.tokens,
        one.cost,
    )


def _without_empty(rows: Sequence[tuple[str, ...]]) -> list[list[str]]:
    """The rows without columns that say nothing in any of them."""
    kept = [place for place in range(len(HEAD)) if {row[place] for row in rows[1:]} - {"", UNKNOWN}]
    return [[row[place] for place in kept] for row in rows]


def _facts(known: KnownRun, report: ReportContent, waiting: WaitingGate | None) -> dict[str, Any]:
    identity, now = known.identity, glance(known)
    return {
        **asdict(identity),
        "status": now.status,
        "how": now.how,
        "last_at": now.last_at,
        "seconds": now.seconds,
        "gate": None if waiting is None else gate_json(asdict(waiting)),
        "totals": asdict(report.totals),
        "dispatches": [
            {**one.facts, "changes": list(one.changes), "violations": list(one.violations)} for one in report.dispatches
        ],
        "records": str(known.folder.path),
        "elsewhere": _elsewhere(known),
    }


def _elsewhere(known: KnownRun) -> dict[str, Any] | None:
    """Where the run is, if it is not here: what is here of it is a copy."""
    if (note := known.folder.elsewhere()) is None:
        return None
    return {"who": note.who, "since": note.since, "held": note.held, "remote": note.remote}


def _verify(door: Door, known: KnownRun) -> int:
    """Whether the journal is the one that was written and every object is as it was stored."""
    findings = known.folder.verify()
    run_id = known.identity.run_id
    if door.json:
        door.give({"run_id": run_id, "whole": not findings, "findings": findings})
    elif findings:
        complain(
            f"The records of {run_id} are damaged:",
            *(f"  {finding}" for finding in findings),
            f"  to do: {door.spoken(f'recover {run_id}')}",
        )
    else:
        print_lines([f"{run_id}: the journal's chain and its objects are whole."])
    return BROKEN if findings else 0

"""`runs`, `show`, `report`, `web`, `recover`: how the runs of a workspace stand, what one of them did, its records."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.commands import LOOK, WORKSHOP, LatestRun, RunName, command
from interlock.cli.door import Door, finish
from interlock.cli.elsewhere import look
from interlock.cli.failures import BROKEN
from interlock.cli.output import columns, complain, gate_json, print_lines
from interlock.documents.files import replace_file
from interlock.engine.folder import HOME, KnownRun, RunFolder, run_folders, unreadable_runs
from interlock.engine.glances import Glance, glance, glances, running
from interlock.errors import ConfigInvalid, JournalDamaged, Locked
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
    from interlock.engine.salvage import Salvaged
    from interlock.fleet.looking import Sighting
    from interlock.telemetry import Dispatched, ReportContent, WaitingGate


class ListedAs(StrEnum):
    """How a run in the list can stand."""

    RUNNING = "running"
    WAITING = "waiting"
    INTERRUPTED = "interrupted"
    COMPLETE = "complete"
    DEGRADED = "degraded"
    STOPPED = "stopped"
    FAILED = "failed"
    INVALID = "invalid"
    DAMAGED = "damaged"


@command("runs", example="interlock runs --status waiting --json", honours=("fields",), panel=LOOK)
def runs(
    door: Door,
    status: Annotated[
        list[ListedAs] | None, typer.Option("--status", help="Only runs that stand so; may be repeated.")
    ] = None,
    playbook: Annotated[
        str | None,
        typer.Option("--playbook", metavar="NAME", help="Only runs of this playbook.", show_default=False),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="At most so many: the latest.")
    ] = None,
    fleet: Annotated[
        bool, typer.Option("--fleet", help="Those of the remote instead: who has each, and how it stands.")
    ] = False,
) -> int:
    """List the runs of this workspace, the latest last."""
    if fleet:
        return _of_the_fleet(door, status or [], playbook, limit)
    asked = (glance for glance in glances(door.root, playbook) if not status or glance.status in status)
    found = [*islice(asked, limit)][::-1]
    if door.json or found:
        head = ("RUN", "PLAYBOOK", "KEY", "STATUS", "STARTED", "DURATION", "DISPATCHES")
        door.answer([asdict(one) for one in found], columns([head, *map(_listed, found)]))
    elif status or playbook:
        complain(f"No run is like that. See all of them: {door.spoken('runs')}")
    else:
        complain(f"This workspace has no runs yet. See how to start one: {door.spoken('run --help')}")
    for error in unreadable_runs(door.root):
        complain(f"{error.where}: {error.what}", f"  to do: {error.remedy}")
    return 0


@dataclass(frozen=True)
class FleetRow:
    """One run of the remote in the list."""

    run_id: str
    playbook: str
    key: str
    about: str
    status: str
    now: str
    """Who has it, or what it waits for, or why nobody can say more of it."""
    holder: str
    """Who has it, or had it last."""
    held: bool
    since: str
    remote: str
    commit: str


def listed(one: Sighting, unqueued: Collection[str] = ()) -> FleetRow:
    """A run as its claim says it; and whether nobody is asked to work on it."""
    who = one.possession
    if who is None:
        return FleetRow(one.run_id, "", "", "", ListedAs.DAMAGED, one.problem, "", False, "", one.remote, one.commit)
    held, status, now = who.held and not who.ended, who.status, ""
    if not who.ended:
        now = "waits for a person" if status == ListedAs.WAITING else "free to be taken"
        now = f"not queued: interlock resume {one.run_id}" if one.run_id in unqueued else now
        status = ListedAs.RUNNING if held and status != ListedAs.WAITING else ListedAs.WAITING
    facts = (who.playbook, who.key, who.about, status, f"{who.holder} has it" if held else now)
    return FleetRow(one.run_id, *facts, who.holder, held, who.since, one.remote, one.commit)


def _of_the_fleet(door: Door, status: Sequence[str], playbook: str | None, limit: int | None) -> int:
    seen, unqueued = finish(_seen(door))
    found = sorted((listed(one, unqueued) for one in seen), key=lambda one: (one.since, one.run_id))
    asked = [one for one in found if playbook in (None, one.playbook) and (not status or one.status in status)]
    shown = asked[-limit:] if limit else asked
    if door.json or shown:
        head = ("RUN", "PLAYBOOK", "KEY", "STATUS", "SINCE", "NOW", "ABOUT")
        door.answer([asdict(one) for one in shown], columns([head, *map(_fleet_row, shown)]))
    else:
        complain("No run is like that." if found else "The remote has no runs.")
    return 0


async def _seen(door: Door) -> tuple[list[Sighting], set[str]]:
    """What the remote has; and, where the database can say it, which runs nobody is asked to work on."""
    from interlock.cli.fleet import open_queue
    from interlock.fleet.database import FleetUnreachable
    from interlock.fleet.looking import remote_here, sighted, sighted_and_unqueued

    fleet = door.setup.settings.fleet
    remote = await remote_here(door.root, fleet.remote, door.environ)
    if fleet.database is None:
        return await sighted(remote), set()
    try:
        async with open_queue(door) as queue:
            seen, unqueued = await sighted_and_unqueued(remote, queue)
            return seen, {who.run for who in unqueued}
    except (FleetUnreachable, ConfigInvalid) as error:
        complain(f"Nobody can say which runs are queued: {error.what}.")
        return await sighted(remote), set()


def _fleet_row(one: FleetRow) -> tuple[str, ...]:
    since = started_shown(one.since) if one.since else ""
    words = printable(one.key, 40), one.status, since, printable(one.now, 60), printable(one.about, 60)
    return printable(one.run_id), printable(one.playbook, 40), *words


def _listed(one: Glance) -> tuple[str, ...]:
    started, took = started_shown(one.started_at), in_words(one.seconds)
    return one.run_id, one.playbook, printable(one.key, 40), one.status, started, took, str(one.dispatches)


def started_shown(stamp: str) -> str:
    """A start as the list shows it, in local time."""
    return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def shown_path(path: Path) -> str:
    """A path as the person would type it from where they are."""
    shown = os.path.relpath(path)
    return str(path) if shown.startswith("..") else shown


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
    from interlock.cli.gates import gate_lines

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
        *(f"  {lead} {door.spoken(f'{name} {identity.run_id}')}" for lead, name in MORE),
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


MORE = (("more:", "why"), *(("     ", name) for name in ("diff", "logs", "report")))
"""One command a line: whole, to be copied."""
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


@command("recover", example="interlock recover latest", panel=WORKSHOP)
def recover(door: Door, run: RunName) -> int:
    """Put the damaged records of a run back as far as they are whole; what was found is kept beside them."""
    exactly = [folder for folder in run_folders(door.root) if folder.run_id == run]
    folder = exactly[0] if exactly else door.find(run).folder  # also one whose ``run.json`` cannot be read
    said = mend(door, folder)
    door.answer({"run_id": folder.run_id, **asdict(said)}, _told(door, folder, said))
    return 0


def mend(door: Door, folder: RunFolder) -> Salvaged:
    """Recover the run, with its lock held."""
    from interlock.engine.journal import stamp_now
    from interlock.engine.locks import holders, run_lock
    from interlock.engine.nesting import only_people
    from interlock.engine.salvage import put_back_identity, salvage

    only_people(door.environ, door.root, "recover a run")
    _, holder = holders(door.root / HOME).get(folder.run_id, (None, None))
    if holder is not None and holder.lives:
        raise Locked(
            f"{folder.run_id} is being worked on by {holder}",
            holder=holder.to_json(),
            remedy=f"Wait until it has stopped, or end it: {door.spoken(f'cancel {folder.run_id}')}",
        )
    wrong = put_back_identity(folder)
    identity = folder.identity()
    lock = run_lock(door.root / HOME, identity.playbook, identity.key)
    lock.acquire(folder.run_id)
    try:
        said = salvage(folder, stamp_now)
    finally:
        lock.release()
    if wrong is None:
        return said
    return replace(said, findings=(wrong, *said.findings), mended=("run.json", *said.mended))


def _told(door: Door, folder: RunFolder, said: Salvaged) -> list[str]:
    if not said.findings:
        return [f"{folder.run_id}: nothing is damaged; nothing was changed."]
    lines = [f"{folder.run_id}: {said.lines} lines of its journal are whole."]
    lines += [f"  was wrong: {finding}" for finding in said.findings]
    if said.dropped:
        lines.append(f"  gone: {said.dropped} lines; what they stood for happens again")
    lines += [f"  put back: {name}" for name in said.mended]
    lines += [f"  kept as it was found: {folder.shown(folder.path / name)}" for name in said.aside]
    return [*lines, f"  go on with: {door.spoken(f'resume {folder.run_id}')}"]


@command("web", example="interlock web --open", several=True, panel=LOOK)
def web(
    door: Door,
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Where; 0: any that is free.")
    ] = 8765,
    host: Annotated[
        str,
        typer.Option(
            "--host", metavar="ADDRESS", help="Another address than this machine alone; needs TLS or a proxy."
        ),
    ] = "127.0.0.1",
    open_: Annotated[bool, typer.Option("--open", help="Open it in your browser.")] = False,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            "--origin",
            metavar="URL",
            help="Address under which browsers reach it, if not the one that is printed; may be repeated.",
            show_default=False,
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate, as PEM.", show_default=False)
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key, as PEM.", show_default=False)
    ] = None,
    proxy_user_header: Annotated[
        str,
        typer.Option(
            "--proxy-user-header",
            metavar="NAME",
            help="Header in which the reverse proxy in front names the person who signed in there.",
            show_default=False,
        ),
    ] = "",
    proxy_secret_file: Annotated[
        Path | None,
        typer.Option(
            "--proxy-secret-file",
            metavar="FILE",
            help="What the proxy proves itself with, as the header X-Interlock-Proxy-Secret.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Serve a page that shows the runs and lets you decide, start and end them; it works on none of them itself.

    The address that it prints lets one browser in, once. Ctrl-C ends the page; no run notices.
    """
    from interlock.web import Listening, serve

    listening = Listening(host, port, tuple(origin or ()), tls_cert, tls_key, proxy_user_header, proxy_secret_file)
    serve(door.roots, listening, environ=door.environ, tell=_tell, opened=_open if open_ else None)
    complain("The page has ended; runs go on.")
    return 0


def _tell(text: str) -> None:
    print_lines([text])
    sys.stdout.flush()


def _open(address: str) -> None:
    import webbrowser

    if not webbrowser.open(address):
        complain("No browser was found here: open the address above yourself.")

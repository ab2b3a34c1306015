"""`runs`, `show`, `report`, `diff`: how the runs of a workspace stand, what one of them did and what it changed."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.commands import LOOK, LatestRun, command
from interlock.cli.door import Door, finish
from interlock.cli.elsewhere import look
from interlock.cli.output import columns, complain, gate_json, print_lines, write_output
from interlock.documents import few
from interlock.documents.files import replace_file
from interlock.engine.folder import KnownRun, unreadable_runs
from interlock.engine.glances import Glance, glance, glances, running
from interlock.errors import ConfigInvalid, InterlockError, JournalDamaged, Refused
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
    from interlock.engine.changes import Changes
    from interlock.engine.journal import Line
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


LISTED = 12
"""Files that the end of a run names; `diff` has them all."""


@command("diff", example="interlock diff latest", honours=("fields",), panel=LOOK)
def diff(
    door: Door,
    run: LatestRun = "latest",
    agent: Annotated[
        str, typer.Argument(metavar="[AGENT]", help="Only the work of this agent.", show_default=False)
    ] = "",
    stat: Annotated[bool, typer.Option("--stat", help="Only the files, with lines added and removed.")] = False,
) -> int:
    """Print what the work of a run changed, as a patch: each file against how the run found it."""
    known = look(door, run)
    lines = known.folder.lines()
    if agent:
        _check_agent(known, lines, agent)
    # A terminal is for people: they see as text what can be read as such.
    found = changes_of(known, lines, agent or None, literal=door.json or not sys.stdout.isatty())
    if door.json:
        files = {
            name: [{"path": one.path, "added": one.added, "removed": one.removed} for one in some]
            for name, some in (("code", found.code), ("documentation", found.documentation))
        }
        patch = found.patch.decode("utf-8", "replace")
        facts = {"run_id": known.identity.run_id, **files, "documents": list(found.documents)}
        door.give({**facts, "besides": list(found.besides), "patch": patch})
    elif stat:
        documents = (f"{printable(path)} (document)" for path in found.documents)
        besides = (f"{printable(text)} (came along)" for text in found.besides)
        print_lines([*(one.shown for one in (*found.code, *found.documentation)), *documents, *besides])
    elif found.patch:
        write_output(found.patch)
    else:
        complain(f"Run {known.identity.run_id} has changed no file.")
    return 0


def _check_agent(known: KnownRun, lines: Sequence[Line], agent: str) -> None:
    from interlock.engine.changes import accepted_work

    made = accepted_work(known.folder, lines)
    if not any(agent in (one.agent, one.member, one.key) for one in made):
        names = list(dict.fromkeys(one.member for one in made))
        raise Refused(
            f"{agent!r} has changed nothing in run {known.identity.run_id}",
            expected=f"one of {', '.join(names)}" if names else "an agent whose work was accepted; there is none",
        )


def changes_of(known: KnownRun, lines: Sequence[Line], agent: str | None = None, *, literal: bool = True) -> Changes:
    """The changes of a run, each file against what it was before the first dispatch that changed it.

    Args:
        literal: the patch is one for ``git apply``; else it is for people.
    """
    from interlock.engine.changes import run_changes
    from interlock.finding import Library

    documents = Library(known.folder.root, os.environ).documents_of(known.identity)
    return run_changes(known.folder, lines, documents, agent, literal=literal)


def readable_changes(known: KnownRun, lines: Sequence[Line]) -> Changes | None:
    """The same; None where it cannot be read any more. The run is what counts: `diff` says what is wrong."""
    try:
        return changes_of(known, lines, literal=False)
    except (InterlockError, OSError, LookupError, ValueError):
        return None


def branch_line(root: Path, since: str) -> str | None:
    """The branch that the user's repository is on, and the commits made on it since a moment; None without git."""
    from interlock.engine.changes import git_says

    branch = git_says(root, "symbolic-ref", "--quiet", "--short", "HEAD").decode("utf-8", "replace").strip()
    if not branch:
        return None
    commits = git_says(root, "log", "-20", f"--since={since}", "--format=%h %s").decode("utf-8", "replace").splitlines()
    said = few([printable(commit, 80) for commit in commits], between="; ")
    return f"{printable(branch)}: {said or 'nothing committed'}"


def change_lines(changes: Changes) -> list[str]:
    """The changes for the end of a run: code and documentation file by file, the playbook's documents in one line."""
    lines = []
    for name, files in (("code", changes.code), ("documentation", changes.documentation)):
        if files:
            added, removed = sum(one.added or 0 for one in files), sum(one.removed or 0 for one in files)
            lines.append(f"  {name}: {_files(len(files))}, +{added} -{removed}")
            lines += [f"    {one.shown}" for one in files[:LISTED]]
        if len(files) > LISTED:
            lines.append(f"    and {len(files) - LISTED} more")
    if not changes.code and (changes.documentation or changes.documents):
        lines.insert(0, "  code: no file changed")
    if changes.documents:
        lines.append(f"  documents: {_files(len(changes.documents))}{_where(changes.documents)}")
    return lines


def _where(paths: Sequence[str]) -> str:
    """Where files are: by name where they are few, else the folder that all of them are in."""
    folder = os.path.commonpath(paths)
    if len(paths) > 3 and folder:
        return f" below {printable(folder)}/"
    return f": {few([printable(path) for path in paths])}"


def _files(number: int) -> str:
    return f"{number} {'file' if number == 1 else 'files'}"

"""Looking at runs without touching them: `runs`, `logs`, `report`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.desk import Desk
from interlock.cli.options import RunName, command
from interlock.cli.output import columns, complain, print_journal_line, print_json, print_lines
from interlock.cli.overview import Glance, glances, started_shown
from interlock.cli.panels import LOOKING
from interlock.documents.files import open_plain, replace_file
from interlock.engine.folder import Known, find_run, unreadable_runs
from interlock.errors import ConfigInvalid, JournalDamaged
from interlock.telemetry import Narrator, Weight, dated, html, in_words, markdown, printable, read_report

if TYPE_CHECKING:
    from interlock.engine.journal import Line

POLL_S = 0.2


def add(app: typer.Typer) -> None:
    @command(app, "runs", example="interlock runs --json", panel=LOOKING)
    def runs(desk: Desk) -> int:
        """List the runs of this workspace, the latest last."""
        found = glances(desk.root)
        if desk.json:
            print_json([one.to_json() for one in found])
        elif not found:
            complain(f"This workspace has no runs yet. See how to start one: {desk.spoken('run --help')}")
        else:
            head = ("RUN", "PLAYBOOK", "KEY", "STATUS", "STARTED", "DURATION", "DISPATCHES")
            print_lines(columns([head, *map(_row, found)]))
        for error in unreadable_runs(desk.root):
            complain(f"{error.where}: {error.what}", f"  to do: {error.remedy}")
        return 0

    @command(app, "logs", example="interlock logs latest --follow", honours=("verbose",), panel=LOOKING)
    def logs(
        desk: Desk,
        run: RunName,
        follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, until the run ends.")] = False,
    ) -> int:
        """Print what happened in a run, event by event; with --json the journal's own lines."""
        known, narrator = find_run(desk.root, run), Narrator()
        for raw, line in journal(known, follow=follow):
            told = narrator.tell(line)
            if desk.json:
                print_journal_line(raw)
            elif desk.verbose or told.weight is not Weight.DETAIL:
                print_lines([dated(line, told)])
        known.folder.lines()  # what was shown is what the file has; whether that is all, the run folder knows
        return 0

    @command(app, "report", example="interlock report latest --html report.html", panel=LOOKING)
    def report(
        desk: Desk,
        run: RunName,
        page: Annotated[
            Path | None,
            typer.Option("--html", metavar="FILE", help="Write one self-contained HTML page.", show_default=False),
        ] = None,
    ) -> int:
        """Print the report of a run as Markdown: dispatches, decisions, changes, telemetry."""
        known = find_run(desk.root, run)
        found = read_report(known.folder)
        if page is not None:
            _write_page(page, html(found))
            complain(f"Written: {page}")
        if desk.json:
            facts = {"run_id": known.identity.run_id, "status": found.status, "reason": found.reason}
            rows = [{**one.facts, "changes": list(one.changes)} for one in found.dispatches]
            print_json({**facts, "seconds": found.seconds, "totals": vars(found.totals), "dispatches": rows})
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


def _row(one: Glance) -> tuple[str, ...]:
    return (
        one.run_id,
        one.playbook,
        printable(one.key, 40),
        one.status,
        started_shown(one.started_at),
        in_words(one.seconds),
        str(one.dispatches),
    )


def journal(known: Known, *, follow: bool) -> Iterator[tuple[bytes, Line]]:
    """The lines of a run's journal, each as its bytes and as a line; with `follow` also those to come, up to its end.

    The file is read as it grows: the process that writes it may be any other one.
    """
    path = known.folder.path / "journal.jsonl"
    position, number, ended = 0, 0, False
    while True:
        for raw in _fresh(path, position):
            position += len(raw) + 1
            number += 1
            line = _parsed(raw, path, number)
            ended = line.event == "run.end" or (ended and line.event not in ("run.reopened", "run.resumed"))
            yield raw, line
        if not follow or ended:
            return
        time.sleep(POLL_S)


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
    from interlock.engine.journal import Line

    try:
        return Line(**json.loads(raw))
    except (ValueError, TypeError, RecursionError) as error:
        raise JournalDamaged(f"journal line {number} is not a journal line", path=str(path), line=number) from error

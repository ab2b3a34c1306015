"""`logs`, `watch`, `why`, `diff`: what happened in a run, what happens right now, what made it go its way, what it
changed.

The run may be executed by any other process.  What happens is in its journal; what its agents say and do, in the
transcripts of the dispatches that are at work.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from interlock.cli.commands import LOOK, RUN, LatestRun, command
from interlock.cli.door import Door
from interlock.cli.elsewhere import Expected, Renewal, look
from interlock.cli.failures import INTERRUPTED, failed
from interlock.cli.live import PlainView, can_draw, view_for
from interlock.cli.output import complain, print_journal_line, print_json, print_lines, write_output
from interlock.contracts import Evidence
from interlock.documents import few
from interlock.documents.files import open_plain, read_plain
from interlock.engine.folder import KnownRun
from interlock.engine.glances import glance, running, told
from interlock.engine.journal import Line
from interlock.errors import InterlockError, JournalDamaged, Refused
from interlock.telemetry import (
    INDENT,
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

if TYPE_CHECKING:
    from interlock.agents import AgentNews
    from interlock.engine.changes import Changes
    from interlock.engine.playing import Finished


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
    if not step and told and told[-1][0].event == "run.end":  # that is said by now
        told.pop()
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
            rows = [
                *(("evidence", text) for text in (*checks, *nothing)),
                *(("against", text) for text in shown.contradictions),
                *(("complaint", text) for text in said),
            ]
            return ["", head, f"  {indented(told.text, '    ')}", *_not_yet_said(told.text, rows)]
    return ["", head, f"  {indented(told.text, '    ')}"]


def _not_yet_said(known: str, rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Each row, but for what is in what was said before it."""
    for name, text in rows:
        if lined(text) not in known:
            yield from _listed(name, [text])
            known += f"\n{lined(text)}"


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


TAIL = 4_000
"""Bytes of a transcript that whoever joins reads: what the agent did last."""


@command("watch", example="interlock watch latest", honours=("verbose",), panel=RUN)
def watch(door: Door, run: LatestRun = "latest") -> int:
    """Watch a run that another process executes, here or on the fleet, with what its agents say and do.

    It ends when nobody works on the run any more, with the run's exit code. Ctrl-C ends the watching only. With
    --json each line is an object: the journal's lines and what agents do as they come, how the run stands as the last.
    """
    from interlock.cli.run import deliver

    known = look(door, run)
    run_id, attended = known.identity.run_id, attendance(door, known)
    try:
        if door.json:
            follow(known, ForPrograms(), attended)
        else:
            with view_for(door) if can_draw() and sys.stdout.isatty() else LinesView(door) as view:
                follow(known, Onlooker(door, known, view), attended)
    except KeyboardInterrupt:
        door.errand.run_id = run_id
        if door.json:
            print_json(failed(door.errand, "running", INTERRUPTED, "not watched any more", {"what": "interrupted"}))
        complain(f"Not watched any more; the run goes on. Watch it again: {door.spoken(f'watch {run_id}')}")
        return INTERRUPTED
    return deliver(door, as_left(known), (), asks=False)


class Audience(Protocol):
    """Who hears of a run that another process executes."""

    def join(self, lines: list[tuple[bytes, Line]]) -> None: ...

    def line(self, raw: bytes, line: Line) -> None: ...

    def news(self, key: str, news: AgentNews) -> None: ...


def follow(known: KnownRun, audience: Audience, attended: Callable[[], bool]) -> None:
    """Tell the audience what happens, for as long as somebody works on the run.

    Args:
        attended: whether somebody does; what is here of a run that is elsewhere is as new as this answer.
    """
    from interlock.agents.records import TranscriptReader

    journal, agents = JournalReader(known), dict[str, TranscriptReader]()

    def hear(keys: Iterable[str]) -> None:
        for key in keys:
            for news in agents[key].fresh():
                audience.news(key, news)

    def note(line: Line) -> None:
        key = str(line.key)
        match line.event:
            case "dispatch.start":
                agents.setdefault(key, TranscriptReader(known.folder.folder(key), at_most=TAIL))
            case "dispatch.end":
                agents.pop(key, None)
            case "run.resumed":
                agents.clear()

    works = attended()
    before = list(journal.fresh())
    audience.join(before)
    for _, line in before:
        note(line)
    while True:
        hear(agents)
        if not works:
            return
        time.sleep(POLL_S)
        works = attended()  # looked at before its lines: whoever has left has written them all
        for raw, line in journal.fresh():
            if line.event == "dispatch.end" and line.key in agents:
                hear([line.key])
            note(line)
            audience.line(raw, line)


def is_at_work(known: KnownRun) -> bool:
    return known.identity.run_id in running(known.folder.root)


def attendance(door: Door, known: KnownRun) -> Callable[[], bool]:
    """Tells whether somebody works on a run, or will without being asked again."""
    renewal = Renewal(door, known)
    if not renewal.remote:
        return lambda: is_at_work(known)
    queued = Expected(door, known)

    def attended() -> bool:
        expected = queued.still(renewal.due)  # asked before the run is: whoever is done with it has left it there
        renewal.when_due()
        return expected or is_at_work(known)

    return attended


def as_left(known: KnownRun) -> Finished:
    """How a run stands on which nobody works, as the process that left it said it."""
    from interlock.engine.lifecycle import ending_of
    from interlock.engine.model import Status
    from interlock.engine.playing import Finished

    identity, lines = known.identity, known.folder.lines()
    status, how = told(lines, None, known.folder.elsewhere())
    ending, waiting = ending_of(lines, known.folder.objects), waiting_gate(lines)
    return Finished.of(
        identity,
        lines,
        ending.status if ending else Status(status),
        ending.reason if ending else how,
        output=ending.output if ending else "",
        gate=asdict(waiting) if waiting else None,
        finished_at=lines[-1].ts if lines else None,
    )


class ForPrograms:
    """For programs: a JSON object on each line of stdout."""

    def join(self, lines: list[tuple[bytes, Line]]) -> None:
        for raw, _ in lines:
            print_journal_line(raw)

    def line(self, raw: bytes, _line: Line) -> None:
        print_journal_line(raw)

    def news(self, key: str, news: AgentNews) -> None:
        print_json({"event": "agent.news", "key": key, "kind": news.kind, "data": dict(news.data)})


class Onlooker:
    """For people: a view, as if the run were executed here."""

    def __init__(self, door: Door, known: KnownRun, view: PlainView) -> None:
        self._door, self._known, self._view = door, known, view

    def join(self, lines: list[tuple[bytes, Line]]) -> None:
        known = [line for _, line in lines]
        self._view.join(self._known.identity, known)
        if (waiting := waiting_gate(known)) is not None:
            self._say_how(asdict(waiting))

    def line(self, _raw: bytes, line: Line) -> None:
        self._view.line(line)
        if line.event == "gate.opened":
            self._say_how(line.data)

    def _say_how(self, gate: Mapping[str, Any]) -> None:
        """How to decide, where others work beside the gate: the end, which has it too, may be far."""
        from interlock.cli.gates import command_lines

        if is_at_work(self._known):
            commands = command_lines(self._door, self._known.identity.run_id, gate)
            self._view.remark("\n".join(one.strip() for one in commands))

    def news(self, key: str, news: AgentNews) -> None:
        self._view.news(key, news)


class LinesView(PlainView):
    """A plain line on stdout for every event, and for what agents say and do."""

    def __init__(self, door: Door) -> None:
        super().__init__(door.errand, keep_output=False, verbose=door.verbose)

    def news(self, key: str, news: AgentNews) -> None:
        self.tell_news(key, news)

    def write(self, at: str, told: Telling) -> None:
        print_lines([f"{at}  {indented(told.text, INDENT)}"])


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
    except InterlockError:
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

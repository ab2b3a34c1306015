"""`watch`: the live view of a run that another process executes, from what that process leaves on the disk.

What happens is in its journal; what its agents say and do, in the transcripts of the dispatches that are at work.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from interlock.agents.records import TranscriptReader
from interlock.cli.commands import RUN, LatestRun, command
from interlock.cli.door import Door
from interlock.cli.elsewhere import Renewal, look
from interlock.cli.failures import INTERRUPTED, failed
from interlock.cli.gates import command_lines
from interlock.cli.history import POLL_S, JournalReader
from interlock.cli.output import complain, print_journal_line, print_json, print_lines
from interlock.cli.progress import PlainView, can_draw, view_for
from interlock.cli.result import deliver
from interlock.cli.steering import Expected
from interlock.engine.folder import KnownRun
from interlock.engine.glances import running, told
from interlock.engine.journal import Line
from interlock.engine.lifecycle import ending_of
from interlock.engine.model import Status
from interlock.engine.playing import Finished
from interlock.telemetry import INDENT, Telling, indented, waiting_gate

if TYPE_CHECKING:
    from interlock.agents import AgentNews

TAIL = 4_000
"""Bytes of a transcript that whoever joins reads: what the agent did last."""


@command("watch", example="interlock watch latest", honours=("verbose",), panel=RUN)
def watch(door: Door, run: LatestRun = "latest") -> int:
    """Watch a run that another process executes, here or on the fleet, with what its agents say and do.

    It ends when nobody works on the run any more, with the run's exit code. Ctrl-C ends the watching only. With
    --json each line is an object: the journal's lines and what agents do as they come, how the run stands as the last.
    """
    known = look(door, run)
    run_id, attended = known.identity.run_id, attendance(door, known)
    try:
        if door.json:
            follow(known, ForPrograms(), attended)
        else:
            with view_for(door) if can_draw() and sys.stdout.isatty() else LinesView(door) as view:
                follow(known, Onlooker(door, known, view), attended)
    except KeyboardInterrupt:
        door.occasion.run_id = run_id
        if door.json:
            print_json(failed(door.occasion, "running", INTERRUPTED, "not watched any more", {"what": "interrupted"}))
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
        if is_at_work(self._known):
            commands = command_lines(self._door, self._known.identity.run_id, gate)
            self._view.remark("\n".join(one.strip() for one in commands))

    def news(self, key: str, news: AgentNews) -> None:
        self._view.news(key, news)


class LinesView(PlainView):
    """A plain line on stdout for every event, and for what agents say and do."""

    def __init__(self, door: Door) -> None:
        super().__init__(door.occasion, keep_output=False, verbose=door.verbose)

    def news(self, key: str, news: AgentNews) -> None:
        self.tell_news(key, news)

    def write(self, at: str, told: Telling) -> None:
        print_lines([f"{at}  {indented(told.text, INDENT)}"])

"""Who watches a run: a plain line per event; and the board of what works right now, for whoever draws it."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from interlock.cli.output import complain, write_output
from interlock.telemetry import (
    INDENT,
    Narrator,
    Telling,
    Weight,
    clock,
    indented,
    printable,
    spoken_news,
)

if TYPE_CHECKING:
    from interlock.agents import AgentNews
    from interlock.cli.door import Door, Errand
    from interlock.engine.identity import Identity
    from interlock.engine.journal import Line

WORK = frozenset(("dispatch.start", "write.intent", "command.intent", "set_aside.intent"))
"""Events with which a run is at work."""
FIRST_EFFECTS = WORK | {"gate.opened", "run.end"}
"""With one of these the run has come into being; lines before it are shown only if it does (a typo is no run)."""
SHORT = 60
"""A reason that fits beside the word is told there too."""
LAST = 8
"""Of what happened before somebody joined, so many events are told."""


class PlainView:
    """One line per event on stderr; the playbook's own output goes to stdout, or is kept for ``--json``."""

    def __init__(self, errand: Errand, *, keep_output: bool, verbose: bool = False) -> None:
        self.said: list[str | bytes] = []
        self._errand = errand
        self._keep = keep_output
        self._verbose = verbose
        self._narrator = Narrator()
        self._held: list[tuple[str, Telling]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(failed=kind is not None)

    def begin(self, identity: Identity, lines: list[Line], *, resumed: bool) -> None:
        self._errand.playbook, self._errand.key = identity.playbook, identity.key
        self._held = None if resumed else []
        self._narrator = Narrator()
        for line in lines:
            self._narrator.tell(line)
        if resumed:
            self._errand.turn_to(identity)
        self.show(
            clock_now(), Telling(f"{title(identity)}: run {identity.run_id} {'goes on' if resumed else 'starts'}")
        )

    def join(self, identity: Identity, lines: list[Line]) -> None:
        """Begin in the middle of a run that another process executes; the last of what happened so far is told."""
        self._errand.turn_to(identity)
        known = []
        for line in lines:
            counts = self.pass_by(line)
            one = self._narrator.tell(line)
            if counts and (self._verbose or one.weight is not Weight.DETAIL):
                known.append((clock(line.ts), one))
        before = f"; its last {LAST} of {len(known)} events" if len(known) > LAST else ""
        self.show(clock_now(), Telling(f"{title(identity)}: run {identity.run_id}{before}"))
        for at, one in known[-LAST:]:
            self.show(at, one)

    def pass_by(self, line: Line) -> bool:
        """A line of the time before somebody watched; whether it is an event of its own here."""
        return True

    def line(self, line: Line) -> None:
        if self._held is not None and line.event in FIRST_EFFECTS:
            self._errand.run_id, self._errand.started_at = line.run, line.ts
            self._release()
        told = self._narrator.tell(line)
        if line.event in ("run.end", "run.paused") and len(told.text) > SHORT:  # the summary, which follows, has it all
            told = replace(told, text=f"run {line.data.get('status', 'paused')}")
        if self._verbose or told.weight is not Weight.DETAIL:
            self.show(clock(line.ts), told)

    def news(self, key: str, news: AgentNews) -> None:
        """Too much for a log, unless somebody asks for it: the records of the dispatch have it."""
        if self._verbose:
            self.tell_news(key, news)

    def tell_news(self, key: str, news: AgentNews) -> None:
        if text := spoken_news(news.kind, news.data):
            self.show(clock_now(), Telling(f"{member_of(key)}: {text}", Weight.DETAIL))

    def say(self, text: str | bytes) -> None:
        self.said.append(text)
        if not self._keep:
            write_output(text)

    def remark(self, text: str) -> None:
        self.show(clock_now(), Telling(text, Weight.ATTENTION))

    def close(self, *, failed: bool) -> None:
        """The end: what was held is shown, unless an error says it all."""
        if not failed:
            self._release()
        self._held = None

    def show(self, at: str, told: Telling) -> None:
        if self._held is None:
            self.write(at, told)
        else:
            self._held.append((at, told))

    def write(self, at: str, told: Telling) -> None:
        complain(f"{at}  {indented(told.text, INDENT)}")

    def _release(self) -> None:
        held, self._held = self._held, None
        for at, told in held or ():
            self.write(at, told)


def member_of(key: str) -> str:
    """Who works at a key, as its dispatch is called."""
    return printable(key.rpartition("/")[2].partition("#")[0], 40)


def title(identity: Identity) -> str:
    return printable(f"{identity.playbook} {identity.key}", 100)


def clock_now() -> str:
    from datetime import UTC, datetime

    return clock(datetime.now(UTC).isoformat())


def can_draw() -> bool:
    """Whether stderr is a terminal on which a view can be drawn."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def view_for(door: Door) -> PlainView:
    """The view that fits where stderr goes."""
    if can_draw():
        from interlock.cli.live import LiveView

        return LiveView(door.errand, keep_output=door.json, verbose=door.verbose, root=door.root)
    return PlainView(door.errand, keep_output=door.json, verbose=door.verbose)

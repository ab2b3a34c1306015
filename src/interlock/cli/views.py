"""Who watches a run: a plain line per event, or a live view on a terminal. A view that fails never harms the run."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from interlock.cli.output import complain, write_output
from interlock.telemetry import INDENT, Narrator, Told, Weight, clock, indented, printable

if TYPE_CHECKING:
    from interlock.agents import AgentNews
    from interlock.cli.desk import Desk, Occasion
    from interlock.engine.identity import Identity
    from interlock.engine.journal import Line

FIRST_EFFECTS = frozenset(
    ("dispatch.start", "write.intent", "command.intent", "set_aside.intent", "gate.opened", "run.end")
)
"""With one of these the run has come into being; lines before it are shown only if it does (a typo is no run)."""


class PlainView:
    """One line per event on stderr; the playbook's own output goes to stdout, or is kept for ``--json``."""

    def __init__(self, occasion: Occasion, *, keep_output: bool, verbose: bool = False) -> None:
        self.said: list[str | bytes] = []
        self._occasion = occasion
        self._keep = keep_output
        self._verbose = verbose
        self._narrator = Narrator()
        self._held: list[tuple[str, Told]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(failed=kind is not None)

    def begin(self, identity: Identity, lines: list[Line], *, resumed: bool) -> None:
        occasion = self._occasion
        occasion.playbook, occasion.key = identity.playbook, identity.key
        self._held = None if resumed else []
        self._narrator = Narrator()
        for line in lines:
            self._narrator.tell(line)
        if resumed:
            occasion.run_id, occasion.started_at = identity.run_id, identity.started_at
        self.show(clock_now(), Told(f"{title(identity)}: run {identity.run_id} {'goes on' if resumed else 'starts'}"))

    def line(self, line: Line) -> None:
        if self._held is not None and line.event in FIRST_EFFECTS:
            self._occasion.run_id, self._occasion.started_at = line.run, line.ts
            self._release()
        told = self._narrator.tell(line)
        if line.event == "run.end":  # the summary has the whole reason
            told = replace(told, text=told.text.split("\n", 1)[0])
        if self._verbose or told.weight is not Weight.DETAIL:
            self.show(clock(line.ts), told)

    def news(self, key: str, news: AgentNews) -> None:
        """Too much for a log: the records of the dispatch have it."""

    def say(self, text: str | bytes) -> None:
        self.said.append(text)
        if not self._keep:
            write_output(text)

    def remark(self, text: str) -> None:
        self.show(clock_now(), Told(text, Weight.ATTENTION))

    def close(self, *, failed: bool) -> None:
        """The end: what was held is shown, unless an error says it all."""
        if not failed:
            self._release()
        self._held = None

    def show(self, at: str, told: Told) -> None:
        if self._held is None:
            self.write(at, told)
        else:
            self._held.append((at, told))

    def write(self, at: str, told: Told) -> None:
        complain(f"{at}  {indented(told.text, INDENT)}")

    def _release(self) -> None:
        held, self._held = self._held, None
        for at, told in held or ():
            self.write(at, told)


def title(identity: Identity) -> str:
    return printable(f"{identity.playbook} {identity.key}", 100)


def clock_now() -> str:
    from datetime import UTC, datetime

    return clock(datetime.now(UTC).isoformat())


def view_for(desk: Desk) -> PlainView:
    """The view that fits where stderr goes."""
    if sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb"):
        from interlock.cli.live import LiveView

        return LiveView(desk.occasion, keep_output=desk.json, verbose=desk.verbose, root=desk.root)
    return PlainView(desk.occasion, keep_output=desk.json, verbose=desk.verbose)

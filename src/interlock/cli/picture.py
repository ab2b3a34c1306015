"""The run on a terminal: head, stages, what happened, and what works right now with its clock running (CLI-02).

All of it is drawn anew, four times a second.  Lines that no longer fit go above the picture for good, and at the end
the picture gives way to its lines, so that what stays on the terminal reads like what a pipe gets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from interlock.agents.values import News
from interlock.cli import screens, text
from interlock.cli.live import PlainView, doing
from interlock.cli.telling import REST, Row
from interlock.engine.view import View
from interlock.errors import Status

REFRESH_S = 0.25
WIDEST = 110
"""Columns on a wider terminal: what is on the right would be far away."""
STYLES = {"good": "green", "bad": "red", "note": "yellow", "detail": "dim"}


class LiveView(PlainView):
    def __init__(self, *, usual_s: float | None = None, console: Console | None = None, **how: Any) -> None:
        """
        Args:
            usual_s: how long such a run usually takes.
        """
        super().__init__(**how)
        self._console = console or Console(stderr=True, highlight=False)
        self._usual_s = usual_s
        self._live: Live | None = None
        self._ticks: asyncio.Task[None] | None = None
        self._rows: list[Row] = []
        self._titled = False
        self._doing: dict[str, str] = {}
        self._checks: dict[str, tuple[str, datetime]] = {}

    def begin(self, view: View) -> None:
        """The head of the picture says it."""

    def told(self, view: View, key: str) -> None:
        super().told(view, key)
        if self.began:
            self._start()

    def row(self, row: Row) -> None:
        if row.tone != "begin":
            self._rows.append(row)

    def hear(self, key: str, news: News) -> None:
        if key:
            self._doing[key] = doing(news) or self._doing.get(key, "")
        elif news.facts.get("state") == "began":  # a command of the engine
            self._checks[str(news.facts["subject"])] = str(news.facts["name"]), datetime.now(UTC)
            self._start()
        else:
            self._checks.pop(str(news.facts.get("subject")), None)

    # --- the picture

    @property
    def _width(self) -> int:
        return min(self._console.width, WIDEST)

    def _start(self) -> None:
        if self._live is None:
            plain: Any = {"redirect_stdout": False, "redirect_stderr": False, "vertical_overflow": "crop"}
            self._live = Live(console=self._console, auto_refresh=False, transient=True, **plain)
            with suppress(OSError):
                self._live.start()
            self._ticks = asyncio.get_running_loop().create_task(self._tick())

    async def _tick(self) -> None:
        while True:
            self.draw()
            await asyncio.sleep(REFRESH_S)

    def draw(self) -> None:
        """The picture anew, for the terminal as it is now."""
        if self._live is None or self.view is None:
            return
        width, working = self._width, list(self._working())
        room = max(self._console.height - len(working) - 3, 1)
        while self._rows and sum(row.laid(width).count("\n") + 1 for row in self._rows) > room:
            self._keep(self._rows.pop(0))
        rows = (part for row in self._rows for part in self._laid(row))
        with suppress(OSError):
            self._live.update(Group(*self._head(), *rows, *working), refresh=True)

    def _head(self) -> Iterator[Text]:
        view = self.view
        assert view is not None
        facts = screens.facts(view, Status.WORKING, self._usual_s)
        yield Text(screens.head(view, self._width, facts), "bold", no_wrap=True)
        yield Text(screens.stages(view, self._width), "cyan", no_wrap=True)

    def _laid(self, row: Row) -> Iterator[Text]:
        for part in row.laid(self._width).split("\n"):
            yield Text.assemble((part[:8], "dim"), (part[8:], STYLES.get(row.tone, "")), no_wrap=True)

    def _working(self) -> Iterator[Text]:
        view = self.view
        assert view is not None
        rows = [(name, since, "", command) for command, (name, since) in self._checks.items()]
        for call in view.now if view.status.is_open else ():
            tokens = f"{text.amount(call.spent.tokens)} tokens" if call.spent.tokens else ""
            said = self._doing.get(call.key, "")
            if call.state == "waiting" and call.until is not None:
                said = f"waits until {text.clock(call.until)}  {said.removeprefix('waits: ')}"
            rows.append((call.name, call.started, tokens, said))
        for name, since, tokens, said in rows:
            took = text.running((datetime.now(UTC) - since).total_seconds())
            row = text.padded(f"> {text.padded(text.line(name, 30), 15)} {took}  {tokens}", REST - 2)
            words = text.line(said, max(0, self._width - text.columns(row) - 2))
            row = f"{row}  " if words else row.rstrip()
            yield Text.assemble((text.cut(row, self._width), "cyan"), (words, "dim"), no_wrap=True)

    # --- what stays

    def _keep(self, row: Row) -> None:
        self._title()
        for part in self._laid(row):
            self._print(part)

    def _title(self) -> None:
        if not self._titled and self.view is not None:
            self._titled = True
            self._print(Text(screens.head(self.view, self._width, [self.view.run]), "bold"))

    def _print(self, words: Text) -> None:
        with suppress(OSError):
            self._console.print(words, soft_wrap=True)

    def step_aside(self) -> None:
        """Takes the picture away; what has happened stays. It comes back with the next line."""
        if self._ticks is not None:
            self._ticks.cancel()
        live, self._live, self._ticks = self._live, None, None
        if live is not None:
            with suppress(OSError):
                live.stop()
        rows, self._rows = self._rows, []
        if self.began:
            self._title()
        for row in rows:
            self._keep(row)

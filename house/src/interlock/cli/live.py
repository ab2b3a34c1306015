"""Who watches a run: a plain line per step; on a terminal, below the lines, what works right now (CLI-02).

The live view is drawn anew as a whole: head, stages, lines, who works.  Lines that no longer fit go above it for good,
and the last picture gives way to its lines, so that what stays on the terminal reads like what a pipe gets.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from interlock.agents.values import NewsKind
from interlock.cli import screens, text
from interlock.cli.output import complain
from interlock.cli.telling import REST, Narrator, Row

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from interlock.agents.values import News
    from interlock.engine.view import View

REFRESH_S = 0.25
EARLIER = 8
"""Of what happened before somebody watched, so many lines are told."""
WIDEST = 110
"""Columns of the live view on a wider terminal: what is on the right would be far away."""
STYLES = {"good": "green", "bad": "red", "note": "yellow", "detail": "dim"}
_DOES = {
    **dict.fromkeys(("read", "view", "read_file", "cat"), "reads"),
    **dict.fromkeys(("edit", "multiedit", "apply_patch", "replace", "patch"), "edits"),
    **dict.fromkeys(("write", "write_file", "create"), "writes"),
    **dict.fromkeys(("bash", "shell", "exec_command", "run_shell_command", "command_execution"), "runs"),
    **dict.fromkeys(("grep", "glob", "search", "search_file_content", "list_directory", "ls"), "searches"),
}


class PlainView:
    """A line per step on stderr; held until the first effect: a typo leaves no run and makes no noise."""

    def __init__(
        self,
        *,
        verbose: bool = False,
        objects: Callable[[str, str], bytes] | None = None,
        preface: Sequence[tuple[str, str, str]] = (),
    ) -> None:
        """
        Args:
            objects: what a run keeps under a digest.
            preface: what is to be said once the run has begun.
        """
        self.view: View | None = None
        self.began = False
        """Something of the run is on disk."""
        self._verbose = verbose
        self._narrator = Narrator(None if objects is None else self._object)
        self._objects = objects
        self._held = [Row(datetime.now(UTC), *one) for one in preface]

    def _object(self, digest: str) -> bytes:
        assert self.view is not None
        assert self._objects is not None
        return self._objects(self.view.run, digest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def told(self, view: View, key: str) -> None:
        """After each line of the run."""
        first, self.view = self.view is None, view
        if first and view.last > 1:
            self._narrator.pass_by(view)
            self.began = True
            self.begin(view)
            self._held.append(Row(view.at or datetime.now(UTC), "run", "goes on"))
        rows = [row for row in self._narrator.take(view, key) if self._verbose or row.tone != "detail"]
        self._held += rows
        if not self.began and (view.calls or view.ran or view.gates or not view.status.is_open):
            self.began = True
            self.begin(view)
        self.joined()

    def joined(self) -> None:
        """What is held is told, once the run has begun."""
        while self.began and self._held:
            self.row(self._held.pop(0))

    def passed(self, view: View, key: str) -> None:
        """A line of the time before somebody watched: the last of them are told."""
        first, self.view = not self.began, view
        if first:
            self.began = True
            self.begin(view)
        rows = self._narrator.take(view, key)
        self._held = [*self._held, *(row for row in rows if self._verbose or row.tone != "detail")][-EARLIER:]

    def begin(self, view: View) -> None:
        complain(title(view))

    def row(self, row: Row) -> None:
        complain(row.laid())

    def hear(self, key: str, news: News) -> None:
        """What an agent does is too much for a log, unless somebody asks for it."""
        if self._verbose and (said := doing(news)):
            complain(Row(datetime.now(UTC), key.rpartition("/")[2].partition("#")[0], said).laid())

    def step_aside(self) -> None:
        """The terminal is needed for something else: a question, or the playbook's own output."""

    def close(self) -> None:
        """The end."""


def title(view: View, width: int | None = None) -> str:
    about = f"{view.start.playbook}  {text.line(view.start.headline, 200)}" if view.start else ""
    if width is None:
        return f"{about}  {view.run}"
    room = width - len(view.run) - 2
    return f"{text.padded(text.cut(about, room), room)}  {view.run}" if room > text.LEAST else text.cut(about, width)


def doing(news: News) -> str:
    """What an agent is at, in a few words; empty for what changes nothing of that."""
    facts = news.facts
    match news.kind:
        case NewsKind.TEXT:
            lines = str(facts.get("text", "")).strip().splitlines()
            return lines[-1] if lines else ""
        case NewsKind.TOOL if facts.get("state") != "done":
            name = str(facts.get("name") or "tool")
            ended = f" {facts['state']}" if facts.get("state") in ("failed", "refused") else ""
            return f"{_DOES.get(name.casefold(), name)}{ended} {facts.get('subject') or ''}".strip()
        case NewsKind.PLAN:
            entries = [one for one in facts.get("entries") or () if len(one) == 2]
            now = next((words for words, state in entries if state == "in_progress"), "")
            done = sum(state == "completed" for _, state in entries)
            return f"plan {done}/{len(entries)}{f': {now}' if now else ''}" if entries else ""
        case NewsKind.WAITING:
            return f"waits: {facts.get('why', '')}"
        case NewsKind.WARNING:
            return f"warns: {facts.get('text', '')}"
    return ""


def can_draw() -> bool:
    """Whether stderr is a terminal on which a view can be drawn."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


class LiveView(PlainView):
    """What works right now, with its clock running."""

    def __init__(self, *, usual_s: float | None = None, **how: Any) -> None:
        super().__init__(**how)
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)
        self._usual_s = usual_s
        self._live: Live | None = None
        self._rows: list[Row] = []
        self._titled = False
        self._doing: dict[str, str] = {}
        self._checks: dict[str, datetime] = {}
        self._drawn: list[str] = []
        self._ticks: asyncio.Task[None] | None = None

    # --- what is told

    def begin(self, view: View) -> None:
        """The head of the picture says it."""

    def row(self, row: Row) -> None:
        if row.tone != "begin":
            self._rows.append(row)

    def joined(self) -> None:
        super().joined()
        if self.began:
            self._start()
            self.draw()

    def hear(self, key: str, news: News) -> None:
        facts = news.facts
        if facts.get("name") == "check" and not key:
            if facts.get("state") == "began":
                self._checks[str(facts["subject"])] = datetime.now(UTC)
                self._start()
                self.draw()
            else:
                self._checks.pop(str(facts["subject"]), None)
        elif said := doing(news):
            self._doing[key] = said

    # --- the picture

    def _start(self) -> None:
        if self._live is not None:
            return
        from rich.live import Live

        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        with suppress(OSError):
            self._live.start()
        with suppress(RuntimeError):  # no loop: drawn when something happens
            self._ticks = asyncio.get_running_loop().create_task(self._tick())

    async def _tick(self) -> None:
        while True:
            self.draw()
            await asyncio.sleep(REFRESH_S)

    def draw(self) -> None:
        """The picture anew, for the terminal as it is now."""
        if self._live is None or self.view is None:
            return
        from rich.console import Group

        width, height = min(self._console.width, WIDEST), self._console.height
        working = list(self._working(width))
        self._make_room(width, height - len(working) - 3)
        self._narrowed()
        lines = [*self._head(width), *(part for row in self._rows for part in self._laid(row, width)), *working]
        self._drawn = [line.plain for line in lines]
        with suppress(OSError):
            self._live.update(Group(*lines), refresh=True)

    def _narrowed(self) -> None:
        """A terminal that got narrower wraps what was drawn: rich has to know how many rows it takes now."""
        wide = self._console.width
        if any(text.columns(line) > wide for line in self._drawn) and self._live is not None:
            rows = sum(max(1, -(-text.columns(line) // wide)) for line in self._drawn)
            self._live._live_render._shape = (wide, rows)

    def _head(self, width: int) -> Iterator[Text]:
        from rich.text import Text

        assert self.view is not None
        seconds = self._seconds()
        left = self._usual_s - seconds if self._usual_s and self._usual_s - seconds > 1 else None
        yield Text(screens.head(self.view, width, screens.facts(self.view, seconds, left)), "bold", no_wrap=True)
        yield Text(screens.stages(self.view, width), "cyan", no_wrap=True)

    def _seconds(self) -> float:
        view = self.view
        assert view is not None
        return view.seconds + (0 if view.since is None else (datetime.now(UTC) - view.since).total_seconds())

    def _laid(self, row: Row, width: int) -> list[Text]:
        from rich.text import Text

        return [
            Text.assemble((part[:8], "dim"), (part[8:], STYLES.get(row.tone, "")), no_wrap=True)
            for part in row.laid(width).split("\n")
        ]

    def _working(self, width: int) -> Iterator[Text]:
        from rich.text import Text

        assert self.view is not None
        now = datetime.now(UTC)
        rows = [("check", since, "", command) for command, since in self._checks.items()]
        for call in self.view.now if self.view.status.is_open else ():
            tokens = f"{text.amount(call.spent.tokens)} tokens" if call.spent.tokens else ""
            said = self._doing.get(call.key, "")
            if call.state == "waiting" and call.until is not None:
                said = f"waits until {text.clock(call.until)}: {said.removeprefix('waits: ')}"
            rows.append((call.member or call.agent, call.started, tokens, said))
        for name, since, tokens, said in rows:
            took = text.running((now - since).total_seconds())
            row = text.padded(f"> {text.padded(text.line(name, 30), 15)} {took}  {tokens}", REST - 2)
            words = Text(text.cut(row.rstrip(), width), "cyan", no_wrap=True)
            words.append("  " + text.line(said, max(0, width - text.columns(row) - 2)) if said else "", "dim")
            yield words

    # --- what stays

    def _make_room(self, width: int, most: int) -> None:
        """Lines that do not fit any more go above the picture, for good."""
        while self._rows and sum(row.laid(width).count("\n") + 1 for row in self._rows) > max(most, 1):
            self._keep(self._rows.pop(0))

    def _keep(self, row: Row) -> None:
        width = min(self._console.width, WIDEST)
        if not self._titled and self.view is not None:
            self._titled = True
            self._print(title(self.view, width), "bold")
        for part in self._laid(row, width):
            self._print(part)

    def _print(self, words: Any, style: str = "") -> None:
        with suppress(OSError):
            self._console.print(words, style=style or None, soft_wrap=True, markup=False)

    def step_aside(self) -> None:
        """Takes the picture away; what has happened stays. It comes back with the next line."""
        if self._ticks is not None:
            self._ticks.cancel()
            self._ticks = None
        live, self._live = self._live, None
        if live is not None:
            self._narrowed()
            with suppress(OSError):
                live.stop()
        if self._rows or (self.began and not self._titled):
            rows, self._rows = self._rows, []
            if not self._titled and self.view is not None:
                self._titled = True
                self._print(title(self.view, min(self._console.width, WIDEST)), "bold")
            for row in rows:
                self._keep(row)

    def close(self) -> None:
        self.step_aside()

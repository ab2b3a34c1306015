"""Who watches a run where there is no terminal: a plain line per step; and what an agent is at, in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from interlock.agents.values import News, NewsKind
from interlock.cli import screens
from interlock.cli.output import complain
from interlock.cli.telling import Narrator, Row
from interlock.engine.view import View

POLL_S = 0.2
"""Between two looks at what other processes write."""
_DOES = {
    **dict.fromkeys(("read", "view", "read_file"), "reads"),
    **dict.fromkeys(("edit", "multiedit", "apply_patch", "replace"), "edits"),
    **dict.fromkeys(("write", "write_file", "create"), "writes"),
    **dict.fromkeys(("bash", "shell", "exec_command", "run_shell_command", "command_execution"), "runs"),
    **dict.fromkeys(("grep", "glob", "search", "search_file_content"), "searches"),
}


class PlainView:
    """A line per step on stderr; held until the first effect: a typo leaves no run and makes no noise."""

    def __init__(
        self, *, runs: Path | None = None, verbose: bool = False, preface: Sequence[tuple[str, str, str]] = ()
    ) -> None:
        """
        Args:
            runs: the folder of all runs.
            preface: what is to be said once the run has begun.
        """
        self.view: View | None = None
        self.began = False
        """Something of the run is on disk."""
        self._verbose = verbose
        self._narrator = Narrator(runs)
        self._held = [Row(datetime.now(UTC), *one) for one in preface]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.step_aside()

    def told(self, view: View, key: str) -> None:
        """After each line of the run."""
        goes_on, self.view = self.view is None and view.last > 1, view
        if goes_on:
            self._narrator.pass_by(view)
            self._held.append(Row(view.at or datetime.now(UTC), "run", "goes on"))
        self._held += [row for row in self._narrator.take(view, key) if self._verbose or row.tone != "detail"]
        if not self.began and (goes_on or self.is_at_work(view)):
            self.began = True
            self.begin(view)
        while self.began and self._held:
            self.row(self._held.pop(0))

    def is_at_work(self, view: View) -> bool:
        """Something has happened that belongs to the run, and is no refusal."""
        return bool(view.calls or view.ran or view.gates or not view.status.is_open)

    def begin(self, view: View) -> None:
        complain(screens.head(view, None, [view.run]))

    def row(self, row: Row) -> None:
        complain(row.laid())

    def hear(self, key: str, news: News) -> None:
        """What an agent does is too much for a log, unless somebody asks for it."""
        if self._verbose and (said := doing(news)):
            complain(Row(datetime.now(UTC), key.rpartition("/")[2].partition("#")[0], said).laid())

    def step_aside(self) -> None:
        """The terminal is needed for something else: a question, the end."""


def doing(news: News) -> str:
    """What an agent is at, in a few words; empty for what changes nothing of that."""
    facts = news.facts
    match news.kind:
        case NewsKind.TEXT:
            return next(reversed(str(facts.get("text", "")).strip().splitlines()), "")
        case NewsKind.TOOL if facts.get("state") != "done":
            name = str(facts.get("name") or "tool")
            ended = f" {facts['state']}" if facts.get("state") in ("failed", "refused") else ""
            return f"{_DOES.get(name.casefold(), name)}{ended} {facts.get('subject') or ''}".strip()
        case NewsKind.WAITING:
            return f"waits: {facts.get('why', '')}"
    return ""

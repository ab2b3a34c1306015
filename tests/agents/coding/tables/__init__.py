"""What each coding agent prints and what it means: a table per client, read by one suite (`test_streams`)."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock.agents.coding.dialect import ARGUMENT_LIMIT, Ask, Conclusion, LooksBack, StreamReader
from interlock.agents.coding.events import Event, Planned, ToolState, ToolUsed
from interlock.agents.runner import Usage

STREAMS = Path(__file__).parents[2] / "streams"
FOLDER = Path("/records")
COUNTED = Usage(3 * 1234, 3 * 56)
"""What the scripted model said of its three answers in the call that went well."""
Line = dict[str, Any]


def ask(prompt: str = "# task\n", **more: Any) -> Ask:
    return Ask(**{"prompt": prompt, "workspace": Path("/ws"), "folder": FOLDER, **more})


@dataclass(frozen=True)
class Row:
    """Some lines of a stream, and what they come to."""

    why: str
    lines: tuple[Line, ...]
    last_words: str
    left: Mapping[Path, str]
    asked: Ask
    expected: Mapping[str, Any]
    """By name: a field of the conclusion; all ``events``, or the ``plans`` and ``tools`` among them; of its trouble
    ``cause``, ``said`` and ``reset_s``."""


def row(
    why: str,
    *lines: Line,
    last_words: str = "",
    left: Mapping[Path, str] | None = None,
    asked: Ask | None = None,
    **expected: Any,
) -> Row:
    return Row(why, lines, last_words, left or {}, asked or ask(), expected)


@dataclass(frozen=True, eq=False)
class Table:
    """What is particular about one client's stream; what they have in common, the suite knows."""

    name: str
    reader: Callable[[Ask], StreamReader]
    ends: Callable[[Line], bool]
    """Whether a line ends the turn."""
    tools: set[tuple[str, str, ToolState]]
    """What it used in the call that went well."""
    refused: set[tuple[str, str, ToolState]]
    """What it was not let do in the call where it was not let."""
    usage: Usage | None = COUNTED
    """Of the call that went well, as the stream has it."""
    waits: set[int] = field(default_factory=set[int])
    """By the status of its service: whether the stream tells that it waits."""
    rows: tuple[Row, ...] = ()

    def read(self, lines: tuple[Line, ...], asked: Ask | None = None) -> tuple[StreamReader, list[Event]]:
        reader = self.reader(asked or ask())
        return reader, [event for line in lines for event in reader.take(line)]

    def facts(self, row: Row) -> dict[str, Any]:
        reader, events = self.read(row.lines, row.asked)
        if isinstance(reader, LooksBack):
            reader.look_back(row.last_words, row.left)
        plans = [event for event in events if isinstance(event, Planned)]
        return {**facts_of(reader.conclude()), "events": events, "plans": plans, "tools": tools(events)}


def tools(events: list[Event]) -> set[tuple[str, str, ToolState]]:
    return {(event.name, event.subject, event.state) for event in events if isinstance(event, ToolUsed)}


def facts_of(said: Conclusion) -> dict[str, Any]:
    found = said.trouble
    told = (found.cause, found.text, found.reset_s) if found is not None else (None, None, None)
    return {**vars(said), **dict(zip(("cause", "said", "reset_s"), told, strict=True))}


def recorded(case: str) -> tuple[Line, ...]:
    """A sample of what the real program printed (`python -m tools.clients record`)."""
    lines = (STREAMS / f"{case}.jsonl").read_text("utf-8").splitlines()
    return tuple(json.loads(line) for line in lines if line[:1] == "{")


def cases(name: str) -> Iterator[str]:
    return (path.stem for path in sorted(STREAMS.glob(f"{name}-*.jsonl")))


def called(tool: str, subject: str, *states: ToolState) -> set[tuple[str, str, ToolState]]:
    return {(tool, subject, state) for state in states}


TEXTS = {
    "short": "You do x.",
    "umlauts": "ü" * 60_000,
    "lines": 'a "b"\n' * 18_000,
    "just too long": "x" * ARGUMENT_LIMIT,
    "far too long": "Line of a role.\n" * 20_000,
}


def starts(argv: Iterable[str], env: Mapping[str, str]) -> bool:
    """Whether the system takes it; the program itself is another."""
    program = shutil.which("true")
    assert program is not None
    return subprocess.run([program, *argv], env=dict(env), check=False).returncode == 0


def holds(text: str, places: Iterable[str]) -> bool:
    forms = (text, json.dumps(text, ensure_ascii=False)[1:-1])
    return any(form in place for place in places for form in forms)

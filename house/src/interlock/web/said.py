"""What an agent said and did, read from what its client printed: by the client's own reader, as far as it can.

A transcript is the program's stream, redacted when it was kept.  One without a stream (`command`, `scripted`) is text.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from interlock.agents import clients
from interlock.agents.reading import Json, Reading, parsed
from interlock.agents.values import Ask, News, NewsKind, Role, Seat
from interlock.app import Place
from interlock.cli import live, text
from interlock.engine.runs import Entry
from interlock.engine.view import CallView
from interlock.errors import InterlockError
from interlock.web.prose import plain, prose
from interlock.web.shelf import Shelf

PAGE = 96_000
"""Bytes of a transcript on one page; its last line is read whole, up to this too."""
TAIL = 64_000
STATES = {"failed": "failed", "refused": "failed", "done": "done", "began": "works"}


@dataclass(frozen=True)
class Said:
    """Something that an agent said or did."""

    kind: str
    """text, tool, note; raw for what is no news."""
    tone: str
    title: str
    body: Markup | str = ""


def doing(shelf: Shelf, entry: Entry, call: CallView) -> str:
    """What it is at, in a few words."""
    raw, _ = _piece(entry.folder.transcript(call.key, call.calls), -TAIL)
    said = ""
    for news in _news(shelf, call, raw):
        if isinstance(news, News):
            said = live.doing(news) or said
        else:
            said = news.strip() or said
    return text.line(said, 160)


def transcript(shelf: Shelf, entry: Entry, call: CallView, number: int, page: int | None) -> dict[str, Any]:
    """One page of what was said in one call; the last one where none is named.

    Args:
        number: of the call, from 1.
    """
    place = entry.folder.transcript(call.key, number)
    try:
        size = os.stat(place).st_size
    except OSError:
        size = 0
    pages = max(1, -(-size // PAGE))
    page = pages - 1 if page is None else max(0, min(page, pages - 1))
    raw, _ = _piece(place, page * PAGE)
    return {"said": list(_told(_news(shelf, call, raw))), "page": page, "pages": pages, "number": number, "size": size}


def _piece(place: Path, start: int) -> tuple[bytes, int]:
    """Whole lines that begin within a page of the file: from a place on, or from so far before its end."""
    with suppress(OSError), os.fdopen(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        begin = max(0, size + start if start < 0 else start)
        if begin:  # a line belongs to the page in which it begins
            file.seek(begin - 1)
            while (more := file.readline(PAGE)) and not more.endswith(b"\n"):
                pass
        until, lines = begin + PAGE, []
        while file.tell() < until and (line := file.readline(PAGE)):
            if not line.endswith(b"\n") and len(line) == PAGE:  # no person reads it: its beginning stands for it
                while (more := file.readline(PAGE)) and not more.endswith(b"\n"):
                    pass
                line = line[:2000] + b" (this line goes on)\n"
            lines.append(line)
        return b"".join(lines), size
    return b"", 0


def _news(shelf: Shelf, call: CallView, raw: bytes) -> Iterator[News | str]:
    """News where its client has a reader for the line, else the line as it is."""
    reader, found = _reader(shelf, call), list[News]()
    if reader is not None:
        reader.hear = found.append
    for line in raw.decode("utf-8", "replace").splitlines():
        value = parsed(line) if reader is not None and line.lstrip().startswith("{") else None
        if reader is None or value is None:
            yield line
            continue
        try:
            reader.read(Json(value))
        except Exception:  # noqa: BLE001 - one that speaks with its program has nobody to speak to here
            continue
        yield from found
        found.clear()


def _reader(shelf: Shelf, call: CallView) -> Reading | None:
    """None for a client without a stream, or one that nobody knows any more."""
    with suppress(InterlockError, OSError):
        runner = Place(shelf.folder).settings.runner_named(call.runner)
        if runner.type in ("command", "scripted"):
            return None
        role = Role(name=call.agent, runner=call.runner, type=runner.type)
        ask = Ask(role=role, brief="", transcript=Path())
        return clients.client(runner, shelf.top).reader(ask, Seat("", True, Path(), "", ""))
    return None


def _told(every: Iterator[News | str]) -> Iterator[Said]:
    """A call of a tool once, with how it ended; lines that are no news together."""
    lines: list[str] = []
    tools: dict[str, Said] = {}
    found: list[Said | str] = []
    for news in every:
        if isinstance(news, str):
            lines.append(news)
            continue
        if lines:
            found.append(_raw(lines))
            lines = []
        facts = news.facts
        if news.kind is NewsKind.TOOL:
            name = str(facts.get("call") or len(found))
            why = f": {facts['why']}" if facts.get("why") and facts.get("state") != "done" else ""
            said = Said("tool", STATES.get(str(facts.get("state")), "works"), live.doing(_began(news)) + why)
            found += [] if name in tools else [name]
            tools[name] = said
        elif news.kind is NewsKind.TEXT:
            found.append(Said("text", "quiet", "", prose(str(facts.get("text", "")))))
        elif words := live.doing(news):
            found.append(Said("note", "waits", words))
    if lines:
        found.append(_raw(lines))
    yield from (tools[one] if isinstance(one, str) else one for one in found)


def _began(news: News) -> News:
    """In the words for one that is under way: how it ended is told by its mark."""
    return News(kind=news.kind, facts={**news.facts, "state": "began"})


def _raw(lines: list[str]) -> Said:
    return Said("raw", "quiet", "", plain("\n".join(lines)))

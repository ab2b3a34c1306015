"""What an agent said and did, read from what its client printed: by the client's own reader, as far as it can.

A transcript is the program's stream, redacted when it was kept.  One without a stream (`command`, `scripted`) is text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from interlock.agents import clients
from interlock.agents.reading import Json, Reading, parsed
from interlock.agents.values import Ask, News, NewsKind, Role, Room
from interlock.cli import live, text
from interlock.engine.runs import Entry
from interlock.engine.view import CallView
from interlock.errors import InterlockError
from interlock.web.prose import prose
from interlock.web.shelf import Shelf

PAGE = 96_000
"""Bytes of a transcript on one page; of a line that is longer its beginning stands for it."""
STATES = {"failed": "failed", "refused": "failed", "done": "done"}


class Said(NamedTuple):
    """Something that an agent said or did."""

    kind: str
    """text, tool, note; raw for what is no news."""
    tone: str
    title: str
    body: Markup | str = ""


def doing(shelf: Shelf, entry: Entry, call: CallView) -> str:
    """What it is at, in a few words."""
    place = entry.folder.transcript(call.key, call.last)
    said = ""
    for news in _news(shelf, call, _piece(place, _size(place) - PAGE)):
        said = (live.doing(news) if isinstance(news, News) else news.strip()) or said
    return text.line(said, 160)


def transcript(shelf: Shelf, entry: Entry, call: CallView, number: int, page: int | None) -> dict[str, Any]:
    """One page of what was said in one call; the last one where none is named.

    Args:
        number: of the call, from 1.
    """
    place = entry.folder.transcript(call.key, call.last - call.calls + number)
    pages = max(1, -(-_size(place) // PAGE))
    page = pages - 1 if page is None else min(page, pages - 1)
    return {"said": _told(_news(shelf, call, _piece(place, page * PAGE))), "page": page, "pages": pages, "call": number}


def _size(place: Path) -> int:
    with suppress(OSError):
        return place.stat().st_size
    return 0


def _piece(place: Path, begin: int) -> Iterator[str]:
    """The whole lines that begin within a page of the file: from a place on, or from so far before its end."""
    with suppress(OSError), os.fdopen(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        if begin > 0:  # a line belongs to the page in which it begins
            file.seek(begin - 1)
            _pass(file)
        until = max(begin, 0) + PAGE
        while file.tell() < until and (line := file.readline(PAGE)):
            if not line.endswith(b"\n") and len(line) == PAGE:
                _pass(file)
                line = line[:2000] + b" (this line goes on)\n"
            yield line.decode("utf-8", "replace").removesuffix("\n")


def _pass(file: Any) -> None:
    """To the next line: one may be larger than what memory should hold."""
    while (more := file.readline(PAGE)) and not more.endswith(b"\n"):
        pass


def _news(shelf: Shelf, call: CallView, lines: Iterable[str]) -> Iterator[News | str]:
    """News where its client has a reader for the line, else the line as it is."""
    reader, found = _reader(shelf, call), list[News]()
    if reader is None:
        yield from lines
        return
    reader.hear, redaction = found.append, shelf.door.place.redaction
    for line in lines:
        value = parsed(line) if line.lstrip().startswith("{") else None
        if value is None:
            yield line
            continue
        with suppress(Exception):  # one that speaks with its program has nobody to speak to here
            reader.read(Json(value))
        for news in found:  # redacted line by line when it was kept; what stood in pieces is whole only now (RUN-18)
            facts = {name: redaction(one) if isinstance(one, str) else one for name, one in news.facts.items()}
            yield news.model_copy(update={"facts": facts})
        found.clear()


def _reader(shelf: Shelf, call: CallView) -> Reading | None:
    """None for a client without a stream, or one that nobody knows any more."""
    with suppress(InterlockError, OSError):
        runner = shelf.door.place.settings.runner_named(call.runner)
        if runner.type not in ("command", "scripted"):
            role = Role(name=call.agent, runner=call.runner, type=runner.type)
            ask = Ask(role=role, brief="", transcript=Path())
            return clients.client(runner, shelf.top).reader(ask, Room("", True, Path(), "", ""))
    return None


def _told(every: Iterable[News | str]) -> list[Said]:
    """A call of a tool once, with how it ended; lines that are no news together."""
    found: dict[str, Said] = {}
    for is_raw, group in groupby(every, lambda news: isinstance(news, str)):
        if is_raw:
            found[str(len(found))] = Said("raw", "quiet", "", "\n".join(map(str, group)))
            continue
        for news in group:
            assert isinstance(news, News)
            facts, at = news.facts, str(len(found))
            if news.kind is NewsKind.TOOL:
                state, why = str(facts.get("state")), facts.get("why")
                title = live.doing(news.model_copy(update={"facts": {**facts, "state": "began"}}))
                title += f": {why}" if why and state != "done" else ""
                found[f"tool {facts.get('call') or at}"] = Said("tool", STATES.get(state, "works"), title)
            elif news.kind is NewsKind.TEXT:
                found[at] = Said("text", "quiet", "", prose(str(facts.get("text", ""))))
            elif words := live.doing(news):
                found[at] = Said("note", "waits", words)
    return list(found.values())

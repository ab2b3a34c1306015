"""The transcript of a dispatch, page by page: a page is a stretch of the file, so that none is read for another."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from interlock.documents.files import open_plain
from interlock.pages.prose import prose
from interlock.telemetry import Tone, counted, doing, printable, tokens

PAGE = 64_000
"""Bytes of the file that one page shows; its last line is shown whole."""
LONGEST_LINE = 2_000_000
"""Bytes of one line that are read."""


@dataclass(frozen=True)
class TranscriptEntry:
    """Something that an agent said or did."""

    at: str
    kind: str
    title: str
    tone: Tone = Tone.QUIET
    body: Markup | None = None
    items: tuple[tuple[str, str], ...] = ()
    """Of a plan: each entry with how far it is."""
    call: str = ""
    """Which call of a tool it is about."""


@dataclass(frozen=True)
class TranscriptPage:
    entries: tuple[TranscriptEntry, ...] = ()
    page: int = 0
    pages: int = 0
    size: int = 0

    @property
    def before(self) -> int | None:
        return self.page - 1 if self.page > 0 else None

    @property
    def after(self) -> int | None:
        return self.page + 1 if self.page + 1 < self.pages else None


def transcript_page(path: Path, page: int = 0) -> TranscriptPage:
    """One page of a transcript, from 0; an empty one where there is no transcript."""
    try:
        descriptor = open_plain(path)
    except OSError:
        return TranscriptPage()
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        pages = -(-size // PAGE)
        page = max(0, min(page, pages - 1))
        start = page * PAGE
        if start:  # a line belongs to the page in which it begins
            file.seek(start - 1)
            file.readline(LONGEST_LINE)
        entries: list[TranscriptEntry] = []
        while file.tell() < start + PAGE and (raw := file.readline(LONGEST_LINE)):
            entries += _entries(raw)
    return TranscriptPage(tuple(_joined(entries)), page, pages, size)


def _joined(entries: Sequence[TranscriptEntry]) -> Iterator[TranscriptEntry]:
    """A call of a tool once, with how it ended: its end takes the place of its beginning."""
    ends = {one.call: one for one in entries if one.call}
    for one in entries:
        if not one.call:
            yield one
        elif (last := ends.pop(one.call, None)) is not None:
            yield replace(last, at=one.at)


def _entries(raw: bytes) -> Iterator[TranscriptEntry]:
    try:
        said = json.loads(raw)
        entry = _entry(str(said.get("ts", "")), str(said["kind"]), said)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        if raw.strip():
            yield TranscriptEntry("", "unreadable", f"a line of {len(raw)} bytes that is no news")
        return
    yield entry


def _entry(at: str, kind: str, said: Mapping[str, Any]) -> TranscriptEntry:
    match kind:
        case "text" | "thought":
            return TranscriptEntry(
                at, kind, "says" if kind == "text" else "thinks", body=prose(str(said.get("text", "")))
            )
        case "tool":
            return _tool(at, said)
        case "plan":
            entries = said.get("entries")
            items = (
                [one for one in entries if isinstance(one, list) and len(one) == 2] if isinstance(entries, list) else []
            )
            return TranscriptEntry(
                at, kind, "plans", items=tuple((printable(str(text), 300), str(state)) for text, state in items)
            )
        case "usage":
            cost = said.get("cost_usd")
            spent = f", {cost:.2f} USD" if isinstance(cost, int | float) else ""
            return TranscriptEntry(at, kind, f"{counted(tokens(said))} tokens so far{spent}")
        case "waiting":
            return TranscriptEntry(at, kind, f"waits: {printable(str(said.get('why', '')), 300)}", Tone.WAITS)
        case "warning":
            return TranscriptEntry(at, kind, f"warns: {printable(str(said.get('text', '')), 1000)}", Tone.WAITS)
        case "session":
            model = f", model {printable(str(said['model']), 80)}" if said.get("model") else ""
            return TranscriptEntry(at, kind, f"session {printable(str(said.get('session', '')), 80)}{model}")
        case "started":
            return TranscriptEntry(at, kind, "started")
        case "ended":
            late = " after its time was up" if said.get("timed_out") else ""
            return TranscriptEntry(at, kind, f"ended with exit status {printable(said.get('code'), 20)}{late}")
    data = {name: value for name, value in said.items() if name not in ("ts", "kind")}
    return TranscriptEntry(at, kind, doing(kind, data) or printable(kind, 80))


def _tool(at: str, said: Mapping[str, Any]) -> TranscriptEntry:
    tones = {"failed": Tone.FAILED, "refused": Tone.FAILED, "done": Tone.DONE}
    name, subject = printable(str(said.get("name") or "tool"), 80), printable(str(said.get("subject") or ""), 300)
    why = f": {printable(said['why'], 300)}" if said.get("why") else ""
    body = Markup("<code>{}</code>{}").format(subject, why) if subject or why else None
    tone = tones.get(str(said.get("state", "")), Tone.WORKS)
    return TranscriptEntry(at, "tool", name, tone, body, call=str(said.get("call") or ""))

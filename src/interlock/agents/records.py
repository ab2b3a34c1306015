"""What a runner leaves in the folders of a dispatch, and takes from them."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from interlock.agents.capped_file import OUTPUT_LIMIT
from interlock.agents.environment import Redaction
from interlock.agents.plain_files import append_plain, open_plain, read_plain, set_aside, write_plain
from interlock.agents.runner import AgentNews, AgentRequest, Observer, Usage

RESULT_LIMIT: Final = 10 * 1000 * 1000
"""Bytes of a result file that is read; a larger one counts as none (CM-28)."""


def stderr_path(request: AgentRequest) -> Path:
    return request.folder / "stderr.log"


def stream_path(request: AgentRequest) -> Path:
    """What a coding agent printed, as it printed it."""
    return request.folder / "stream.jsonl"


def prepare(request: AgentRequest) -> None:
    """Makes room for a new call: nothing of an earlier one can be taken for its answer, and nothing is lost.

    The agent finds its brief in the folder that both sides see, and may have left anything there before.
    """
    request.folder.mkdir(parents=True, exist_ok=True)
    if request.exchange is not None:
        request.exchange.mkdir(parents=True, exist_ok=True)
        request.exchange.chmod(0o700)
        put(request.exchange, {request.brief_path: request.brief})
    for path in (request.output_path, request.result_path, stderr_path(request), stream_path(request)):
        set_aside(path)
    set_aside(request.partial_path)


def put(folder: Path, files: Mapping[Path, str]) -> None:
    """Writes files into a folder that both sides see. What stood in their place is set aside; no link is followed."""
    for name in dict.fromkeys(path.relative_to(folder).parts[0] for path in files):
        set_aside(folder / name)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_plain(path, text.encode(errors="surrogateescape"))


def ask_for_partial(request: AgentRequest) -> None:
    """Creates the file that asks for partial results, whole at once; an agent that is in the way of it goes without."""
    with contextlib.suppress(OSError):
        write_plain(request.partial_path, b"The deadline has passed: write what you have and end.\n")


def read_result(path: Path) -> bytes | None:
    """The bytes of a result file; ``None`` if there is none, or it is too large or no plain file."""
    return read_plain(path, RESULT_LIMIT)


def usage_in(result: bytes | None) -> Usage | None:
    """What a result says of its cost, as far as it is well-typed; ``None`` when it says nothing."""
    try:
        document = json.loads(result or b"null")
    except (ValueError, RecursionError):
        return None
    stated = document.get("usage") if isinstance(document, dict) else None
    return usage_from(stated) if isinstance(stated, dict) else None


def usage_from(stated: dict[str, Any]) -> Usage | None:
    cost = number_of(stated.get("cost_usd"))
    usage = Usage(
        input_tokens=count_of(stated.get("input_tokens")),
        output_tokens=count_of(stated.get("output_tokens")),
        cost_usd=cost if cost is None or cost >= 0 else None,
    )
    return None if usage == Usage() else usage


def count_of(value: object) -> int | None:
    """A number of tokens; None for anything that is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def number_of(value: object) -> float | None:
    """A finite number; None for anything that is none, also for one beyond all measure."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


TRANSCRIPT: Final = "transcript.jsonl"


class Transcript:
    """Passes news on and keeps them, one JSON line each, in ``transcript.jsonl``; both without secrets."""

    def __init__(self, request: AgentRequest, observe: Observer, redact: Redaction | None = None) -> None:
        self._path = request.folder / TRANSCRIPT
        self._observe = observe
        self._redact = redact or Redaction({})
        self._room = OUTPUT_LIMIT

    def __call__(self, news: AgentNews) -> None:
        if self._redact.needed:
            news = AgentNews(news.kind, self._redact.data(news.data))
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = json.dumps({"ts": stamp, "kind": news.kind, **news.data}, ensure_ascii=False, default=str) + "\n"
        raw = line.encode("utf-8", "replace")
        self._room -= len(raw)
        if self._room >= 0:
            append_plain(self._path, raw)
        self._observe(news)


class TranscriptReader:
    """The news of a call that another process makes, as they come into the records of its dispatch."""

    def __init__(self, folder: Path, *, at_most: int) -> None:
        """Args:
        at_most: of what is there at the first look, so many bytes are read: the last.
        """
        self._path = folder / TRANSCRIPT
        self._at_most: int | None = at_most
        self._file: tuple[int, int] | None = None
        self._position = 0

    def fresh(self) -> Iterator[AgentNews]:
        """What came since the last look; of another try, its own file from the beginning."""
        try:
            handle = open_plain(self._path, os.O_RDONLY)
        except OSError:
            return
        with os.fdopen(handle, "rb") as file:
            facts = os.fstat(handle)
            if self._file != (facts.st_dev, facts.st_ino):
                self._file = (facts.st_dev, facts.st_ino)
                self._position = 0 if self._at_most is None else max(0, facts.st_size - self._at_most)
            self._at_most = None
            file.seek(self._position)
            *lines, _torn = file.read().split(b"\n")
        for raw in lines:
            self._position += len(raw) + 1
            if (news := _news_in(raw)) is not None:
                yield news


def _news_in(raw: bytes) -> AgentNews | None:
    """The news of a line; None for what is none, such as the rest of a line whose beginning was not read."""
    try:
        said = json.loads(raw)
        return AgentNews(said.pop("kind"), {name: value for name, value in said.items() if name != "ts"})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None

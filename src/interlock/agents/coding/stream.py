"""A stream of JSON objects, one per line, out of pieces of bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

LINE_LIMIT: Final = 32 * 1000 * 1000
"""Bytes of one line; a longer one is skipped, so that memory stays bounded whatever an agent prints."""


_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")


class JsonLines:
    """Calls `take` for each JSON object; what is none (warnings, banners, half lines) is passed over."""

    def __init__(self, take: Callable[[Mapping[str, Any]], None], limit: int = LINE_LIMIT) -> None:
        self._take = take
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self.cut = False
        """Whether a line was too long."""

    def feed(self, chunk: bytes) -> None:
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._keep(part)
            self._end_line()
        self._keep(rest)

    def close(self) -> None:
        """The stream is over: what has no line end yet is its last line."""
        self._end_line()

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._limit:
            self._parts.append(part)
        else:
            self._parts.clear()

    def _end_line(self) -> None:
        line, too_long = b"".join(self._parts), self._size > self._limit
        self._parts.clear()
        self._size = 0
        if too_long:
            self.cut = True
        elif line.strip().startswith(b"{"):
            try:
                found = json.loads(line)
                if _HALF.search(line):  # half of a character, cut by whoever wrote it: no text of ours can hold it
                    found = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
            except (ValueError, RecursionError):
                return
            self._take(found)

"""Text for people: harmless on a terminal, in as many columns as there are, in words. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import datetime

WIDTH = 80
LEAST = 20
"""Columns that words get, however narrow a terminal is."""
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]"
    "|(?<![\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f]"
)
"""Characters that count as printable and show nothing: a text can be written in them that models read and people do
not.  The two that choose between the pictures of a sign are fine behind one."""


def harmless(text: str) -> str:
    """The text with its lines and tabs, but without anything else that a terminal would obey, or that nobody sees."""
    kept = _UNSEEN.sub(lambda found: _escape(found[0]), text)
    if kept.isprintable():
        return kept
    kept = kept.replace("\r\n", "\n")
    return "".join(char if char in "\t\n" or char.isprintable() else _escape(char) for char in kept)


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def line(text: str, most: int = 200) -> str:
    """The text in one line of at most so many columns, harmless."""
    return cut(harmless(_BREAK.sub(" ", text.strip())), most)


_BREAK = re.compile(r"\s*[\n\r\t\v\f\x85\u2028\u2029]\s*")


def cut(text: str, most: int) -> str:
    """At most so many columns of it; what is left out is marked."""
    if columns(text) <= most:
        return text
    kept = text[:most]
    while kept and columns(kept) > most - 1:
        kept = kept[:-1]
    return kept + "…"


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in ("W", "F") for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def padded(text: str, width: int) -> str:
    return text + " " * max(0, width - columns(text))


_WORD = re.compile(r"\binterlock [^\n]*$|\S+", re.MULTILINE)
"""What is copied stays whole: a path, and a command of ours with its arguments, which stands last on its line."""


def fitted(text: str, width: int, below: int = 2) -> str:
    """The text with every row that is too wide going on below, so much deeper than it begins."""
    return "\n".join(row for each in text.split("\n") for row in _rows(each, width, below))


def _rows(row: str, width: int, below: int) -> Iterator[str]:
    if columns(row) <= width:
        yield row
        return
    lead = len(row) - len(row.lstrip())
    deeper = " " * (lead + below if lead + below + LEAST <= width else min(lead, 2))
    now, at = row[:lead] if lead + LEAST <= width else deeper, lead
    for word in _WORD.finditer(row, lead):
        gap, at = row[at : word.start()], word.end()
        if columns(now + gap + word[0]) > max(width, len(deeper) + LEAST) and now.strip():
            yield now
            now, gap = deeper, ""
        now += gap + word[0]
    yield now


# --- values


def duration(seconds: float) -> str:
    """How long something took: 0.4 s, 13 s, 3:05, 2:10:00."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return running(seconds)


def running(seconds: float) -> str:
    """A running time that does not jump about: 0:07, 12:40, 1:02:03."""
    hours, rest = divmod(int(max(0, seconds)), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def amount(number: int) -> str:
    """A count at a glance: 812, 4.1k, 1.2M."""
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"


def size(number: int) -> str:
    """Bytes at a glance: 812 B, 4.1 kB, 1.2 MB, 3.0 GB."""
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000  # type: ignore[assignment]
    return f"{number:.1f} GB"


def money(usd: float | None, known: bool = True) -> str:
    """Dollars; what nobody told is unknown, never 0."""
    if usd is None:
        return "cost unknown"
    return f"{usd:.2f} USD" if known else f"{usd:.2f} USD + unknown"


def count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def few(names: Sequence[str], most: int = 5) -> str:
    """The first few, and how many more there are."""
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def clock(at: datetime) -> str:
    """The local time of day."""
    return at.astimezone().strftime("%H:%M:%S")

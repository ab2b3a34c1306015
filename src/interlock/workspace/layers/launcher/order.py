"""An order to the launcher: a list of records, each a word and its fields, as one file of NUL-separated text.

Not JSON: reading that would take the launcher longer than all its mounts.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as `typing` has it, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Record = tuple[str, "Sequence[str]"]


def written(records: Iterable[Record]) -> str:
    """The text of an order. Fields are paths and words of a command line: they hold no NUL."""
    return "".join("\0".join((word, str(len(fields)), *fields)) + "\0" for word, fields in records)


def read(text: str) -> Iterator[tuple[str, list[str]]]:
    """The records of an order."""
    parts = text.split("\0")
    at = 0
    while at < len(parts) - 1:
        count = int(parts[at + 1])
        yield parts[at], parts[at + 2 : at + 2 + count]
        at += 2 + count

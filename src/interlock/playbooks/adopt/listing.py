"""Documents that agents write here: a JSON object with one list, whose entries have ids.  Pure.

JSON, because agents write it reliably whatever the texts in it are, and because what is wrong with it can be said by
line and column.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from interlock.documents import load_json
from interlock.errors import DocumentInvalid

T = TypeVar("T")
SHOWN = 12
"""Complaints that are told at once; of the rest only how many there are."""
LONGEST_SHOWN = 120


def listed(name: str, entries: Iterable[Mapping[str, Any]]) -> str:
    """A document with these entries, one a line."""
    lines = ",\n".join(f"    {json.dumps(entry, ensure_ascii=False)}" for entry in entries)
    return f'{{\n  "{name}": [\n{lines}\n  ]\n}}\n'


def read_list(text: str, name: str, parse: Callable[[Any, int], T | str]) -> tuple[list[T], list[str]]:
    """What the list of this name in a document holds, and what is wrong with the rest of it.

    Args:
        parse: an entry with its number, from 1, to what it says, or to a complaint.
    """
    try:
        data = load_json(text, "the document")
    except DocumentInvalid as error:
        return [], [str(error)]
    if not isinstance(data, dict) or not isinstance(data.get(name), list):
        return [], [f'expected an object with a list "{name}"']
    read = [parse(entry, number) for number, entry in enumerate(data[name], 1)]
    return [one for one in read if not isinstance(one, str)], [one for one in read if isinstance(one, str)]


def uneven(found: Iterable[str], wanted: Collection[str], done: str) -> list[str]:
    """What is wrong with a list of ids that should have each of the wanted ones once."""
    counted = Counter(found)
    return [
        *(f"{name}: there is no such statement to be {done}" for name in counted if name not in wanted),
        *(f"{name}: {done} {count} times" for name, count in counted.items() if count > 1),
        *(f"{name}: not {done}" for name in wanted if name not in counted),
    ]


def told(problems: Sequence[str]) -> str | None:
    """Complaints as one text, not too many of them; None where there are none."""
    more = len(problems) - SHOWN
    return "; ".join((*problems[:SHOWN], *([f"and {more} more"] if more > 0 else []))) or None


def shown(text: str) -> str:
    """A text as complaints quote it."""
    line = " ".join(text.split())
    return json.dumps(line if len(line) <= LONGEST_SHOWN else line[: LONGEST_SHOWN - 1] + "…", ensure_ascii=False)

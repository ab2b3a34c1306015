"""Decisions as data: total tables over closed enums."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Generic, TypeVar

from interlock.errors import EngineFault

R = TypeVar("R")


class Table(Generic[R]):
    """Rows from tuples of enum members to a result; every combination has exactly one row."""

    def __init__(self, name: str, rows: Mapping[tuple[Enum, ...], R]) -> None:
        self.name = name
        self.rows = dict(rows)

    def __call__(self, *inputs: Enum) -> R:
        try:
            return self.rows[inputs]
        except KeyError:
            raise EngineFault(f"table {self.name} has no row for {row_name(inputs)}", where=self.name) from None

    def missing(self) -> Iterator[tuple[Enum, ...]]:
        """Combinations without a row; a table is total when there are none."""
        width = len(next(iter(self.rows)))
        kinds: list[list[Enum]] = [list(type(next(iter(self.rows))[column])) for column in range(width)]
        return (row for row in itertools.product(*kinds) if row not in self.rows)


def row_name(inputs: tuple[object, ...]) -> str:
    return ", ".join(value.name if isinstance(value, Enum) else repr(value) for value in inputs)


def name_of(rule: Callable[..., Any]) -> str:
    return rule.name if isinstance(rule, Table) else rule.__name__


def names_of(rule: Callable[..., Any], inputs: tuple[object, ...]) -> list[str]:
    """What each input is called: by a table's kind of words, else by the function's parameter."""
    if isinstance(rule, Table):
        return [_words(type(value).__name__) for value in inputs]
    try:
        return [name.replace("_", " ") for name in inspect.signature(rule).parameters]
    except ValueError:  # some built-in functions do not say
        return [f"input {number}" for number in range(1, len(inputs) + 1)]


@lru_cache(maxsize=256)
def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()

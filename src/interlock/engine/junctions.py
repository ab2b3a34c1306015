"""Simulated runs by what they were answered: two that got the same answers are one run, and it is played once.

A simulated run depends on nothing but what agents, commands and people answer it.  Many schedules of deviations come
to the same answers: who is to lie about its files and has none does what it always does, and what lasts is over at
once where nothing is asked again.  So a schedule is first followed over the junctions that earlier runs came to; only
where its answer has led nobody yet there is something to play.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from typing import Any, Generic, TypeVar

T = TypeVar("T")
USUAL = ""
"""The name of the answer that is given where nobody deviates."""


class Junction(Generic[T]):
    """Where all runs stand that had the same answers so far: what is asked there, and where each answer leads."""

    __slots__ = ("_numbers", "_ways", "before", "end", "number", "offered", "subject")

    def __init__(self, before: Junction[T] | None = None) -> None:
        self.before = before
        self.number: int = 0 if before is None else before.number + 1
        """How much was answered before."""
        self.subject: Hashable = None
        """What is asked, the same in each turn; None where no run has asked anything, or they ended."""
        self.end: T | None = None
        """What the runs came to that ended here."""
        self.offered: tuple[str, ...] = ()
        """The deviations that can happen here, where somebody wanted to know."""
        self._numbers: dict[str, int] = {}
        """The answers that are known, by the name of the deviation; equal ones have one number."""
        self._ways: dict[int, Junction[T]] = {}

    def hears(self, answers: Mapping[str, Any]) -> None:
        """Learn what is answered here, by deviation; what it answers is the same each time."""
        numbers = self._numbers
        for name, answer in answers.items():
            if name not in numbers:
                equal = (numbers[other] for other in answers if other in numbers and answers[other] == answer)
                numbers[name] = next(equal, len(numbers))

    def way(self, name: str) -> Junction[T] | None:
        """Where this answer leads, if a run was given it, or one that is equal."""
        number = self._numbers.get(name)
        return None if number is None else self._ways.get(number)

    def leads(self, name: str) -> Junction[T]:
        """Where this answer, which is known, leads, or will."""
        number = self._numbers[name]
        found = self._ways.get(number)
        if found is None:
            found = self._ways[number] = Junction(self)
        return found

    def all_before(self) -> list[Junction[T]]:
        """The way here, from the first junction up to this one."""
        found: list[Junction[T]] = []
        one: Junction[T] | None = self
        while one is not None:
            found.append(one)
            one = one.before
        found.reverse()
        return found

    def forget(self) -> None:
        """No run ended here, as far as anybody knows any more; what leads nowhere else is forgotten too."""
        self.end = None
        here = self
        while (before := here.before) is not None and here.end is None and not here._ways:
            before._ways = {number: way for number, way in before._ways.items() if way is not here}
            here = before


class Remembered(Generic[T]):
    """The last ends of runs, so many that there is memory for them; older ones would be played again."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._ends: deque[tuple[Junction[T], int]] = deque()

    def take(self, junction: Junction[T], size: int) -> None:
        self._ends.append((junction, size))
        self._left -= size
        while self._left < 0:
            oldest, freed = self._ends.popleft()
            oldest.forget()
            self._left += freed

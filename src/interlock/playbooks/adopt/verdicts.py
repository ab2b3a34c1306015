"""What the critic thinks of each statement that code is said to keep: its document, and what is wrong with that.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from interlock.playbooks.adopt.listing import listed, read_list, told, uneven


@dataclass(frozen=True)
class StatementVerdict:
    """Whether what was made of a statement is faithful to it, and why."""

    id: str
    faithful: bool
    why: str

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "faithful": self.faithful, "why": self.why}


def rendered(verdicts: Iterable[StatementVerdict]) -> str:
    """A document of verdicts."""
    return listed("verdicts", (one.to_json() for one in verdicts))


@dataclass(frozen=True)
class VerdictsOn:
    """The statements that the critic has to judge, each once; the `Structure` of its document."""

    ids: tuple[str, ...]

    def problem(self, text: str) -> str | None:
        return told(self.problems(text))

    def problems(self, text: str) -> list[str]:
        found, complaints = read_list(text, "verdicts", _verdict)
        if complaints and not found:
            return complaints
        return [*complaints, *uneven((one.id for one in found), self.ids, "judged")]

    def rejected(self, text: str) -> tuple[StatementVerdict, ...]:
        """What is not faithful, of a document that has no problem."""
        return tuple(one for one in read_list(text, "verdicts", _verdict)[0] if not one.faithful)

    def sample(self) -> str:
        return rendered(StatementVerdict(name, True, "it says the same") for name in self.ids)


def _verdict(entry: Any, number: int) -> StatementVerdict | str:
    match entry:
        case {"id": str(name), "faithful": bool(faithful), "why": str(why)} if why.split():
            return StatementVerdict(name, faithful, " ".join(why.split()))
        case {"id": str(name)}:
            return f"{name}: needs faithful (true or false) and why (a sentence)"
        case _:
            return f"entry {number}: needs an id"

"""Where each statement went: the document that the author writes beside its draft, and what is wrong with it.  Pure.

A statement is kept by code (it has places in the structure of the YAML), left to roles (its words stand in a text that
agents are told), or not enforced, for a reason.  Prose is not code: a rule that only stands in a task or a role is one
that an agent may forget, so rules are bound to structure or said to be not enforced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any

from interlock.documents import Key, YamlDocument
from interlock.playbooks.adopt.listing import listed, read_list, shown, told, uneven
from interlock.playbooks.adopt.source import SourceText
from interlock.playbooks.adopt.statements import Statement

PROSE = frozenset({"task", "instructions", "summary", "help", "question", "words"})
"""Keys of the YAML whose value is told to agents or people, and kept by nobody."""
NAMING = ("name", "agent", "together", "repeat", "run", "ask", "decide", "call", "end")
"""Keys of a step that say what it is called, the first of them that it has."""
WHOLES = frozenset({"steps", "agents", "inputs"})
"""Keys whose value is nearly everything: what is bound there is bound to nothing."""

_PLACE = re.compile(r"[^.\[\]]+(?:\.[^.\[\]]+|\[\d{1,4}\])*")
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


class Keeper(StrEnum):
    """Who sees to it that a statement holds."""

    CODE = "code"
    ROLES = "roles"
    NOBODY = "nobody"


@dataclass(frozen=True)
class Binding:
    """What became of one statement: places in the YAML, words of a role, or the reason why it is not enforced."""

    id: str
    places: tuple[str, ...] = ()
    role: str = ""
    words: str = ""
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        if self.places:
            return {"id": self.id, "places": list(self.places)}
        if self.role:
            return {"id": self.id, "role": self.role, "words": self.words}
        return {"id": self.id, "not_enforced": self.reason}


def rendered(bindings: Iterable[Binding]) -> str:
    """A document of bindings."""
    return listed("trace", (one.to_json() for one in bindings))


@dataclass(frozen=True)
class TraceOf:
    """What a trace has to cover; the `Structure` of the author's document.

    Whether places and words are there is for `Draft` to say, who knows the other files.
    """

    statements: tuple[Statement, ...]

    def problem(self, text: str) -> str | None:
        return told(self.problems(text))

    def problems(self, text: str) -> list[str]:
        """What is wrong with a trace by itself: its form, and statements that it leaves out or makes up."""
        found, complaints = read_list(text, "trace", _binding)
        if complaints and not found:
            return complaints
        return [*complaints, *uneven((one.id for one in found), [one.id for one in self.statements], "traced")]

    def bindings(self, text: str) -> dict[str, Binding]:
        """The bindings of a trace that has no problem, by statement."""
        return {one.id: one for one in read_list(text, "trace", _binding)[0]}

    def sample(self) -> str:
        """Every rule in the first step, and nothing else enforced."""
        return rendered(
            Binding(one.id, places=("steps[0]",)) if one.is_rule else Binding(one.id, reason="it explains")
            for one in self.statements
        )


def _binding(entry: Any, number: int) -> Binding | str:
    match entry:
        case {"id": str(name), "places": [_, *_] as places, **rest} if not rest and all(
            isinstance(place, str) for place in places
        ):
            return Binding(name, places=tuple(places))
        case {"id": str(name), "role": str(role), "words": str(words), **rest} if not rest and role and words.split():
            return Binding(name, role=role, words=words)
        case {"id": str(name), "not_enforced": str(reason), **rest} if not rest:
            return Binding(name, reason=reason) if reason.split() else f"{name}: not enforced, and no reason given"
        case {"id": str(name)}:
            return f"{name}: needs one of: places (a list of texts); role and words; not_enforced (a reason)"
        case _:
            return f"entry {number}: needs an id"


@dataclass(frozen=True)
class YamlPlaces:
    """The places of a YAML text that is a playbook: ``steps[2].at_most``, ``agents.builder.writes``, or below a step
    by its name, ``review.rows[0]``."""

    text: str

    @cached_property
    def document(self) -> YamlDocument:
        return YamlDocument.parse(self.text, "playbook.yaml")

    def keys(self, place: str) -> tuple[Key, ...] | None:
        """The path of a place; None where there is no such place."""
        if not _PLACE.fullmatch(place):
            return None
        first, *rest = [int(number) if number else name for number, name in _STEP.findall(place)]
        begin = (first,) if first in self.document.data else self.steps.get(str(first))
        return None if begin is None or not self._holds((*begin, *rest)) else (*begin, *rest)

    def line(self, place: str) -> int | None:
        keys = self.keys(place)
        return None if keys is None else self.document.line(keys)

    @cached_property
    def steps(self) -> Mapping[str, tuple[Key, ...]]:
        """The path of every step that has a name."""
        return dict(_named(self.document.data, ()))

    def _holds(self, keys: tuple[Key, ...]) -> bool:
        missing = object()
        return self.document.get(keys, missing) is not missing


@lru_cache(maxsize=64)
def places_of(text: str) -> YamlPlaces:
    """The places of a text; parsed once, however often they are asked for."""
    return YamlPlaces(text)


def _named(data: Mapping[str, Any], above: tuple[Key, ...]) -> Iterator[tuple[str, tuple[Key, ...]]]:
    for number, step in enumerate(data.get("steps", ())):
        here = (*above, "steps", number)
        yield next(step[key] for key in NAMING if key in step), here
        yield from _named(step, here)


def keeper(binding: Binding, places: YamlPlaces) -> Keeper:
    """Who keeps a statement that is bound so: code, where one of its places is structure."""
    if binding.role:
        return Keeper.ROLES
    if not binding.places:
        return Keeper.NOBODY
    return Keeper.CODE if any(is_structure(places.keys(place) or ()) for place in binding.places) else Keeper.ROLES


def is_structure(keys: Sequence[Key]) -> bool:
    return bool(keys) and not PROSE.intersection(map(str, keys))


def unbound(
    statements: Iterable[Statement], bindings: Mapping[str, Binding], places: YamlPlaces, roles: Mapping[str, str]
) -> Iterator[str]:
    """The statements that are bound to nothing, and the rules that only stand in prose."""
    for one in statements:
        binding = bindings[one.id]
        if lost := [place for place in binding.places if places.keys(place) is None]:
            yield f"{one.id}: {shown(lost[0])} is no place in playbook.yaml"
        elif vague := [place for place in binding.places if (places.keys(place) or ())[-1:][0] in WHOLES]:
            yield f"{one.id}: {shown(vague[0])} is nearly everything; name the one step, agent or input that keeps it"
        elif binding.role and binding.role not in roles:
            yield f"{one.id}: there is no role {shown(binding.role)} in agents/"
        elif binding.role and role_line(roles[binding.role], binding.words) is None:
            yield f"{one.id}: {shown(binding.words)} does not stand in agents/{binding.role}.md"
        elif one.is_rule and keeper(binding, places) is Keeper.ROLES:
            yield (
                f"{one.id}: {one.kind} {shown(one.quote)} only stands in prose, which nobody keeps; bind it to "
                "structure of the YAML, or say not_enforced and why"
            )


def role_line(text: str, words: str) -> int | None:
    """The line of a role on which these words begin."""
    found = SourceText("", text).find_anywhere(words)
    return None if found is None else found.first

"""What an item of roadmap.json must look like: one table, from which the checks and the JSON Schema are made.

A check says what is wrong with a value in the words of the schema-fix request; `Violation` adds whose value it is.
Nothing here stops at the first problem: a person mends a file once, not once per mistake.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from interlock.contracts import quoted


class Complexity(StrEnum):
    SIMPLE = "simple"
    MEDIUM = "medium"
    COMPLEX = "complex"


class ItemStatus(StrEnum):
    READY = "ready"
    IN_PROGRESS = "in_progress"
    DONE = "done"
    BLOCKED = "blocked"


MOST_RETRIES: Final = 2
"""Fix attempts after the first one (RM-62)."""
ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
STATE_FIELDS: Final = ("status", "passes", "retryCount", "blockedReasons")
"""All that the engine may ever change in an item (RM-87)."""


@dataclass(frozen=True)
class JsonKind:
    """What a value must be: as a person is told, as it is checked, as the JSON Schema says it."""

    expected: str
    accepts: Callable[[Any], bool]
    schema: Mapping[str, Any]

    def problems(self, value: Any) -> Iterator[tuple[str, str]]:
        """Where in the value something is wrong, and what is said of it."""
        if not self.accepts(value):
            yield "", f"is {quoted(value)}; expected {self.expected}"


@dataclass(frozen=True)
class JsonArray:
    """An array, each entry of one kind."""

    each: JsonKind
    of: str
    """What it is an array of, for whoever wrote none."""
    expected: str
    least: int = 0

    @property
    def schema(self) -> Mapping[str, Any]:
        return {"type": "array", "items": self.each.schema, **({"minItems": self.least} if self.least else {})}

    def problems(self, value: Any) -> Iterator[tuple[str, str]]:
        if not isinstance(value, list):
            article = "an" if kind_of(value)[0] in "aeio" else "a"
            found = "null" if value is None else f"{article} {kind_of(value)}"
            yield "", f"is {found}; expected array of {self.of}"
        elif len(value) < self.least:
            yield "", f"is empty; expected array of {self.each.expected}s, at least {self.least}"
        else:
            for index, entry in enumerate(value):
                yield from ((f"[{index}]", said) for _, said in self.each.problems(entry))


@dataclass(frozen=True)
class FieldRule:
    """One field of an item."""

    name: str
    kind: JsonKind | JsonArray
    meaning: str
    required: bool = True


def kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_id(value: object) -> bool:
    return (isinstance(value, str) and ID.fullmatch(value) is not None) or (is_whole(value) and str(value).isdigit())


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_reason(value: object) -> bool:
    match value:
        case {"attempt": attempt, "source": str(), "reason": str()}:
            return is_whole(attempt)
    return False


def _one_of(words: type[StrEnum]) -> JsonKind:
    allowed = [str(word) for word in words]
    return JsonKind(" | ".join(allowed), lambda value: isinstance(value, str) and value in allowed, {"enum": allowed})


_TEXT: Final = JsonKind("non-empty string", _is_text, {"type": "string", "pattern": r"\S"})
_TEXTS: Final = JsonArray(_TEXT, "strings", "array of non-empty strings", least=1)
_INTEGER: Final = {"type": "integer"}
_ID: Final = JsonKind(
    "string of letters, digits, '.', '_' and '-', or integer from 0",
    is_id,
    {"anyOf": [{"type": "string", "pattern": f"^{ID.pattern}$"}, {**_INTEGER, "minimum": 0}]},
)
_RETRIES: Final = JsonKind(
    f"integer 0..{MOST_RETRIES}",
    lambda value: is_whole(value) and 0 <= value <= MOST_RETRIES,
    {**_INTEGER, "minimum": 0, "maximum": MOST_RETRIES},
)
_RESEARCH: Final = JsonKind(
    "null, string, array or object",
    lambda value: value is None or isinstance(value, str | list | dict),
    {"type": ["null", "string", "array", "object"]},
)
_REASON: Final = JsonKind(
    "object with attempt, source and reason",
    _is_reason,
    {
        "type": "object",
        "required": ["attempt", "source", "reason"],
        "properties": {"attempt": _INTEGER, "source": {"type": "string"}, "reason": {"type": "string"}},
    },
)
FIELDS: Final[tuple[FieldRule, ...]] = (
    FieldRule("id", _ID, "Names the item; unique, never changed."),
    FieldRule("title", _TEXT, "What is to be done, in a line."),
    FieldRule("complexity", _one_of(Complexity), "Decides the pipeline."),
    FieldRule("priority", JsonKind("integer", is_whole, _INTEGER), "1 is more urgent than 2."),
    FieldRule("status", _one_of(ItemStatus), "Written by the engine; a person sets a blocked item back to ready."),
    FieldRule(
        "passes",
        JsonKind("boolean", lambda value: isinstance(value, bool), {"type": "boolean"}),
        "Written by the engine; true only together with done.",
    ),
    FieldRule("acceptanceCriteria", _TEXTS, "What must hold when the item is done."),
    FieldRule(
        "verification", _TEXTS, 'Commands for Testing and Review; with `verify = "engine"` the engine runs them too.'
    ),
    FieldRule(
        "dependencies",
        JsonArray(replace(_ID, expected="id of an item"), "ids", "array of ids"),
        "Items that must be done before; ids that exist, without a cycle.",
        required=False,
    ),
    FieldRule("retryCount", _RETRIES, "Written by the engine; absent is 0.", required=False),
    FieldRule(
        "planningResearch",
        _RESEARCH,
        "What the planner found out; as an object with `scope`, a snapshot of title, acceptanceCriteria and "
        "verification at planning time.",
        required=False,
    ),
    FieldRule(
        "blockedReasons",
        JsonArray(_REASON, "{attempt, source, reason}", "array of {attempt, source, reason}"),
        "Written by the engine with `blocked`; the first attempt after it was set back to ready is told them.",
        required=False,
    ),
)


_Placed = tuple[int, Mapping[str, Any]]
"""An item with its place in the array."""


@dataclass(frozen=True, order=True)
class Violation:
    """Something wrong with the file, and where: sorted by item, then field."""

    position: int
    field: str
    text: str


def check_items(items: Sequence[Any]) -> list[Violation]:
    """Everything that is wrong with the items, each on its own and with each other: as far as they can be read."""
    found = [violation for position, item in enumerate(items) for violation in _check_item(position, item)]
    broken = {(violation.position, violation.field) for violation in found}

    def sound(*fields: str) -> list[_Placed]:
        return [
            (position, item)
            for position, item in enumerate(items)
            if isinstance(item, dict) and not any((position, field) in broken for field in fields)
        ]

    named = sound("id")
    found += _unique_ids(named)
    found += _dependencies(sound("id", "dependencies"), named if len(named) == len(items) else None)
    found += _states(sound("status", "passes"))
    found += _cycles(sound("id", "dependencies"))
    return sorted(found)


def label(position: int, item: Any) -> str:
    """The item as a person finds it: by id and title as far as they can be read, else by its place."""
    if not isinstance(item, dict) or not is_id(item.get("id")):
        return f"items[{position}]"
    title = item.get("title")
    return f"item {item['id']}" + (f" {quoted(title)}" if _is_text(title) else "")


def _check_item(position: int, item: Any) -> Iterator[Violation]:
    if not isinstance(item, dict):
        yield Violation(position, "", f"items[{position}] is {quoted(item)}; expected object")
        return
    for rule in FIELDS:
        if rule.name in item:
            for where, said in rule.kind.problems(item[rule.name]):
                yield Violation(position, rule.name, f"{label(position, item)}: {rule.name}{where} {said}")
        elif rule.required:
            said = f"field {rule.name} is missing; expected {rule.kind.expected}"
            yield Violation(position, rule.name, f"{label(position, item)}: {said}")


def _unique_ids(items: Sequence[_Placed]) -> Iterator[Violation]:
    first: dict[str, int] = {}
    for position, item in items:
        known = first.setdefault(str(item["id"]), position)
        if known != position:
            text = f"id {item['id']} is used by items[{known}] and items[{position}]; ids must be unique"
            yield Violation(position, "id", text)


def _dependencies(items: Sequence[_Placed], named: Sequence[_Placed] | None) -> Iterator[Violation]:
    """`named`: all items there are; None where one of them has no readable id, and might be the one that is meant."""
    known = None if named is None else {str(item["id"]) for _, item in named}
    for position, item in items:
        for index, one in enumerate(item.get("dependencies", ())):
            if str(one) == str(item["id"]):
                wrong = "an item cannot depend on itself"
            elif known is not None and str(one) not in known:
                wrong = "no such item"
            else:
                continue
            text = f"{label(position, item)}: dependencies[{index}] is {one}; {wrong}"
            yield Violation(position, "dependencies", text)


def _states(items: Sequence[_Placed]) -> Iterator[Violation]:
    for position, item in items:
        if item["passes"] and item["status"] != ItemStatus.DONE:
            text = f"{label(position, item)}: passes=true requires status=done; found {item['status']}"
            yield Violation(position, "passes", text)
        elif item["status"] == ItemStatus.DONE and not item["passes"]:
            yield Violation(
                position, "status", f"{label(position, item)}: status=done requires passes=true; found false"
            )
    working = [(position, item) for position, item in items if item["status"] == ItemStatus.IN_PROGRESS]
    if len(working) > 1:
        ids = [str(item["id"]) if is_id(item.get("id")) else f"items[{position}]" for position, item in working]
        both = "both" if len(ids) == 2 else "all"
        text = (
            f"items {', '.join(ids[:-1])} and {ids[-1]} are {both} in_progress; only one may be. Set one back to ready."
        )
        yield Violation(working[1][0], "status", text)


def _cycles(items: Sequence[_Placed]) -> Iterator[Violation]:
    """The first cycle that is met from each item on, without recursion: a chain may have a thousand links."""
    position: dict[str, int] = {}
    for place, item in items:
        position.setdefault(str(item["id"]), place)
    needs: dict[str, list[str]] = {identity: [] for identity in position}
    for _, item in items:
        here, named = str(item["id"]), map(str, item.get("dependencies", ()))
        needs[here] += [one for one in named if one in position and one != here]
    settled: set[str] = set()
    for start in needs:
        trail: list[str] = []
        on_trail: dict[str, int] = {}
        pending = [(start, False)]
        while pending:
            here, leaving = pending.pop()
            if leaving:
                settled.add(here)
                del on_trail[trail.pop()]
            elif here in on_trail:
                cycle = [*trail[on_trail[here] :], here]
                yield Violation(position[here], "dependencies", f"dependency cycle: {' -> '.join(cycle)}")
                settled |= on_trail.keys()
                break
            elif here not in settled:
                on_trail[here] = len(trail)
                trail.append(here)
                pending.append((here, True))
                pending += [(one, False) for one in reversed(needs[here])]


def json_schema() -> dict[str, Any]:
    """The published JSON Schema of roadmap.json. How items stand to each other is beyond it; the engine checks that."""
    item = {
        "type": "object",
        "required": [rule.name for rule in FIELDS if rule.required],
        "properties": {rule.name: {"description": rule.meaning, **rule.kind.schema} for rule in FIELDS},
        "if": {"properties": {"status": {"const": "done"}}},
        "then": {"properties": {"passes": {"const": True}}},
        "else": {"properties": {"passes": {"const": False}}},
    }
    items = {"type": "array", "items": {"$ref": "#/$defs/item"}, "minItems": 1}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "roadmap.json",
        "description": "The items that `interlock run roadmap` works through. Further fields are allowed and kept.",
        "anyOf": [
            items,
            {"type": "object", "required": ["items"], "properties": {"version": {"const": 1}, "items": items}},
        ],
        "$defs": {"item": item},
    }


def schema_text() -> str:
    """The schema as it is published, in the documentation and beside this module."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"

"""`roadmap.json`: read with everything that is wrong in it at once, and changed a state field at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, StringConstraints, ValidationError, model_validator

from interlock.documents.changing import ABSENT, set_json
from interlock.documents.problems import problems
from interlock.documents.reading import Keys, Source, read_json
from interlock.errors import BadInput, DocumentInvalid

MOST_RETRIES = 2
SCOPE = ("title", "acceptanceCriteria", "verification")
"""What the planner's snapshot of an item's scope holds."""


class Complexity(StrEnum):
    SIMPLE = "simple"
    MEDIUM = "medium"
    COMPLEX = "complex"


Text = Annotated[str, StringConstraints(pattern=r"\S")]
Texts = Annotated[list[Text], Field(min_length=1)]
Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] | int


FORMATS = {
    "id": "integer or string of letters, digits, . _ -",
    "title": "non-empty string",
    "complexity": "simple | medium | complex",
    "priority": "integer",
    "status": "ready | in_progress | done | blocked",
    "passes": "true | false",
    "acceptanceCriteria": "array of non-empty strings",
    "verification": "array of non-empty strings",
    "dependencies": "array of ids",
    "retryCount": f"integer 0..{MOST_RETRIES}",
    "planningResearch": "null, string, array or object",
    "blockedReasons": "array of {attempt, source, reason}",
}
"""What is expected, for who has to mend it."""


class Reason(BaseModel):
    """Why an attempt failed, and who says so."""

    model_config = ConfigDict(frozen=True, strict=True)

    attempt: int
    source: str
    reason: str


class Item(BaseModel):
    """One item; fields that nobody knows stay in the file and are nobody's business here."""

    model_config = ConfigDict(frozen=True, strict=True)

    id: Id
    title: Text
    complexity: Annotated[Complexity, Strict(False)]
    priority: int
    status: Literal["ready", "in_progress", "done", "blocked"]
    passes: bool
    acceptanceCriteria: Texts
    verification: Texts
    dependencies: list[Id] = []
    retryCount: Annotated[int, Field(ge=0, le=MOST_RETRIES)] = 0
    planningResearch: str | list[Any] | dict[str, Any] | None = None
    blockedReasons: list[Reason] = []

    @model_validator(mode="after")
    def _passes_when_done(self) -> Item:
        if self.passes and self.status != "done":
            raise ValueError(f"passes=true requires status=done; found {self.status}")
        if self.status == "done" and not self.passes:
            raise ValueError("status=done requires passes=true; found false")
        return self

    @property
    def name(self) -> str:
        """Id and title in a line."""
        return f"{self.id} {' '.join(self.title.split())}"

    @property
    def order(self) -> tuple[Any, ...]:
        """By priority, then by id, of which runs of digits count as numbers (RM-14)."""
        words = re.split(r"([0-9]+)", str(self.id))
        numbers = [(len(word.lstrip("0")), word.lstrip("0")) for word in words[1::2]]
        return self.priority, tuple(zip(words[::2], [*numbers, (0, "")], strict=True)), str(self.id)

    @property
    def needs(self) -> list[str]:
        return [str(one) for one in self.dependencies]


@lru_cache(maxsize=32)
def _sound(text: str, path: str) -> tuple[Keys, tuple[Item, ...]]:
    if not text.strip():
        raise DocumentInvalid(f'{path} is empty: expected a JSON array of items or {{"items": [...]}}', where=path)
    source = read_json(text, path)
    base, raw = _raw(source)
    found = [_item(source, (*base, n), one) for n, one in enumerate(raw)]
    if wrong := [problem for one in found if isinstance(one, list) for problem in one]:
        raise BadInput.together(wrong)
    items = tuple(one for one in found if isinstance(one, Item))
    if between := [DocumentInvalid(said, where=path) for said in _between(items)]:
        raise BadInput.together(between)
    return base, items


def parsed(text: str | None, path: str) -> tuple[Item, ...]:
    """The items of a roadmap; BadInput carries all that is wrong with it (RM-07)."""
    if text is None:
        raise DocumentInvalid(f"roadmap.json not found: {path}. The planner must create it first.", where=path)
    return _sound(text, path)[1]


def _raw(source: Source) -> tuple[Keys, list[Any]]:
    """Where the items are, and what they are."""
    data, path = source.data, source.path
    base: Keys = () if isinstance(data, list) else ("items",)
    items = data.get("items") if isinstance(data, dict) else data
    if not isinstance(items, list):
        kind = {str: "string", dict: 'an object without "items"', type(None): "null", bool: "boolean"}
        found = kind.get(type(data), "number")
        expected = 'an array of items or an object with "items"'
        raise DocumentInvalid(f"{path}: top level must be {expected}; found {found}", where=path)
    if isinstance(data, dict) and (type(version := data.get("version", 1)), version) != (int, 1):
        raise DocumentInvalid(f"{path}: version cannot be used", where=path, expected="1", found=repr(version))
    if not items:
        raise DocumentInvalid(f"{path} has no items; nothing to run", where=path)
    return base, items


def _item(source: Source, keys: Keys, raw: Any) -> Item | list[BadInput]:
    try:
        return Item.model_validate(raw)
    except ValidationError as error:
        found = problems(error, Item, raw, lambda inner: source.spot((*keys, *inner)))
        known = raw if isinstance(raw, dict) else {}
        identity, title = known.get("id"), known.get("title")
        named = f"item {identity}" if isinstance(identity, str | int) else f"items[{keys[-1]}]"
        for one in found:
            one.expected = FORMATS.get(re.split(r"[ .[]", one.what)[0], one.expected)
            one.what = f'{named} "{title}": {one.what}' if isinstance(title, str) else f"{named}: {one.what}"
        return found


def _between(items: Sequence[Item]) -> Iterator[str]:
    """What is wrong between items that are sound each on its own."""
    place: dict[str, int] = {}
    for n, item in enumerate(items):
        if (first := place.setdefault(str(item.id), n)) != n:
            yield f"id {item.id} is used by items[{first}] and items[{n}]; ids must be unique"
    for item in items:
        for n, one in enumerate(item.needs):
            if one not in place:
                yield f'item {item.id} "{item.title}": dependencies[{n}] is {one}; no such item'
    try:
        TopologicalSorter({str(item.id): item.needs for item in items}).prepare()
    except CycleError as error:
        yield f"dependency cycle: {' -> '.join(reversed(error.args[1]))}"
    if len(working := [str(item.id) for item in items if item.status == "in_progress"]) > 1:
        both = f"items {', '.join(working[:-1])} and {working[-1]} are {'both' if len(working) == 2 else 'all'}"
        yield f"{both} in_progress; only one may be. Set one back to ready."


def with_state(text: str, path: str, identity: str, values: Mapping[str, Any]) -> str:
    """The text with these state fields of one item; nothing where that item is not there any more."""
    base, items = _sound(text, path)
    n = next((n for n, item in enumerate(items) if str(item.id) == identity), None)
    if n is None:
        return text
    own = {name: value for name, value in values.items() if value is not None}
    gone = dict.fromkeys((name for name, value in values.items() if value is None), ABSENT)
    return set_json(text, {(*base, n, name): value for name, value in {**own, **gone}.items()})


def own(text: str, path: str, identity: str) -> Any:
    """What of an item its work depends on, as it stands there; None where it is not there any more."""
    item = find(parsed(text, path), identity)
    return None if item is None else item.model_dump(mode="json")


def find(items: Sequence[Item], identity: str) -> Item | None:
    return next((item for item in items if str(item.id) == identity), None)

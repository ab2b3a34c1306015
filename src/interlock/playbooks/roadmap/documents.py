"""`roadmap.json`: read with everything that is wrong in it at once, and changed a state field at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from interlock.documents.changing import ABSENT, set_json
from interlock.documents.problems import problems, shown
from interlock.documents.reading import Keys, Source, read_json
from interlock.errors import BadInput, DocumentInvalid

MOST_RETRIES = 2
Text = Annotated[str, StringConstraints(pattern=r"\S")]
Texts = Annotated[list[Text], Field(min_length=1, description="array of non-empty strings")]
Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] | int


class Reason(BaseModel):
    """Why an attempt failed, and who says so."""

    model_config = ConfigDict(frozen=True, strict=True)

    attempt: int
    source: str
    reason: str


class Item(BaseModel):
    """One item; fields that nobody knows stay in the file and are nobody's business here. A field's description is what
    who has to mend it is told to be expected there."""

    model_config = ConfigDict(frozen=True, strict=True)

    id: Id = Field(description="integer or string of letters, digits, . _ -")
    title: Text = Field(description="non-empty string")
    complexity: Literal["simple", "medium", "complex"] = Field(description="simple | medium | complex")
    priority: int = Field(description="integer")
    status: Literal["ready", "in_progress", "done", "blocked"] = Field(
        description="ready | in_progress | done | blocked"
    )
    passes: bool = Field(description="true | false")
    acceptanceCriteria: Texts
    verification: Texts
    dependencies: list[Id] = Field([], description="array of ids")
    retryCount: int = Field(0, ge=0, le=MOST_RETRIES, description=f"integer 0..{MOST_RETRIES}")
    planningResearch: str | list[Any] | dict[str, Any] | None = Field(None, description="null, string, array or object")
    blockedReasons: list[Reason] = Field([], description="array of {attempt, source, reason}")

    @model_validator(mode="after")
    def _passes_when_done(self) -> Item:
        if self.passes != (self.status == "done"):
            wanted = "passes=true requires status=done" if self.passes else "status=done requires passes=true"
            raise ValueError(f"{wanted}; found {self.status if self.passes else 'false'}")
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
    """Where the items are, and what they are."""
    if not text.strip():
        raise DocumentInvalid(f'{path} is empty: expected a JSON array of items or {{"items": [...]}}', where=path)
    source = read_json(text, path, _owner)
    data = source.data if isinstance(source.data, dict) else {"items": source.data}
    raw, version = data.get("items"), data.get("version", 1)
    if not isinstance(raw, list):
        wanted = 'top level must be an array of items or an object with "items"'
        raise DocumentInvalid(f"{path}: {wanted}; found {shown(source.data)}", where=path)
    if version is True or version != 1:
        raise DocumentInvalid(f"{path}: version cannot be used", where=path, expected="1", found=repr(version))
    if not raw:
        raise DocumentInvalid(f"{path} has no items; nothing to run", where=path)
    base: Keys = ("items",) if data is source.data else ()
    wrong, items = list[BadInput](), list[Item]()
    for n, one in enumerate(raw):
        try:
            items.append(Item.model_validate(one))
        except ValidationError as error:
            wrong += _told(error, source, (*base, n), one)
    if wrong := wrong or [DocumentInvalid(said, where=path) for said in _between(items)]:
        raise BadInput.together(wrong)
    return base, tuple(items)


def _owner(data: Any, keys: Keys) -> str:
    """The item that has these keys."""
    items = data.get("items") if isinstance(data, dict) else data
    place = next((key for key in keys if isinstance(key, int)), None)
    one = items[place] if isinstance(items, list) and place is not None and place < len(items) else None
    return f"item {one['id']}: " if isinstance(one, dict) and "id" in one else ""


def parsed(text: str | None, path: str) -> tuple[Item, ...]:
    """The items of a roadmap; BadInput carries all that is wrong with it (RM-07)."""
    if text is None:
        raise DocumentInvalid(f"roadmap.json not found: {path}. The planner must create it first.", where=path)
    return _sound(text, path)[1]


def _told(error: ValidationError, source: Source, keys: Keys, raw: Any) -> Iterator[BadInput]:
    """What is wrong with one item, by its id and title."""
    known = raw if isinstance(raw, dict) else {}
    identity, title = known.get("id"), known.get("title")
    named = f"item {identity}" if isinstance(identity, str | int) else f"items[{keys[-1]}]"
    for one in problems(error, Item, raw, lambda inner: source.spot((*keys, *inner))):
        field = Item.model_fields.get(re.split(r"[ .[]", one.what)[0])
        one.expected = field.description if field else one.expected
        one.what = f'{named} "{title}": {one.what}' if isinstance(title, str) else f"{named}: {one.what}"
        yield one


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
        both = "both" if len(working) == 2 else "all"
        yield f"items {' and '.join(working)} are {both} in_progress; only one may be. Set one back to ready."


def with_state(text: str, path: str, identity: str, values: Mapping[str, Any]) -> str:
    """The text with these state fields of one item, None takes one out; as it is where that item is gone."""
    base, items = _sound(text, path)
    places = [n for n, item in enumerate(items) if str(item.id) == identity]
    changes = {name: ABSENT if value is None else value for name, value in values.items()}
    return set_json(text, {(*base, n, name): value for n in places for name, value in changes.items()})


def find(items: Sequence[Item], identity: str) -> Item | None:
    return next((item for item in items if str(item.id) == identity), None)

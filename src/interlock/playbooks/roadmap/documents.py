"""roadmap.json: read with every mistake found at once, rewritten by the bytes of single values.

A rewrite replaces state fields of one item and nothing else.  That is not left to the code that makes the new text:
`check_rewrite` compares old and new text, and a difference anywhere else raises before anything is written (RM-87).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from interlock.contracts import quoted
from interlock.documents import Document, DocumentState, DuplicateKey, JsonDocument, Key, load_json
from interlock.errors import DocumentInvalid, EngineFault
from interlock.playbooks.roadmap.schema import (
    STATE_FIELDS,
    Complexity,
    ItemStatus,
    check_items,
    is_id,
    kind_of,
)

SHOWN_PROBLEMS: Final = 200
BRIEFED: Final = (
    "title",
    "complexity",
    "acceptanceCriteria",
    "verification",
    "dependencies",
    "planningResearch",
)
"""Fields that the work on an item depends on: who changes one of them, changes the item."""
SCOPE: Final = ("title", "acceptanceCriteria", "verification")
"""Fields that the planner's snapshot of an item's scope holds."""


@dataclass(frozen=True)
class Item:
    """One item of a sound roadmap."""

    position: int
    raw: Mapping[str, Any] = field(repr=False)
    """The object as it stands in the file."""

    @property
    def id(self) -> str:
        return str(self.raw["id"])

    @property
    def title(self) -> str:
        return str(self.raw["title"])

    @property
    def name(self) -> str:
        """Id and title, as reports show it; one line whatever the title holds."""
        return f"{self.id} {' '.join(self.title.split())}"

    @property
    def complexity(self) -> Complexity:
        return Complexity(self.raw["complexity"])

    @property
    def priority(self) -> int:
        return int(self.raw["priority"])

    @property
    def status(self) -> ItemStatus:
        return ItemStatus(self.raw["status"])

    @property
    def passes(self) -> bool:
        return bool(self.raw["passes"])

    @property
    def verification(self) -> tuple[str, ...]:
        return tuple(self.raw["verification"])

    @property
    def dependencies(self) -> tuple[str, ...]:
        return tuple(str(one) for one in self.raw.get("dependencies", ()))

    @property
    def retries(self) -> int:
        return int(self.raw.get("retryCount", 0))

    @property
    def blocked_reasons(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(self.raw.get("blockedReasons", ()))

    @property
    def planning(self) -> Any:
        return self.raw.get("planningResearch")

    @cached_property
    def order(self) -> tuple[Any, ...]:
        """Priority, then id in natural order: runs of digits count as numbers, the rest as text (RM-14)."""
        parts = re.split(r"([0-9]+)", self.id)
        numbers = [(len(part.lstrip("0")), part.lstrip("0")) for part in parts[1::2]]
        return self.priority, tuple(zip(parts[::2], [*numbers, (0, "")], strict=True)), self.id

    def briefed(self) -> dict[str, Any]:
        """What the work on this item depends on."""
        return {name: self.raw[name] for name in BRIEFED if name in self.raw}

    def state(self) -> dict[str, Any]:
        """Its state fields, absent ones left out."""
        return {name: self.raw[name] for name in STATE_FIELDS if name in self.raw}


@dataclass(frozen=True)
class Roadmap:
    """A roadmap without mistakes, and the text it was read from."""

    source: Document
    json: JsonDocument
    base: tuple[Key, ...]
    """Where the items are: the whole document, or its ``items``."""
    items: tuple[Item, ...]

    @classmethod
    def read(cls, document: Document, place: str) -> Roadmap:
        """The roadmap in a document; DocumentInvalid with everything that is wrong. `place`: its absolute path."""
        text = usable_text(document, place)
        name = document.path
        try:
            parsed = JsonDocument.parse(text, name)
        except DuplicateKey as twice:
            raise _twice(text, name, twice) from None
        base, items = _items(parsed.data, name)
        if violations := check_items(items):
            raise _broken(name, [violation.text for violation in violations])
        return cls(document, parsed, base, tuple(Item(position, item) for position, item in enumerate(items)))

    def find(self, identity: str) -> Item | None:
        return next((item for item in self.items if item.id == identity), None)

    def with_state(self, item: Item, changes: Mapping[str, Any]) -> Roadmap:
        """The roadmap with these state fields of the item, every other byte as it was."""
        if strange := [name for name in changes if name not in STATE_FIELDS]:
            raise EngineFault(f"the engine may not change {', '.join(strange)} of an item", where=self.json.path)
        text, span = self.json.text, self.json.span((*self.base, item.position))
        # The item on its own, with the space that indents it: finding a value in the whole text costs more.
        start = len(text[: span.start].rstrip(" \t"))
        part = JsonDocument(self.json.path, text[start : span.end], item.raw)
        for name, value in changes.items():
            part = part.set((name,), value)
        rewritten = text[:start] + part.text + text[span.end :]
        check_rewrite(text, rewritten, span, item)
        items = (*self.items[: item.position], Item(item.position, part.data), *self.items[item.position + 1 :])
        return Roadmap(self.source, JsonDocument(self.json.path, rewritten, None), self.base, items)

    def encode(self) -> bytes:
        """The bytes for the disk, with byte order mark and line ends as they were found."""
        return self.source.encode(self.json.text)


def check_rewrite(before: str, after: str, span: tuple[int, int], item: Item) -> None:
    """Raise unless `after` differs from `before` in nothing but state fields of this item, which stands at `span`.

    Everything around the item must be the same text; the item itself is read anew from both, so that a mistake in
    how the new text was made shows here.
    """
    start, end = span[0], span[1] - len(before)
    around = before[:start] == after[:start] and before[span[1] :] == after[len(after) + end :]
    if around and len(after) + end > start:
        old, new = (load_json(text[start : len(text) + end], "roadmap") for text in (before, after))
        if isinstance(new, dict) and old["id"] == item.raw["id"] and _planned(old) == _planned(new):
            return
    raise EngineFault(
        f"a rewrite of the roadmap would change more than the state of item {item.id}; nothing was written",
        expected=", ".join(STATE_FIELDS),
    )


def _planned(item: Mapping[str, Any]) -> str:
    """What is not ours to change, as text: to Python ``1`` equals ``true``, and the order of keys does not count."""
    return json.dumps({name: value for name, value in item.items() if name not in STATE_FIELDS})


# -- what can be wrong with a file as a whole


def usable_text(document: Document, place: str) -> str:
    """The document's text; DocumentInvalid when there is none."""
    if document.state is DocumentState.MISSING:
        raise DocumentInvalid(
            f"{document.path} not found: {place}. The planner must create it first.",
            path=document.path,
            remedy="Write one, or get an example with: interlock init --playbook roadmap --example",
        )
    text = document.require().text
    if not text.strip():
        raise DocumentInvalid(
            f'{document.path} is empty: expected a JSON array of items or {{"items": [...]}}', path=document.path
        )
    return text


def _items(data: Any, name: str) -> tuple[tuple[Key, ...], list[Any]]:
    base: tuple[Key, ...] = ()
    match data:
        case list():
            items = data
        case {"items": list() as items}:
            base = ("items",)
        case {"items": other}:
            raise _top(name, f"an object whose items is {quoted(other)}")
        case dict():
            raise _top(name, 'an object without "items"')
        case _:
            raise _top(name, kind_of(data))
    if isinstance(data, dict) and "version" in data and (data["version"] != 1 or isinstance(data["version"], bool)):
        raise DocumentInvalid(f"{name}: version is {quoted(data['version'])}; expected 1", path=name)
    if not items:
        raise DocumentInvalid(f"{name} has no items; nothing to run", path=name)
    return base, items


def _top(name: str, found: str) -> DocumentInvalid:
    expected = 'an array of items or an object with "items"'
    return DocumentInvalid(f"{name}: top level must be {expected}; found {found}", path=name)


def _twice(text: str, name: str, twice: DuplicateKey) -> DocumentInvalid:
    """In the words of the item that has the key twice, if it is an item."""
    pointer = twice.pointer[1:] if twice.pointer[:1] == ("items",) else twice.pointer
    where = name
    if pointer and isinstance(pointer[0], int):
        data = json.loads(text)
        items = data.get("items") if isinstance(data, dict) else data
        # Of a key that is there twice, the reader above saw the first, and this one has the last.
        item = items[pointer[0]] if isinstance(items, list) and pointer[0] < len(items) else None
        identity = item.get("id") if isinstance(item, dict) else None
        where = f"item {identity}" if is_id(identity) else f"items[{pointer[0]}]"
    return DocumentInvalid(
        f"{where}: key {quoted(twice.key)} appears twice",
        path=name,
        line=twice.line,
        remedy="Leave one of them.",
    )


def _broken(name: str, problems: list[str]) -> DocumentInvalid:
    remedy = f"Mend {name}: the engine changes nothing in it but the state of the item it works on."
    if len(problems) == 1:
        return DocumentInvalid(problems[0], path=name, remedy=remedy)
    more = [] if len(problems) <= SHOWN_PROBLEMS else [f"and {len(problems) - SHOWN_PROBLEMS} more"]
    listed = "\n".join([*problems[:SHOWN_PROBLEMS], *more])
    return DocumentInvalid(f"{name} has {len(problems)} problems:\n{listed}", path=name, remedy=remedy)

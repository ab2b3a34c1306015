"""What a file may say, field by field: one description, from which it is read and the JSON Schema is made.

Reading never stops at a mistake: it is noted, something blank takes the place of what could not be read, and the rest
is looked at all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from interlock.documents.paths import plain_parts
from interlock.errors import PathRefused
from interlock.flows.reading import Node, Problems, nearest
from interlock.flows.tree import Goes, Place, Text, Way

NAME = r"[A-Za-z][A-Za-z0-9_-]{0,59}"
_DURATION = re.compile(r"([1-9]\d{0,5}) ?(s|min|h)")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_YES, _NO = ("true", "yes"), ("false", "no")


class ValueKind(Protocol):
    """What a value can be."""

    def read(self, node: Node, problems: Problems) -> Any: ...
    def schema(self) -> dict[str, Any]: ...


def _refused(node: Node, problems: Problems, expected: str, remedy: str | None = None) -> None:
    problems.add(node.at, f"{node.shown} cannot stand here", expected=expected, found=node.shown, remedy=remedy)


@dataclass(frozen=True)
class Word:
    """A text that is taken as it is."""

    what: str = "text"
    pattern: str = ""
    blank: str = ""

    def read(self, node: Node, problems: Problems) -> str:
        if not node.text or not node.text.strip() or (self.pattern and not re.fullmatch(self.pattern, node.text)):
            _refused(node, problems, self.what)
            return node.text or self.blank
        return node.text

    def schema(self) -> dict[str, Any]:
        return {"type": "string", **({"pattern": f"^{self.pattern}$"} if self.pattern else {"minLength": 1})}


@dataclass(frozen=True)
class Template:
    """A text with ``{{ names }}``."""

    what: str = "text, with {{ names }} in it"
    path: bool = False

    def read(self, node: Node, problems: Problems) -> Text:
        if not node.text or not node.text.strip():
            _refused(node, problems, self.what)
        elif self.path:
            _check_path(node.text, node, problems)
        return Text(node.text or "", node.at)

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1}


def _check_path(path: str, node: Node, problems: Problems) -> None:
    try:
        if not plain_parts(path):
            _refused(node, problems, "a path inside the workspace")
    except PathRefused as error:
        problems.add(node.at, error.what, expected=error.expected, found=path)


@dataclass(frozen=True)
class Pattern:
    """A path or glob of the workspace."""

    def read(self, node: Node, problems: Problems) -> str:
        if not node.text:
            _refused(node, problems, "a path or pattern such as src/**")
        else:
            _check_path(node.text.removeprefix("!"), node, problems)
        return node.text or ""

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1}


@dataclass(frozen=True)
class OneOf:
    """One of these words."""

    words: tuple[str, ...]
    blank: str = ""

    def read(self, node: Node, problems: Problems) -> str:
        if node.text in self.words:
            return str(node.text)
        _refused(node, problems, f"one of {', '.join(self.words)}", nearest(node.text or "", self.words))
        return self.blank or self.words[0]

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.words)}


@dataclass(frozen=True)
class Number:
    """A whole number."""

    least: int = 0
    most: int = 1_000_000

    def read(self, node: Node, problems: Problems) -> int:
        if (
            node.text
            and node.plain
            and re.fullmatch(r"-?\d{1,9}", node.text)
            and self.least <= int(node.text) <= self.most
        ):
            return int(node.text)
        _refused(node, problems, f"a whole number from {self.least} to {self.most}")
        return max(self.least, 1)

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True)
class YesNo:
    def read(self, node: Node, problems: Problems) -> bool:
        if node.plain and node.text in (*_YES, *_NO):
            return node.text in _YES
        _refused(node, problems, "true or false")
        return False

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Duration:
    """A time limit, with its unit."""

    def read(self, node: Node, problems: Problems) -> float:
        found = _DURATION.fullmatch(node.text or "")
        if found is None:
            _refused(node, problems, "a number and its unit: 90 s, 10 min or 2 h")
            return 60.0
        return int(found[1]) * _SECONDS[found[2]]

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{_DURATION.pattern}$", "examples": ["90 s", "10 min", "2 h"]}


@dataclass(frozen=True)
class WayKind:
    """Where something leads."""

    expected = "go on, again, leave, or end and the name of an ending"

    def read(self, node: Node, problems: Problems) -> Way:
        words = (node.text or "").split()
        if len(words) == 2 and words[0] == Goes.END:
            return Way(Goes.END, words[1], node.at)
        if (said := " ".join(words)) in (Goes.ON, Goes.AGAIN, Goes.LEAVE):
            return Way(Goes(said), at=node.at)
        _refused(node, problems, self.expected, nearest(said, filter(None, Goes)))
        return Way(Goes.NOWHERE, at=node.at)

    def schema(self) -> dict[str, Any]:
        return {
            "type": "string",
            "pattern": f"^(go on|again|leave|end {NAME})$",
            "examples": ["go on", "again", "leave"],
        }


@dataclass(frozen=True)
class ListOf:
    """Several of a kind; one alone may stand without the list around it."""

    kind: ValueKind
    least: int = 1
    alone: bool = True
    most: int = 1000

    def read(self, node: Node, problems: Problems) -> tuple[Any, ...]:
        if node.items is None:
            if self.alone and (node.text or node.entries is not None):
                return (self.kind.read(node, problems),)
            _refused(node, problems, "a list")
            return ()
        if not self.least <= len(node.items) <= self.most:
            _refused(node, problems, f"a list of at least {self.least} and at most {self.most}")
        return tuple(self.kind.read(item, problems) for item in node.items[: self.most])

    def schema(self) -> dict[str, Any]:
        many = {"type": "array", "items": self.kind.schema(), "minItems": self.least}
        return {"anyOf": [self.kind.schema(), many]} if self.alone else many


@dataclass(frozen=True)
class Named:
    """A mapping of names that the author chooses to values of a kind, in the order of the file."""

    kind: ValueKind
    what: str
    least: int = 1
    pattern: str = NAME
    most: int = 1000

    def read(self, node: Node, problems: Problems) -> dict[str, Any]:
        if node.entries is None or not self.least <= len(node.entries) <= self.most:
            _refused(
                node, problems, f"a mapping of at least {self.least}: a {self.what}, a colon, and what belongs to it"
            )
        found: dict[str, Any] = {}
        for key, value in node.entries or ():
            if not re.fullmatch(self.pattern, key.text or ""):
                _refused(key, problems, f"a {self.what}: a letter, then letters, digits, _ or -")
            found.setdefault(str(key.text), self._one(key, value, problems))
        return found

    def _one(self, key: Node, value: Node, problems: Problems) -> Any:
        if isinstance(self.kind, Shape):
            return self.kind.read(value, problems, name=str(key.text), at=key.at)
        return self.kind.read(value, problems)

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "minProperties": self.least,
            "propertyNames": {"pattern": f"^{self.pattern}$"},
            "additionalProperties": self.kind.schema(),
        }


@dataclass(frozen=True)
class MappingKey:
    """A key of a mapping."""

    kind: ValueKind
    help: str
    required: bool = False
    name: str = ""
    """Of the attribute it becomes, where that is not the key."""


@dataclass(frozen=True)
class Shape:
    """A mapping with known keys, which becomes one value of the tree."""

    make: Callable[..., Any]
    fields: Mapping[str, MappingKey]
    what: str
    help: str = ""
    short: str = ""
    """The field that a simple value in its place stands for."""
    ref: str = ""
    """Its name among the definitions of the schema."""
    blanks: Mapping[str, Any] = field(default_factory=dict)

    def read(self, node: Node, problems: Problems, *, at: Place | None = None, **given: Any) -> Any:
        place = at or node.at
        if self.short and node.text:
            entries = {self.short: node}
        elif node.entries is None:
            if node.text != "" or any(one.required for one in self.fields.values()):
                _refused(node, problems, f"{self.what}: a mapping with {self._listed}")
            entries = {}
        else:
            entries = self._entries(node, problems)
            for key, one in self.fields.items():
                if one.required and key not in entries:
                    problems.add(place, f"{self.what} has no {key!r}", expected=f"{key}: {one.help}")
        values = {
            one.name or key: one.kind.read(entries[key], problems) for key, one in self.fields.items() if key in entries
        }
        return self.make(**{**self.blanks, **given, **values, "at": place})

    def _entries(self, node: Node, problems: Problems) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for key, value in node.entries or ():
            if key.text in self.fields:
                found.setdefault(str(key.text), value)
            else:
                problems.unknown(key.at, f"in {self.what} the key", str(key.text), self.fields)
        return found

    @property
    def _listed(self) -> str:
        return ", ".join(self.fields)

    def schema(self) -> dict[str, Any]:
        return {"$ref": f"#/$defs/{self.ref}"} if self.ref else self.definition()

    def definition(self) -> dict[str, Any]:
        whole: dict[str, Any] = {
            "type": "object",
            "description": self.help or self.what,
            "additionalProperties": False,
            "properties": {key: {**one.kind.schema(), "description": one.help} for key, one in self.fields.items()},
        }
        if required := [key for key, one in self.fields.items() if one.required]:
            whole["required"] = required
        if self.short:
            return {"anyOf": [self.fields[self.short].kind.schema(), whole]}
        return whole

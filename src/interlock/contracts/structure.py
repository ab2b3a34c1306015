"""What the text of an artifact must contain, and the least text that does.

A rule says what is wrong in a few words (``Validation Result missing``), which go to the agent as they are.
Its sample serves the scripted player, and shows an agent what is meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from interlock.documents import Sections, read_yaml, render_yaml
from interlock.errors import DocumentInvalid


class Structure(Protocol):
    def problem(self, text: str) -> str | None:
        """What is wrong with the text, or ``None``."""
        ...

    def sample(self) -> str:
        """A small text that has no problem."""
        ...


@dataclass(frozen=True)
class Headings:
    """A Markdown title (unless waived) and these headings, in any order."""

    required: tuple[str, ...] = ()
    title: bool = True

    def problem(self, text: str) -> str | None:
        document = Sections(text)
        if self.title and not any(section.level == 1 and section.title for section in document.sections):
            return "title (a line starting with '# ') missing"
        lacking = [heading for heading in self.required if document.find(heading) is None]
        return f"{_listed(lacking, 'and')} missing" if lacking else None

    def sample(self) -> str:
        parts = ["# Title\n"] if self.title else []
        parts += [f"{heading}\n\nNothing to add.\n" for heading in self.required]
        return "\n".join(parts) or "Nothing to add.\n"


Allowed = tuple[str, ...] | None
"""The values that may stand somewhere; ``None`` for any that is not empty."""


@dataclass(frozen=True)
class Lines:
    """Lines ``Label: value``, plain, bold or as a bullet; every one with the label has an allowed value."""

    required: Mapping[str, Allowed]

    def problem(self, text: str) -> str | None:
        return _all(self._problems(text))

    def _problems(self, text: str) -> Iterator[str | None]:
        for label, allowed in self.required.items():
            values = labelled(text, label)
            if not any(values):
                yield f"{label} missing"
            yield next(filter(None, (_unexpected(label, value, allowed) for value in filter(None, values))), None)

    def sample(self) -> str:
        return "".join(f"{label}: {_example(allowed)}\n" for label, allowed in self.required.items())


@dataclass(frozen=True)
class SectionValues:
    """Sections whose text, comments left out, is one allowed value (``## Status`` above ``DONE``)."""

    required: Mapping[str, Allowed]

    def problem(self, text: str) -> str | None:
        return _all(self._problem(Sections(text), *one) for one in self.required.items())

    def _problem(self, document: Sections, heading: str, allowed: Allowed) -> str | None:
        if document.find(heading) is None:
            return f"{heading} missing"
        value = _COMMENT.sub("", document.own_text(heading)).strip()
        return _unexpected(heading, value, allowed) if value else f"{heading} is empty"

    def sample(self) -> str:
        return "\n".join(f"{heading}\n{_example(allowed)}\n" for heading, allowed in self.required.items())


class TextList:
    """The kind of a field that holds a list of texts."""


KeyKind = type | tuple[str, ...] | None
"""What a field holds: a kind of plain data (text that says something), one of these texts, or anything."""
Kinds = Mapping[str, KeyKind]


def key_problems(data: Mapping[str, Any], required: Kinds, optional: Kinds | None = None) -> Iterator[tuple[str, str]]:
    """What is wrong with the fields of a mapping, each with its name: those that are missing, then those of another
    kind. Optional ones may be left out; their lists and mappings may be empty."""
    for name, kind in required.items():
        if name not in data:
            yield name, f"missing; expected {alternatives(kind)}" if isinstance(kind, tuple) else "missing"
    for name, kind in {**required, **(optional or {})}.items():
        empty = name not in required and kind in (list, dict, TextList) and data.get(name) is None
        if name in data and not empty:
            yield from _other_kind(name, data[name], kind)


@dataclass(frozen=True)
class YamlKeys:
    """A YAML mapping with these fields, and whatever else a playbook demands of it: the first complaint counts, so that
    each may rely on those before it."""

    required: Kinds
    example: Mapping[str, Any]
    further: Callable[[dict[str, Any]], Iterator[str]] = lambda _data: iter(())

    def problem(self, text: str) -> str | None:
        try:
            data = read_yaml(text, "the text")
        except DocumentInvalid as error:
            return str(error).removeprefix("the text is ")
        return next(self.problems(data), None) if isinstance(data, dict) else "not a YAML mapping"

    def problems(self, data: dict[str, Any]) -> Iterator[str]:
        """All that is wrong with the data."""
        for name, what in key_problems(data, self.required):
            yield f"field {name} missing" if what == "missing" else f"{name} {what}"
        yield from self.further(data)

    def sample(self) -> str:
        return render_yaml(self.example)


@dataclass(frozen=True, init=False)
class AllOf:
    """Several rules for one text; whoever mends it is told all that is wrong."""

    rules: tuple[Structure, ...]

    def __init__(self, *rules: Structure) -> None:
        object.__setattr__(self, "rules", rules)

    def problem(self, text: str) -> str | None:
        return _all(rule.problem(text) for rule in self.rules)

    def sample(self) -> str:
        return "\n".join(rule.sample() for rule in self.rules)


@dataclass(frozen=True)
class Custom:
    """A rule of a playbook's own."""

    check: Callable[[str], str | None]
    example: str

    def problem(self, text: str) -> str | None:
        return self.check(text)

    def sample(self) -> str:
        return self.example


_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_NAMES: Mapping[type, str] = {
    str: "text",
    bool: "true or false",
    int: "integer",
    float: "number",
    dict: "mapping",
    TextList: "list",
}


def labelled(text: str, label: str) -> list[str]:
    """The values of the lines ``Label: value``, in order, without emphasis marks."""
    line = re.compile(
        rf"^[ \t]*(?:[-*+][ \t]+)?[*_`]{{0,3}}{re.escape(label)}[*_`]{{0,3}}[ \t]*:[*_`]{{0,3}}[ \t]*(.*)$",
        re.IGNORECASE | re.MULTILINE,
    )
    return [value.strip().strip("*_`").strip() for value in line.findall(text)]


_RULE = re.compile(r"[ \t]*+\|?[ \t]*+:?-{3,}+:?[ \t]*+(\|[ \t]*+:?-{3,}+:?[ \t]*+)+\|?[ \t]*")


def with_pipes(text: str) -> str:
    """The text with a pipe before every row of its tables: there are tables without."""
    rows = text.split("\n")
    inside = False
    for at, (row, below) in enumerate(pairwise((*rows, ""))):
        inside = "|" in row and (inside or _RULE.fullmatch(below) is not None)
        if inside and not row.lstrip().startswith("|"):
            rows[at] = f"| {row}"
    return "\n".join(rows)


def quoted(value: object) -> str:
    """A value as complaints show it: as JSON, and not too long."""
    text = json.dumps(value, ensure_ascii=False, default=str).encode(errors="backslashreplace").decode()
    return text if len(text) <= 80 else text[:79] + "…"


def alternatives(allowed: Sequence[str]) -> str:
    """``completed, partial or failed``."""
    return _listed(allowed, "or")


def _all(problems: Iterable[str | None]) -> str | None:
    """All that is wrong, each once, in one line."""
    return "; ".join(dict.fromkeys(filter(None, problems))) or None


def _listed(words: Sequence[str], last: str) -> str:
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def _example(allowed: Allowed) -> str:
    return "text" if allowed is None else allowed[0]


def _unexpected(label: str, value: object, allowed: Allowed) -> str | None:
    if allowed is None or value in allowed:
        return None
    return f"{label} is {quoted(value)}; expected {alternatives(allowed)}"


def _other_kind(name: str, value: object, kind: KeyKind) -> Iterator[tuple[str, str]]:
    if isinstance(kind, tuple):
        if value not in kind:
            yield name, f"is {quoted(value)}; expected {alternatives(kind)}"
    elif kind is not None and not _is_a(list if kind is TextList else kind, value):
        yield name, f"is {kind_of(value)}; expected {_NAMES.get(kind, kind.__name__)}"
    elif kind is TextList and isinstance(value, list):
        for number, entry in enumerate(value):
            yield from _other_kind(f"{name}[{number}]", entry, str)


def _is_a(kind: type, value: object) -> bool:
    """Truth is no number, and blank text is none; a whole number is one too."""
    if isinstance(value, bool):
        return kind is bool
    meant = int | float if kind is float else kind
    return isinstance(value, meant) and not (isinstance(value, str) and not value.strip())


def kind_of(value: object) -> str:
    """The kind of plain data, in words for whoever has to put something else there."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return "empty"
    name = _NAMES.get(type(value), type(value).__name__)
    return name if isinstance(value, str | bool) else f"a{'n' if re.match('[aeiou]', name) else ''} {name}"

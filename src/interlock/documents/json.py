"""JSON that keeps a person's formatting: an edit replaces the bytes of one value and no other.

Reading is done by the C decoder.  Where a value stands in the text is found only when it is asked for, by
walking down the path and letting the C decoder skip every value that is passed, so a change of one field in
a file of a thousand items costs milliseconds.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from interlock.documents.plain import DEEPEST, Key, changed, half_character, holds, lookup, pointer, removed
from interlock.errors import DocumentInvalid, EngineFault

_SPACE = re.compile(r"[ \t\n\r]*")
_INDENTED = re.compile(r"[\[{][ \t\r]*\n([ \t]+)\S")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]', re.DOTALL)
_HALF = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|\\u[dD][c-fC-F][0-9a-fA-F]{2}")
"""An escape of a surrogate, with its other half if that follows."""


class Span(NamedTuple):
    """Where a value stands in the text, as offsets."""

    start: int
    end: int


class JsonInvalid(DocumentInvalid):
    """A text that is not JSON; where and why."""

    line: int

    def __init__(self, path: str, line: int, column: int, reason: str) -> None:
        reason = reason[:1].lower() + reason[1:]
        super().__init__(f"{path} is not valid JSON: line {line} column {column}: {reason}", path=path, line=line)
        self.column = column
        self.reason = reason


class DuplicateKey(DocumentInvalid):
    """An object has a key twice; ``pointer`` is the path of the object."""

    def __init__(self, path: str, key: str, pointer: tuple[Key, ...], line: int) -> None:
        super().__init__(f'{path}: key "{key}" appears twice (line {line})', path=path, line=line)
        self.key = key
        self.pointer = pointer


def load(text: str, path: str) -> Any:
    """The plain data of a JSON text; DocumentInvalid with line and column, or DuplicateKey."""
    _check_depth(text, path)
    try:
        data = _READER.decode(text)
    except _Duplicate as duplicate:
        raise _locate(text, path, duplicate.key) from None
    except json.JSONDecodeError as error:
        raise JsonInvalid(path, error.lineno, error.colno, error.msg) from None
    except RecursionError:
        raise JsonInvalid(path, 1, 1, "nested too deeply") from None
    except ValueError as error:
        raise JsonInvalid(path, 1, 1, str(error)) from None
    if _HALF.search(text) and (keys := half_character(data)) is not None:
        raise JsonInvalid(path, *_half_at(text), f"{pointer(keys)} has half of a surrogate pair, which is no text")
    return data


def _check_depth(text: str, path: str) -> None:
    """Refuse what is nested deeper than anybody can handle, before it fills the stack."""
    if text.count("[") + text.count("{") <= DEEPEST:
        return
    depth = 0
    for found in _TOKEN.finditer(text):
        if found[0] in ("[", "{"):
            depth += 1
            if depth > DEEPEST:
                line, column = _line_and_column(text, found.start())
                raise JsonInvalid(path, line, column, f"nested too deeply: more than {DEEPEST} levels")
        elif found[0] in ("]", "}"):
            depth -= 1


def _half_at(text: str) -> tuple[int, int]:
    """Where the first escape stands that is half of a pair."""
    for found in _HALF.finditer(text):
        if len(found[0]) == len("\\ud800"):
            return _line_and_column(text, found.start())
    return 1, 1


def _line_and_column(text: str, place: int) -> tuple[int, int]:
    return text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)


@dataclass(frozen=True)
class JsonDocument:
    """A JSON text and its data.  Edits give a new document and leave every byte beside the edit alone."""

    path: str
    text: str = field(repr=False)
    data: Any = field(repr=False)

    @classmethod
    def parse(cls, text: str, path: str) -> JsonDocument:
        return cls(path, text, load(text, path))

    def render(self) -> str:
        return self.text

    def get(self, keys: Sequence[Key], default: Any = None) -> Any:
        """The value at a path such as ``("items", 3, "status")``, or the default."""
        return lookup(self.data, keys, default)

    def span(self, keys: Sequence[Key]) -> Span:
        """Where the value at the path stands."""
        return self._entry(keys).value

    def line(self, keys: Sequence[Key]) -> int:
        """The line, from 1, on which the value at the path begins."""
        return self.text.count("\n", 0, self.span(keys).start) + 1

    def set(self, keys: Sequence[Key], value: Any) -> JsonDocument:
        """With the value at the path replaced; a new last key is added in the style of its object."""
        data = changed(self.data, tuple(keys), value, self.path)
        if keys and not holds(self.get(keys[:-1]), keys[-1]):
            return self._spliced(*self._insertion(keys[:-1], keys[-1], value), data)
        span = self.span(keys)
        return self._spliced(span, self._written(value, self._indent_for(span, self.span(keys[:-1]))), data)

    def append(self, keys: Sequence[Key], value: Any) -> JsonDocument:
        """With the value added at the end of the array at the path."""
        array = self.get(keys)
        if not isinstance(array, list):
            raise self._absent(keys, "an array")
        return self.set((*keys, len(array)), value)

    def remove(self, keys: Sequence[Key]) -> JsonDocument:
        """Without the key (or array element) at the path, and without its comma."""
        if not keys:
            raise self._absent(keys, "a key")
        target = self._entry(keys)
        container = self.span(keys[:-1])
        entries = list(self._entries(container.start))
        at = entries.index(target)
        if len(entries) == 1:
            cut = Span(container.start + 1, container.end - 1)
        elif at == len(entries) - 1:
            cut = Span(entries[at - 1].value.end, target.value.end)
        else:
            cut = Span(target.start, entries[at + 1].start)
        return self._spliced(cut, "", removed(self.data, tuple(keys)))

    def _spliced(self, span: Span, new: str, data: Any) -> JsonDocument:
        return JsonDocument(self.path, self.text[: span.start] + new + self.text[span.end :], data)

    def _entry(self, keys: Sequence[Key]) -> _Entry:
        """The entry that the path leads to; the whole document is the entry of the empty path."""
        start = _after_space(self.text, 0)
        entry = _Entry("", start, start, None)
        for depth, key in enumerate(keys):
            entry = self._step(entry.opens, key) or self._missing(keys[: depth + 1])
        return self._closed(entry)

    def _closed(self, entry: _Entry) -> _Entry:
        if entry.closes is not None:
            return entry
        try:
            return entry._replace(closes=_SKIPPER.raw_decode(self.text, entry.opens)[1])
        except RecursionError:  # the stack may be fuller now than it was when the text was read
            raise JsonInvalid(self.path, 1, 1, "nested too deeply") from None

    def _step(self, start: int, key: Key) -> _Entry | None:
        kind = {"{": str, "[": int}.get(self.text[start])
        if kind is None or type(key) is not kind:
            return None
        return next((entry for entry in self._entries(start, key) if entry.key == key), None)

    def _entries(self, start: int, wanted: Key | None = None) -> Iterator[_Entry]:
        """The entries of the object or array that starts here; the wanted one is not walked through."""
        text, named = self.text, self.text[start] == "{"
        place, index = _after_space(text, start + 1), 0
        while text[place] not in "}]":
            key: Key = index
            opens = place
            if named:
                key, after = scanstring(text, place + 1)
                opens = _after_space(text, _after_space(text, after) + 1)
            entry = _Entry(key, place, opens, None)
            if key == wanted:
                yield entry
                return
            entry = self._closed(entry)
            yield entry
            place = _after_space(text, entry.value.end)
            if text[place] == ",":
                place = _after_space(text, place + 1)
            index += 1

    def _insertion(self, keys: Sequence[Key], key: Key, value: Any) -> tuple[Span, str]:
        """Where and as what a new entry is written: as the last one of its container, spaced like it."""
        text, container = self.text, self.span(keys)
        entries = list(self._entries(container.start))
        label = _dumped(key) if isinstance(key, str) else ""
        if not entries:
            colon = ": " if label else ""
            hole = Span(container.start + 1, container.end - 1)
            outer, step = self._indent_at(container.start), self._step_width()
            if step is None:
                return hole, f"{label}{colon}{self._written(value, None)}"
            inner = outer + step
            return hole, f"\n{inner}{label}{colon}{self._written(value, inner)}\n{outer}"
        last = entries[-1]
        before = entries[-2].value.end if len(entries) > 1 else container.start
        lead = text[before : last.start].lstrip(" \t\n\r").removeprefix(",").removeprefix(text[container.start])
        colon = text[last.start : last.opens][len(_key_text(text, last)) :] if label else ""
        if len(entries) == 1 and not lead and (colon.endswith(" ") or not label):
            lead = " "
        indent = lead.rpartition("\n")[2] if "\n" in lead else None
        return Span(last.value.end, last.value.end), f",{lead}{label}{colon}{self._written(value, indent)}"

    def _written(self, value: Any, indent: str | None) -> str:
        """The value as text: on one line, or its lines indented as the document does it."""
        step = self._step_width()
        if step is None or indent is None or not isinstance(value, dict | list) or not value:
            return _dumped(value)
        return _dumped(value, indent=step).replace("\n", f"\n{indent}")

    def _indent_for(self, old: Span, container: Span) -> str | None:
        """The indent for what replaces a value; ``None`` where the value or all around it is on one line."""
        on_one_line = "\n" not in self.text[old.start : old.end]
        if on_one_line and (old.end - old.start > 2 and self.text[old.start] in "[{"):
            return None
        return None if "\n" not in self.text[container.start : container.end] else self._indent_at(old.start)

    def _step_width(self) -> str | None:
        """What the document indents by; ``None`` when it is not written over several lines."""
        found = _INDENTED.search(self.text)
        return found[1].removeprefix(self._indent_at(found.start())) or found[1] if found else None

    def _indent_at(self, place: int) -> str:
        line = self.text[self.text.rfind("\n", 0, place) + 1 : place]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _missing(self, keys: Sequence[Key]) -> _Entry:
        raise self._absent(keys, "a value")

    def _absent(self, keys: Sequence[Key], expected: str) -> DocumentInvalid:
        return DocumentInvalid(f"{self.path}: {pointer(keys)} not found", path=self.path, expected=expected)


class _Entry(NamedTuple):
    key: Key
    start: int
    """Where the entry begins: its key, or its value in an array."""
    opens: int
    """Where its value begins."""
    closes: int | None
    """Where its value ends, once that was looked for."""

    @property
    def value(self) -> Span:
        assert self.closes is not None
        return Span(self.opens, self.closes)


class _Duplicate(Exception):
    def __init__(self, key: str) -> None:
        self.key = key


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        raise _Duplicate(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return found


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"number {text} is too large")
    return number


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


_READER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant)
_SKIPPER = json.JSONDecoder()


def _after_space(text: str, place: int) -> int:
    return _SPACE.match(text, place).end()  # type: ignore[union-attr]


def _key_text(text: str, entry: _Entry) -> str:
    return text[entry.start : scanstring(text, entry.start + 1)[1]]


def _dumped(value: Any, indent: str | None = None) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair can only be written as an escape
        return json.dumps(value, allow_nan=False, indent=indent)
    except (TypeError, ValueError) as error:
        raise EngineFault(f"a value has no place in JSON: {error}") from None
    return text


def _locate(text: str, path: str, key: str) -> DuplicateKey:
    """The first repeated key with its line, found token by token: the text is well-formed up to it."""
    above: list[Key] = []  # the key or index that is being read, for each open object and array
    names: list[set[str]] = []
    tokens = [(found[0], found.start()) for found in _TOKEN.finditer(text)]
    for (token, start), (follower, _) in pairwise([*tokens, ("", len(text))]):
        if token in ("{", "["):
            above.append(0 if token == "[" else "")
            names.append(set())
        elif token in ("}", "]"):
            above.pop()
            names.pop()
        elif token == "," and isinstance(above[-1], int):
            above[-1] += 1
        elif follower == ":" and token != ",":
            name = scanstring(text, start + 1)[0]
            if name in names[-1]:
                return DuplicateKey(path, name, tuple(above[:-1]), text.count("\n", 0, start) + 1)
            names[-1].add(name)
            above[-1] = name
    return DuplicateKey(path, key, (), 1)

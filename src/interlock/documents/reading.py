"""JSON, YAML and TOML from anywhere become plain data that knows where each value stands.

What the parsers let through and nobody could handle is bad input with its line: a key twice, nesting without end,
aliases that explode, tags, NaN, numbers of thousands of digits, half of a surrogate pair, bytes that are no UTF-8.
A byte order mark and CRLF are read, and kept for writing.  Positions are looked up only when something is wrong.
"""

from __future__ import annotations

import codecs
import json
import math
import re
import tomllib
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple, NoReturn

from interlock.errors import DocumentInvalid, place

Key = str | int
Keys = tuple[Key, ...]
"""A path into data: keys of mappings, indexes of lists."""
DEEPEST = 100
"""Levels that data may have: nobody could handle more further on."""
_MOST = 500_000
"""Values that data may have; aliases of YAML count as what they stand for."""
_BITS = 3_500
"""Of the largest number: about 1,000 digits."""
_TOO_DEEP = f"nested too deeply: more than {DEEPEST} levels"


class Spot(NamedTuple):
    """Where something stands, for a person; line and column count from 1."""

    path: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return place(*self)


@dataclass(frozen=True)
class Text:
    """A text without byte order mark, its lines ended by LF; `encode` gives a new text the form of the old one."""

    text: str
    bom: bool = False
    crlf: bool = False
    """Every line on disk ends with CRLF."""

    @classmethod
    def of(cls, raw: bytes, path: str) -> Text:
        """What the bytes of a file say; DocumentInvalid with the line where they are no UTF-8."""
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            raise DocumentInvalid(
                f"{path} is not valid UTF-8",
                where=place(path, raw.count(b"\n", 0, error.start) + 1),
                expected="UTF-8 text",
                found=f"byte 0x{raw[error.start]:02x} at position {error.start}",
                remedy="Save the file as UTF-8.",
            ) from None
        crlf = "\r\n" in text and text.count("\n") == text.count("\r\n")
        return cls(text.removeprefix("\ufeff").replace("\r\n", "\n"), text.startswith("\ufeff"), crlf)

    def encode(self, text: str) -> bytes:
        content = (text.replace("\n", "\r\n") if self.crlf else text).encode()
        return codecs.BOM_UTF8 + content if self.bom else content


@dataclass(frozen=True)
class Source:
    """Data that was read, and where it stands."""

    path: str
    data: Any
    find: Callable[[Keys], tuple[int, int] | None] = field(repr=False, compare=False)

    def spot(self, keys: Sequence[Key] = ()) -> Spot:
        """Where the entry stands, else the nearest one around it."""
        for end in range(len(keys), -1, -1):
            if (found := self.find(tuple(keys[:end]))) is not None:
                return Spot(self.path, *found)
        return Spot(self.path)


def pointer(keys: Sequence[Key]) -> str:
    """A path into data as people read it: `items[3].status`."""
    parts = (
        f"[{key}]" if isinstance(key, int) else f".{key}" if re.fullmatch(r"[\w/-]+", key) else f".{json.dumps(key)}"
        for key in keys
    )
    return "".join(parts).removeprefix(".") or "the document"


# JSON

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)


def read_json(text: str, path: str, owner: Callable[[Any, Keys], str] = lambda data, keys: "") -> Source:
    """The data of a JSON text; DocumentInvalid with its line and column else.

    Args:
        owner: what is told before a key that appears twice, as to whose it is.
    """
    keys_twice: list[bool] = []

    def found(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys_twice.extend([True] * (len(dict(pairs)) != len(pairs)))
        return dict(pairs)

    try:
        data = json.loads(text, object_pairs_hook=found)
    except json.JSONDecodeError as error:
        _refuse(path, "JSON", error.msg, error.lineno, error.colno)
    except RecursionError:
        _refuse(path, "JSON", _TOO_DEEP)
    except ValueError as error:  # int() and its limit of digits
        _refuse(path, "JSON", str(error).partition(";")[0])
    seen: set[Keys] = set()
    for keys, at in entries(text) if keys_twice else ():
        if keys in seen:
            _refuse(path, "JSON", f'{owner(data, keys)}key "{keys[-1]}" appears twice', *_line_and_column(text, at))
        seen.add(keys)
    offsets = cache(lambda: dict(entries(text)))

    def find(keys: Keys) -> tuple[int, int] | None:
        at = offsets().get(keys)
        return None if at is None else _line_and_column(text, at)

    return _usable(Source(path, data, find), "JSON")


def entries(text: str) -> Iterator[tuple[Keys, int]]:
    """Each entry with the offset at which it begins: that of its key, or of its value in a list.

    The text need be well-formed only as far as it is walked through.
    """
    above: list[Key] = []  # of each open object the key, of each open list the index that is being read
    key_next = False
    for found in _TOKEN.finditer(text):
        token = found[0]
        if token in "}]":
            above.pop()
            key_next = False
        elif token == ",":
            if isinstance(above[-1], int):
                above[-1] += 1
            else:
                key_next = True
        elif token == ":":
            key_next = False
        elif key_next:
            above[-1] = scanstring(text, found.start() + 1)[0]
            yield tuple(above), found.start()
        else:
            if not above or isinstance(above[-1], int):
                yield tuple(above), found.start()
            if token in "{[":
                above.append("" if token == "{" else 0)
                key_next = token == "{"


# YAML

_TAG = "tag:yaml.org,2002:"


def read_yaml(text: str, path: str, *, first_line: int = 1) -> Source:
    """The data of one YAML document, None for an empty text; dates stay the text that was written.

    Args:
        first_line: line of the file on which the text begins.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError

    parser = YAML(typ="safe", pure=True)
    try:
        with warnings.catch_warnings():  # the parser quotes the text in them, for whatever terminal there is
            warnings.simplefilter("ignore")
            root = parser.compose(text)
            data = _built(root, {}, parser.constructor.construct_object)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = (mark.line + first_line, mark.column + 1) if mark else ()
        _refuse(path, "YAML", error.problem or "malformed", *where)
    except RecursionError:
        _refuse(path, "YAML", _TOO_DEEP)
    except Exception as error:  # noqa: BLE001 - odd input ends in whatever error the parser's code runs into
        _refuse(path, "YAML", str(error).partition("\n")[0] or type(error).__name__)

    def find(keys: Keys) -> tuple[int, int] | None:
        mark = _mark(root, keys)
        return None if mark is None else (mark.line + first_line, mark.column + 1)

    return _usable(Source(path, data, find), "YAML")


def _built(node: Any, made: dict[int, Any], scalar: Callable[[Any], Any]) -> Any:
    """The plain data of a node of the parser; an alias is the very value that it stands for."""
    if node is None or id(node) in made:
        return made.get(id(node))
    match str(node.tag).removeprefix(_TAG):
        case "timestamp" | "value" | "merge":
            return node.value
        case "null" | "bool" | "int" | "float" | "str":
            made[id(node)] = scalar(node)
        case "seq":
            made[id(node)] = []
            made[id(node)] += [_built(item, made, scalar) for item in node.value]
        case "map":
            made[id(node)] = {}
            made[id(node)] |= _mapping(node, made, scalar)
        case _:
            _wrong(node, f"tag {node.tag} is not allowed")
    return made[id(node)]


def _mapping(node: Any, made: dict[int, Any], scalar: Callable[[Any], Any]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    merged: list[Any] = []
    for name, item in node.value:
        if name.id != "scalar":
            _wrong(name, "a key must be a simple value")
        if str(name.tag) == _TAG + "merge":
            source = _built(item, made, scalar)
            merged += source if isinstance(source, list) else [source]
        elif name.value in entries:
            _wrong(name, f'key "{name.value}" appears twice')
        else:
            entries[name.value] = _built(item, made, scalar)
    for part in merged:
        if not isinstance(part, dict):
            _wrong(node, "a merge key needs a mapping")
        entries = part | entries
    return entries


def _wrong(node: Any, reason: str) -> NoReturn:
    from ruamel.yaml.error import MarkedYAMLError

    raise MarkedYAMLError(problem=reason, problem_mark=node.start_mark)


def _mark(node: Any, keys: Keys) -> Any:
    """Where the parser saw the entry begin, its key in a mapping; None where there is none."""
    mark = None if node is None else node.start_mark
    for key in keys:
        if node is None or node.id != ("sequence" if isinstance(key, int) else "mapping"):
            return None
        if isinstance(key, int):
            name = node = node.value[key] if key < len(node.value) else None
        else:
            name, node = next((pair for pair in node.value if pair[0].value == key), (None, None))
        mark = None if name is None else name.start_mark
    return mark


# TOML


def read_toml(text: str, path: str) -> Source:
    """The data of a TOML text; dates and times are what tomllib makes of them."""
    try:
        data = tomllib.loads(text)
    except RecursionError:
        _refuse(path, "TOML", _TOO_DEEP)
    except ValueError as error:  # TOMLDecodeError, and what int() says of thousands of digits
        at = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)", str(error))
        reason = str(error).replace(at[0], "") if at else str(error).partition(";")[0]
        where = (int(at[1]), int(at[2])) if at and at[1] else (text.count("\n") + 1,) if at else ()
        _refuse(path, "TOML", reason, *where)
    positions = cache(lambda: _toml_positions(text))
    return _usable(Source(path, data, lambda keys: positions().get(keys)), "TOML")


_STATEMENT = re.compile(r"\s*(?:(?P<table>\[[^=]*\])\s*(?:#.*)?$|(?P<key>[^=\[{#]+?)\s*=)")


def _toml_positions(text: str) -> dict[Keys, tuple[int, int]]:
    """Where each table and key first stands, as far as its line tells: tomllib keeps no positions."""
    places: dict[Keys, tuple[int, int]] = {}
    table: Keys = ()
    for number, line in enumerate(text.split("\n"), start=1):
        with suppress(ValueError, RecursionError):  # in the middle of a list or a long text
            if found := _STATEMENT.match(line):
                paths = [path for path, _ in walk(tomllib.loads(found["table"] or f"{found['key']} = 0")) if path]
                table = max(paths, key=len) if found["table"] else table
                for path in paths:
                    whole = path if found["table"] else (*table, *path)
                    places.setdefault(whole, (number, len(line) - len(line.lstrip()) + 1))
    return places


# all


def walk(data: Any, keys: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Each value with its path, from the outside in."""
    yield keys, data
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from walk(value, (*keys, key))


def _usable(source: Source, form: str) -> Source:
    """The source, if others can handle all that is in it: store it, send it, write it as UTF-8."""
    for count, (keys, value) in enumerate(walk(source.data), start=1):
        reason = "too many values, or aliases that expand to too many" if count > _MOST else _unusable(keys, value)
        if reason:
            _refuse(source.path, form, reason, *source.spot(keys)[1:])
    return source


def _unusable(keys: Keys, value: Any) -> str:
    match value:
        case dict() | list() if len(keys) >= DEEPEST:
            return _TOO_DEEP
        case float() if not math.isfinite(value):
            return f"{value} is no number that can be used"
        case int() if value.bit_length() > _BITS:
            return "a number of more than 1,000 digits is too large"
    texts = [text for text in (value, *keys[-1:]) if isinstance(text, str) and not text.isascii()]
    if any("\ud800" <= letter <= "\udfff" for text in texts for letter in text):
        return "half of a surrogate pair is no text"
    return ""


def _refuse(path: str, form: str, reason: str, line: int | None = None, column: int | None = None) -> NoReturn:
    said = reason[:1].lower() + reason[1:200]
    raise DocumentInvalid(f"{path} is not valid {form}: {said}", where=place(path, line, column)) from None


def _line_and_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)

"""JSON, YAML and TOML from anywhere become plain data that knows where each value stands.

What plain data cannot say, or an attacker would send, is bad input with its line: a key twice, nesting without end,
aliases that explode, tags, NaN, numbers of thousands of digits, half of a surrogate pair, bytes that are no UTF-8.
A byte order mark and CRLF are read, and kept for writing.  Positions are looked up only when something is wrong.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple, NoReturn

from interlock.errors import DocumentInvalid, place

Key = str | int
Keys = tuple[Key, ...]
"""A path into data: keys of mappings, indexes of lists."""
DEEPEST = 100
"""Levels that data may have: nobody could handle more further on."""
_DIGITS = 1000
_REPEATS = 10_000
"""Values that aliases may add to those that were written."""
_LONE_LF = re.compile(r"(?<!\r)\n")


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

    path: str
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
            line = raw.count(b"\n", 0, error.start) + 1
            raise DocumentInvalid(
                f"{path} is not valid UTF-8",
                path=path,
                line=line,
                expected="UTF-8 text",
                found=f"byte 0x{raw[error.start]:02x} at position {error.start}",
                remedy="Save the file as UTF-8.",
            ) from None
        crlf = "\r\n" in text and not _LONE_LF.search(text)
        return cls(path, text.removeprefix("\ufeff").replace("\r\n", "\n"), text.startswith("\ufeff"), crlf)

    def encode(self, text: str) -> bytes:
        content = (text.replace("\n", "\r\n") if self.crlf else text).encode()
        return b"\xef\xbb\xbf" + content if self.bom else content


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


def source_of(raw: bytes, path: str) -> Source:
    """A file's data, by the suffix of its name: `.json`, `.toml`, else YAML."""
    text = Text.of(raw, path).text
    return (read_json if path.endswith(".json") else read_toml if path.endswith(".toml") else read_yaml)(text, path)


# JSON

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_HALF = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


class _Twice(ValueError):
    pass


def read_json(text: str, path: str) -> Source:
    """The data of a JSON text; DocumentInvalid with its line and column else."""
    try:
        data = _decoder().decode(text)
    except json.JSONDecodeError as error:
        _refuse(path, "JSON", error.msg[:1].lower() + error.msg[1:], error.lineno, error.colno)
    except _Twice as error:
        _refuse(path, "JSON", str(error), *_repeated(text))
    except RecursionError:
        _refuse(path, "JSON", _TOO_DEEP, *_depth_reached(text))
    except ValueError as error:  # no finite number, or one of thousands of digits
        _refuse(path, "JSON", str(error).partition(";")[0], *_number_refused(text))
    if _is_deep(data):
        _refuse(path, "JSON", _TOO_DEEP, *_depth_reached(text))
    if (half := _HALF.search(text)) and not _is_text(json.dumps(data, ensure_ascii=False)):
        _refuse(path, "JSON", "half of a surrogate pair is no text", *_line_and_column(text, half.start()))
    offsets = cache(lambda: dict(_entries(text)))

    def find(keys: Keys) -> tuple[int, int] | None:
        at = offsets().get(keys)
        return None if at is None else _line_and_column(text, at)

    return Source(path, data, find)


_TOO_DEEP = f"nested too deeply: more than {DEEPEST} levels"


@cache
def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise _Twice(f'key "{name}" appears twice')
    return found


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:40]} is no number that can be used")
    return number


def _entries(text: str) -> Iterator[tuple[Keys, int]]:
    """Each entry with the offset at which it begins: that of its key, or of its value in a list.

    The text need be well-formed only as far as it is walked through.
    """
    above: list[Key] = []  # of each open object the key, of each open list the index that is being read
    key_next = False
    for found in _TOKEN.finditer(text):
        token = found[0]
        if token in "}]":
            above = above[:-1]
            key_next = False
        elif token == ",":
            if above and isinstance(above[-1], int):
                above[-1] += 1
            else:
                key_next = True
        elif token == ":":
            key_next = False
        elif key_next:
            above[-1] = scanstring(text, found.start() + 1)[0] if token[0] == '"' else token
            yield tuple(above), found.start()
        else:
            if not above or isinstance(above[-1], int):
                yield tuple(above), found.start()
            if token in "{[":
                above.append("" if token == "{" else 0)
                key_next = token == "{"


def _repeated(text: str) -> tuple[int, int]:
    seen: set[Keys] = set()
    for entry, at in _entries(text):
        if entry in seen:
            return _line_and_column(text, at)
        seen.add(entry)
    return 1, 1


def _depth_reached(text: str) -> tuple[int, int]:
    return next((_line_and_column(text, at) for entry, at in _entries(text) if len(entry) >= DEEPEST), (1, 1))


def _number_refused(text: str) -> tuple[int, int]:
    for found in _TOKEN.finditer(text):
        if found[0][0] in "-0123456789NI":
            try:
                if not math.isfinite(float(found[0])):
                    return _line_and_column(text, found.start())
            except ValueError:
                continue
    return 1, 1


# YAML

_TAG = "tag:yaml.org,2002:"
_BASES = {"0x": 16, "0o": 8, "0b": 2}


def read_yaml(text: str, path: str, *, first_line: int = 1) -> Source:
    """The data of one YAML document, None for an empty text; dates stay the text that was written.

    Args:
        first_line: line of the file on which the text begins.
    """
    reader = _Yaml(path, first_line)
    root = reader.compose(text)
    return Source(path, reader.data(root), lambda keys: reader.position(root, keys))


class _Yaml:
    def __init__(self, path: str, first_line: int) -> None:
        self.path = path
        self.first_line = first_line
        self._seen: set[int] = set()
        self._open: set[int] = set()
        self._repeats = 0

    def compose(self, text: str) -> Any:
        """The parser's node of the only document in the text, or None."""
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError

        parser = YAML(typ="safe", pure=True)
        parser.Scanner = _scanner()
        try:
            with warnings.catch_warnings():  # the parser quotes the text in them, for whatever terminal there is
                warnings.simplefilter("ignore")
                return parser.compose(text)
        except MarkedYAMLError as error:
            self._refuse(error.problem or "malformed", error.problem_mark or error.context_mark)
        except RecursionError:
            self._refuse(_TOO_DEEP)
        except Exception as error:  # noqa: BLE001 - odd input ends in whatever error the parser's code runs into
            self._refuse(str(error).partition("\n")[0] or type(error).__name__)

    def data(self, node: Any) -> Any:
        """The plain data of a node and all below it."""
        if node is None:
            return None
        if id(node) in self._open:
            self._refuse("a value contains itself", node.start_mark)
        if id(node) in self._seen:
            self._repeats += 1
            if self._repeats > _REPEATS:
                self._refuse("aliases expand to too much", node.start_mark)
        self._seen.add(id(node))
        if node.id == "scalar":
            return self._scalar(node)
        if str(node.tag) not in (_TAG + "map", _TAG + "seq"):
            self._refuse(f"tag {node.tag} is not allowed", node.start_mark)
        if len(self._open) >= DEEPEST:
            self._refuse(_TOO_DEEP, node.start_mark)
        self._open.add(id(node))
        value = self._mapping(node) if node.id == "mapping" else [self.data(item) for item in node.value]
        self._open.discard(id(node))
        return value

    def position(self, node: Any, keys: Keys) -> tuple[int, int] | None:
        mark = None if node is None else node.start_mark
        for key in keys:
            if node is None or node.id != ("sequence" if isinstance(key, int) else "mapping"):
                return None
            if isinstance(key, int):
                node = node.value[key] if key < len(node.value) else None
                mark = None if node is None else node.start_mark
            else:
                name, node = next((pair for pair in node.value if pair[0].value == key), (None, None))
                mark = None if name is None else name.start_mark
        return None if mark is None else (mark.line + self.first_line, mark.column + 1)

    def _mapping(self, node: Any) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for name, item in node.value:
            if name.id != "scalar":
                self._refuse("a key must be a simple value", name.start_mark)
            if str(name.tag) == _TAG + "merge":
                source = self.data(item)
                for part in source if isinstance(source, list) else [source]:
                    if not isinstance(part, dict):
                        self._refuse("a merge key needs a mapping", item.start_mark)
                    merged = {**part, **merged}
                continue
            if name.value in own:
                self._refuse(f'key "{name.value}" appears twice', name.start_mark)
            self._check_text(name)
            own[name.value] = self.data(item)
        return {**{key: value for key, value in merged.items() if key not in own}, **own}

    def _scalar(self, node: Any) -> Any:
        text: str = node.value
        try:
            match str(node.tag).removeprefix(_TAG):
                case "str" | "timestamp" | "value" | "merge":
                    self._check_text(node)
                    return text
                case "null":
                    return None
                case "bool":
                    return text.lower() in ("true", "yes", "on", "y")
                case "int":
                    return _integer(text)
                case "float":
                    return _finite(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
            raise ValueError(f"tag {node.tag} is not allowed")
        except ValueError as error:
            self._refuse(str(error), node.start_mark)

    def _check_text(self, node: Any) -> None:
        if not _is_text(node.value):
            self._refuse("half of a surrogate pair is no text", node.start_mark)

    def _refuse(self, reason: str, mark: Any = None) -> NoReturn:
        where = () if mark is None else (mark.line + self.first_line, mark.column + 1)
        _refuse(self.path, "YAML", reason, *where)


@cache
def _scanner() -> Any:
    from ruamel.yaml.scanner import Scanner, ScannerError

    class LimitedScanner(Scanner):
        """The parser's time grows with the square of the brackets that are open at the same time."""

        def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:
            if self.flow_level >= DEEPEST:
                raise ScannerError(None, None, _TOO_DEEP, self.reader.get_mark())
            super().fetch_flow_collection_start(TokenClass, to_push)

    return LimitedScanner


def _integer(text: str) -> int:
    digits = text.replace("_", "")
    if len(digits) > _DIGITS:
        raise ValueError(f"a number of {len(digits)} digits is too large")
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    base = _BASES.get(digits[:2].lower())
    return sign * (int(digits) if base is None else int(digits[2:], base))


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
        _refuse(path, "TOML", reason[:1].lower() + reason[1:], *where)
    if _is_deep(data):
        _refuse(path, "TOML", _TOO_DEEP)
    positions = cache(lambda: _toml_positions(text))
    return Source(path, data, lambda keys: positions().get(keys))


def _toml_positions(text: str) -> dict[Keys, tuple[int, int]]:
    """Where each key and table first stands.

    tomllib keeps no positions.  But a TOML file is a list of statements, and a statement alone is a valid file: lines
    are taken together until they parse, and what they parse to is what they set.
    """
    places: dict[Keys, tuple[int, int]] = {}
    table: Keys = ()
    statement: list[str] = []
    counts: dict[Keys, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        statement.append(line)
        if len(statement) > 1 and not re.search(r"""[\]}]|"{3}|'{3}""", line):
            continue  # in the middle of a list or a long text: it cannot end here
        try:
            parsed = tomllib.loads("\n".join(statement))
        except (ValueError, RecursionError):
            continue
        first, head = number - len(statement) + 1, statement[0].lstrip()
        paths = list(_paths(parsed))
        if head.startswith("[[") and paths:
            table = _table_path(paths)
            counts[table] = counts.get(table, -1) + 1
            table = (*table, counts[table])
            paths = [table]
        elif head.startswith("["):
            table = _table_path(paths)
        else:
            paths = [(*table, *path) for path in paths]
        for path in paths:
            places.setdefault(path, (first, len(statement[0]) - len(head) + 1))
        statement = []
    return places


def _table_path(paths: Sequence[Keys]) -> Keys:
    """Of a header's only entry: its longest path, without the index of the list that `[[` makes."""
    return tuple(key for key in max(paths, key=len) if isinstance(key, str))


def _paths(data: Any, above: Keys = ()) -> Iterator[Keys]:
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in entries:
        yield (*above, key)
        yield from _paths(value, (*above, key))


# all


def _refuse(path: str, form: str, reason: str, line: int | None = None, column: int | None = None) -> NoReturn:
    raise DocumentInvalid(f"{path} is not valid {form}: {reason[:200]}", path=path, line=line, column=column) from None


def _line_and_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _is_text(text: str) -> bool:
    """Whether it can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_deep(data: Any) -> bool:
    level = [data]
    for _ in range(DEEPEST + 1):
        level = [each for each in level if isinstance(each, dict | list)]
        if not level:
            return False
        level = list(chain.from_iterable(each.values() if isinstance(each, dict) else each for each in level))
    return True

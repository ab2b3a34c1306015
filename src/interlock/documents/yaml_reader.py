"""From YAML text to plain data, refusing whatever plain data cannot say or an attacker would send."""

from __future__ import annotations

import math
import warnings
from functools import cache
from typing import Any

from interlock.documents.plain import DEEPEST, is_text
from interlock.errors import DocumentInvalid

_TAG = "tag:yaml.org,2002:"
_MAX_REPEATS = 10_000
"""Values that aliases may add to those that were written; more is an attack or a mistake."""
_MAX_FLOW_DEPTH = DEEPEST
"""Brackets open at the same time; the parser's time grows with the square of it."""
_MAX_DIGITS = 1000
_BASES = {"0x": 16, "0o": 8, "0b": 2}


class Reader:
    """Reads one text; messages name the file, and lines as they are in the file."""

    def __init__(self, path: str, first_line: int = 1, what: str | None = None) -> None:
        self.path = path
        self.first_line = first_line
        self.what = what or path
        self._seen: set[int] = set()
        self._open: set[int] = set()
        self._repeats = 0

    def compose(self, text: str) -> Any:
        """The parser's node of the only document in the text, or ``None``."""
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        parser = YAML(typ="safe", pure=True)
        parser.Scanner = _scanner()
        try:
            with warnings.catch_warnings():  # the parser quotes the text in them, for whatever terminal there is
                warnings.simplefilter("ignore")
                return parser.compose(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self._invalid(error.problem or "malformed", None if mark is None else mark.line) from None
        except RecursionError:
            raise self._invalid("nested too deeply", None) from None
        except (
            YAMLError,
            ArithmeticError,
            AssertionError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            # The parser's own checks have holes: odd input ends in whatever error its code runs into.
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise self._invalid(reason, None) from None

    def data(self, node: Any) -> Any:
        """The plain data of a node and all below it."""
        if node is None:
            return None
        try:
            return self._value(node)
        except RecursionError:
            raise self._invalid("nested too deeply", None) from None

    def _value(self, node: Any) -> Any:
        if id(node) in self._open:
            raise self._invalid("a value contains itself", node.start_mark.line)
        if id(node) in self._seen:
            self._repeats += 1
            if self._repeats > _MAX_REPEATS:
                raise self._invalid("aliases expand to too much", node.start_mark.line)
        self._seen.add(id(node))
        if node.id == "scalar":
            return self._scalar(node)
        if str(node.tag) not in (_TAG + "map", _TAG + "seq"):
            raise self._invalid(f"tag {node.tag} is not allowed", node.start_mark.line)
        self._open.add(id(node))
        if len(self._open) > DEEPEST:
            raise self._invalid(f"nested too deeply: more than {DEEPEST} levels", node.start_mark.line)
        value = self._mapping(node) if node.id == "mapping" else [self._value(item) for item in node.value]
        self._open.discard(id(node))
        return value

    def _mapping(self, node: Any) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for name, item in node.value:
            if name.id != "scalar":
                raise self._invalid("a key must be a simple value", name.start_mark.line)
            if str(name.tag) == _TAG + "merge":
                self._merge(merged, self._value(item), item.start_mark.line)
                continue
            if name.value in own:
                line = name.start_mark.line
                raise self._invalid(f'key "{name.value}" appears twice', line)
            self._check_text(name)
            own[name.value] = self._value(item)
        return {**{key: value for key, value in merged.items() if key not in own}, **own} if merged else own

    def _merge(self, into: dict[str, Any], source: Any, line: int) -> None:
        for part in source if isinstance(source, list) else [source]:
            if not isinstance(part, dict):
                raise self._invalid("a merge key needs a mapping", line)
            for key, value in part.items():
                into.setdefault(key, value)

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
                    return _finite(text)
        except ValueError as error:
            raise self._invalid(str(error), node.start_mark.line) from None
        raise self._invalid(f"tag {node.tag} is not allowed", node.start_mark.line)

    def _check_text(self, node: Any) -> None:
        if not is_text(node.value):
            raise self._invalid("half of a surrogate pair is no text", node.start_mark.line)

    def _invalid(self, reason: str, line: int | None) -> DocumentInvalid:
        number = None if line is None else line + self.first_line
        place = "" if number is None else f": line {number}"
        return DocumentInvalid(f"{self.what} is not valid YAML{place}: {reason}", path=self.path, line=number)


@cache
def _scanner() -> Any:
    from ruamel.yaml.scanner import Scanner, ScannerError

    class LimitedScanner(Scanner):
        def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:
            if self.flow_level >= _MAX_FLOW_DEPTH:
                raise ScannerError(None, None, "nested too deeply", self.reader.get_mark())
            super().fetch_flow_collection_start(TokenClass, to_push)

    return LimitedScanner


def _integer(text: str) -> int:
    digits = text.replace("_", "")
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits is too large")
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    base = _BASES.get(digits[:2].lower())
    return sign * (int(digits) if base is None else int(digits[2:], base))


def _finite(text: str) -> float:
    number = float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a number that can be used")
    return number

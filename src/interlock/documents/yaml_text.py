"""Plain data written as YAML: in block style for people, in flow style inside a line."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from interlock.errors import EngineFault

_PLAIN = re.compile(r"(?:[A-Za-z_/]|\.[A-Za-z_/])(?:[A-Za-z0-9_./@+ -]*[A-Za-z0-9_./@+-])?")
_NOT_TEXT = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", ".nan"})
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def dump(data: Any) -> str:
    """Plain data as a YAML document in block style, keys in their order."""
    return "\n".join(block(data, "")) + "\n"


def block(value: Any, indent: str, step: int = 2) -> list[str]:
    """The lines of a value in block style; each starts with the indent."""
    deeper = indent + " " * step
    lines: list[str] = []
    if isinstance(value, dict) and value:
        for key, item in value.items():
            if isinstance(item, dict | list) and item:
                lines += [f"{indent}{_text(str(key))}:", *block(item, deeper, step)]
            else:
                lines.append(f"{indent}{_text(str(key))}: {flow(item)}")
        return lines
    if isinstance(value, list) and value:
        for item in value:
            first, *rest = block(item, indent + "  ", step)
            lines += [f"{indent}- {first[len(indent) + 2 :]}", *rest]
        return lines
    return [indent + flow(value)]


def flow(value: Any, quote: str | None = None) -> str:
    """The value on one line.  A text is quoted as asked where that can be done, else only where it must be."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            if not math.isfinite(value):
                raise EngineFault(f"{value} has no place in plain data")
            return repr(value)
        case int():
            return str(value)
        case str():
            return _text(value, quote)
        case dict():
            return "{" + ", ".join(f"{_text(str(key))}: {flow(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(flow, value)) + "]"
    raise EngineFault(f"{type(value).__name__} has no place in plain data")


def _text(value: str, quote: str | None = None) -> str:
    if quote == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    if quote != '"' and _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))

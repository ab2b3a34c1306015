"""Paths into plain data: the mappings, lists and scalars that JSON and YAML have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.errors import DocumentInvalid

Key = str | int
"""A mapping's key or a list's index; a path is a sequence of them."""
DEEPEST = 100
"""Levels that data may have: more is an attack or a mistake, and nobody could handle it further on."""


def half_character(data: Any) -> tuple[Key, ...] | None:
    """The path of the first text in the data that is no text (half of a surrogate pair); None when all are."""
    if isinstance(data, str):
        return None if is_text(data) else ()
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in entries:
        if isinstance(key, str) and not is_text(key):
            return ()
        if (found := half_character(value)) is not None:
            return (key, *found)
    return None


def is_text(text: str) -> bool:
    """Whether a text can be written as UTF-8."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return False
    return True


def lookup(data: Any, keys: Sequence[Key], default: Any = None) -> Any:
    """The value at the path, or the default."""
    for key in keys:
        if not holds(data, key):
            return default
        data = data[key]
    return data


def holds(data: Any, key: Key) -> bool:
    if isinstance(key, str):
        return isinstance(data, dict) and key in data
    return isinstance(data, list) and 0 <= key < len(data)


def changed(data: Any, keys: tuple[Key, ...], value: Any, path: str) -> Any:
    """The data with one value replaced or added; only the containers on the way are copied."""
    if not keys:
        return value
    key, rest = keys[0], keys[1:]
    if isinstance(data, dict) and isinstance(key, str) and (key in data or not rest):
        return {**data, key: changed(data.get(key), rest, value, path)}
    if isinstance(data, list) and isinstance(key, int) and 0 <= key < len(data) + (not rest):
        old = data[key] if key < len(data) else None
        return [*data[:key], changed(old, rest, value, path), *data[key + 1 :]]
    raise DocumentInvalid(f"{path}: {pointer(keys)} cannot be set: nothing there can hold it", path=path)


def removed(data: Any, keys: tuple[Key, ...]) -> Any:
    """The data without the value at the path, which must be there."""
    if len(keys) > 1:
        return changed(data, keys[:1], removed(data[keys[0]], keys[1:]), "")
    if isinstance(data, dict):
        return {key: value for key, value in data.items() if key != keys[0]}
    return [value for index, value in enumerate(data) if index != keys[0]]


def pointer(keys: Sequence[Key]) -> str:
    """A path as people read it: ``items[3].status``."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return text.removeprefix(".") or "the document"

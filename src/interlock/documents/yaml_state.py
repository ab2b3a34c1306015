"""YAML that a program reads and rewrites again and again, and that people edit in between.

A text that reads exactly as `render_yaml` would write it is written anew with the changed values; any other one is
edited in place, so that comments, order and unknown keys stay.  Which of the two happens depends on the text alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.documents.plain import Key
from interlock.documents.yaml import YamlDocument, load
from interlock.documents.yaml_text import dump

FieldChanges = Mapping[tuple[Key, ...], Any]
_REMEMBERED = 1000
_data: dict[str, Any] = {}
"""Texts that were read or written lately: parsing YAML costs a hundred times what writing it does."""
_own: dict[str, bool] = {}
"""Whether they read as `render_yaml` would write them."""


def _keep(text: str, data: Any) -> Any:
    if len(_data) >= _REMEMBERED:
        _data.clear()
        _own.clear()
    _data[text] = data
    return data


def read_yaml(text: str, path: str) -> Any:
    """The plain data of a text; not to be changed. `DocumentInvalid` when it is no YAML."""
    return _data[text] if text in _data else _keep(text, load(text, path))


def edited_yaml(text: str, path: str, changes: FieldChanges) -> str:
    """The text with these values replaced or added."""
    data = read_yaml(text, path)
    if text not in _own:
        _own[text] = dump(data) == text
    if not isinstance(data, dict) or not _own[text]:
        return YamlDocument.parse(text, path).set_all(changes).render()
    for keys, value in changes.items():
        data = _with(data, keys, value)
    new = dump(data)
    _keep(new, data)
    _own[new] = True
    return new


def _with(data: Any, keys: Sequence[Key], value: Any) -> Any:
    if not keys:
        return value
    key, rest = keys[0], keys[1:]
    if isinstance(data, list) and isinstance(key, int):
        grown = list(data) if key < len(data) else [*data, None]
        grown[key] = _with(grown[key], rest, value)
        return grown
    return {**(data or {}), key: _with((data or {}).get(key), rest, value)}

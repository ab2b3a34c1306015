"""A form's JSON Schema as clients take it that know only a part of the language, and drop or refuse the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PLAIN = frozenset(
    [
        *("$ref", "type", "enum", "const", "title", "description", "default", "required", "additionalProperties"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "pattern"),
        *("minItems", "maxItems"),
    ]
)
_STRICT = frozenset(["$ref", "type", "enum", "const", "description"])
_MAPS, _LISTS = ("properties", "$defs"), ("anyOf", "oneOf", "allOf")


def plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without keywords that only newer drafts, or we, know: Claude Code ignores one that has any."""
    made = {key: value for key, value in schema.items() if key in _PLAIN}
    for key in _MAPS:
        if key in schema:
            made[key] = {name: plain(node) for name, node in schema[key].items()}
    for key in _LISTS:
        if key in schema:
            made["anyOf" if key == "oneOf" else key] = [plain(node) for node in schema[key]]
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            made[key] = plain(schema[key])
    return made


def strict(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema in OpenAI's strict part of the language: whatever fits it fits the form; None where none does.

    There every object is closed and all its fields are required; objects with free keys it does not know, nor lists of
    anything, nor a whole that is no object.
    """
    try:
        return _strict(schema) if schema.get("type") == "object" else None
    except _Unknown:
        return None


class _Unknown(Exception):
    """A part of the language that such services do not know."""


def _strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    if len(schema.get("allOf", ())) == 1:
        schema = {**schema["allOf"][0], **schema}
    made = {key: value for key, value in schema.items() if key in _STRICT}
    for key in _MAPS:
        if key in schema:
            made[key] = {name: _strict(node) for name, node in schema[key].items()}
    for key in ("anyOf", "oneOf"):
        if key in schema:
            made["anyOf"] = [_strict(node) for node in schema[key]]
    if isinstance(schema.get("items"), dict):
        made["items"] = _strict(schema["items"])
    closed = schema.get("additionalProperties", False) is False and schema.get("properties")
    if schema.get("type") == "object":
        made |= {"required": list(made.get("properties", ())), "additionalProperties": False}
    known = {"$ref", "enum", "const", "anyOf"} & made.keys()
    kind = schema.get("type")
    if not known and (kind is None or (kind == "object" and not closed) or (kind == "array" and "items" not in made)):
        raise _Unknown
    return made

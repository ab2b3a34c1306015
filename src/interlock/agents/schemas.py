"""A form's JSON Schema as clients take it that know only a part of the language, and drop or refuse the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_STRICT = {"$ref", "type", "enum", "const", "description"}
_PLAIN = {
    *(*_STRICT, "title", "default", "required", "additionalProperties", "minItems", "maxItems", "pattern"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
}


def plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without keywords that only newer drafts, or we, know: Claude Code ignores one that has any."""
    return _reduced(schema, strictly=False)


def strict(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema in OpenAI's strict part of the language: whatever fits it fits the form; None where none does.

    There every object is closed and all its fields are required; objects with free keys it does not know, nor lists of
    anything, nor a whole that is no object.
    """
    try:
        return _reduced(schema, strictly=True) if schema.get("type") == "object" else None
    except _Unknown:
        return None


class _Unknown(Exception):
    """A part of the language that such services do not know."""


def _reduced(schema: Mapping[str, Any], *, strictly: bool) -> dict[str, Any]:
    made = {key: value for key, value in schema.items() if key in (_STRICT if strictly else _PLAIN)}
    for key in ("properties", "$defs"):
        if key in schema:
            made[key] = {name: _reduced(node, strictly=strictly) for name, node in schema[key].items()}
    for key in ("anyOf", "oneOf"):
        if key in schema:
            made["anyOf"] = [_reduced(node, strictly=strictly) for node in schema[key]]
    for key in {"items", *made} & {"items", "additionalProperties"}:
        if isinstance(schema.get(key), dict):
            made[key] = _reduced(schema[key], strictly=strictly)
    if strictly and not {"$ref", "enum", "const", "anyOf"} & made.keys():
        kind, free = schema.get("type"), schema.get("additionalProperties", False) is not False
        if kind is None or (kind == "array" and "items" not in made):
            raise _Unknown
        if kind == "object":
            if free or not schema.get("properties"):
                raise _Unknown
            made |= {"required": list(made["properties"]), "additionalProperties": False}
    return made

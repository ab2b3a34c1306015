"""A form's JSON Schema as services take it that know only a part of the language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KEPT = ("type", "enum", "const", "description")
_REFERENCE = "$ref"


def strict(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema in OpenAI's strict part of the language: whatever fits it fits the form; None where none does.

    There every object is closed and all its fields are required; objects with free keys it does not know, nor a whole
    that is no object.
    """
    try:
        made = _node(schema)
        named = {name: _node(node) for name, node in schema.get("$defs", {}).items()}
    except _Unknown:
        return None
    if made.get("type") != "object":
        return None
    return {**made, "$defs": named} if named else made


class _Unknown(Exception):
    """A part of the language that such services do not know."""


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    if _REFERENCE in node:
        return {_REFERENCE: node[_REFERENCE]}
    made = {key: node[key] for key in _KEPT if key in node}
    for key in ("anyOf", "oneOf"):
        if key in node:
            made["anyOf"] = [_node(option) for option in node[key]]
    if len(node.get("allOf", ())) == 1:
        return {**_node(node["allOf"][0]), **made} if _REFERENCE not in node["allOf"][0] else _node(node["allOf"][0])
    if node.get("type") == "object":
        if not node.get("properties") or node.get("additionalProperties") or "patternProperties" in node:
            raise _Unknown
        made["properties"] = {name: _node(field) for name, field in node["properties"].items()}
        made["required"] = list(made["properties"])
        made["additionalProperties"] = False
    elif node.get("type") == "array":
        if "items" not in node:
            raise _Unknown
        made["items"] = _node(node["items"])
    elif not {"type", "enum", "const", "anyOf"} & made.keys():
        raise _Unknown
    return made

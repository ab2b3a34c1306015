"""What an agent can answer to a form, from the form's JSON Schema alone: the best, and each step aside. Pure.

The scripted agent says the best where its scenario is silent; a rehearsal says all of it, so no playbook writes
deviations.  A form's author says what is best by order and defaults: the first member of an enum, `true` (unless the
default says otherwise), a default, no more list items than are asked for.  A text that has to look like something has
`examples`.  What follows from one dispatch alone (the criteria that it was given) comes as `known`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

PROSE = "I have done what was asked."
"""An answer without a form."""
_Schema = Mapping[str, Any]


class Deviation(NamedTuple):
    name: str
    """The field and what it says: `verdict=revise`, `checks: one, result=red`."""
    value: Any
    """The whole answer; a text where it is no form at all."""


def best(schema: _Schema, known: _Schema | None = None) -> Any:
    """The most positive value that the schema takes; `known`: fields of it that are settled."""
    return {**_Form(schema).best(schema, "form"), **(known or {})}


def deviations(schema: _Schema, known: _Schema | None = None) -> list[Deviation]:
    """All answers that differ from the best one in one thing that code may act on, and the two that are unusable."""
    good = best(schema, known)
    found = [Deviation(*aside) for aside in _Form(schema).asides(schema, good, "")]
    for name in schema.get("required", ())[:1]:
        found.append(Deviation(f"without {name}", {key: value for key, value in good.items() if key != name}))
    return [*found, Deviation("no JSON", PROSE)]


def said(value: Any) -> str:
    """The final message of an agent that answers so: the form in a fenced block."""
    if isinstance(value, str):
        return f"{value}\n"
    return f"```json\n{json.dumps(value, ensure_ascii=False, indent=2)}\n```\n"


class _Form:
    def __init__(self, schema: _Schema) -> None:
        self._named = schema.get("$defs", {})

    def best(self, schema: _Schema, name: str) -> Any:
        node = self._whole(schema)
        first, *_ = self._options(node)
        if "const" in node:
            return node["const"]
        if "default" in node and "enum" not in first:
            return node["default"]
        if first is not node:
            return self.best(first, name)
        if "enum" in node:
            return node["enum"][0]
        match node.get("type"):
            case "object":
                return {each: self.best(inner, each) for each, inner in node.get("properties", {}).items()}
            case "array":
                return [self.best(node["items"], name) for _ in range(node.get("minItems", 0))]
            case "boolean":
                return True
            case "integer" | "number":
                return node["exclusiveMinimum"] + 1 if "exclusiveMinimum" in node else node.get("minimum", 0)
        return _text(node, name)

    def asides(self, schema: _Schema, value: Any, name: str) -> Iterator[tuple[str, Any]]:
        """Each other value that differs from this one in one thing, with a name for it; prose is no difference."""
        node = self._whole(schema)
        first, *more = self._options(node)
        if first is not node:
            yield from self.asides(first, self.best(first, name) if value is None else value, name)
            if value is not None and {"type": "null"} in more:
                yield f"no {name}", None
        elif "enum" in node:
            yield from ((f"{name}={other}", other) for other in node["enum"] if other != value)
        elif node.get("type") == "boolean":
            yield f"{name}={json.dumps(not value)}", not value
        elif node.get("type") == "object":
            for each, inner in node.get("properties", {}).items():
                place = f"{name}, {each}" if name else each
                for named, other in self.asides(inner, value[each], place) if each in value else ():
                    yield named, {**value, each: other}
        elif node.get("type") == "array":
            yield from self._lists(node, value, name)

    def _lists(self, node: _Schema, value: list[Any], name: str) -> Iterator[tuple[str, Any]]:
        if value and not node.get("minItems"):
            yield f"no {name}", []
        item, *_ = self._options(self._whole(node["items"]))
        full = value[0] if value else self.best(item, name)
        if not value:
            bare, full = full, self._filled(item, full)
            yield f"{name}: one", [full]
            if full != bare:
                yield f"{name}: a bare one", [bare]
        for named, other in self.asides(item, full, f"{name}: one"):
            yield named, [other, *value[1:]]

    def _filled(self, item: _Schema, bare: Any) -> Any:
        """With all texts: what gives its reasons may weigh more than what does not."""
        if not isinstance(bare, dict):
            return bare
        fields = {name: self._whole(inner) for name, inner in item["properties"].items()}
        return {key: _text(fields[key], key) if value == "" else value for key, value in bare.items()}

    def _whole(self, node: _Schema) -> _Schema:
        """The node with what it refers to; what stands beside a reference counts more."""
        while "$ref" in node:
            there = self._named[node["$ref"].rpartition("/")[2]]
            node = {**there, **{key: value for key, value in node.items() if key != "$ref"}}
        return node

    def _options(self, node: _Schema) -> list[_Schema]:
        """What it can be, the best first; null is never that."""
        options = [self._whole(option) for option in node.get("anyOf", node.get("oneOf", (node,)))]
        return sorted(options, key=lambda option: option.get("type") == "null")


def _text(node: _Schema, name: str) -> str:
    text = str(node.get("examples", [f"Played: {name}."])[0])
    return text.ljust(node.get("minLength", 0), ".")[: node.get("maxLength")]

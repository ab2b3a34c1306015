"""What an agent can answer to a form, from the form's JSON Schema alone: the best, and each step aside. Pure.

The scripted agent says the best where its scenario is silent; a rehearsal says all of it, so no playbook writes
deviations.  A form's author says what is best by order and defaults: the first member of an enum, `true` (unless the
default says otherwise), a default, no more list items than are asked for.  Where that is not enough, `examples`
gives a text that a pattern takes, `best` a value for any field, `unchanged` one for an agent that changed no file.
What follows from one dispatch alone (the criteria that it was given) comes as `known`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from interlock.errors import EngineFault

PROSE = "I have done what was asked."
"""An answer without a form."""
_DATES = {"date": "2026-01-01", "date-time": "2026-01-01T00:00:00Z", "time": "00:00:00Z"}
_Schema = Mapping[str, Any]


class Deviation(NamedTuple):
    name: str
    """The field and what it says: `verdict=revise`, `checks: one, result=red`."""
    value: Any
    """The whole answer; a text where it is no form at all."""


def best(schema: _Schema, known: _Schema | None = None, *, changed: bool = True) -> Any:
    """The most positive value that the schema takes.

    Args:
        known: fields of it that are settled.
        changed: whether the agent changed anything, and so needs not say why not.
    """
    form = _Form(schema, changed)
    return {**form.best(schema, "form"), **known} if known else form.best(schema, "form")


def deviations(schema: _Schema, known: _Schema | None = None) -> list[Deviation]:
    """All answers that differ from the best one in one thing that code may act on, and the two that are unusable."""
    form, good = _Form(schema, True), best(schema, known)
    found = [Deviation(*aside) for aside in form.asides(schema, good, "")]
    for name in [name for name in schema.get("required", ()) if name in good][:1]:
        found.append(Deviation(f"without {name}", {key: value for key, value in good.items() if key != name}))
    return [*found, Deviation("no JSON", PROSE)]


def said(value: Any, text: str = "") -> str:
    """The final message of an agent that answers so: the form in a fenced block, below what else it says."""
    if isinstance(value, str):
        return f"{text}\n\n{value}\n" if text else f"{value}\n"
    block = f"```json\n{json.dumps(value, ensure_ascii=False, indent=2)}\n```\n"
    return f"{text.rstrip()}\n\n{block}" if text else block


class _Form:
    def __init__(self, schema: _Schema, changed: bool) -> None:
        self._named = schema.get("$defs", {})
        self._changed = changed

    def best(self, schema: _Schema, name: str) -> Any:
        node = self._whole(schema)
        if "unchanged" in node and not self._changed:
            return node["unchanged"]
        for settled in ("best", "const"):
            if settled in node:
                return node[settled]
        if "enum" in node:
            return node["enum"][0]
        if "anyOf" in node or "oneOf" in node:
            first = self._options(node)[0]
            return self.best(first, name) if "default" not in node or "enum" in first else node["default"]
        if "default" in node:
            return node["default"]
        match node.get("type"):
            case "object":
                fields: Mapping[str, _Schema] = node.get("properties", {})
                return {each: self.best(inner, each) for each, inner in fields.items()}
            case "array":
                return [self.best(node.get("items", {}), name) for _ in range(node.get("minItems", 0))]
            case "boolean":
                return True
            case "integer" | "number":
                return _number(node)
            case "null":
                return None
        return _text(node, name)

    def asides(self, schema: _Schema, value: Any, name: str) -> Iterator[tuple[str, Any]]:
        """Each other value that differs from this one in one thing, with a name for it; prose is no difference."""
        node = self._whole(schema)
        if "anyOf" in node or "oneOf" in node:
            options = self._options(node)
            yield from self.asides(options[0], self.best(options[0], name) if value is None else value, name)
            if value is not None and self._whole(node.get("anyOf", [{}])[-1]).get("type") == "null":
                yield f"no {name}", None
        elif "enum" in node:
            yield from ((f"{name}={_word(other)}", other) for other in node["enum"] if other != value)
        elif node.get("type") == "boolean":
            yield f"{name}={_word(not value)}", not value
        elif node.get("type") == "object":
            for each, inner in node.get("properties", {}).items():
                if each in value:
                    place = f"{name}, {each}" if name else each
                    yield from (
                        (said, {**value, each: other}) for said, other in self.asides(inner, value[each], place)
                    )
        elif node.get("type") == "array":
            yield from self._lists(node, value, name)

    def _lists(self, node: _Schema, value: list[Any], name: str) -> Iterator[tuple[str, Any]]:
        if value and not node.get("minItems"):
            yield f"no {name}", []
        item = self._whole(node.get("items", {}))
        bare = value[0] if value else self.best(item, name)
        # What gives its reasons may weigh more than what does not.
        full = self._filled(item, bare) if isinstance(bare, dict) and not value else bare
        if not value:
            yield f"{name}: one", [full]
            if full != bare:
                yield f"{name}: a bare one", [bare]
        for named, other in self.asides(item, full, f"{name}: one"):
            yield named, [other, *value[1:]]

    def _filled(self, item: _Schema, bare: Mapping[str, Any]) -> dict[str, Any]:
        fields = {name: self._whole(inner) for name, inner in item.get("properties", {}).items()}
        return {key: _text(fields[key], key) if value == "" else value for key, value in bare.items()}

    def _whole(self, node: _Schema) -> _Schema:
        """The node with what it refers to; what stands beside a reference counts more."""
        while "$ref" in node:
            there = self._named[node["$ref"].rpartition("/")[2]]
            node = {**there, **{key: value for key, value in node.items() if key != "$ref"}}
        return {**self._whole(node["allOf"][0]), **node} if len(node.get("allOf", ())) == 1 else node

    def _options(self, node: _Schema) -> list[_Schema]:
        options = [self._whole(option) for option in node.get("anyOf", node.get("oneOf", ()))]
        return [option for option in options if option.get("type") != "null"] or options


def _number(node: _Schema) -> int | float:
    if "exclusiveMinimum" in node:
        return int(node["exclusiveMinimum"] + 1)
    least = node.get("minimum", 0)
    return least if isinstance(least, int | float) else 0


def _text(node: _Schema, name: str) -> str:
    examples = node.get("examples") or [_DATES.get(node.get("format", ""), f"Played: {name}.")]
    text = str(examples[0]).ljust(node.get("minLength", 0), ".")[: node.get("maxLength")]
    if "pattern" in node and not re.search(node["pattern"], text):
        raise EngineFault(f"the form's text {name!r} has no example that fits its pattern", expected=node["pattern"])
    return text


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)

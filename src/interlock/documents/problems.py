"""The one function that tells what is wrong with data: where, what was expected, what was found, what was meant.

Settings, documents, forms, scenarios, roles and flows are pydantic models.  `problems` puts pydantic's complaints into
errors with file, line, column and the nearest known name, all of them at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from interlock.documents.reading import Key, Keys, Source, Spot, pointer
from interlock.errors import BadInput, DocumentInvalid, nearest

M = TypeVar("M", bound=BaseModel)
MOST = 20
"""Problems that are told at once; of the rest their number."""
_FOUND = {bool: "true or false", int: "integer", float: "number", str: "text", list: "list", dict: "mapping"}
_KINDS = {
    **{"string": "text", "bool": "true or false", "int": "an integer", "float": "a number"},
    **{"list": "a list", "tuple": "a list", "set": "a list", "dict": "a mapping", "model": "a mapping"},
}
"""What was expected, by pydantic's name of a complaint about a kind; else its message says it."""
_ITSELF = {"extra_forbidden", "missing", "union_tag_not_found", "union_tag_invalid", "value_error", "assertion_error"}
"""Complaints that are told whatever else is wrong inside."""


def load(model: type[M], source: Source) -> M:
    """The source's data as a model; else one error that carries all that is wrong with it."""
    try:
        return model.model_validate(source.data)
    except ValidationError as error:
        raise BadInput.together(problems(error, model, source.data, source.spot)) from None


def problems(
    error: ValidationError,
    model: type[BaseModel],
    data: Any,
    find: Callable[[Keys], Spot] = lambda keys: Spot("the answer"),
    *,
    kind: type[BadInput] = DocumentInvalid,
    secret: Callable[[Keys], bool] = lambda keys: False,
) -> list[BadInput]:
    """Every complaint as an error of its own, in the order of the model.

    Args:
        data: what was validated.
        find: where an entry of it stands.
        kind: of the errors.
        secret: whether what stands there must not be shown.
    """
    told: dict[Keys, BadInput] = {}
    misfits = set[Keys]()
    for detail in error.errors(include_url=False):
        keys = _path(dict(detail), data)
        one = _complaint(kind, dict(detail), keys, data, hidden=secret(keys))
        if detail["type"] == "extra_forbidden":
            one.remedy = _advice(keys, detail["loc"], model)
        elif detail["type"] not in _ITSELF:
            misfits.add(keys)
        if keys in told and one.expected and (before := told[keys].expected):  # branches of a union
            one.expected = " or ".join(dict.fromkeys((before, one.expected)))
        told[keys] = one
    # Where a value fits one branch of a union in form, what is wrong inside it is told, and not that it is no text.
    around = {keys[:end] for keys in told for end in range(len(keys))}
    listed = {keys: one for keys, one in told.items() if keys not in misfits or keys not in around}
    found = list(listed.values())[:MOST]
    for keys, one in zip(listed, found, strict=False):
        one.where = str(find(keys))
    return found if len(found) == len(listed) else [*found, BadInput(f"and {len(listed) - MOST} more problems")]


def shown(value: Any) -> str:
    """A value that was found, short enough for a line, with its kind."""
    kind = _FOUND.get(type(value), "nothing" if value is None else type(value).__name__)
    if value is None or isinstance(value, list | dict):
        return kind
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else str(value)[:100]
    return f"{text if len(text) <= 60 else text[:59] + '…'} ({kind})"


def _path(detail: dict[str, Any], data: Any) -> Keys:
    """The path in the data: pydantic puts the names of a union's branches in between, and `[key]` behind."""
    keys: list[Key] = []
    for count, part in enumerate(detail["loc"], start=1):
        if _holds(data, part):
            data = data[part]
        elif count < len(detail["loc"]) or detail["type"] != "missing":
            continue
        keys.append(part)
    if detail["type"].startswith("union_tag_") and not (by := detail["ctx"]["discriminator"]).endswith("()"):
        keys.append(by.strip("'"))
    return tuple(keys)


def _holds(data: Any, key: Key) -> bool:
    if isinstance(key, str):
        return isinstance(data, dict) and key in data
    return isinstance(data, list) and key < len(data)


def _complaint(kind: type[BadInput], detail: dict[str, Any], keys: Keys, data: Any, *, hidden: bool) -> BadInput:
    name, context = pointer(keys), detail.get("ctx", {})
    for key in keys:
        data = data[key] if _holds(data, key) else detail["input"]
    found = "(not shown)" if hidden else shown(data)
    match detail["type"]:
        case "extra_forbidden":
            return kind(f"{name} is not known")
        case "missing" | "union_tag_not_found":
            return kind(f"{name} is missing")
        case "union_tag_invalid":
            wanted, tag = context["expected_tags"], context["tag"]
            return kind(
                f"{name} cannot be used", expected=f"one of {wanted}", found=shown(tag), remedy=_meant(tag, wanted)
            )
        case "value_error" | "assertion_error":
            said = str(context["error"])
            return kind(f"{name}: {said}", found=found) if keys else kind(said)
    by_kind = re.fullmatch(r"([a-z]+)_(attributes_type|type|parsing|from_float)", detail["type"])
    said = re.sub(r"^\w+ should (be |have )?", "", detail["msg"])
    wanted = _KINDS.get(by_kind[1], said) if by_kind else said
    remedy = _meant(str(data), wanted) if detail["type"] in ("literal_error", "enum") else None
    return kind(f"{name} cannot be used", expected=wanted, found=found, remedy=remedy)


def _meant(given: str, expected: str) -> str | None:
    near = nearest(given, re.findall(r"'([^']*)'", expected))
    return None if near is None else f"Did you mean {near!r}?"


def _advice(keys: Keys, loc: Keys, model: type[BaseModel]) -> str | None:
    """The nearest known name, else all of them."""
    known = _known(model, loc[:-1])
    if near := nearest(str(keys[-1]), known):
        return f"Did you mean {pointer((*keys[:-1], near))}?"
    return f"Known here: {', '.join(known[:12])}{', ...' if len(known) > 12 else '.'}" if known else None


def _known(model: type[BaseModel], loc: Keys) -> list[str]:
    """The names that the model has at a place, which pydantic tells with the branches of unions in between."""
    schema = model.model_json_schema()
    nodes = list(_branches(schema, schema))
    for part in loc:
        inner = [node["properties"][part] for node in nodes if part in node.get("properties", ())]
        inner += [node["items"] for node in nodes if "items" in node and isinstance(part, int)]
        inner += [more for node in nodes if isinstance(more := node.get("additionalProperties"), dict)]
        inner += [more for node in nodes for more in node.get("patternProperties", {}).values()]
        if inner:
            nodes = [branch for each in inner for branch in _branches(each, schema)]
        else:  # the branch itself, by its title, its tag, or the name that tells it apart
            nodes = [node for node in nodes if part in _tags(node)] or nodes
    return list(dict.fromkeys(name for node in nodes for name in node.get("properties", ())))


def _branches(node: Any, schema: Any) -> Iterator[Any]:
    """What a node of the schema may be, without references and unions."""
    if "$ref" in node:
        node = schema["$defs"][node["$ref"].rpartition("/")[2]]
    branches = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    if not branches:
        yield node
    for branch in branches:
        yield from _branches(branch, schema)


def _tags(node: Any) -> list[Any]:
    properties = node.get("properties", {})
    return [node.get("title"), *(each.get("const") for each in properties.values()), *properties]

"""The one function that tells what is wrong with data: where, what was expected, what was found, what was meant.

Settings, documents, forms, scenarios, roles and flows are pydantic models.  `problems` puts pydantic's complaints into
errors with file, line, column and the nearest known name, all of them at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from interlock.documents.reading import Key, Keys, Source, Spot, pointer
from interlock.errors import BadInput, ConfigInvalid, DocumentInvalid, nearest

M = TypeVar("M", bound=BaseModel)
MOST = 20
"""Problems that are told at once; of the rest their number."""
_KINDS = {bool: "true or false", int: "integer", float: "number", str: "text", list: "list", dict: "mapping"}
_SHOULD = re.compile(r"(?:Input|String|List|Tuple|Set|Dictionary|Value|Data|Number) should (?:be |have )?")
_WORDS = (
    (re.compile(r"a valid (?:dictionary|mapping)(?: or instance of \w+)?|a valid dict\b"), "a mapping"),
    (re.compile(r"a valid (?:string)\b"), "text"),
    (re.compile(r"a valid (?:list|tuple|set|array)\b"), "a list"),
    (re.compile(r"a valid boolean\b"), "true or false"),
    (re.compile(r"an? valid "), "a "),
    (re.compile(r"^a integer"), "an integer"),
    (re.compile(r", unable to (?:parse|interpret).*"), ""),
)


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
    settings: bool = False,
    advice: Callable[[Keys], str | None] = lambda keys: None,
    secret: Callable[[Keys], bool] = lambda keys: False,
) -> list[BadInput]:
    """Every complaint as an error of its own, in the order of the model.

    Args:
        data: what was validated.
        find: where an entry of it stands.
        settings: the errors are ConfigInvalid, not DocumentInvalid.
        advice: what to do about a name that the model does not have, where there is more to say than the nearest one.
        secret: whether what stands there must not be shown.
    """
    told: dict[Keys, _Said] = {}
    for detail in error.errors(include_url=False):
        keys = _path(detail["loc"], data, missing=detail["type"] == "missing")
        if detail["type"].startswith("union_tag_") and not (by := detail["ctx"]["discriminator"]).endswith("()"):
            keys = (*keys, by.strip("'"))
        said = _said(dict(detail), keys, data, hidden=secret(keys))
        if detail["type"] == "extra_forbidden":
            said = said._replace(remedy=advice(keys) or _advice(keys, detail["loc"], model))
        if keys in told and said.expected and (before := told[keys].expected):  # branches of a union
            said = said._replace(expected=" or ".join(dict.fromkeys((before, said.expected))))
        told[keys] = said
    # Where a value fits one branch of a union in form, what is wrong inside it is told, and not that it is no text.
    around = {keys[:end] for keys in told for end in range(len(keys))}
    found = [_error(keys, said, find, settings) for keys, said in told.items() if said.itself or keys not in around]
    if len(found) > MOST:
        found[MOST:] = [BadInput(f"and {len(found) - MOST} more problems")]
    return found


class _Said(NamedTuple):
    what: str
    expected: str | None = None
    found: str | None = None
    remedy: str | None = None
    itself: bool = True
    """It is told whatever else is wrong inside."""


def shown(value: Any) -> str:
    """A value that was found, short enough for a line, with its kind."""
    kind = _KINDS.get(type(value), "nothing" if value is None else type(value).__name__)
    if value is None or isinstance(value, list | dict):
        return kind
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else str(value)[:100]
    return f"{text if len(text) <= 60 else text[:59] + '…'} ({kind})"


def _path(loc: tuple[Key, ...], data: Any, *, missing: bool) -> Keys:
    """The path in the data: pydantic puts the names of a union's branches in between, and `[key]` behind."""
    keys: list[Key] = []
    for count, part in enumerate(loc, start=1):
        if _holds(data, part):
            data = data[part]
        elif count < len(loc) or not missing:
            continue
        keys.append(part)
    return tuple(keys)


def _said(detail: dict[str, Any], keys: Keys, data: Any, *, hidden: bool) -> _Said:
    name, context = pointer(keys), detail.get("ctx", {})
    for key in keys:
        data = data[key] if _holds(data, key) else detail["input"]
    found = "(not shown)" if hidden else shown(data)
    match detail["type"]:
        case "extra_forbidden":
            return _Said(f"{name} is not known")
        case "missing" | "union_tag_not_found":
            return _Said(f"{name} is missing")
        case "union_tag_invalid":
            expected, tag = context["expected_tags"], context["tag"]
            return _Said(f"{name} cannot be used", f"one of {expected}", shown(tag), _meant(tag, expected))
        case "value_error" | "assertion_error":
            return _Said(
                f"{name}: {context['error']}" if keys else str(context["error"]), found=found if keys else None
            )
    expected = _SHOULD.sub("", detail["msg"], count=1)
    for pattern, words in _WORDS:
        expected = pattern.sub(words, expected)
    remedy = _meant(str(data), expected) if detail["type"] in ("literal_error", "enum") else None
    return _Said(f"{name} cannot be used", expected, found, remedy, itself=False)


def _holds(data: Any, key: Key) -> bool:
    if isinstance(key, str):
        return isinstance(data, dict) and key in data
    return isinstance(data, list) and key < len(data)


def _meant(given: str, expected: str) -> str | None:
    near = nearest(given, re.findall(r"'([^']*)'", expected))
    return None if near is None else f"Did you mean {near!r}?"


def _error(keys: Keys, said: _Said, find: Callable[[Keys], Spot], settings: bool) -> BadInput:
    spot = find(keys)
    if settings:
        kind: BadInput = ConfigInvalid(said.what, where=str(spot))
    else:
        kind = DocumentInvalid(said.what, path=spot.path, line=spot.line, column=spot.column)
    kind.expected, kind.found, kind.remedy = said.expected, said.found, said.remedy
    return kind


def _advice(keys: Keys, loc: tuple[Key, ...], model: type[BaseModel]) -> str | None:
    """The nearest known name, else all of them."""
    known = [name for name in known_names(model, loc[:-1]) if name not in keys[:-1]]
    if near := nearest(str(keys[-1]), known):
        return f"Did you mean {pointer((*keys[:-1], near))}?"
    return f"Known here: {', '.join(known[:12])}{', ...' if len(known) > 12 else '.'}" if known else None


def known_names(model: type[BaseModel], loc: tuple[Key, ...] = ()) -> list[str]:
    """The names that the model has at a place, which is given as pydantic tells it."""
    schema = model.model_json_schema()
    node: Any = schema
    for part in loc:
        node = _step(_resolved(node, schema), part, schema)
    return list(_resolved(node, schema).get("properties", ()))


def _resolved(node: Any, schema: Any) -> Any:
    """Without a reference, and without the `null` beside the only other branch."""
    while True:
        branches = [each for each in node.get("anyOf", ()) if each.get("type") != "null"]
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        elif len(branches) == 1:
            node = branches[0]
        else:
            return node


def _step(node: Any, part: Key, schema: Any) -> Any:
    if isinstance(part, str) and part in node.get("properties", ()):
        return node["properties"][part]
    if part in (mapping := node.get("discriminator", {}).get("mapping", {})):
        return {"$ref": mapping[part]}
    for branch in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        if branch.get("$ref", "").rpartition("/")[2] == part or part in _resolved(branch, schema).get("properties", ()):
            return branch
    inner = node.get("items") if isinstance(part, int) else node.get("additionalProperties")
    return inner if isinstance(inner, dict) else node

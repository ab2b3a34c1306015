"""Every setting with its type, default, environment variable and meaning: one walk over the JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from interlock.settings.models import Settings

ANY_NAME: Final = "NAME"
"""Stands in a setting's key for the name a person chose: `runners.NAME.argv`."""


@dataclass(frozen=True)
class Setting:
    """One documented setting."""

    key: tuple[str, ...]
    expected: str
    default: str
    meaning: str
    is_text: bool
    kinds: tuple[str, ...] = ()
    """For a key of `runners.NAME` that not all types of runner have: those that do."""

    @property
    def dotted(self) -> str:
        return ".".join(self.key)

    @property
    def variable(self) -> str:
        """Its environment variable; tables with names of their own have one variable for the whole table."""
        return variable_of(self.key)


def variable_of(key: tuple[str, ...]) -> str:
    return "INTERLOCK_" + "_".join(key[:1] if ANY_NAME in key else key).upper()


def json_schema(model: type[Settings]) -> dict[str, Any]:
    """JSON Schema of interlock.toml, for editors and other tools."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}


@cache
def catalogue(model: type[Settings]) -> tuple[Setting, ...]:
    """Every setting there is, in the order of the models."""
    schema = model.model_json_schema()
    return tuple(_walk(schema, schema["$defs"], ()))


def reference(model: type[Settings]) -> str:
    """The settings as a Markdown table: key, type, default, environment variable, meaning."""
    lines = [
        "| key | type | default | environment variable | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    for setting in catalogue(model):
        only = f" Only type {', '.join(setting.kinds)}." if setting.kinds else ""
        cells = (f"`{setting.dotted}`", setting.expected, setting.default, f"`{setting.variable}`")
        lines.append(f"| {' | '.join((*cells, setting.meaning + only))} |")
    return "\n".join(lines) + "\n"


def _walk(schema: Mapping[str, Any], models: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[Setting]:
    """The settings of a table's JSON Schema, tables inside it included."""
    for name, given in schema["properties"].items():
        key, field = (*above, name), _resolved(given, models)
        if field.get("additionalProperties") is True:  # a table that is not known yet
            continue
        if "properties" in field:
            yield from _walk(field, models, key)
        elif "discriminator" in (rows := field.get("additionalProperties") or {}):
            yield from _walk_runners(rows, models, (*key, ANY_NAME))
        elif "$ref" in rows:
            yield from _walk(_resolved(rows, models), models, (*key, ANY_NAME))
        else:
            yield _setting(key, field, required=name in schema.get("required", ()))


def _walk_runners(rows: Mapping[str, Any], models: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[Setting]:
    """The settings of all types of runner; one that several types have in the same way is one setting."""
    kinds: dict[Setting, tuple[str, ...]] = {}
    models_by_kind = rows["discriminator"]["mapping"]
    for kind, model in models_by_kind.items():
        for setting in _walk(_resolved({"$ref": model}, models), models, above):
            if setting.key[-1] != "type":
                kinds[setting] = (*kinds.get(setting, ()), kind)
    types = {"enum": list(models_by_kind), "description": "Kind of runner."}
    yield _setting((*above, "type"), types, required=True)
    for setting, group in kinds.items():
        yield replace(setting, kinds=() if len(group) == len(models_by_kind) else group)


def _resolved(field: Mapping[str, Any], models: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" in field:
        return {**models[field["$ref"].rpartition("/")[2]], **field}
    if "anyOf" in field:  # optional: null is how it is unset
        return {**next(one for one in field["anyOf"] if one.get("type") != "null"), **field}
    return field


def _setting(key: tuple[str, ...], field: Mapping[str, Any], *, required: bool) -> Setting:
    default = field.get("default", [] if field.get("type") == "array" else {})
    text = "unset" if default is None else f"`{_toml(default)}`"
    return Setting(
        key,
        _kind(field),
        "required" if required else text,
        field.get("description", ""),
        is_text=field.get("type") == "string",
    )


def _toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value, ensure_ascii=False)
        case float():
            return f"{value:g}"
    return str(value)


def _kind(field: Mapping[str, Any]) -> str:
    """What a value must be, in words."""
    if choices := field.get("enum"):
        return f"one of {', '.join(choices)}"
    match field.get("type"):
        case "boolean":
            return "true or false"
        case "integer" | "number" as kind:
            low = [f"from {field['minimum']:g}"] if "minimum" in field else []
            low += [f"over {field['exclusiveMinimum']:g}"] if "exclusiveMinimum" in field else []
            return " ".join([kind, *low, *([f"to {field['maximum']:g}"] if "maximum" in field else [])])
        case "array":
            choices = field.get("items", {}).get("enum")
            return f"list of {', '.join(choices)}" if choices else "list of texts"
        case "object":
            return "table of texts"
    return "text"

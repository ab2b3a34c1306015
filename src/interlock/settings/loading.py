"""From three layers of values to one `Settings`, or to a list of everything that is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from interlock.errors import ConfigInvalid
from interlock.settings.inventory import ANY_NAME, catalogue
from interlock.settings.location import FILE_NAME
from interlock.settings.models import REMOVED, Settings, quoted
from interlock.settings.sources import Places, environment, merged_over, nested, parse, read

DATABASE: Final = ("fleet", "database")
"""A setting that is a secret itself."""


@dataclass(frozen=True)
class SettingProblem:
    """One thing that is wrong with the settings."""

    what: str
    where: str
    expected: str | None = None
    found: str | None = None
    remedy: str | None = None

    def __str__(self) -> str:
        parts = [f"{self.where}: {self.what}"]
        if self.expected is not None:
            parts.append(f"expected {self.expected}")
        if self.found is not None:
            parts.append(f"found {self.found}")
        return ", ".join(parts) + (f" ({self.remedy})" if self.remedy else "")


class SettingsInvalid(ConfigInvalid):
    """Everything that is wrong with the settings, at once."""

    def __init__(self, problems: Sequence[SettingProblem]) -> None:
        first, *others = problems
        if others:
            listing = "".join(f"\n  {problem}" for problem in problems)
            super().__init__(f"{len(problems)} settings cannot be used:{listing}", remedy="Correct all of them.")
        else:
            super().__init__(
                first.what, where=first.where, expected=first.expected, found=first.found, remedy=first.remedy
            )
        self.problems = tuple(problems)


def load_settings(
    workspace: Path,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] = MappingProxyType({}),
    model: type[Settings] = Settings,
) -> Settings:
    """The settings in force: `overrides` over the environment over interlock.toml over the defaults.

    Args:
        model: the settings there are, with the tables of playbooks.
        overrides: by dotted key (`limits.max_parallel`); None stands for an option that was not given.
    """
    text = read(workspace / FILE_NAME)
    in_file = parse(text)
    from_variables, strays = environment(environ, model)
    problems = [SettingProblem(what, "environment", remedy=remedy) for what, remedy in strays.items()]
    from_options = nested({key: value for key, value in overrides.items() if value is not None})
    places = Places(text, from_variables, from_options)
    merged = merged_over(merged_over(in_file, from_variables), from_options)
    try:
        settings = model.model_validate(merged)
    except ValidationError as error:
        problems += [_problem(dict(detail), merged, places, model) for detail in error.errors(include_url=False)]
    else:
        problems += _unknown_runners(settings, places)
    if problems:
        raise SettingsInvalid(problems)
    return settings


def _problem(
    detail: dict[str, Any], merged: Mapping[str, Any], places: Places, model: type[Settings]
) -> SettingProblem:
    """One complaint of pydantic in the words of the file."""
    path = tuple(str(part) for part in detail["loc"])
    kind = ""
    if path[0] == "runners" and len(path) > 2:
        kind, path = path[2], path[:2] + path[3:]  # pydantic puts the union's tag into the path
    if path[-1] == "[key]":
        path = path[:-1]
    where, dotted = places.of(path), ".".join(quoted(part) for part in path)
    match detail["type"]:
        case "extra_forbidden" if path in REMOVED:
            return SettingProblem(f"{dotted} is no setting any more", where, remedy=REMOVED[path])
        case "extra_forbidden":
            return SettingProblem(f"unknown setting {dotted}", where, remedy=_advice(path, kind, model))
        case "missing" | "union_tag_not_found":
            lacking = path if detail["type"] == "missing" else (*path, "type")
            name = ".".join(quoted(part) for part in lacking)
            return SettingProblem(f"{name} is missing", where, expected=_expected(lacking, model))
        case "union_tag_invalid":
            found = _shown((*path, "type"), detail["input"].get("type"))
            place = places.of((*path, "type"))
            return SettingProblem(
                f"{dotted}.type cannot be used", place, expected=_expected((*path, "type"), model), found=found
            )
        case "value_error":
            return SettingProblem(f"{dotted}: {detail['ctx']['error']}", where, found=_shown(path, detail["input"]))
    return SettingProblem(
        f"{dotted} cannot be used",
        where,
        expected=_expected(path, model),
        found=_shown(path, _at(merged, path, detail["input"])),
    )


def _unknown_runners(settings: Settings, places: Places) -> list[SettingProblem]:
    problems = []
    named: list[tuple[tuple[str, ...], str | None]] = [(("runner",), settings.runner)]
    named += [(("agents", name, "runner"), agent.runner) for name, agent in settings.agents.items()]
    for path, name in named:
        try:
            if name is not None:
                settings.runner_named(name)
        except ConfigInvalid as error:
            problems.append(SettingProblem(error.what, places.of(path), error.expected, error.found, error.remedy))
    return problems


def _advice(path: tuple[str, ...], kind: str, model: type[Settings]) -> str:
    """The nearest known key: one beside it, else one of that name elsewhere, else all keys of the table."""
    table, name = _pattern(path)[:-1], path[-1]
    beside = dict.fromkeys(
        s.key[len(table)] for s in catalogue(model) if s.key[: len(table)] == table and (not s.kinds or kind in s.kinds)
    )
    if near := difflib.get_close_matches(name, beside, 1):
        return f"Did you mean {'.'.join((*path[:-1], near[0]))}?"
    if elsewhere := [s.dotted for s in catalogue(model) if s.key[-1] == name]:
        return f"Did you mean {elsewhere[0]}?"
    return f"Known here: {', '.join(beside)}." if beside else "This table has no settings."


def _pattern(path: tuple[str, ...]) -> tuple[str, ...]:
    return (path[0], ANY_NAME, *path[2:]) if path[0] in ("runners", "agents") and len(path) > 1 else path


def _expected(path: tuple[str, ...], model: type[Settings]) -> str:
    pattern = _pattern(path)
    for setting in catalogue(model):
        if setting.key == pattern[: len(setting.key)]:
            return setting.expected
    return "a table"


def _at(tree: Any, path: tuple[str, ...], otherwise: object) -> object:
    """The value a person wrote at `path`, of which pydantic may report a part only (one item of a list)."""
    for part in path:
        if not isinstance(tree, Mapping) or part not in tree:
            return otherwise
        tree = tree[part]
    return tree


def _shown(path: tuple[str, ...], value: object) -> str:
    names = {bool: "true or false", int: "integer", float: "number", str: "text", list: "list", dict: "table"}
    name = names.get(type(value), type(value).__name__)
    if "env" in path[2:] or path == DATABASE or isinstance(value, list | dict):  # may hold secrets, or pages
        return name
    text = repr(value).lower() if isinstance(value, bool) else repr(value)
    return f"{text if len(text) <= 60 else text[:59] + '…'} ({name})"

"""The form that starts a run: made from a playbook's inputs as the command line is, and what is typed for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from interlock.cli.commands import options_of
from interlock.engine.playbook import Playbook
from interlock.web.shelf import Shelf

FORM = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Field:
    name: str
    label: str
    about: str
    kind: str
    """text, line, number, flag, list"""
    value: str
    required: bool
    main: bool
    """Shown at once; the others are options, behind a line."""
    word: str
    """As it is typed; empty: an argument."""


def offers(shelf: Shelf) -> list[tuple[str, str, str]]:
    """Each playbook that has a name: that, what it is for, why it is not offered. Nothing of anybody's is executed."""
    library, seen = shelf.door.place.library, dict[str, tuple[str, str, str]]()
    for found in library:
        about = library.load(found)[0].summary if found.origin == "shipped" else f"{found.origin}: {found.place}"
        seen.setdefault(found.name, (found.name, about, ""))
    return [seen[name] for name in sorted(seen)]


def fields(playbook: Playbook, filled: FORM | None = None) -> list[Field]:
    """What can be said to start it, with what was filled in."""
    found = [_field(one, playbook, filled) for one in options_of(playbook.inputs)]
    found += [_field(one, playbook, filled) for one in (options_of(playbook.flags) if playbook.flags else ())]
    for name, about, kind in (
        ("runner", "Who does the agents' work.", "line"),
        ("budget", "Most that the run spends, in USD; then it waits.", "number"),
    ):
        found.append(Field(name, name.capitalize(), about, kind, _one(filled, name), False, False, f"--{name}"))
    return found


def _field(option: click.Parameter, playbook: Playbook, filled: FORM | None) -> Field:
    name, given = str(option.name), None if filled is None else _one(filled, str(option.name))
    if isinstance(option, click.Argument):
        field = playbook.inputs.model_fields[name]
        kind = "text" if field.annotation is str and name not in ("file", "command") else "line"
        about = field.description or ""
        return Field(name, _label(name), about, kind, given or "", field.is_required(), True, "")
    assert isinstance(option, click.Option)
    word, about = option.opts[0], option.help or ""
    kind = "flag" if option.is_flag else "list" if option.multiple else "line"
    kind = "number" if isinstance(option.type, click.types.IntParamType) else kind
    return Field(name, _label(word.removeprefix("--")), about, kind, given or "", False, False, word)


def _label(name: str) -> str:
    return name.strip("_").replace("_", " ").replace("-", " ").capitalize()


def _one(filled: FORM | None, name: str) -> str:
    return ((filled or {}).get(name) or [""])[0]


@dataclass(frozen=True)
class Typed:
    """What somebody would type for what they filled in."""

    options: tuple[str, ...]
    arguments: tuple[str, ...]

    @classmethod
    def of(cls, given: Sequence[Field]) -> Typed:
        options, arguments = list[str](), list[str]()
        for field in given:
            value = field.value.replace("\r\n", "\n").strip()
            if not value:
                continue
            if not field.word:
                arguments.append(value)
            elif field.kind == "flag":
                options.append(field.word)
            elif field.kind == "list":
                options += [f"{field.word}={row.strip()}" for row in value.splitlines() if row.strip()]
            else:
                options.append(f"{field.word}={value}")
        return cls(tuple(options), tuple(arguments))

    def words(self, *command: str) -> tuple[str, ...]:
        return (*command, "--json", *self.options, "--", *self.arguments)

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps([self.options, self.arguments]).encode()).hexdigest()[:16]


def plan(facts: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """What `interlock plan --json` tells, in rows with a title."""
    rows = [(name, value) for name, value in facts.items() if isinstance(value, list)]
    return [(name, ["  ".join(filter(None, map(str, row))) for row in value]) for name, value in rows]

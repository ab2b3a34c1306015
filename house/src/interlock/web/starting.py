"""The form that starts a run: made from a playbook's inputs as the command line is, and what is typed for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from interlock.cli.commands import options_of
from interlock.engine.playbook import Playbook
from interlock.errors import InterlockError
from interlock.web.shelf import Shelf


@dataclass(frozen=True)
class Field:
    name: str
    label: str
    about: str
    kind: str
    """text, line, flag, list"""
    value: str
    required: bool = False
    word: str = ""
    """As it is typed; empty: an argument. Options stand behind a line."""

    def words(self) -> list[str]:
        """What somebody would type for what was filled in."""
        value = self.value.replace("\r\n", "\n").strip()
        if not value or self.kind == "flag":
            return [self.word] if value else []
        if self.kind == "list":
            return [f"{self.word}={row.strip()}" for row in value.splitlines() if row.strip()]
        return [f"{self.word}={value}" if self.word else value]


def offers(shelf: Shelf) -> list[tuple[str, str, str]]:
    """Each playbook that has a name, what it is for, and why it is not offered: what nobody trusts is not loaded."""
    library, seen = shelf.door.place.library, dict[str, tuple[str, str, str]]()
    for found in library:
        if found.name not in seen:
            about = ("", "")
            try:
                about = library.load(found)[0].summary, ""
            except InterlockError as error:
                about = "", " ".join(filter(None, (f"{error.what}.", error.remedy)))
            seen[found.name] = found.name, *about
    return [seen[name] for name in sorted(seen)]


def fields(playbook: Playbook, filled: Mapping[str, Sequence[str]]) -> list[Field]:
    """What can be said to start it, with what was filled in."""

    def value(name: str) -> str:
        return (filled.get(name) or [""])[0]

    def made() -> Iterator[Field]:
        for option in (*options_of(playbook.inputs), *(options_of(playbook.flags) if playbook.flags else ())):
            name = str(option.name)
            if isinstance(option, click.Option):
                kind = "flag" if option.is_flag else "list" if option.multiple else "line"
                label = option.opts[0].removeprefix("--").replace("-", " ").capitalize()
                yield Field(name, label, option.help or "", kind, value(name), word=option.opts[0])
            else:
                input = playbook.inputs.model_fields[name]
                kind = "line" if "file" in name else "text"
                yield Field(name, name.capitalize(), input.description or "", kind, value(name), input.is_required())
        yield Field("runner", "Runner", "Who does the agents' work.", "line", value("runner"), word="--runner")
        about = "Most that the run spends, in USD; then it waits."
        yield Field("budget", "Budget", about, "line", value("budget"), word="--budget")

    return list(made())


def words(given: Sequence[Field]) -> list[str]:
    """All of it, as it is typed behind the playbook's name: nothing of it can pass for another option."""
    options = [word for field in given if field.word for word in field.words()]
    return ["--json", *options, "--", *(word for field in given if not field.word for word in field.words())]


def digest(given: Sequence[Field]) -> str:
    """Tells whether a plan was for the same."""
    return hashlib.sha256(json.dumps(words(given)).encode()).hexdigest()[:16]


def plan(facts: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """What `interlock plan --json` tells, in rows with a title."""
    rows = [(name, value) for name, value in facts.items() if isinstance(value, list)]
    return [(name, ["  ".join(filter(None, map(str, row))) for row in value]) for name, value in rows]

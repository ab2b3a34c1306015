"""The form that starts a run: made of a playbook's inputs as the command line is, and what is typed for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

import click

from interlock.cli.commands import options_of
from interlock.engine.playbook import Playbook
from interlock.errors import InterlockError
from interlock.web.shelf import Shelf

Form = Mapping[str, Sequence[str]]
MORE = (
    click.Option(["--runner"], help="Who does the agents' work."),
    click.Option(["--budget"], help="Most that the run spends, in USD; then it waits."),
)


def offers(shelf: Shelf) -> list[tuple[str, str, str]]:
    """Each playbook that has a name, what it is for, and why it is not offered: what nobody trusts is not loaded."""
    library, seen = shelf.door.place.library, dict[str, tuple[str, str, str]]()
    for found in library:
        if found.name not in seen:
            try:
                seen[found.name] = found.name, library.load(found)[0].summary, ""
            except InterlockError as error:
                seen[found.name] = found.name, "", " ".join(filter(None, (f"{error.what}.", error.remedy)))
    return [seen[name] for name in sorted(seen)]


def fields(playbook: Playbook) -> list[click.Parameter]:
    """What can be said to start it."""
    return [*options_of(playbook.inputs), *(options_of(playbook.flags) if playbook.flags else ()), *MORE]


def words(fields: Sequence[click.Parameter], form: Form) -> list[str]:
    """What was filled in, as it is typed behind the playbook's name: nothing of it can pass for another option."""
    options, arguments = ["--json"], ["--"]
    for field in fields:
        value = (form.get(str(field.name)) or [""])[0].replace("\r\n", "\n").strip()
        if not value:
            continue
        if not isinstance(field, click.Option):
            arguments.append(value)
        elif field.is_flag:
            options.append(field.opts[0])
        else:
            rows = value.splitlines() if field.multiple else [value]
            options += [f"{field.opts[0]}={row.strip()}" for row in rows if row.strip()]
    return [*options, *arguments]


def digest(words: Sequence[str]) -> str:
    """Tells whether a plan was for the same."""
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()[:16]

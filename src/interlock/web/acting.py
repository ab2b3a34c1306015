"""What people do on the page: words of the command line, in a process of its own.

The server holds no lock and plays no playbook; a run goes on whether or not the page does.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from interlock.cli import typed

PATIENCE_S = 300
TURNS = threading.BoundedSemaphore(4)
"""Command lines side by side."""
Form = Mapping[str, str]
"""What was filled in, with plain line ends."""


def answer(folder: Path, *words: str) -> dict[str, Any]:
    """The JSON object of a command, as it is typed in a folder; Refused, in its words, where it does not do it."""
    with TURNS:
        found: dict[str, Any] = json.loads(typed.prints(folder, words, PATIENCE_S))
    return found


# --- the form that starts a run, made of a playbook's inputs as the command line is


def words(fields: Sequence[click.Parameter], form: Form) -> list[str]:
    """What was filled in, as it is typed behind the playbook's name."""
    said = dict[str, list[str]]()
    for field in fields:
        value = form.get(str(field.name), "")
        rows = value.splitlines() if field.multiple else [value]
        said[str(field.name)] = [row.strip() for row in rows if row.strip()]
    return ["--json", *typed.words(fields, said)]

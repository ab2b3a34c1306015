"""What people do on the page: words of the command line, in a process of its own.

The server holds no lock and plays no playbook; a run goes on whether or not the page does.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from interlock.cli.commands import options_of
from interlock.engine.playbook import Playbook
from interlock.errors import InterlockError, Refused
from interlock.finding.library import Library

PROGRAM = (sys.executable, "-P", "-m", "interlock.cli.main")
"""-P: no module of the workspace is taken for one of ours."""
PATIENCE_S = 300
TURNS = threading.BoundedSemaphore(4)
"""Command lines side by side."""
Form = Mapping[str, Sequence[str]]
MORE = (
    click.Option(["--runner"], help="Who does the agents' work."),
    click.Option(["--budget"], help="Most that the run spends, in USD; then it waits."),
)


def typed(folder: Path, *words: str) -> dict[str, Any]:
    """The JSON object of a command, as it is typed in a folder; Refused, in its words, where it does not do it."""
    argv = [*map(os.fsencode, PROGRAM), *(word.encode("utf-8", "replace") for word in words)]
    try:
        with TURNS:
            done = subprocess.run(
                argv,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=PATIENCE_S,
                start_new_session=True,
            )
    except subprocess.TimeoutExpired:
        raise Refused(f"the command did not end within {PATIENCE_S} seconds") from None
    except (OSError, ValueError) as error:  # too long for a program's words, or a NUL
        raise Refused(f"no program can be told this: {error}") from None
    facts: dict[str, Any] = json.loads(done.stdout or "{}")
    if "error" in facts or (done.returncode and not facts.get("run_id")):
        said = done.stderr.decode("utf-8", "replace").strip().removeprefix("Error: ")
        raise Refused(said or f"the command ended with {done.returncode}")
    return facts


# --- the form that starts a run, made of a playbook's inputs as the command line is


def offers(library: Library) -> list[tuple[str, str, str]]:
    """Each playbook that has a name, what it is for, and why it is not offered: what nobody trusts is not loaded."""
    seen = dict[str, tuple[str, str, str]]()
    for found in library:
        if found.name not in seen:
            try:
                seen[found.name] = found.name, library.load(found)[0].summary, ""
            except InterlockError as error:
                seen[found.name] = found.name, "", " ".join(filter(None, (f"{error.what}.", error.remedy)))
    return sorted(seen.values())


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

"""A command as it is typed, in a process of its own: for doors that hold no lock and play no playbook."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

from interlock.errors import Refused

PROGRAM = (sys.executable, "-P", "-m", "interlock.cli.main")
"""-P: no module of the workspace is taken for one of ours."""


def prints(folder: Path, words: Sequence[str], patience_s: float | None = None) -> str:
    """What it prints, typed in a folder; Refused, in its words, where it does not do what it is asked for."""
    try:
        done = subprocess.run(
            [*PROGRAM, *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            encoding="utf-8",
            errors="replace",
            timeout=patience_s,
            start_new_session=True,  # a signal at somebody's terminal is not for it
        )
    except subprocess.TimeoutExpired:
        raise Refused(f"the command did not end within {patience_s} seconds") from None
    except (OSError, ValueError) as error:  # too long for a program's words, a NUL, half a surrogate
        raise Refused(f"no program can be told this: {error}") from None
    if not done.stdout.strip() or (done.returncode and "--json" in words and "error" in json.loads(done.stdout)):
        raise Refused(done.stderr.strip().removeprefix("Error: ") or f"the command ended with {done.returncode}")
    return done.stdout


def words(params: Iterable[click.Parameter], said: Mapping[str, Sequence[str]]) -> list[str]:
    """What is said of a playbook's inputs, as it stands behind its name: nothing of it can pass for another option."""
    options, arguments = list[str](), ["--"]
    for param in params:
        rows = said.get(str(param.name), ())
        if not isinstance(param, click.Option):
            arguments += rows
        else:
            options += [param.opts[0] if param.is_flag else f"{param.opts[0]}={row}" for row in rows]
    return [*options, *arguments]

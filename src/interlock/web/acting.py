"""What people do on the page: words of the command line, in a process of its own.

The server holds no lock and plays no playbook; a run goes on whether or not the page does.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = (sys.executable, "-P", "-m", "interlock.cli.main")
"""-P: no module of the workspace is taken for one of ours."""
PATIENCE_S = 300
TURNS = threading.BoundedSemaphore(4)
"""Command lines side by side."""


@dataclass(frozen=True)
class Answer:
    """How a command ended."""

    facts: Mapping[str, Any]
    """Its JSON object."""
    trouble: str = ""
    """Why it did not do what it was asked for, in its own words; empty: it did."""


def typed(folder: Path, *words: str) -> Answer:
    """What comes of a command with `--json`, as it is typed in a folder."""
    said = [word.encode("utf-8", "replace") for word in words]
    try:
        with TURNS:
            done = subprocess.run(
                [*PROGRAM, *said],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=PATIENCE_S,
                start_new_session=True,
            )
    except subprocess.TimeoutExpired:
        return Answer({}, f"The command did not end within {PATIENCE_S} seconds.")
    except (OSError, ValueError) as error:  # too long for a program's words, or a NUL
        return Answer({}, f"No program can be told this: {error}")
    facts: Any = {}
    with suppress(ValueError, RecursionError):
        facts = json.loads(done.stdout)
    if not isinstance(facts, dict) or "error" in facts or (done.returncode and not facts.get("run_id")):
        words_of_it = done.stderr.decode("utf-8", "replace").strip()
        return Answer({}, words_of_it or f"The command ended with {done.returncode}.")
    return Answer(facts)

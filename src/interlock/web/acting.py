"""What people do on the page, as calls of the command line, each in a process of its own.

So no lock is held and no playbook played in the process that serves the page: it may end at any moment and touches no
run; and what a person may do, who is told of it and what is recorded are the same at both doors.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from interlock.errors import Refused
from interlock.telemetry import shown_as

COMMAND: Final = (sys.executable, "-P", "-m", "interlock")
"""-P: no module of the workspace is taken for one of ours."""
AT_ONCE: Final = 4
LONGEST: Final = 100_000
"""Bytes of one word: what a program can be started with has an end."""


@dataclass(frozen=True)
class Reply:
    """What the command line said."""

    code: int
    facts: Mapping[str, Any]

    @property
    def error(self) -> Mapping[str, Any] | None:
        """What went wrong, by its parts; None where it did what it was asked for."""
        found = self.facts.get("error")
        return found if isinstance(found, Mapping) else None

    @property
    def run_id(self) -> str:
        return str(self.facts.get("run_id") or "")

    @property
    def trouble(self) -> str:
        """All that was said of the error, in one text."""
        error = self.error or {}
        several = [error, *error.get("also", ())]
        parts = ("where", "expected", "found", "to do")
        return "\n".join(
            line
            for one in several
            for line in (str(one.get("what", "")), *(f"{part}: {one[part]}" for part in parts if part in one))
            if line
        )


@dataclass
class CommandLine:
    """The command line of one machine, for the workspaces that the page serves."""

    environ: Mapping[str, str]
    command: Sequence[str] = COMMAND
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def __call__(self, root: Path, *words: str) -> Reply:
        """Say these words; `Refused` for those that no program can be started with."""
        for word in words:
            if "\0" in word or len(word.encode("utf-8", "surrogateescape")) > LONGEST:
                raise Refused("a text is too long, or has a character that no text has", expected=f"{LONGEST} bytes")
        async with self._turns:
            process = await asyncio.create_subprocess_exec(
                *self.command,
                "-C",
                str(root),
                *words,
                cwd=root,
                env=dict(self.environ),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C at the terminal of the page is not meant for it
            )
            said = await asyncio.shield(asyncio.ensure_future(process.communicate()))
        try:
            facts = json.loads(said[0])
        except ValueError:
            facts = None
        if not isinstance(facts, dict):
            what = f"the command line gave no answer (exit code {process.returncode})"
            facts = {"error": {"what": what, "to do": "Say the same in a terminal: interlock " + words[0]}}
        return Reply(process.returncode or 0, facts)


# -- the words


@dataclass(frozen=True)
class Decision:
    """What a person said at a gate, and what they saw there."""

    run_id: str
    gate: str
    opening: int
    seen: Mapping[str, str]
    choice: str
    note: str = ""
    by: str = ""
    """Who, if the proxy named somebody."""

    @property
    def words(self) -> tuple[str, ...]:
        verb = self.choice if self.choice in ("approve", "reject") else "answer"
        shown = f"--shown={shown_as(self.gate, self.opening, self.seen)}"
        note = (f"--note={self.note}",) if self.note.strip() else ()
        by = (f"--by={self.by}",) if self.by else ()
        choice = () if verb == self.choice else (self.choice,)
        return verb, shown, *note, *by, "--detach", "--json", "--", self.run_id, *choice

"""What people do on the page: words of the command line, in a process of its own.

The server holds no lock and plays no playbook; a run goes on whether or not the page does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATIENCE_S = 300
AT_ONCE = 4
"""Command lines side by side."""
LONGEST = 100_000
"""Bytes of one word: what the operating system takes."""


@dataclass(frozen=True)
class Answer:
    """How a command ended."""

    code: int
    facts: Mapping[str, Any]
    """Its JSON object."""
    words: str
    """What it said beside that."""

    @property
    def run(self) -> str:
        return str(self.facts.get("run_id") or "")

    @property
    def trouble(self) -> list[str]:
        """Why it did not do it, in lines; empty: it did."""
        error = self.facts.get("error")
        if isinstance(error, dict):
            several = [error, *error.get("also", ())]
            return [line for one in several for line in _told(one)]
        if self.facts and (self.run or self.code == 0):
            return []
        return (self.words or f"The command ended with {self.code}.").splitlines()[-8:] if self.code else []


def _told(error: Mapping[str, Any]) -> list[str]:
    """What, and each part that is known (CLI-05)."""
    parts = [(name.replace("_", " "), said) for name, said in error.items() if name not in ("what", "also")]
    return [str(error.get("what", "")), *(f"{name}: {said}" for name, said in parts)]


@dataclass
class CommandLine:
    """`interlock` as it is typed in a folder."""

    folder: Path
    program: Sequence[str] = (sys.executable, "-P", "-m", "interlock.cli.main")
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def __call__(self, *words: str, by: str = "") -> Answer:
        """Type it.

        Args:
            by: who does, where a proxy says so.
        """
        if any(len(word.encode("utf-8", "replace")) > LONGEST or "\0" in word for word in words):
            return Answer(2, {}, "This text is too long, or has a NUL in it.")
        env = {**os.environ, **({"INTERLOCK_BY": by} if by else {})}
        async with self._turns:
            process = await asyncio.create_subprocess_exec(
                *self.program,
                *(word.encode("utf-8", "replace") for word in words),
                cwd=self.folder,
                env=env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
            except TimeoutError:
                process.kill()
                await process.wait()
                return Answer(5, {}, f"The command did not end within {PATIENCE_S} seconds.")
        facts = {}
        with suppress(ValueError, RecursionError):
            facts = json.loads(out)
        return Answer(process.returncode or 0, facts if isinstance(facts, dict) else {}, err.decode("utf-8", "replace"))

"""A git that is started before there is something to ask it: its start is hidden behind a program that runs.

One waits at a time for one kind of questions, and answers those of one asker; then it is ended, so that what git
remembers of files that it has read never outlives that.  What git reads at its start has to show in the call: who
calls it otherwise gets a new one.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from interlock.documents.files import replace_file
from interlock.workspace.git import Git, Talk


@dataclass(frozen=True)
class GitQuestion:
    """A git that answers questions."""

    git: Git
    words: tuple[str, ...]
    globs: bool = False
    reads: Mapping[Path, bytes] = field(default_factory=dict)
    """Files that it reads at its start, named after what they hold: they are written for it."""

    async def begin(self) -> Talk:
        for file, content in self.reads.items():
            replace_file(file, content, sync=False)
        return await self.git.begin(*self.words, globs=self.globs)


class WaitingGit:
    """The place of one git that waits; it ends with its place."""

    def __init__(self) -> None:
        self._there: tuple[GitQuestion, Talk] | None = None
        self._last_rites = weakref.finalize(self, lambda: None)

    async def prepare(self, call: GitQuestion) -> None:
        """Start one, unless one is there."""
        if self._there is not None:
            return
        talk = await call.begin()
        if self._there is not None:
            talk.end()
            return
        self._there = call, talk
        self._last_rites = weakref.finalize(self, talk.forget)

    def end(self) -> None:
        """Nobody is going to ask."""
        if self._there is not None:
            (_, talk), self._there = self._there, None
            self._last_rites.detach()
            talk.end()

    @asynccontextmanager
    async def talk(self, call: GitQuestion) -> AsyncIterator[Talk]:
        """The one that waits, or a new one; it is ended afterwards."""
        talk = self._taken(call) or await call.begin()
        try:
            yield talk
        finally:
            talk.end()

    def _taken(self, call: GitQuestion) -> Talk | None:
        if self._there is None:
            return None
        (known, talk), self._there = self._there, None
        self._last_rites.detach()
        if known == call and talk.lives:
            return talk
        talk.end()
        return None

"""The process that works on a run that is carried: what it recorded is pushed, and who has lost the run ends.

Before each call and after each dispatch what is new is pushed with this place's claim, and the playbook goes on when it
is safe there.  Beside the work the ref is looked at: another claim ends this process and its agents at once, with 75,
and nothing more is written; what people said elsewhere comes into the inbox, and leaves the remote once a push has it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import NoReturn

from interlock.agents.process_tree import kill_everything
from interlock.app import Place, Saved
from interlock.documents.files import replace as replace_file
from interlock.engine.runs import Entry
from interlock.errors import InterlockError
from interlock.fleet.carriage import Packer, check_secrets, note, ref_of
from interlock.fleet.moving import WORKER, carried, check_mine, remote_of
from interlock.fleet.remote import WORDS, RemoteAway

FENCED = 75
"""The exit code of a process whose run somebody else has: try again later, as sysexits.h calls it."""
LOOK_S, SURE_S = 5.0, 10.0
"""Between two looks at the remote; after a push that took longer it is looked whose the run is before work goes on."""


def _now() -> float:
    """By a clock that goes on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@asynccontextmanager
async def held(place: Place, entry: Entry) -> AsyncIterator[Saved]:
    """A run that is carried is worked on here: what brings what it recorded into safety."""
    holding = Holding(place, entry)
    await holding.patiently(holding.begin)
    beside = asyncio.ensure_future(holding.watch())
    try:
        yield holding.saved
    finally:
        beside.cancel()
        with suppress(RemoteAway):  # whoever goes on here pushes it
            await holding.alone(holding.push)


class Holding:
    """One run in this process."""

    def __init__(self, place: Place, entry: Entry) -> None:
        self._place, self._entry = place, entry
        self._remote, self._ref = remote_of(place), ref_of(entry.id)
        self._packer = Packer(place.trees, entry)
        self._held = entry.held
        self._turn = asyncio.Lock()
        self._seen = 0.0
        """When it was last seen that the run is this place's."""

    def begin(self) -> None:
        """Refused where somebody else has the run by now; what was said meanwhile is here."""
        now = carried(self._remote, self._entry.id)
        check_mine(self._place, self._entry, now)
        self._needs = now.about.needs
        self._tip = now.tip
        self.look()

    async def alone(self, act: Callable[[], None]) -> None:
        """One push or look after the other, each to its end: one broken off may have been carried out all the same."""
        async with self._turn:
            acting = asyncio.ensure_future(asyncio.to_thread(act))
            try:
                await asyncio.shield(acting)
            except asyncio.CancelledError:
                await asyncio.wait([acting])
                raise

    async def saved(self) -> None:
        """What is recorded is at the remote; members of a group share a push."""
        await self.patiently(self.push)

    async def patiently(self, act: Callable[[], None]) -> None:
        """However long the remote is away."""
        delay = 1.0
        while True:
            try:
                return await self.alone(act)
            except RemoteAway as error:
                if delay == 1.0:
                    print(f"{error.what}: nothing begins before it answers again", file=sys.stderr, flush=True)
                await asyncio.sleep(delay)
                delay = min(2 * delay, 10.0)

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            parent = os.environ.get(WORKER, "").rpartition(":")[2]
            if parent and os.getppid() != int(parent):
                self._end("the worker that started this is gone")
            with suppress(InterlockError):  # what it is stands in the way of the next push, too
                await self.alone(self.look)

    def push(self) -> None:
        """What is recorded and not at the remote yet."""
        if self._entry.journal.stat().st_size == self._packer.packed:
            return self._be_sure()
        began, known = _now(), {name: self._held[name] for name in ("claim", "holder")}
        try:
            commit = self._packer.commit(self._tip, needs=self._needs, **known)
            check_secrets(self._remote, commit, self._tip, self._place.redaction)
            while not self._remote.swap(self._ref, self._tip, commit):
                self._check_ours()
                commit = self._packer.commit(self._tip, needs=self._needs, **known)
        except BaseException:
            self._packer.packed = -1
            raise
        self._tip, self._seen = commit, began
        note(self._entry.path, {**self._held, "tip": commit})
        return self._be_sure()

    def _be_sure(self) -> None:
        """A machine that slept may have lost the run meanwhile, also between a push and its answer."""
        if _now() - self._seen > SURE_S:
            self._see()

    def look(self) -> None:
        """Whose the run is, and what was said to it elsewhere."""
        tips = self._see(f"{WORDS}/{self._entry.id}/*")
        words = {ref: commit for ref, commit in sorted(tips.items()) if ref != self._ref}
        if words:
            self._remote.fetch(list(words))
            for ref, commit in words.items():
                content = self._place.trees.read(self._place.trees.committed(commit), "word.json") or b""
                replace_file(self._entry.path / "inbox" / f"{ref.rpartition('/')[2]}.json", content, mode=0o600)
            self._packer.packed = -1
            self.push()
            self._remote.drop(words)

    def _see(self, *further: str) -> dict[str, str]:
        """What the remote has; this process ends where the run is somebody else's."""
        began, tips = _now(), self._remote.tips(self._ref, *further)
        if tips.get(self._ref) != self._tip:
            self._check_ours()
        self._seen = began
        return tips

    def _check_ours(self) -> None:
        """A push of this place may have come to its end after its process did; any other one is somebody's."""
        now = carried(self._remote, self._entry.id)
        if now.about.claim != self._held["claim"]:
            self._end(f"{now.about.holder or 'somebody else'} has it by now")
        self._tip = now.tip

    def _end(self, why: str) -> NoReturn:
        kill_everything()
        with suppress(OSError, ValueError):
            print(f"{self._entry.id}: {why}; nothing more is written here", file=sys.stderr, flush=True)
        os._exit(FENCED)

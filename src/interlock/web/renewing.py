"""What the fleet has of runs, brought into the workspaces that are served, for as long as the page is.

A thread of its own asks each remote from time to time, and waits as long as that takes: pages show what is here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Final

from interlock.app import FromSettings
from interlock.errors import InterlockError
from interlock.fleet.looking import look, remote_here

RENEW_S: Final = 4.0


class Renewing:
    """The remotes of these workspaces, as far as a fleet is configured there."""

    def __init__(self, roots: Iterable[Path], environ: Mapping[str, str]) -> None:
        self._roots, self._environ = list(dict.fromkeys(roots)), environ
        self._ended = Event()
        self._away: dict[Path, str] = {}

    @property
    def away(self) -> tuple[str, ...]:
        """What keeps runs of the fleet from being seen as they are now, a sentence for each workspace."""
        return tuple(dict(self._away).values())

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Renew what is here until this is left; who waits for a remote then is not waited for."""
        for root in self._roots:
            Thread(target=self._renew, args=(root,), name="renewing", daemon=True).start()
        try:
            yield
        finally:
            self._ended.set()

    def _renew(self, root: Path) -> None:
        try:
            settings = FromSettings(root, self._environ).settings
        except InterlockError:  # said wherever the settings are needed
            return
        if "fleet" not in settings.model_fields_set:
            return
        while not self._ended.is_set():
            try:
                asyncio.run(self._look(root, settings.fleet.remote))
                self._away.pop(root, None)
            except (InterlockError, OSError) as error:
                self._away[root] = f"Runs of the fleet are shown as they were last seen: {error}".split("\n")[0]
            except RuntimeError:  # the process ends while this asks
                if not self._ended.is_set():
                    raise
            self._ended.wait(RENEW_S)

    async def _look(self, root: Path, remote: str) -> None:
        await look(root, await remote_here(root, remote, self._environ))

"""A layer, whatever made it: all that does not depend on the maker."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from interlock.documents import FileFacts, Store
from interlock.errors import PathRefused, WorkspaceFailed
from interlock.workspace.clone import remove_folders
from interlock.workspace.layers import logins
from interlock.workspace.layers.folder import LayerFolder
from interlock.workspace.layers.holding import Holding
from interlock.workspace.layers.launcher import order
from interlock.workspace.layers.links import resolved
from interlock.workspace.layers.nursery import LAUNCHER, NURSERY, Forked
from interlock.workspace.layers.reading import found_in
from interlock.workspace.layers.relay import SOCKET_NAME, relay
from interlock.workspace.layers.seam import Confinement, Entry, Exit, Found, KeptWork, Network
from interlock.workspace.objects import reading, store_file
from interlock.workspace.paths import file_parts, normal
from interlock.workspace.snapshots import Snapshot, Workspace
from interlock.workspace.three_ways import ThreeWays

T = TypeVar("T")
ENGINES = ".interlock"


class OneLayer:
    """The layer of one dispatch or command (`Layer` of the seam)."""

    def __init__(
        self,
        workspace: Workspace,
        folder: LayerFolder,
        holding: Holding,
        confinement: Confinement,
        *,
        confined: bool,
        own_home: bool,
    ) -> None:
        self._workspace = workspace
        self._folder = folder
        self._holding = holding
        self._confinement = confinement
        self._confined = confined
        self._own_home = own_home
        self.launcher: Forked | None = None
        """One that waits for the first program."""
        self._forked: list[Forked] = []

    @property
    def name(self) -> str:
        return self._folder.name

    @property
    def root(self) -> Path:
        return self._holding.root

    @property
    def exchange(self) -> Path:
        return self._folder.exchange

    @property
    def confined(self) -> bool:
        return self._confined

    @property
    def sealed(self) -> bool:
        # The makers that give a home of its own are those that make namespaces.
        return self._own_home

    def command_line(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> list[str]:
        if not argv:
            raise ValueError("no program is named")
        records = self._holding.order(argv, cwd=cwd, confinement=self._confinement)
        place = self._folder.write_order(order.written(records))
        return [sys.executable, "-I", "-S", str(LAUNCHER), str(place)]

    def fork(self, command_line: Sequence[str], *, env: Mapping[str, str], stdin: int) -> Forked | None:
        launcher, self.launcher = self.launcher, None
        if (forked := NURSERY.fork(Path(command_line[-1]), env, stdin, launcher)) is not None:
            self._forked.append(forked)
        return forked

    async def settled(self) -> None:
        if any(not forked.collect() for forked in self._forked) or self.launcher is not None:
            await asyncio.to_thread(self._settle)

    def _settle(self) -> None:
        for forked in self._forked:
            if forked.over():
                forked.finish()
        if self.launcher is not None:
            launcher, self.launcher = self.launcher, None
            launcher.dismiss()

    @asynccontextmanager
    async def connected(self, environ: Mapping[str, str]) -> AsyncIterator[Mapping[str, int]]:
        if not self._confined or self._confinement.network is not Network.MODEL:
            yield {}
            return
        async with relay(self._confinement.hosts, self.exchange / SOCKET_NAME, environ=environ) as way:
            yield way.refused

    def exit(self) -> Exit | None:
        self._settle()
        return self._folder.exit()

    def forget_exit(self) -> None:
        self._folder.exit_file.unlink(missing_ok=True)

    def facts(self, path: str) -> FileFacts:
        name = normal(path)
        end = resolved(self._holding, self._workspace.root, name)
        if end is None:
            return FileFacts(path, exists=True, problem=f"the symlink {path} leaves the workspace")
        there = self._holding.place(name)
        place = self._holding.place(end) if end else None
        if place is None:
            return FileFacts.absent(path)
        is_link = there is None or there.is_symlink()
        return replace(Store(place.parent, place.parent).facts(place.name), path=path, link=is_link)

    async def found(self, base: Snapshot) -> Found:
        return await found_in(self._holding, self._workspace, base, self._confinement.bounds)

    async def work(self, base: Snapshot, paths: Sequence[str]) -> KeptWork:
        shadow = self._workspace.shadow
        # Checked once: files are stored without a git that would do it.
        _ = shadow.plain

        def store() -> tuple[Entry, ...]:
            return tuple(self._entry(path) for path in dict.fromkeys(paths))

        return KeptWork(base, await self._in_thread(store, "what a layer holds could not be stored"))

    def _entry(self, path: str) -> Entry:
        file_parts(path)
        place = self._holding.place(path)
        status = place.lstat() if place is not None else None
        if place is None or status is None or stat.S_ISDIR(status.st_mode):
            return Entry(path, 0, "")
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
            raise PathRefused(path, "it is neither a file nor a link")
        return Entry(path, status.st_mode, store_file(self._workspace.shadow, place, status))

    def show(self, path: str, content: bytes) -> None:
        inside = self._folder.inner if self._own_home else self.root / ENGINES
        place = inside.joinpath(*file_parts(path)[1:])
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)

    async def start_from(self, work: KeptWork) -> None:
        staged: dict[str, Path] = {}
        stage = self._folder.path / f"stage-{uuid4().hex}"
        stage.mkdir()
        async with reading(self._workspace.shadow, self._workspace.trees) as objects:
            # Merged with what the tree has by now: as they are, they would take back what others did since.
            steps, _ = await ThreeWays(self._workspace, objects, work, "the earlier attempt").decide({})
            for number, step in enumerate(steps):
                file_parts(step.path)
                if step.blob:
                    staged[step.path] = stage / str(number)
                    if stat.S_ISLNK(step.mode):
                        staged[step.path].symlink_to(os.fsdecode(await objects.blob(step.blob)))
                    else:
                        await objects.write_out(step.blob, staged[step.path])
                        staged[step.path].chmod(stat.S_IMODE(step.mode) & 0o777)

        def lay() -> None:
            for step in steps:
                if not step.blob:
                    self._holding.remove(step.path)
            for path, place in staged.items():
                self._holding.put(path, place)
            stage.rmdir()

        await self._in_thread(lay, "files could not be laid into a layer")

    async def revert(self, base: Snapshot, paths: Sequence[str]) -> None:
        names = [path for path in paths if file_parts(path)]

        def reset() -> None:
            # What is deepest first: a folder that was a file gives way after its files did.
            for path in sorted(names, key=lambda path: -path.count("/")):
                self._holding.reset(path)

        await self._in_thread(reset, "a layer could not be put back")

    async def take_ignored(self, paths: Sequence[str]) -> None:
        def take() -> None:
            for path in paths:
                self._holding.take(normal(path))

        await self._in_thread(take, "ignored files could not be moved into the tree")

    async def bring_back_logins(self) -> None:
        if not self._own_home or not self._confinement.login:
            return

        def bring() -> None:
            facts = self._folder.remembered() or {}
            known = facts.get("logins", {})
            fresh = logins.bring_back(self.login_places(), known)
            if fresh != known:
                self._folder.remember({**facts, "logins": fresh})

        await self._in_thread(bring, "a refreshed login could not be brought back")

    def login_places(self) -> dict[Path, Path]:
        """The user's login files, and where the private copy of each lies."""
        home = self._confinement.home.resolve() if self._confinement.home is not None else None
        places: dict[Path, Path] = {}
        outside = 0
        for users in self._confinement.login:
            path = users.parent.resolve() / users.name
            if home is not None and path.is_relative_to(home):
                places[users] = self._folder.home / path.relative_to(home)
            else:
                places[users] = self._folder.path / "logins" / str(outside)
                outside += 1
        return places

    async def drop(self) -> None:
        await self.settled()
        with self._failing(f"layer {self.name!r} could not be removed"):
            left = self._holding.set_aside()
        # Nobody waits for the disk; the loop does, before it ends. What fails is tried again by the next `sweep`.
        removal = asyncio.get_running_loop().run_in_executor(None, remove_folders, left)
        removal.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _in_thread(self, work: Callable[[], T], failed: str) -> T:
        with self._failing(failed):
            return await asyncio.to_thread(work)

    @contextmanager
    def _failing(self, failed: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise WorkspaceFailed(
                f"{failed}: {error.strerror}",
                where=str(error.filename or self._folder.path),
                remedy="See that the disk has room and that .interlock and the workspace are writable, then resume.",
            ) from error

"""The real world: files, git, processes, clocks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from interlock.agents import end_leftovers
from interlock.agents.book import Bound
from interlock.agents.environment import Redaction, agent_environment
from interlock.agents.process import run_process
from interlock.agents.runner import AgentExit, AgentRequest, Observer, Runner
from interlock.documents import FileFacts, Store
from interlock.engine.folder import RunFolder
from interlock.engine.locks import Lock, SharedLock
from interlock.engine.model import CommandResult
from interlock.engine.world import CommandCall, Merged
from interlock.workspace import Change, Scope, Snapshot, Workspace, Worktree, merge, open_worktree

T = TypeVar("T")
ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


class AgentBook(Protocol):
    """Who is called under which name."""

    def bind(self, agent: str) -> Bound: ...

    def runner(self, binding: Bound) -> Runner: ...


class RealTree:
    """A workspace or worktree, with its snapshots as JSON data."""

    def __init__(self, tree: Workspace | Worktree, home: Path) -> None:
        self._tree = tree
        self._store = Store(tree.root, tree.root / ".interlock" / "attic")
        self._home = home

    @property
    def root(self) -> Path:
        return self._tree.root

    async def snapshot(self) -> Any:
        return (await self._tree.snapshot()).to_json()

    async def changes(self, before: Any, after: Any) -> Sequence[Change]:
        if before == after:
            return ()
        return await self._tree.changes(Snapshot.from_json(before), Snapshot.from_json(after))

    async def patch(self, before: Any, after: Any, paths: Sequence[str]) -> bytes:
        return await self._tree.patch(Snapshot.from_json(before), Snapshot.from_json(after), paths)

    async def restore(self, snapshot: Any, paths: Sequence[str]) -> None:
        await self._tree.restore(Snapshot.from_json(snapshot), paths)

    def facts(self, path: str) -> FileFacts:
        return self._store.facts(path)

    async def move_to_attic(self, paths: Sequence[str], into: str) -> list[str]:
        places = [self._tree.attic.take(self.root, path, into) for path in paths]
        return [place.relative_to(self._home.parent).as_posix() for place in places if place is not None]

    async def close(self) -> None:
        if isinstance(self._tree, Worktree):
            await self._tree.close()


class RealWorld:
    def __init__(
        self,
        folder: RunFolder,
        workspace: Workspace,
        agents: AgentBook,
        *,
        environ: Mapping[str, str],
        nested: bool = False,
        on_wait: Callable[[str], None] = lambda _text: None,
    ) -> None:
        root = workspace.root
        self.records = folder
        self.documents = Store(root, root / ".interlock" / "attic")
        self.tree = RealTree(workspace, workspace.home)
        self._workspace = workspace
        self._agents = agents
        self._environ = environ
        self._redaction = Redaction(environ)
        self._cache = worktree_cache(environ)
        lock = Lock(workspace.home / "locks", "workspace")
        # Inside a dispatch the outer run holds the tree for us; waiting for it would be waiting for ourselves.
        self._shared = None if nested else SharedLock(lock, folder.run_id, on_wait=on_wait)

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def patiently(self, look: Callable[[], T]) -> T:
        """In a thread that nobody has to wait for: a pool's thread would keep the program from ending."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(found: T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(cast(T, found))

        def work() -> None:
            found: T | None = None
            error: BaseException | None = None
            try:
                found = look()
            except BaseException as raised:  # noqa: BLE001 - it is raised where the result is awaited
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, found, error)

        threading.Thread(target=work, daemon=True).start()
        return await future

    def draw(self, length: int) -> str:
        return "".join(secrets.choice(ALPHABET) for _ in range(length))

    def claim_session(self, session: str, run_id: str) -> bool:
        folder = self._workspace.home / "sessions"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with (folder / session).open("x", encoding="utf-8") as file:
                file.write(run_id + "\n")
        except FileExistsError:
            return False
        return True

    def redact(self, text: str) -> str:
        return self._redaction(text)

    def bind(self, agent: str) -> Bound:
        return self._agents.bind(agent)

    async def call(self, binding: Bound, request: AgentRequest, observe: Observer) -> AgentExit:
        return await self._agents.runner(binding).call(request, observe)

    async def command(self, call: CommandCall, *, key: str, marker: str) -> CommandResult:
        folder = self.records.path / "commands" / key
        folder.mkdir(parents=True, exist_ok=True)
        return await self._execute(call, folder, marker)

    async def inspect(self, call: CommandCall, *, marker: str) -> CommandResult:
        with tempfile.TemporaryDirectory(prefix="interlock-") as folder:
            return await self._execute(call, Path(folder), marker)

    async def _execute(self, call: CommandCall, folder: Path, marker: str) -> CommandResult:
        stdout, stderr = folder / "stdout.log", folder / "stderr.log"
        exit_ = await run_process(
            call.argv,
            cwd=self._workspace.root / call.cwd,
            env=agent_environment(self._environ, {"INTERLOCK_MARKER": marker}, call.env),
            stdin=call.stdin.encode() if call.stdin is not None else None,
            stdout=stdout,
            stderr=stderr,
            timeout_s=call.timeout_s,
            marker=marker,
        )
        return CommandResult(
            exit=exit_.code,
            stdout=self.redact(tail(stdout, call.keep)),
            stderr=self.redact(tail(stderr, call.keep)),
            timed_out=exit_.timed_out,
            seconds=round(exit_.duration_s, 3),
            error=exit_.spawn_error,
        )

    def working(self) -> AbstractAsyncContextManager[None]:
        return contextlib.nullcontext() if self._shared is None else self._shared.held()

    async def isolated(self, snapshot: Any, name: str) -> RealTree:
        worktree = await open_worktree(self._workspace, Snapshot.from_json(snapshot), name, self._cache)
        return RealTree(worktree, self._workspace.home)

    async def merge(self, base: Any, theirs: Any, paths: Sequence[str], label: str) -> Merged:
        done = await merge(
            self._workspace,
            Snapshot.from_json(base),
            Snapshot.from_json(theirs),
            label=label,
            paths=Scope(tuple(literal(path) for path in paths)),
        )
        return Merged(done.paths, {conflict.path: conflict.text for conflict in done.conflicts})

    def end_leftovers(self, prefix: str, group: int | None, started: float | None) -> list[int]:
        return end_leftovers(prefix, group, started)


def worktree_cache(environ: Mapping[str, str]) -> Path:
    """Where worktrees of dispatches are: in the user's cache folder (EN-38)."""
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "interlock" / "worktrees"


def literal(path: str) -> str:
    """A path as a pattern that covers nothing but itself."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in path)


def tail(path: Path, kept: int) -> str:
    with path.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - kept))
        return file.read().decode("utf-8", "replace")

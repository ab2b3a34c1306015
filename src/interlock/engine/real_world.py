"""The real world: files, git, processes, clocks."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import os
import secrets
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from interlock.agents import end_leftovers
from interlock.agents.environment import Redaction, agent_environment
from interlock.agents.process import run_process
from interlock.agents.roster import BoundAgent
from interlock.agents.runner import AgentExit, AgentNews, AgentRequest, Observer, Runner
from interlock.documents import FileFacts, Store
from interlock.documents.files import open_plain
from interlock.engine.definition import Playbook
from interlock.engine.folder import RunFolder
from interlock.engine.model import CommandResult
from interlock.engine.world import CommandCall, Imported, Layer
from interlock.workspace import (
    Base,
    Confinement,
    DiskLayer,
    Exit,
    Found,
    KeptWork,
    Mode,
    PathChange,
    Snapshot,
    UsersRepository,
    Workspace,
    bring_in,
    open_layers,
    work_of,
    work_patch,
)

T = TypeVar("T")
ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


class AgentRoster(Protocol):
    """Who is called under which name."""

    def bind(self, agent: str) -> BoundAgent: ...

    def runner(self, binding: BoundAgent) -> Runner: ...


class RealTree:
    """The user's tree, with its snapshots as JSON data."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    @property
    def root(self) -> Path:
        return self._workspace.root

    async def snapshot(self) -> Any:
        return (await self._workspace.snapshot()).to_json()

    async def changes(self, before: Any, after: Any) -> Sequence[PathChange]:
        if before == after:
            return ()
        return await self._workspace.changes(Snapshot.from_json(before), Snapshot.from_json(after))

    async def patch(self, before: Any, after: Any, paths: Sequence[str]) -> bytes:
        return await self._workspace.patch(Snapshot.from_json(before), Snapshot.from_json(after), paths)

    async def past(self, snapshot: Any, paths: Sequence[str]) -> Any:
        now = await self._workspace.snapshot()
        return (await work_of(self._workspace, Snapshot.from_json(snapshot), now, paths)).to_json()


class RealLayer:
    """A layer on disk, with what its program started from; that lies among the run's records."""

    def __init__(self, layer: DiskLayer, base: Base, forget: Callable[[], None]) -> None:
        self.enclosure = self._layer = layer
        self._base = base
        self._forget = forget

    @property
    def exchange(self) -> Path:
        return self._layer.exchange

    def exit(self) -> Exit | None:
        return self._layer.exit()

    def forget_exit(self) -> None:
        self._layer.forget_exit()

    def facts(self, path: str) -> FileFacts:
        return self._layer.facts(path)

    async def found(self) -> Found:
        return await self._layer.found(await self._base.snapshot())

    async def work(self, paths: Sequence[str]) -> Any:
        return (await self._layer.work(await self._base.snapshot(), paths)).to_json()

    def show(self, path: str, content: bytes) -> None:
        self._layer.show(path, content)

    async def start_from(self, work: Any) -> None:
        await self._layer.start_from(KeptWork.from_json(work))

    async def revert(self, paths: Sequence[str]) -> None:
        if paths:
            await self._layer.revert(await self._base.snapshot(), paths)

    async def take_ignored(self, paths: Sequence[str]) -> None:
        if paths:
            await self._layer.take_ignored(paths)

    async def allows_start(self) -> None:
        await self._base.allows_start()

    async def rest(self) -> None:
        try:
            await self._layer.settled()
        finally:  # also where somebody cancels again while this waits
            await self._base.rest()

    async def close(self) -> None:
        await self.rest()
        await self._layer.bring_back_logins()
        await self._layer.drop()
        self._base.forget()
        self._forget()


class RealWorld:
    def __init__(
        self,
        folder: RunFolder,
        workspace: Workspace,
        agents: AgentRoster,
        *,
        roster_of: Callable[[Playbook], AgentRoster] | None = None,
        environ: Mapping[str, str],
        confine: Callable[[Runner | None], Confinement] = lambda _runner: Confinement(),
        redaction: Redaction | None = None,
    ) -> None:
        root = workspace.root
        self.records = folder
        self.documents = Store(root, root / ".interlock" / "attic")
        self.tree = RealTree(workspace)
        self.repository = UsersRepository(root, agent_environment(environ, {}, {}))
        self._workspace = workspace
        self._agents = agents
        self._roster_of = roster_of or (lambda _called: agents)
        self._environ = environ
        self._redaction = redaction or Redaction(environ)
        self._layers = open_layers(workspace, environ=environ)
        self._maker: str | None = None
        self._confine = confine
        self._open: dict[str, RealLayer] = {}

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

    def bind(self, agent: str) -> BoundAgent:
        return self._agents.bind(agent)

    def for_called(self, playbook: Playbook, inputs: Any) -> RealWorld:
        self._workspace.want((*playbook.documents(inputs), *playbook.state(inputs)))
        world = copy.copy(self)
        world._agents = self._roster_of(playbook)
        return world

    async def call(self, binding: BoundAgent, request: AgentRequest, observe: Observer) -> AgentExit:
        layer = next(one for one in self._open.values() if one.enclosure is request.within)
        await layer.allows_start()
        async with layer.enclosure.connected(self._environ) as refused:
            ended = await self._agents.runner(binding).call(request, observe)
        if refused:
            observe(AgentNews("network.refused", {"hosts": dict(refused)}))
        return ended

    async def recall(self, binding: BoundAgent, request: AgentRequest, ended: Exit) -> AgentExit | None:
        return await self._agents.runner(binding).recall(request, ended.code)

    async def unready(self, agents: Sequence[str]) -> Sequence[str]:
        runners: dict[str, Runner] = {}
        for agent in agents:
            bound = self.bind(agent)
            runners.setdefault(bound.runner, self._agents.runner(bound))
        problems = []
        for name, runner in runners.items():
            found = await runner.ready()
            if not found.ok:
                problems.append(" ".join(filter(None, (f"agent {name} cannot be called: {found.text}.", found.remedy))))
        return problems

    def can_go_on(self, binding: BoundAgent) -> bool:
        return self._agents.runner(binding).needs().can_resume

    async def layer(
        self, name: str, binding: BoundAgent | None, *, outer: Mapping[str, Any] | None = None
    ) -> RealLayer:
        confinement = self._confinement(binding)
        if self._maker is None:
            self._maker = (await asyncio.to_thread(self._layers.probe)).maker
        live = confinement.mode is not Mode.OFF and self._maker != "copy"
        base = await Base.before(self._workspace, self._base_file(name), live=live)
        made = await self._layers.make(name, confinement, parent=parent_file(outer))
        return self._opened(name, made, base)

    async def kept_layer(
        self, name: str, binding: BoundAgent | None, *, outer: Mapping[str, Any] | None = None
    ) -> RealLayer | None:
        if name in self._open:
            return self._open[name]
        base = Base.kept(self._workspace, self._base_file(name))
        found = await self._layers.find(name, self._confinement(binding), parent=parent_file(outer))
        return self._opened(name, found, base) if found is not None and base is not None else None

    def _opened(self, name: str, layer: DiskLayer, base: Base) -> RealLayer:
        self._open[name] = opened = RealLayer(layer, base, partial(self._open.__delitem__, name))
        return opened

    def _base_file(self, name: str) -> Path:
        return self.records.path / "bases" / f"{name}.json"

    def _confinement(self, binding: BoundAgent | None) -> Confinement:
        if binding is None:
            return self._confine(None)
        runner = self._agents.runner(binding)
        # What is let in must be in no record: the runner's own keys, and the tokens of its login files.
        self._redaction.learn(runner.needs().secrets)
        return self._confine(runner)

    async def bring_in(self, work: Any, label: str) -> Imported:
        done = await bring_in(self._workspace, KeptWork.from_json(work), label=label)
        return Imported(done.paths, done.conflicts)

    async def patch_of(self, work: Any) -> bytes:
        return await work_patch(self._workspace, KeptWork.from_json(work))

    async def command(self, call: CommandCall, *, key: str, marker: str, within: Layer) -> CommandResult:
        assert isinstance(within, RealLayer)
        folder = self.records.path / "commands" / key
        folder.mkdir(parents=True, exist_ok=True)
        await within.allows_start()
        result = await self._execute(call, folder, marker, within.enclosure)
        await within.rest()
        return result

    async def inspect(self, call: CommandCall, *, marker: str) -> CommandResult:
        with tempfile.TemporaryDirectory(prefix="interlock-") as folder:
            return await self._execute(call, Path(folder), marker, None)

    async def _execute(self, call: CommandCall, folder: Path, marker: str, within: DiskLayer | None) -> CommandResult:
        stdout, stderr = folder / "stdout.log", folder / "stderr.log"
        root = within.root if within is not None else self._workspace.root
        exit_ = await run_process(
            call.argv,
            cwd=root / call.cwd,
            env=agent_environment(self._environ, {"INTERLOCK_MARKER": marker}, call.env),
            stdin=call.stdin.encode() if call.stdin is not None else None,
            stdout=stdout,
            stderr=stderr,
            timeout_s=call.timeout_s,
            marker=marker,
            clean=self._redaction.bytes if self._redaction.needed else None,
            within=within,
        )
        return CommandResult(
            exit=exit_.code,
            stdout=self.redact(tail(stdout, call.keep)),
            stderr=self.redact(tail(stderr, call.keep)),
            timed_out=exit_.timed_out,
            seconds=round(exit_.duration_s, 3),
            error=exit_.spawn_error,
        )

    def end_leftovers(self, prefix: str, group: int | None, started: float | None) -> list[int]:
        return end_leftovers(prefix, group, started)


def parent_file(outer: Mapping[str, Any] | None) -> bytes | None:
    return None if outer is None else json.dumps(outer).encode()


def tail(path: Path, kept: int) -> str:
    with os.fdopen(open_plain(path), "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - kept))
        return file.read().decode("utf-8", "replace")

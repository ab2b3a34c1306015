"""The real world: the person's workspace, layers, agents, commands, the clock.

`workspace` is plain synchronous Python, called in threads and always waited for; `agents` starts programs.  Nothing is
decided here.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from interlock.agents import client as clients_client
from interlock.agents import clients, process
from interlock.agents.environment import Environment, environment
from interlock.agents.redaction import Redaction
from interlock.agents.roles import Roles
from interlock.agents.values import Ask, CommandExit, Exit, Role
from interlock.documents import files
from interlock.engine import junit, product, toolchains
from interlock.engine.folder import Message, RunFolder
from interlock.engine.halts import Halted
from interlock.engine.keys import sha256
from interlock.engine.view import GateView
from interlock.engine.world import Checked, Command, CommitOrder, Hear, Toolbox
from interlock.errors import InterlockError, WorkspaceFailed
from interlock.settings import Settings
from interlock.workspace.commits import Commits
from interlock.workspace.delivery import Delivery
from interlock.workspace.layers.layer import Layer
from interlock.workspace.layers.layers import Layers
from interlock.workspace.repository import DETACHED
from interlock.workspace.setting_back import owned
from interlock.workspace.trees import Trees
from interlock.workspace.values import (
    EMPTY,
    BranchFacts,
    Change,
    Committed,
    Found,
    Landing,
    Merged,
    Needs,
    Standing,
    Tree,
    Where,
)

T = TypeVar("T")
P = ParamSpec("P")
OUT = 1_000_000
"""Bytes of a command's output that are kept; the middle is cut."""


async def thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run it in a thread; cancelled, it is waited for: nothing of ours is left half done behind our back."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
    except OSError as error:  # a full disk, a folder without rights: said, and the run can go on
        raise WorkspaceFailed.of(error) from error


class RealSeat:
    """A layer in which one agent works."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.name = layer.name
        self.shown = layer.shown
        self.confined = layer.confined

    async def found(self, own: Mapping[str, str]) -> Found:
        return await thread(self.layer.found, own)

    async def read(self, path: str) -> bytes | None:
        return await thread(self.layer.read, path)

    async def drop(self, *, keep_ignored: bool) -> None:
        await thread(self.layer.drop, keep_ignored=keep_ignored)


class RealWorld:
    """One run's world."""

    def __init__(
        self,
        run: str,
        folder: RunFolder,
        trees: Trees,
        layers: Layers,
        settings: Settings,
        roles: Roles,
        redaction: Redaction,
        *,
        where: Where,
        playbook: str,
        runner: str = "",
        runners: Mapping[str, str] | None = None,
        ask: Callable[[GateView], Awaitable[Message | None]] | None = None,
    ) -> None:
        self.run = run
        self.folder: RunFolder = folder
        self._trees, self._layers, self._settings, self._roles = trees, layers, settings, roles
        self._redact = redaction
        self._where, self._playbook = where, playbook
        self._place = where.place
        self._runner, self._runners = runner, runners or {}
        self._ask = ask
        self._delivery = Delivery(trees)
        self._commits = Commits(trees, lambda tree: layers.spelled(run, tree))
        self._cache = asyncio.Lock()
        """One command at a time in the engine's cache: two mounts of one upper are undefined."""
        self._prepared = ""

    # clock and chance
    def now(self) -> datetime:
        return datetime.now(UTC)

    def draw(self, length: int) -> str:
        return "".join(secrets.choice("0123456789abcdef") for _ in range(length))

    def cores(self) -> int:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0

    async def sleep_until(self, at: datetime) -> None:
        """By the wall clock: a machine that slept has waited, too; but never longer, where the clock was set back."""
        ends = time.monotonic() + (at - self.now()).total_seconds()
        # No event tells the time of day.
        while (left := min((at - self.now()).total_seconds(), ends - time.monotonic())) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(left, 5.0))

    async def together(
        self, members: Mapping[str, Callable[[], Awaitable[T]]], cap: int, begin: Callable[[str], None]
    ) -> dict[str, T]:
        turns = asyncio.Semaphore(cap)

        async def one(name: str, member: Callable[[], Awaitable[T]]) -> T:
            begin(name)
            async with turns:
                return await member()

        tasks = {name: asyncio.ensure_future(one(name, member)) for name, member in members.items()}
        try:
            pending: set[asyncio.Future[T]] = set(tasks.values())
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
                errors = [task.exception() for task in done if not task.cancelled()]
                if any(error is not None and not isinstance(error, Halted) for error in errors):
                    break  # an error ends the siblings; a halt lets them finish: they are paid for
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
        failures = [error for task in tasks.values() if not task.cancelled() and (error := task.exception())]
        for error in sorted(failures, key=lambda error: isinstance(error, Halted)):
            raise error
        return {name: task.result() for name, task in tasks.items()}

    def redact(self, text: str) -> str:
        return self._redact(text)

    # the person's workspace and its trees
    def where(self) -> Where:
        return self._trees.where()

    async def standing(self, where: Where, last: Standing | None) -> Standing:
        self._where = where  # a run may change its branch
        return await thread(self._trees.standing, self.run, where, last)

    async def merge(self, base: Tree, ours: Tree, theirs: Tree) -> Merged:
        return await thread(self._trees.merge, base, ours, theirs)

    async def between(self, old: Tree, new: Tree, paths: Sequence[str] = ()) -> list[Change]:
        return await thread(self._trees.between, old, new, paths)

    async def patch(self, old: Tree, new: Tree, paths: Sequence[str] = ()) -> bytes:
        return await thread(self._trees.patch, old, new, paths)

    async def graft(self, tree: Tree, source: Tree, paths: Sequence[str]) -> Tree:
        return await thread(self._trees.graft, tree, source, paths)

    async def read(self, tree: Tree, path: str) -> bytes | None:
        return await thread(self._trees.read, tree, path)

    async def keep(self, trees: Sequence[Tree]) -> None:
        await thread(self._trees.keep, self.run, trees)

    async def owned(self, own: Mapping[str, str], standing: Standing, before: Tree, after: Tree) -> dict[str, str]:
        return await thread(lambda: owned(self._trees, own, head=self._head(standing), before=before, after=after))

    # effects on it
    async def deliver(self, before: Tree, after: Tree, modes: Mapping[str, int] | None = None) -> Landing:
        return await thread(self._delivery.deliver, before, after, modes=modes)

    async def without(self, before: Tree, after: Tree, now: Tree) -> tuple[Tree, tuple[str, ...]]:
        return await thread(self._delivery.undoing, before, after, now)

    async def finish(self, before: Tree, after: Tree) -> Landing:
        return await thread(self._delivery.finish, before, after)

    async def document(self, path: str) -> bytes | None:
        return await thread(files.read, self._trees.workspace.top, path)

    async def names(self, folder: str) -> list[str]:
        def find() -> list[str]:
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(files.inside(top, folder)) as found:
                return [one.name for one in found if one.is_file()]
            return []

        top = self._trees.workspace.top
        return await thread(find)

    async def write(self, path: str, content: bytes) -> None:
        await thread(files.write, self._trees.workspace.top, path, content)

    async def aside(self, path: str, key: str) -> str:
        workspace = self._trees.workspace
        attic = workspace.own / "attic" / self.run / key.replace("/", "-")
        return await thread(files.move, workspace.top, path, attic)

    async def commit_tree(self, where: Where, order: CommitOrder) -> Tree | None:
        def find() -> Tree | None:
            planned = self._planned(where, order)
            tree = self._raw(planned.commit, order.work) if planned.commit else order.work
            return None if tree == order.work else tree

        return await thread(find)

    def _raw(self, commit: str, work: Tree) -> Tree:
        """What a planned commit holds, as it would lie on disk."""
        layers, trees = self._layers, self._trees
        clean, tree = layers.spelled(self.run, work), trees.committed(commit)
        if tree == clean:
            return work
        raw = trees.entries(work)
        spelled = {blob: raw[path][1] for path, (_, blob) in trees.entries(clean).items() if path in raw}
        entries = {path: (mode, spelled.get(blob, blob)) for path, (mode, blob) in trees.entries(tree).items()}
        return trees.tree_of(EMPTY, entries)

    def _planned(self, where: Where, order: CommitOrder) -> Committed:
        repository = self._trees.repository
        if repository is None:
            return Committed(problem="there is no git repository here")
        if order.branch and (why := self._commits.refused(order.branch)):
            return Committed(problem=why)
        onto = repository.commit("HEAD") if where.branch == DETACHED and order.branch else ""
        planned = self._commits.plan(where, order.base, order.work, order.message, onto=onto, when=order.at)
        nothing = not planned.commit and not planned.problem
        return planned.model_copy(update={"problem": "there is nothing to commit"}) if nothing else planned

    async def plan_commit(self, where: Where, order: CommitOrder) -> Committed:
        return await thread(self._planned, where, order)

    async def publish(self, where: Where, commit: str, branch: str) -> Committed:
        def move() -> Committed:
            parent = self._trees.git.text("rev-parse", "-q", "--verify", f"{commit}^", ok=(0, 1))
            ref = f"refs/heads/{branch}" if branch else ""
            return self._commits.publish(where, commit, ref=ref, expect="" if branch else parent)

        return await thread(move)

    async def hooks(self, where: Where, order: CommitOrder) -> CommandExit | None:
        """`git hook run` in a layer whose HEAD is the branch's own and whose index is the tree to be committed."""
        planned = await thread(self._planned, where, order)
        if not planned.commit:
            return None  # it is said where the commit would be made
        standing = await self.standing(where, None)
        tree = await thread(self._raw, planned.commit, order.work)
        layer = await thread(
            self._layers.for_command, self.run, standing, tree, keeps=False, staged=True, branch=_attached(where)
        )
        message = layer.exchange / "message"
        message.write_text(order.message)
        inside = shlex.quote(f"{layer.inside_exchange}/message")
        line = f"git hook run --ignore-missing pre-commit && git hook run --ignore-missing commit-msg -- {inside}"
        try:
            checked = await self._checked(Command("hooks", line), layer, (), standing)
        finally:
            await thread(layer.drop)
        return checked.exit

    async def pull_request(self, branch: str, title: str, body: str) -> Committed:
        return await thread(_pull_request, self._trees.workspace.top, branch, title, body)

    async def committed(self, standing: Standing) -> Tree:
        return await thread(self._head, standing)

    def _head(self, standing: Standing) -> Tree:
        return self._trees.committed(standing.head)

    async def unsaved(self, standing: Standing) -> list[Change]:
        def find() -> list[Change]:
            return self._trees.between(self._head(standing), self._layers.spelled(self.run, standing.tree))

        return await thread(find)

    async def branch(self, name: str) -> BranchFacts:
        return await thread(self._commits.facts, name)

    async def switch(self, branch: str, *, new: bool) -> str:
        return await thread(self._commits.switch, branch, new=new)

    async def stash(self, paths: Sequence[str], note: str) -> Committed:
        return await thread(self._commits.stash, paths, note)

    # agents
    def runner_of(self, name: str, *, judges: bool) -> str:
        """Who plays a role: `--runner`, its setting, the playbook, `judges`, `runner`, else the first agent found."""
        own = self._settings.agent(self._playbook, name).runner or self._runners.get(name)
        chosen = self._runner or own or (self._settings.judges if judges else None) or self._settings.runner
        return chosen or clients.first_found(os.environ, Path.home()).name

    def role(self, name: str, *, judges: bool, file: str = "") -> Role:
        runner = self.runner_of(name, judges=judges)
        table, settings = self._settings.runner_named(runner), self._settings.agent(self._playbook, name)
        if file and not settings.role:
            settings = settings.model_copy(update={"role": file})
        return self._roles.resolve(name, runner=runner, table=table, settings=settings)

    async def seat(self, slot: str, role: Role, standing: Standing, shown: Tree, *, goes_on: bool) -> RealSeat | None:
        if goes_on and not self._layers.has(self.run, slot):
            return None
        needs, branch = self._needs(role), _attached(self._where)
        opened = await thread(self._layers.open, self.run, slot, standing, shown, needs, goes_on=goes_on, branch=branch)
        return RealSeat(opened)

    def _needs(self, role: Role) -> Needs:
        table = self._settings.runner_named(role.runner)
        row = clients.row(table.type, table.argv or ())
        words = [table.program or row.program, *(table.argv or ())]
        home = Path.home()
        variables = {**os.environ, **table.env}
        return Needs(
            logins=row.logins,
            shows=(*(word for word in words if word.startswith("/")), *(str(home / name) for name in row.shows)),
            hosts=(*clients_client.model_hosts(row, variables, home), *table.hosts),
            network=table.network or "",
        )

    def environment(self, needed: Sequence[str] = ()) -> Environment:
        top, allowed = self._trees.workspace.top, self._settings.sandbox.env
        return environment(os.environ, top, self._place, needed=needed, allowed=allowed)

    async def call(self, ask: Ask, seat: Any, hear: Hear) -> Exit:
        layer: Layer = seat.layer
        table = self._settings.runner_named(ask.role.runner)
        made = clients.client(table, self._trees.workspace.top)
        await thread(layer.refresh_logins)
        await thread(layer.lay, ask.hands)
        env = {**table.env, **ask.env, "INTERLOCK_WORKSPACE": str(layer.root)}
        exit_ = await clients_client.call(
            made,
            ask.model_copy(update={"env": env}),
            layer,
            hear,
            self._redact,
            env=self.environment(made.ROW.variables),
            place=self._place,
        )
        await thread(layer.logins_back)
        await thread(layer.keep_runs, ask.transcript.with_name("runs"))
        return exit_

    async def recover(self, ask: Ask, seat: Any) -> Exit | None:
        layer: Layer = seat.layer
        made = clients.client(self._settings.runner_named(ask.role.runner), self._trees.workspace.top)
        return await thread(lambda: clients_client.read_back(made, ask, layer, self._redact, exit_file=layer.exit_file))

    # commands
    async def toolbox(self, tree: Tree, place: str) -> Toolbox:
        settings = self._settings.commands
        look = _TreeFiles(self._trees, tree)
        commands = [Command(name, line, "interlock.toml") for name, line in settings.items() if name != "setup"]
        if not commands:
            found = await thread(toolchains.find, look, place)
            commands = [Command(tool.name, tool.line_from(place), tool.source) for tool in found]
        if (setup := settings.get("setup")) is not None:
            return Toolbox(commands, Command("setup", setup, "interlock.toml"))
        prepares = await thread(toolchains.setups, Folder(self._trees.workspace.top), place)
        line = " && ".join(f"({tool.line_from(place)})" for tool in prepares)
        source = ", ".join(tool.source for tool in prepares)
        return Toolbox(commands, Command("setup", line, source) if prepares else None)

    async def look(self, tree: Tree, find: Callable[[toolchains.Look], T]) -> T:
        return await thread(find, _TreeFiles(self._trees, tree))

    async def product(self, command: Command, tree: Tree, paths: Sequence[str]) -> set[str]:
        return await thread(product.products, paths, command.line, self._place, _TreeFiles(self._trees, tree).read)

    async def check(
        self,
        command: Command,
        standing: Standing,
        tree: Tree,
        *,
        keeps: bool = False,
        changed: Sequence[str] = (),
        seat: Any = None,
    ) -> Checked:
        if seat is not None:
            return await self._checked(command, seat.layer, changed, standing, apart="claim.json")
        async with self._cache:
            layer = await thread(self._layers.for_command, self.run, standing, tree, keeps=keeps)
            try:
                return await self._checked(command, layer, changed, standing)
            finally:
                await thread(layer.drop, keep_ignored=keeps)

    async def _checked(
        self, command: Command, layer: Layer, changed: Sequence[str], standing: Standing, apart: str = ""
    ) -> Checked:
        """One run of it in a layer.

        Args:
            apart: in an agent's layer: how the agent ended stays noted there.
        """
        reports = layer.exchange / "reports"
        shutil.rmtree(reports, ignore_errors=True)
        reports.mkdir(parents=True)
        env = self.environment()
        asking = junit.asking(env.variables, f"{layer.inside_exchange}/reports")
        ended = await process.run(
            layer.wrap(["/bin/sh", "-c", command.line], {**env.variables, **asking}, cwd=self._place, apart=apart),
            marker=f"{self.run}/command/{secrets.token_hex(4)}",
            deadline_s=command.timeout_s,
            redact=self._redact,
            one_stream=True,
            keep=OUT,
            watch=layer.over,
        )
        if ended.error:  # a shell is always there: it is the layer that could not be made
            raise WorkspaceFailed(f"a command could not be started: {ended.error}", where=command.line)
        out = ended.out.decode("utf-8", "backslashreplace")
        came = CommandExit(
            exit=ended.exit,
            error=ended.over or toolchains.not_runnable(command.line, ended.exit, out),
            timed_out=ended.timed_out,
            seconds=ended.seconds,
            out=out,
        )
        if came.error:
            came = came.model_copy(update={"exit": None})
        globs = self._settings.evidence.junit
        tests = await thread(self._tests, layer, reports, came, globs)
        opened = await thread(layer.opened, list(changed)) if changed else set()
        now = await self.standing(self._where, standing)
        return Checked(came, tests, tuple(sorted(opened)), moved=now.tree != standing.tree)

    def _tests(self, layer: Layer, reports: Path, came: CommandExit, globs: Sequence[str]) -> dict[str, str]:
        contents = []
        for file in sorted(reports.rglob("*")):
            with suppress(OSError):  # anything may have been left there
                contents.append(files.read_plain(file))
        contents += layer.left(lambda path: junit.is_report(path, globs))
        return junit.tests_of(came.exit, came.out, contents)

    async def setup(self, command: Command, standing: Standing, tree: Tree) -> CommandExit | None:
        """Where a manifest is not the person's, or what it makes is missing; once for each state of the manifests."""
        mark = await thread(self._unprepared, command, standing, tree)
        if mark in ("", self._prepared):
            return None
        self._prepared = mark
        await thread(self._layers.reset_cache, self.run)
        return (await self.check(command, standing, tree, keeps=True)).exit

    def _unprepared(self, command: Command, standing: Standing, tree: Tree) -> str:
        """A name for the state of the manifests that the person's own preparations do not serve; empty: they do."""
        tools = toolchains.setups(Folder(self._trees.workspace.top), self._place)
        manifests = [path for tool in tools for path in tool.manifests]
        ours = self._trees.entries(tree, manifests) if manifests else {}
        theirs = self._trees.entries(standing.tree, manifests) if manifests else {}
        top = self._trees.workspace.top
        if ours == theirs and all((top / path).exists() for tool in tools for path in tool.makes):
            return ""
        return sha256(json.dumps([command.line, sorted(ours.items())]).encode())

    # people
    async def ask(self, gate: GateView) -> Message | None:
        return await self._ask(gate) if self._ask else None


def _attached(where: Where) -> str:
    return "" if where.branch == DETACHED else where.branch


class Folder:
    """The person's folder as something to look at: with what is ignored."""

    def __init__(self, top: Path) -> None:
        self._top = top

    def read(self, path: str) -> str | None:
        with suppress(OSError, InterlockError):
            return (files.read(self._top, path) or b"")[:1_000_000].decode("utf-8", "replace")
        return None

    def paths(self) -> Sequence[str]:
        return sorted(str(place.relative_to(self._top)) for place in self._top.rglob("*") if place.is_file())

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(place.name for place in (self._top / folder).iterdir())
        except OSError:
            return []


class _TreeFiles:
    """A tree as something to look at."""

    def __init__(self, trees: Trees, tree: Tree) -> None:
        self._trees, self._tree = trees, tree
        self._entries: dict[str, tuple[int, str]] | None = None

    @property
    def entries(self) -> dict[str, tuple[int, str]]:
        if self._entries is None:
            self._entries = self._trees.entries(self._tree)
        return self._entries

    def read(self, path: str) -> str | None:
        if path not in self.entries:
            return None
        raw = self._trees.read(self._tree, path)
        return None if raw is None else raw[:1_000_000].decode("utf-8", "replace")

    def paths(self) -> list[str]:
        return sorted(self.entries)

    def list(self, folder: str) -> list[str]:
        lead = "" if folder in (".", "") else f"{folder}/"
        return sorted({path[len(lead) :].partition("/")[0] for path in self.entries if path.startswith(lead)})


def _pull_request(top: Path, branch: str, title: str, body: str) -> Committed:
    """Pushed and opened by the person's own program; else what to type. `commit` holds the address."""
    program = next((name for name in ("gh", "glab") if shutil.which(name)), "")
    push = ["git", "push", "--set-upstream", "origin", branch]
    opens = {
        "gh": ["gh", "pr", "create", "--head", branch, "--title", title, "--body-file", "-"],
        "glab": ["glab", "mr", "create", "--source-branch", branch, "--title", title, "--description", body, "--yes"],
    }
    typed = f"{' '.join(push)} && gh pr create --head {branch}"
    if not program:
        return Committed(problem="neither gh nor glab is installed", commit=typed)
    for argv in (push, opens[program]):
        try:
            done = subprocess.run(argv, cwd=top, input=body.encode(), capture_output=True, timeout=300, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return Committed(problem=f"{argv[0]}: {error}", commit=typed)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
            return Committed(problem=f"{' '.join(argv[:2])}: {(said or ['failed'])[-1]}", commit=typed)
    return Committed(commit=done.stdout.decode("utf-8", "replace").strip().splitlines()[-1])

"""The real world: the person's workspace, layers, agents, commands, the clock.

`workspace` is plain synchronous Python, called in threads and always waited for; `agents` starts programs.  Nothing is
decided here.
"""

from __future__ import annotations

import asyncio
import json
import os
import posixpath
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from interlock.agents import client as clients_client
from interlock.agents import clients, process
from interlock.agents.environment import Environment, environment
from interlock.agents.redaction import Redaction
from interlock.agents.roles import Roles
from interlock.agents.values import Ask, CommandExit, Exit, Role
from interlock.documents import files
from interlock.documents.files import sha256
from interlock.engine import junit, product, toolchains
from interlock.engine.folder import Message, RunFolder
from interlock.engine.halts import Halted
from interlock.engine.view import GateView
from interlock.engine.world import Checked, Command, CommitOrder, Hear, Table, Toolbox
from interlock.errors import InterlockError, WorkspaceFailed
from interlock.settings import Settings
from interlock.workspace.commits import Commits
from interlock.workspace.delivery import Delivery
from interlock.workspace.layers.layer import Layer
from interlock.workspace.layers.layers import Layers
from interlock.workspace.layers.upper import remove
from interlock.workspace.repository import DETACHED
from interlock.workspace.setting_back import owned
from interlock.workspace.trees import Trees
from interlock.workspace.values import (
    EMPTY,
    Change,
    Committed,
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


def in_thread(work: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The same function, awaited: it runs by `thread`."""

    def begin(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return thread(work, *args, **kwargs)

    return begin


class RealSeat:
    """A layer in which one agent works."""

    def __init__(self, layer: Layer) -> None:
        self.layer, self.name, self.shown, self.confined = layer, layer.name, layer.shown, layer.confined
        self.found, self.read, self.drop = in_thread(layer.found), in_thread(layer.read), in_thread(layer.drop)


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
        self.run, self.folder, self.redact = run, folder, redaction
        self._trees, self._layers, self._settings, self._roles = trees, layers, settings, roles
        self._where, self._playbook, self._place = where, playbook, where.place
        self._runner, self._runners, self._ask = runner, runners or {}, ask
        delivery = Delivery(trees)
        self._commits = commits = Commits(trees, lambda tree: layers.spelled(run, tree))
        self._cache = asyncio.Lock()
        """One command at a time in the engine's cache: two mounts of one upper are undefined."""
        self._prepared = ""
        # the person's workspace and its trees
        self.where, self.merge, self.between = trees.where, in_thread(trees.merge), in_thread(trees.between)
        self.patch, self.graft, self.read = in_thread(trees.patch), in_thread(trees.graft), in_thread(trees.read)
        self.keep = in_thread(partial(trees.keep, run))
        # effects on it
        self.deliver, self.finish = in_thread(delivery.deliver), in_thread(delivery.finish)
        self.without, self.plan_commit = in_thread(delivery.undoing), in_thread(self._planned)
        self.branch, self.switch = in_thread(commits.facts), in_thread(commits.switch)
        self.stash = in_thread(commits.stash)
        top = trees.workspace.top
        self.document, self.write = in_thread(partial(files.read, top)), in_thread(partial(files.write, top))

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
        """Members side by side, at most `cap` at once. An error ends the others; a halt lets them finish what is paid
        for."""
        turns, came, halts = asyncio.Semaphore(cap), dict[str, T](), list[Halted]()

        async def one(name: str, member: Callable[[], Awaitable[T]]) -> None:
            begin(name)
            try:
                async with turns:
                    came[name] = await member()
            except Halted as halt:
                halts.append(halt)

        try:
            async with asyncio.TaskGroup() as group:
                for name, member in members.items():
                    group.create_task(one(name, member))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        if halts:
            raise halts[0]
        return {name: came[name] for name in members}

    async def standing(self, where: Where, last: Standing | None) -> Standing:
        self._where = where  # a run may change its branch
        return await thread(self._trees.standing, self.run, where, last)

    @in_thread
    def owned(self, own: Mapping[str, str], standing: Standing, before: Tree, after: Tree) -> dict[str, str]:
        """What a run delivered, after one delivery more: path -> blob, where nothing unsaved of the person is in it."""
        return owned(self._trees, own, head=self._trees.committed(standing.head), before=before, after=after)

    @in_thread
    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder of the workspace."""
        place = files.inside(self._trees.workspace.top, folder)
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(place) as found:
            return [one.name for one in found if one.is_file()]
        return []

    @in_thread
    def aside(self, path: str, key: str) -> str:
        """Move a document into the attic, once for that key; its path there, from the workspace's top."""
        workspace = self._trees.workspace
        return files.move(workspace.top, path, workspace.own / "attic" / self.run / key.replace("/", "-"))

    @in_thread
    def commit_tree(self, where: Where, order: CommitOrder) -> Tree | None:
        """The tree that the commit would hold, as it would lie on disk; None where that is `order.work`."""
        planned = self._planned(where, order)
        tree = self._raw(planned.commit, order.work) if planned.commit else order.work
        return None if tree == order.work else tree

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

    @in_thread
    def publish(self, where: Where, commit: str, branch: str) -> Committed:
        parent = self._trees.git.text("rev-parse", "-q", "--verify", f"{commit}^", ok=(0, 1))
        ref = f"refs/heads/{branch}" if branch else ""
        return self._commits.publish(where, commit, ref=ref, expect="" if branch else parent)

    async def hooks(self, where: Where, order: CommitOrder) -> CommandExit | None:
        """How the person's hooks end on a commit, run by `git hook run` in a layer whose HEAD is the branch's own and
        whose index is what would be committed; None: nothing would be."""
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

    @in_thread
    def pull_request(self, branch: str, title: str, body: str) -> Committed:
        """Push and open one by the person's own program. `commit` holds its address, or with a problem what to type."""
        program = next((name for name in ("gh", "glab") if shutil.which(name)), "")
        push = ["git", "push", "--set-upstream", "origin", branch]
        opens = {
            "gh": ["gh", "pr", "create", "--head", branch, "--title", title, "--body-file", "-"],
            "glab": ["glab", "mr", "create", "--source-branch", branch, "--title", title, "--description", body, "-y"],
        }
        typed = f"{' '.join(push)} && gh pr create --head {branch}"
        if not program:
            return Committed(problem="neither gh nor glab is installed", commit=typed)
        run = partial(subprocess.run, cwd=self._trees.workspace.top, input=body, encoding="utf-8", errors="replace")
        for argv in (push, opens[program]):
            try:
                done = run(argv, capture_output=True, timeout=300, check=False)
            except (OSError, subprocess.TimeoutExpired) as error:
                return Committed(problem=f"{argv[0]}: {error}", commit=typed)
            said = done.stdout if done.returncode == 0 else done.stderr or done.stdout
            last = (said.strip().splitlines() or ["failed"])[-1]
            if done.returncode != 0:
                return Committed(problem=f"{' '.join(argv[:2])}: {last}", commit=typed)
        return Committed(commit=last)

    @in_thread
    def committed(self, standing: Standing) -> Tree:
        """What is committed on the branch that is checked out."""
        return self._trees.committed(standing.head)

    @in_thread
    def unsaved(self, standing: Standing) -> list[Change]:
        """What the person has not committed, against the head of the branch that is checked out."""
        trees = self._trees
        return trees.between(trees.committed(standing.head), self._layers.spelled(self.run, standing.tree))

    # agents
    def role(self, name: str, *, judges: bool, file: str = "") -> Role:
        """Who plays a role: by `--runner`, its setting, the playbook, `judges`, `runner`, else the first agent found;
        `file`: its file, in place of what is looked up."""
        settings, own = self._settings.agent(self._playbook, name), self._runners.get(name)
        chosen = self._runner or settings.runner or own or (self._settings.judges if judges else None)
        runner = chosen or self._settings.runner or clients.first_found(os.environ, Path.home()).name
        if file and not settings.role:
            settings = settings.model_copy(update={"role": file})
        return self._roles.resolve(name, runner=runner, table=self._settings.runner_named(runner), settings=settings)

    async def seat(self, layer: str, role: Role, standing: Standing, shown: Tree, *, goes_on: bool) -> RealSeat | None:
        """A layer that shows this tree; with `goes_on` the one of before as it lies, or None where it is gone."""
        if goes_on and not self._layers.has(self.run, layer):
            return None
        about = self.run, layer, standing, shown, self._needs(role)
        return RealSeat(await thread(self._layers.open, *about, goes_on=goes_on, branch=_attached(self._where)))

    def _needs(self, role: Role) -> Needs:
        table = self._settings.runner_named(role.runner)
        row = clients.row(table.type, table.argv or ())
        words, home = [table.program or row.program, *(table.argv or ())], Path.home()
        shows = *(word for word in words if word.startswith("/")), *(str(home / name) for name in row.shows)
        hosts = *clients_client.model_hosts(row, {**os.environ, **table.env}, home), *table.hosts
        return Needs(logins=row.logins, shows=shows, hosts=hosts, network=table.network or "")

    def missing(self, role: Role) -> str:
        """The program of a role's runner where it is not there; empty: it is."""
        table = self._settings.runner_named(role.runner)
        program = role.program or clients.row(table.type, table.argv or ()).program
        if "/" in program:
            return "" if (self._trees.workspace.top / program).exists() else program
        return "" if not program or shutil.which(program, path=self.environment().variables.get("PATH")) else program

    def environment(self, needed: Sequence[str] = ()) -> Environment:
        top, allowed = self._trees.workspace.top, self._settings.sandbox.env
        return environment(os.environ, top, self._place, needed=needed, allowed=allowed)

    async def call(self, ask: Ask, seat: Any, hear: Hear) -> Exit:
        layer: Layer = seat.layer
        table = self._settings.runner_named(ask.role.runner)
        made = clients.client(table, self._trees.workspace.top)
        await thread(layer.refresh_logins)
        await thread(layer.lay, ask.hands)
        ask = ask.model_copy(update={"env": {**table.env, **ask.env, "INTERLOCK_WORKSPACE": str(layer.root)}})
        env = self.environment(made.ROW.variables)
        exit_ = await clients_client.call(made, ask, layer, hear, self.redact, env=env, place=self._place)
        await thread(layer.logins_back)
        await thread(layer.keep_runs, ask.transcript.with_name("runs"))
        return exit_

    @in_thread
    def recover(self, ask: Ask, seat: Any) -> Exit | None:
        """What a call came to whose engine died before it could say so; None where its turn had not ended."""
        made = clients.client(self._settings.runner_named(ask.role.runner), self._trees.workspace.top)
        return clients_client.read_back(made, ask, seat.layer, self.redact, exit_file=seat.layer.exit_file)

    # commands
    @in_thread
    def toolbox(self, tree: Tree, place: str) -> Toolbox:
        settings = self._settings.commands
        commands = [Command(name, line, "interlock.toml") for name, line in settings.items() if name != "setup"]
        if not commands:
            found = toolchains.find(self._files(tree), place)
            commands = [Command(tool.name, tool.line_from(place), tool.source) for tool in found]
        if (setup := settings.get("setup")) is not None:
            return Toolbox(commands, Command("setup", setup, "interlock.toml"))
        prepares = toolchains.setups(Folder(self._trees.workspace.top), place)
        line = " && ".join(f"({tool.line_from(place)})" for tool in prepares)
        source = ", ".join(tool.source for tool in prepares)
        return Toolbox(commands, Command("setup", line, source) if prepares else None)

    def _files(self, tree: Tree) -> Table:
        return Table(self._trees.entries(tree), partial(self._trees.read, tree))

    @in_thread
    def look(self, tree: Tree, find: Callable[[toolchains.Look], T]) -> T:
        """What a pure function finds in a tree."""
        return find(self._files(tree))

    @in_thread
    def product(self, command: Command, tree: Tree, paths: Sequence[str]) -> set[str]:
        """Which of these are product, and no part of what the command checks with (EVID-07)."""
        return product.products(paths, command.line, self._place, self._files(tree).read)

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
        remove(reports)  # whatever a judge has put there
        reports.mkdir(parents=True)
        env = self.environment()
        asking = junit.asking(env.variables, f"{layer.inside_exchange}/reports")
        ended = await process.run(
            layer.wrap(["/bin/sh", "-c", command.line], {**env.variables, **asking}, cwd=self._place, apart=apart),
            marker=f"{self.run}/command/{secrets.token_hex(4)}",
            deadline_s=command.timeout_s,
            redact=self.redact,
            one_stream=True,
            keep=OUT,
            watch=layer.over,
        )
        if ended.error:  # a shell is always there: it is the layer that could not be made
            raise WorkspaceFailed(f"a command could not be started: {ended.error}", where=command.line)
        out = ended.out.decode("utf-8", "backslashreplace")
        error = ended.over or await thread(toolchains.not_runnable, command.line, ended.exit, out, self._ignored)
        code, late, took = None if error else ended.exit, ended.timed_out, ended.seconds
        came = CommandExit(exit=code, error=error, timed_out=late, seconds=took, out=out)
        tests = await thread(self._tests, layer, reports, came, self._settings.evidence.junit)
        opened = await thread(layer.opened, list(changed)) if changed else set()
        now = await self.standing(self._where, standing)
        return Checked(came, tests, tuple(sorted(opened)), moved=now.tree != standing.tree)

    def _ignored(self, path: str) -> bool:
        """Whether git ignores a path, as it is typed where commands run."""
        inside = posixpath.normpath(posixpath.join(self._place, path))
        return not inside.startswith(("/", "..")) and bool(self._trees.ignored([inside]))

    def _tests(self, layer: Layer, reports: Path, came: CommandExit, globs: Sequence[str]) -> dict[str, str]:
        contents = []
        for file in sorted(reports.rglob("*")):
            with suppress(OSError):  # anything may have been left there
                contents.append(files.read_plain(file))
        contents += layer.left(lambda path: junit.is_report(path, globs))
        return junit.tests_of(came.exit, came.out, contents)

    async def setup(self, command: Command, standing: Standing, tree: Tree) -> CommandExit | None:
        """Run the set-up where manifests are not the person's or what it makes is missing, once for each state of
        them."""
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

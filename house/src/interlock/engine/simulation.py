"""The simulated world: the same seam as the real one, in memory (PROOF-01).

A tree is the name of a table of files.  Nothing waits, so that a playbook is driven without an event loop.  What an
agent does and how a command ends is told by a `Cast`; silent, agents answer the best that their form allows, a builder
changes a file, and commands are red before the work and green with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

from interlock.agents import answers
from interlock.agents.values import Ask, CommandExit, Exit, News, Role, Usage
from interlock.engine import junit
from interlock.engine.folder import Folder, InMemory, Message
from interlock.engine.view import GateView
from interlock.engine.world import Checked, Command, CommitOrder, Hear, Toolbox
from interlock.workspace.values import (
    Change,
    Committed,
    Found,
    Landing,
    Merged,
    Standing,
    Tree,
    Where,
)

T = TypeVar("T")
Files = Mapping[str, bytes]


class Trees:
    """Tables of files by the digest of what they hold."""

    def __init__(self) -> None:
        self._known: dict[Tree, Files] = {}

    def of(self, files: Files) -> Tree:
        digest = hashlib.sha1(usedforsecurity=False)
        for path in sorted(files):
            digest.update(f"{path}\0{len(files[path])}\0".encode() + files[path])
        tree = Tree(digest.hexdigest())
        self._known.setdefault(tree, dict(files))
        return tree

    def __getitem__(self, tree: Tree) -> Files:
        return self._known[tree]

    def merge(self, base: Tree, ours: Tree, theirs: Tree) -> Merged:
        """File by file: whoever changed it has it; both, and differently: a conflict."""
        b, o, t = self[base], self[ours], self[theirs]
        result, conflicts = dict(t), []
        for path in {*b, *o, *t}:
            was, mine, other = b.get(path), o.get(path), t.get(path)
            if mine == was or mine == other:
                continue
            if other != was:
                conflicts.append(path)
            elif mine is None:
                result.pop(path, None)
            else:
                result[path] = mine
        return Merged(conflicts=tuple(sorted(conflicts))) if conflicts else Merged(tree=self.of(result))


@dataclass(frozen=True)
class Act:
    """What an agent does in its layer, and what it says."""

    files: Mapping[str, bytes | None] = field(default_factory=dict)
    exit: Exit = Exit(finished=True, text="")


class Cast(Protocol):
    """Who plays: agents, commands, people, faults."""

    def agent(self, ask: Ask, key: str, files: Files) -> Act: ...
    def command(self, command: Command, files: Files, before: bool) -> CommandExit: ...
    def person(self, gate: GateView) -> Message | None: ...
    def moment(self, what: str, world: Simulated) -> None:
        """Before each effect: a person may edit, the process may die."""
        ...


class Clean:
    """The usual cast: everything goes as it should."""

    def agent(self, ask: Ask, key: str, files: Files) -> Act:
        if ask.form is None or ask.role.name in _writers(ask):
            changed = {f"work/{ask.role.name}.txt": key.encode()}
        else:
            changed = {}
        form = answers.best(ask.form, ask.known, changed=bool(changed)) if ask.form else None
        return Act(changed, self.said(form))

    def said(self, form: Any) -> Exit:
        usage = Usage(input_tokens=100, output_tokens=10, cost_usd=0.01)
        text = answers.said(form) if form is not None else answers.PROSE
        return Exit(finished=True, text=text, form=None if isinstance(form, str) else form, exit=0, usage=usage)

    def command(self, command: Command, files: Files, before: bool) -> CommandExit:
        return CommandExit(exit=1 if before else 0, out="")

    def person(self, gate: GateView) -> Message | None:
        choice = gate.choices[0]
        return Message(what="answer", choice=choice, who="person", at=gate.at, note="")

    def moment(self, what: str, world: Simulated) -> None:
        return None


def _writers(ask: Ask) -> tuple[str, ...]:
    """A role whose brief lets it change files."""
    return (ask.role.name,) if "You may change" in ask.brief else ()


class _Seat:
    confined = True

    def __init__(self, world: Simulated, name: str, shown: Tree, now: Tree) -> None:
        self.name, self.shown, self._now = name, shown, now
        self._world = world
        self.files: dict[str, bytes] = dict(world.trees[shown])

    async def found(self, own: Mapping[str, str]) -> Found:
        trees = self._world.trees
        left = trees.of(self.files)
        was, now = trees[self.shown], self._world.files
        below = trees[self._now]
        clash = [
            path
            for path in {*now, *below}
            if now.get(path) != below.get(path) and self.files.get(path) not in (was.get(path), now.get(path))
        ]
        mended = dict(self.files)
        for path in clash:
            _put(mended, path, was.get(path))
        return Found(result=left, mended=trees.of(mended), clashes=tuple(sorted(clash)))

    async def put_back(self, paths: Sequence[str]) -> None:
        for path in paths:
            _put(self.files, path, self._world.trees[self.shown].get(path))

    async def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    async def drop(self, *, keep_ignored: bool) -> None:
        return None


def _put(files: dict[str, bytes], path: str, content: bytes | None) -> None:
    if content is None:
        files.pop(path, None)
    else:
        files[path] = content


class Simulated:
    """A workspace, a clock and chance, in memory."""

    def __init__(
        self, files: Files | None = None, *, cast: Cast | None = None, toolbox: Toolbox | None = None, branch: str = ""
    ) -> None:
        self.trees = Trees()
        self.files: dict[str, bytes] = dict({"lib.py": b"x = 1\n"} if files is None else files)
        self.cast: Cast = cast or Clean()
        self.folder: Folder = InMemory()
        self.seats: dict[str, _Seat] = {}
        self.commits: dict[str, tuple[str, CommitOrder]] = {}
        self.refs: dict[str, str] = {}
        self.start = self.trees.of(self.files)
        self.clock = datetime(2026, 1, 1, tzinfo=UTC)
        self._drawn = 0
        self._toolbox = toolbox or Toolbox()
        self._branch = branch
        self.paid: list[str] = []
        """Markers of the calls that were made to their end."""

    # clock and chance
    def now(self) -> datetime:
        self.clock += timedelta(milliseconds=1)
        return self.clock

    def draw(self, length: int) -> str:
        self._drawn += 1
        return f"{self._drawn:0{length}d}"[-length:]

    async def sleep_until(self, at: datetime) -> None:
        self.clock = max(self.clock, at)

    async def together(
        self, members: Mapping[str, Callable[[], Awaitable[T]]], cap: int, begin: Callable[[str], None]
    ) -> dict[str, T]:
        import contextvars

        came: dict[str, T] = {}
        for name, member in members.items():
            context = contextvars.copy_context()
            context.run(begin, name)
            came[name] = context.run(drive, member())
        return came

    def redact(self, text: str) -> str:
        return text

    # the workspace
    def where(self) -> Where:
        return Where(branch=self._branch)

    async def standing(self, where: Where, last: Standing | None) -> Standing:
        return Standing(tree=self.trees.of(self.files), head="0" * 40, unsaved=self.trees.of(self.files) != self.start)

    async def merge(self, base: Tree, ours: Tree, theirs: Tree) -> Merged:
        return self.trees.merge(base, ours, theirs)

    async def between(self, old: Tree, new: Tree, paths: Sequence[str] = ()) -> list[Change]:
        a, b = self.trees[old], self.trees[new]
        found = []
        for path in sorted({*a, *b}):
            if a.get(path) != b.get(path) and (not paths or path in paths):
                kind = "added" if path not in a else "deleted" if path not in b else "changed"
                found.append(Change(path=path, kind=kind, added=1, removed=1))
        return found

    async def patch(self, old: Tree, new: Tree, paths: Sequence[str] = ()) -> bytes:
        return "".join(f"{change.kind} {change.path}\n" for change in await self.between(old, new, paths)).encode()

    async def graft(self, tree: Tree, source: Tree, paths: Sequence[str]) -> Tree:
        files = dict(self.trees[tree])
        for path in paths:
            _put(files, path, self.trees[source].get(path))
        return self.trees.of(files)

    async def read(self, tree: Tree, path: str) -> bytes | None:
        return self.trees[tree].get(path)

    async def list(self, tree: Tree, paths: Sequence[str] = ()) -> dict[str, str]:
        return {
            path: hashlib.sha1(content, usedforsecurity=False).hexdigest()
            for path, content in self.trees[tree].items()
            if not paths or path in paths
        }

    async def keep(self, trees: Sequence[Tree]) -> None:
        return None

    # effects
    async def deliver(self, before: Tree, after: Tree) -> Landing:
        self.cast.moment("deliver", self)
        paths = [change.path for change in await self.between(before, after)]
        if any(self.files.get(path) != self.trees[before].get(path) for path in paths):
            return Landing(state="late")
        for path in paths:
            _put(self.files, path, self.trees[after].get(path))
        self.cast.moment("delivered", self)
        return Landing(state="done", paths=tuple(paths))

    async def finish(self, before: Tree, after: Tree) -> Landing:
        merged = self.trees.merge(before, self.trees.of(self.files), after)
        if merged.tree is None:
            return Landing(state="conflict", conflicts=merged.conflicts)
        self.files = dict(self.trees[merged.tree])
        return Landing(state="done", paths=tuple(change.path for change in await self.between(before, after)))

    async def document(self, path: str) -> bytes | None:
        return self.files.get(path)

    async def write(self, path: str, content: bytes | None, before: bytes | None) -> bool:
        if self.files.get(path) != before:
            return False
        _put(self.files, path, content)
        return True

    async def commit_tree(self, where: Where, order: CommitOrder) -> Tree | None:
        return None

    async def plan_commit(self, where: Where, order: CommitOrder) -> Committed:
        if order.branch in self.refs:
            return Committed(problem=f"the branch {order.branch} exists")
        commit = hashlib.sha1(f"{order.work}{order.message}{order.at}".encode(), usedforsecurity=False).hexdigest()
        self.commits[commit] = (order.branch, order)
        return Committed(commit=commit)

    async def publish(self, where: Where, commit: str, branch: str) -> Committed:
        self.cast.moment("publish", self)
        self.refs[branch or where.branch] = commit
        return Committed(commit=commit)

    async def hooks(self, where: Where, order: CommitOrder) -> CommandExit | None:
        return None

    async def pull_request(self, branch: str, title: str, body: str) -> Committed:
        return Committed(commit=f"https://example.org/{branch}")

    # agents and commands
    def role(self, name: str, *, judges: bool) -> Role:
        return Role(name=name, runner="simulated", type="scripted")

    async def seat(self, slot: str, role: Role, standing: Standing, shown: Tree, *, goes_on: bool) -> _Seat | None:
        if goes_on:
            return self.seats.get(slot)
        self.seats[slot] = _Seat(self, slot, shown, standing.tree)
        return self.seats[slot]

    async def call(self, ask: Ask, seat: Any, hear: Hear) -> Exit:
        self.cast.moment(f"call {ask.marker}", self)
        act = self.cast.agent(ask, ask.marker.partition("/")[2], seat.files)
        for path, content in act.files.items():
            _put(seat.files, path, content)
        if act.exit.usage.input_tokens is not None:
            facts = act.exit.usage.model_dump()
            hear(News.model_validate({"kind": "usage", "facts": facts}))
        self.paid.append(ask.marker)
        self.cast.moment(f"called {ask.marker}", self)
        return act.exit

    async def toolbox(self, tree: Tree, place: str) -> Toolbox:
        return self._toolbox

    async def product(self, command: Command, tree: Tree, paths: Sequence[str]) -> set[str]:
        return {path for path in paths if "test" not in path}

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
        files = seat.files if seat is not None else self.trees[tree]
        came = self.cast.command(command, files, files == self.trees[self.start] or tree == standing.tree)
        return Checked(came, tests=junit.tests_of(came.exit, came.out, ()))

    async def setup(self, command: Command, standing: Standing, tree: Tree) -> CommandExit | None:
        return None

    async def ask(self, gate: GateView) -> Message | None:
        self.cast.moment("ask", self)
        return self.cast.person(gate)


def drive(work: Coroutine[Any, Any, T] | Awaitable[T]) -> T:
    """Run what never waits to its end, without an event loop."""
    steps = work.__await__()
    try:
        while True:
            next(steps)
    except StopIteration as done:
        result: T = done.value
        return result

"""The simulated world: the same seam as the real one, in memory (PROOF-01).

A tree is the name of a table of files.  Nothing waits, so that a playbook is driven without an event loop.  A cast says
what agents, commands and people do; with the usual one, `Clean`, everything goes as it should.
"""

from __future__ import annotations

import contextvars
import hashlib
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from interlock.agents import answers
from interlock.agents.values import Ask, CommandExit, Exit, News, NewsKind, Role, Usage
from interlock.documents.model import Model
from interlock.engine import junit
from interlock.engine.folder import InMemory, Message
from interlock.engine.halts import Halted
from interlock.engine.playbook import Playbook
from interlock.engine.playing import Player
from interlock.engine.prompts import Prompts
from interlock.engine.toolchains import Look
from interlock.engine.view import GateView
from interlock.engine.world import Checked, Command, CommitOrder, Hear, Table, Toolbox
from interlock.workspace.values import BranchFacts, Change, Committed, Found, Landing, Merged, Standing, Tree, Where

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

    def part(self, tree: Tree, paths: Iterable[str]) -> dict[str, bytes | None]:
        return {path: self._known[tree].get(path) for path in paths}

    def merge(self, base: Tree, ours: Tree, theirs: Tree) -> Merged:
        """File by file: whoever changed it has it; both, and differently: a conflict."""
        b, o, t = self[base], self[ours], self[theirs]
        mine = {path for path in {*b, *o, *t} if o.get(path) not in (b.get(path), t.get(path))}
        if conflicts := sorted(path for path in mine if t.get(path) != b.get(path)):
            return Merged(conflicts=tuple(conflicts))
        return Merged(tree=self.of(_with(t, self.part(ours, mine))))


@dataclass(frozen=True)
class Act:
    """What an agent does in its layer, and what it says."""

    files: Mapping[str, bytes | None] = field(default_factory=dict)
    exit: Exit = Exit(finished=True, text="")


WORK, FAULT, SKIPPED = b"worked on by ", b"wrong\n", b"skipped\n"
"""Begins the line that an agent leaves in each file that it was asked for; is left by one who does it wrong; is what a
test says that was weakened."""
BROKEN, TEST = "people/broken.txt", "tests/test_lib.py"
FILES: Files = {"lib.py": b"x = 1\n"}
HOOKS = "the commit hooks"
"""They come to the cast like a command."""


def is_green(files: Files) -> bool:
    """Whether a check is green on these files: agents worked on them, and rightly, or no test says otherwise."""
    texts = b"".join(files.values())
    return BROKEN not in files and (files.get(TEST) == SKIPPED or (WORK in texts and FAULT not in texts))


class Clean:
    """The usual cast: agents answer the best that their form allows, commands are green on what they worked on."""

    def agent(self, ask: Ask, key: str, files: Files) -> Act:
        """It adds a line to each file that it has to leave, and takes nothing away that is there."""
        changed = {
            path: text.encode() if text else self.worked(files.get(path, b""), key)
            for path, text in ask.samples.items()
        }
        return Act(changed, self.said(answers.best(ask.form, ask.known) if ask.form else None))

    def worked(self, content: bytes, key: str) -> bytes:
        line = WORK + key.encode() + b"\n"
        return content if line in content else content + line

    def said(self, form: Any) -> Exit:
        text = answers.said(form) if form is not None else answers.PROSE
        return Exit(finished=True, text=text, exit=0, usage=Usage(input_tokens=100, output_tokens=10, cost_usd=0.01))

    def command(self, command: Command, tree: Tree, files: Files, *, own: bool) -> CommandExit:
        """How a command ends on a tree; `own`: in the layer of a judge, as it left it."""
        return CommandExit(exit=0) if is_green(files) else CommandExit(exit=1, out="1 failed")

    def person(self, gate: GateView) -> Message | None:
        return Message(what="answer", choice=gate.choices[0], who="person", at=gate.at)

    def moment(self, what: str) -> str:
        """Called before and after each effect: here a person may edit and the process may die. A text makes the effect
        fail."""
        return ""


class SimulatedSeat:
    confined = True

    def __init__(self, world: Simulated, name: str, shown: Tree, now: Tree) -> None:
        self._world, self.name, self.shown, self._now = world, name, shown, now
        self.files: dict[str, bytes] = dict(world.trees[shown])

    async def found(self, own: Mapping[str, str]) -> Found:
        """As `workspace.setting_back` has it, file by file."""
        world, trees = self._world, self._world.trees
        was, below, mended = trees[self.shown], trees[self._now], dict(self.files)
        back, clashes = [], []
        for path in sorted(path for path in {*was, *mended} if mended.get(path) != was.get(path)):
            left, theirs, head = mended.get(path), world.files.get(path), world.head.get(path)
            if theirs != below.get(path) and left not in (None, theirs):
                clashes.append(path)
            if path in below and below[path] != head and own.get(path) != _blob(below[path]) and left in (None, head):
                back.append(path)
        mended = _with(mended, trees.part(self.shown, (*clashes, *back)))
        return Found(result=trees.of(self.files), mended=trees.of(mended), set_back=tuple(back), clashes=tuple(clashes))

    async def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    async def drop(self, *, keep_ignored: bool) -> None:
        return None


def _blob(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def _with(files: Files, changes: Mapping[str, bytes | None]) -> dict[str, bytes]:
    """The files, with these contents; None: without that file."""
    return {path: content for path, content in {**files, **changes}.items() if content is not None}


class Simulated:
    """A workspace, a clock and chance, in memory."""

    def __init__(
        self,
        files: Files | None = None,
        *,
        head: Files | None = None,
        cast: Clean | None = None,
        toolbox: Toolbox | None = None,
        branch: str = "",
    ) -> None:
        self.trees = Trees()
        self.files: dict[str, bytes] = dict(FILES if files is None else files)
        self.head: dict[str, bytes] = dict(self.files if head is None else head)
        """What is committed; where the files differ, a person has not committed it yet."""
        self.cast, self._toolbox, self.folder = cast or Clean(), toolbox or Toolbox(), InMemory()
        self.seats: dict[str, SimulatedSeat] = {}
        self.commits: dict[str, tuple[Tree, Tree, Tree]] = {}
        """Commit -> the tree before the work, the commit's own, and the one that it goes on top of."""
        self._branch, self.branches, self.refs = branch, {branch}, dict[str, str]()
        self.attic: dict[str, bytes] = {}
        self.stashes: dict[str, dict[str, bytes | None]] = {}
        """Note -> what was put away under it."""
        self.away = False
        """Another branch is checked out, on which nothing lies but this."""
        self.elsewhere: dict[str, bytes] = {}
        self.clock, self._drawn = datetime(2026, 1, 1, tzinfo=UTC), 0
        self.unseen: dict[Path, Exit] = {}
        """Calls that ended and that no process has taken up yet."""
        self.paid: list[str] = []
        """Markers of the calls that were made to their end."""

    # clock and chance
    def now(self) -> datetime:
        self.clock += timedelta(milliseconds=1)
        return self.clock

    def draw(self, length: int) -> str:
        self._drawn += 1
        return f"{self._drawn}".rjust(length, "d")[-length:]

    def cores(self) -> int:
        return 2

    async def sleep_until(self, at: datetime) -> None:
        self.clock = max(self.clock, at)

    async def together(
        self, members: Mapping[str, Callable[[], Awaitable[T]]], cap: int, begin: Callable[[str], None]
    ) -> dict[str, T]:
        """Members take turns at each call of an agent, so that all have begun before the first one ends."""
        came, halts, waiting = dict[str, T](), list[Halted](), list(members.items())
        at_work: dict[str, tuple[contextvars.Context, Generator[Any, None, T]]] = {}
        while waiting or at_work:
            while waiting and len(at_work) < cap:
                name, member = waiting.pop(0)
                context = contextvars.copy_context()
                context.run(begin, name)
                at_work[name] = context, member().__await__()
            for name, (context, steps) in list(at_work.items()):
                try:
                    context.run(next, steps)
                    continue
                except StopIteration as done:
                    came[name] = done.value
                except Halted as halt:  # the others are paid for, and end
                    halts, waiting = [*halts, halt], []
                except BaseException:
                    for inner, begun in at_work.values():
                        inner.run(begun.close)
                    raise
                del at_work[name]
            await _turn()  # of a group within a group
        if halts:
            raise halts[0]
        return {name: came[name] for name in members}

    def redact(self, text: str) -> str:
        return text

    # the workspace
    def where(self) -> Where:
        return Where(branch="refs/heads/another" if self.away else self._branch)

    async def standing(self, where: Where, last: Standing | None) -> Standing:
        if self.away and last is not None:
            return last.model_copy(update={"away": True})
        return Standing(tree=self.trees.of(self.files), head="0" * 40, unsaved=self.files != self.head)

    async def merge(self, base: Tree, ours: Tree, theirs: Tree) -> Merged:
        return self.trees.merge(base, ours, theirs)

    async def between(self, old: Tree, new: Tree, paths: Sequence[str] = ()) -> list[Change]:
        a, b = self.trees[old], self.trees[new]
        differ = sorted(path for path in {*a, *b} if a.get(path) != b.get(path) and (not paths or path in paths))
        kinds = ["added" if path not in a else "deleted" if path not in b else "changed" for path in differ]
        return [Change(path=path, kind=kind, added=1, removed=1) for path, kind in zip(differ, kinds, strict=True)]

    async def patch(self, old: Tree, new: Tree, paths: Sequence[str] = ()) -> bytes:
        return "".join(f"{change.kind} {change.path}\n" for change in await self.between(old, new, paths)).encode()

    async def graft(self, tree: Tree, source: Tree, paths: Sequence[str]) -> Tree:
        return self.trees.of(_with(self.trees[tree], self.trees.part(source, paths)))

    async def read(self, tree: Tree, path: str) -> bytes | None:
        return self.trees[tree].get(path)

    async def keep(self, trees: Sequence[Tree]) -> None:
        return None

    async def owned(self, own: Mapping[str, str], standing: Standing, before: Tree, after: Tree) -> dict[str, str]:
        files = self.trees[after]
        changed = [change.path for change in await self.between(before, after)]
        return {**own, **{path: _blob(files[path]) for path in changed if path in files}}

    # effects
    async def deliver(self, before: Tree, after: Tree, modes: Mapping[str, int] | None = None) -> Landing:
        """All of it, where each file is still what was decided about; else nothing."""
        assert not self.away, "a delivery into another branch's tree"
        was, paths = self.trees[before], [change.path for change in await self.between(before, after)]
        self.cast.moment("deliver")
        if any(self.files.get(path) != was.get(path) for path in paths):
            return Landing(state="late")
        self.files = _with(self.files, self.trees.part(after, paths))
        self.cast.moment("delivered")
        return Landing(state="done", paths=tuple(paths))

    async def without(self, before: Tree, after: Tree, now: Tree) -> tuple[Tree, tuple[str, ...]]:
        merged = self.trees.merge(after, now, before)
        kept = merged.conflicts
        if merged.tree is None:
            merged = self.trees.merge(after, now, await self.graft(before, after, kept))
        assert merged.tree is not None
        return merged.tree, kept

    async def finish(self, before: Tree, after: Tree) -> Landing:
        assert not self.away, "a delivery into another branch's tree"
        merged = self.trees.merge(before, self.trees.of(self.files), after)
        paths = [change.path for change in await self.between(before, after)]
        if merged.tree is not None:
            self.files = dict(self.trees[merged.tree])
            return Landing(state="done", paths=tuple(paths))
        ours = [path for path in paths if self.files.get(path) == self.trees[after].get(path)]  # else written since
        self.files = _with(self.files, self.trees.part(before, ours))
        return Landing(state="conflict", conflicts=merged.conflicts)

    @property
    def here(self) -> dict[str, bytes]:
        """What lies in the workspace now."""
        return self.elsewhere if self.away else self.files

    async def document(self, path: str) -> bytes | None:
        return self.here.get(path)

    async def names(self, folder: str) -> list[str]:
        inside = [path.removeprefix(f"{folder}/") for path in self.here if path.startswith(f"{folder}/")]
        return [name for name in inside if "/" not in name]

    async def write(self, path: str, content: bytes) -> None:
        self.cast.moment(f"write {path}")
        self.here[path] = content
        self.cast.moment(f"wrote {path}")

    async def aside(self, path: str, key: str) -> str:
        self.cast.moment(f"set aside {path}")
        place = f".interlock/attic/{key}/{path}"
        if path in self.here:
            self.attic[place] = self.here.pop(path)
        self.cast.moment(f"moved {path}")
        return place

    def _committed(self, order: CommitOrder) -> Merged:
        """The run's work alone, on what is committed."""
        return self.trees.merge(order.base, self.trees.of(self.head), order.work)

    async def commit_tree(self, where: Where, order: CommitOrder) -> Tree | None:
        tree = self._committed(order).tree
        return None if tree == order.work else tree

    async def plan_commit(self, where: Where, order: CommitOrder) -> Committed:
        tree, parent = self._committed(order).tree, self.trees.of(self.head)
        problem = self.cast.moment("plan commit")
        if tree is None or tree == parent or order.branch in self.refs:
            problem = problem or "nothing to commit, not to be told apart, or a branch that exists"
        if problem or tree is None:
            return Committed(problem=problem)
        commit = _blob(f"{tree}{parent}{order.message}{order.branch}".encode())
        self.commits[commit] = order.base, tree, parent
        return Committed(commit=commit)

    async def publish(self, where: Where, commit: str, branch: str) -> Committed:
        _, tree, parent = self.commits[commit]
        problem, ref = self.cast.moment("publish"), branch or where.branch
        if self.refs.get(ref) != commit:  # else a process died behind it
            if not branch and self.trees.of(self.head) != parent:
                problem = problem or "the branch is not where it was"
            if problem:
                return Committed(problem=problem)
            self.refs[ref] = commit
            self.head = self.head if branch else dict(self.trees[tree])
        self.cast.moment("published")
        return Committed(commit=commit)

    async def hooks(self, where: Where, order: CommitOrder) -> CommandExit | None:
        """They see the tree that would be committed."""
        tree = self._committed(order).tree
        return await self._ran(Command("hooks", HOOKS), tree, self.trees[tree], own=False) if tree else None

    async def pull_request(self, branch: str, title: str, body: str) -> Committed:
        if problem := self.cast.moment("push"):
            return Committed(problem=problem)
        self.cast.moment("pushed")
        return Committed(commit=f"https://example.org/{branch}")

    async def unsaved(self, standing: Standing) -> list[Change]:
        return await self.between(self.trees.of(self.head), standing.tree)

    async def committed(self, standing: Standing) -> Tree:
        return self.trees.of(self.head)

    async def branch(self, name: str) -> BranchFacts:
        there = f"refs/heads/{name}" in self.branches
        head, current = _blob(self.trees.of(self.head).encode()), self.where().branch.removeprefix("refs/heads/")
        return BranchFacts(current=current, head=head, at=head if there else "", holds_head=there, elsewhere="")

    async def switch(self, branch: str, *, new: bool) -> str:
        ref = f"refs/heads/{branch}"
        if problem := self.cast.moment("switch"):
            return problem
        if not new and ref not in self.branches:
            return f"there is no branch {branch}"
        self.branches.add(ref)
        self._branch = ref
        self.cast.moment("switched")
        return ""

    async def stash(self, paths: Sequence[str], note: str) -> Committed:
        if problem := self.cast.moment("stash"):
            return Committed(problem=problem)
        if note not in self.stashes:
            self.stashes[note] = {path: self.files.get(path) for path in paths}
            self.files = _with(self.files, {path: self.head.get(path) for path in paths})
        self.cast.moment("stashed")
        return Committed(commit=_blob(note.encode()))

    # agents and commands
    def role(self, name: str, *, judges: bool, file: str = "") -> Role:
        return Role(name=name, runner="simulated", type="scripted")

    async def seat(
        self, layer: str, role: Role, standing: Standing, shown: Tree, *, goes_on: bool
    ) -> SimulatedSeat | None:
        if goes_on:
            return self.seats.get(layer)
        self.seats[layer] = SimulatedSeat(self, layer, shown, standing.tree)
        return self.seats[layer]

    async def call(self, ask: Ask, seat: Any, hear: Hear) -> Exit:
        key = ask.marker.partition("/")[2]
        self.cast.moment(f"call {key}")
        await _turn()
        act = self.cast.agent(ask, key, seat.files)
        if act.exit.usage.input_tokens is not None:
            hear(News(kind=NewsKind.USAGE, facts=act.exit.usage.model_dump()))
        seat.files = _with(seat.files, act.files)
        self.paid.append(ask.marker)
        self.unseen[ask.transcript] = act.exit
        self.cast.moment(f"called {key}")
        return act.exit

    async def recover(self, ask: Ask, seat: Any) -> Exit | None:
        return self.unseen.get(ask.transcript)

    async def toolbox(self, tree: Tree, place: str) -> Toolbox:
        return self._toolbox

    async def look(self, tree: Tree, find: Callable[[Look], T]) -> T:
        return find(Table(self.trees[tree], self.trees[tree].get))

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
        """It opens each changed file that is named like a test."""
        files = seat.files if seat is not None else self.trees[tree]
        now = dict(self.files)
        came = await self._ran(command, tree, files, own=seat is not None)
        opened = tuple(path for path in changed if "test" in path)
        return Checked(came, junit.tests_of(came.exit, came.out, ()), opened, self.files != now)

    async def _ran(self, command: Command, tree: Tree, files: Files, *, own: bool) -> CommandExit:
        self.cast.moment(f"run {command.name}")
        came = self.cast.command(command, tree, files, own=own)
        self.cast.moment(f"ran {command.name}")
        return came

    async def setup(self, command: Command, standing: Standing, tree: Tree) -> CommandExit | None:
        return None

    async def ask(self, gate: GateView) -> Message | None:
        self.cast.moment(f"ask {gate.gate}")
        return self.cast.person(gate)


@types.coroutine
def _turn() -> Generator[None, None, None]:
    """Let another member have its turn."""
    yield


def simulated(playbook: Playbook, world: Simulated, **more: Any) -> Player:
    """A player of it in this world, as a process of its own would have."""
    settings = playbook.settings() if playbook.settings else None
    return Player(playbook, world, Prompts(playbook.prompts), settings=settings, **more)


def begin(player: Player, inputs: Model, caps: Mapping[str, int] | None = None, **identity: Any) -> None:
    """A new run of the player's playbook, in its simulated world."""
    playbook, world = player.playbook, player.world
    where = world.where()
    standing, key = drive(world.standing(where, None)), playbook.key(inputs, where)
    known = {"run": f"{playbook.name}-1", "order": 1, "version": "simulated", "caps": caps or playbook.caps}
    known["documents"] = tuple(playbook.documents(inputs))
    player.begin(inputs, **{**known, "key": key, "where": where, "standing": standing, **identity})


def drive(work: Coroutine[Any, Any, T] | Awaitable[T]) -> T:
    """Run a coroutine to its end without an event loop; in the simulated world nothing has to be waited for."""
    steps = work.__await__()
    try:
        while True:
            next(steps)
    except StopIteration as done:
        result: T = done.value
        return result

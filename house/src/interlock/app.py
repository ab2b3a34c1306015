"""interlock as the doors use it: a place with its settings and runs, and what can be done with a run there.

Everything that a person can do to a run stands here once: begin, resume, decide, cancel, undo, apply.  The doors turn
words into these calls and what comes of them into output.
"""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from importlib import import_module
from importlib.metadata import version as installed
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from interlock import settings_file
from interlock.agents.redaction import Redaction
from interlock.agents.roles import Roles
from interlock.agents.values import Role
from interlock.documents.model import Model
from interlock.documents.problems import problems
from interlock.documents.reading import Spot
from interlock.engine import events as ev
from interlock.engine.delivery import merged
from interlock.engine.folder import Message
from interlock.engine.playbook import Playbook
from interlock.engine.playing import Player
from interlock.engine.prompts import Prompts
from interlock.engine.real import RealWorld
from interlock.engine.run import Limits
from interlock.engine.runs import Entry, Runs
from interlock.engine.view import GateView, View
from interlock.errors import BadInput, Refused, Status, nearest
from interlock.settings import Settings
from interlock.workspace.commits import Commits
from interlock.workspace.delivery import Delivery
from interlock.workspace.layers.layers import Layers
from interlock.workspace.place import Workspace
from interlock.workspace.repository import DETACHED
from interlock.workspace.scope import GUARDED
from interlock.workspace.trees import Trees
from interlock.workspace.values import Change, Pending, Where

SHIPPED = {"task": "interlock.playbooks.task:TASK"}
POLL_S = 0.3
"""Between two looks into the inbox of a run that works."""


def playbook_named(name: str) -> Playbook:
    """A playbook by its name."""
    if name not in SHIPPED:
        near = nearest(name, SHIPPED)
        raise BadInput(
            f"there is no playbook {name!r}",
            expected=f"one of {', '.join(sorted(SHIPPED))}",
            remedy=f"Did you mean {near}?" if near else None,
        )
    module, _, attribute = SHIPPED[name].partition(":")
    found: Playbook = getattr(import_module(module), attribute)
    return found


@dataclass(frozen=True)
class Watcher:
    """How a door hears of a run while it works; nothing that it does can change the run."""

    hear: Callable[[str, Any], None] = lambda key, news: None
    """News of a call that is under way: key, `agents.values.News`."""
    told: Callable[[View, str], None] = lambda view, key: None
    """After each line: the run as it stands now, and the key that the line is about."""
    ask: Callable[[GateView], Awaitable[Message | None]] | None = None
    """The person at the terminal, if one is there."""


@dataclass
class Place:
    """Where a person stands: the workspace, its settings, its runs."""

    folder: Path
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def workspace(self) -> Workspace:
        return Workspace.find(self.folder)

    @cached_property
    def runs(self) -> Runs:
        return Runs(self.workspace.own)

    @cached_property
    def settings(self) -> Settings:
        tables = {name: model for name in SHIPPED if (model := playbook_named(name).settings) is not None}
        return settings_file.load(self.folder, self.workspace.top, os.environ, self.options, tables)

    @cached_property
    def trees(self) -> Trees:
        return Trees(self.workspace, largest=self.settings.sandbox.max_untracked_bytes)

    @cached_property
    def layers(self) -> Layers:
        return Layers(self.trees, self.settings.sandbox)

    def inputs(self, playbook: Playbook, given: Mapping[str, Any]) -> Model:
        """What a person said, over what settings say for the playbook; BadInput carries all that is wrong."""
        table, names = self.settings.of(playbook.name), playbook.inputs.model_fields
        known = {name: getattr(table, name) for name in (table.model_fields_set if table else ()) if name in names}
        data = {**known, **given}
        try:
            return playbook.inputs.model_validate(data)
        except ValidationError as error:
            raise BadInput.together(
                problems(error, playbook.inputs, data, lambda keys: Spot(f"--{str(keys[0]).replace('_', '-')}"))
            ) from None

    # --- beginning and going on

    async def run(
        self,
        playbook: Playbook,
        inputs: Model,
        watcher: Watcher,
        *,
        runner: str = "",
        said: str = "",
        flags: Model | None = None,
    ) -> tuple[Entry, View]:
        """Begin a run, or go on with the open one of its key and inputs (RUN-08)."""
        if playbook.check is not None:
            playbook.check(inputs, self.refuses_commits)
        where = self.trees.where()
        key = playbook.key(inputs, where)
        with self.runs.key_lock(playbook.name, key):
            last = self.runs.of_key(playbook.name, key)
            if last is not None and (head := last.head()) and head.status.is_open:
                if last.first.get("inputs") != inputs.model_dump(mode="json"):
                    raise Refused(
                        f"run {last.id} of the same request is open, with other options",
                        remedy=f"Go on with it: interlock resume {last.id}. Or end it: interlock cancel {last.id}",
                    )
                return last, await self.resume(last, watcher, runner=runner, said=said, flags=flags)
            entry = self.runs.new(playbook.name, datetime.now(UTC))
            player = self._player(playbook, entry, watcher, runner, flags)
            return await self._begin(player, entry, inputs, key, last if playbook.goes_on else None, said)

    async def _begin(
        self, player: Player, entry: Entry, inputs: Model, key: str, last: Entry | None, said: str
    ) -> tuple[Entry, View]:
        """Begin a run; `last`: one of the same key, whose pending work it takes over."""
        playbook = player.playbook
        world = player.world
        roles = [world.role(row.agent, judges=row.judges) for row in playbook.rows]  # found before anything is paid for
        self._check_budget(roles)
        maker = await asyncio.to_thread(self.layers.maker)
        with entry.lock():
            try:
                standing = await world.standing(world.where(), None)
                player.begin(
                    inputs,
                    run=entry.id,
                    order=self.runs.next_order(),
                    version=installed("interlock"),
                    where=world.where(),
                    standing=standing,
                    caps=self.caps(playbook, inputs),
                    key=key,
                    said=self._words(said),
                    continues=last.id if last else "",
                    units=_left(last.view()) if last else {},
                    documents=tuple(playbook.documents(inputs)),
                )
                if kept := [tree for pair in player.view.units.values() for tree in (pair.base, pair.work)]:
                    await world.keep(kept)
                if not maker.confined:
                    player.warn(f"agents work in a private copy of the workspace, not confined: {maker.why}")
                return entry, await self._play(player)
            except BadInput:
                if not player.view.calls:
                    await asyncio.to_thread(self._remove, entry)
                raise

    def refuses_commits(self, branch: str = "") -> str:
        """Why nothing can be committed here, on a new branch of that name or on the one that is checked out."""
        repository = self.trees.repository
        if repository is None:
            return "there is no git repository here"
        if busy := repository.busy():
            return f"git is in the middle of something ({', '.join(busy)})"
        if branch:
            return Commits(self.trees, lambda tree: tree).refused(branch)
        return "no branch is checked out" if self.trees.where().branch == DETACHED else ""

    def _check_budget(self, roles: Sequence[Role]) -> None:
        """A budget in dollars needs clients that tell what they cost (RUN-14)."""
        from interlock.agents import clients

        if self.settings.limits.budget_usd is None:
            return
        tables = {role.runner: self.settings.runner_named(role.runner) for role in roles}
        silent = sorted(name for name, one in tables.items() if not clients.row(one.type, one.argv or ()).tells_cost)
        if silent:
            raise BadInput(
                f"a budget in dollars was set, but {', '.join(silent)} does not tell what a call costs",
                where="limits.budget_usd",
                remedy="Set one in tokens: [limits] budget_tokens = N.",
            )

    def roles(self, playbook: Playbook, runner: str = "") -> list[Role]:
        """Who would be asked: runner, model, and the file of a role that is not ours (AGENT-02)."""
        world = self._player(playbook, self.runs.new(playbook.name, datetime.now(UTC)), Watcher(), runner).world
        return [world.role(row.agent, judges=row.judges) for row in playbook.rows]

    def caps(self, playbook: Playbook, inputs: Model) -> dict[str, int]:
        """A cap is the least of what the playbook has, its settings and what was asked for (RUN-10)."""
        table = self.settings.of(playbook.name)
        caps = {}
        for loop, most in playbook.caps.items():
            named = f"{loop}s"
            asked = [getattr(source, named, most) for source in (inputs, table)]
            caps[loop] = min([most, *(number for number in asked if isinstance(number, int))])
        return caps

    def _remove(self, entry: Entry) -> None:
        """A run that never began leaves nothing behind."""
        from shutil import rmtree

        rmtree(entry.path, ignore_errors=True)
        self.layers.clean(entry.id)
        self.trees.forget(entry.id)

    async def resume(
        self,
        entry: Entry,
        watcher: Watcher,
        *,
        runner: str = "",
        said: str = "",
        accepted: bool = False,
        flags: Model | None = None,
        **options: Any,
    ) -> View:
        """Go on with a run: an open one at its first unrecorded verb, a stopped one with what failed (RUN-08)."""
        with entry.lock():
            view = entry.view()
            if view.start is None:
                raise Refused(f"run {entry.id} never began", remedy="Remove it: interlock runs --clean")
            if view.status in (Status.COMPLETE, Status.DEGRADED, Status.CANCELLED):
                again = f"Ask again: interlock run {view.start.playbook} ..."
                raise Refused(f"run {entry.id} is {view.status.value}: {view.why}", remedy=again)
            player = self._player(playbook_named(view.start.playbook), entry, watcher, runner, flags)
            known = {name: value for name, value in options.items() if value is not None}
            player.resume(installed("interlock"), said=self._words(said), accepted=accepted, **known)
            return await self._play(player)

    async def _play(self, player: Player) -> View:
        """Play it; a word that cancels it is heard while agents work, too (RUN-07)."""
        work = asyncio.ensure_future(player.play())
        told = False
        try:
            while not (await asyncio.wait([work], timeout=POLL_S))[0]:
                if not told and any(message.what == "cancel" for _, message in player.world.folder.messages()):
                    told = work.cancel()
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.wait([work])
            raise
        return work.result()

    def _words(self, text: str) -> ev.Words | None:
        return ev.Words(text=text, who=who(), at=datetime.now(UTC)) if text.strip() else None

    def _player(
        self, playbook: Playbook, entry: Entry, watcher: Watcher, runner: str, flags: Model | None = None
    ) -> Player:
        ours = Path(str(files(playbook.package).joinpath("agents"))) if playbook.package else self.folder
        world = RealWorld(
            entry.id,
            entry.folder,
            self.trees,
            self.layers,
            self.settings,
            Roles(self.workspace.top, playbook.name, ours),
            self.redaction,
            where=entry_where(entry) or self.trees.where(),
            playbook=playbook.name,
            runner=runner,
            ask=watcher.ask,
        )
        player = Player(
            playbook,
            world,
            Prompts(playbook.prompts, self._own_prompts(playbook.name)),
            settings=self.settings.of(playbook.name),
            limits=self._limits(),
            flags=dict(flags) if flags else {},
            hear=watcher.hear,
            told=lambda event, key: watcher.told(player.view, key),
        )
        return player

    def _limits(self) -> Limits:
        limits, evidence = self.settings.limits, self.settings.evidence
        return Limits(
            max_parallel=limits.max_parallel or 4,
            budget_usd=limits.budget_usd,
            budget_tokens=limits.budget_tokens,
            rate_limit_wait_s=limits.rate_limit_wait_s,
            replay=evidence.replay,
            replay_s=evidence.replay_s,
            weakened=evidence.weakened,
            guarded=GUARDED if self.settings.sandbox.guarded is None else self.settings.sandbox.guarded,
        )

    def _own_prompts(self, playbook: str) -> dict[str, tuple[str, str]]:
        folder = self.workspace.own / "prompts" / playbook
        return {
            file.name.removesuffix(".md"): (file.read_text("utf-8"), str(file.relative_to(self.workspace.top)))
            for file in sorted(folder.glob("*.md"))
        }

    @cached_property
    def redaction(self) -> Redaction:
        from interlock.agents import clients

        logins = [Path.home() / name for row in clients.rows() for name in row.logins]
        return Redaction(os.environ, self.settings.secrets(), files=[file for file in logins if file.is_file()])

    # --- deciding

    def decide(
        self,
        entry: Entry,
        what: Literal["approve", "reject", "answer"],
        *,
        note: str = "",
        choice: str = "",
        seen: GateView | None = None,
    ) -> None:
        """Record a person's decision about the gate that waits; the run goes on when somebody works on it."""
        view = entry.view()
        gate = seen or view.gate
        if gate is None:
            raise Refused(
                f"run {entry.id} waits for no decision: it is {entry.status(view).value}",
                remedy=f"See how it stands: interlock show {entry.id}",
            )
        if what == "reject" and not note.strip():
            raise Refused("a rejection needs words", expected="--note TEXT")
        if what == "answer" and gate.choices != ("*",) and choice not in gate.choices:
            raise Refused(f"{choice!r} is no answer to: {gate.question}", expected=f"one of {', '.join(gate.choices)}")
        message = Message(what=what, who=who(), at=datetime.now(UTC), gate=gate.gate, choice=choice, note=note)
        if seen is not None:  # bound to what was seen; else the documents count as they are now
            message = message.model_copy(update={"opening": seen.opening, "shown": seen.shown})
        entry.folder.say(message)

    def cancel(self, entry: Entry) -> bool:
        """End a run; at once where nobody works on it. False: whoever works on it ends it."""
        view = entry.view()
        if not view.status.is_open:
            raise Refused(f"run {entry.id} has ended: it is {view.status.value}")
        message = Message(what="cancel", who=who(), at=datetime.now(UTC))
        if entry.holder() is not None:
            entry.folder.say(message)
            return False
        with entry.lock():
            assert view.start is not None
            player = self._player(playbook_named(view.start.playbook), entry, Watcher(), "")
            player.cancel(message.who)
        return True

    # --- its work

    def work(self, view: View) -> tuple[Pending | None, list[Change]]:
        """What is pending of a run, against the person's tree of this moment."""
        if view.pending is None or view.start is None or view.pending.base == view.pending.work:
            return None, []
        return view.pending, self.trees.between(view.pending.base, view.pending.work)

    async def undo(self, entry: Entry, paths: Sequence[str] = (), *, dry: bool = False) -> ev.Undone:
        """Take what a run delivered out of the tree again, hunk by hunk; what changed since stays (TREE-06)."""
        return await self._again(entry, "undo", paths, dry)

    async def apply(self, entry: Entry, paths: Sequence[str] = (), *, dry: bool = False) -> ev.Undone:
        """Bring a run's refused, held-back or undone work into the tree: a person's word."""
        return await self._again(entry, "apply", paths, dry)

    async def _again(self, entry: Entry, how: Literal["undo", "apply"], paths: Sequence[str], dry: bool) -> ev.Undone:
        with entry.lock():
            view = entry.view()
            start = view.start
            if start is None or view.status.is_open:
                raise Refused(f"run {entry.id} is open", remedy=f"Cancel it first: interlock cancel {entry.id}")
            player = self._player(playbook_named(start.playbook), entry, Watcher(), "")
            world, recorder = player.world, player.recorder
            pairs = _delivered(view) if how == "undo" else _refused(view)
            if not pairs:
                what = "delivered nothing" if how == "undo" else "has no work that was refused or taken out"
                raise Refused(f"run {entry.id} {what}")
            standing = await world.standing(start.where, view.standing)
            if standing.away:
                raise Refused(f"another branch than {start.where.branch} is checked out", remedy="Check it out first.")
            after = standing.tree
            kept: list[str] = []
            for pair in reversed(pairs) if how == "undo" else pairs:
                if how == "undo":
                    after, left = Delivery(self.trees).undoing(pair.base, pair.work, after)
                else:
                    after, left = await merged(world, pair, after)
                kept += left
            if paths:
                after = await world.graft(standing.tree, after, list(paths))
            changed = [change.path for change in await world.between(standing.tree, after)]
            undone = ev.Undone(
                how=how,
                who=who(),
                pair=Pending(base=standing.tree, work=after),
                paths=tuple(changed),
                kept=tuple(dict.fromkeys(kept)),
            )
            if dry or not changed:
                return undone
            await world.keep([standing.tree, after])
            facts = {"before": standing.tree, "after": after}
            recorder.add("", ev.Intended(what="undo", facts=facts), sync=True)
            landed = [one.landing for one in reversed(view.delivered) if one.landing and how == "undo"]
            modes = {path: mode for landing in landed for path, mode in landing.modes.items()}  # git knows one bit
            landing = Delivery(self.trees).deliver(standing.tree, after, modes=modes)
            if landing.state != "done":
                raise Refused("the tree changed while it was written: nothing was changed", remedy="Try again.")
            recorder.add("", undone, sync=True)
            return undone


def entry_where(entry: Entry) -> Where | None:
    """Where a run belongs, as its first event has it."""
    found = entry.first.get("where")
    return Where.model_validate(found) if found else None


def _left(view: View) -> dict[str, Pending]:
    """What a run had pending when it ended, by unit, for the one that continues it."""
    pending = {view.unit: view.pending} if view.pending else {}
    return {unit: pair for unit, pair in {**view.units, **pending}.items() if pair.base != pair.work}


def _delivered(view: View) -> list[Pending]:
    """What a run delivered and nobody took out again, in order."""
    last = next((one for one in reversed(view.undone)), None)
    if last is not None:
        return [last.pair] if last.how == "apply" else []
    return [
        Pending(base=one.before, work=one.merged)
        for one in view.delivered
        if one.state == "done" and one.before and one.merged
    ]


def _refused(view: View) -> list[Pending]:
    last = next((one for one in reversed(view.undone)), None)
    if last is not None and last.how == "undo":
        return [Pending(base=last.pair.work, work=last.pair.base)]
    pairs = [] if last is not None else list(view.held)
    if view.pending is not None and view.pending.base != view.pending.work:
        pairs.insert(0, view.pending)
    return pairs


def who() -> str:
    """The person at this terminal."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"

"""interlock as the doors use it: a place with its settings and runs, and what can be done with a run there.

Everything that a person can do to a run stands here once: begin, resume, decide, cancel, undo, apply.  The doors turn
words into these calls and what comes of them into output.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import shlex
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib import import_module
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from interlock import settings_file
from interlock.agents import clients
from interlock.agents.redaction import Redaction
from interlock.agents.roles import Roles
from interlock.agents.values import News, Role
from interlock.documents.files import read, sha256
from interlock.documents.model import Model
from interlock.documents.problems import problems
from interlock.documents.reading import Spot
from interlock.engine import afterwards, playing
from interlock.engine.afterwards import How, Moved, left
from interlock.engine.against import Compared, against
from interlock.engine.folder import Message
from interlock.engine.playbook import Playbook
from interlock.engine.playing import Player
from interlock.engine.prompts import Prompts
from interlock.engine.real import RealWorld
from interlock.engine.run import Limits
from interlock.engine.runs import Entry, Runs
from interlock.engine.view import GateView, View
from interlock.errors import BadInput, Refused, Status, unknown
from interlock.finding.library import Library
from interlock.finding.trust import Consent, Trust, nobody
from interlock.settings import Settings
from interlock.workspace.commits import Commits
from interlock.workspace.delivery import Delivery
from interlock.workspace.layers.bubblewrap import laid
from interlock.workspace.layers.layers import Layers
from interlock.workspace.place import Workspace
from interlock.workspace.repository import DETACHED
from interlock.workspace.trees import Trees
from interlock.workspace.values import Landing, Tree, Where

_NAMES = ("adopt", "harness", "feature", "roadmap", "router", "task", "ticket")
SHIPPED = {name: f"interlock.playbooks.{name}:{name.upper()}" for name in _NAMES}
"""Our playbooks, and where each is."""
POLL_S = 0.3
"""Between two looks into the inbox of a run that works."""


def playbook_named(name: str) -> Playbook:
    """A shipped playbook by its name."""
    if name not in SHIPPED:
        raise unknown(f"there is no playbook {name!r}", name, sorted(SHIPPED))
    module, _, attribute = SHIPPED[name].partition(":")
    found: Playbook = getattr(import_module(module), attribute)
    return found


def said_as(model: type[Model], data: Mapping[str, Any], variables: Mapping[str, str] | None = None) -> Model:
    """What a person typed, as that model; BadInput carries all that is wrong, by option.

    Args:
        variables: field -> the variable of the environment that says it instead.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        spot = lambda keys: Spot((variables or {}).get(keys[0]) or f"--{str(keys[0]).replace('_', '-')}")  # noqa: E731
        raise BadInput.together(problems(error, model, data, spot)) from None


@dataclass(frozen=True)
class Watcher:
    """How a door hears of a run while it works; nothing that it does can change the run."""

    hear: Callable[[str, News], None] = lambda key, news: None
    """News of a call that is under way."""
    told: Callable[[View, str], None] = lambda view, key: None
    """After each line: the run as it stands now, and the key that the line is about."""
    ask: Callable[[GateView], Awaitable[Message | None]] | None = None
    """The person at the terminal, if one is there."""


Saved = Callable[[], Awaitable[None]]
"""Awaited before each call and after each dispatch."""


@dataclass
class Place:
    """Where a person stands: the workspace, its settings, its runs."""

    folder: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    speak: Callable[[Entry, Message], None] = lambda entry, message: entry.folder.say(message)
    """Leaves a person's word for whoever works on a run, also elsewhere (`interlock.fleet`)."""
    hold: Callable[[Entry], AbstractAsyncContextManager[Saved | None]] = lambda entry: nullcontext()
    """Entered while somebody goes on with a run. Where a remote carries that run, it gives what brings the run to
    safety there (`interlock.fleet`)."""

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

    @cached_property
    def library(self) -> Library:
        return Library(self.workspace.top, SHIPPED, Trust(self.workspace.top, os.environ))

    def playbook(self, word: str, consent: Consent = nobody, *, here: Path | None = None) -> Playbook:
        """The playbook that somebody means, by name or by path from where they stand; theirs has to be trusted."""
        found = self.library.find(word, here or self.folder)
        playbook, digest = self.library.load(found, consent)
        where = f"./{found.place}" if found.path and not Path(found.place).is_absolute() else found.place or found.name
        source = f"{where}{f':{found.only}' if found.only else ''} sha256:{digest}" if digest else ""
        return replace(playbook, source=source)

    def playbook_of(self, view: View, consent: Consent = nobody) -> Playbook:
        """That of a run, from where it came."""
        if view.start is None:
            raise Refused("this run never began", remedy="Remove it: interlock runs --clean")
        word = view.start.source.rpartition(" ")[0] or view.start.playbook
        return self.playbook(word, consent, here=self.workspace.top)

    def inputs(self, playbook: Playbook, given: Mapping[str, Any]) -> Model:
        """What a person said, over what settings say for the playbook; BadInput carries all that is wrong."""
        table, names = self.settings.of(playbook.name), playbook.inputs.model_fields
        known = {name: getattr(table, name) for name in (table.model_fields_set if table else ()) if name in names}
        said = {one: name for one, name in playbook.variables.items() if one not in given and os.environ.get(name)}
        known |= {one: os.environ[name] for one, name in said.items()}
        inputs = said_as(playbook.inputs, {**known, **given}, said)
        return playbook.settle(inputs, self.text)  # type: ignore[no-any-return]

    def text(self, path: str) -> str | None:
        """Of a document of the workspace."""
        content = read(self.workspace.top, path)
        return None if content is None else content.decode("utf-8", "replace")

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
        works: bool = True,
    ) -> tuple[Entry, View]:
        """Begin a run, or go on with the open one of its key and inputs (RUN-08).

        Args:
            works: False: it is only begun; somebody else works on it.
        """
        if playbook.check is not None:
            playbook.check(inputs, self.refuses_commits)
        where, budget = self.trees.where(), self.options.get("limits.budget_usd")
        key = playbook.key(inputs, where)
        with self.runs.key_lock(playbook.name, key):
            last = self.runs.of_key(playbook.name, key)
            head = last.head() if last else None
            if last and head and head.status.is_open:
                if not _same(inputs, last.first.get("inputs")):
                    raise Refused(
                        f"run {last.id} of the same request is open, with other options",
                        remedy=f"Go on with it: interlock resume {last.id}. Or end it: interlock cancel {last.id}",
                    )
                if not works:
                    return last, last.view()
                view = await self.resume(last, watcher, runner=runner, said=said, flags=flags, budget=budget)
                return last, view
            again = playbook.repeats is None or getattr(flags, "new_run", False)
            if not again and head and head.status in (Status.COMPLETE, Status.DEGRADED):
                assert playbook.repeats is not None
                raise Refused(playbook.repeats(inputs), remedy="Look at it: interlock show")
            entry = self.runs.new(playbook.name, datetime.now(UTC))
            player = self._player(playbook, entry, watcher, runner, flags)
            world, documents = player.world, tuple(playbook.documents(inputs))
            self.trees.declare(documents)
            doubts = await asyncio.to_thread(self._doubts, player, works=works)  # found before anything is paid for
            before = last if playbook.goes_on else None
            with entry.lock():
                try:
                    player.begin(
                        inputs,
                        run=entry.id,
                        order=self.runs.next_order(),
                        version=installed("interlock"),
                        where=where,
                        standing=await world.standing(where, None),
                        caps=self.caps(playbook, inputs),
                        key=key,
                        said=player.words(said, who()),
                        continues=before.id if before else "",
                        units=left(before.view()) if before else {},
                        documents=documents,
                        source=playbook.source,
                        outer=laid(self.workspace.top) if playbook.nests else {},
                        options=_known(runner=runner, budget=budget),
                    )
                    if kept := [tree for pair in player.view.units.values() for tree in (pair.base, pair.work)]:
                        await world.keep(kept)
                    for doubt in doubts:
                        player.warn(doubt)
                    if works:
                        with _cancelled_by_word(player):
                            return entry, await player.play()
                    player.recorder.sync()
                except BadInput:
                    if not player.view.calls:
                        await asyncio.to_thread(self.forget, entry)
                    raise
            return entry, player.view

    def refuses_commits(self, branch: str = "") -> str:
        """Why nothing can be committed here, on a new branch of that name or on the one that is checked out."""
        repository = self.trees.repository
        if repository is None:
            return "there is no git repository here"
        if busy := repository.busy():
            return f"git is in the middle of something ({', '.join(busy)})"
        commits = Commits(self.trees, lambda tree: tree)
        if why := commits.nobody():
            return why
        if branch:
            return commits.refused(branch)
        return "no branch is checked out" if self.trees.where().branch == DETACHED else ""

    def _doubts(self, player: Player, *, works: bool) -> list[str]:
        """What a person has to know before the work: a budget that cannot be watched (RUN-14), agents not confined."""
        tables = {role.runner: self.settings.runner_named(role.runner) for role in _roles(player)}
        rows = {name: clients.row(one.type, one.argv or ()) for name, one in sorted(tables.items())}
        world = player.world
        assert isinstance(world, RealWorld)
        gone = {one.runner: name for one in _roles(player) if works and (name := world.missing(one))}
        if gone:
            runners, programs = ", ".join(gone), ", ".join(dict.fromkeys(gone.values()))
            hint = "; ".join(filter(None, (rows[name].install for name in gone)))
            raise BadInput(f"{programs} is not installed", where=f"runner {runners}", remedy=hint or None)
        silent, limits = [name for name, row in rows.items() if not row.tells_cost], self.settings.limits
        if silent and limits.budget_usd is not None:
            raise BadInput(
                f"a budget in dollars was set, but {', '.join(silent)} does not tell what a call costs",
                where="limits.budget_usd",
                remedy="Set one in tokens: [limits] budget_tokens = N.",
            )
        doubts, maker = list[str](), self.layers.maker()
        mute = [name for name, row in rows.items() if not row.tells_tokens]
        if mute and limits.budget_tokens is not None:
            doubts.append(f"the budget cannot be watched: {', '.join(mute)} does not tell what a call takes")
        if not maker.confined:
            doubts.append(f"agents work in a private copy of the workspace, not confined: {maker.why}")
        return doubts

    def roles(self, playbook: Playbook, runner: str = "") -> list[Role]:
        """Who would be asked: runner, model, and the file of a role that is not ours (AGENT-02)."""
        return _roles(self._player(playbook, self.runs.new(playbook.name, datetime.now(UTC)), Watcher(), runner))

    def caps(self, playbook: Playbook, inputs: Model) -> dict[str, int]:
        """A cap is the least of what the playbook has, its settings and what was asked for (RUN-10)."""
        sources = (inputs, self.settings.of(playbook.name))
        asked = {loop: [getattr(source, f"{loop}s", None) for source in sources] for loop in playbook.caps}
        return {
            loop: min([most, *(number for number in asked[loop] if isinstance(number, int))])
            for loop, most in playbook.caps.items()
        }

    def forget(self, entry: Entry) -> None:
        """Takes a run away, with all that belongs to it."""
        shutil.rmtree(entry.path, ignore_errors=True)
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
            playbook, runner = self.playbook_of(view), runner or view.options.get("runner", "")
            assert view.start is not None
            if view.status in (Status.COMPLETE, Status.DEGRADED, Status.CANCELLED):
                required = [name for name, field in playbook.inputs.model_fields.items() if field.is_required()]
                again = shlex.join(["interlock", "run", playbook.name, *(view.start.inputs[name] for name in required)])
                raise Refused(f"run {entry.id} is {view.status.value}: {view.why}", remedy=f"Ask again: {again}")
            if getattr(flags, "from_", "") and view.gate is not None:
                remedy = f"Reject it: interlock reject {entry.id} --note TEXT. Or end it: interlock cancel {entry.id}"
                raise Refused(f"run {entry.id} waits for a decision, and goes nowhere before that", remedy=remedy)
            async with self.hold(entry) as saved:
                player = self._player(playbook, entry, watcher, runner, flags, saved)
                known = _known(runner=runner, **options)
                player.resume(installed("interlock"), said=player.words(said, who()), accepted=accepted, **known)
                with _cancelled_by_word(player):
                    return await player.play()

    def _player(
        self,
        playbook: Playbook,
        entry: Entry,
        watcher: Watcher,
        runner: str = "",
        flags: Model | None = None,
        saved: Saved | None = None,
    ) -> Player:
        settings, ours = self.settings, (playbook.home or self.folder) / "agents"
        bounds = {**dict(settings.limits), **settings.evidence.model_dump(exclude={"junit"})}
        bounds = _known(**bounds, guarded=settings.sandbox.guarded)
        roles = Roles(self.workspace.top, playbook.name, ours, playbook.roles)
        more = {"runner": runner, "runners": playbook.runners, "ask": watcher.ask}
        world = self._world(entry, playbook.name, roles, **more)
        player = Player(
            playbook,
            world,
            Prompts(playbook.prompts, self._texts(playbook)),
            settings=settings.of(playbook.name),
            limits=Limits(**bounds),
            flags=dict(flags) if flags else {},
            hear=watcher.hear,
            told=lambda event, key: watcher.told(player.view, key),
            saved=saved,
        )
        return player

    def _world(self, entry: Entry, playbook: str, roles: Roles, **more: Any) -> RealWorld:
        self.trees.declare(entry.first.get("documents", ()))
        where = Where.model_validate(entry.first["where"]) if "where" in entry.first else self.trees.where()
        about = entry.id, entry.folder, self.trees, self.layers, self.settings, roles, self.redaction
        return RealWorld(*about, where=where, playbook=playbook, **more)

    def _texts(self, playbook: Playbook) -> dict[str, tuple[str, str]]:
        """A team's own texts in place of the playbook's, with the file of each."""
        found = sorted((self.workspace.own / "prompts" / playbook.name).glob("*.md"))
        top = self.workspace.top
        return {one.name.removesuffix(".md"): (one.read_text("utf-8"), str(one.relative_to(top))) for one in found}

    def against(self, playbook: Playbook, entry: Entry) -> Compared:
        """How far a recorded run goes with a playbook as it is now."""
        return against(playbook, entry.folder, settings=self.settings.of(playbook.name), own=self._texts(playbook))

    @cached_property
    def redaction(self) -> Redaction:
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
        opening: int = 0,
        shown: Mapping[str, str] | None = None,
        by: str = "",
    ) -> list[str]:
        """Record a person's decision about the gate that waits; the run goes on when somebody works on it.

        The documents count as they are now; those that have changed since it was asked are returned (PERSON-01).

        Args:
            opening: of the gate, as a page or a client showed it: the decision is about that alone; so is `shown`.
            shown: digests of the documents, as they were shown there.
            by: who says so there, where that is not whom this process belongs to.
        """
        view = entry.view()
        gate = view.gate
        if gate is None:
            raise Refused(
                f"run {entry.id} waits for no decision: it is {entry.status(view).value}",
                remedy=f"See how it stands: interlock show {entry.id}",
            )
        if what == "reject" and not note.strip():
            remedy = f'interlock reject {entry.id} --note "what is to be changed"'
            raise BadInput("a rejection needs words", expected="--note TEXT", remedy=remedy)
        if what == "answer" and gate.choices != ("*",) and choice not in gate.choices:
            raise Refused(f"{choice!r} is no answer to: {gate.question}", expected=f"one of {', '.join(gate.choices)}")
        now = dict(gate.shown)
        if entry.is_far:  # its documents lie where it is: whoever works on it sees whether they are still these
            opening, shown = gate.opening, gate.shown
        else:
            now = {path: sha256(read(self.workspace.top, path)) for path in gate.shown}
        if opening and (opening != gate.opening or (shown is not None and shown != now)):
            raise Refused("what it showed has changed since", remedy="Look at it anew, and decide about that.")
        seen: dict[str, Any] = {"gate": gate.gate, "opening": opening, "shown": dict(shown or {})}
        self.speak(entry, Message(what=what, who=by or who(), at=datetime.now(UTC), choice=choice, note=note, **seen))
        return [path for path, digest in gate.shown.items() if digest != now[path]]

    def cancel(self, entry: Entry) -> bool:
        """End a run; at once where nobody works on it. False: whoever works on it ends it."""
        view = entry.view()
        if view.start is None or not view.status.is_open:
            raise Refused(f"run {entry.id} has ended: it is {view.status.value}")
        if entry.is_far or entry.holder() is not None:
            self.speak(entry, Message(what="cancel", who=who(), at=datetime.now(UTC)))
            return False

        def finish(before: Tree, after: Tree) -> Landing:
            trees = Trees(self.workspace)  # settings may be broken
            if trees.standing(entry.id, view.where, view.standing).away:
                name = view.where.branch.removeprefix("refs/heads/")
                raise Refused(
                    "a delivery was cut off on another branch", remedy=f"Check it out first: git switch {name}"
                )
            return Delivery(trees).finish(before, after)

        with entry.lock():
            playing.cancel(entry.folder, lambda: datetime.now(UTC), who(), finish)
        return True

    # --- its work

    def move(self, entry: Entry, how: How, paths: Sequence[str] = (), *, dry: bool = False) -> Moved:
        """A person's word: what a run delivered goes out of the tree again, or what it could not comes in (TREE-06)."""
        with entry.lock():  # takes no playbook: it may be broken, or elsewhere
            world = self._world(entry, entry.first.get("playbook", ""), Roles(self.workspace.top, "", self.folder))
            return asyncio.run(afterwards.move(world, how, paths, who(), dry=dry))


@contextmanager
def _cancelled_by_word(player: Player) -> Iterator[None]:
    """While agents are at work, too, a person's word to cancel the run ends this task (RUN-07)."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    heard, looks = False, list[asyncio.TimerHandle]()

    def look() -> None:
        nonlocal heard
        heard = any(message.what == "cancel" for _, message in player.world.folder.messages())
        if heard:
            task.cancel()
        else:
            looks[:] = [loop.call_later(POLL_S, look)]

    looks.append(loop.call_later(POLL_S, look))
    try:
        yield
    finally:
        looks[0].cancel()
        if heard:
            task.uncancel()


def _roles(player: Player) -> list[Role]:
    return [player.world.role(row.agent, judges=row.judges) for row in player.playbook.rows]


def _same(inputs: Model, recorded: Any) -> bool:
    """Whether a run began with these inputs; an option that is newer than the run counts at its default (RUN-21)."""
    with suppress(ValidationError):
        return type(inputs).model_validate(recorded).model_dump() == inputs.model_dump()
    return False


def _known(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value not in (None, "")}


def who() -> str:
    """The person at this terminal."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"

"""A run of this workspace and its ref: packed as the run is now, moved on by compare-and-swap.

A checkpoint of a run that is being worked on has to be one that a crash could have left: then whoever goes on from it
does what holds after crashes.  Everything that changes the tree records its intent first and its end last.  So the
journal is read first, and the tree after it; where an intent came between the two, both are read again.  Then each
change that the tree holds has its intent in the journal, and each change that the journal calls done is in the tree.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from interlock import __version__
from interlock.agents.environment import Redaction
from interlock.engine.folder import KnownRun, RunFolder
from interlock.engine.journal import Line
from interlock.engine.lifecycle import ended_as
from interlock.errors import InterlockError, Refused
from interlock.fleet.carried import Carried, clone_name
from interlock.fleet.freight import OPEN, WAITING, Checkpoint, Freight, Possession
from interlock.fleet.growing import GrowingJournal
from interlock.fleet.remote import Move, Remote, key_ref, state_ref
from interlock.fleet.tree import Standpoint, check_records, check_secrets, standpoint, tree_at
from interlock.telemetry import State, standing
from interlock.workspace import Workspace
from interlock.workspace.objects import Stored

INTENTS = (".intent", "dispatch.importing")
"""How events end after which the tree changes."""


class Fenced(Refused):
    """Somebody else has the run: here nothing more may be done with it."""


class Gone(Refused):
    """The remote has no such run."""


class KeyTaken(Refused):
    """Another run is live for the playbook and the key."""

    def __init__(self, what: str, *, run: str, **more: Any) -> None:
        super().__init__(what, **more)
        self.run = run


class RunMoment(NamedTuple):
    """A run at one moment."""

    lines: int
    """The lines that its journal had."""
    where: Standpoint
    tree: str


@dataclass
class Carriage:
    """One run on its way, as this workspace has it."""

    known: KnownRun
    workspace: Workspace
    remote: Remote
    redaction: Redaction
    who: str
    about: str = ""
    orders: Mapping[str, Any] | None = None
    """What those who work on it are asked; None: what its ref says."""

    def __post_init__(self) -> None:
        self._freight = Freight(self.workspace)
        self._journal = GrowingJournal(self.known.folder)
        self._previous: Checkpoint | None = None
        self._base: tuple[str | None, str] | None = None
        """The last commit that HEAD led to, and its tree."""
        self._clean: set[str] = set()
        """Files of the workspace in which no secret was found."""

    @property
    def run_id(self) -> str:
        return self.known.identity.run_id

    @property
    def carried(self) -> Carried:
        return Carried.of(self.workspace.root, self.run_id)

    async def packed(self, *, held: bool) -> tuple[str, str]:
        """A commit with the run as it is now, and the tree of the workspace.

        Args:
            held: whether it goes on here.
        """
        moment = await self._moment()
        previous = await self._before()
        possession = self._possession(moment, previous, held=held)
        base = await self._base_of(moment.where)

        async def check(objects: Sequence[Stored], records: Sequence[str]) -> None:
            check_records(records)
            await check_secrets(self.workspace, base, objects, self.redaction, self._clean)

        commit = await self._freight.pack(
            self.known.folder,
            self._journal,
            moment.lines,
            moment.tree,
            possession,
            previous,
            secret=self._secret,
            check=check,
        )
        return commit, moment.tree

    def _secret(self, content: bytes) -> bool:
        return self.redaction.needed and self.redaction.bytes(content) != content

    async def checkpoint(self) -> None:
        """The ref leads to the run as it is now; `Fenced` when it is somebody else's."""
        carried = await self.settled()
        commit, tree = await self.packed(held=True)
        moves = [Move(state_ref(self.run_id), carried.commit, commit)]
        if carried.commit is None:  # it began here, as the successor of one that came
            moves.append(await self._key_move(commit))
        replace(carried, remote=self.remote.shown, coming=commit).keep(self.workspace.root, self.run_id)
        if not await self.remote.swap(*moves):
            raise Fenced(f"run {self.run_id} is not here any more: somebody else has it")
        replace(carried, remote=self.remote.shown, commit=commit, coming=None, trees=(tree,)).keep(
            self.workspace.root, self.run_id
        )

    async def check_ours(self) -> None:
        """`Fenced` when the ref leads to something else than what was last pushed from here."""
        if await self.remote.tip(state_ref(self.run_id)) != (await self.settled()).commit:
            raise Fenced(f"run {self.run_id} is not here any more: somebody else has it")

    async def settled(self) -> Carried:
        """What this workspace remembers of the run; of a push whose answer got lost, what came of it."""
        carried = self.carried
        if carried.coming is None:
            return carried
        came = await self.remote.tip(state_ref(self.run_id)) == carried.coming
        found = replace(carried, commit=carried.coming if came else carried.commit, coming=None)
        found.keep(self.workspace.root, self.run_id)
        return found

    async def moves(self, commit: str) -> list[Move]:
        """What has to be moved so that the run is free at this commit: its ref, and for the fleet that of its key."""
        found = [Move(state_ref(self.run_id), self.carried.commit, commit)]
        first = self.carried.commit is None and (await self._freight.read(commit, self.run_id)).possession.orders
        if first or self.orders is not None:
            found.append(await self._key_move(commit))
        return found

    async def _key_move(self, commit: str) -> Move:
        """How the ref of the run's key comes to lead to it; `Refused` while another run is live for the key."""
        identity = self.known.identity
        ref = key_ref(identity.playbook, identity.key)
        tip = await self.remote.tip(ref)
        if tip is None:
            return Move(ref, None, commit)
        other = await self._live_run(ref, tip)
        if other is not None and other.run != self.run_id:
            raise KeyTaken(
                f"run {other.run} is live for {identity.playbook} {identity.key}: {other}",
                run=other.run,
                where=self.remote.shown,
                remedy=f"See how it stands: interlock show {other.run}. Or end it: interlock cancel {other.run}",
            )
        return Move(ref, tip, commit)

    async def _live_run(self, ref: str, tip: str) -> Possession | None:
        """The run that a key leads to, unless it has ended, or is gone."""
        await self.remote.fetch(ref, tip)
        try:
            run_id = (await self._freight.read(tip)).possession.run
            if (state := await self.remote.tip(state_ref(run_id))) is None:
                return None
            await self.remote.fetch(state_ref(run_id), state)
            found = (await self._freight.read(state, run_id)).possession
        except InterlockError as error:
            raise Refused(
                f"{ref} leads to something that is no run",
                where=self.remote.shown,
                found=error.what,
                remedy=f"Look at it, and remove it if nobody needs it: git push {self.remote.shown} --delete {ref}",
            ) from error
        if found.held and found.clone == clone_name(self.workspace.root) and self._is_over_here(run_id):
            return None
        return None if found.ended else found

    def _is_over_here(self, run_id: str) -> bool:
        """Whether a run that this place took ended here, which the remote hears when it is sent."""
        folder = RunFolder(self.workspace.root, run_id)
        return folder.exists and folder.elsewhere() is None and ended_as(folder.lines()) is not None

    async def _moment(self) -> RunMoment:
        self._journal.look()
        while True:
            count = self._journal.count
            where = await standpoint(self.remote)
            tree = await self.workspace.whole(await self.workspace.snapshot())
            if not any(line.event.endswith(INTENTS) for line in self._journal.look()):
                return RunMoment(count, where, tree)

    async def _before(self) -> Checkpoint | None:
        """The checkpoint that the next one follows."""
        commit = self.carried.commit
        if commit is None:
            return None
        if self._previous is None or self._previous.commit != commit:
            self._previous = await self._freight.read(commit, self.run_id)
        return self._previous

    async def _base_of(self, where: Standpoint) -> str:
        """What travels anyway, since it is committed."""
        if self._base is None or self._base[0] != where.commit:
            self._base = where.commit, await tree_at(self.remote, where.commit, where.prefix)
        return self._base[1]

    def _possession(self, moment: RunMoment, previous: Checkpoint | None, *, held: bool) -> Possession:
        identity, before = self.known.identity, previous.possession if previous else None
        return Possession(
            run=self.run_id,
            holder=self.who,
            clone=clone_name(self.workspace.root),
            held=held,
            since=now(),
            nonce=secrets.token_hex(16),
            version=__version__,
            head=moment.where.commit,
            branch=moment.where.branch,
            prefix=moment.where.prefix,
            playbook=identity.playbook,
            key=identity.key,
            about=self.about or (before.about if before else ""),
            status=status_of(self._journal.telling(moment.lines)),
            orders=(before.orders if before else {}) if self.orders is None else self.orders,
        )


def status_of(lines: Sequence[Line]) -> str:
    """How a run stands, in one word."""
    found = standing(lines)
    match found.state:
        case State.ENDED:
            return found.status
        case State.ASKING | State.PAUSED:
            return WAITING
    return OPEN


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

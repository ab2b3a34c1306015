"""A workspace as far as runs leave it and arrive there: `send`, `take`, `fetch`, and a checkpoint on the way.

Theory of operation: docs/adr/0021.  In one sentence: the note that fences this place is written before the push that
gives a run away, the claim is pushed before anything is written that came, and the folder moves into place last.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from interlock import __version__
from interlock.agents.environment import Redaction
from interlock.engine.folder import FETCHED, Elsewhere, KnownRun, RunFolder, known_runs, prepare_home
from interlock.engine.identity import Identity
from interlock.engine.lifecycle import ended_as
from interlock.engine.people import person
from interlock.engine.runs import Runs
from interlock.errors import ConfigInvalid, InterlockError, Refused, WorkspaceFailed
from interlock.fleet.arriving import arrived, goes_on_from, place
from interlock.fleet.branches import branch_for, make_branch, move_head
from interlock.fleet.carriage import Carriage, Fenced, Gone, KeyTaken, now
from interlock.fleet.carried import FENCED, SENDING, SENT, Carried, clone_name
from interlock.fleet.freight import Checkpoint, Freight, Possession
from interlock.fleet.looking import leave_copy, meant
from interlock.fleet.remote import Move, PushRefused, Remote, state_ref
from interlock.fleet.tree import Arrival, plan_arrival, standpoint, tree_at, write_arrival
from interlock.workspace import Scope, Workspace


@dataclass(frozen=True)
class Moved:
    """What became of a run that was sent, taken or fetched."""

    run_id: str
    remote: str
    commit: str
    branch: str | None = None
    """The branch of the user's repository that has the work, where there is one."""
    conflict: str = ""
    """Why documents were not written here."""
    orders: Mapping[str, Any] = field(default_factory=dict)
    """What those who work on it are asked."""


class Depot:
    """Runs of one workspace on their way.

    Args:
        documents: what of the workspace belongs to a run even where git ignores it.
        redaction: knows the secrets that must not travel.
        about: what a run is about, in one line.
        worker: who works here, if it is no person.
    """

    def __init__(
        self,
        runs: Runs,
        *,
        documents: Callable[[Identity], Sequence[str]] = lambda _identity: (),
        watch: Sequence[str] = (),
        redaction: Redaction | None = None,
        about: Callable[[Identity], str] = lambda identity: identity.key,
        worker: str = "",
    ) -> None:
        self.runs = runs
        self.root = runs.root
        self._documents = documents
        self._watch = watch
        self._redaction = redaction or Redaction()
        self._about = about
        self.who = worker or f"{person()} ({runs.root.name})"

    # -- leaving

    async def send(self, name: str, remote_name: str, orders: Mapping[str, Any] | None = None) -> Moved:
        """Give a run away that nobody works on: whoever takes it goes on with it.

        Args:
            orders: for a run that is given to the fleet: what those who work on it are asked. It is the one that is
                live for its key then; `Refused` while another one is.
        """
        known = self.runs.find(name)
        run_id = known.identity.run_id
        remote = await Remote.of(self._workspace(known.identity), remote_name, self.runs.environ)
        carried, note = Carried.of(self.root, run_id), known.folder.elsewhere()
        carriage = self.carriage(known, remote, orders)
        if note is not None and note.how == SENDING and carried.coming is not None:
            return await self._push_away(known, carriage, carried.coming)
        with self.runs.holding(known) as journal:
            journal.close()
            carried = await carriage.settled()
            await self._check_tip(known.folder, remote, carried)
            commit, tree = await carriage.packed(held=False)
            replace(carried, remote=remote.shown, coming=commit, trees=(tree,)).keep(self.root, run_id)
            return await self._push_away(known, carriage, commit)

    async def left(self, moved: Moved) -> Possession:
        """What the remote says of a run that was sent from here."""
        return (await Freight(self._workspace(None)).read(moved.commit, moved.run_id)).possession

    async def open_carriage(self, known: KnownRun, remote_name: str) -> Carriage:
        """A run that is worked on here, and kept on its ref meanwhile."""
        remote = await Remote.of(self._workspace(known.identity), remote_name, self.runs.environ)
        return self.carriage(known, remote)

    def carriage(self, known: KnownRun, remote: Remote, orders: Mapping[str, Any] | None = None) -> Carriage:
        """A run of this workspace on its way."""
        workspace = self._workspace(known.identity)
        about = self._about(known.identity)
        return Carriage(
            known, workspace, replace(remote, workspace=workspace), self._redaction, self.who, about, orders
        )

    async def _push_away(self, known: KnownRun, carriage: Carriage, commit: str) -> Moved:
        """The push that gives a run away; here it is fenced from before that on."""
        run_id, remote, carried = known.identity.run_id, carriage.remote, carriage.carried
        moves = await carriage.moves(commit)
        back = f"Get it back with: interlock take {run_id}"
        unsure = f"When {remote.shown} answers again: interlock send {run_id}. {back}"
        known.folder.leave_to(Elsewhere(f"it was being sent to {remote.shown}", now(), SENDING, unsure))
        try:
            while not await remote.swap(*moves):
                if await remote.tip(state_ref(run_id)) != carried.commit:
                    raise await self._fenced(known.folder, remote)
                moves = await carriage.moves(commit)  # somebody else moved the ref of its key a moment before
        except (PushRefused, KeyTaken):  # it never left
            replace(carried, coming=None).keep(self.root, run_id)
            known.folder.leave_to(None)
            raise
        known.folder.leave_to(Elsewhere(f"it waits on {remote.shown} for whoever takes it", now(), SENT, back))
        replace(carried, commit=commit, coming=None).keep(self.root, run_id)
        return Moved(run_id, remote.shown, commit)

    async def still_ours(self, run_id: str) -> None:
        """`Refused` when a run that came by a remote is somebody else's now; a remote that is away proves nothing."""
        folder, carried = RunFolder(self.root, run_id), Carried.of(self.root, run_id)
        if carried.commit is None or folder.elsewhere() is not None:
            return
        try:
            remote = await Remote.of(self._workspace(None), carried.remote, self.runs.environ)
            tip = await remote.tip(state_ref(run_id))
        except (WorkspaceFailed, ConfigInvalid) as error:
            self.runs.view.remark(f"Nobody can say whether somebody else took this run over: {error.what}.")
            return
        if tip != carried.commit:
            raise await self._fenced(folder, remote)

    # -- arriving

    async def take(self, name: str, remote_name: str, *, take_over: bool = False) -> Moved:
        """Claim a run that waits on a remote, and bring it here to go on with.

        Args:
            take_over: also from somebody who has it and surely works on it no more.
        """
        remote = await Remote.of(self._workspace(None), remote_name, self.runs.environ)
        run_id = await meant(self.root, remote, name)
        folder, carried = RunFolder(self.root, run_id), Carried.of(self.root, run_id)
        note = folder.elsewhere()
        tip = await remote.tip(state_ref(run_id))
        if note is not None and note.how == SENDING and carried.coming and tip == carried.commit:
            return await self._keep_after_all(folder, remote, carried)
        if tip is None:
            raise Gone(f"{remote.shown} has no run {run_id}", remedy=f"Send it there first: interlock send {run_id}")
        async with arrived(self.root, remote, run_id, tip) as (checkpoint, staged):
            who = checkpoint.possession
            ours = who.held and who.clone == clone_name(self.root)
            if ours and folder.exists and note is None:
                raise Refused(f"run {run_id} is here", remedy=f"Go on with it: interlock resume {run_id}")
            if who.held and not ours and not take_over:
                raise Refused(
                    f"run {run_id} is not free: {who} since {who.since}",
                    remedy="Wait until they send it. If they surely work on it no more, add --take-over.",
                )
            identity = staged.identity()
            self._check_here(identity, folder, staged)
            return await self._settle_here(remote, checkpoint, staged, carried, claim=not ours)

    async def _settle_here(
        self, remote: Remote, checkpoint: Checkpoint, staged: RunFolder, carried: Carried, *, claim: bool
    ) -> Moved:
        """Claim, write the tree, and move the folder into place."""
        identity, who = staged.identity(), checkpoint.possession
        run_id, workspace = identity.run_id, self._workspace(identity)
        remote = replace(remote, workspace=workspace)
        where = await standpoint(remote)
        if who.prefix != where.prefix or (where.prefix and who.head != where.commit):
            raise Refused(
                f"run {run_id} works in {who.prefix or 'the top'} of its repository, at commit {who.head}",
                found=f"{where.prefix or 'the top'}, at commit {where.commit}",
                remedy=f"Check that commit out, and call interlock from that folder: git checkout {who.head}",
            )
        arrival, branch, head = await self._way_in(remote, checkpoint, carried)
        commit = checkpoint.commit
        if claim:
            commit = Freight(workspace).claimed(checkpoint, self._claim_of(who))
            if not await remote.swap(Move(state_ref(run_id), checkpoint.commit, commit)):
                raise Fenced(
                    f"somebody else took run {run_id} a moment before",
                    remedy=f"See who has it: interlock take {run_id}",
                )
        # Whoever dies from here on takes again: files of either tree are nobody's new work.
        carried = Carried(remote.shown, commit, None, (arrival.tree, *carried.trees, head))
        carried.keep(self.root, run_id)
        if claim:  # that took its time, and people save files
            arrival, branch, _ = await self._way_in(remote, checkpoint, carried)
        if branch is not None or not claim:
            await move_head(remote, branch, who)
        await write_arrival(workspace, arrival, f"{run_id}-arrival")
        place(self.root, staged)
        replace(carried, trees=(arrival.tree,)).keep(self.root, run_id)
        return Moved(run_id, remote.shown, commit, branch, orders=who.orders)

    async def _way_in(
        self, remote: Remote, checkpoint: Checkpoint, carried: Carried
    ) -> tuple[Arrival, str | None, str]:
        """What is to be written, the branch for HEAD, and the tree of HEAD; `Refused` where work is in the way."""
        where = await standpoint(remote)
        head = await tree_at(remote, where.commit, where.prefix)
        arrival = await plan_arrival(remote.workspace, checkpoint.tree, (head, *carried.trees))
        return arrival, await branch_for(remote, where, checkpoint.possession), head

    async def _keep_after_all(self, folder: RunFolder, remote: Remote, carried: Carried) -> Moved:
        """A push that never happened: the run is claimed by the place that it never left."""
        assert carried.coming is not None
        freight = Freight(remote.workspace)
        checkpoint = await freight.read(carried.coming, folder.run_id)
        commit = freight.claimed(checkpoint, self._claim_of(checkpoint.possession))
        if not await remote.swap(Move(state_ref(folder.run_id), carried.commit, commit)):
            raise await self._fenced(folder, remote)
        replace(carried, commit=commit, coming=None).keep(self.root, folder.run_id)
        folder.leave_to(None)
        return Moved(folder.run_id, remote.shown, commit)

    def _check_here(self, identity: Identity, folder: RunFolder, staged: RunFolder) -> None:
        """`Refused` where the run would meet another one, or lines that only this place has."""
        same = (identity.playbook, identity.key)
        for known in known_runs(self.root):
            other = known.identity
            if other.run_id == identity.run_id or (other.playbook, other.key) != same or known.folder.elsewhere():
                continue
            if ended_as(known.folder.lines()) is None:
                raise Refused(
                    f"run {other.run_id} is open here for {other.playbook} {other.key}",
                    remedy=f"End it: interlock cancel {other.run_id}, or give it away: interlock send {other.run_id}",
                )
        if folder.exists and not goes_on_from(staged, folder):
            raise Refused(
                f"run {identity.run_id} went on here and elsewhere: this place has lines that the remote has not",
                where=str(folder.path),
                remedy="Move that folder away to keep them, then take the run again.",
            )

    async def fetch(self, name: str, remote_name: str) -> Moved:
        """Bring a run's branch, documents and folder here, to look at; it stays where it is."""
        remote = await Remote.of(self._workspace(None), remote_name, self.runs.environ)
        run_id = await meant(self.root, remote, name)
        tip = await remote.tip(state_ref(run_id))
        if tip is None:
            raise Gone(f"{remote.shown} has no run {run_id}", remedy=f"Send it there first: interlock send {run_id}")
        folder, carried = RunFolder(self.root, run_id), Carried.of(self.root, run_id)
        if folder.exists and folder.elsewhere() is None and tip == carried.commit:
            raise Refused(f"run {run_id} is here", remedy=f"See how it stands: interlock show {run_id}")
        async with arrived(self.root, remote, run_id, tip) as (checkpoint, staged):
            identity = staged.identity()
            if folder.exists and folder.elsewhere() is None:
                raise await self._fenced(folder, remote)
            workspace = self._workspace(identity)
            remote = replace(remote, workspace=workspace)
            branch = await make_branch(remote, checkpoint)
            conflict = await self._documents_here(remote, checkpoint, identity, carried)
            note = folder.elsewhere()
            await leave_copy(remote, checkpoint, staged, FETCHED if note is None or note.how == SENDING else note.how)
            place(self.root, staged)
            return Moved(run_id, remote.shown, tip, branch, conflict)

    async def _documents_here(
        self, remote: Remote, checkpoint: Checkpoint, identity: Identity, carried: Carried
    ) -> str:
        """Write the run's documents where they overwrite nobody's work; why not, if so."""
        patterns = tuple(self._documents_of(identity))
        where = await standpoint(remote)
        if not patterns or where.prefix != checkpoint.possession.prefix:
            return ""
        head = await tree_at(remote, where.commit, where.prefix)
        try:
            arrival = await plan_arrival(
                remote.workspace, checkpoint.tree, (head, *carried.trees), only=Scope(patterns)
            )
        except Refused as refusal:
            return f"{refusal.what}: {refusal.where}"
        await write_arrival(remote.workspace, arrival, f"{identity.run_id}-arrival")
        return ""

    # -- parts

    async def _check_tip(self, folder: RunFolder, remote: Remote, carried: Carried) -> None:
        if await remote.tip(state_ref(folder.run_id)) != carried.commit:
            raise await self._fenced(folder, remote)

    async def _fenced(self, folder: RunFolder, remote: Remote) -> Fenced:
        """Somebody else has the run: note it, and say who."""
        run_id, said, since = folder.run_id, "somebody else has it", now()
        with suppress(InterlockError):
            if (tip := await remote.tip(state_ref(run_id))) is None:
                said = f"it is gone from {remote.shown}"
            else:
                await remote.fetch(state_ref(run_id), tip)
                who = (await Freight(remote.workspace).read(tip, run_id)).possession
                said, since = str(who), who.since
        other = Elsewhere(f"{said} ({remote.shown})", since, FENCED, f"Get it back with: interlock take {run_id}")
        folder.leave_to(other)
        return Fenced(other.refusal(run_id).what, remedy=other.remedy)

    def _claim_of(self, who: Possession) -> Possession:
        """The claim of what somebody left, or has."""
        return replace(
            who,
            holder=self.who,
            clone=clone_name(self.root),
            held=True,
            since=now(),
            nonce=secrets.token_hex(16),
            version=__version__,
        )

    def _documents_of(self, identity: Identity) -> Sequence[str]:
        try:
            return self._documents(identity)
        except InterlockError:  # a playbook that this place has not, or not yet
            return ()

    def _workspace(self, identity: Identity | None) -> Workspace:
        documents = self._documents_of(identity) if identity else ()
        home = prepare_home(self.root)
        return Workspace(self.root, home, documents=documents, watch=self._watch, tell=self.runs.view.remark)

"""Runs of a remote as people see them from any clone: who has each, how it stands, and a copy to be read here.

A copy is a run folder with a note that says whose it is and of which checkpoint it is one.  It is renewed when the ref
has moved, verified as everything that arrives, and exchanged in one moment.  A run that is here is never touched, and
what cannot be used of one run keeps nobody from seeing the others.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.agents.environment import without_our_own
from interlock.documents.store import LIMIT
from interlock.engine.folder import FETCHED, Elsewhere, RunFolder, known_runs, prepare_home
from interlock.engine.journal import Line
from interlock.engine.lifecycle import ended_as
from interlock.engine.objects import unpack
from interlock.errors import InterlockError, Refused
from interlock.fleet.arriving import arrived, renew
from interlock.fleet.carriage import Gone
from interlock.fleet.carried import SENDING
from interlock.fleet.freight import CLAIM, Checkpoint, Possession
from interlock.fleet.remote import NAMESPACE, Remote, runs_of, state_ref
from interlock.telemetry import waiting_gate
from interlock.workspace import Workspace
from interlock.workspace.objects import GitObjects, reading

if TYPE_CHECKING:
    from interlock.fleet.queue import Queue

TRIES = 3
"""A ref that moves while it is looked at is looked at again so often."""
PAST = 50
"""Of runs that have ended, a look at all brings so many: the latest."""
_CLAIM_BYTES = 1_000_000
_LINKS = 8


@dataclass(frozen=True)
class Sighting:
    """A run as its remote has it."""

    run_id: str
    remote: str
    commit: str = ""
    """What its ref leads to; empty: there is none."""
    possession: Possession | None = None
    problem: str = ""
    """Why nobody can say more of it, or why the copy here was not renewed."""


async def remote_here(root: Path, name: str, environ: Mapping[str, str]) -> Remote:
    """A remote as somebody sees it who only looks."""
    return await Remote.of(Workspace(root, prepare_home(root)), name, without_our_own(environ, root))


async def sighted(remote: Remote, run_ids: Collection[str] | None = None) -> list[Sighting]:
    """These runs of the remote, or all of them: who has each, as its claim says. What it holds is not verified."""
    wanted = [f"{NAMESPACE}/*/state"] if run_ids is None else [state_ref(one) for one in run_ids]
    tips: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for _ in range(TRIES if wanted else 0):
        refs = await remote.refs(*wanted)
        tips = {one: refs[state_ref(one)] for one in runs_of(refs) if run_ids is None or one in run_ids}
        kinds = await remote.obtain({state_ref(one): tip for one, tip in tips.items()})
        if len(kinds) == len(set(tips.values())):
            break
    claims = await remote.files((f"{tip}:{CLAIM}" for tip in tips.values()), limit=_CLAIM_BYTES)
    found = [Sighting(one, remote.shown, problem=f"{remote.shown} has it no more") for one in run_ids or ()]
    seen = {one.run_id: one for one in found}
    for run_id, tip in tips.items():
        seen[run_id] = _seen(Sighting(run_id, remote.shown, tip), kinds.get(tip, ""), claims.get(f"{tip}:{CLAIM}"))
    return list(seen.values())


async def sighted_and_unqueued(remote: Remote, queue: Queue) -> tuple[list[Sighting], list[Possession]]:
    """All runs of the remote; and those of them that were given to the fleet, and that nobody is asked to work on.

    Whoever submitted such a one was cut off before it was queued, or the database was lost. What is queued is asked
    before and after: jobs come and end while the remote is looked at.
    """
    before = await _with_job(queue)
    seen = await sighted(remote)
    wanting = [one.possession for one in seen if one.possession is not None and one.possession.wants_worker]
    asked = before | (await _with_job(queue) if wanting else set())
    return seen, [who for who in wanting if who.run not in asked]


async def _with_job(queue: Queue) -> set[str]:
    return {job.order.run for job in (*await queue.jobs(), *await queue.given_up())}


async def meant(root: Path, remote: Remote, name: str) -> str:
    """The run of the remote, or of this place, that a person means: its id or an unambiguous beginning of it."""
    here = [known.identity.run_id for known in known_runs(root)]
    there = list(runs_of(await remote.refs(f"{NAMESPACE}/*/state")))
    if name == "latest" and there:
        return max(there, key=lambda run: run.split("-", 1)[-1][-20:])
    found = sorted({run for run in (*there, *here) if run == name}) or sorted(
        {run for run in (*there, *here) if name and run.startswith(name)}
    )
    if len(found) == 1:
        return found[0]
    shown = ", ".join((found or there)[-5:])
    expected = f"one of {shown}" if shown else None
    if found:
        raise Refused(f"{name!r} fits {len(found)} runs", expected=expected, remedy="Give more of its id.")
    raise Gone(
        f"{remote.shown} has no run {name!r}", expected=expected, remedy="Send it there first, from where it is."
    )


def _seen(one: Sighting, kind: str, claim: bytes | None) -> Sighting:
    if kind != "commit":
        why = f"its ref leads to a {kind}" if kind else "its ref moved while it was looked at, or leads to nothing"
        return replace(one, problem=f"what {one.remote} has of it cannot be used: {why}")
    try:
        possession = Possession.from_bytes(claim or b"")
        if possession.run != one.run_id:
            raise ValueError("it is that of another run")
        datetime.fromisoformat(possession.since)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        return replace(one, problem=f"what {one.remote} has of it cannot be used: its {CLAIM} is none ({error})")
    return replace(one, possession=possession)


async def look(root: Path, remote: Remote, run_ids: Collection[str] | None = None) -> list[Sighting]:
    """Renew the copies here of these runs of the remote, or of all: no branch, no documents, no run that is here.

    Of all runs, those that ended long ago and that nobody has looked at here are left where they are.
    """
    seen = await sighted(remote, run_ids)
    new = [one for one in seen if run_ids is None and one.possession and not RunFolder(root, one.run_id).exists]
    past = sorted((who.since, who.run) for one in new if (who := one.possession) and who.ended)
    passed = {run for _, run in past[:-PAST]}
    return [await _renewed(root, remote, one) for one in seen if one.run_id not in passed]


async def _renewed(root: Path, remote: Remote, one: Sighting) -> Sighting:
    folder = RunFolder(root, one.run_id)
    note = folder.elsewhere()
    if one.possession is None or (folder.exists and (note is None or note.how == SENDING)):
        return one
    if note is not None and note.commit == one.commit:
        return one
    if note is not None and note.remote not in ("", remote.shown):
        return replace(one, problem=f"the copy here comes from {note.remote}")
    try:
        async with arrived(root, remote, one.run_id, one.commit) as (checkpoint, staged):
            await leave_copy(remote, checkpoint, staged, FETCHED if note is None else note.how)
            return replace(one, problem=renew(root, staged))
    except InterlockError as error:
        return replace(one, problem=error.what)


async def leave_copy(remote: Remote, checkpoint: Checkpoint, staged: RunFolder, how: str = FETCHED) -> None:
    """Note in a folder that arrived that it is a copy, of what, and with which documents.

    Args:
        how: in what way the run went away from here; unset: it was never here.
    """
    who, lines = checkpoint.possession, staged.lines()
    ended = ended_as(lines) is not None
    staged.leave_to(
        Elsewhere(
            f"it has ended, as {who.holder} left it on {remote.shown}" if ended else f"{who} on {remote.shown}",
            who.since,
            how,
            f"To go on with it here: interlock take {staged.run_id}",
            held=who.held and not ended,
            listens=bool(who.orders),
            remote=remote.shown,
            commit=checkpoint.commit,
            documents=await _documents(remote.workspace, checkpoint, staged, lines),
        )
    )


async def _documents(
    workspace: Workspace, checkpoint: Checkpoint, staged: RunFolder, lines: list[Line]
) -> dict[str, str]:
    """The documents that people are shown of a run, with their digests in its tree; the bytes are kept as objects."""
    found: dict[str, str] = {}
    async with reading(workspace.shadow, workspace.trees) as objects:
        for path in sorted(_shown(staged, lines)):
            content = await _file(objects, checkpoint.tree, path)
            found[path] = "" if content is None or len(content) > LIMIT else staged.objects.put(content)
    return found


def _shown(folder: RunFolder, lines: Iterable[Line]) -> set[str]:
    """The paths of what its open gate shows, of what it wrote and of what its agents handed in."""
    lines = list(lines)
    waiting = waiting_gate(lines)
    paths = set(waiting.digests) if waiting is not None else set()
    for line in lines:
        if line.event not in ("write", "dispatch.end"):
            continue
        out = unpack(line.data, folder.objects).get("out")
        if not isinstance(out, Mapping):
            continue
        paths |= {out["path"]} if line.event == "write" and "path" in out else set(out.get("artifacts") or ())
    return {path for path in paths if isinstance(path, str)}


async def _file(objects: GitObjects, tree: str, path: str) -> bytes | None:
    """A file of a tree, through links that stay in it; None where there is none."""
    for _ in range(_LINKS):
        *folders, name = posixpath.normpath(path).split("/")
        entries = await objects.tree(tree)
        for folder in folders:
            if folder not in entries or not entries[folder].is_folder:
                return None
            entries = await objects.tree(entries[folder].name)
        entry = entries.get(name)
        if entry is None or entry.is_folder:
            return None
        content = await objects.blob(entry.name)
        if not entry.is_link:
            return content
        path = posixpath.join(*folders, content.decode("utf-8", "surrogateescape"))
    return None

"""Whether this process was started inside a dispatch, and of which run (CM-37, EN-39).

Inside a confined layer the engine's folder has a file that says so, which nobody in there can change or remove.  In a
mere copy there is no such wall, and the environment has to do.

The environment says so; an agent can change its environment, so what it says is checked against the journal of the
run it names: the token given to the dispatch is bound there to its depth and path.  An agent that drops the
variables is still found by its ancestors: each process keeps the environment it was started with, and what an agent
sends into the background is adopted by the engine's process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from interlock.documents.files import read_plain
from interlock.engine import processes
from interlock.engine.folder import HOME, RunFolder, last_run
from interlock.engine.keys import sha256
from interlock.engine.locks import holders
from interlock.engine.model import Delegation
from interlock.engine.objects import unpack
from interlock.errors import InterlockError, Refused

DEEPEST = 3
MARK = "INTERLOCK_DISPATCH"
OUTER = "parent.json"


@dataclass(frozen=True)
class Parent:
    """The dispatch inside which this process runs."""

    root: Path
    run_id: str
    playbook: str
    run_key: str
    delegation: Delegation
    writes: tuple[str, ...]

    def is_around(self, root: Path) -> bool:
        """Whether this workspace is the one of the outer run, or a copy of it that a dispatch works in."""
        return root == self.root or root.is_relative_to(self.root / HOME)


def is_nested(environ: Mapping[str, str], root: Path) -> bool:
    """Whether anything says that an agent started us; enough to refuse what only a person may do."""
    named = MARK in environ or any(MARK in other for other in ancestors())
    return told(root) is not None or named or bool(engines_above(root))


def only_people(environ: Mapping[str, str], root: Path, what: str) -> None:
    """`Refused` when an agent started us."""
    if is_nested(environ, root):
        raise Refused(f"only a person may {what}: this program was started inside a dispatch")


def starting_parent(environ: Mapping[str, str], root: Path, playbook: str, key: str) -> Parent | None:
    """The dispatch that starts a run of this playbook and key; None for a person.

    `Refused` where the delegation would come back to a run that it began with, or go too deep.
    """
    parent = find_parent(environ, root)
    if parent is None:
        return None
    same = parent.is_around(root) and (parent.playbook, parent.run_key) == (playbook, key)
    last = last_run(root, playbook, key)
    if same or (last is not None and last.identity.run_id in engines_above(root)):
        trail = " -> ".join((*parent.delegation.path, f"{playbook} {key}"))
        raise Refused(f"delegation cycle: {trail}; an agent of run {parent.run_id} may not start a run of the same key")
    depth = parent.delegation.depth + 1
    if depth > DEEPEST:
        path = " -> ".join(parent.delegation.path)
        raise Refused(f"delegation depth {depth} exceeds the maximum of {DEEPEST} (path: {path})")
    return parent


def find_parent(environ: Mapping[str, str], root: Path) -> Parent | None:
    """The dispatch we are inside of, proven by its layer or its journal; None for a person's call."""
    if (parent := told(root)) is not None:
        return parent
    claimed = environ if MARK in environ else next((other for other in ancestors() if MARK in other), None)
    if claimed is not None:
        return proven(claimed)
    if engines := engines_above(root):
        raise Refused(
            f"this process was started inside run {engines[0]}, but its environment does not say in which dispatch",
            remedy="Let the agent keep the INTERLOCK_* variables that it was started with.",
        )
    return None


def told(root: Path) -> Parent | None:
    """What the layer that we are in says of its dispatch; None outside of one."""
    try:
        facts = json.loads(read_plain(root / HOME / OUTER))
        return Parent(
            root=root,
            run_id=facts["run"],
            playbook=facts["playbook"],
            run_key=facts["key"],
            delegation=Delegation(facts["depth"], tuple(facts["path"])),
            writes=tuple(facts["writes"]),
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        what = f"what the layer says of its dispatch cannot be read: {error}"
        raise Refused(what, where=f"{HOME}/{OUTER}") from error


def proven(environ: Mapping[str, str]) -> Parent:
    folder = run_folder(environ)
    key = environ[MARK]
    token = sha256(environ.get("INTERLOCK_TOKEN", "").encode())
    start = next((facts for facts in starts(folder, key) if facts["token"] == token), None)
    if start is None:
        raise Refused(f"no dispatch {key} of run {folder.run_id} has this INTERLOCK_TOKEN", where=key)
    said = environ.get("INTERLOCK_DEPTH"), environ.get("INTERLOCK_PATH")
    known = str(start["depth"]), "/".join(start["path"])
    if said != known:
        raise Refused(
            "INTERLOCK_DEPTH and INTERLOCK_PATH are not those that the dispatch was given",
            where=key,
            expected=" ".join(known),
            found=" ".join(str(part) for part in said),
        )
    identity = folder.identity()
    return Parent(
        root=folder.root,
        run_id=folder.run_id,
        playbook=identity.playbook,
        run_key=identity.key,
        delegation=Delegation(start["depth"], tuple(start["path"])),
        writes=tuple(start["writes"]),
    )


def run_folder(environ: Mapping[str, str]) -> RunFolder:
    """The run folder, found by the path of the brief, which lies in the engine's folder: the workspace is a copy."""
    place, run_id = Path(environ.get("INTERLOCK_BRIEF", "")), environ.get("INTERLOCK_RUN_ID", "")
    for folder in place.parents:
        if folder.name == HOME and (found := RunFolder(folder.parent, run_id)).exists:
            return found
    raise Refused("INTERLOCK_BRIEF does not lie in the workspace of the run INTERLOCK_RUN_ID", found=str(place))


def starts(folder: RunFolder, key: str) -> Iterator[Mapping[str, Any]]:
    """What the journal says of the starts of a dispatch, the last first."""
    try:
        lines = folder.lines()
    except (InterlockError, OSError) as error:
        raise Refused(f"the journal of the outer run {folder.run_id} cannot be read: {error}") from error
    found = (line for line in reversed(lines) if line.event == "dispatch.start" and line.key == key)
    return (unpack(line.data, folder.objects) for line in found)


def ancestors() -> Iterator[dict[str, str]]:
    """The environments of the processes above us, nearest first, as far as we may see them."""
    for process in psutil.Process().parents():
        try:
            yield process.environ()
        except (psutil.Error, OSError):
            continue


def engines_above(root: Path) -> list[str]:
    """Runs of this workspace whose engine is an ancestor of ours; the number of a process alone proves nothing."""
    found = [holder for _, holder in holders(root / HOME).values()]
    above = set(processes.ancestors()) if found else set()
    return [holder.run for holder in found if holder.process in above]

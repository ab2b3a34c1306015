"""A run that arrives: unpacked beside the runs, found to be whole, and moved into place with one rename.

Somebody may look at what is here all the time, and another process may be placing the same run: who places holds a lock
for that moment, and what stood there is exchanged with what came, so that there is never nothing.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from interlock.documents.files import read_plain, sync_folder
from interlock.engine import journal_file
from interlock.engine.folder import HOME, RunFolder, failing, prepare_home
from interlock.errors import WorkspaceFailed
from interlock.fleet.carried import SENDING
from interlock.fleet.freight import Checkpoint, Freight
from interlock.fleet.remote import Remote, state_ref
from interlock.workspace.attic import Attic
from interlock.workspace.clone import remove_folder

_HERE, _EXCHANGE = -100, 2
"""Of renameat2: paths as they are, and both names at once."""


@asynccontextmanager
async def arrived(root: Path, remote: Remote, run_id: str, tip: str) -> AsyncIterator[tuple[Checkpoint, RunFolder]]:
    """What the remote has of a run, unpacked beside the runs and found to be whole; gone again afterwards."""
    ref = state_ref(run_id)
    try:
        if (await remote.obtain({ref: tip})).get(tip) != "commit":
            raise WorkspaceFailed(f"{ref} leads to something that is no commit")
        await remote.bring(tip)
    except WorkspaceFailed:  # gone again in part: whoever asks for it by name gets all of it, or is told why not
        await remote.fetch(ref, tip)
    freight = Freight(remote.workspace)
    checkpoint = await freight.read(tip, run_id)
    with _stage(root) as stage:
        await freight.unpack(checkpoint, RunFolder(stage, run_id))
        yield checkpoint, RunFolder(stage, run_id)


@contextmanager
def _stage(root: Path) -> Iterator[Path]:
    """A folder beside the runs, gone afterwards; those that killed processes left go now."""
    place = prepare_home(root) / "arriving"
    for left in place.glob("*"):
        with suppress(OSError):
            held = _locked(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                remove_folder(left)
            finally:
                os.close(held)
    with failing("there is no place for what arrives", place):
        stage = place / secrets.token_hex(8)
        while True:
            stage.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                held = _locked(stage, fcntl.LOCK_EX)
                if os.fstat(held).st_nlink:
                    break
                os.close(held)  # somebody took it for one that was left
    try:
        yield stage
    finally:
        remove_folder(stage)
        os.close(held)
        with suppress(OSError):
            place.rmdir()


def _locked(folder: Path, how: int) -> int:
    """A descriptor that holds the lock of a folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, how)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def goes_on_from(staged: RunFolder, here: RunFolder) -> bool:
    """Whether all that is recorded here of a run is in what came."""
    try:
        own = read_plain(here.path / journal_file.NAME)
    except FileNotFoundError:
        return True
    return read_plain(staged.path / journal_file.NAME).startswith(own.rpartition(b"\n")[0])


def place(root: Path, staged: RunFolder) -> None:
    """Move a run that arrived to its place; what stood there goes to the attic, but for a copy that it goes on from."""
    with _placing(root):
        _exchange(root, staged)


def renew(root: Path, staged: RunFolder) -> str:
    """Put a copy that arrived in the place of what is here; why not, if so. A run that is here stays as it is."""
    with _placing(root):
        here = RunFolder(root, staged.run_id)
        if os.path.lexists(here.path):
            note = here.elsewhere()
            if note is None or note.how == SENDING:
                return f"run {staged.run_id} is here"
            if not goes_on_from(staged, here):
                return (
                    f"what is here of run {staged.run_id} has lines that the remote has not; "
                    f"interlock fetch {staged.run_id} puts it into the attic"
                )
        _exchange(root, staged)
        return ""


def _exchange(root: Path, staged: RunFolder) -> None:
    here = RunFolder(root, staged.run_id)
    with failing("a run that arrived cannot be put into its place", here.path):
        here.path.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(here.path):
            staged.path.rename(here.path)
        else:
            note = here.elsewhere()
            is_older_copy = note is not None and bool(note.commit) and goes_on_from(staged, here)
            exchange(here.path, staged.path)
            if not is_older_copy:
                Attic(root / HOME).take(staged.path.parents[1], f"runs/{staged.run_id}", "runs-before")
        sync_folder(here.path.parent)


def exchange(one: Path, other: Path) -> None:
    """Each of two folders has the other's name; at once, where the system can do that."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is not None and call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return
    aside = other.with_name(f".{secrets.token_hex(8)}")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


@contextmanager
def _placing(root: Path) -> Iterator[None]:
    """No other process places a run in this workspace meanwhile."""
    place = prepare_home(root) / "carried"
    place.mkdir(exist_ok=True)
    held = _locked(place, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(held)

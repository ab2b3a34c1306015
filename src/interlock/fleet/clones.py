"""The repositories that a worker serves: one clone of each is kept, and beside it a workspace is made for each run.

A workspace knows the branches of the remote as any clone does, and has none of its own and nothing checked out: what is
to be in it comes with the run.  It goes away with the run, so that nothing that one run left is there for another, not
even an ignored file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from interlock.engine.keys import sha256
from interlock.errors import WorkspaceFailed
from interlock.fleet.remote import RemoteAway
from interlock.workspace.clone import remove_folder
from interlock.workspace.git import UsersGit

REMOTE = "origin"
_SHOWN = 600


@dataclass(frozen=True)
class Clones:
    """Clones, and workspaces beside them."""

    folder: Path
    """Of one worker; the clones lie beside it, for all of a machine."""
    environ: Mapping[str, str]

    async def workspace(self, address: str, run_id: str) -> Path:
        """A new workspace for a run of this repository; what an earlier process left at its place is gone.

        `RemoteAway` when the repository does not answer. Where it does, and the clone here is of no use, there is a
        new one.
        """
        try:
            return await self._beside(await self._clone(address), address, run_id)
        except RemoteAway:
            if not await self.answer(address):
                raise
        except WorkspaceFailed:
            pass
        self.forget(address)
        return await self._beside(await self._clone(address), address, run_id)

    async def answer(self, address: str) -> bool:
        """Whether a repository can be reached."""
        with suppress(WorkspaceFailed):
            asked = ("ls-remote", "--heads", "--", address)
            return (await UsersGit(self.folder, self.environ).run(*asked, reads=True, network=True)).code == 0
        return False

    def forget(self, address: str) -> None:
        """Remove the clone of a repository; the next workspace needs a new one."""
        clone = self._place(address)
        aside = clone.with_suffix(f".{os.getpid()}")
        with suppress(OSError):  # another worker of this machine was quicker
            clone.rename(aside)
        self.clear(aside)

    async def _beside(self, clone: Path, address: str, run_id: str) -> Path:
        root = self.folder / "runs" / run_id
        self.clear(root)
        root.parent.mkdir(parents=True, exist_ok=True)
        # Objects are linked, not borrowed: a program in a layer may not see the clone.
        linked = ("clone", "--quiet", "--local", "--no-checkout", "--", str(clone), str(root))
        await self._git(self.folder, *linked, network=True)
        await self._git(root, "remote", "set-url", REMOTE, address)
        if there := await self._git(root, "for-each-ref", "--format=delete %(refname)", "refs/heads/"):
            await self._git(root, "update-ref", "--stdin", stdin=f"{there}\n")
        return root

    def clear(self, root: Path) -> None:
        """Remove a workspace: its run is on its ref."""
        if root.exists():
            remove_folder(root)

    def clear_all(self) -> None:
        """Remove the workspaces that a process left here that ended before it could."""
        for left in (self.folder / "runs").glob("*"):
            self.clear(left)

    def _place(self, address: str) -> Path:
        return self.folder.parent / "clones" / f"{sha256(address.encode())[:16]}.git"

    async def _clone(self, address: str) -> Path:
        """The clone of a repository, as the remote is now."""
        clone = self._place(address)
        if not (clone / "HEAD").exists():
            fresh = clone.with_suffix(f".{os.getpid()}")
            self.clear(fresh)
            fresh.parent.mkdir(parents=True, exist_ok=True)
            await self._git(
                fresh.parent, "clone", "--quiet", "--bare", "--", address, str(fresh), network=True, of=address
            )
            try:
                fresh.rename(clone)
            except OSError:  # another worker of this machine was quicker
                self.clear(fresh)
        heads = "+refs/heads/*:refs/heads/*"
        await self._git(clone, "fetch", "--quiet", "--prune", "--no-tags", address, heads, network=True, of=address)
        return clone

    async def _git(self, folder: Path, *args: str, stdin: str = "", network: bool = False, of: str = "") -> str:
        reply = await UsersGit(folder, self.environ).run(*args, stdin=stdin.encode(), network=network)
        if reply.code != 0:
            raise (RemoteAway if of else WorkspaceFailed)(
                f"git {args[0]} failed" + (f" for {of}" if of else ""),
                where=str(folder),
                found=reply.error.strip()[-_SHOWN:],
                remedy="See whether this machine may read that repository: git ls-remote ADDRESS" if of else None,
            )
        return reply.text.strip()

"""The repositories that a worker serves: one clone of each is kept, and beside it a workspace is made for each run.

A workspace has the objects of the clone, a remote, and nothing checked out: what is to be in it comes with the run.  It
goes away with the run, so that nothing that one run left, ignored files included, is there for another.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from interlock.engine.keys import sha256
from interlock.errors import WorkspaceFailed
from interlock.workspace.clone import remove_folder
from interlock.workspace.git import UsersGit

REMOTE = "origin"
_SHOWN = 600


@dataclass(frozen=True)
class Clones:
    """Clones and workspaces in a folder of the worker's own."""

    folder: Path
    environ: Mapping[str, str]

    async def workspace(self, address: str, run_id: str) -> Path:
        """A new workspace for a run of this repository; what an earlier process left at its place is gone."""
        clone = await self._clone(address)
        root = self.folder / "runs" / run_id
        self.clear(root)
        root.mkdir(parents=True)
        await self._git(root, "init", "--quiet")
        objects = clone / "objects"
        (root / ".git" / "objects" / "info" / "alternates").write_bytes(os.fsencode(objects) + b"\n")
        await self._git(root, "remote", "add", REMOTE, address)
        # The branches of the remote are known here as in any clone: playbooks ask for them.
        known = (await self._git(clone, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/")).split("\n")
        words = [line.partition(" ") for line in known if line]
        there = [f"create refs/remotes/{REMOTE}/{ref.removeprefix('refs/heads/')} {name}" for name, _, ref in words]
        await self._git(root, "update-ref", "--stdin", stdin="\n".join([*there, ""]))
        head = (await self._git(clone, "symbolic-ref", "--quiet", "HEAD")).removeprefix("refs/heads/")
        if any(ref == f"refs/heads/{head}" for _, _, ref in words):
            await self._git(root, "symbolic-ref", f"refs/remotes/{REMOTE}/HEAD", f"refs/remotes/{REMOTE}/{head}")
        return root

    def clear(self, root: Path) -> None:
        """Remove a workspace: its run is on its ref."""
        if root.exists():
            remove_folder(root)

    def clear_all(self) -> None:
        """Remove the workspaces that a process left here that ended before it could."""
        for left in (self.folder / "runs").glob("*"):
            self.clear(left)

    async def _clone(self, address: str) -> Path:
        """The clone of a repository, as the remote is now."""
        clone = self.folder / "clones" / f"{sha256(address.encode())[:16]}.git"
        if not (clone / "HEAD").exists():
            fresh = clone.with_suffix(f".{os.getpid()}")
            self.clear(fresh)
            fresh.parent.mkdir(parents=True, exist_ok=True)
            await self._git(
                self.folder, "clone", "--quiet", "--bare", "--", address, str(fresh), network=True, of=address
            )
            fresh.rename(clone)
        heads = "+refs/heads/*:refs/heads/*"
        await self._git(clone, "fetch", "--quiet", "--prune", "--no-tags", address, heads, network=True, of=address)
        return clone

    async def _git(self, folder: Path, *args: str, stdin: str = "", network: bool = False, of: str = "") -> str:
        reply = await UsersGit(folder, self.environ).run(*args, stdin=stdin.encode(), network=network)
        if reply.code != 0:
            raise WorkspaceFailed(
                f"git {args[0]} failed" + (f" for {of}" if of else ""),
                where=str(folder),
                found=reply.error.strip()[-_SHOWN:],
                remedy="See whether this machine may read that repository: git ls-remote ADDRESS" if network else None,
            )
        return reply.text.strip()

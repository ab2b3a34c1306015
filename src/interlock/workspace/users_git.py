"""The user's repository by the user's own git: their settings and ignore rules, their hooks for their commit only."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from interlock.errors import WorkspaceFailed
from interlock.workspace.git import GitReply, UsersGit
from interlock.workspace.repository import UserRepository, repository_around
from interlock.workspace.users_repository import (
    Checkout,
    Commit,
    Done,
    Effect,
    Repository,
    Stash,
    Unstash,
    Where,
    commit_message,
    stash_message,
)

T = TypeVar("T")
_UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG")
_SHOWN = 400


class UsersRepository(Repository):
    """The repository around a folder."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._git = UsersGit(folder, environ)

    @property
    def _place(self) -> UserRepository:
        found = repository_around(self._folder)
        if found is None:
            raise WorkspaceFailed("this is not a git repository any more", where=str(self._folder))
        return found

    async def aside(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)

    async def _ask(self, *args: str, ok: Sequence[int] = (0,)) -> GitReply:
        said = await self._git.run(*args, reads=True)
        if said.code not in ok:
            raise WorkspaceFailed(f"git {' '.join(args[:2])} failed", where=str(self._folder), found=shown(said))
        return said

    async def _text(self, *args: str, ok: Sequence[int] = (0,)) -> str:
        said = await self._ask(*args, ok=ok)
        return said.text.strip() if said.code == 0 else ""

    async def where(self) -> Where:
        if repository_around(self._folder) is None:
            return Where(str(self._folder), there=False)
        branch = await self._text("symbolic-ref", "-q", "--short", "HEAD", ok=(0, 1))
        return Where(str(self._folder), branch=branch, head=await self._verified("HEAD"))

    async def _verified(self, name: str) -> str:
        # 128: a name that no object can have, or an object that is not there.
        return await self._text("rev-parse", "-q", "--verify", name, ok=(0, 1, 128))

    async def status(self) -> list[tuple[str, str]]:
        said = await self._ask("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames")
        prefix = self._prefix()
        return [(entry[:2], inside(entry[3:], prefix)) for entry in said.parts]

    def _prefix(self) -> str:
        """Where the workspace lies below the repository's top; empty at the top itself."""
        below = self._folder.relative_to(self._place.top).as_posix()
        return "" if below == "." else f"{below}/"

    async def unfinished(self) -> list[str]:
        here = {path.name for path in self._place.git_dir.iterdir()}
        return [name for name in _UNFINISHED if name in here]

    async def index(self) -> list[tuple[str, str]]:
        entries = (entry.partition("\t") for entry in (await self._ask("ls-files", "-s", "-z")).parts)
        return [(facts[:6], path) for facts, _, path in entries]

    async def commit_of(self, name: str) -> str:
        return await self._verified(f"{name}^{{commit}}")

    async def remotes(self) -> tuple[list[str], str]:
        said = await self._text("for-each-ref", "--format=%(refname:lstrip=2) %(symref:lstrip=2)", "refs/remotes")
        pairs = [line.partition(" ") for line in said.splitlines()]
        heads = [target for name, _, target in pairs if name.endswith("/HEAD") and target]
        return [name for name, _, target in pairs if not target.strip()], next(iter(heads), "")

    async def contains(self, branch: str, commit: str) -> bool:
        if not await self.commit_of(commit):
            return False
        said = await self._ask("merge-base", "--is-ancestor", commit, f"refs/heads/{branch}", ok=(0, 1))
        return said.code == 0

    async def is_a_name(self, branch: str) -> bool:
        return (await self._git.run("check-ref-format", "--branch", branch, reads=True)).code == 0

    async def committed(self, path: str) -> str:
        return (await self._ask("show", f"HEAD:./{path}", ok=(0, 128))).text

    async def changes_since(self, commit: str) -> list[tuple[str, str]]:
        if not await self.commit_of(commit):
            return []
        options = ("--no-ext-diff", "--name-status", "-z", "--no-renames", "--relative")
        said = iter((await self._ask("diff", *options, f"{commit}..HEAD")).parts)
        return list(zip(said, said, strict=True))

    async def hooks(self) -> str:
        said = await self._git.run("rev-parse", "--git-path", "hooks", hooks=True, reads=True)
        return await self.aside(partial(self._hooks_in, self._folder / said.text.strip()))

    def _hooks_in(self, folder: Path) -> str:
        found = [os.path.relpath(folder, self._folder)]  # a run may go on in another place
        for hook in sorted(folder.glob("*")) if folder.is_dir() else ():
            if hook.suffix != ".sample" and hook.is_file():
                found.append(f"{hook.name} {hashlib.sha256(hook.read_bytes()).hexdigest()}")
        return "\n".join(found)

    async def stash_list(self) -> list[str]:
        return (await self._ask("stash", "list", "--format=%gs")).text.splitlines()

    def content(self, path: str, most: int | None = None) -> bytes | None:
        place = self._folder / path
        try:
            if place.is_symlink() or not place.is_file() or (most is not None and place.stat().st_size > most):
                return None
            return place.read_bytes()
        except OSError:
            return None

    async def commit_with(self, text: str) -> str:
        if not await self._verified("HEAD"):
            return ""
        return await self._text("log", "-1", "--format=%H", "-F", f"--grep={text}")

    async def unstage(self, paths: Sequence[str]) -> str:
        return shown(await self._over(paths, "reset", "-q"), fine="")

    # -- effects

    async def _over(
        self, paths: Sequence[str], *args: str, folder: Path | None = None, index: Path | None = None
    ) -> GitReply:
        """A command on these paths, however many."""
        listed = "".join(f"{path}\0" for path in paths)
        options = ("--pathspec-from-file=-", "--pathspec-file-nul")
        return await self._git.run(*args, *options, stdin=os.fsencode(listed), folder=folder, index=index)

    async def carry_out(self, effect: Effect, mark: str) -> Done:
        match effect:
            case Checkout(branch, create):
                words = ("-b", branch) if create else (branch, "--")
                return Done(shown(await self._git.run("checkout", "-q", *words), fine=""))
            case Stash(paths, note):
                return await self._stash(paths, stash_message(note, mark))
            case Unstash(note):
                return await self._unstash(note)
            case Commit():
                return await self._commit(effect, mark)

    async def _stash(self, paths: Sequence[str], message: str) -> Done:
        """A push that fails leaves the index as it was, and no stash if all of its files are still in the tree."""
        # From a folder below the top, git stash takes paths for something else than they are.
        prefix, top, index = self._prefix(), self._place.top, self._place.git_dir / "index"
        before = await self.status()
        kept = index.with_name("index.interlock")
        shutil.copyfile(index, kept)
        try:
            # git stash does not find what is deleted in the index; a deletion in the work tree it does.
            deleted = [path for letters, path in before if letters[0] == "D" and path in set(paths)]
            if deleted and (why := await self.unstage(deleted)):
                return Done(why)
            changed = set(await self.changed())
            there = [path for path in paths if path in changed or self._is_there(path)]
            if not there:
                return Done()
            places = [from_top(path, prefix) for path in there]
            pushed = await self._over(places, "stash", "push", "-q", "-u", "-m", message, folder=top)
            if pushed.code == 0:
                return Done()
            kept.replace(index)
            left = await self.stashes(message)
            if left and await self.status() == before:
                await self._git.run("stash", "drop", "-q", left[0])
            return Done(self._with_lock(shown(pushed)))
        finally:
            kept.unlink(missing_ok=True)

    def _is_there(self, path: str) -> bool:
        return os.path.lexists(self._folder / path)

    async def _unstash(self, note: str) -> Done:
        """The user may make and drop stashes at any time: a place in their list is good for the moment only. What was
        staged is staged again, unless the branch leaves no room for that."""
        places = await self.stashes(note)
        if not places:
            return Done()
        popped = await self._git.run("stash", "pop", "-q", "--index", places[0])
        if popped.code and "unmerged-files" not in await self.busy():
            popped = await self._git.run("stash", "pop", "-q", places[0])
        return Done(self._with_lock(shown(popped)) if popped.code else "")

    def _with_lock(self, words: str) -> str:
        """git stash says nothing of a lock that is in its way."""
        lock = self._place.git_dir / "index.lock"
        return f"{words}; the index is locked by {lock}" if os.path.lexists(lock) else words

    async def _commit(self, effect: Commit, mark: str) -> Done:
        """From an index of its own. Nobody else uses that, so that a lock on it is a leftover."""
        index = self._place.git_dir / "interlock-index"
        leftovers = (index, index.with_name(f"{index.name}.lock"))

        def forget() -> None:
            for path in leftovers:
                path.unlink(missing_ok=True)

        forget()
        try:
            if (await self.where()).head and (said := await self._git.run("read-tree", "HEAD", index=index)).code:
                return Done(shown(said))
            if effect.paths and (said := await self._over(effect.paths, "add", "-A", index=index)).code:
                return Done(shown(said))
            for path, text in effect.texts.items():
                blob = await self._git.run("hash-object", "-w", "--stdin", stdin=text.encode())
                entry = f"100644,{blob.text.strip()},{self._prefix()}{path}"
                said = (
                    blob
                    if blob.code
                    else await self._git.run("update-index", "--add", "--cacheinfo", entry, index=index)
                )
                if said.code:
                    return Done(shown(said))
            message = commit_message(effect.message, mark)
            said = await self._git.run("commit", "-q", "-m", message, index=index, hooks=True, marker=mark)
            return Done(shown(said)) if said.code else Done(commit=await self._verified("HEAD"))
        finally:
            forget()


def inside(path: str, prefix: str) -> str:
    """A path of the repository as seen from the workspace, which may lie below the repository's top."""
    return path[len(prefix) :] if path.startswith(prefix) else "../" * prefix.count("/") + path


def from_top(path: str, prefix: str) -> str:
    """A path of the workspace as seen from the repository's top; the inverse of `inside`."""
    up = "../" * prefix.count("/")
    return path[len(up) :] if up and path.startswith(up) else prefix + path


def shown(said: GitReply, *, fine: str | None = None) -> str:
    """What git said when it failed, in a line."""
    if fine is not None and said.code == 0:
        return fine
    words = " ".join((said.error.strip() or said.text.strip()).split())
    return words[:_SHOWN] or f"exit status {said.code}"

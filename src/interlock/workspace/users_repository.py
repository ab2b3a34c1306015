"""The user's own repository: what can be asked of it, and the four things that may be done to it.

Theory of operation.  Questions change nothing and take no lock; what git cannot tell is an error, never "clean" or
"none".  An `Effect` says what is to be done, as data; git's refusal of it is a value.  Each effect leaves a mark, or a
state, by which `done` finds it again after a crash, so that none happens twice.  Nothing is done while somebody is in
the middle of a merge or the like: git would end that for them.

What follows from other answers is worked out here, once, for both kinds of repository: the user's (`users_git`), and
the one in memory that a rehearsal has (`interlock.engine.simulated_repository`).  One suite holds both to it.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

T = TypeVar("T")
KEY = "Interlock-Key: "
"""What stands before the mark of a run's effect, in the message of a commit or stash."""


# -- values


@dataclass(frozen=True)
class Where:
    """Where the repository is, and what is checked out."""

    folder: str
    """The workspace, as a person would name it."""
    there: bool = True
    """Whether it is in a repository at all."""
    branch: str = ""
    """Empty when HEAD is detached."""
    head: str = ""
    """Empty when there is no commit yet."""


@dataclass(frozen=True)
class RepositoryStanding:
    """Where the repository stands, and what is not committed in it."""

    branch: str
    head: str
    busy: tuple[str, ...] = ()
    """A merge, rebase or the like that is not finished."""
    changed: tuple[str, ...] = ()
    """Changed and new files."""
    contents: str = ""
    """A digest of them, by which a later look tells whether somebody went on working."""


@dataclass(frozen=True)
class Checkout:
    branch: str
    create: bool = False


@dataclass(frozen=True)
class Stash:
    """Put these files away, under a note."""

    paths: tuple[str, ...]
    note: str


@dataclass(frozen=True)
class Unstash:
    """Take out what was stashed last under this note; nothing happens if it is not there any more."""

    note: str


@dataclass(frozen=True)
class Commit:
    """One commit of these files as they are; the user's hooks run. What the user has staged stays staged, and out of
    it."""

    paths: tuple[str, ...]
    message: str
    texts: Mapping[str, str] = field(default_factory=dict)
    """Files that are committed with this text, whatever the work tree has."""


Effect = Checkout | Stash | Unstash | Commit


@dataclass(frozen=True)
class Done:
    """What came of an effect."""

    problem: str = ""
    """Why it did not happen, in git's words."""
    commit: str = ""
    """The commit that was made."""
    warning: str = ""
    """What did not come off beside it."""
    probed: bool = False
    """It was found done after a crash."""

    @property
    def ok(self) -> bool:
        return not self.problem


# -- what both kinds know


class Repository(ABC):
    """A repository of the user. Paths are seen from the workspace, which may lie below the repository's top."""

    @abstractmethod
    async def where(self) -> Where: ...

    @abstractmethod
    async def status(self) -> list[tuple[str, str]]:
        """State letters and path of every changed and new file; a rename is a deletion and an addition."""

    @abstractmethod
    async def unfinished(self) -> list[str]:
        """The marks of a merge, rebase or the like."""

    @abstractmethod
    async def index(self) -> list[tuple[str, str]]:
        """Mode and path of every tracked file, in order."""

    @abstractmethod
    async def commit_of(self, name: str) -> str:
        """The commit of a branch, tag or anything else that git knows by this name; empty when there is none."""

    @abstractmethod
    async def remotes(self) -> tuple[list[str], str]:
        """The branches of all remotes (`origin/main`), and the one that a remote's HEAD points to."""

    @abstractmethod
    async def contains(self, branch: str, commit: str) -> bool: ...

    @abstractmethod
    async def is_a_name(self, branch: str) -> bool:
        """Whether a branch can be called so."""

    @abstractmethod
    async def committed(self, path: str) -> str:
        """A file as the last commit has it; empty when it does not."""

    @abstractmethod
    async def changes_since(self, commit: str) -> list[tuple[str, str]]:
        """Status letter and path of what was committed since; nothing where the commit is not known here."""

    @abstractmethod
    async def hooks(self) -> str:
        """The hooks that a commit would run, by name and content."""

    @abstractmethod
    async def stash_list(self) -> list[str]:
        """The messages of the stashes, the newest first."""

    @abstractmethod
    def content(self, path: str, most: int | None = None) -> bytes | None:
        """A plain file of the work tree; None when it is none, or larger than that."""

    @abstractmethod
    async def carry_out(self, effect: Effect, mark: str) -> Done: ...

    @abstractmethod
    async def unstage(self, paths: Sequence[str]) -> str:
        """Let the user's index have these files as the last commit has them; why that did not come off, or nothing."""

    @abstractmethod
    async def commit_with(self, text: str) -> str:
        """The newest commit of the checked-out history whose message has this; empty when there is none."""

    async def aside(self, work: Callable[[], T]) -> T:
        """What this comes to, which may take a while."""
        return work()

    # -- what follows

    async def changed(self) -> list[str]:
        """Every changed and new file."""
        return list(dict.fromkeys(path for _, path in await self.status()))

    async def busy(self) -> list[str]:
        """What somebody is in the middle of."""
        unmerged = any("U" in letters or letters in ("AA", "DD") for letters, _ in await self.status())
        return [*await self.unfinished(), *(["unmerged-files"] if unmerged else [])]

    async def standing(self, besides: Sequence[str] = ()) -> RepositoryStanding:
        """Where it stands; files below these prefixes are not counted as changed."""
        where = await self.where()
        changed = [path for path in await self.changed() if not path.startswith(tuple(besides))]
        contents = await self.aside(partial(self._digest, changed)) if changed else ""
        return RepositoryStanding(where.branch, where.head, tuple(await self.busy()), tuple(changed), contents)

    def _digest(self, paths: Sequence[str]) -> str:
        whole = hashlib.sha256()
        for path in paths:
            content = self.content(path)
            found = "" if content is None else hashlib.sha256(content).hexdigest()
            whole.update(os.fsencode(f"{path}\0{found}\0"))
        return whole.hexdigest()

    async def default_branch(self) -> str:
        """The branch from which work begins: the remote's, if possible the local one, else the main one; or none."""
        _, remote = await self.remotes()
        if remote:
            local = remote.partition("/")[2]
            return local if await self.commit_of(f"refs/heads/{local}") else remote
        for name in ("main", "master"):
            if await self.commit_of(f"refs/heads/{name}"):
                return name
        return ""

    async def is_on_a_remote(self, branch: str) -> bool:
        """Whether exactly one remote has it, so that a checkout makes the local one."""
        known, _ = await self.remotes()
        return sum(name.partition("/")[2] == branch for name in known) == 1

    async def submodules(self) -> list[str]:
        """Folders whose files belong to another repository."""
        return [path for mode, path in await self.index() if mode == "160000"]

    async def tracked(self, paths: Sequence[str]) -> list[str]:
        """Those of the paths that are tracked."""
        return [path for _, path in await self.index() if path in paths]

    async def listing(self, without: Sequence[str]) -> str:
        """The SHA-256 of the names of all tracked files but these, in order, each ended by a NUL."""
        return listing_digest(path for _, path in await self.index() if path not in without)

    async def search(self, terms: Sequence[str], files: int, largest: int, most: int) -> list[str]:
        """The tracked files in which these terms (in lower case) stand most often, best first, ties by path.

        Args:
            files: so many of them are read, the first ones.
            largest: bytes over which a file is not read.
        """
        plain = [path for mode, path in await self.index() if mode.startswith("100")]
        return await self.aside(partial(self._search, plain, terms, files, largest, most))

    def _search(self, paths: Sequence[str], terms: Sequence[str], files: int, largest: int, most: int) -> list[str]:
        wanted = [os.fsencode(term) for term in terms]
        score: dict[str, int] = {}
        for path in paths:
            found = sum(term in path.lower() for term in terms)
            if files and (text := self.content(path, largest)) is not None:
                files -= 1
                if b"\0" not in text[:8000]:
                    found += sum(any(term in line for term in wanted) for line in text.lower().splitlines())
            if found:
                score[path] = found
        return sorted(score, key=lambda path: (-score[path], path))[:most]

    async def stashes(self, note: str) -> list[str]:
        """The names under which the stashes with this note can be had now, the newest first."""
        return [f"stash@{{{place}}}" for place, said in enumerate(await self.stash_list()) if note in said]

    # -- effects

    async def do(self, effect: Effect, mark: str) -> Done:
        """Carry it out, if nobody is in the middle of something."""
        if busy := await self.busy():
            return Done(f"the repository is in the middle of something ({', '.join(busy)}); finish or abort it")
        done = await self.carry_out(effect, mark)
        return await self._tidy(effect, done) if done.commit else done

    async def done(self, effect: Effect, mark: str) -> Done | None:
        """What came of an effect that a process began which is gone; None when it did not happen."""
        match effect:
            case Checkout(branch):
                happened = (await self.where()).branch == branch
            case Stash():
                happened = bool(await self.stashes(f"{KEY}{mark}"))
            case Unstash(note):
                happened = not await self.stashes(note)
            case Commit():
                if commit := await self.commit_with(f"{KEY}{mark}"):
                    return await self._tidy(effect, Done(commit=commit, probed=True))
                return None
        return Done(probed=True) if happened else None

    async def _tidy(self, effect: Effect, done: Done) -> Done:
        assert isinstance(effect, Commit)
        why = await self.unstage([*effect.paths, *effect.texts])
        warning = f"what was committed still shows as staged ({why}); mend it with: git reset" if why else ""
        return Done(commit=done.commit, warning=warning, probed=done.probed)


def listing_digest(paths: Iterable[str]) -> str:
    """One SHA-256 for the names of files, in order."""
    names = sorted(map(os.fsencode, paths))
    return hashlib.sha256(b"".join(name + b"\0" for name in names)).hexdigest()


def commit_message(message: str, mark: str) -> str:
    return f"{message.strip()}\n\n{KEY}{mark}\n"


def stash_message(note: str, mark: str) -> str:
    return f"{note} {KEY}{mark}"

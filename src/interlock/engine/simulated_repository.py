"""The user's repository in the simulated world: dictionaries over its tree, and what can befall a repository."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from interlock.workspace import (
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

if TYPE_CHECKING:
    from interlock.engine.simulated_disk import MemoryTree

_Files = dict[str, bytes]


class Trouble(StrEnum):
    """What befalls a repository while a run is at work."""

    HOOK = "a hook refuses the commit"
    LOCKED = "the index is locked"
    FULL = "the disk is full"
    MERGING = "a merge is begun"
    DETACHED = "HEAD is detached"
    ELSEWHERE = "another branch is checked out"


SAID = {
    Trouble.HOOK: "hook: a blank at the end",
    Trouble.LOCKED: "Unable to create 'index.lock': File exists.",
    Trouble.FULL: "unable to write: No space left on device",
}


@dataclass(frozen=True)
class Committed:
    files: _Files
    message: str
    parents: tuple[str, ...] = ()


@dataclass
class Stashed:
    message: str
    files: dict[str, bytes | None]


@dataclass
class SimulatedRepository(Repository):
    """A repository whose work tree is the simulated world's; a world that gets it begins with its files committed."""

    branch: str = "main"
    commits: dict[str, Committed] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    remote: dict[str, str] = field(default_factory=dict)
    """Branches of remotes: `origin/main` to its commit."""
    stashed: list[Stashed] = field(default_factory=list)
    modules: tuple[str, ...] = ()
    """Folders that are submodules."""
    present: bool = True
    begun: bool = True
    """Whether there is a first commit, of all files that are not ignored."""
    hooked: str = ""
    troubles: set[Trouble] = field(default_factory=set)
    _tree: MemoryTree | None = None

    def join(self, tree: MemoryTree) -> None:
        self._tree = tree
        if self.begun:
            self.record({path: content for path, content in tree.files.items() if not self._is_ignored(path)}, "first")

    @property
    def tree(self) -> MemoryTree:
        assert self._tree is not None
        return self._tree

    @property
    def head(self) -> str:
        return self.branches.get(self.branch, "")

    @property
    def files(self) -> _Files:
        """The files of the last commit."""
        return self.commits[self.head].files if self.head else {}

    @property
    def messages(self) -> list[str]:
        """The messages of the present branch, the newest first."""
        return [self.commits[name].message for name in self._history(self.head)]

    def _history(self, name: str) -> list[str]:
        found = []
        while name:
            found.append(name)
            name = (*self.commits[name].parents, "")[0]
        return found

    def record(self, files: _Files, message: str) -> str:
        """A commit on the present branch."""
        name = f"{len(self.commits) + 1:040x}"
        self.commits[name] = Committed(files, message, (self.head,) if self.head else ())
        self.branches[self.branch] = name
        return name

    def befall(self, trouble: Trouble) -> None:
        """From now on, until a person mends it."""
        self.troubles.add(trouble)
        if trouble is Trouble.DETACHED and self.branch:
            self.branches[""] = self.head
            self.branch = ""
        if trouble is Trouble.ELSEWHERE and not self._checkout("main").ok:
            self.troubles.discard(trouble)

    def _is_ignored(self, path: str) -> bool:
        lines = self.tree.files.get(".gitignore", b"").decode().splitlines()
        return path.startswith(".interlock/") or any(
            path == line or (line.endswith("/") and path.startswith(line)) for line in lines
        )

    def uncommitted(self) -> dict[str, str]:
        """Path to state letters of what is not committed."""
        now, old = self.tree.files, self.files
        found = {path: "??" for path in now if path not in old and not self._is_ignored(path)}
        found |= {path: " M" if path in now else " D" for path in old if now.get(path) != old[path]}
        return dict(sorted(found.items()))

    # -- questions

    async def where(self) -> Where:
        return Where(str(self.tree.root), self.present, self.branch, self.head)

    async def status(self) -> list[tuple[str, str]]:
        return [(letters, path) for path, letters in self.uncommitted().items()]

    async def unfinished(self) -> list[str]:
        return ["MERGE_HEAD"] if Trouble.MERGING in self.troubles else []

    async def index(self) -> list[tuple[str, str]]:
        plain = [("100644", path) for path in self.files]
        return sorted([*plain, *(("160000", path) for path in self.modules)], key=lambda entry: entry[1])

    async def commit_of(self, name: str) -> str:
        known = {**self.commits, **self.remote, **self.branches, "HEAD": self.head}
        name = name.removeprefix("refs/heads/")
        return name if name in self.commits else str(known.get(name, ""))

    async def remotes(self) -> tuple[list[str], str]:
        return sorted(self.remote), "origin/main" if "origin/main" in self.remote else ""

    async def contains(self, branch: str, commit: str) -> bool:
        return commit in self._history(self.branches.get(branch, ""))

    async def is_a_name(self, branch: str) -> bool:
        return not any(part in branch for part in (" ", "..", "~", "^", ":")) and not branch.startswith(("-", "/"))

    async def committed(self, path: str) -> str:
        return self.files.get(path, b"").decode()

    async def changes_since(self, commit: str) -> list[tuple[str, str]]:
        if commit not in self.commits:
            return []
        old, new = self.commits[commit].files, self.files
        changed = [path for path in sorted({**old, **new}) if old.get(path) != new.get(path)]
        return [("D" if path not in new else "M" if path in old else "A", path) for path in changed]

    async def hooks(self) -> str:
        return self.hooked

    async def stash_list(self) -> list[str]:
        return [one.message for one in self.stashed]

    def content(self, path: str, most: int | None = None) -> bytes | None:
        found = self.tree.files.get(path)
        return None if found is None or (most is not None and len(found) > most) else found

    async def commit_with(self, text: str) -> str:
        return next((name for name in self._history(self.head) if text in self.commits[name].message), "")

    # -- effects

    async def unstage(self, paths: Sequence[str]) -> str:
        return SAID[Trouble.LOCKED] if Trouble.LOCKED in self.troubles else ""

    async def carry_out(self, effect: Effect, mark: str) -> Done:
        for trouble, hit in _HITS.items():
            if trouble in self.troubles and isinstance(effect, hit):
                return Done(SAID[trouble])
        match effect:
            case Checkout(branch, create=True):
                if branch in self.branches:
                    return Done(f"a branch named '{branch}' already exists")
                if self.head:
                    self.branches[branch] = self.head
                self.branch = branch
                return Done()
            case Checkout(branch):
                return self._checkout(branch)
            case Stash(paths, note):
                return self._stash(paths, stash_message(note, mark))
            case Unstash(note):
                return self._unstash(note)
            case Commit(paths, message, texts):
                return self._commit(paths, commit_message(message, mark), texts)

    def _checkout(self, name: str) -> Done:
        if name in self.remote and name not in self.branches:
            self.branches[""], name = self.remote[name], ""
        if name not in self.branches:
            return Done(f"pathspec '{name}' did not match")
        old, new = self.files, self.commits[self.branches[name]].files
        touched = [path for path in {**old, **new} if old.get(path) != new.get(path)]
        if lost := [path for path in touched if self.tree.files.get(path) not in (old.get(path), new.get(path))]:
            return Done(f"local changes would be overwritten: {', '.join(lost)}")
        for path in touched:
            self.tree.put(path, new.get(path))
        self.branch = name
        return Done()

    def _stash(self, paths: Sequence[str], message: str) -> Done:
        changed = self.uncommitted()
        if not (there := [path for path in paths if path in changed]):
            return Done()
        self.stashed.insert(0, Stashed(message, {path: self.tree.files.get(path) for path in there}))
        for path in there:
            self.tree.put(path, self.files.get(path))
        return Done()

    def _unstash(self, note: str) -> Done:
        number = next((number for number, one in enumerate(self.stashed) if note in one.message), None)
        if number is None:
            return Done()
        kept = self.stashed[number].files
        if lost := [path for path in kept if self.tree.files.get(path) != self.files.get(path)]:
            return Done(f"conflict in {', '.join(lost)}")
        for path, content in kept.items():
            self.tree.put(path, content)
        del self.stashed[number]
        return Done()

    def _commit(self, paths: Sequence[str], message: str, texts: Mapping[str, str]) -> Done:
        files = {path: content for path, content in self.files.items() if path not in paths}
        files |= {path: self.tree.files[path] for path in paths if path in self.tree.files}
        files |= {path: text.encode() for path, text in texts.items()}
        return Done(commit=self.record(files, message))


_HITS: dict[Trouble, tuple[type, ...]] = {
    Trouble.HOOK: (Commit,),
    Trouble.LOCKED: (Checkout, Stash, Unstash),
    Trouble.FULL: (Checkout, Stash, Unstash, Commit),
}

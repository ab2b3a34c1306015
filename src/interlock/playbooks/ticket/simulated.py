"""A git in memory for the simulated twin: as much of it as the ticket's process asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from interlock.engine.keys import sha256
from interlock.engine.model import CommandResult
from interlock.engine.simulation import MemoryTree, SimulatedWorld
from interlock.engine.world import CommandCall, Layer
from interlock.playbooks.ticket.git import (
    BUSY,
    COMMIT,
    CONTENTS,
    DEFAULT_BRANCH,
    GONE,
    HOOKS,
    LISTING,
    NAMED,
    ON_BRANCH,
    OWN,
    POP,
    SEARCHED,
    STASH,
    SUBMODULES,
)
from interlock.playbooks.ticket.project import listing

Files = dict[str, bytes]
Tool = Callable[[CommandCall, Files], CommandResult]


def green(_call: CommandCall, _files: Files) -> CommandResult:
    return CommandResult(0)


@dataclass(frozen=True)
class Commit:
    files: Files
    message: str
    parents: tuple[str, ...] = ()


@dataclass
class Stash:
    message: str
    files: dict[str, bytes | None]


@dataclass
class SimulatedGit:
    """A repository whose work tree is the simulated world's; `tool` is what build and test commands do."""

    tool: Tool = green
    cores: str = "4"
    branch: str = "main"
    busy: str = ""
    hooks: str = ""
    submodules: tuple[str, ...] = ()
    commit_fails: str = ""
    commits: dict[str, Commit] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    stashes: list[Stash] = field(default_factory=list)
    is_repository: bool = True
    within: Layer | None = None
    """Where a command works that is about to be run."""
    _tree: MemoryTree | None = None

    def join(self, world: SimulatedWorld, *, committed: bool = True) -> None:
        """Take the world's files, those that are not ignored, as the first commit."""
        self._tree = world.tree
        if committed:
            files = {path: content for path, content in world.tree.files.items() if not self._is_ignored(path)}
            self._record(files, "first")

    @property
    def tree(self) -> MemoryTree:
        assert self._tree is not None
        return self._tree

    @property
    def head(self) -> str:
        return self.branches.get(self.branch, "")

    @property
    def messages(self) -> list[str]:
        """The messages of the present branch, the newest first."""
        found, at = [], self.head
        while at:
            found.append(self.commits[at].message)
            at = (*self.commits[at].parents, "")[0]
        return found

    def _record(self, files: Files, message: str) -> None:
        name = f"{len(self.commits) + 1:040x}"
        self.commits[name] = Commit(files, message, (self.head,) if self.head else ())
        self.branches[self.branch] = name

    def _committed(self) -> Files:
        return self.commits[self.head].files if self.head else {}

    def _is_ignored(self, path: str) -> bool:
        lines = self.tree.files.get(".gitignore", b"").decode().splitlines()
        return path.startswith(".interlock/") or any(
            path == line or (line.endswith("/") and path.startswith(line)) for line in lines
        )

    def changed(self) -> dict[str, str]:
        """Path to state letters of what is not committed."""
        now, old = self.tree.files, self._committed()
        found = {path: "??" for path in now if path not in old and not self._is_ignored(path)}
        found |= {path: " M" if path in now else " D" for path in old if now.get(path) != old[path]}
        return dict(sorted(found.items()))

    def _seen(self) -> Files:
        """The files that a build or test has before it, where some may be as they were at first."""
        if self.within is None:
            return self.tree.files
        facts = {path: self.within.facts(path) for path in {**self.tree.at(0), **self.tree.files}}
        return {path: found.content for path, found in facts.items() if found.content is not None}

    def _contents(self) -> str:
        users = [path for path in self.changed() if not path.startswith(OWN)]
        return sha256(repr([(path, self.tree.files.get(path)) for path in users]).encode())

    # -- commands

    def __call__(self, call: CommandCall) -> CommandResult:
        match call.argv:
            case ("sh", "-c", script, *words):
                return self._script(call, script, words[1:])
            case ("pwd",):
                return said("/simulated\n")
            case ("git", *words):
                while words[:1] in (["-c"], ["-C"]):
                    words = words[2:]
                return self._git(words) if self.is_repository else CommandResult(128)
        return CommandResult(127)

    def _script(self, call: CommandCall, script: str, words: list[str]) -> CommandResult:
        facts = {
            BUSY: self.busy,
            HOOKS: self.hooks,
            SUBMODULES: "\n".join(self.submodules),
            DEFAULT_BRANCH: "main" if "main" in self.branches else "",
        }
        if script in facts:
            return said(facts[script])
        if script == LISTING:
            return said(listing(set(self._committed()) - set(words)))
        if script == NAMED:
            return said(self._named(words[1:]))
        if script == SEARCHED:
            return said(self._search(words[3::2]))
        if script == ON_BRANCH:
            return said(words[0]) if self.branch == words[0] else CommandResult(1)
        if script == GONE:
            return CommandResult(1) if any(words[0] in stash.message for stash in self.stashes) else said("gone")
        if script == CONTENTS:
            return said(self._contents())
        if script == STASH:
            return self._stash(["push", "-q", "-u", "-m", words[0], "--", *words[2:]])
        if script == POP:
            places = self._stash(["list", "-F", f"--grep={words[0]}", "--format=%gd"]).stdout.split()
            return self._stash(["pop", places[0]]) if places else CommandResult(0)
        if script == COMMIT:
            return self._commit(words[0], words[1], words[2:])
        if script.startswith("nproc"):
            return said(self.cores) if self.cores else CommandResult(127)
        return self.tool(call, self._seen())

    def _git(self, words: list[str]) -> CommandResult:  # noqa: PLR0912 - one case for each command
        match words:
            case ["rev-parse", "--is-inside-work-tree"]:
                return said("true\n")
            case ["rev-parse", "--show-prefix"]:
                return said("")
            case ["rev-parse", "-q", "--verify", "HEAD"]:
                return said(self.head)
            case ["rev-parse", "-q", "--verify", ref]:
                name = ref.removeprefix("refs/heads/").removesuffix("^{commit}")
                return said(self.branches.get(name, ""))
            case ["check-ref-format", *_]:
                return CommandResult(0)
            case ["symbolic-ref", *_]:
                return said(self.branch)
            case ["merge-base", "--is-ancestor", commit, ref]:
                return CommandResult(0 if self._contains(ref.removeprefix("refs/heads/"), commit) else 1)
            case ["ls-files", "-z", "--", *paths]:
                return said("".join(f"{path}\0" for path in sorted(self._committed()) if path in paths))
            case ["for-each-ref", *_]:
                return said("")
            case ["status", *_]:
                return said("".join(f"{state} {path}\0" for path, state in self.changed().items()))
            case ["show", place]:
                return said(self._committed().get(place.removeprefix("HEAD:./"), b"").decode())
            case ["diff", *_, span]:
                return said(self._diff(span.split("..")[0]))
            case ["log", *_, grep]:
                mark = grep.removeprefix("--grep=")
                return said(next((name for name, one in self.commits.items() if mark in one.message), ""))
            case ["reset", *_]:
                return CommandResult(0)
            case ["checkout", "-q", "-b", name]:
                if name in self.branches:
                    return CommandResult(128, stderr=f"a branch named '{name}' already exists")
                if self.head:
                    self.branches[name] = self.head
                self.branch = name
                return CommandResult(0)
            case ["checkout", "-q", name, "--"]:
                return self._checkout(name)
            case ["stash", *rest]:
                return self._stash(rest)
        return CommandResult(129, stderr=f"not simulated: {' '.join(words)}")

    def _contains(self, branch: str, commit: str) -> bool:
        at = self.branches.get(branch, "")
        while at and at != commit:
            at = (*self.commits[at].parents, "")[0]
        return at == commit

    def _named(self, terms: list[str]) -> str:
        held = {path: sum(term in path.lower() for term in terms) for path in self._committed()}
        best = sorted((path for path in held if held[path]), key=lambda path: (-held[path], path))
        return "".join(f"{held[path]} {path}\n" for path in best)

    def _search(self, terms: list[str]) -> str:
        found = ""
        for path in sorted(self._committed()):
            lines = self.tree.files.get(path, b"").decode("utf-8", "replace").lower().splitlines()
            if hits := sum(any(term in line for term in terms) for line in lines):
                found += f"{path}\0{hits}\n"
        return found

    def _diff(self, commit: str) -> str:
        old, new = self.commits[commit].files, self._committed()
        added = {path: "A" for path in new if path not in old}
        gone = {path: "M" if path in new else "D" for path in old if old[path] != new.get(path)}
        return "".join(f"{state}\0{path}\0" for path, state in sorted({**added, **gone}.items()))

    def _checkout(self, name: str) -> CommandResult:
        if name not in self.branches:
            return CommandResult(1, stderr=f"pathspec '{name}' did not match")
        old, new = self._committed(), self.commits[self.branches[name]].files
        touched = [path for path in {**old, **new} if old.get(path) != new.get(path)]
        if lost := [path for path in touched if self.tree.files.get(path) not in (old.get(path), new.get(path))]:
            return CommandResult(1, stderr=f"local changes would be overwritten: {', '.join(lost)}")
        for path in touched:
            self.tree.put(path, new.get(path))
        self.branch = name
        return CommandResult(0)

    def _stash(self, words: list[str]) -> CommandResult:
        match words:
            case ["push", "-q", "-u", "-m", message, "--", *paths]:
                old = self._committed()
                self.stashes.insert(0, Stash(message, {path: self.tree.files.get(path) for path in paths}))
                for path in paths:
                    self.tree.put(path, old.get(path))
                return CommandResult(0)
            case ["list", "-F", grep, _]:
                mark = grep.removeprefix("--grep=")
                places = [f"stash@{{{n}}}" for n, stash in enumerate(self.stashes) if mark in stash.message]
                return said("\n".join(places))
            case ["pop", *_, place]:
                number = int(place.removeprefix("stash@{").removesuffix("}"))
                stash, old = self.stashes[number], self._committed()
                if lost := [path for path in stash.files if self.tree.files.get(path) != old.get(path)]:
                    return CommandResult(1, stderr=f"conflict in {', '.join(lost)}")
                for path, content in stash.files.items():
                    self.tree.put(path, content)
                del self.stashes[number]
                return CommandResult(0)
        return CommandResult(129)

    def _commit(self, message: str, ignore: str, paths: list[str]) -> CommandResult:
        if self.commit_fails:
            return CommandResult(1, stderr=self.commit_fails)
        files = dict(self._committed())
        for path in paths:
            if path in self.tree.files:
                files[path] = self.tree.files[path]
            else:
                files.pop(path, None)
        if ignore:
            files[".gitignore"] = f"{ignore}\n".encode()
        self._record(files, message)
        return CommandResult(0)


def said(text: str) -> CommandResult:
    return CommandResult(0, stdout=text)

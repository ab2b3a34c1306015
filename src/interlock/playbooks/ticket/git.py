"""The user's repository. `Repository` only looks; `Branch` changes it, and nobody has one before the git gate.

Looking never takes a lock, and no setting or hook that somebody planted in the repository starts a program.  The
user's own hooks run for one thing only: the user's commit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.engine.model import CommandResult
from interlock.engine.run import KEY, Run
from interlock.playbooks.ticket.documents import with_ignored
from interlock.playbooks.ticket.project import is_documentation

_QUIET = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.quotePath": "false",
    "submodule.recurse": "false",
    "gc.auto": "0",
    "protocol.allow": "never",
}
"""Settings that win over every file: nothing that somebody planted in one is started."""
_WORKING = {"GIT_TERMINAL_PROMPT": "0", "GIT_LITERAL_PATHSPECS": "1", "LC_ALL": "C"}
_SAFE = {
    **_WORKING,
    "GIT_CONFIG_COUNT": str(len(_QUIET)),
    **{f"GIT_CONFIG_KEY_{number}": name for number, name in enumerate(_QUIET)},
    **{f"GIT_CONFIG_VALUE_{number}": value for number, value in enumerate(_QUIET.values())},
}
_LOOKING = {**_SAFE, "GIT_OPTIONAL_LOCKS": "0"}
_MATCHING = {**_LOOKING, "GIT_LITERAL_PATHSPECS": "0"}
_PATIENCE_S = 600.0
_WHOLE = 1 << 26
"""Bytes of a list of files: more than any has. A list that lost its beginning would be a lie."""

BUSY = """
for name in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD rebase-merge rebase-apply BISECT_LOG; do
  if test -e "$(git rev-parse --git-path "$name")"; then echo "$name"; fi
done
if test -n "$(git ls-files -u)"; then echo unmerged-files; fi
"""
HOOKS = """
git config --get-all core.hooksPath
cd "$(git rev-parse --git-path hooks)" 2>/dev/null || exit 0
for hook in *; do
  case "$hook" in *.sample|"*") ;; *) echo "$hook $(git hash-object --no-filters -- "$hook")" ;; esac
done
"""
LISTING = """# a digest of the names of all tracked files but these
for path; do set -- "$@" ":(exclude,literal)$path"; shift; done
git ls-files -z -- . "$@" | if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -c 1-64
"""
SUBMODULES = """# the folders that are repositories of their own
git ls-files -s | awk -F '\\t' '/^160000/ { print $2 }'
"""
NAMED = """# the tracked files whose names hold most of the terms
most=$1
shift
for term; do git ls-files -- ":(icase)*$term*"; done | sort | uniq -c | sort -k 1,1nr -k 2 | head -n "$most"
"""
SEARCHED = """# lines with one of the terms, in the first tracked files that are not too large
most=$1 largest=$2
shift 2
git ls-files -s | awk -F '\\t' '/^100/ { split($1, facts, " "); print facts[2], $2 }' |
  git cat-file --batch-check='%(objectsize) %(rest)' | awk -v largest="$largest" '$1 <= largest' | head -n "$most" |
  cut -d ' ' -f 2- | tr '\\n' '\\0' | xargs -0 git grep -I -c -i -F -z "$@" --
"""
"""What is asked of all files is answered beside git, so that neither memory nor journal grow with the repository."""
CONTENTS = """# a digest of the files that are not as committed, but for these
if command -v sha256sum >/dev/null; then digest=sha256sum; else digest='shasum -a 256'; fi
own=$(git rev-parse --show-prefix)
for path; do set -- "$@" ":(exclude,literal)$own${path%/}"; shift; done
cd "./$(git rev-parse --show-cdup)" || exit 1
{
  git diff-index --cached -z --name-only --no-renames HEAD -- :/ "$@" 2>/dev/null || git ls-files -z -- :/ "$@"
  git ls-files -z -m -o --exclude-standard -- :/ "$@"
} | xargs -0 sh -c 'for path; do if test -f "$path" && ! test -L "$path"; then printf "./%s\\0" "$path"; fi; done' sh |
  xargs -0 $digest | $digest | cut -c 1-64
"""
DEFAULT_BRANCH = """# the branch from which work begins: the remote's, if possible the local one, else the main one
remote=$(git for-each-ref --format='%(symref:lstrip=2)' 'refs/remotes/*/HEAD' | head -n 1)
for name in "${remote#*/}" main master; do
  if test -n "$name" && git rev-parse -q --verify "refs/heads/$name" >/dev/null; then echo "$name"; exit 0; fi
  if test -n "$remote"; then echo "$remote"; exit 0; fi
done
"""
ON_BRANCH = 'test "$(git symbolic-ref -q --short HEAD)" = "$1" && echo "$1"'
GONE = 'test -z "$(git stash list -F --grep="$1" --format=%gd)" && echo gone'
STASH = """# put these files away under this message
message=$1 mark=$2
shift 2
cd "./$(git rev-parse --show-cdup)" || exit 1
before=$(git status --porcelain -uall)
index=$(git rev-parse --git-path index)
trap 'rm -f "$index.interlock"' EXIT
cp "$index" "$index.interlock" || exit 1
# git stash does not find what is deleted in the index; a deletion in the work tree it does.
git diff-index --cached -z --name-only --no-renames --diff-filter=D HEAD -- "$@" |
  xargs -0 sh -c 'if test $# -gt 0; then git reset -q -- "$@"; fi' reset || exit 1
for path; do
  shift
  if test -e "$path" || test -L "$path" || test -n "$(git ls-files -- "$path")"; then set -- "$@" "$path"; fi
done
if test $# -eq 0; then exit 0; fi
git stash push -q -u -m "$message" -- "$@" && exit 0
status=$?
mv "$index.interlock" "$index"
place=$(git stash list -F --grep="$mark" --format=%gd | head -n 1)
if test -n "$place" && test "$(git status --porcelain -uall)" = "$before"; then git stash drop -q "$place"; fi
exit $status
"""
"""A push that fails leaves the index as it was, and no stash if all of its files are still in the work tree."""
POP = """# take out the newest stash with this mark, wherever it lies now
place=$(git stash list -F --grep="$1" --format=%gd | head -n 1)
if test -z "$place"; then exit 0; fi
git stash pop -q --index "$place" && exit 0
status=$?
if test -n "$(git ls-files -u)"; then exit $status; fi
git stash pop -q "$place"
"""
"""The user may make and drop stashes at any time: a place in their list is good for the moment only.
What was staged is staged again, unless the branch leaves no room for that."""
COMMIT = """# a commit from an index of its own
set -e
GIT_INDEX_FILE="$(cd "$(git rev-parse --git-dir)" && pwd)/interlock-index"
export GIT_INDEX_FILE
trap 'rm -f "$GIT_INDEX_FILE" "$GIT_INDEX_FILE.lock"' EXIT
message=$1 ignore=$2
shift 2
rm -f "$GIT_INDEX_FILE" "$GIT_INDEX_FILE.lock"
if git rev-parse -q --verify HEAD >/dev/null; then git read-tree HEAD; fi
if test $# -gt 0; then git add -A -- "$@"; fi
if test -n "$ignore"; then
  blob=$(printf '%s\\n' "$ignore" | git hash-object -w --stdin)
  git update-index --add --cacheinfo "100644,$blob,$(git rev-parse --show-prefix).gitignore"
fi
git commit -q -m "$message"
"""
"""A commit from an index of its own: what the user has staged stays staged and out of it. Nobody else uses that
index, so that a lock on it is a leftover."""

IGNORE = ".gitignore"
OWN = ("prompts/", ".interlock/", "interlock.toml")
"""What is interlock's, and never a change of the user's."""


class Dirt(StrEnum):
    """What a working tree holds beside what is committed."""

    CLEAN = "nothing"
    DOCS = "documentation only"
    CODE = "other files"


def dirt(paths: Sequence[str]) -> Dirt:
    if not paths:
        return Dirt.CLEAN
    return Dirt.DOCS if all(map(is_documentation, paths)) else Dirt.CODE


@dataclass(frozen=True)
class Standing:
    """Where the repository stands."""

    branch: str
    """Empty when HEAD is detached."""
    head: str
    """Empty when there is no commit yet."""
    busy: tuple[str, ...]
    """A merge, rebase or the like that is not finished."""
    changed: tuple[str, ...]
    """Changed and new files, without interlock's own."""
    ignore_is_ours: bool = False
    """The .gitignore differs from the committed one by our two lines and nothing else."""
    contents: str = ""
    """A digest of the changed and new files, by which a later look tells whether somebody went on working."""

    @property
    def dirty(self) -> tuple[str, ...]:
        """The user's uncommitted files."""
        return tuple(path for path in self.changed if path != IGNORE or not self.ignore_is_ours)


class Repository:
    """What can be asked of the user's repository without changing anything."""

    def __init__(self, run: Run) -> None:
        self._run = run

    async def ask(self, *words: str, name: str = "git") -> CommandResult:
        return await self._run.inspect(("git", *words), env=_LOOKING, name=name, keep=_WHOLE)

    async def _script(self, script: str, *words: str, name: str) -> str:
        done = await self._run.inspect(("sh", "-c", script, "sh", *words), env=_MATCHING, name=name, keep=_WHOLE)
        return done.stdout

    async def is_there(self) -> bool:
        return (await self.ask("rev-parse", "--is-inside-work-tree")).stdout.strip() == "true"

    async def place(self) -> str:
        return (await self._run.inspect(("pwd",), name="git")).stdout.strip()

    async def head(self) -> str:
        return (await self.ask("rev-parse", "-q", "--verify", "HEAD", name="head")).stdout.strip()

    async def branch(self) -> str:
        return (await self.ask("symbolic-ref", "-q", "--short", "HEAD", name="branch")).stdout.strip()

    async def commit_of(self, branch: str) -> str:
        """The commit of a local branch; empty when there is none of that name."""
        return (await self.ask("rev-parse", "-q", "--verify", f"refs/heads/{branch}")).stdout.strip()

    async def is_on_a_remote(self, branch: str) -> bool:
        """Whether exactly one remote has it, so that a checkout makes the local one."""
        found = await self.ask("for-each-ref", "--format=%(refname)", f"refs/remotes/*/{branch}")
        return len(found.stdout.split()) == 1

    async def contains(self, branch: str, commit: str) -> bool:
        return (await self.ask("merge-base", "--is-ancestor", commit, f"refs/heads/{branch}")).exit == 0

    async def tracked(self, paths: Sequence[str]) -> list[str]:
        """Those of the paths that are tracked."""
        return split_zero((await self.ask("ls-files", "-z", "--", *paths)).stdout)

    async def default_branch(self) -> str:
        """The branch from which work begins, as the remote or custom says; empty when nothing does."""
        return (await self._script(DEFAULT_BRANCH, name="default")).strip()

    async def commit_named(self, name: str) -> str:
        """The commit of a branch, local or of a remote, of a tag, or of anything else that git knows by this name."""
        return (await self.ask("rev-parse", "-q", "--verify", f"{name}^{{commit}}")).stdout.strip()

    async def is_a_name(self, branch: str) -> bool:
        """Whether a branch can be called so."""
        return (await self.ask("check-ref-format", "--branch", branch)).ok

    async def submodules(self) -> list[str]:
        """Folders whose files belong to another repository, seen from the workspace."""
        return (await self._script(SUBMODULES, name="submodules")).splitlines()

    async def listing(self, without: Sequence[str]) -> str:
        """The SHA-256 of the names of all tracked files but these, in order, each ended by a NUL."""
        return (await self._script(LISTING, *without, name="listing")).strip()

    async def named(self, terms: Sequence[str], most: int) -> list[str]:
        """The files whose names hold one of the terms; those that hold most of them, ties by path."""
        wanted = [re.sub(r"([\\*?\[\]])", r"\\\1", term) for term in terms]
        found = (
            line.split(maxsplit=1)
            for line in (await self._script(NAMED, str(most), *wanted, name="names")).splitlines()
        )
        return [path for _, path in found if not path.startswith('"')]

    async def matches(self, terms: Sequence[str], *, most: int, largest: int) -> dict[str, int]:
        """Path to the number of lines in which one of the terms stands, of so many files at most and so large ones."""
        if not terms:
            return {}
        wanted = [word for term in terms for word in ("-e", term)]
        return counts(await self._script(SEARCHED, str(most), str(largest), *wanted, name="search"))

    async def status(self) -> list[tuple[str, str]]:
        """State letters and path of every changed and new file, relative to the workspace."""
        found = await self.ask("status", "--porcelain=v1", "-z", "--untracked-files=all", name="status")
        prefix = await self.prefix()
        return [(state, inside(path, prefix)) for state, path in parse_status(found.stdout)]

    async def prefix(self) -> str:
        """Where the workspace lies below the repository's top; empty at the top itself."""
        return (await self.ask("rev-parse", "--show-prefix")).stdout.strip()

    async def committed(self, path: str) -> str:
        """A file as the last commit has it; empty when it does not."""
        return (await self.ask("show", f"HEAD:./{path}")).stdout

    async def changes_since(self, commit: str) -> list[tuple[str, str]]:
        """Status letter and path of what was committed since."""
        said = await self.ask("diff", "--no-ext-diff", "--name-status", "-z", "-M", "--relative", f"{commit}..HEAD")
        return parse_changes(said.stdout)

    async def hooks(self) -> str:
        """The hooks that a commit would run, by name and content."""
        # With the user's own settings: they say where the hooks are. Nothing here runs one.
        return (await self._run.inspect(("sh", "-c", HOOKS), env=_WORKING, name="hooks")).stdout

    async def standing(self) -> Standing:
        busy = (await self._run.inspect(("sh", "-c", BUSY), env=_LOOKING, name="busy")).stdout.split()
        changed = tuple(dict.fromkeys(path for _, path in await self.status() if not path.startswith(OWN)))
        ours = False
        if IGNORE in changed:
            now = (await self._run.read(IGNORE)).text
            ours = with_ignored(await self.committed(IGNORE)) == now
        contents = await self._script(CONTENTS, *OWN, name="contents")
        return Standing(await self.branch(), await self.head(), tuple(busy), changed, ours, contents.strip())

    async def stashes(self, mark: str) -> list[str]:
        """The names under which the stashes with this mark can be had, the newest first."""
        return (await self.ask("stash", "list", "-F", f"--grep={mark}", "--format=%gd")).stdout.split()


class Branch:
    """The right to change the user's repository, and the places where that happens."""

    def __init__(self, run: Run, name: str) -> None:
        self._run = run
        self.name = name

    async def _do(self, words: Sequence[str], name: str, probe: Sequence[str] | None = None) -> CommandResult:
        return await self._run.command(
            ("git", *words), env=_SAFE, timeout_s=_PATIENCE_S, name=name, probe=probe, direct=True
        )

    async def _sh(self, script: str, *words: str, name: str, probe: Sequence[str]) -> CommandResult:
        argv = ("sh", "-c", script, *words)
        return await self._run.command(argv, env=_SAFE, timeout_s=_PATIENCE_S, name=name, probe=probe, direct=True)

    async def checkout(self, *, create: bool = False) -> CommandResult:
        words = ("checkout", "-q", "-b", self.name) if create else ("checkout", "-q", self.name, "--")
        return await self._do(words, "checkout", probe=("sh", "-c", ON_BRANCH, "sh", self.name))

    async def stash(self, paths: Sequence[str], note: str, prefix: str = "") -> CommandResult:
        """Put these files away; the stash carries the run's name and its mark."""
        mark = f"Interlock-Key: {KEY}"
        # From a folder below the top, git stash takes paths for something else than they are.
        places = [from_top(path, prefix) for path in paths]
        probe = ("git", "stash", "list", "-F", f"--grep={mark}", "--format=%gd")
        return await self._sh(STASH, "push", f"{note} {mark}", mark, *places, name="stash", probe=probe)

    async def pop(self, note: str) -> CommandResult:
        """Take out what was stashed under this note; nothing happens if it is not there any more."""
        mark = f"{note} Interlock-Key: "
        return await self._sh(POP, "pop", mark, name="pop", probe=("sh", "-c", GONE, "sh", mark))

    async def commit(self, paths: Sequence[str], message: str, ignore: str = "") -> CommandResult:
        """One commit of these files, and of this .gitignore if given; the user's hooks run."""
        probe = ("git", "log", "-1", "--format=%H", "-F", f"--grep=Interlock-Key: {KEY}")
        argv = ("sh", "-c", COMMIT, "sh", message, ignore.removesuffix("\n"), *paths)
        made = await self._run.command(
            argv, env=_WORKING, timeout_s=_PATIENCE_S, name="commit", probe=probe, direct=True
        )
        if made.ok:
            await self._do(("reset", "-q", "--", *paths, *([IGNORE] if ignore else [])), "unstage")
        return made


# -- what git prints


def split_zero(text: str) -> list[str]:
    return [part for part in text.split("\0") if part]


def parse_status(text: str) -> list[tuple[str, str]]:
    """Entries of ``git status --porcelain -z``; a rename counts for both of its names."""
    parts, found = iter(split_zero(text)), []
    for part in parts:
        found.append((part[:2], part[3:]))
        if "R" in part[:2] or "C" in part[:2]:
            found.append((part[:2], next(parts, "")))
    return [(state, path) for state, path in found if path]


def parse_changes(text: str) -> list[tuple[str, str]]:
    """Entries of ``git diff --name-status -z``."""
    parts, found = iter(split_zero(text)), []
    for letter in parts:
        found.append((letter, next(parts, "")))
        if letter[:1] in ("R", "C"):
            found.append((letter, next(parts, "")))
    return found


def counts(text: str) -> dict[str, int]:
    """Entries of ``git grep -c -z``: a path, NUL, a number, a line end."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        path, _, number = line.rpartition("\0")
        if path and number.isdigit():
            found[path] = int(number)
    return found


def inside(path: str, prefix: str) -> str:
    """A path of the repository as seen from the workspace, which may lie below the repository's top."""
    if path.startswith(prefix):
        return path[len(prefix) :]
    return "../" * prefix.count("/") + path


def from_top(path: str, prefix: str) -> str:
    """A path of the workspace as seen from the repository's top; the inverse of `inside`."""
    up = "../" * prefix.count("/")
    return path[len(up) :] if up and path.startswith(up) else prefix + path


def shown(result: CommandResult) -> str:
    """What a git command said when it failed, in a line."""
    if result.timed_out:
        return "it did not end in time"
    said = " ".join((result.stderr.strip() or result.stdout.strip() or result.error or "").split())
    return said[:400] or f"exit status {result.exit}"

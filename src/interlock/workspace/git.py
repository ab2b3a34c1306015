"""The one way the engine starts git.

git reads programs to run from many places (hooks, fsmonitor, filters, drivers, ssh commands, promisor remotes), and a
person's hooks export variables that lead it elsewhere.  So every call names its git dir, gets an environment without
`GIT_*`, and has each setting that starts a program overruled on the command line, where no file can win.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path

from interlock.errors import WorkspaceFailed

OLDEST_GIT = (2, 38)
"""The first with `merge-tree --write-tree`."""
_PROGRAMS = (
    *("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.sshCommand=false", "core.askPass=false"),
    *("core.pager=cat", "core.alternateRefsCommand=false", "credential.helper=", "log.showSignature=false"),
    *("diff.ignoreSubmodules=dirty", "gc.auto=0", "maintenance.auto=false", "protocol.allow=never"),
    *("submodule.recurse=false",),
)
"""What could start a program, or reach out."""
_RAW = (
    *("core.attributesFile=/dev/null", "core.excludesFile=/dev/null", "core.untrackedCache=false"),
    *("core.splitIndex=false", "core.sparseCheckout=false", "core.autocrlf=false", "core.safecrlf=false"),
    *("core.precomposeUnicode=false", "core.looseCompression=1", "merge.renames=false"),
    *("merge.directoryRenames=false",),
)
"""What would change bytes or names in our own repository; merges without renames have conflicts that are a path's."""
NOTHING = "0" * 40
"""git's name for what is not there."""
LINK, GITLINK = 0o120000, 0o160000
Entry = tuple[int, str]
"""Mode and blob of a path."""
_PERSONAL = ("GIT_AUTHOR_", "GIT_COMMITTER_")
_PATIENCE_S = 900
"""git opens a named pipe called .gitignore and waits for ever; nothing it does for us takes this long."""


def environment(*, personal: bool = False) -> dict[str, str]:
    """The environment for git: nothing of `GIT_*`; with `personal` the person's identity and settings count."""
    theirs = _PERSONAL if personal else ()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name.startswith(theirs)}
    alone = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ATTR_NOSYSTEM": "1"}
    return {
        **kept,
        **({} if personal else alone),
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",  # a partial clone fetches by a program that its settings name
        "GIT_ALLOW_PROTOCOL": "none",
    }


@dataclass(frozen=True)
class Reply:
    """How a command of git ended."""

    code: int
    out: bytes
    err: bytes

    @property
    def why(self) -> str:
        """What it said when it failed, in a line."""
        words = " ".join((self.err or self.out).decode("utf-8", "replace").split())
        return words[-800:] or f"exit status {self.code}"


@dataclass(frozen=True)
class Git:
    """git on one git dir."""

    git_dir: Path
    work_tree: Path | None = None
    index: Path | None = None
    personal: bool = False
    """The person's own settings, ignore files and identity count; programs that they name still never run."""
    settings: tuple[str, ...] = ()
    """Further settings, as `name=value`."""

    def reply(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Reply:
        """How the command ended; whether that is a failure is the caller's to say."""
        settings = (*_PROGRAMS, *(() if self.personal else _RAW), *self.settings)
        places = [f"--git-dir={self.git_dir}", *([f"--work-tree={self.work_tree}"] if self.work_tree else [])]
        words = ["git", *places, *(word for setting in settings for word in ("-c", setting)), *args]
        index = {"GIT_INDEX_FILE": str(self.index)} if self.index else {}
        literal = {"GIT_LITERAL_PATHSPECS": "0"} if args[0] == "check-ignore" else {}  # which knows no such thing
        folder = self.work_tree or self.git_dir
        try:
            ended = subprocess.run(
                words,
                input=stdin,
                capture_output=True,
                check=False,
                cwd=folder,
                env={**environment(personal=self.personal), **literal, **index, **(env or {})},
                timeout=_PATIENCE_S,
                # Ctrl-C ends the run in order; it must not tear a snapshot's git apart first.
                process_group=0,
            )
        except subprocess.TimeoutExpired as error:
            remedy = "Look for a pipe or a dead network folder in the workspace."
            what = f"git {args[0]} did not end within {_PATIENCE_S} s"
            raise WorkspaceFailed(what, where=str(folder), remedy=remedy) from error
        except OSError as error:
            what = "git cannot be started" if folder.is_dir() else "a folder is gone"
            raise WorkspaceFailed.of(error, what, where=str(folder)) from error
        return Reply(ended.returncode, ended.stdout, ended.stderr)

    def run(self, *args: str, stdin: bytes = b"", ok: Sequence[int] = (0,)) -> bytes:
        """What the command printed; an exit code that is not `ok` is an error."""
        reply = self.reply(*args, stdin=stdin)
        if reply.code not in ok:
            what = f"git {' '.join(args[:6])} failed with exit code {reply.code}"
            raise WorkspaceFailed(what, where=str(self.git_dir), found=reply.why)
        return reply.out

    def text(self, *args: str, stdin: bytes = b"", ok: Sequence[int] = (0,)) -> str:
        """The one word or line that it printed."""
        return os.fsdecode(self.run(*args, stdin=stdin, ok=ok)).strip()

    def names(self, *args: str, stdin: bytes = b"", ok: Sequence[int] = (0,)) -> list[str]:
        """What it printed, each entry ended by a NUL."""
        return os.fsdecode(self.run(*args, stdin=stdin, ok=ok)).split("\0")[:-1]


def object_name(content: bytes, kind: str = "blob") -> str:
    """The name that git gives to an object."""
    return sha1(b"%s %d\0" % (kind.encode(), len(content)) + content, usedforsecurity=False).hexdigest()


def entry_of(place: Path) -> Entry | None:
    """Mode and blob of a file or link as git names them; None for anything else, and where nobody may read it."""
    try:
        status = place.lstat()
        if stat.S_ISLNK(status.st_mode):
            return LINK, object_name(os.fsencode(place.readlink()))
        if not stat.S_ISREG(status.st_mode):
            return None
        return 0o100755 if status.st_mode & 0o100 else 0o100644, object_name(place.read_bytes())
    except OSError:
        return None


def pieces(paths: Sequence[str], size: int = 500) -> list[Sequence[str]]:
    """Paths in pieces, each short enough for one command line."""
    return [paths[at : at + size] for at in range(0, len(paths), size)]


def lines(names: Sequence[str]) -> bytes:
    """Names on standard input for a git with `-z`."""
    return b"".join(os.fsencode(name) + b"\0" for name in names)


def listed(said: bytes) -> dict[str, Entry]:
    """What `ls-tree -z` or `ls-files -s -z` printed: mode and blob of each path."""
    found = {}
    for entry in os.fsdecode(said).split("\0")[:-1]:
        facts, _, path = entry.partition("\t")
        mode, one, other = facts.split(" ")
        found[path] = (int(mode, 8), other if len(other) == len(NOTHING) else one)
    return found


def index_lines(entries: Mapping[str, Entry | None]) -> bytes:
    """Mode and blob of paths as `update-index -z --index-info` reads them; None: not there."""
    facts = {path: f"{entry[0]:o} {entry[1]}" if entry else f"0 {NOTHING}" for path, entry in entries.items()}
    return os.fsencode("".join(f"{fact}\t{path}\0" for path, fact in facts.items()))

"""The one way the engine starts git.

git reads programs to run from many places (hooks, fsmonitor, filters, drivers, ssh commands, promisor remotes), and a
person's hooks export variables that lead it elsewhere.  So every call names its git dir, gets an environment without
`GIT_*`, and has each setting that starts a program overruled on the command line, where no file can win.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from interlock.errors import WorkspaceFailed

_PROGRAMS = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.sshCommand=false",
    "core.askPass=false",
    "core.pager=cat",
    "core.alternateRefsCommand=false",
    "credential.helper=",
    "diff.ignoreSubmodules=dirty",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "submodule.recurse=false",
)
"""What could start a program, or reach out."""
_RAW = (
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.sparseCheckout=false",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.precomposeUnicode=false",
    "core.looseCompression=1",
    "merge.renames=false",
    "merge.directoryRenames=false",
)
"""What would change bytes or names in our own repository; merges without renames have conflicts that are a path's."""
_PERSONAL = ("GIT_AUTHOR_", "GIT_COMMITTER_")
_PATIENCE_S = 900
"""git opens a named pipe called .gitignore and waits for ever; nothing it does for us takes this long."""


def environment(*, personal: bool = False) -> dict[str, str]:
    """The environment of a git: without `GIT_*`, but a person's identity where it is theirs."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or (personal and name.startswith(_PERSONAL))
    }
    ours = {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "interlock",
        "GIT_AUTHOR_EMAIL": "interlock@localhost",
        "GIT_COMMITTER_NAME": "interlock",
        "GIT_COMMITTER_EMAIL": "interlock@localhost",
    }
    return {
        **kept,
        **({} if personal else ours),
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

    def reply(
        self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Reply:
        """How the command ended; whether that is a failure is the caller's to say."""
        settings = (*_PROGRAMS, *(() if self.personal else _RAW), *self.settings)
        places = [f"--git-dir={self.git_dir}", *([f"--work-tree={self.work_tree}"] if self.work_tree else [])]
        words = ["git", *places, *(word for setting in settings for word in ("-c", setting)), *args]
        index = {"GIT_INDEX_FILE": str(self.index)} if self.index else {}
        folder = cwd or self.work_tree or self.git_dir
        try:
            ended = subprocess.run(
                words,
                input=stdin,
                capture_output=True,
                check=False,
                cwd=folder,
                env={**environment(personal=self.personal), **index, **(env or {})},
                timeout=_PATIENCE_S,
                # Ctrl-C ends the run in order; it must not tear a snapshot's git apart first.
                process_group=0,
            )
        except subprocess.TimeoutExpired as error:
            raise WorkspaceFailed(
                f"git {_shown(args)} did not end within {_PATIENCE_S} s",
                where=str(folder),
                remedy="Look for a pipe or a dead network folder in the workspace.",
            ) from error
        except FileNotFoundError as error:
            if folder.is_dir():
                raise WorkspaceFailed(
                    "git cannot be started", expected="the program git on PATH", remedy="Install git 2.38 or later."
                ) from error
            raise WorkspaceFailed.of(error, "a folder is gone", where=str(folder)) from error
        except OSError as error:
            raise WorkspaceFailed.of(error, "git cannot be started", where=str(folder)) from error
        return Reply(ended.returncode, ended.stdout, ended.stderr)

    def run(
        self,
        *args: str,
        stdin: bytes = b"",
        ok: Sequence[int] = (0,),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> bytes:
        """What the command printed; an exit code that is not `ok` is an error."""
        reply = self.reply(*args, stdin=stdin, env=env, cwd=cwd)
        if reply.code not in ok:
            raise WorkspaceFailed(
                f"git {_shown(args)} failed with exit code {reply.code}", where=str(self.git_dir), found=reply.why
            )
        return reply.out

    def text(self, *args: str, stdin: bytes = b"", ok: Sequence[int] = (0,)) -> str:
        """The one word or line that it printed."""
        return os.fsdecode(self.run(*args, stdin=stdin, ok=ok)).strip()

    def names(self, *args: str, stdin: bytes = b"", ok: Sequence[int] = (0,)) -> list[str]:
        """What it printed, each entry ended by a NUL."""
        return os.fsdecode(self.run(*args, stdin=stdin, ok=ok)).split("\0")[:-1]


def lines(names: Sequence[str]) -> bytes:
    """Names as git reads them with `-z`."""
    return b"".join(os.fsencode(name) + b"\0" for name in names)


def _shown(args: Sequence[str]) -> str:
    return " ".join(args[:6]) + (" ..." if len(args) > 6 else "")

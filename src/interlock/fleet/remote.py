"""The remote that carries runs: what its refs say, and how one is moved from what it was to something new.

git is the user's own, in their repository, with their remotes, keys and helpers, and without hooks.  What it fetches
and pushes lies in the repository of our trees, which borrows theirs: no branch, ref or object of theirs changes.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from interlock.errors import ConfigInvalid, Refused, WorkspaceFailed
from interlock.workspace.git import Reply
from interlock.workspace.repository import Repository
from interlock.workspace.trees import Trees

RUNS, WORDS = "refs/interlock", "refs/interlock-words"
"""Runs, each a ref; and what was said to them from other clones."""
PATIENCE_S, LONGEST_S = 30, 900
"""For a question; for what carries objects."""
_SETTINGS = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false", "core.pager=cat"),
    *("push.followTags=false", "push.gpgSign=false", "push.recurseSubmodules=no", "fetch.recurseSubmodules=no"),
    *("fetch.writeCommitGraph=false", "submodule.recurse=false", "diff.ignoreSubmodules=dirty"),
)
_QUIETLY = ("--quiet", "--no-tags", "--no-prune", "--no-write-fetch-head", "--no-recurse-submodules", "--refmap=")
_LOCAL = re.compile(r"GIT_(DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|ALTERNATE_.*|COMMON_DIR|NAMESPACE|PREFIX|QUAR.*)")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_TRY_AGAIN = "Nothing was changed here. See whether `git fetch` reaches it; then call interlock again."


class RemoteAway(WorkspaceFailed):
    """The remote cannot be reached, or does not answer as one: nothing is known of what was asked."""


@dataclass(frozen=True)
class Remote:
    """One remote, as seen from one workspace."""

    trees: Trees
    name: str
    """As the user's git knows it, or its address."""

    def __post_init__(self) -> None:
        if self.name.startswith("-") or not self.name:
            raise ConfigInvalid("a remote has a name or an address", where="fleet.remote", found=repr(self.name))
        if self.trees.repository is None:
            raise Refused("runs are carried by git, and there is no repository here", where=str(self._top))
        if re.fullmatch(r"[\w.-]+", self.name) and not (self._top / self.name).is_dir():
            known = os.fsdecode(self.git("remote").out).split()
            if self.name not in known:
                raise ConfigInvalid(
                    f"there is no remote {self.name!r} here",
                    where=str(self._top),
                    expected=f"one of {', '.join(known)}" if known else "an address",
                    remedy=f"Add it: git remote add {self.name} ADDRESS. Or name another one: [fleet] remote.",
                )

    @property
    def _top(self) -> Path:
        return self.trees.workspace.top

    @property
    def repository(self) -> Repository:
        assert self.trees.repository is not None
        return self.trees.repository

    @property
    def shown(self) -> str:
        return _CREDENTIALS.sub("", self.name)

    @property
    def address(self) -> str:
        """Where it is, without a name of a user, a password or a port: the same for every way that leads there."""
        found = os.fsdecode(self.git("ls-remote", "--get-url", self.name).out).strip()
        return place_of(found, str(self._top))

    def git(self, *words: str, stdin: bytes = b"", patience: float = PATIENCE_S, ours: bool = True) -> Reply:
        """The user's git; RemoteAway where it does not come to an end.

        Args:
            ours: with the objects of our trees, and new ones are put there; False: theirs alone.
        """
        settings = [word for one in _SETTINGS for word in ("-c", one)]
        environ = {name: value for name, value in os.environ.items() if not _LOCAL.fullmatch(name)}
        own = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_OPTIONAL_LOCKS": "0"}
        own |= {"GIT_OBJECT_DIRECTORY": str(self.trees.git.git_dir / "objects")} if ours else {}
        process = subprocess.Popen(
            ["git", *settings, *words],
            cwd=self._top,
            env=environ | own,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,  # Ctrl-C must not tear a push apart
        )
        try:
            out, err = process.communicate(stdin, patience)
        except subprocess.TimeoutExpired:
            raise RemoteAway(f"the remote {self.shown} does not answer", remedy=_TRY_AGAIN) from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        return Reply(process.returncode, out, err)

    def asked(self, *words: str, ours: bool = True) -> str:
        """What git says here, without the remote."""
        reply = self.git(*words, patience=LONGEST_S, ours=ours)
        if reply.code:
            raise WorkspaceFailed(f"git {' '.join(words[:2])} failed", where=str(self._top), found=reply.why)
        return os.fsdecode(reply.out).strip()

    # -- what it has

    def tips(self, *patterns: str) -> dict[str, str]:
        """Refs of the remote that fit one of these patterns, each with its object."""
        reply = self.git("ls-remote", "--refs", self.name, *patterns)
        if reply.code:
            raise self._away(reply)
        pairs = (line.split("\t", 1) for line in os.fsdecode(reply.out).splitlines() if "\t" in line)
        return {ref: name for name, ref in pairs}

    def fetch(self, refs: Sequence[str]) -> None:
        """Everything behind these refs is here now."""
        reply = self.git("fetch", *_QUIETLY, self.name, *refs, patience=LONGEST_S)
        if reply.code:
            raise self._away(reply)

    def give(self, commit: str, branch: str = "") -> None:
        """A commit of ours, and all before it, is in the user's repository now; also as a branch, if one is named."""
        if not branch and self.repository.commit(commit):
            return
        ours = self.trees.git
        named = f"refs/heads/given-{commit}"
        ours.run("update-ref", named, commit)
        self.asked("fetch", *_QUIETLY, str(ours.git_dir), f"+{named}:{branch}" if branch else named, ours=False)
        ours.run("update-ref", "-d", named)

    # -- changing it

    def swap(self, ref: str, old: str, new: str) -> bool:
        """Move a ref; False where it is not `old` (empty: not there) any more. WorkspaceFailed: nobody may move it."""
        lease = f"--force-with-lease={ref}:{old}"
        reply = self.git("push", "--porcelain", "--no-verify", lease, self.name, f"{new}:{ref}", patience=LONGEST_S)
        # What git says of the ref counts: the exit code is the same for a refusal and for much else.
        flags = [line[:1] for line in os.fsdecode(reply.out).splitlines() if f":{ref}\t" in line]
        if reply.code == 0 and flags and "!" not in flags:
            return True
        now = self.tips(ref).get(ref, "")
        if now == new:  # a push whose answer was lost was carried out all the same
            return True
        if "!" not in flags:
            raise self._away(reply)
        if now == old:
            raise WorkspaceFailed(
                f"the remote {self.shown} does not let {ref} be written",
                found=self._said(reply),
                remedy="Ask whoever looks after it to allow refs/interlock/, or set another one: [fleet] remote.",
            )
        return False

    def drop(self, refs: Mapping[str, str]) -> None:
        """Remove refs, each if it is still what it was; who is away keeps them."""
        for ref, old in refs.items():
            self.git("push", "--porcelain", "--no-verify", f"--force-with-lease={ref}:{old}", self.name, f":{ref}")

    def _away(self, reply: Reply) -> RemoteAway:
        what = f"the remote {self.shown} cannot be reached, or refuses"
        return RemoteAway(what, found=self._said(reply), remedy=_TRY_AGAIN)

    def _said(self, reply: Reply) -> str:
        said = [line for line in os.fsdecode(reply.out + reply.err).splitlines() if line.strip()]
        return _CREDENTIALS.sub("", "\n".join(said[-4:]))[-600:] or f"git ended with {reply.code}"


def place_of(address: str, top: str = "/") -> str:
    """`HOST/PATH` of an address, or a path of this machine, as seen from a folder."""
    scp = re.fullmatch(r"(?:[^/@:]*@)?(\[[^\]/]*\]|[^\[/:]+):(?!//)(.*)", address, re.DOTALL)
    try:
        url = urlsplit(f"ssh://{scp[1]}/{scp[2]}" if scp else address)
    except ValueError:  # brackets that hold no number of a machine
        return address
    path = url.path if url.scheme else address
    place = f"{url.hostname}/{path}" if url.hostname else os.path.normpath(Path(top, path))
    return re.sub(r"(?<=.)(/|\.git)+$", "", re.sub("/+", "/", place))

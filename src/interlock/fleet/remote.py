"""The repository that runs are carried by: what its refs say, and how one is moved from what it was to something new.

Git runs in the user's own repository, with their remotes, keys and helpers, and without hooks.  New objects lie in the
shadow repository and are only lent to the push.  What is fetched is packed into the shadow repository, where the engine
finds it; the user's refs are not touched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from interlock.engine.keys import sha256
from interlock.errors import ConfigInvalid, Refused, WorkspaceFailed
from interlock.workspace import Workspace
from interlock.workspace.git import GitReply, UsersGit
from interlock.workspace.repository import UserRepository

NAMESPACE = "refs/interlock"
_OBJECT = re.compile(r"[0-9a-f]{40}")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_SHOWN = 600
TRY_AGAIN = "Nothing was changed here. Look at it with: git ls-remote, then call interlock again."
_AT_ONCE = 200
"""Refs that are fetched by one call of git."""


class Move(NamedTuple):
    """A ref, what it leads to (None: it is not there), and what it is to lead to."""

    ref: str
    old: str | None
    new: str


class RemoteAway(WorkspaceFailed):
    """The remote cannot be reached, or does not answer as one."""


class PushRefused(WorkspaceFailed):
    """The remote does not let a ref be moved, and it was not moved: nobody else has it either."""


@dataclass(frozen=True)
class Remote:
    """One remote, as seen from one workspace."""

    workspace: Workspace
    repository: UserRepository | None
    """The user's own; None: the workspace is in none, and the shadow repository carries."""
    name: str
    """As the user's git knows it, or its address."""
    environ: Mapping[str, str]

    @classmethod
    async def of(cls, workspace: Workspace, name: str, environ: Mapping[str, str]) -> Remote:
        """The remote of this name; `ConfigInvalid` when there is none."""
        if not name or name.startswith("-"):
            raise ConfigInvalid("a remote has a name or an address", where="option --remote", found=repr(name))
        remote = cls(workspace, await workspace.user_repository(), name, environ)
        if re.fullmatch(r"[\w.-]+", name) and not (workspace.root / name).is_dir():
            known = (await remote.git("remote", reads=True)).text.split()
            if name not in known:
                raise ConfigInvalid(
                    f"there is no remote {name!r} here",
                    where=str(workspace.root),
                    expected=f"one of {', '.join(known)}" if known else "an address",
                    remedy="Add it with: git remote add NAME ADDRESS. Or name one: --remote ADDRESS.",
                )
        return remote

    @property
    def shown(self) -> str:
        return _CREDENTIALS.sub("", self.name)

    async def git(
        self,
        *args: str,
        stdin: bytes = b"",
        reads: bool = False,
        network: bool = False,
        index: Path | None = None,
        lent: bool = False,
    ) -> GitReply:
        """Git in the repository that carries.

        Args:
            lent: with the objects of the shadow repository.
        """
        shadow = self.workspace.shadow.git(self.workspace.shadow.path).git_dir
        environ = {name: value for name, value in self.environ.items() if name not in ("GIT_DIR", "GIT_WORK_TREE")}
        folder, borrowed = self.workspace.root, shadow / "objects" if lent else None
        if self.repository is None:
            environ, folder, borrowed = {**environ, "GIT_DIR": str(shadow)}, shadow, None
        environ["GIT_NO_REPLACE_OBJECTS"] = "1"
        git = UsersGit(folder, environ)
        try:
            return await git.run(*args, stdin=stdin, reads=reads, network=network, index=index, borrowed=borrowed)
        except WorkspaceFailed as error:
            if not network:
                raise
            raise RemoteAway(f"the remote {self.shown} does not answer", found=error.what, remedy=TRY_AGAIN) from error

    async def asked(self, *args: str, stdin: bytes = b"", index: Path | None = None) -> str:
        """What git says here; `WorkspaceFailed` when it fails."""
        reply = await self.git(*args, stdin=stdin, index=index)
        if reply.code != 0:
            raise WorkspaceFailed(f"git {' '.join(args[:2])} failed", found=reply.error.strip()[-_SHOWN:])
        return reply.text.strip()

    # -- what it has

    async def refs(self, *patterns: str) -> dict[str, str]:
        """Refs of the remote that fit one of these patterns, each with its object."""
        reply = await self.git("ls-remote", "--refs", self.name, *patterns, reads=True, network=True)
        if reply.code != 0:
            raise self._away(reply)
        pairs = (line.split("\t", 1) for line in reply.text.splitlines() if "\t" in line)
        return {ref: name for name, ref in pairs}

    async def tip(self, ref: str) -> str | None:
        """What a ref leads to now; None when there is no such ref."""
        found = (await self.refs(ref)).get(ref)
        if found is not None and not _OBJECT.fullmatch(found):
            raise Refused(
                "repositories with SHA-256 names cannot carry runs", where=self.shown, expected="names of 40 digits"
            )
        return found

    async def fetch(self, ref: str, tip: str) -> None:
        """Everything behind a ref is here now, and in the shadow repository what its tree holds."""
        reply = await self._fetched(ref)
        if reply.code != 0:
            raise self._away(reply)
        if (await self.git("cat-file", "-e", f"{tip}^{{commit}}", reads=True)).code != 0:
            raise Refused(
                f"{ref} leads to something that is no commit, or moved while it was fetched",
                where=self.shown,
                found=tip,
                remedy="Try again.",
            )
        await self.bring(tip)

    async def obtain(self, refs: Mapping[str, str]) -> dict[str, str]:
        """What these refs lead to is here now, in the user's repository: each object with its kind.

        What moved or vanished meanwhile, and what the remote cannot give, is left out.
        """
        names = list(dict.fromkeys(refs.values()))
        kinds = await self._kinds(names)
        lacking = [ref for ref, name in refs.items() if name not in kinds]
        for start in range(0, len(lacking), _AT_ONCE):
            some = lacking[start : start + _AT_ONCE]
            if (await self._fetched(*some)).code == 0:
                continue
            for ref in await self.refs(*some):  # one that is gone or broken keeps nobody from the others
                if (await self._fetched(ref)).code != 0:
                    await self.refs(ref)  # unless the remote is away
        return {**kinds, **await self._kinds([refs[ref] for ref in lacking])}

    async def _fetched(self, *refs: str) -> GitReply:
        quietly = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--refmap=")
        return await self.git("fetch", *quietly, self.name, *refs, network=True)

    async def _kinds(self, names: Sequence[str]) -> dict[str, str]:
        """The kinds of those objects that are here."""
        asked = os.fsencode("".join(f"{name}\n" for name in names))
        reply = await self.git("cat-file", "--batch-check", stdin=asked, reads=True)
        about = (line.split(" ") for line in reply.text.splitlines())
        return {facts[0]: facts[1] for facts in about if len(facts) == 3}

    async def files(self, names: Iterable[str], *, limit: int) -> dict[str, bytes]:
        """Files that are here and not larger than this, each by its name as git knows it: ``commit:path``."""
        wanted = list(names)
        asked = os.fsencode("".join(f"{name}\n" for name in wanted))
        reply = await self.git("cat-file", "--batch-check", stdin=asked, reads=True)
        about = zip(wanted, (line.split(" ") for line in reply.text.splitlines()), strict=True)
        small = [name for name, facts in about if facts[1:2] == ["blob"] and int(facts[2]) <= limit]
        asked = os.fsencode("".join(f"{name}\n" for name in small))
        told = (await self.git("cat-file", "--batch", stdin=asked, reads=True)).out if small else b""
        found: dict[str, bytes] = {}
        for name in small:
            head, _, told = told.partition(b"\n")
            size = int(head.split(b" ")[2])
            found[name], told = told[:size], told[size + 1 :]
        return found

    async def bring(self, commit: str) -> str:
        """The tree of a commit of the user's repository; it and all that it holds is in the shadow repository now."""
        tree = await self.asked("rev-parse", f"{commit}^{{tree}}")
        if self.repository is None:
            return tree
        listed = (
            f"{commit}\n".encode() + (await self.asked("rev-list", "--objects", "--no-object-names", tree)).encode()
        )
        checked = await self.workspace.shadow.plain.run("cat-file", "--batch-check", stdin=listed + b"\n", reads=True)
        missing = [line.split(b" ")[0] for line in checked.splitlines() if line.endswith(b" missing")]
        if missing:
            place = self.workspace.shadow.path / "objects" / "pack" / "pack"
            await self.asked("pack-objects", "--quiet", str(place), stdin=b"\n".join([*missing, b""]))
        return tree

    # -- changing it

    async def swap(self, *moves: Move) -> bool:
        """Move refs, all or none; whether each was still what it was, and now is what it is to be.

        `PushRefused` when they are as they were, since the remote does not let them be moved.
        """
        leases = [f"--force-with-lease={one.ref}:{one.old or ''}" for one in moves]
        together = ("--atomic",) if len(moves) > 1 else ()
        targets = [f"{one.new}:{one.ref}" for one in moves]
        reply = await self.git(
            "push", "--porcelain", "--no-verify", *together, *leases, self.name, *targets, network=True, lent=True
        )
        # What git says of a ref counts. The exit code is the same for a refusal and for much else.
        flags = [line[:1] for one in moves for line in reply.text.splitlines() if f":{one.ref}\t" in line]
        if reply.code == 0 and len(flags) == len(moves) and "!" not in flags:
            return True
        # A push whose answer got lost may have been carried out all the same.
        tips = await self.refs(*(one.ref for one in moves))
        if all(tips.get(one.ref) == one.new for one in moves):
            return True
        if "!" not in flags:
            raise self._away(reply)
        if all(tips.get(one.ref) == one.old for one in moves):
            raise PushRefused(
                f"the remote {self.shown} does not let {moves[0].ref} be written",
                found=_CREDENTIALS.sub("", f"{reply.text.strip()}\n{reply.error.strip()}")[-_SHOWN:],
                remedy="Ask whoever looks after it to allow that, or name another one: --remote.",
            )
        return False

    async def drop(self, ref: str, old: str) -> None:
        """Remove a ref, if it is still what it was."""
        lease = f"--force-with-lease={ref}:{old}"
        await self.git("push", "--porcelain", "--no-verify", lease, self.name, f":{ref}", network=True)

    def _away(self, reply: GitReply) -> RemoteAway:
        said = [line for line in reply.error.strip().splitlines() if line.strip()]
        return RemoteAway(
            f"the remote {self.shown} cannot be reached, or refuses",
            found=_CREDENTIALS.sub("", "\n".join(said[-4:]))[-_SHOWN:] or f"git ended with {reply.code}",
            remedy=TRY_AGAIN,
        )


def state_ref(run_id: str) -> str:
    """The ref that carries a run."""
    return f"{NAMESPACE}/{run_id}/state"


def key_ref(playbook: str, key: str) -> str:
    """The ref that leads to the run that is live for a playbook and a key."""
    asked = f"{playbook}\0{key}".encode()
    return f"{NAMESPACE}/keys/{sha256(asked)[:32]}"


def runs_of(refs: Mapping[str, str]) -> Sequence[str]:
    """The runs whose state refs these are."""
    found = (re.fullmatch(rf"{NAMESPACE}/([^/]+)/state", ref) for ref in refs)
    return sorted(match[1] for match in found if match is not None)

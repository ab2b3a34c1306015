"""The person's own repository, read: where it is, what is checked out, whether anything in it converts.

Nothing here changes it, takes a lock or starts a program that its settings name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from interlock.errors import Refused
from interlock.workspace.git import NOTHING, Git, object_name, pieces

DETACHED = "detached"
_BUSY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG")
_CONVERTS = re.compile(rb"(?<![-!\w])(text|crlf|eol|filter|ident|working-tree-encoding)\b")
_OFF = ("false", "no", "off", "0")
_AS_IT_IS = {"unspecified", "unset", "lf"}
"""Values of attributes by which git lays files there as commits have them."""
_HISTORY = (
    *("log", "--all", "--reflog", "--full-history", "-m", "--root", "--format="),
    *("--raw", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff"),
)
"""All versions of paths that any commit, stash or entry of a reflog had."""


@dataclass(frozen=True)
class CheckedOut:
    """What HEAD says."""

    branch: str
    """`refs/heads/x`, or `detached`."""
    head: str = ""
    """Its commit; empty where there is none yet."""
    tree: str = ""


class Repository:
    """The repository whose work tree is `top`."""

    def __init__(self, top: Path) -> None:
        found = repository_at(top)
        if found is None:
            raise Refused("this is no git repository any more", where=str(top))
        self.top = top
        self.git_dir, self.common_dir = found
        self.objects = self.common_dir / "objects"
        self.index = self.git_dir / "index"
        self.git = Git(self.git_dir, top, personal=True)

    @property
    def stores(self) -> list[Path]:
        """Its object folder and those that it borrows from, each by its real path."""
        found: list[Path] = []
        left = [self.objects]
        while left:
            store = Path(os.path.realpath(left.pop()))
            if store not in found and store.is_dir():
                found.append(store)
                names = content_of(store / "info" / "alternates").split(b"\n")
                left.extend(store / os.fsdecode(name) for name in names if name and not name.startswith(b"#"))
        return found

    # -- where it stands

    def checked_out(self) -> CheckedOut:
        reply = self.git.reply("rev-parse", "HEAD", "HEAD^{tree}", "--symbolic-full-name", "HEAD")
        if reply.code:
            return CheckedOut(self.git.text("symbolic-ref", "-q", "HEAD", ok=(0, 1)) or DETACHED)
        head, tree, branch = os.fsdecode(reply.out).split("\n")[:3]
        return CheckedOut(DETACHED if branch == "HEAD" else branch, head, tree)

    def busy(self) -> tuple[str, ...]:
        """The marks of a merge, rebase or the like that somebody is in the middle of."""
        return tuple(name for name in _BUSY if (self.git_dir / name).exists())

    def is_dirty(self) -> bool:
        """Whether anything is not committed, as git tells it. Filters do not run, so a file with a filter counts as
        changed once its times have changed."""
        filters = {name.rpartition(".")[0] for name in self.settings if name.startswith("filter.")}
        off = [f"{name}.{what}" for name in filters for what in ("clean=", "process=", "required=false")]
        git = replace(self.git, settings=tuple(off))
        return bool(git.run("status", "--porcelain", "-z", "--no-renames", "-unormal", "--ignore-submodules=dirty"))

    def commit(self, name: str) -> str:
        """The commit that a name stands for; empty where there is none."""
        reply = self.git.reply("rev-parse", "-q", "--verify", "--end-of-options", f"{name}^{{commit}}")
        return "" if reply.code else os.fsdecode(reply.out).strip()

    def contains(self, ref: str, commit: str) -> bool:
        """Whether a commit is in the history of a branch, or is its newest."""
        return self.git.reply("merge-base", "--is-ancestor", commit, ref).code == 0

    def elsewhere(self, branch: str) -> str:
        """Another worktree that has this branch checked out; moving the ref would change what git says of it."""
        folder = self.git.text("for-each-ref", "--format=%(worktreepath)", branch)
        return "" if not folder or Path(folder).resolve() == self.top.resolve() else folder

    def tracked(self) -> list[tuple[str, int, str, str]]:
        """Tag (`H`; `h` and `S` hide changes; `M` is in conflict), mode, blob and path of each entry of the index."""
        found = []
        for entry in self.git.names("ls-files", "-z", "-v", "--stage"):
            facts, _, path = entry.partition("\t")
            tag, mode, blob, stage = facts.split(" ")
            found.append((tag if stage == "0" else "M", int(mode, 8), blob, path))
        return found

    def had(self, paths: Sequence[str]) -> dict[str, dict[str, None]]:
        """All blobs that any commit, stash or entry of a reflog had at these paths, newest first, and the staged."""
        versions: dict[str, dict[str, None]] = {path: {} for path in paths}
        for piece in pieces(paths):
            for entry in self.git.names("ls-files", "-z", "--stage", "--", *piece):
                facts, _, path = entry.partition("\t")
                versions.setdefault(path, {})[facts.split(" ")[1]] = None
            # Its exit code is not looked at: of a partial or shallow clone it tells what is there.
            history = self.git.reply(*_HISTORY, "--ignore-missing", "--", *piece)
            for facts, path in pairwise(os.fsdecode(history.out).split("\0")):
                if facts.lstrip("\n").startswith(":") and path in versions:
                    old, new = facts.split(" ")[2:4]
                    versions[path].update({blob: None for blob in (new, old) if blob != NOTHING})
        return versions

    def committed(self, place: Path, content: bytes) -> bool:
        """Whether this content is, or may be, in some commit, so that somebody else may have written it."""
        path = place.relative_to(self.top.resolve()).as_posix().casefold()  # some disks know no case
        paths = [name for name in self.git.names("ls-files", "-z") if name.casefold() == path]
        if not paths:
            return False
        converting = ("filter", "ident", "working-tree-encoding", "eol")
        if set(self.git.names("check-attr", "-z", *converting, "--", *paths)[2::3]) - _AS_IT_IS:
            return True  # what git laid there is in no commit
        blobs = {object_name(content), object_name(content.replace(b"\r\n", b"\n"))}
        if not self.git.names("ls-files", "-z", "-m", "--", *paths):  # as git laid it there, by whatever attributes
            blobs |= {entry.split(" ")[1] for entry in self.git.names("ls-files", "-z", "--stage", "--", *paths)}
        fetched = re.findall(r"^[0-9a-f]{40}\b", os.fsdecode(content_of(self.git_dir / "FETCH_HEAD")), re.MULTILINE)
        history = self.git.reply(*_HISTORY, *fetched, "--", *paths)
        return history.code != 0 or any(os.fsencode(blob) in history.out for blob in blobs)

    def at_head(self, place: Path) -> bytes:
        """What the last commit holds at that place; nothing where it holds nothing."""
        path = place.relative_to(self.top.resolve()).as_posix()
        reply = self.git.reply("cat-file", "blob", f"HEAD:{path}")
        return b"" if reply.code else reply.out

    # -- settings

    @cached_property
    def settings(self) -> dict[str, str]:
        """Everything that git's settings say to this person here, names in lower case; the last value counts."""
        pairs = (entry.partition("\n") for entry in self.git.names("config", "-z", "--list"))
        found = {name.lower(): value for name, _, value in pairs}
        if found.get("extensions.objectformat", "sha1") != "sha1":
            raise Refused("this repository names its objects by SHA-256", where=str(self.top), expected="SHA-1")
        return found

    @cached_property
    def converts(self) -> bool:
        """Whether settings, or attributes outside of the tree, make git store other bytes than lie on disk."""
        if self.settings.get("core.autocrlf", "false").lower() not in _OFF:
            return True
        places = (*self._users("core.attributesfile", "attributes"), Path("/etc/gitattributes"))
        return any(attributes_convert(content_of(place)) for place in places)

    @cached_property
    def keeps_modes(self) -> bool:
        """Whether the executable bit on disk means anything here."""
        return self.settings.get("core.filemode", "true").lower() not in _OFF

    @cached_property
    def partial(self) -> bool:
        """Whether objects may be missing, to be fetched when somebody asks for them."""
        return any(name.endswith((".promisor", ".partialclonefilter")) for name in self.settings)

    def excludes(self) -> bytes:
        """The person's ignore rules that lie outside of the tree, the ones that win last."""
        places = self._users("core.excludesfile", "ignore", "exclude")
        return b"".join(content_of(place).removeprefix(b"\xef\xbb\xbf") + b"\n" for place in places)

    def _users(self, setting: str, name: str, in_info: str = "") -> tuple[Path, Path]:
        """A file of the person's for all repositories, and the one of this repository."""
        default = f"{os.environ.get('XDG_CONFIG_HOME') or '~/.config'}/git/{name}"
        theirs = self.top / Path(self.settings.get(setting, default)).expanduser()
        return theirs, self.common_dir / "info" / (in_info or name)

    def ignores(self, folder: Path) -> bool:
        return self.git.reply("check-ignore", "-q", "--", str(folder)).code == 0


def repository_at(top: Path) -> tuple[Path, Path] | None:
    """git dir and common dir of the repository whose work tree is `top`, found by reading files alone."""
    with suppress(OSError, ValueError):
        git_dir = top / ".git"
        if not git_dir.is_dir():
            word, _, target = os.fsdecode(content_of(git_dir)).partition(":")
            if word != "gitdir":
                return None
            git_dir = top / target.strip()
        if (git_dir / "HEAD").is_file():
            return git_dir.resolve(), (git_dir / os.fsdecode(content_of(git_dir / "commondir")).strip()).resolve()
    return None


def is_attributes(path: str) -> bool:
    return path.rpartition("/")[2] == ".gitattributes"


def attributes_convert(content: bytes) -> bool:
    """Whether a file of attributes names one by which git stores other bytes than lie on disk."""
    return any(_CONVERTS.search(line) for line in content.splitlines() if not line.lstrip().startswith(b"#"))


def borrowing(stores: Sequence[Path]) -> bytes:
    """A file of alternates: object folders to read from."""
    quoted = (
        os.fsencode(store).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") for store in stores
    )
    return b"".join(b'"' + name + b'"\n' for name in quoted)


def content_of(place: Path) -> bytes:
    """What is in a file of the person's; nothing where there is none, or nobody may read it."""
    try:
        return place.read_bytes() if place.is_file() else b""
    except OSError:
        return b""

"""The workspace as it lies on disk, as a git tree: everything that git does not ignore, tracked or not.

Theory of operation.  Each run has an index of its own.  It begins as a copy of the person's, stat data included, so
that only what they changed is read; where anything converts or is hidden, it begins with their names alone, since then
their blobs are not the bytes on disk.  When their index has changed it begins anew, for a file can be tracked though a
rule ignores it.  Then two gits look side by side: one for files that are new, one for files whose stat data changed;
what they find is looked at here first, because one unreadable file makes git give up all of them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from interlock.errors import WorkspaceFailed
from interlock.workspace.git import GITLINK, Entry, Git, index_lines, lines
from interlock.workspace.place import above, counts, stamp, status_of
from interlock.workspace.repository import Repository, attributes_convert, content_of, is_attributes
from interlock.workspace.values import Remark, RemarkKind, Tree, told


@contextmanager
def locked(place: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """A lock of the operating system's is held, which is free when this process dies."""
    handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)


class Snapshots:
    """Takes snapshots of one folder; each run's index is used by one thread of one process at a time."""

    def __init__(
        self, top: Path, git: Git, repository: Repository | None, largest: int, documents: Collection[str]
    ) -> None:
        self._top, self._git, self._repository = top, git, repository
        self._largest, self._documents = largest, documents
        self._begun: dict[str, tuple[int, ...] | None] = {}
        """The person's index from which a run's was made last."""
        self._tracked: dict[str, frozenset[str]] = {}

    def _place(self, run: str) -> Path:
        return self._git.git_dir / "indexes" / run

    @contextmanager
    def index(self, run: str) -> Iterator[Git]:
        """git with this run's index, held."""
        place = self._place(run)
        with locked(Path(f"{place}.turn")):
            Path(f"{place}.lock").unlink(missing_ok=True)  # a dead process's: it is ours alone
            # So git looks whether a file lies where a sparse checkout has left one out.
            settings = ["core.sparseCheckout=true"]
            settings += ["core.fileMode=false"] if self._repository and not self._repository.keeps_modes else []
            yield replace(self._git, work_tree=self._top, index=place, settings=tuple(settings))

    def forget(self, run: str) -> None:
        for name in (run, f"{run}.lock", f"{run}.turn"):
            self._place(name).unlink(missing_ok=True)
        self._begun.pop(run, None)

    def take(self, run: str) -> tuple[Tree, tuple[Remark, ...]]:
        """The tree of this moment, and remarks on what of the workspace is not in it."""
        with self.index(run) as git:
            for copying in (True, False):
                try:
                    return self._take(git, run, copying=copying)
                except WorkspaceFailed:  # a file vanished after it was listed, or a copy was not to be trusted
                    self._place(run).unlink(missing_ok=True)  # it is only a cache
                    self._begun.pop(run, None)
            return self._take(git, run, copying=False)

    def _take(self, git: Git, run: str, *, copying: bool) -> tuple[Tree, tuple[Remark, ...]]:
        excludes = self._git.git_dir / "info" / "exclude"  # the person's rules outside of the tree become ours
        rules = self._repository.excludes() if self._repository else b""
        if content_of(excludes) != rules:
            excludes.write_bytes(rules)
        index = status_of(self._repository.index) if self._repository else None
        begins = index is not None and (stamp(index) != self._begun.get(run) or not self._place(run).exists())
        named = self._begin(git, run, copying=copying) if begins else []
        with ThreadPoolExecutor(1) as aside:  # half of the time, where there are many files
            coming = aside.submit(git.names, "ls-files", "-z", "--others", "--exclude-standard")
            changed = git.names("diff-files", "-z", "--name-only", "--no-renames", "--ignore-submodules=dirty")
        there = [path for path in self._documents if os.path.lexists(self._top / path)]
        documents = git.names("ls-files", "-z", "--others", "--", *there) if there else []
        others = [path for path in (*coming.result(), *documents) if counts(path)]
        if begins and copying and not named and self._converts(others):
            raise WorkspaceFailed("attributes that nobody has added yet convert what the copied index holds")
        remarks, gone, there = self._sorted(run, others, dict.fromkeys((*changed, *named)))
        if gone:
            git.run("update-index", "-z", "--force-remove", "--stdin", stdin=lines(gone))
        if there:
            words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
            reply = git.reply(*words, stdin=lines(there))
            if reply.code:
                raise WorkspaceFailed("the workspace cannot be looked at", where=str(self._top), found=reply.why)
            refused = [line[14:] for line in reply.err.split(b"\n") if line.startswith(b"Ignoring path ")]
            remarks += told(RemarkKind.REFUSED, "git cannot hold files of this name", map(os.fsdecode, refused))
        # Blobs that are not there are an error, and the index is made anew, unless the clone is a partial one.
        partial = ("--missing-ok",) if self._repository and self._repository.partial else ()
        tree = Tree(git.text("write-tree", *partial))
        self._begun[run] = stamp(index) if index else None
        return tree, tuple(remarks)

    def _begin(self, git: Git, run: str, *, copying: bool) -> list[str]:
        """Make the run's index from the person's: a copy of it, or anew from its names. The paths that have to be read
        then."""
        assert self._repository is not None
        listed = self._repository.tracked()
        self._tracked[run] = frozenset(path for *_, path in listed)
        # A copy has what is in conflict, assume-unchanged and the like, which would hide what lies on disk.
        plain = all(tag == "H" and counts(path) for tag, _, _, path in listed) and not self._repository.converts
        if copying and plain and not self._converts(path for *_, path in listed):
            # Its time has to stay: by it git knows which files may have changed unnoticed.
            shutil.copy2(self._repository.index, self._place(run))
            return []
        taken: dict[str, Entry | None] = {}
        hidden: list[str] = []
        for tag, mode, blob, path in listed:
            if mode == GITLINK or (tag in "Ss" and not os.path.lexists(self._top / path)):
                taken[path] = (mode, blob)
                hidden += [path] if mode != GITLINK else []
        named = [path for *_, path in listed if path not in taken and counts(path)]
        gone = set(git.names("ls-files", "-z")).difference(taken, named)
        entries = index_lines({**dict.fromkeys(gone), **taken})
        git.run("update-index", "-z", "--index-info", stdin=entries)
        if hidden:
            git.run("update-index", "-z", "--skip-worktree", "--stdin", stdin=lines(hidden))
        return named

    def _sorted(
        self, run: str, others: Sequence[str], known: dict[str, None]
    ) -> tuple[list[Remark], list[str], list[str]]:
        """Remarks on what is left out, what is no file any more, and what is to be read."""
        tracked = self._tracked.get(run, frozenset())
        gone, there, large, closed = list[str](), list[str](), list[str](), list[str]()
        for path in dict.fromkeys((*known, *(path for path in others if not path.endswith("/")))):
            place = self._top / path
            status = status_of(place)
            is_file = status is not None and stat.S_ISREG(status.st_mode)
            if status is None or (path in known and any((self._top / name).is_symlink() for name in above(path))):
                gone.append(path)  # git refuses to look beyond a link
            elif is_file and status.st_size > self._largest and path not in tracked:
                large.append(path)
            elif is_file and not os.access(place, os.R_OK):
                closed.append(path)
            elif is_file or stat.S_ISLNK(status.st_mode) or stat.S_ISDIR(status.st_mode):
                there.append(path)
            else:
                gone.append(path)
        nested = [path for path in others if path.endswith("/")]
        text = f"untracked and over {self._largest >> 20} MB: agents see it, nothing of it is delivered"
        remarks = told(RemarkKind.NESTED, "a repository of its own: run interlock there", nested)
        remarks += told(RemarkKind.LARGE, text, large)
        remarks += told(RemarkKind.REFUSED, "cannot be read: it counts as it was", closed)
        return remarks, [*gone, *(path for path in large if path in known)], there

    def _converts(self, paths: Iterable[str]) -> bool:
        return any(attributes_convert(content_of(self._top / path)) for path in paths if is_attributes(path))

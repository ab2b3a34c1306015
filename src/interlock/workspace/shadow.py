"""The shadow repository: an object store with settings of its own in ``.interlock/snapshots.git``.

It lies in the workspace, where agents can write.  So its few control files are compared with ours before each
use and put back when they differ, and what never belongs there is removed.  Attributes are fixed in
``info/attributes``, which wins over every ``.gitattributes``: bytes are kept as they are, no filter, line-end
conversion, diff or merge driver applies.  Objects are never collected (`preciousObjects`): a snapshot needs no ref.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import uuid4

from interlock.documents.files import open_plain, remove_leftovers, replace_file
from interlock.errors import WorkspaceFailed
from interlock.workspace.clone import remove_folder
from interlock.workspace.git import Git

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

_CONFIG = b"""\
# Written by interlock before each use; changes are not kept.
[core]
\trepositoryformatversion = 1
\tbare = false
\tfilemode = true
\tsymlinks = true
\tlogallrefupdates = false
\tautocrlf = false
\tloosecompression = 1
[extensions]
\tpreciousObjects = true
[gc]
\tauto = 0
\tpruneExpire = never
\tworktreePruneExpire = never
[maintenance]
\tauto = false
"""

_CONTROL = {
    "HEAD": b"ref: refs/heads/none\n",
    "config": _CONFIG,
    "info/attributes": b"* -text !eol !crlf -ident !filter !working-tree-encoding !diff !merge !whitespace\n",
    "info/exclude": b"",
}
_FOREIGN = ("commondir", "config.worktree", "objects/info/alternates", "info/grafts", "shallow", "hooks")
_FOLDERS = ("objects/info", "objects/pack", "refs/heads", "info", "indexes", "tmp")

_EARLIER = re.compile(r"(?:HEAD|config|attributes|exclude)\.[0-9a-f]{32}")
"""How earlier versions called their temporary files."""
_LEFTOVER_S = 24 * 3600.0
_PROCESSES = 8


class Shadow:
    """Git objects of all snapshots of one workspace."""

    def __init__(self, home: Path) -> None:
        self.path = home / "snapshots.git"
        # As text, for they are looked at before each use.
        self._folders = [str(self.path / name) for name in ("", "objects", "refs", *_FOLDERS)]
        self._control = {self.path / name: content for name, content in _CONTROL.items()}
        self._foreign = [str(self.path / name) for name in _FOREIGN]
        self._tidied = False
        self._slots = asyncio.Semaphore(_PROCESSES)

    def git(self, work_tree: Path, *, folder: Path | None = None, index: Path | None = None) -> Git:
        """Git on the shadow repository, its control files just checked."""
        self._check()
        return Git(self.path, work_tree, folder=folder, index=index, own_common_dir=True)

    @property
    def plain(self) -> Git:
        """Git for commands that look at objects only."""
        return self.git(self.path)

    @asynccontextmanager
    async def busy(self) -> AsyncIterator[None]:
        """A place among the few operations that may run git at the same time."""
        async with self._slots:
            yield

    @asynccontextmanager
    async def scratch(self) -> AsyncIterator[Git]:
        """Git with an empty index that is gone afterwards."""
        self._check()
        index = self.path / "tmp" / f"{uuid4().hex}.index"
        try:
            yield Git(self.path, self.path, index=index, own_common_dir=True)
        finally:
            index.unlink(missing_ok=True)
            index.with_name(index.name + ".lock").unlink(missing_ok=True)

    async def graft(self, trees: Iterable[tuple[str, str]]) -> str:
        """One tree of (folder, tree) pairs, outer folders first; the folder of the outermost is empty."""
        async with self.scratch() as git:
            for folder, tree in trees:
                if not folder:
                    await git.run("read-tree", tree)
                elif tree != EMPTY_TREE:
                    await git.run("read-tree", f"--prefix={folder}/", tree)
            return (await git.run("write-tree")).decode().strip()

    def _check(self) -> None:
        try:
            for place in self._folders:
                if not _is_plain_folder(place):
                    # A link planted here would lead our writes to wherever it points.
                    if os.path.islink(place):  # noqa: PTH114
                        Path(place).unlink()
                    Path(place).mkdir(parents=True, exist_ok=True)
            for file, content in self._control.items():
                _keep(file, content)
            for place in self._foreign:
                if os.path.lexists(place):
                    remove_folder(Path(place))
            if not self._tidied:
                self._tidied = True
                _remove_leftovers(self.path / "tmp")
                for folder in (self.path, self.path / "info"):
                    remove_leftovers(folder)
                    remove_leftovers(folder, _EARLIER)
        except OSError as error:
            place = str(error.filename or self.path)
            raise WorkspaceFailed.of(error, "the shadow repository cannot be prepared", where=place) from error


def _is_plain_folder(place: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(place).st_mode)
    except FileNotFoundError:
        return False


def _keep(file: Path, content: bytes) -> None:
    try:
        if _beginning(file, len(content) + 1) == content:
            return
    except OSError:
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
    replace_file(file, content, sync=False)


def _beginning(file: Path, size: int) -> bytes:
    handle = open_plain(file)
    try:
        return os.read(handle, size)
    finally:
        os.close(handle)


def _remove_leftovers(folder: Path) -> None:
    """Scratch files of a process that was killed; a living one uses its own for seconds."""
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):  # another process has just finished with it
            if time.time() - entry.stat(follow_symlinks=False).st_mtime > _LEFTOVER_S:
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    Path(entry.path).unlink(missing_ok=True)

"""Two sets of files that a shadow repository keeps, compared by git; nothing is written there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from interlock.workspace.git import Git
from interlock.workspace.objects import Stored, store_tree
from interlock.workspace.shadow import Shadow

AT_ONCE = 64_000
"""Bytes of paths that one call of git is given."""

FileSet = Mapping[str, Stored]


@dataclass(frozen=True)
class Comparison:
    """Git over the objects of a shadow repository, in a folder of its own that is gone afterwards."""

    _shadow: Shadow
    _git: Git

    def files(self, tree: str, paths: Iterable[str]) -> dict[str, Stored]:
        """What a tree has at these paths; a folder is no file."""
        found: dict[str, Stored] = {}
        for some in _portions(paths):
            told = self._git.at_once("ls-tree", "-z", "--full-tree", tree, "--", *some)
            for row in told.split(b"\0")[:-1]:
                facts, _, name = row.partition(b"\t")
                mode, kind, blob = facts.decode("ascii").split(" ")
                if kind != "tree":
                    found[name.decode("utf-8", "surrogateescape")] = Stored(int(mode, 8), blob)
        return found

    def sizes(self, blobs: Sequence[str]) -> dict[str, int]:
        """The bytes of these objects; those that are not there are left out."""
        asked = "".join(f"{blob}\n" for blob in blobs).encode()
        told = self._git.at_once("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=asked)
        rows = (row.split(" ") for row in told.decode("ascii").splitlines())
        return {name: int(size) for name, size in rows if size.isdigit()}

    def patch(self, old: FileSet, new: FileSet, *options: str) -> bytes:
        """The difference of two sets of files, each named by its path."""
        trees = (store_tree(self._shadow, files.items()) for files in (old, new))
        return self._git.at_once("diff-tree", *_PATCH, *options, *trees)


_PATCH = ("-r", "-p", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")


@contextmanager
def comparison(home: Path) -> Iterator[Comparison]:
    """Looks at what the shadow repository in this folder keeps."""
    with TemporaryDirectory(prefix="interlock-", ignore_cleanup_errors=True) as place:
        shadow = Shadow(Path(place))
        yield Comparison(shadow, replace(shadow.plain, borrowed=home / "snapshots.git" / "objects"))


def _portions(paths: Iterable[str]) -> Iterator[list[str]]:
    some: list[str] = []
    size = 0
    for path in paths:
        length = len(path.encode("utf-8", "surrogateescape")) + 1
        if some and size + length > AT_ONCE:
            yield some
            some, size = [], 0
        some.append(path)
        size += length
    if some:
        yield some

"""States of the workspace as git trees in a repository of our own, and everything that is done with them.

Theory of operation.  `.interlock/trees.git` holds trees as they lie on disk: attributes there are fixed, so that no
filter, line end or merge driver applies.  It borrows the objects of the person's repository, so that most of a
snapshot is there already; what a run names gets a ref and a pack of its own (`keep`), since their `gc` may take
borrowed ones away.  A merge is git's own, of three commits made for it, without renames: each conflict is a path's.
One lock holds over all runs and processes of a workspace: shared for snapshots, exclusive for deliveries.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from interlock.documents.files import replace as replace_file
from interlock.errors import Refused, WorkspaceFailed
from interlock.workspace.git import (
    LINK,
    NOTHING,
    OLDEST_GIT,
    Entry,
    Git,
    index_lines,
    lines,
    listed,
    object_name,
    pieces,
)
from interlock.workspace.place import Workspace, above, status_of
from interlock.workspace.repository import (
    DETACHED,
    CheckedOut,
    Repository,
    attributes_convert,
    borrowing,
    is_attributes,
    repository_at,
)
from interlock.workspace.snapshot import Snapshots, locked
from interlock.workspace.values import EMPTY, Change, Merged, Standing, Tree, Where

_CONTROL = {
    "HEAD": "ref: refs/heads/none\n",
    "config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tlogallrefupdates = false\n[gc]\n\tauto = 0\n",
    "info/attributes": "* -text -filter -ident -working-tree-encoding !eol !crlf !diff !whitespace merge=text\n",
}
_FOLDERS = ("objects/info", "objects/pack", "refs/heads", "info", "indexes", "landing")
_DIFF = (
    *("-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none"),
    *("--full-index",),
)
_PIECE = 256
_ARGUMENTS = 500
_SETTLES = 40
_AT_WORK_S = 3

_SIDES = ("ours", "base", "theirs")
_MARK = 60
_MARKS = re.compile(rb"\n(?:<{60}|\|{60}|={60}|>{60})[^\n]*(?=\n)")


@dataclass(frozen=True)
class Delta:
    """One path between two trees; None where it is not there."""

    path: str
    old: Entry | None
    new: Entry | None


class Trees:
    """The trees of one workspace; also without a repository of the person."""

    def __init__(self, workspace: Workspace, *, largest: int = 32 << 20) -> None:
        self.workspace = workspace
        self.repository = Repository(workspace.top) if repository_at(workspace.top) else None
        self.folder = workspace.own / "trees.git"
        self.objects = self.folder / "objects"
        self._largest = largest
        self.documents: set[str] = set()
        """Folders and files of processes: in every tree, also where they are ignored."""
        self._converting: dict[Tree, bool] = {}
        self._asked = EMPTY

    @cached_property
    def git(self) -> Git:
        """git on our repository, which is there from the first use on."""
        version = Git(self.workspace.top).text("version")
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST_GIT:
            wanted = ".".join(map(str, OLDEST_GIT))
            raise Refused(f"{version} is too old", expected=wanted, remedy="Install a later git.")
        self.workspace.prepared()
        try:
            for name in _FOLDERS:
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            for name, content in _CONTROL.items():
                self._write(name, content.encode())
            self._write("objects/info/alternates", borrowing(self.repository.stores if self.repository else []))
        except OSError as error:
            raise WorkspaceFailed.of(error, "the trees of the workspace cannot be kept") from error
        return Git(self.folder)

    def _write(self, name: str, content: bytes) -> None:
        place = self.folder / name
        if place.is_symlink() or not place.is_file() or place.read_bytes() != content:
            replace_file(place, content, mode=0o644, sync=False)

    @cached_property
    def snapshots(self) -> Snapshots:
        return Snapshots(self.workspace.top, self.git, self.repository, self._largest, self.documents)

    def reading(self) -> AbstractContextManager[None]:
        """Nobody delivers meanwhile, in any process."""
        return locked(self.git.git_dir / "turn", fcntl.LOCK_SH)

    def writing(self) -> AbstractContextManager[None]:
        """Nobody looks or delivers meanwhile."""
        return locked(self.git.git_dir / "turn")

    # -- snapshots

    def where(self) -> Where:
        """Branch and place, for a run's start."""
        return Where(place=self.workspace.place, branch=self._checked_out().branch)

    def _checked_out(self) -> CheckedOut:
        return self.repository.checked_out() if self.repository else CheckedOut("")

    def standing(self, run: str, where: Where, last: Standing | None = None) -> Standing:
        """The workspace of this moment, as a run of that branch sees it; `last` is what it saw before."""
        with self.reading():
            for _ in range(_SETTLES):
                at = self._checked_out()
                if where.branch and at.branch and at.branch != where.branch:
                    return self._away(where, last)
                tree, left_out = self.snapshots.take(run)
                # A checkout that is under way writes HEAD last: half of two branches is nobody's tree.
                if self._checked_out() == at and not self._is_switching():
                    break
                time.sleep(0.05)
        asks = self.repository and at.tree and self.converts(tree)
        unsaved = self.repository.is_dirty() if self.repository and asks else tree != at.tree
        return Standing(tree=tree, head=at.head, unsaved=unsaved, left_out=left_out)

    def _is_switching(self) -> bool:
        """Whether the person's git is at work; one that died left its lock long ago."""
        lock = status_of(self.repository.git_dir / "index.lock") if self.repository else None
        return lock is not None and time.time() - lock.st_mtime < _AT_WORK_S

    def _away(self, where: Where, last: Standing | None) -> Standing:
        """Another branch is checked out: the last tree seen on the run's own, with what its ref has gained since."""
        assert self.repository is not None
        head = "" if where.branch == DETACHED else self.repository.commit(where.branch)
        if last is None:
            return Standing(tree=self.committed(head), head=head, away=True)
        if not head or head == last.head:
            return last.model_copy(update={"away": True})
        committed = self.committed(head)
        tree, _ = self.merge_for(self.committed(last.head), last.tree, committed)
        unsaved = last.unsaved if self.converts(tree) else tree != committed
        return Standing(tree=tree, head=head, away=True, unsaved=unsaved, left_out=last.left_out)

    def copy_index(self, run: str, place: Path) -> Tree:
        """The index of this run's last snapshot as a file at `place`, stat data included, and the tree it holds."""
        with self.snapshots.index(run) as git:
            assert git.index is not None
            if git.index.exists():
                shutil.copy2(git.index, place)
            return Tree(git.text("write-tree", "--missing-ok"))

    # -- merges and differences

    def merge(self, base: Tree, ours: Tree, theirs: Tree) -> Merged:
        """The three trees merged, path by path."""
        if theirs in (ours, base):
            return Merged(tree=ours)
        if ours == base:
            return Merged(tree=theirs)
        left, right = ({d.path: d.new for d in self.deltas(base, side)} for side in (ours, theirs))
        # git looks for renames, whatever settings say, where a side removed what the other changed or removed, too.
        shared = [path for path, entry in left.items() if path in right and None in (entry, right[path])]
        if removed := [path for path in shared if left[path] != right[path]]:
            rest = self.merge(base, self.graft(ours, theirs, removed), theirs)
            return Merged(conflicts=(*removed, *rest.conflicts))
        if shared:
            return self.merge(self.tree_of(base, dict.fromkeys(shared)), ours, theirs)
        root = self.commit(base)
        sides = [self.commit(side, root) for side in (ours, theirs)]
        words = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages")
        found = self.git.names(*words, *sides, ok=(0, 1))
        if len(found) == 1:
            return Merged(tree=Tree(found[0]))
        # A file that is in the way of a folder is called after its side.
        marks = re.compile(f"~(?:{'|'.join(sides)})(?:_\\d+)?$")
        return Merged(conflicts=tuple(dict.fromkeys(marks.sub("", path) for path in found[1:])))

    def merge_for(self, base: Tree, ours: Tree, theirs: Tree) -> tuple[Tree, tuple[str, ...]]:
        """The merge with `theirs` on each path in conflict, and these paths."""
        clashes: dict[str, None] = {}
        while (merged := self.merge(base, ours, theirs)).tree is None:
            clashes.update(dict.fromkeys(merged.conflicts))
            taken = self.graft(ours, theirs, merged.conflicts)
            # A folder in a file's place: the conflict names what is below, too.
            ours = taken if taken != ours else theirs
        return merged.tree, tuple(clashes)

    def merge_texts(self, base: bytes, ours: bytes, theirs: bytes, *options: str) -> bytes | None:
        """Three texts merged; None where they are no texts, or conflict and no option says what to do then."""
        with TemporaryDirectory() as folder:
            for name, text in zip(_SIDES, (ours, base, theirs), strict=True):
                Path(folder, name).write_bytes(text)
            reply = self.git.reply("merge-file", "-p", "-q", *options, *(f"{folder}/{name}" for name in _SIDES))
        return reply.out if reply.code == 0 or "--diff3" in options else None

    def clashes(self, base: bytes, ours: bytes, theirs: bytes) -> list[tuple[bytes, bytes, bytes]]:
        """The places where three texts cannot be merged: ours, base and theirs of each."""
        told = self.merge_texts(base, ours, theirs, "--diff3", f"--marker-size={_MARK}") or b""
        parts = _MARKS.split(b"\n" + told)
        return list(zip(parts[1::4], parts[2::4], parts[3::4], strict=True))

    def commit(self, tree: str, parent: str = "", text: str = "", when: int = 0) -> str:
        """A commit of a tree in nobody's name: git 2.38 merges commits alone."""
        above = f"parent {parent}\n" if parent else ""
        who = f"interlock <interlock@localhost> {when} +0000"
        return self.write(f"tree {tree}\n{above}author {who}\ncommitter {who}\n\n{text}\n".encode(), "commit")

    def deltas(self, old: Tree, new: Tree, paths: Sequence[str] = ()) -> list[Delta]:
        """What differs, by name alone."""
        fields = iter(self._compared(old, new, paths, "--raw"))
        _, wanted = _among(paths)
        found = []
        for facts, path in zip(fields, fields, strict=True):
            mode, new_mode, blob, new_blob, _ = facts[1:].split(" ")
            if wanted(path):
                found.append(Delta(path, _entry(mode, blob), _entry(new_mode, new_blob)))
        return found

    def between(self, old: Tree, new: Tree, paths: Sequence[str] = ()) -> list[Change]:
        """What differs, with lines counted."""
        counted = {}
        for field in self._compared(old, new, paths, "--numstat"):
            added, removed, path = field.split("\t", 2)
            counted[path] = {} if added == "-" else {"added": int(added), "removed": int(removed)}
        deltas = self.deltas(old, new, paths)
        return [Change(path=delta.path, kind=_kind(delta), **counted[delta.path]) for delta in deltas]

    def _compared(self, old: Tree, new: Tree, paths: Sequence[str], what: str) -> list[str]:
        asked, _ = _among(paths)
        return self.git.names("diff-tree", *_DIFF, "-z", what, old, new, "--", *asked) if old != new else []

    def patch(self, old: Tree, new: Tree, paths: Sequence[str] = ()) -> bytes:
        """The difference for `git apply`; bytes of binary files included."""
        asked = paths if len(paths) <= _ARGUMENTS else [delta.path for delta in self.deltas(old, new, paths)]
        words = ("diff-tree", *_DIFF, "-p", "--binary", old, new, "--")
        return b"".join(self.git.run(*words, *piece) for piece in pieces(asked) or [()])

    # -- one tree

    def committed(self, commit: str) -> Tree:
        """What a commit of theirs or of ours holds, in the clean spelling; without a commit nothing."""
        return Tree(self.git.text("rev-parse", "--verify", f"{commit}^{{tree}}")) if commit else EMPTY

    def entries(self, tree: Tree, paths: Sequence[str] = ()) -> dict[str, Entry]:
        """Mode and blob of each file, of these paths and what is below them, else of all."""
        asked, wanted = _among([path.rstrip("/") for path in paths])
        found = listed(self.git.run("ls-tree", "-r", "-z", "--full-tree", tree, "--", *asked))
        return {path: entry for path, entry in found.items() if wanted(path)}

    def read(self, tree: Tree, path: str) -> bytes | None:
        """A file's content, or a link's target; None where there is none."""
        entry = self.entries(tree, [path]).get(path)
        return None if entry is None else self.git.run("cat-file", "blob", entry[1])

    def blobs(self, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Many contents; what is not there (of a partial clone) is left out."""
        for wanted in pieces(list(dict.fromkeys(names)), _PIECE):
            out = self.git.run("cat-file", "--batch", stdin="\n".join(wanted).encode())
            start = 0
            while start < len(out):
                head, start = out[start : (end := out.index(b"\n", start))].split(b" "), end + 1
                if head[-1] != b"missing":
                    size = int(head[2])
                    yield head[0].decode(), out[start : start + size]
                    start += size + 1

    def write(self, content: bytes, kind: str = "blob") -> str:
        """Keep an object; its name."""
        name = object_name(content, kind)
        self.take_over(name, zlib.compress(b"%s %d\0" % (kind.encode(), len(content)) + content, 1))
        return name

    def take_over(self, name: str, packed: bytes) -> None:
        """Keep an object, given as the bytes of git's own file for it."""
        place = self.git.git_dir / "objects" / name[:2] / name[2:]
        if not place.exists():
            place.parent.mkdir(exist_ok=True)
            replace_file(place, packed, mode=0o444, sync=False)

    @contextmanager
    def scratch(self, tree: Tree = EMPTY, work_tree: Path | None = None) -> Iterator[Git]:
        """git with an index that holds this tree and is gone afterwards."""
        with TemporaryDirectory() as folder:
            git = replace(self.git, index=Path(folder, "index"), work_tree=work_tree)
            if tree != EMPTY:
                git.run("read-tree", tree)
            yield git

    def tree_of(self, base: Tree, changes: Mapping[str, Entry | None]) -> Tree:
        """`base` with these paths changed (None: removed); a file may take a folder's place, and the other way
        round."""
        if not changes:
            return base
        with self.scratch(base) as git:
            git.run("update-index", "-z", "--replace", "--index-info", stdin=index_lines(changes))
            return Tree(git.text("write-tree", "--missing-ok"))

    def graft(self, tree: Tree, source: Tree, paths: Sequence[str]) -> Tree:
        """`tree` with these paths, files or folders, as `source` has them; absence too."""
        if not paths or tree == source:
            return tree
        gone: dict[str, Entry | None] = dict.fromkeys(self.entries(tree, paths))
        there = self.entries(source, paths)
        return self.tree_of(tree, {**gone, **there})

    def from_folder(self, base: Tree, folder: Path, paths: Sequence[str]) -> Tree:
        """`base` with these paths as they lie in `folder`; what is no file or link there is gone."""
        if not paths:
            return base
        there = [path for path in paths if _is_file(folder, path)]
        found = set(there)
        gone = [path for path in paths if path not in found]
        with self.scratch(base, folder) as git:
            if gone:
                git.run("update-index", "-z", "--force-remove", "--stdin", stdin=lines(gone))
            if there:
                git.run("update-index", "-z", "--add", "--remove", "--replace", "--stdin", stdin=lines(there))
            return Tree(git.text("write-tree", "--missing-ok"))

    # -- what the person's repository knows

    def converts(self, tree: Tree) -> bool:
        """Whether git would store other bytes of this tree than lie on disk."""
        if self.repository is None or self.repository.converts:
            return self.repository is not None
        if tree not in self._converting:
            near, self._asked = self._asked, tree
            if near in self._converting and not any(is_attributes(delta.path) for delta in self.deltas(near, tree)):
                self._converting[tree] = self._converting[near]
            else:
                files = {entry[1] for path, entry in self.entries(tree).items() if is_attributes(path)}
                self._converting[tree] = any(attributes_convert(content) for _, content in self.blobs(files))
        return self._converting[tree]

    def had(self, paths: Sequence[str]) -> dict[str, dict[str, None]]:
        """All versions, in the clean spelling, that the person's git had at these paths, newest first."""
        return self.repository.had(paths) if self.repository and paths else {path: {} for path in paths}

    def declare(self, globs: Iterable[str]) -> None:
        """Note documents of a process, which no rule ignores: of each glob what stands before its first wildcard."""
        self.documents.update(prefix for glob in globs if (prefix := re.split(r"/?[^/]*[*?]", glob)[0].strip("/")))

    def is_document(self, path: str) -> bool:
        return not self.documents.isdisjoint((path, *above(path)))

    def ignored(self, paths: Sequence[str], standing: Tree = EMPTY, rules: Tree = EMPTY) -> set[str]:
        """Which of the paths are ignored: by the person's rules, unless git tracks them, or by those of the tree
        `rules`, where these differ from `standing`. Declared documents never are."""
        git, top = self.repository.git if self.repository else self.git, self.workspace.top
        asked = [path for path in paths if not self.is_document(path)]
        # git gives up at the first path beyond a link or inside a repository of its own.
        beyond = cache(lambda folder: (top / folder).is_symlink() or os.path.lexists(top / folder / ".git"))
        reached = [path for path in asked if not any(map(beyond, above(path)))]
        found = _ignored(replace(git, work_tree=top), reached) if reached else set()
        found -= set(git.names("ls-files", "-z") if found else ())
        left = [path for path in asked if path not in found]
        if left and any(is_rules(delta.path) for delta in self.deltas(standing, rules)):
            found |= self._ignored_by(rules, left)
        return found

    def _ignored_by(self, tree: Tree, paths: Sequence[str]) -> set[str]:
        """Which of the paths the ignore files of a tree ignore; git reads copies of these, where no program writes."""
        rules = [(path, blob) for path, (mode, blob) in self.entries(tree).items() if is_rules(path) and mode != LINK]
        texts = dict(self.blobs(blob for _, blob in rules))
        with TemporaryDirectory() as folder:
            for path, blob in rules:
                Path(folder, path).parent.mkdir(parents=True, exist_ok=True)
                Path(folder, path).write_bytes(texts.get(blob, b""))
            return _ignored(replace(self.git, work_tree=Path(folder)), paths)

    def hidden(self, paths: Sequence[str]) -> set[str]:
        """Those of the paths that are not on disk because a sparse checkout leaves them out."""
        absent = {path for path in paths if not os.path.lexists(self.workspace.top / path)}
        if not absent or self.repository is None:
            return set()
        return {path for tag, _, _, path in self.repository.tracked() if tag in "Ss" and path in absent}

    # -- keeping

    def keep(self, run: str, trees: Sequence[Tree]) -> None:
        """Keep these trees from every gc: by a ref that has them all, and a pack with what is in no commit."""
        ref = f"refs/interlock/{run}"
        with self.snapshots.index(run):  # members of a group keep theirs side by side
            before = self.git.text("rev-parse", "-q", "--verify", ref, ok=(0, 1))
            head = self._checked_out().tree
            folders = "".join(f"040000 tree {tree}\t{tree}\n" for tree in sorted(set(trees)))
            commit = self.commit(self.git.text("mktree", stdin=folders.encode()), before)
            known = [f"^{name}" for name in (before, head) if name]
            words = ("rev-list", "--objects", "--no-object-names", "--missing=allow-any", commit, *known)
            wanted = self.git.run(*words)
            if head and not before:
                # An amended or rebased commit takes its trees along, and no merge works without them.
                facts = self.git.run("ls-tree", "-r", "-d", "--full-tree", "--format=%(objectname)", head)
                wanted += head.encode() + b"\n" + facts
            place = self.objects / "pack" / "pack"
            self.git.run("pack-objects", "-q", "--non-empty", "--missing=allow-any", str(place), stdin=wanted)
            self.git.run("update-ref", ref, commit, before or NOTHING)

    def forget(self, run: str) -> None:
        """Let go of a run's trees; with the last run everything goes."""
        with self.writing():
            self.git.run("update-ref", "-d", f"refs/interlock/{run}")
            self.snapshots.forget(run)
            left = self.git.run("for-each-ref", "--count=1", "refs/interlock")
            if not left and not any((self.folder / "indexes").iterdir()):
                for place in self.objects.iterdir():
                    if place.name != "info":
                        shutil.rmtree(place)
                (self.objects / "pack").mkdir()


def _among(paths: Sequence[str]) -> tuple[Sequence[str], Callable[[str], bool]]:
    """The paths to ask git about (none, so all, where they are too many for a command line), and which answers
    count."""
    if len(paths) <= _ARGUMENTS:
        return paths, lambda _: True
    names = set(paths)
    return (), lambda path: path in names or not names.isdisjoint(above(path))


def is_rules(path: str) -> bool:
    """Whether it is a file of ignore rules."""
    return path.rpartition("/")[2] == ".gitignore"


def _ignored(git: Git, paths: Sequence[str]) -> set[str]:
    # It knows no literal paths; `./` before it, for a name may begin with what git takes for magic.  With an index it
    # would give up at a path in a submodule.
    asked = lines([f"./{path}" for path in paths])
    words = ("check-ignore", "--no-index", "-z", "--stdin")
    return {path[2:] for path in git.names(*words, stdin=asked, ok=(0, 1))}


def _entry(mode: str, blob: str) -> Entry | None:
    return (int(mode, 8), blob) if blob != NOTHING else None


def _kind(delta: Delta) -> str:
    if LINK in (delta.old and delta.old[0], delta.new and delta.new[0]):
        return "link"
    if delta.old is None:
        return "added"
    if delta.new is None:
        return "deleted"
    return "mode" if delta.old[1] == delta.new[1] else "changed"


def _is_file(folder: Path, path: str) -> bool:
    """Whether a file or link is there, not reached through a link."""
    place = folder / path
    return (place.is_symlink() or place.is_file()) and not any((folder / name).is_symlink() for name in above(path))

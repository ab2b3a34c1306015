"""A maker of layers for tests alone: a plain copy with a repository of its own, as TREES.md wants one to look."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from interlock.workspace.git import Git
from interlock.workspace.place import counts
from interlock.workspace.setting_back import free, mend
from interlock.workspace.trees import LINK, Trees
from interlock.workspace.values import EMPTY, Found, Standing, Tree

IDENTITY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


class Layer(Protocol):
    """What the sequences need of a layer."""

    def run(self, script: str) -> None: ...
    def found(self, own: Mapping[str, str]) -> Found: ...
    def drop(self) -> None: ...


class Maker(Protocol):
    def open(self, run: str, standing: Standing, shown: Tree) -> Layer: ...
    def clean(self, tree: Tree) -> Tree:
        """The clean spelling of a tree."""
        ...


class FakeMaker:
    def __init__(self, trees: Trees, folder: Path) -> None:
        self._trees = trees
        self._folder = folder
        self._number = 0

    def open(self, run: str, standing: Standing, shown: Tree) -> FakeLayer:
        self._number += 1
        return FakeLayer(self._trees, self._folder / str(self._number), standing, shown)

    def clean(self, tree: Tree) -> Tree:
        self._number += 1
        head = self._trees.repository.checked_out().head if self._trees.repository else ""
        layer = FakeLayer(self._trees, self._folder / str(self._number), Standing(tree=tree, head=head), tree)
        try:
            return layer.clean()
        finally:
            layer.drop()


class FakeLayer:
    def __init__(self, trees: Trees, root: Path, standing: Standing, shown: Tree) -> None:
        self._trees = trees
        self._standing = standing
        self._shown = shown
        self._root = root
        top = trees.workspace.top
        shutil.copytree(top, root, symlinks=True, ignore=lambda at, _: [".git", ".interlock"] if at == str(top) else [])
        self._repository(standing.head)
        self._lay(self._trees.snapshots.take("fake")[0], standing.tree)
        self._now_clean = self._commit("what you have not committed")
        self._lay(standing.tree, shown)
        self._shown_clean = self._commit("the work so far")

    def _git(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> str:
        """As the person's own: their filters run in here."""
        words = ["git", "-c", "core.hooksPath=/dev/null", *args]
        around = {"PATH": os.environ["PATH"], "HOME": str(self._root.parent), **IDENTITY, **(env or {})}
        ended = subprocess.run(words, cwd=self._root, env=around, input=stdin, capture_output=True, check=False)
        assert ended.returncode == 0, (args, ended.stderr)
        return os.fsdecode(ended.stdout).strip()

    def _repository(self, head: str) -> None:
        theirs = self._trees.repository
        branch = theirs.checked_out().branch if theirs else "refs/heads/main"
        self._git("init", "-q")
        git_dir = self._root / ".git"
        stores = [self._trees.objects, *([theirs.objects] if theirs else [])]
        (git_dir / "objects/info/alternates").write_bytes(b"".join(os.fsencode(store) + b"\n" for store in stores))
        if theirs:
            shutil.copy(theirs.common_dir / "config", git_dir / "config")
            self._git("config", "core.bare", "false")
            for name in ("info/attributes", "info/exclude"):
                if (theirs.common_dir / name).is_file():
                    (git_dir / "info").mkdir(exist_ok=True)
                    shutil.copy(theirs.common_dir / name, git_dir / name)
            for line in theirs.git.run("for-each-ref", "--format=create %(refname) %(objectname)").splitlines():
                self._git("update-ref", "--stdin", stdin=line + b"\n")
        self._git("symbolic-ref", "HEAD", branch if branch != "detached" else "refs/heads/detached")
        if head:
            self._git("update-ref", "HEAD", head)
            self._git("read-tree", head)

    def _lay(self, old: Tree, new: Tree) -> None:
        for delta in self._trees.deltas(old, new):
            place = self._root / delta.path
            if delta.old is not None:
                place.unlink(missing_ok=True)
            if delta.new is not None:
                place.parent.mkdir(parents=True, exist_ok=True)
                content = self._trees.git.run("cat-file", "blob", delta.new[1])
                if delta.new[0] == LINK:
                    place.symlink_to(os.fsdecode(content))
                else:
                    place.write_bytes(content)
                    place.chmod(0o755 if delta.new[0] & 0o100 else 0o644)

    def _commit(self, message: str) -> Tree:
        env = {"GIT_OBJECT_DIRECTORY": str(self._trees.objects)}
        self._git("add", "-A", env=env)
        tree = Tree(self._git("write-tree", env=env))
        head = self._git("rev-parse", "-q", "--verify", "HEAD") if self._has_head() else ""
        if not head or tree != self._git("rev-parse", "HEAD^{tree}"):
            parents = ["-p", head] if head else []
            self._git("update-ref", "HEAD", self._git("commit-tree", "-m", message, *parents, tree))
        return tree

    def _has_head(self) -> bool:
        return (
            subprocess.run(
                ["git", "rev-parse", "-q", "--verify", "HEAD"], cwd=self._root, capture_output=True
            ).returncode
            == 0
        )

    def run(self, script: str) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": str(self._root.parent), **IDENTITY, "GIT_EDITOR": "true"}
        subprocess.run(["sh", "-c", script], cwd=self._root, env=env, capture_output=True, check=False, timeout=120)

    def clean(self) -> Tree:
        """The clean spelling of what lies here, in the repository of ours."""
        index = self._root.parent / f"{self._root.name}.index"
        env = {"GIT_INDEX_FILE": str(index), "GIT_OBJECT_DIRECTORY": str(self._trees.objects)}
        self._git("read-tree", self._shown_clean, env=env)
        self._git("add", "-A", env=env)
        return Tree(self._git("write-tree", env=env))

    def found(self, own: Mapping[str, str]) -> Found:
        git = replace(Git(self._trees.folder), work_tree=self._root, index=self._root / ".git/ours")
        git.run("read-tree", self._shown)
        known = git.names("ls-files", "-z")
        others = git.names("ls-files", "-z", "-o", "--exclude-standard")
        left = self._trees.from_folder(self._shown, self._root, [path for path in (*known, *others) if counts(path)])
        repository = self._trees.repository
        now = self._trees.snapshots.take("fake")[0] if not self._standing.away else self._standing.tree
        result, clashes = free(self._trees, base=self._standing.tree, now=now, shown=self._shown, result=left)
        head = Tree(repository.tree(self._standing.head)) if repository and self._standing.head else EMPTY
        clean = None
        if self._trees.converts(result) or self._trees.converts(self._shown):
            clean = (self._now_clean, self._shown_clean, self.clean())
        mended = mend(
            self._trees, head=head, now=self._standing.tree, shown=self._shown, result=result, own=own, clean=clean
        )
        return Found(result=result, mended=mended.tree, set_back=mended.set_back, clashes=(*clashes, *mended.clashes))

    def drop(self) -> None:
        shutil.rmtree(self._root)

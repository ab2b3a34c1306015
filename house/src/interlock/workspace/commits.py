"""Commits of a run's work, made without running anything of the person's (TREES, Commits).

The object is made first, in our repository, so that its id is known and can be noted; then its objects go over, and the
ref moves by compare-and-swap.  Of the branch that is checked out the person's index follows: what they staged stays so.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime

from interlock.workspace.repository import DETACHED, Repository
from interlock.workspace.trees import Delta, Trees
from interlock.workspace.values import EMPTY, Committed, Merged, Tree, Where

_NONE = "0" * 40


class Commits:
    """Puts what a run did into the person's history."""

    def __init__(self, trees: Trees, clean: Callable[[Tree], Tree]) -> None:
        """
        Args:
            clean: the clean spelling of a tree, as the person's git would store it.
        """
        self._trees = trees
        self._clean = clean

    def tree(self, where: Where, base: Tree, work: Tree) -> Tree | None:
        """What would be committed, as it would lie on disk, where that is not `work`: the person's unsaved lines are
        not in it. None: it is the same, or there is nothing to be committed."""
        if self._trees.repository is None:
            return None
        clean, merged = self._clean(work), self._merged(where, base, work)
        if merged.tree in (None, clean):
            return None
        spelled = dict(self._pairs(clean, work))
        entries = self._trees.entries(Tree(str(merged.tree)))
        return self._trees.tree_of(
            EMPTY, {path: (mode, spelled.get(blob, blob)) for path, (mode, blob) in entries.items()}
        )

    def _pairs(self, clean: Tree, raw: Tree) -> list[tuple[str, str]]:
        if clean == raw:
            return []
        there = self._trees.entries(raw)
        return [(blob, there[path][1]) for path, (_, blob) in self._trees.entries(clean).items() if path in there]

    def _merged(self, where: Where, base: Tree, work: Tree) -> Merged:
        """The run's work alone, on the head of its branch, in clean spelling."""
        repository = self._repository
        head = self._head(where)
        onto = Tree(repository.tree(head)) if head else EMPTY
        return self._trees.merge(self._clean(base), self._clean(work), onto)

    @property
    def _repository(self) -> Repository:
        assert self._trees.repository is not None
        return self._trees.repository

    def _head(self, where: Where) -> str:
        return self._repository.commit("HEAD" if where.branch == DETACHED else where.branch)

    def plan(self, where: Where, base: Tree, work: Tree, message: str, *, when: datetime, new: str = "") -> Committed:
        """Make the commit, in our repository alone; `problem` says why there is none.

        Args:
            new: the name of a new branch, in place of the run's own.
        """
        if self._trees.repository is None:
            return Committed(problem="there is no git repository here")
        if problem := self._problem(where, new):
            return Committed(problem=problem)
        merged = self._merged(where, base, work)
        if merged.tree is None:
            paths = ", ".join(merged.conflicts[:5])
            return Committed(problem=f"its lines cannot be told apart from what is not committed yet ({paths})")
        head = self._head(where)
        if head and self._repository.tree(head) == merged.tree:
            return Committed(problem="there is nothing to commit")
        people: dict[str, str] = {}
        for role in ("AUTHOR", "COMMITTER"):
            name, address, why = self._repository.identity(role)
            if why:
                return Committed(problem=f"git does not know who you are: {why}")
            stamp = f"{int(when.timestamp())} +0000"
            people |= {f"GIT_{role}_NAME": name, f"GIT_{role}_EMAIL": address, f"GIT_{role}_DATE": stamp}
        parents = ["-p", head] if head else []
        raw = self._trees.git.run("commit-tree", merged.tree, *parents, "-F", "-", stdin=message.encode(), env=people)
        return Committed(commit=os.fsdecode(raw).strip())

    def _problem(self, where: Where, new: str) -> str:
        repository = self._repository
        if busy := repository.busy():
            return f"git is in the middle of something ({busy[0]})"
        if new:
            if repository.git.reply("check-ref-format", "--branch", new).code:
                return f"{new!r} cannot be the name of a branch"
            return f"the branch {new} exists" if repository.commit(f"refs/heads/{new}") else ""
        if where.branch == DETACHED:
            return "no branch is checked out"
        folder = repository.elsewhere(where.branch)
        return f"its branch is checked out in {folder}" if folder else ""

    def publish(self, where: Where, commit: str, *, new: str = "") -> Committed:
        """Move the ref to a commit that `plan` made; once, also after a crash in between."""
        repository, ref = self._repository, f"refs/heads/{new}" if new else where.branch
        parent = self._trees.git.text("rev-parse", "-q", "--verify", f"{commit}^", ok=(0, 1))
        now = repository.commit(ref)
        if now != commit:
            if now != ("" if new else parent):
                return Committed(problem=f"the branch {new} exists" if new else "its branch has moved on meanwhile")
            self._hand_over(commit, parent)
            reply = repository.git.reply("update-ref", "-m", "commit: interlock", ref, commit, now or _NONE)
            if reply.code:
                return Committed(problem=reply.why)
        if repository.checked_out().branch == ref:
            self._follow(parent, commit)
        return Committed(commit=commit)

    def _hand_over(self, commit: str, parent: str) -> None:
        """The objects of a commit, into the person's own store: it never borrows from ours."""
        wanted = f"{commit}\n" + (f"^{parent}\n" if parent else "")
        pack = self._trees.git.run("pack-objects", "--revs", "--stdout", "-q", stdin=wanted.encode())
        self._repository.git.run("unpack-objects", "-q", stdin=pack)

    def _follow(self, parent: str, commit: str) -> None:
        """The person's index after a commit on their branch: what was the old commit's becomes the new one's, what they
        staged stays staged beside it."""
        repository, trees = self._repository, self._trees
        old = Tree(repository.tree(parent)) if parent else EMPTY
        staged = {path: (tag, mode, blob) for tag, mode, blob, path in repository.tracked()}
        lines: list[bytes] = []
        for delta in trees.deltas(old, Tree(repository.tree(commit))):
            entry = self._entry(delta, staged.get(delta.path))
            if entry is not None:
                mode, blob = entry
                lines.append(b"%o %s\t%s\0" % (mode, blob.encode(), os.fsencode(delta.path)))
        if lines:
            repository.git.run("update-index", "-z", "--index-info", stdin=b"".join(lines))

    def _entry(self, delta: Delta, staged: tuple[str, int, str] | None) -> tuple[int, str] | None:
        """What the index has of a path now; mode 0: nothing. None: it stays as it is."""
        gone = (0, _NONE)
        if staged is not None and staged[0] == "M":
            return None
        have = staged[1:] if staged else None
        if have == delta.old:
            return delta.new or gone
        if have is None or delta.old is None or delta.new is None or have == delta.new:
            return None
        content = dict(self._trees.blobs([delta.old[1], have[1], delta.new[1]]))
        merged = self._trees.merge_text(content[delta.old[1]], content[have[1]], content[delta.new[1]])
        if merged is None:
            return None
        blob = self._repository.git.text("hash-object", "-w", "--stdin", "--no-filters", stdin=merged)
        return have[0], blob

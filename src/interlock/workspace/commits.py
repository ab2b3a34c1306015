"""What changes the person's repository: a commit that was asked for, a branch for it, a stash that they chose.

Theory of operation.  A commit is made without running anything: no hook, no filter, no editor.  It holds the run's work
alone, merged onto the branch's head in the clean spelling, so a person's unsaved lines in the same files are not in it.
It is made beside their repository first, so that its name is known and can be noted; then its objects come over and the
ref moves by compare-and-swap.  Of the branch that is checked out, and only then, their index follows; what they staged
stays staged.  Every step can be done again after a crash and changes nothing then.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from datetime import datetime

from interlock.errors import Refused
from interlock.workspace.git import GITLINK, NOTHING, index_lines, lines
from interlock.workspace.repository import DETACHED, Repository
from interlock.workspace.trees import Trees
from interlock.workspace.values import EMPTY, BranchFacts, Committed, Remark, RemarkKind, Tree, Where

_REFS = "refs/heads/"
_LISTED = ("--pathspec-from-file=-", "--pathspec-file-nul")


class Commits:
    """Commits and branches of one workspace.

    Args:
        clean: the clean spelling of a tree, made in a layer; the tree itself where nothing converts.
    """

    def __init__(self, trees: Trees, clean: Callable[[Tree], Tree]) -> None:
        self._trees = trees
        self._clean = clean

    @property
    def _repository(self) -> Repository:
        if self._trees.repository is None:
            raise Refused("there is no git repository", where=str(self._trees.workspace.top))
        return self._trees.repository

    # -- commits

    def plan(
        self, where: Where, before: Tree, after: Tree, message: str, *, onto: str = "", when: datetime
    ) -> Committed:
        """The commit with what lies between two trees, not yet on any branch; without one where nothing is left to
        commit, and with a problem where it cannot be made.

        Args:
            onto: the branch or commit that it goes on top of; else the run's branch.
        """
        repository = self._repository
        target = onto or where.branch
        if target == DETACHED:
            return Committed(problem="no branch is checked out")
        parent = repository.commit(target)
        committed = self._trees.committed(parent)
        merged = self._trees.merge(self._clean(before), committed, self._clean(after))
        if merged.tree is None:
            paths = ", ".join(merged.conflicts)
            return Committed(problem=f"the run's work cannot be told from what you have not committed in {paths}")
        if merged.tree == committed:
            return Committed()
        if why := self.nobody():
            return Committed(problem=why)
        who = b""
        for role in ("author", "committer"):
            told = repository.git.run("var", f"GIT_{role.upper()}_IDENT")
            name = told[: told.rindex(b">") + 1]
            who += b"%s %s %d %s\n" % (role.encode(), name, when.timestamp(), when.strftime("%z").encode())
        above = f"parent {parent}\n" if parent else ""
        text = "\n".join(line.rstrip() for line in message.replace("\0", "").strip().splitlines())
        body = f"tree {merged.tree}\n{above}".encode() + who + os.fsencode(f"\n{text}\n")
        return Committed(commit=self._trees.write(body, "commit"))

    def nobody(self) -> str:
        """Why nobody could have made a commit here; empty where git knows who the person is."""
        asked = (self._repository.git.reply("var", f"GIT_{role}_IDENT") for role in ("AUTHOR", "COMMITTER"))
        unknown = any(reply.code for reply in asked)
        return "git does not know who you are: set user.name and user.email with git config" if unknown else ""

    def publish(self, where: Where, commit: str, *, ref: str = "", expect: str) -> Committed:
        """Let a branch be at a planned commit, if it still is where it was expected; again after a crash, too.

        Args:
            ref: `refs/heads/x`; else the run's branch.
            expect: the commit before; empty for a branch that is new.
        """
        repository = self._repository
        ref = ref or where.branch
        here = repository.checked_out()
        old, new = self._trees.committed(expect), self._trees.committed(commit)
        if not repository.contains(ref, commit):
            if folder := repository.elsewhere(ref):
                return Committed(problem=f"{ref.removeprefix(_REFS)} is checked out in {folder}")
            if here.branch == ref and (why := self._busy()):
                return Committed(problem=why)
            added = self._trees.git.text("rev-list", "--objects", "--no-object-names", new, f"^{old}").split()
            self._bring_over([*added, commit])  # no history is looked at, for it may be cut
            subject = repository.git.text("log", "-1", "--format=%s", commit)
            words = ("update-ref", "--create-reflog", "-m", f"commit: {subject}", ref, commit, expect or NOTHING)
            moved = repository.git.reply(*words)
            if moved.code:
                return Committed(problem=f"{ref.removeprefix(_REFS)} is not where it was: {moved.why}")
        remarks = self._follow(old, new) if here.branch == ref else ()
        return Committed(commit=commit, remarks=remarks)

    def _busy(self) -> str:
        """Why nothing is to be changed now."""
        marks = ", ".join(self._repository.busy())
        return f"the repository is in the middle of something ({marks}): finish or abort it" if marks else ""

    def _bring_over(self, objects: Sequence[str]) -> None:
        """Copy objects into the person's repository."""
        listed = "".join(f"{name}\n" for name in objects)
        pack = self._trees.git.run("pack-objects", "-q", "--stdout", stdin=listed.encode())
        self._repository.git.run("unpack-objects", "-q", stdin=pack)

    # -- the person's index

    def _follow(self, old: Tree, new: Tree) -> tuple[Remark, ...]:
        """Entries that were the old commit's become the new one's; what is staged stays staged."""
        paths = [delta.path for delta in self._trees.deltas(old, new)]
        entries = {path: (mode, blob) for _, mode, blob, path in self._repository.tracked()}
        staged = self._trees.tree_of(EMPTY, {path: entries[path] for path in paths if path in entries})
        before, after = (self._trees.graft(EMPTY, tree, paths) for tree in (old, new))
        merged, left = self._trees.merge_for(before, after, staged)
        changes = {delta.path: delta.new for delta in self._trees.deltas(staged, merged)}
        self._bring_over([entry[1] for entry in changes.values() if entry and entry[0] != GITLINK])
        if changes:
            words = ("update-index", "-z", "--replace", "--index-info")
            reply = self._repository.git.reply(*words, stdin=index_lines(changes))
            if reply.code:
                text = f"what was committed still shows as staged ({reply.why}): git reset -q mends it"
                return (Remark(kind=RemarkKind.GIT, text=text, paths=tuple(changes)),)
        text = "what you staged there stays as it is, so that it takes back what was committed"
        return (Remark(kind=RemarkKind.GIT, text=text, paths=tuple(left)),) if left else ()

    # -- branches

    def refused(self, name: str) -> str:
        """Why there can be no new branch of this name; empty if there can."""
        git = self._repository.git
        if git.reply("check-ref-format", "--branch", name).code or name.startswith("-"):
            return f"{name!r} cannot be the name of a branch"
        return f"there is a branch {name} already" if self._repository.commit(f"{_REFS}{name}") else ""

    def facts(self, name: str) -> BranchFacts:
        """What is checked out, and how that branch stands to it."""
        repository, ref = self._repository, f"{_REFS}{name}"
        here, at = repository.checked_out(), repository.commit(ref)
        return BranchFacts(
            current=here.branch.removeprefix(_REFS),
            head=here.head,
            at=at,
            holds_head=bool(at and here.head) and repository.contains(ref, here.head),
            elsewhere=repository.elsewhere(ref) if at else "",
        )

    def switch(self, name: str, *, new: bool = False) -> str:
        """Check a branch out, without hooks, a new one made where the person stands: HEAD alone moves then. Why that is
        not possible, or nothing; again after a crash, too."""
        repository, ref = self._repository, f"{_REFS}{name}"
        here, target = repository.checked_out(), repository.commit(ref)
        if here.branch == ref:
            return ""
        if why := self._busy() or (self.refused(name) if new and target != here.head else ""):
            return why
        if new and not target:
            target = here.head
            made = ("update-ref", "--create-reflog", "-m", "branch: Created from HEAD", ref, target, NOTHING)
            if (reply := repository.git.reply(*made)).code:
                return reply.why
        if not target:
            return f"there is no branch {name}"
        if folder := repository.elsewhere(ref):
            return f"{name} is checked out in {folder}"
        words: tuple[str, ...] = ("checkout", "-q", "--no-overwrite-ignore", name, "--")
        if here.tree == self._trees.committed(target):
            came = f"checkout: moving from {here.branch.removeprefix(_REFS)} to {name}"
            words = ("symbolic-ref", "-m", came, "HEAD", ref)
        elif why := self._filters():
            return why
        reply = repository.git.reply(*words)
        return reply.why if reply.code else ""

    def _filters(self) -> str:
        """Why git must not write or read files here by itself; empty: it may."""
        paths = lines([path for *_, path in self._repository.tracked()])
        named = self._repository.git.names("check-attr", "-z", "--stdin", "filter", stdin=paths)[2::3]
        text = "files go through filters here, which interlock does not run: do it yourself"
        return text if set(named) - {"unspecified", "unset"} else ""

    # -- stashes

    def stashed(self, note: str) -> str:
        """The commit of the stash with this note; its place in the list changes with every other stash."""
        listed = self._repository.git.run("stash", "list", "--format=%H %gs")
        found = (line.partition(" ") for line in os.fsdecode(listed).splitlines())
        return next((commit for commit, _, said in found if said.endswith(f": {note}")), "")

    def stash(self, paths: Sequence[str], note: str) -> Committed:
        """Put changed and new files away under a note; once, whatever died in between."""
        repository = self._repository
        if made := self.stashed(note):
            return Committed(commit=made)
        if why := self._busy() or self._filters():
            return Committed(problem=why)
        kept = repository.index.with_name("index.interlock")
        shutil.copy2(repository.index, kept)
        try:
            listed = lines(paths)
            # git stash finds what was deleted in the work tree, and not what was deleted in the index.
            for words in (("reset", "-q"), ("stash", "push", "-q", "-u", "-m", note)):
                reply = repository.git.reply(*words, *_LISTED, stdin=listed)
                if reply.code:
                    kept.replace(repository.index)
                    return Committed(problem=reply.why)
            return Committed(commit=self.stashed(note))
        finally:
            kept.unlink(missing_ok=True)

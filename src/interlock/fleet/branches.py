"""The user's HEAD and branches, where a run arrives: nothing that somebody else made is moved."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from interlock.errors import Refused
from interlock.fleet.freight import Checkpoint, Possession
from interlock.fleet.remote import Remote
from interlock.fleet.tree import Standpoint

OURS = "interlock@localhost"


def branch_name(run_id: str) -> str:
    """The branch that has the work of a run."""
    return f"interlock/{run_id}"


async def branch_for(remote: Remote, where: Standpoint, who: Possession) -> str | None:
    """The branch that HEAD has to move to, so that it is at the run's commit; None: it is there.

    The branch that the run was on where that is free, else one of its own. `Refused` when HEAD cannot move.
    """
    if who.head is None or remote.repository is None or who.head == where.commit:
        return None
    if where.commit and (await remote.git("diff-index", "--cached", "--quiet", "HEAD", reads=True)).code == 1:
        raise Refused(
            "something is staged here, and HEAD has to move",
            where=str(remote.repository.top),
            remedy="Commit it or unstage it (git restore --staged .), then call interlock again.",
        )
    if who.branch and await _is_free(remote, who.branch, who.head):
        return who.branch
    own = branch_name(who.run)
    if not await _is_free(remote, own, who.head) and not await _leads_on(remote, own, who.head):
        await _check_ours(remote, own, who.head)
    return own


async def move_head(remote: Remote, branch: str | None, who: Possession) -> None:
    """Let HEAD lead to the run's commit. The index follows, the tree stays: it is written afterwards."""
    if who.head is None or remote.repository is None:
        return
    if branch is not None:
        await remote.asked("update-ref", f"refs/heads/{branch}", who.head)
        await remote.asked("symbolic-ref", "HEAD", f"refs/heads/{branch}")
    await remote.asked("read-tree", who.head)


async def make_branch(remote: Remote, checkpoint: Checkpoint) -> str | None:
    """The branch with the work of a run, made or renewed; None in a folder without a repository."""
    who = checkpoint.possession
    if remote.repository is None or who.head is None:
        return None
    tree = await _whole_tree(remote, checkpoint)
    commit = who.head
    if tree != await remote.asked("rev-parse", f"{who.head}^{{tree}}"):
        by = ("-c", "user.name=interlock", "-c", f"user.email={OURS}")
        message = f"interlock: work of {who.run}"
        commit = await remote.asked(*by, "commit-tree", tree, "-p", who.head, "-m", message)
    name = branch_name(who.run)
    if (await remote.git("symbolic-ref", "--quiet", "HEAD", reads=True)).text.strip() == f"refs/heads/{name}":
        raise Refused(
            f"branch {name} is checked out here", remedy="Change to another branch, then call interlock again."
        )
    if not await _is_free(remote, name, commit):
        await _check_ours(remote, name, commit)
    await remote.asked("update-ref", f"refs/heads/{name}", commit)
    if who.branch and await _can_be_made(remote, who.branch, who.head):
        await remote.asked("update-ref", f"refs/heads/{who.branch}", who.head, "")
    return name


async def _whole_tree(remote: Remote, checkpoint: Checkpoint) -> str:
    """The tree of the repository with the run's workspace in its place."""
    who = checkpoint.possession
    assert who.head is not None
    with TemporaryDirectory(prefix="interlock-") as folder:
        index = Path(folder) / "index"
        if who.prefix:
            await remote.asked("read-tree", who.head, index=index)
            await remote.asked("rm", "-r", "-q", "--cached", "--ignore-unmatch", "--", who.prefix, index=index)
            await remote.asked("read-tree", f"--prefix={who.prefix}", checkpoint.tree, index=index)
        else:
            await remote.asked("read-tree", checkpoint.tree, index=index)
        return await remote.asked("write-tree", index=index)


async def _is_free(remote: Remote, branch: str, commit: str) -> bool:
    """Whether a branch of this name leads to the commit already, or can be made so that it does."""
    found = await remote.git("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", reads=True)
    return found.text.strip() == commit if found.code == 0 else await _can_be_made(remote, branch, commit)


async def _can_be_made(remote: Remote, branch: str, commit: str) -> bool:
    """Whether there is no branch of this name, and none that keeps it from being made: 'a' does so for 'a/b'."""
    tried = ("start", f"create refs/heads/{branch} {commit}", "prepare", "abort", "")
    return (await remote.git("update-ref", "--stdin", stdin=os.fsencode("\n".join(tried)))).code == 0


async def _leads_on(remote: Remote, branch: str, commit: str) -> bool:
    """Whether a commit has all that a branch has."""
    asked = ("merge-base", "--is-ancestor", f"refs/heads/{branch}", commit)
    return (await remote.git(*asked, reads=True)).code == 0


async def _check_ours(remote: Remote, branch: str, commit: str) -> None:
    """`Refused` when a branch has work of somebody else, or cannot be made."""
    name = f"refs/heads/{branch}"
    if (await remote.git("rev-parse", "--verify", "--quiet", name, reads=True)).code != 0:
        raise Refused(
            f"branch {branch} cannot be made at {commit}",
            expected="a commit, and no branch that has a part of this name as its own",
            remedy="Rename the branch that is in the way: git branch -m interlock NAME",
        )
    author = await remote.git("log", "-1", "--format=%ae", name, "--", reads=True)
    if author.text.strip() != OURS:
        raise Refused(
            f"branch {branch} has commits that are not interlock's",
            remedy=f"Rename it to keep them: git branch -m {branch} NAME",
        )

"""How a task ends: what was accepted and on which evidence, the commit, and what is said where nothing was accepted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from interlock.engine import BYPRODUCTS, Checks, Ending, Proof, Report, Run, changed_since, snapshot
from interlock.errors import ConfigInvalid
from interlock.playbooks.task.briefs import Against

TITLE_LENGTH = 72


@dataclass(frozen=True)
class Accepted:
    """A change that its checks and its reviewer bear out."""

    request: str
    turn: int
    proofs: tuple[Proof, ...]
    review: Report | None
    files: tuple[str, ...]
    noticed: tuple[str, ...] = ()
    """What its reviewer was told of it beside what its author says."""

    @property
    def told(self) -> str:
        """What it was accepted on, a line each."""
        lines = [f"Accepted in round {self.turn}"]
        lines += [f"  {proof.shown}" for proof in self.proofs] if self.proofs else ["  checks: there is nothing to run"]
        lines += (
            [f"  review: accepted. {self.review.detail}".rstrip()] if self.review else ["  review: nobody was asked"]
        )
        return "\n".join((*lines, *(f"  noticed: {text}" for text in self.noticed)))


@dataclass(frozen=True)
class Footing:
    """The user's repository before the work, for a change that is to be committed."""

    changed: frozenset[str]
    """Files with changes of their own that nobody has committed."""
    hooks: str
    tree: Any = None
    """The tree as the last work left it; what changed since is not of this run."""

    async def worked(self, run: Run) -> Footing:
        """After a piece of work came into the tree."""
        return replace(self, tree=await snapshot(run))

    async def edited(self, run: Run) -> Footing:
        """With the files that people changed since."""
        return replace(self, changed=self.changed | set((await changed_since(run, self.tree)).paths))


async def ground_for_a_commit(run: Run) -> Footing:
    """How the repository stands; `ConfigInvalid` where nothing could be committed in the end."""
    git = run.repository
    where = await git.where()
    if not where.there:
        raise ConfigInvalid(
            f"an accepted change cannot be committed: {where.folder} is no git repository",
            where="option --commit",
            remedy="Leave out --commit, or make a repository with: git init",
        )
    standing = await git.standing()
    if standing.busy:
        raise ConfigInvalid(
            f"an accepted change cannot be committed: {', '.join(standing.busy)} is not finished here",
            where="option --commit",
            remedy="Finish it first, or leave out --commit.",
        )
    return Footing(frozenset(standing.changed), await git.hooks())


async def accept(run: Run, accepted: Accepted, checks: Checks, ground: Footing | None) -> Ending:
    """The end of a change that is accepted: it holds on the tree as it is now, and is committed if that was asked."""
    with run.step("commit"):
        red = [proof for proof in await checks.prove() if not proof.ok]
        if red:
            what = "the change was accepted, but does not hold with what was changed meanwhile"
            return Ending.stopped(f"{what}: {red[0].shown}", f"{accepted.told}\n{red[0].tail}\n")
        if ground is None:
            return Ending.complete(f"{accepted.told}\n")
        return await commit(run, accepted, await ground.edited(run))


async def commit(run: Run, accepted: Accepted, ground: Footing) -> Ending:
    """One commit of the files that the run changed; never of what somebody had changed in them before."""
    git = run.repository
    paths = [path for path in await git.changed() if path in accepted.files and not BYPRODUCTS.covers(path)]
    mixed = [path for path in paths if path in ground.changed]
    problem = ""
    if mixed:
        problem = f"your own uncommitted changes are in the same files: {', '.join(mixed)}"
    elif await git.hooks() != ground.hooks:  # where agents could not be confined, they may be theirs
        problem = "the git hooks of this repository changed while agents worked"
    elif not paths:
        return Ending.complete(f"{accepted.told}\nNothing to commit: no file differs from the last commit.\n")
    else:
        done = await git.commit(paths, message_of(accepted.request))
        if done.ok:
            return Ending.complete(f"{accepted.told}\nCommitted {done.commit[:10]}: {', '.join(paths)}\n")
        problem = done.problem
    return Ending.degraded(f"accepted, but not committed: {problem}", f"{accepted.told}\n")


def message_of(request: str) -> str:
    """The request as a commit message: its first line, and the whole where that says less."""
    words = " ".join(request.split())
    title = words if len(words) <= TITLE_LENGTH else f"{words[: TITLE_LENGTH - 3].rsplit(' ', 1)[0]}..."
    return title if title == request.strip() else f"{title}\n\n{request.strip()}"


def not_accepted(run_id: str, rounds: int, against: Against, files: Sequence[str]) -> Ending:
    """The end where no round held: what speaks against the last one, where the work is, and how to be rid of it."""
    back = f"To take it back: interlock diff {run_id} | git apply -R\n"
    left = f"\nNot accepted and not committed, but in your tree: {', '.join(files)}\n{back}" if files else ""
    if against.renewed:
        want = f"If you want {', '.join(against.renewed)} as now"
        left += f"{want}: interlock resume {run_id} --accept-baseline\n"
    within = "1 round" if rounds == 1 else f"{rounds} rounds"
    return Ending.stopped(f"not accepted within {within}: {against.headline}", f"{against.text}\n{left}")

"""What a person does to a run between clones: send it, take it, fetch its work. By git alone, without a database.

Theory of operation.  Whose a run is, the ref says: its claim, a word of chance that the last taker put there.  Whoever
works on it pushes with their claim, and is refused as soon as the ref has another one.  Sending moves the run's folder
to `.interlock/far/` before the push that gives it away; taking is checked before it is claimed, and claimed before
anything here is written.  What dies in between is asked for again and comes to its end.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from interlock.app import Place, who
from interlock.engine.runs import FAR, Entry
from interlock.errors import Refused, WorkspaceFailed
from interlock.finding.trust import GUESTS
from interlock.fleet.carriage import WORKERS, About, Carried, Packer, check_secrets, lay, note, read, ref_of, write
from interlock.fleet.remote import Remote, RemoteAway
from interlock.workspace.delivery import Delivery
from interlock.workspace.git import NOTHING
from interlock.workspace.repository import DETACHED
from interlock.workspace.values import Tree

WORKER = "INTERLOCK_WORKER"
"""In the environment of what a worker starts: its name and its process."""
_TRIES = 5
_BRANCHES = "refs/heads/"


def remote_of(place: Place) -> Remote:
    return Remote(place.trees, place.settings.fleet.remote)


def me() -> str:
    """Who works here, as others see it."""
    worker = os.environ.get(WORKER, "").partition(":")[0]
    return f"{WORKERS}{worker}" if worker else f"{who()}@{os.uname().nodename}"


def far(place: Place, run: str) -> Path:
    return place.workspace.own / FAR / run


def carried(remote: Remote, run: str, tip: str | None = None) -> Carried:
    """What the remote has of a run; Refused where there is nothing."""
    tip = remote.tips(ref_of(run)).get(ref_of(run)) if tip is None else tip
    if not tip:
        raise Refused(f"the remote {remote.shown} has no run {run!r}", remedy="See what it has: interlock fleet")
    remote.fetch([ref_of(run)])
    return read(remote.trees, tip, run)


# --- sent


def send(place: Place, entry: Entry, needs: Sequence[str] | None = None) -> About:
    """Give a run away: whoever takes it goes on with it. Not while a process works on it."""
    remote, ref, target = remote_of(place), ref_of(entry.id), far(place, entry.id)
    with entry.lock():
        if entry.view().start is None:
            raise Refused(f"run {entry.id} never began", remedy="Remove it: interlock runs --clean")
        if tip := remote.tips(ref).get(ref, ""):
            before = carried(remote, entry.id, tip)
            check_mine(place, entry, before)
            needs = before.about.needs if needs is None else needs
        commit = Packer(place.trees, entry).commit(tip, needs=tuple(needs or ()))
        check_secrets(remote, commit, tip, place.redaction)
        about = read(place.trees, commit, entry.id).about
        held = {"remote": remote.shown, "tip": tip, "claim": entry.held.get("claim", ""), "sent": about.tree}
        note(entry.path, {**held, "leaving": commit})
        _set_aside(entry.path, target)
        try:
            if not remote.swap(ref, tip, commit):
                raise Refused(f"run {entry.id} was taken elsewhere a moment before", remedy="See: interlock fleet")
        except RemoteAway:
            raise
        except WorkspaceFailed:  # nobody has it, and nobody got it
            target.rename(entry.path)
            raise
    note(target, {**held, "tip": commit, "claim": "", "holder": ""})
    place.layers.clean(entry.id)  # whoever has it goes on in layers of their own
    return about


def _set_aside(folder: Path, target: Path) -> None:
    """A run's folder is that of a run of elsewhere from now on, in place of any copy."""
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(target)


def check_mine(place: Place, entry: Entry, now: Carried) -> None:
    """Refused where somebody else has the run by now: then this place changes nothing of it any more."""
    held = entry.held
    if not now.about.claim or now.about.claim == held.get("claim"):
        return
    target = far(place, entry.id)
    _set_aside(entry.path, target)
    note(target, {**held, "claim": "", "tip": now.tip, "holder": now.about.holder})
    raise Refused(
        f"run {entry.id} is not here any more: {now.about.holder} took it over",
        remedy=f"Look at it: interlock show {entry.id}. Bring it back: interlock fleet take {entry.id}",
    )


# --- taken


@dataclass(frozen=True)
class Taken:
    """A run that is here now."""

    headline: str
    laid: Sequence[str] = ()
    """Files of the workspace that are as the run has them now."""
    away: str = ""
    """Its branch, where another one is checked out, and nothing was laid."""


def take(place: Place, run: str, *, over: bool = False) -> Taken:
    """Bring a run here, with what its workspace had: claimed by compare-and-swap of its ref.

    Args:
        over: also from whoever has it; they are fenced from then on.
    """
    place.workspace.prepared()
    remote, ref, target = remote_of(place), ref_of(run), far(place, run)
    here, gone = Entry(place.runs.path / run), Entry(target)
    tip = remote.tips(ref).get(ref, "")
    held = gone.held
    if held.get("leaving") and tip == held["tip"]:  # it never left
        gone.path.rename(here.path)
        note(here.path, {name: held[name] for name in ("remote", "tip", "claim")})
        return Taken(str(here.first["headline"]))
    now = carried(remote, run, tip)
    about = now.about
    coming = place.workspace.own / FAR / f".{run}.claim"
    asked = coming.read_text() if coming.exists() else ""
    if about.claim and about.claim == here.held.get("claim"):
        raise Refused(f"run {run} is here already", remedy=f"Go on with it: interlock resume {run}")
    dead = over or (WORKER in os.environ and not about.is_with_a_person)
    """Whose job was given to another worker counts as dead: the queue decides that, and the claim fences it out."""
    if about.holder and about.claim != asked and not dead:
        raise Refused(
            f"run {run} is not free: {about.holder} has it, since {about.at:%Y-%m-%d %H:%M} UTC",
            remedy=f"They give it back by: interlock fleet send {run}. If they surely do not work on it any more: "
            f"interlock fleet take {run} --over",
        )
    lent = Lent(place, remote, about, held.get("sent") or "")
    with here.lock() if here.path.exists() else nullcontext():
        lent.check()
        if not asked or about.claim != asked:
            claim = secrets.token_hex(8)
            coming.parent.mkdir(parents=True, exist_ok=True)
            coming.write_text(claim)
            about = about.model_copy(update={"holder": me(), "claim": claim})
            tip = write(place.trees, about, now.files, now.tip)
            if not remote.swap(ref, now.tip, tip):
                raise Refused(f"somebody else took run {run} a moment before", remedy="See who: interlock fleet")
        place.trees.git.run("update-ref", ref, about.keep)
        paths = lent.lay()
        if here.path.exists():  # what was here before somebody took it over
            _set_aside(here.path, target)
        place.layers.clean(run)
        held = {"remote": remote.shown, "tip": tip, "claim": about.claim, "holder": about.holder}
        lay(place.trees, now, target, held)
        here.path.parent.mkdir(exist_ok=True)
        target.rename(here.path)
    coming.unlink()
    return Taken(about.headline, paths, about.where.branch.removeprefix(_BRANCHES) if lent.away else "")


class Lent:
    """The workspace of a run that comes from elsewhere, laid over the one here: checked first, then done."""

    def __init__(self, place: Place, remote: Remote, about: About, sent: str) -> None:
        self._place, self._remote, self._about, self._sent = place, remote, about, sent
        self._trees, self._repository = place.trees, remote.repository
        self._branch = about.where.branch
        at = self._repository.checked_out()
        self._fresh = not at.head and not self._repository.tracked()
        """A clone in which nothing is checked out yet."""
        self.away = not self._fresh and at.branch != self._branch
        self._ours = at.head if not self.away else self._of_branch()

    def _of_branch(self) -> str:
        return self._repository.commit(self._branch) if self._branch.startswith(_BRANCHES) else ""

    @property
    def _behind(self) -> bool:
        """Our branch lacks commits that the run stands on."""
        ours, head = self._ours, self._about.head
        return bool(ours and head) and ours != head and not self._is_before(head, ours)

    def _is_before(self, one: str, other: str) -> bool:
        return self._remote.git("merge-base", "--is-ancestor", one, other).code == 0

    def check(self) -> None:
        """Refused where the run's state cannot come here without touching what is somebody's."""
        about = self._about
        where, name = str(self._place.workspace.top), self._branch.removeprefix(_BRANCHES)
        what, remedy = "", "Commit or stash it, then take the run"
        if self._fresh or self._branch in ("", DETACHED):
            return
        if self._behind and not self._is_before(self._ours, about.head):
            what = f"your branch {name} and that of the run have gone different ways"
            remedy = f"Merge or rebase yours on {about.head[:12]}"
        elif self._behind and not self.away and self._repository.is_dirty():
            what = f"the run's branch {name} has gone on, and you have work here that is not committed"
        elif not self.away and not self._behind and (clashes := self._merged()[1]):
            what = f"what you have not committed here and the run's workspace differ in {', '.join(clashes[:5])}"
        if what:
            raise Refused(what, where=where, remedy=f"{remedy}. Or take it in another clone.")

    def _merged(self) -> tuple[Tree, Sequence[str], Tree]:
        """The workspace now, the paths in conflict, and what it is to be."""
        trees, about = self._trees, self._about
        now = trees.standing(about.run, about.where).tree
        base = Tree(self._sent) if self._sent else trees.committed(about.head)
        if not self._sent and self._ours == about.head and not self._repository.is_dirty():
            base = now  # as it lies here, whatever filters make of it
        merged = trees.merge(base, now, about.tree)
        return now, merged.conflicts, merged.tree or now

    def lay(self) -> list[str]:
        """The branch is where the run's is, and the files are as the run has them; these are another than before."""
        about, remote = self._about, self._remote
        if about.head:
            remote.give(about.head)
        if self._fresh:
            self._check_out()
        elif self._behind and not self.away:
            remote.asked("merge", "--quiet", "--ff-only", about.head, ours=False)
        elif about.head and self._branch.startswith(_BRANCHES) and (self._behind or not self._of_branch()):
            remote.asked("update-ref", self._branch, about.head, self._of_branch() or NOTHING, ours=False)
        if self._fresh or self._behind:
            self._sent, self._ours = "", about.head
        if self.away:
            return []
        self._trees.declare(())
        for _ in range(_TRIES):
            now, clashes, target = self._merged()
            self._came_along()
            landing = Delivery(self._trees).deliver(now, target)
            if landing.state == "done" and not clashes:
                return list(landing.paths)
        raise Refused(
            f"the workspace changed while run {about.run} came here",
            where=str(self._place.workspace.top),
            remedy=f"It is claimed for you; commit or stash your work, then: interlock fleet take {about.run}",
        )

    def _check_out(self) -> None:
        branch, head = self._branch, self._about.head
        onto = ("--detach",) if branch == DETACHED else ("--no-track", "-B", branch.removeprefix(_BRANCHES))
        words = ("checkout", "--quiet", "--force", *onto, head) if head else ("symbolic-ref", "HEAD", branch)
        self._remote.asked(*words, ours=False)

    def _came_along(self) -> None:
        """What is in no commit of theirs came from somebody else: as code it counts only when a person here says so."""
        head = self._trees.committed(self._about.head)
        blobs = {delta.new[1] for delta in self._trees.deltas(head, self._about.tree) if delta.new}
        with (self._place.workspace.own / GUESTS).open("a") as file:
            file.writelines(f"{blob}\n" for blob in sorted(blobs))


# --- fetched


@dataclass(frozen=True)
class Fetched:
    """What of a run's work is in this clone now."""

    about: About
    branch: str
    documents: Sequence[str] = ()
    left: Sequence[str] = ()
    """Documents that would have overwritten what is not committed here."""


def fetch(place: Place, run: str) -> Fetched:
    """The work of a run as a branch of this clone, its documents and its folder; nobody's branch changes."""
    place.workspace.prepared()
    if (place.runs.path / run).exists():
        raise Refused(f"run {run} is here", remedy=f"Its work: interlock diff {run}")
    remote = remote_of(place)
    now = carried(remote, run)
    entry = renew(place, remote, now)
    view, about, trees = entry.view(), now.about, place.trees
    assert view.start is not None
    parent, when = about.head, int(about.at.timestamp())
    if about.head:
        remote.give(about.head)
    began = view.start.standing
    steps = [("What was not committed when the run began", began.tree)] if began.head == about.head else []
    for text, tree in (*steps, (f"{about.headline}\n\n{run}: {about.status}", about.tree)):
        spelled = place.layers.spelled(run, tree)
        if spelled != trees.committed(parent):
            parent = trees.commit(spelled, parent, text, when)
    branch = f"interlock/{run}"
    if parent:
        remote.give(parent, f"{_BRANCHES}{branch}")
    return Fetched(about, branch, *_documents(place, about, view.start.documents, entry.held.get("sent") or ""))


def _documents(place: Place, about: About, declared: Sequence[str], sent: str) -> tuple[list[str], Sequence[str]]:
    """The process's documents, where they overwrite nobody's."""
    trees = place.trees
    trees.declare(declared)
    if trees.where().branch != about.where.branch:
        return [], ()
    base = Tree(sent) if sent else trees.committed(about.head)
    paths = [delta.path for delta in trees.deltas(base, about.tree) if trees.is_document(delta.path)]
    now = trees.standing(about.run, about.where).tree
    left = trees.merge(base, now, trees.graft(base, about.tree, paths)).conflicts
    merged = trees.merge(base, now, trees.graft(base, about.tree, [one for one in paths if one not in left]))
    landing = Delivery(trees).deliver(now, merged.tree or now)
    return list(landing.paths), left


def renew(place: Place, remote: Remote, now: Carried) -> Entry:
    """The copy of a run of elsewhere, as the remote has it."""
    entry = Entry(far(place, now.about.run))
    if entry.held.get("tip") != now.tip or not entry.journal.exists():
        held = {"remote": remote.shown, "tip": now.tip, "holder": now.about.holder, "sent": entry.held.get("sent", "")}
        place.trees.git.run("update-ref", ref_of(entry.id), now.about.keep)
        lay(place.trees, now, entry.path, held)
    return Entry(entry.path)

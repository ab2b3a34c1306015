"""The layers of a workspace: how they are made here, opened, kept between dispatches and cleared away."""

from __future__ import annotations

import os
import re
import shutil
import stat
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha1
from pathlib import Path
from uuid import uuid4

from interlock.errors import ConfigInvalid, WorkspaceFailed
from interlock.settings import SandboxSettings
from interlock.workspace.layers import gitdir, logins
from interlock.workspace.layers.bubblewrap import MEMORY, Bubblewrap, found_out, within
from interlock.workspace.layers.confined import COVERED, OBJECTS, Confined, Slot
from interlock.workspace.layers.copies import Copy, shares_blocks
from interlock.workspace.layers.layer import Layer, told
from interlock.workspace.layers.laying import State, again, bring, clear
from interlock.workspace.layers.surroundings import Surroundings, look_around
from interlock.workspace.layers.upper import Upper, remove, walk
from interlock.workspace.place import above, counts
from interlock.workspace.repository import Repository
from interlock.workspace.snapshot import GITLINK
from interlock.workspace.trees import Entry, Trees
from interlock.workspace.values import EMPTY, Needs, Standing, Tree

_CACHE, _CHECK, _SPELLING = "_cache", "_check", "_spelling"
"""Slots of our own: no agent's name begins so."""
_UNSAVED = "What is not committed yet\n\nYour view of a person's unsaved work; it is theirs."
_PENDING = "What this run has done so far"
_SETTLES = 3


@dataclass(frozen=True)
class Making:
    """How layers are made here, and why."""

    maker: str
    """`confined` or `copy`."""
    why: str = ""
    remedy: str = ""
    """What lets layers be confined here."""
    profile: str = ""
    """An AppArmor profile that `doctor` prints."""
    nested: bool = False
    """This process is in a confined layer itself: a copy is as confined as that."""
    top: Path | None = None
    """What copies are made of."""

    @property
    def confined(self) -> bool:
        return self.maker == "confined" or self.nested

    @cached_property
    def shares_blocks(self) -> bool:
        """A copy costs next to nothing."""
        return self.top is None or shares_blocks(self.top / ".interlock", self.top)

    @cached_property
    def cost_bytes(self) -> int:
        """What one copy holds."""
        found = walk(self.top, not_copied) if self.top else ()
        return sum(status.st_size for _, status in found if stat.S_ISREG(status.st_mode))


class Layers:
    """Makes layers over one workspace."""

    def __init__(self, trees: Trees, sandbox: SandboxSettings, environ: Mapping[str, str] | None = None) -> None:
        self._trees = trees
        self._sandbox = sandbox
        self._environ = os.environ if environ is None else environ
        self._top = trees.workspace.top
        self._folder = trees.workspace.own / "layers"
        self._spelled: dict[Tree, Tree] = {}
        self._turn = threading.Lock()

    # -- how

    def maker(self) -> Making:
        """How layers are made here; ConfigInvalid where settings do not allow that."""
        return self._made[0]

    @cached_property
    def _made(self) -> tuple[Making, Bubblewrap | None]:
        mode = self._sandbox.mode
        if within():
            why = "interlock runs inside of a layer, which confines whatever runs in it"
            return Making("copy", why, nested=True, top=self._top), None
        if mode == "off":
            why = 'private copies were asked for ([sandbox] mode = "off")'
            return Making("copy", why, top=self._top), None
        found = found_out(self._top, self._trees.workspace.own, self._environ.get("PATH", os.defpath))
        if isinstance(found, Bubblewrap):
            return Making("confined", f"by {found.program}"), found
        if mode == "strict" or self._was_confined.exists():
            text = "agents cannot be confined here"
            text += "" if mode == "strict" else " any more, and were in this workspace before"
            remedy = f'{found.remedy} Or allow private copies: mode = "{"auto" if mode == "strict" else "off"}".'
            raise ConfigInvalid(text, where="sandbox.mode", found=found.why, remedy=remedy)
        return Making("copy", found.why, found.remedy, found.profile, top=self._top), None

    @property
    def _was_confined(self) -> Path:
        return self._folder / "confined"

    # -- layers of agents

    @told
    def open(
        self,
        run: str,
        slot: str,
        standing: Standing,
        shown: Tree,
        needs: Needs,
        *,
        goes_on: bool = False,
        pending_message: str = "",
        branch: str = "",
    ) -> Layer:
        """A layer that shows a tree; of the same slot before, what is ignored is still there.

        Args:
            goes_on: after a crash it is taken as it lies, if it is there whole.
            pending_message: of the commit with what the run has done.
            branch: the run's, where another one is checked out.
        """
        place = self._slot(run, slot)
        before = State.load(place.folder)
        goes_on = goes_on and self.has(run, slot)
        held, confined = self._held(place)
        if goes_on and before:
            layer = self._layer(run, place, held, replace(before, needs=needs), confined)
            layer.refresh_logins()
            return layer
        message = pending_message or _PENDING
        live = self._live(run, place, fresh=standing.away)
        differs = self._differs(live, shown)
        laid = bring(self._trees, held, before, differs, live, shown)
        state = State(shown=shown, live=live, standing=standing.tree, head=EMPTY, laid=laid, needs=needs)
        self._lay_git(run, place, held, state, standing, differs, messages=(_UNSAVED, message), branch=branch)
        layer = self._layer(run, place, held, state, confined)
        layer.refresh_logins()
        return layer

    def has(self, run: str, slot: str) -> bool:
        """Whether a layer is there, whole, so that it can go on."""
        place = self._slot(run, slot)
        return State.load(place.folder) is not None and self._held_folder(place).is_dir()

    def _slot(self, run: str, name: str) -> Slot:
        plain = name if re.fullmatch(r"\w[\w.-]{0,80}", name, re.ASCII) else _plain(name)
        folder = self._folder / run / plain
        made = self._made[1]
        return Slot(name, folder, self._memory / run / plain if made and made.in_memory else folder)

    @property
    def _memory(self) -> Path:
        return MEMORY / f"interlock-{os.geteuid()}-{sha1(os.fsencode(self._top)).hexdigest()[:12]}"

    def _held_folder(self, slot: Slot) -> Path:
        return slot.store / "top" if self._made[1] else slot.folder / "tree"

    def _held(self, slot: Slot, below: Slot | None = None) -> tuple[Upper, Confined | None]:
        """Where the writes of a layer lie, its folders made."""
        self._trees.workspace.prepared()
        try:
            for place in (slot.folder, slot.exchange, slot.store, *(slot.folder / "inner" / name for name in COVERED)):
                place.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise WorkspaceFailed.of(error, "a layer cannot be made", where=str(slot.folder)) from error
        if bubblewrap := self._made[1]:
            self._was_confined.touch()
            confined = Confined(self._trees, slot, bubblewrap, self._around, below)
            confined.upper.folder.mkdir(exist_ok=True)
            return confined.upper, confined
        return Copy(self._top, self._held_folder(slot), apart=not_copied), None

    @cached_property
    def _git_settings(self) -> dict[str, str]:
        return logins.git_settings(self._around.home) if self._around.home else {}

    @cached_property
    def _around(self) -> Surroundings:
        return look_around(self._environ, self._top)

    def _layer(self, run: str, slot: Slot, held: Upper, state: State, confined: Confined | None) -> Layer:
        """The layer, whole from here on."""
        home = self._around.home if confined else None
        if home:
            slot.home.mkdir(exist_ok=True)
            logins.lay_git_settings(home, slot.home, self._git_settings)
        state.save(slot.folder)
        return Layer(
            self._trees,
            self._sandbox,
            slot,
            held,
            state,
            line=confined,
            confined=self.maker().confined,
            clean=partial(self.spelled, run),
            environ=self._environ,
            home=home,
        )

    def _lay_git(
        self,
        run: str,
        slot: Slot,
        held: Upper,
        state: State,
        standing: Standing,
        differs: Mapping[str, Entry | None],
        *,
        messages: Sequence[str],
        branch: str = "",
    ) -> None:
        """A private git whose HEAD is the very tree that the layer shows; without messages it is the branch's own."""
        trees, repository = self._trees, self._trees.repository
        if repository is None:
            return
        here = repository.checked_out()
        if standing.head:
            state.head = Tree(here.tree if standing.head == here.head else repository.tree(standing.head))
        spelled = (state.standing, state.shown)
        index = slot.folder / "index"
        if any(map(trees.converts, spelled)):
            spelled = state.clean = (self.spelled(run, state.standing), self.spelled(run, state.shown))
            shutil.copy2(self._slot(run, _SPELLING).exchange / "index", index)
            before = Tree(replace(trees.git, index=index).text("write-tree", "--missing-ok"))
            gitdir.change_index(trees, index, self._differs(before, spelled[1]))
        else:
            gitdir.change_index(trees, index, differs)
        commit, top = standing.head, state.head
        for tree, text in zip(spelled, messages, strict=False):
            if tree != top:
                commit, top = gitdir.commit(trees.objects, tree, commit, text), tree
        state.refs = self._git(slot, held, index, commit, branch if standing.away else here.branch)

    def _git(self, slot: Slot, held: Upper, index: Path, commit: str, branch: str) -> dict[str, str]:
        repository = self._trees.repository
        assert repository is not None
        if self._made[1]:
            place, objects, stores = slot.git, slot.store / "objects", [OBJECTS, *repository.stores[1:]]
        else:
            place = held.folder / ".git"
            objects, stores = place / "objects", [self._trees.objects, repository.objects]
        refs = gitdir.lay(repository, place, commit=commit, branch=branch, index=index)
        remove(objects)
        gitdir.lay_stores(objects, stores)
        if not self._made[1]:
            for name in gitdir.shared(repository):
                shutil.copytree(repository.common_dir / name, place / name, symlinks=True)
        return refs

    def _differs(self, live: Tree, shown: Tree) -> dict[str, Entry | None]:
        return {delta.path: delta.new for delta in self._trees.deltas(live, shown)}

    def _live(self, run: str, slot: Slot, *, fresh: bool = False) -> Tree:
        """What lies on the person's disk, with the index that knows it."""
        index = slot.folder / "index"
        remove(index)
        if not fresh:
            live = self._trees.copy_index(run, index)
        if fresh or not index.exists():
            with self._trees.reading():
                self._trees.snapshots.take(run)
            live = self._trees.copy_index(run, index)
        return live

    # -- layers of commands

    @told
    def for_command(
        self, run: str, standing: Standing, tree: Tree, *, keeps: bool, staged: bool = False, branch: str = ""
    ) -> Layer:
        """A layer for a command of the engine: a person's tree with its caches, the run's own cache, and `tree`.

        Args:
            keeps: what it leaves that is ignored stays in the run's cache; such a layer is the only one of its time.
            staged: HEAD is the branch's own, and the index is the tree to be committed, as a commit hook needs it.
        """
        trees, confines = self._trees, self._made[1] is not None
        cache = self._slot(run, _CACHE)
        known = State.load(cache.folder)
        slot = cache if keeps else self._slot(run, f"{_CHECK}-{uuid4().hex[:8]}" if confines else _CHECK)
        held, confined = self._held(slot, cache if known and not keeps else None)
        live = self._live(run, slot, fresh=standing.away)
        differs = self._differs(live, tree)
        if known and confines and not keeps:
            upper, _ = self._held(cache)
            with self._turn:
                clear(trees, upper, known)
                known.save(cache.folder)
        if known and not confines and not keeps:
            source, _ = self._held(cache)
            known.laid = bring(trees, source, known, differs, live, tree)
            known.save(cache.folder)
            held = Copy(source.folder, held.folder, apart=not_copied)
            held.update(())
            laid = {path: again(held, path, one) for path, one in known.laid.items()}
        else:
            laid = bring(trees, held, known, differs, live, tree)
        state = State(shown=tree, live=live, standing=standing.tree, head=EMPTY, laid=laid)
        messages = () if staged else (_UNSAVED, _PENDING)
        self._lay_git(run, slot, held, state, standing, differs, messages=messages, branch=branch)
        return self._layer(run, slot, held, state, confined)

    def reset_cache(self, run: str) -> None:
        """What commands left is of no use any more: a manifest changed."""
        self._slot(run, _CACHE).remove()

    def clean(self, run: str) -> int:
        """Remove all layers of a run; the bytes that were freed."""
        freed = 0
        for place in (self._folder / run, self._memory / run):
            if place.is_dir():
                freed += sum(status.st_blocks * 512 for _, status in walk(place))
                remove(place)
        return freed

    # -- the clean spelling

    def spelled(self, run: str, tree: Tree) -> Tree:
        """A tree as the person's git would store it: what their settings and filters make of it, run in a layer."""
        if self._trees.repository is None or not self._trees.converts(tree):
            return tree
        with self._turn:
            if tree not in self._spelled:
                self._spelled[tree] = self._spell(run, tree, self._trees.repository)
            return self._spelled[tree]

    def _spell(self, run: str, tree: Tree, repository: Repository) -> Tree:
        trees = self._trees
        slot = self._slot(run, _SPELLING)
        entries = trees.entries(tree)
        for _ in range(_SETTLES):
            before = State.load(slot.folder)
            held, confined = self._held(slot)
            if not confined:
                held = Copy(self._top, held.folder, apart=_all_but(entries))
            live = self._live(run, slot, fresh=True)
            state = State(shown=tree, live=live, standing=tree, head=EMPTY)
            state.laid = bring(trees, held, before, self._differs(live, tree), live, tree)
            here = repository.checked_out()
            self._git(slot, held, slot.folder / "index", here.head, here.branch)
            names = {**(trees.entries(before.shown) if before else {}), **entries}
            layer = self._layer(run, slot, held, state, confined)
            spelled = layer.spelled([path for path, (mode, _) in names.items() if mode != GITLINK])
            # Else what somebody wrote meanwhile could come into a commit.
            if self._live(run, slot, fresh=True) == live:
                changes: dict[str, Entry | None] = {path: spelled.get(path, entry) for path, entry in entries.items()}
                return trees.tree_of(EMPTY, changes)
        raise WorkspaceFailed("the workspace changes too fast to be looked at", where=str(self._top))


def _all_but(entries: Collection[str]) -> Callable[[str], bool]:
    """For a copy that has the files of a tree alone."""
    there = {*entries, *(folder for path in entries for folder in above(path))}
    return lambda path: path not in there


def not_copied(path: str) -> bool:
    """git's own folder, and of the engine's all but what a team shares."""
    return path == ".git" or (path.startswith(".interlock/") and path != ".interlock/.gitignore" and not counts(path))


def _plain(name: str) -> str:
    """A folder's name for any name."""
    return f"{re.sub(r'[^A-Za-z0-9_.-]', '-', name).lstrip('.-')[:60]}-{sha1(os.fsencode(name)).hexdigest()[:8]}"

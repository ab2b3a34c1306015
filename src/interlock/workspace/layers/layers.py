"""The layers of a workspace: how they are made here, opened, kept between dispatches and cleared away."""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from hashlib import sha1
from pathlib import Path

from interlock.errors import ConfigInvalid, WorkspaceFailed
from interlock.settings import SandboxSettings
from interlock.workspace.git import GITLINK, Entry, index_lines
from interlock.workspace.layers import gitdir
from interlock.workspace.layers.bubblewrap import MEMORY, Making, found_out, within
from interlock.workspace.layers.confined import COVERED, OBJECTS, Confined, Slot
from interlock.workspace.layers.contents import State, bring, clear
from interlock.workspace.layers.layer import Layer
from interlock.workspace.layers.surroundings import Surroundings, look_around
from interlock.workspace.layers.upper import Copy, Touched, Upper, remove
from interlock.workspace.repository import Repository
from interlock.workspace.trees import Trees
from interlock.workspace.values import EMPTY, Needs, Standing, Tree

_CACHE, _CHECK, _SPELLING = "_cache", "_check", "_spelling"
"""Slots of our own: no agent's name begins so."""
_MESSAGES = (
    "What is not committed yet\n\nYour view of a person's unsaved work; it is theirs.",
    "What this run has done so far",
)
_SETTLES = 3


class Layers:
    """Makes layers over one workspace."""

    def __init__(self, trees: Trees, sandbox: SandboxSettings, environ: Mapping[str, str] | None = None) -> None:
        self._trees, self._sandbox, self._top = trees, sandbox, trees.workspace.top
        self._environ = os.environ if environ is None else environ
        self._folder = trees.workspace.own / "layers"
        self._was_confined = self._folder / "confined"
        self._spelled: dict[Tree, Tree] = {}
        self._turn = threading.Lock()

    # -- how

    def maker(self) -> Making:
        """How layers are made here; ConfigInvalid where settings do not allow that."""
        return self._made

    @cached_property
    def _made(self) -> Making:
        mode = self._sandbox.mode
        if within():
            why = "interlock runs inside of a layer, which confines whatever runs in it"
            return Making("copy", why, nested=True, top=self._top)
        if mode == "off":
            return Making("copy", 'private copies were asked for ([sandbox] mode = "off")', top=self._top)
        made = found_out(self._top, self._trees.workspace.own, self._environ.get("PATH", os.defpath))
        if not made.confined and (mode == "strict" or self._was_confined.exists()):
            text = "agents cannot be confined here"
            text += "" if mode == "strict" else " any more, and were in this workspace before"
            remedy = f'{made.remedy} Or allow private copies: mode = "{"auto" if mode == "strict" else "off"}".'
            raise ConfigInvalid(text, where="sandbox.mode", found=made.why, remedy=remedy)
        return made

    @property
    def _confines(self) -> bool:
        return self._made.maker == "confined"

    @cached_property
    def _around(self) -> Surroundings:
        return look_around(self._environ, self._top)

    # -- where

    def _slot(self, run: str, name: str) -> Slot:
        plain = name
        if not re.fullmatch(r"\w[\w.-]{0,80}", name, re.ASCII):
            plain = f"{re.sub(r'[^A-Za-z0-9_.-]', '-', name).lstrip('.-')[:60]}-{_short(name)}"
        folder = self._folder / run / plain
        store = self._memory / run / plain if self._made.in_memory else folder
        return Slot(name, folder, store, confined=self._confines)

    @property
    def _memory(self) -> Path:
        return MEMORY / f"interlock-{os.geteuid()}-{_short(self._top)}"

    def _held(self, slot: Slot, below: Slot | None = None) -> Upper:
        """Where the writes of a layer lie, with its folders made; `below`: a layer whose writes it shows, too."""
        self._trees.workspace.prepared()
        for place in (slot.folder, slot.exchange, slot.store, *(slot.folder / "inner" / name for name in COVERED)):
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self._confines:
            return Copy(below.top if below else self._top, slot.top)
        self._was_confined.touch()
        for place in (slot.top, slot.home):
            place.mkdir(exist_ok=True)
        return Confined(self._trees, slot, self._made, self._around, below)

    # -- opened

    def open(
        self,
        run: str,
        name: str,
        standing: Standing,
        shown: Tree,
        needs: Needs,
        *,
        goes_on: bool = False,
        branch: str = "",
    ) -> Layer:
        """A layer that shows a tree; what is ignored is still there from the layer of that name before.

        Args:
            goes_on: after a crash it is taken as it lies, if it is there whole.
            branch: the run's, where another one is checked out.
        """
        place = self._slot(run, name)
        before = State.load(place.folder)
        if goes_on and before and place.top.is_dir():
            return self._layer(run, place, self._held(place), replace(before, needs=needs))
        return self._fresh(run, place, standing, shown, before, needs=needs, branch=branch)

    def has(self, run: str, name: str) -> bool:
        """Whether a layer is there, whole, so that it can go on."""
        place = self._slot(run, name)
        return State.load(place.folder) is not None and place.top.is_dir()

    def for_command(
        self, run: str, standing: Standing, tree: Tree, *, keeps: bool, staged: bool = False, branch: str = ""
    ) -> Layer:
        """A layer for a command of the engine: a person's tree with its caches, the run's own cache, and `tree`.

        They run one at a time.

        Args:
            keeps: what it leaves that is ignored stays in the run's cache.
            staged: HEAD is the branch's own, and the index is the tree to be committed, as a commit hook needs it.
        """
        cache = self._slot(run, _CACHE)
        known = State.load(cache.folder)
        if known and not keeps:
            clear(self._trees, self._held(cache), known, rules=tree)
            known.save(cache.folder)
        slot, below = (cache, None) if keeps else (self._slot(run, _CHECK), cache if known else None)
        return self._fresh(run, slot, standing, tree, known, bare=staged, branch=branch, below=below)

    def _fresh(
        self,
        run: str,
        slot: Slot,
        standing: Standing,
        shown: Tree,
        before: State | None,
        *,
        needs: Needs | None = None,
        bare: bool = False,
        branch: str = "",
        below: Slot | None = None,
    ) -> Layer:
        """A layer with a tree laid into it.

        Args:
            before: what is known of the files there, or below.
            bare: HEAD is the branch's own, without commits for what is not committed and for the run's work.
        """
        trees = self._trees
        anew = before is None or below is not None
        if anew and self._confines:
            slot.remove()
        held = self._held(slot, below)
        if anew:
            held.restore(Touched(), ())
        index = slot.folder / "index"
        live = self._live(run, index, fresh=standing.away or slot.name == _SPELLING)
        differs = {delta.path: delta.new for delta in trees.deltas(live, shown)}
        laid = bring(trees, held, before, differs, shown)
        state = State(shown=shown, live=live, standing=standing.tree, head=EMPTY, laid=laid, needs=needs or Needs())
        if repository := trees.repository:
            here = repository.checked_out()
            state.head = Tree(here.tree or EMPTY) if standing.head == here.head else trees.committed(standing.head)
            if slot.name != _SPELLING and (trees.converts(standing.tree) or trees.converts(shown)):
                state.clean = (self.spelled(run, standing.tree), self.spelled(run, shown))
                shutil.copy2(self._slot(run, _SPELLING).exchange / "index", index)
                spelled = Tree(replace(trees.git, index=index).text("write-tree", "--missing-ok"))
                differs = {delta.path: delta.new for delta in trees.deltas(spelled, state.clean[1])}
            if differs:  # git looks at these files when it is first asked
                replace(trees.git, index=index).run("update-index", "-z", "--index-info", stdin=index_lines(differs))
            commit, top = standing.head, state.head
            for tree, text in () if bare else zip(state.clean or (standing.tree, shown), _MESSAGES, strict=True):
                if tree != top:
                    commit, top = trees.commit(tree, commit, text, int(time.time())), tree
            gitdir.lay(repository, slot.git, commit, branch if standing.away else here.branch, index)
            if self._confines:
                gitdir.lay_stores(slot.objects, [OBJECTS, *repository.stores[1:]])
            else:
                gitdir.lay_stores(slot.objects, [trees.objects, repository.objects])
                for place in gitdir.shared(repository):
                    shutil.copytree(place, slot.git / place.name, symlinks=True)
        return self._layer(run, slot, held, state)

    def _live(self, run: str, index: Path, *, fresh: bool = False) -> Tree:
        """The tree that lies on the person's disk; its index, with stat data, comes to `index`."""
        remove(index)
        live = EMPTY if fresh else self._trees.copy_index(run, index)
        if not index.exists():
            with self._trees.reading():
                self._trees.snapshots.take(run)
            live = self._trees.copy_index(run, index)
        return live

    def _layer(self, run: str, slot: Slot, held: Upper, state: State) -> Layer:
        """The layer object; its state is saved, so that it counts as whole from here on."""
        layer = Layer(self._trees, self._sandbox, slot, held, state, partial(self.spelled, run))
        layer.refresh_logins()
        return layer

    # -- cleared away

    def reset_cache(self, run: str) -> None:
        """What commands left is of no use any more: a manifest changed."""
        self._slot(run, _CACHE).remove()

    def clean(self, run: str) -> None:
        """Remove all layers of a run."""
        for place in (self._folder / run, self._memory / run):
            remove(place)

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
        slot = self._slot(run, _SPELLING)
        entries = self._trees.entries(tree)
        standing = Standing(tree=tree, head=repository.checked_out().head)
        for _ in range(_SETTLES):
            layer = self._fresh(run, slot, standing, tree, State.load(slot.folder), bare=True)
            spelled = layer.spelled([path for path, (mode, _) in entries.items() if mode != GITLINK])
            # Else what somebody wrote meanwhile could come into a commit.
            if self._live(run, slot.folder / "index", fresh=True) == layer.live:
                changes: dict[str, Entry | None] = {path: spelled.get(path, entry) for path, entry in entries.items()}
                return self._trees.tree_of(EMPTY, changes)
        raise WorkspaceFailed("the workspace changes too fast to be looked at", where=str(self._top))


def _short(name: str | Path) -> str:
    return sha1(os.fsencode(name), usedforsecurity=False).hexdigest()[:8]

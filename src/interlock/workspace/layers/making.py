"""The layers of one workspace: made, found again after a crash, swept away."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.errors import ConfigInvalid, WorkspaceFailed
from interlock.workspace.clone import remove_folders
from interlock.workspace.layers import logins
from interlock.workspace.layers.confined import Confined
from interlock.workspace.layers.copies import Copy, claim, claimed
from interlock.workspace.layers.folder import LayerFolder, layer_names, set_aside_in
from interlock.workspace.layers.launcher.nursery import CONFINED, CUT_OFF, PLAIN
from interlock.workspace.layers.layer import OneLayer
from interlock.workspace.layers.nursery import NURSERY
from interlock.workspace.layers.probe import COPY, MAKERS, NAMESPACES, Probed, probed
from interlock.workspace.layers.seam import Confinement, DiskLayer, Mode, Network, Probe
from interlock.workspace.layers.surroundings import Surroundings, look_around
from interlock.workspace.repository import UserRepository
from interlock.workspace.snapshots import Workspace

_COPIED_BYTES = 1024 * 1024
"""Files of HOME up to this size are copied into the private HOME, so that a program can replace them."""


class AllLayers:
    """`Layers` of the seam."""

    def __init__(self, workspace: Workspace, environ: Mapping[str, str], maker: str | None) -> None:
        if maker is not None and maker not in MAKERS:
            raise ConfigInvalid(f"no maker of layers is called {maker!r}", expected=", ".join(MAKERS))
        self._workspace = workspace
        self._environ = environ
        self._maker = maker
        self._layers = workspace.home / "layers"

    def probe(self) -> Probe:
        return self._probed().answer

    def _probed(self) -> Probed:
        return probed(self._workspace.root, self._workspace.home, self._environ, self._maker)

    async def make(self, name: str, confinement: Confinement, *, parent: bytes | None = None) -> DiskLayer:
        """A new, empty layer; a leftover of that name is dropped first.

        Args:
            parent: what a nested interlock reads in ``.interlock/parent.json``; a confined program cannot change it.
        """
        folder = LayerFolder(self._layers, name)
        repository = await self._workspace.user_repository()

        def build() -> OneLayer:
            found = self._probed()
            found.answer.check(confinement.mode)
            maker = COPY if confinement.mode is Mode.OFF else found.answer.maker
            # It gets ready meanwhile.
            network = CONFINED if confinement.network is Network.OPEN else CUT_OFF
            launcher = NURSERY.begin(network if maker == NAMESPACES else PLAIN)
            try:
                folder.make()
                make = self._make_copy if maker == COPY else self._make_confined
                layer = make(folder, repository, confinement, found, parent)
            except BaseException:
                if launcher is not None:
                    launcher.dismiss()
                raise
            layer.launcher = launcher
            return layer

        try:
            return await asyncio.to_thread(build)
        except OSError as error:
            raise WorkspaceFailed(
                f"a layer cannot be made: {error.strerror}",
                where=str(error.filename or folder.path),
                remedy="See that the disk has room and that .interlock is writable.",
            ) from error

    async def find(self, name: str, confinement: Confinement, *, parent: bytes | None = None) -> DiskLayer | None:
        """The layer of that name that an earlier process left; None when there is none, or no whole one."""
        folder = LayerFolder(self._layers, name)
        found = await asyncio.to_thread(self._probed)
        repository = await self._workspace.user_repository()

        def reopen() -> OneLayer | None:
            facts = folder.remembered()
            if facts is None or facts.get("maker") not in MAKERS:
                return None
            if facts["maker"] == COPY:
                place = claimed(self._layers, name)
                return self._copy(folder, place, repository, confinement, found, facts) if place is not None else None
            memory = bool(facts.get("memory"))
            if memory and not folder.memory.is_dir():
                return None  # The machine was started anew.
            if parent is not None:
                (folder.path / "parent.json").write_bytes(parent)
            return self._confined(folder, repository, confinement, found, self._around(), memory=memory)

        return await asyncio.to_thread(reopen)

    async def sweep(self, run_id: str) -> list[str]:
        names = [name for name in layer_names(self._layers) if name.startswith(f"{run_id}-")]

        def remove() -> None:
            for name in names:
                LayerFolder(self._layers, name).set_aside()
            remove_folders(set_aside_in(self._layers))

        await asyncio.to_thread(remove)
        return names

    def _around(self) -> Surroundings:
        return look_around(self._environ, self._workspace.root)

    def _make_confined(
        self,
        folder: LayerFolder,
        repository: UserRepository | None,
        confinement: Confinement,
        found: Probed,
        parent: bytes | None,
    ) -> OneLayer:
        around = self._around()
        store = folder.memory if found.in_memory else folder.path
        store.mkdir(exist_ok=True, mode=0o700)
        for place in (store / "upper", store / "work", folder.inner):
            place.mkdir()
        folder.home.mkdir(mode=0o700)
        if confinement.home is not None:
            _copy_small_files(folder.home, confinement.home.resolve(), around, confinement)
        if (ignore := self._workspace.home / ".gitignore").is_file():
            shutil.copyfile(ignore, folder.inner / ".gitignore")
        if parent is not None:
            (folder.path / "parent.json").write_bytes(parent)
        layer = self._confined(folder, repository, confinement, found, around, memory=found.in_memory)
        digests = logins.lay_in(layer.login_places())
        folder.remember({"maker": found.answer.maker, "memory": found.in_memory, "logins": digests})
        return layer

    def _confined(
        self,
        folder: LayerFolder,
        repository: UserRepository | None,
        confinement: Confinement,
        found: Probed,
        around: Surroundings,
        *,
        memory: bool,
    ) -> OneLayer:
        holding = Confined(
            self._workspace.root,
            self._workspace.home,
            folder,
            store=folder.memory if memory else folder.path,
            around=around,
            repository=repository,
            bubblewrap=found.bubblewrap,
        )
        return OneLayer(self._workspace, folder, holding, confinement, confined=True, own_home=True)

    def _make_copy(
        self,
        folder: LayerFolder,
        repository: UserRepository | None,
        confinement: Confinement,
        found: Probed,
        parent: bytes | None,
    ) -> OneLayer:
        place = claim(self._layers, folder.name)
        facts = Copy(self._workspace.root, self._workspace.home, folder, place, repository).bring_up_to_date()
        layer = self._copy(folder, place, repository, confinement, found, facts)
        if parent is not None:
            (layer.root / ".interlock").mkdir(exist_ok=True)
            (layer.root / ".interlock" / "parent.json").write_bytes(parent)
        folder.remember({"maker": COPY, **facts})
        return layer

    def _copy(
        self,
        folder: LayerFolder,
        place: Path,
        repository: UserRepository | None,
        confinement: Confinement,
        found: Probed,
        facts: Mapping[str, Any],
    ) -> OneLayer:
        holding = Copy(self._workspace.root, self._workspace.home, folder, place, repository)
        holding.recall(facts)
        # In a copy a program is confined only if this process is.
        confined = found.answer.maker == COPY and found.answer.confined
        return OneLayer(self._workspace, folder, holding, confinement, confined=confined, own_home=False)


def _copy_small_files(target: Path, home: Path, around: Surroundings, confinement: Confinement) -> None:
    """Put files of HOME that can be read into the private one, where a program may replace them."""
    for shown in (*around.shown, *(one for path in confinement.shown for one in around.seen(path))):
        if not shown.at.is_relative_to(home) or not shown.source.is_file():
            continue
        if shown.source.stat().st_size <= _COPIED_BYTES:
            place = target / shown.at.relative_to(home)
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.copy2(shown.source, place)


def open_layers(workspace: Workspace, *, environ: Mapping[str, str], maker: str | None = None) -> AllLayers:
    """The layers of a workspace.

    Args:
        environ: the user's environment: HOME, PATH and XDG_RUNTIME_DIR say what programs may see.
        maker: ``bubblewrap``, ``namespaces`` or ``copy`` and no other; None for the best one that works here.
    """
    return AllLayers(workspace, environ, maker)

"""From the bytes of a playbook to the playbook: they are compiled as they were read, the files it imports too."""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.resources.abc import TraversableResources
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from interlock.engine.definition import Nothing, Playbook
from interlock.engine.keys import sha256
from interlock.errors import ConfigInvalid, InterlockError
from interlock.finding.bundle import Bundle, BundleFolder, read
from interlock.finding.places import NAME
from interlock.finding.reading import flow_of, parsed


class Bundled(MetaPathFinder, Loader):
    """Imports the files of one bundle, as a package whose name nobody else has; from memory, never from the disk."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.package = f"interlock_own_{sha256(f'{bundle.place} {bundle.digest}'.encode())[:16]}"

    def module(self, file: str) -> ModuleType:
        """The module of a file at the top of the bundle, executed once."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        return import_module(f"{self.package}.{_stem(file)}")

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        head, *below = fullname.split(".")
        if head != self.package:
            return None
        file = self._file(below)
        folder = "/".join(below)
        is_package = file is None or file.endswith("__init__.py")
        if file is None and below and not any(name.startswith(f"{folder}/") for name in self.bundle.files):
            return None
        place = self.bundle.path_of(file) if file is not None else None
        spec = ModuleSpec(fullname, self, origin=place, loader_state=file, is_package=is_package)
        spec.has_location = place is not None
        return spec

    def _file(self, below: Sequence[str]) -> str | None:
        stem = "/".join(below)
        names = [f"{stem}.py", f"{stem}/__init__.py"] if below else ["__init__.py"]
        if not self.bundle.is_folder:  # its file may be called as it likes
            names = [self.bundle.main] if below == [_stem(self.bundle.main)] else []
        return next((name for name in names if name in self.bundle.files), None)

    def get_resource_reader(self, fullname: str) -> BundledResources:
        """Data files are read from memory too, by whoever asks `importlib.resources` for them."""
        return BundledResources(self.bundle.home.joinpath(*fullname.split(".")[1:]))

    def exec_module(self, module: ModuleType) -> None:
        file = module.__spec__.loader_state if module.__spec__ else None
        if file is None:
            return
        source, place = self.bundle.files[file], self.bundle.path_of(file)
        code = compile(source, place, "exec", dont_inherit=True)
        # Whoever asks for lines of it, a traceback or a docstring's reader, gets what was loaded; no time: it stays.
        lines = source.decode("utf-8", "replace").splitlines(keepends=True)
        linecache.cache[place] = (len(source), None, lines, place)
        exec(code, module.__dict__)


@dataclass(frozen=True)
class BundledResources(TraversableResources):
    """The files beside a package of a bundle."""

    folder: BundleFolder

    def files(self) -> BundleFolder:
        return self.folder


def _stem(file: str) -> str:
    return PurePosixPath(file).stem.replace(".", "_")


def loaded(bundle: Bundle, *, only: str = "", where: str, find: Callable[[str], Playbook] | None = None) -> Playbook:
    """The playbook of a bundle; `ConfigInvalid` when there is none in it, or several and none is meant.

    Args:
        only: the one that is meant, by its name or by that of its variable.
        where: the file as people know it.
        find: the playbooks that it may call, by name.
    """
    if bundle.is_yaml:
        return _compiled(bundle, only, where, find)
    for file, content in bundle.files.items():
        if file.endswith(".py"):  # one that nothing imports too: it is read for what it touches
            parsed(content, where.removesuffix(bundle.main) + file)
    finder = Bundled(bundle)
    try:
        module = finder.module(bundle.main)
    except InterlockError:
        raise
    except (Exception, SystemExit) as error:  # whatever somebody's code does
        raise failed(error, where) from error
    own = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, Playbook) and value.function.__module__.startswith(finder.package)
    }
    meant = {id(value): value for name, value in own.items() if not only or only in (name, value.name)}
    if len(meant) == 1:
        return checked(replace(meant.popitem()[1], home=bundle.home), where)
    names = ", ".join(dict.fromkeys(value.name for value in own.values()))
    if not own:
        raise ConfigInvalid(
            "there is no playbook in this file", where=where, expected="an async function under @playbook(...)"
        )
    raise ConfigInvalid(
        "there is more than one playbook in this file" if meant else f"there is no playbook {only!r} in this file",
        where=where,
        expected=f"one of {names}",
        found=only or None,
        remedy=f"Name the one you mean: {where}:{next(iter(own.values())).name}",
    )


def _compiled(bundle: Bundle, only: str, where: str, find: Callable[[str], Playbook] | None) -> Playbook:
    from interlock import flows

    flow = flow_of(bundle, where)
    if only and only != flow.name:
        raise ConfigInvalid(f"there is no playbook {only!r} in this file", where=where, expected=flow.name, found=only)
    playbook = flows.compiled(flow, bundle.home, find)
    return checked(replace(playbook, rehearsal=partial(flows.rehearsal, flow, find)), where)


def failed(error: BaseException, where: str) -> ConfigInvalid:
    """What somebody's code said when it was loaded."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename.endswith(where)]
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return ConfigInvalid(
        f"the playbook cannot be loaded: {said}",
        where=f"{where}:{lines[-1]}" if lines else where,
        remedy="Correct its code; it is executed once before anything runs.",
    )


def checked(playbook: Playbook, where: str) -> Playbook:
    """The playbook, if doors can offer it; else `ConfigInvalid`."""
    from interlock.settings import SettingsTable, is_taken

    if not isinstance(playbook.name, str) or not NAME.fullmatch(playbook.name) or is_taken(playbook.name):
        raise ConfigInvalid(
            f"a playbook cannot be called {playbook.name!r}",
            where=where,
            expected="a letter, then letters, digits, - and _, 40 at most; no table of interlock.toml",
            found=str(playbook.name),
        )
    if not is_dataclass(playbook.inputs):
        raise ConfigInvalid(
            f"the inputs of {playbook.name} are no dataclass", where=where, expected="@dataclass(frozen=True)"
        )
    if playbook.settings is not Nothing and not issubclass(playbook.settings, SettingsTable):
        raise ConfigInvalid(
            f"the settings of {playbook.name} are no table",
            where=where,
            expected="a class below interlock.settings.SettingsTable, in which everything has a default",
        )
    try:
        for kind in (playbook.inputs, playbook.flags, playbook.moves):
            playbook.questions(kind)
        playbook.settings()
    except (TypeError, NameError, ValueError) as error:
        raise ConfigInvalid(f"nobody can ask for {playbook.name}: {error}", where=where) from error
    return playbook


def playbook_in(folder: Path) -> Playbook:
    """The playbook of a folder, for its tests: they are code of that folder themselves, so nobody is asked."""
    bundle = read(folder.resolve())
    return loaded(bundle, where=bundle.path_of(bundle.main))

"""Where playbooks are found, the first hit wins: a path, `.interlock/playbooks/`, installed packages, shipped (OWN-01).

Looking executes nothing: names come from paths and from the metadata of packages.  A playbook that is used is loaded
from its trusted bytes.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint, distributions
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any, Literal

from interlock.documents.files import relative
from interlock.engine.playbook import Playbook
from interlock.errors import ConfigInvalid, InterlockError, PathRefused, place, unknown
from interlock.finding.bundle import ENDINGS, MAINS, Bundle, is_no_part, read
from interlock.finding.trust import Consent, Trust, nobody

FOLDER, GROUP = ".interlock/playbooks", "interlock.playbooks"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}")
"""What a playbook can be called: its name stands in run ids, settings, folders of roles, and on terminals."""
_PATH = re.compile(r"(?P<path>.*/.*?|\.|\.\.|.*\.(?:py|ya?ml))(?::(?P<only>[A-Za-z_][\w-]*))?", re.DOTALL)


@dataclass(frozen=True)
class Found:
    """A playbook that is there; nothing of it was executed."""

    name: str
    """As it is asked for; of a path, the path."""
    origin: Literal["path", "workspace", "installed", "shipped"]
    place: str = ""
    """Where, as it is shown and noted: a path from the workspace if it lies there, else a package."""
    path: Path | None = None
    only: str = ""
    """Which one is meant, of a file with several."""
    entry: EntryPoint | None = None


@dataclass(frozen=True)
class Library:
    """Every playbook that a person has here."""

    top: Path
    shipped: Mapping[str, str]
    """Name -> `module:attribute`."""
    trust: Trust

    def __iter__(self) -> Iterator[Found]:
        """Those that have a name, in the order in which they count; namesakes too."""
        yield from self._of_workspace()
        yield from self.installed
        yield from (Found(name, "shipped") for name in self.shipped)

    def find(self, word: str, here: Path) -> Found:
        """The playbook that somebody means, as seen from a folder."""
        if (parts := _PATH.fullmatch(word)) is not None:
            path = (here / Path(parts["path"]).expanduser()).absolute()
            return Found(word, "path", self._shown(path), path, parts["only"] or "")
        found = next((one for one in self if one.name == word), None)
        if found is None:
            names = sorted({one.name for one in self})
            raise unknown(
                f"there is no playbook {word!r}", word, names, remedy="See what there is: interlock playbooks"
            )
        return found

    @property
    def named(self) -> dict[str, Found]:
        """What each name means."""
        return {one.name: one for one in reversed([*self])}

    def offered(self) -> Iterator[tuple[Found, Playbook | None, str]]:
        """What each name means, loaded; or why it is not offered: what nobody trusts is not loaded."""
        for _, found in sorted(self.named.items()):
            try:
                yield found, self.load(found)[0], ""
            except InterlockError as error:
                yield found, None, f"{error.what}. {error.remedy or ''}".strip()

    def _shown(self, path: Path) -> str:
        try:
            return relative(self.top, path)
        except PathRefused:
            return str(path)

    def _of_workspace(self) -> Iterator[Found]:
        """Those of `.interlock/playbooks/` that have a name; a folder before a file of its name."""
        try:
            entries = sorted((self.top / FOLDER).iterdir(), key=lambda entry: (not entry.is_dir(), entry.name))
        except OSError:
            return
        for entry in entries:
            folder = entry.is_dir() and any((entry / main).exists() for main in MAINS)
            file = not entry.is_dir() and entry.suffix in ENDINGS and entry.name not in MAINS
            name = entry.name if folder else entry.stem
            if (folder or file) and NAME.fullmatch(name) and not is_no_part(entry.name):
                yield Found(name, "workspace", f"{FOLDER}/{entry.name}", entry)

    @cached_property
    def installed(self) -> tuple[Found, ...]:
        """Those that packages offer; a folder that is merely where somebody stands has installed nothing."""
        here = {self.top.resolve(), Path.cwd()}
        found: dict[str, Found] = {}
        for one in distributions(path=[path for path in sys.path if path and Path(path).resolve() not in here]):
            if GROUP not in (one.read_text("entry_points.txt") or ""):
                continue  # most have none, and the parser of those that have some is slow
            for entry in one.entry_points.select(group=GROUP):
                if NAME.fullmatch(entry.name):
                    place = f"{one.metadata['Name']} {one.version}"
                    found.setdefault(entry.name, Found(entry.name, "installed", place, entry=entry))
        return tuple(found[name] for name in sorted(found))

    def load(self, found: Found, consent: Consent = nobody) -> tuple[Playbook, str]:
        """The playbook, and the digest of what it was loaded from (empty: it is installed)."""
        if found.path is None:
            module, _, attribute = (found.entry.value if found.entry else self.shipped[found.name]).partition(":")
            playbook: Playbook = getattr(import_module(module), attribute)
            return playbook, ""
        bundle = read(found.path)
        checked(bundle, found)
        copy = self.trust.copy(found.name, bundle, consent)
        return loaded(bundle, copy, found), bundle.digest


def checked(bundle: Bundle, found: Found) -> None:
    """Bad input where it could not be used whoever trusts it: a file is checked before anybody is asked."""
    for file, content in bundle.files.items():
        where = f"{found.place}/{file}" if bundle.is_folder else found.place
        if file.endswith(".py"):
            try:
                compile(content, where, "exec", dont_inherit=True)
            except (SyntaxError, ValueError) as error:
                what = f"the playbook is no Python: {getattr(error, 'msg', None) or error}"
                raise ConfigInvalid(what, where=place(where, getattr(error, "lineno", None))) from None
    if bundle.is_yaml:
        _flow(bundle, found)


def _flow(bundle: Bundle, found: Found) -> Any:
    from interlock.flows import checking, format

    where = f"{found.place}/{bundle.main}" if bundle.is_folder else found.place
    flow, source = format.read(bundle.files[bundle.main], where)
    checking.check(flow, source)
    return flow


def loaded(bundle: Bundle, copy: Path, found: Found) -> Playbook:
    """The playbook of a bundle, from its trusted copy; with the agents and prompts beside it."""
    folder = str(copy) if bundle.is_folder else ""
    if bundle.is_yaml:
        from interlock.flows.compiling import compiled

        return compiled(_flow(bundle, found), folder=folder)
    module = _module(copy, bundle, found)
    own = {name: value for name, value in vars(module).items() if isinstance(value, Playbook)}
    meant = {id(value): value for name, value in own.items() if not found.only or found.only in (name, value.name)}
    if len(meant) != 1:
        names = ", ".join(dict.fromkeys(value.name for value in own.values()))
        raise ConfigInvalid(
            f"this file has {'several playbooks' if meant else 'no such playbook' if own else 'no playbook'}",
            where=found.place,
            expected=f"one of {names}" if own else "NAME = Playbook(...) at its top",
            found=found.only or None,
            remedy=f"Name the one you mean: {found.name.partition(':')[0]}:{names.split(', ')[0]}" if own else None,
        )
    playbook = meant.popitem()[1]
    if not NAME.fullmatch(playbook.name):
        raise ConfigInvalid(f"a playbook cannot be called {playbook.name!r}", where=found.place, expected=NAME.pattern)
    return replace(playbook, folder=playbook.folder or folder)


def _module(folder: Path, bundle: Bundle, found: Found) -> Any:
    """The main file as a module of a package that nobody else has, so that it may import the files beside it."""
    package = f"interlock_own_{bundle.digest[:16]}"
    spec = ModuleSpec(package, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    sys.modules.setdefault(package, module_from_spec(spec))
    try:
        return import_module(f"{package}.{Path(bundle.main).stem}")
    except InterlockError:
        raise
    except (Exception, SystemExit) as error:
        sys.modules.pop(f"{package}.{Path(bundle.main).stem}", None)
        frames = traceback.extract_tb(error.__traceback__)
        line = next((one.lineno for one in reversed(frames) if one.filename.startswith(str(folder))), None)
        raise ConfigInvalid(
            f"the playbook cannot be loaded: {type(error).__name__}: {error}".rstrip(": "),
            where=place(found.place, line),
            remedy="Correct its code; it is executed once before anything runs.",
        ) from error

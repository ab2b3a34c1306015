"""Where playbooks are found, the first hit wins: a path, `.interlock/playbooks/`, installed packages, shipped (OW-02).

Looking executes nothing: names come from paths and from the metadata of packages.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from interlock import playbooks
from interlock.documents.paths import relative
from interlock.errors import ConfigInvalid, PathRefused
from interlock.finding.bundle import PROCESSES, is_no_part
from interlock.telemetry.lines import printable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

FOLDER: Final = ".interlock/playbooks"
GROUP: Final = "interlock.playbooks"
NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
"""What a playbook can be called: its name stands in run ids, settings, folders of roles, and on terminals."""
_PATH: Final = re.compile(r"(?P<path>.*/.*?|\.|\.\.|.*\.(?:py|ya?ml))(?::(?P<only>[A-Za-z_][\w-]*))?", re.DOTALL)


class Origin(StrEnum):
    PATH = "path"
    WORKSPACE = "workspace"
    INSTALLED = "installed"
    SHIPPED = "shipped"

    @property
    def needs_trust(self) -> bool:
        """Whoever installed a package has trusted it; a file of a workspace may be anybody's."""
        return self in (Origin.PATH, Origin.WORKSPACE)


@dataclass(frozen=True)
class FoundPlaybook:
    """A playbook that is there; nothing of it was executed."""

    name: str
    """As it is asked for; of a path, the path."""
    origin: Origin
    place: str
    """Where, as it is shown and noted: a path from the workspace if it lies there, a package, or nothing."""
    path: Path | None = None
    only: str = ""
    """Which one is meant, of a file with several."""
    entry: EntryPoint | None = None

    def __str__(self) -> str:
        return f"{self.origin} {self.place}".rstrip()


def is_path(word: str) -> bool:
    """Whether a playbook is asked for by its path: names have no slash, and no ending of a file."""
    return _PATH.fullmatch(word) is not None


class Whereabouts:
    """Everywhere a playbook of this workspace can be."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, word: str, here: Path) -> FoundPlaybook:
        """The playbook that somebody means, seen from a folder; `ConfigInvalid` names those there are."""
        if is_path(word):
            return self.named(word, here)
        found = next((one for one in self if one.name == word), None)
        if found is None:
            known = list(dict.fromkeys(one.name for one in self))
            near = difflib.get_close_matches(word, known, 1)
            raise ConfigInvalid(
                f"there is no playbook {word!r}",
                expected=f"one of {', '.join(known)}; or a path such as ./{word}.py",
                found=word,
                remedy=f"Did you mean {near[0]}?" if near else "See what there is: interlock playbooks",
            )
        return found

    def named(self, word: str, here: Path) -> FoundPlaybook:
        """The playbook at a path, as somebody typed it."""
        parts = _PATH.fullmatch(word)
        assert parts is not None
        return self.at(here / os.path.expanduser(parts["path"]), parts["only"] or "", word)  # noqa: PTH111 - total

    def at(self, path: Path, only: str = "", word: str = "") -> FoundPlaybook:
        """The playbook at a path: a file, or a folder with a process."""
        try:
            path = path.resolve()
        except (RuntimeError, ValueError) as error:  # links in a circle; what can be no path
            raise ConfigInvalid(f"no playbook can be at this path: {error}", where=printable(str(path))) from None
        if path.name in PROCESSES:
            path = path.parent
        try:
            shown = relative(self.root, path)
        except PathRefused:
            shown = str(path)
        return FoundPlaybook(word or shown, Origin.PATH, shown, path, only)

    def __iter__(self) -> Iterator[FoundPlaybook]:
        """Every playbook there is by a name, in the order in which they count; namesakes too."""
        yield from self.of_workspace
        yield from self.installed
        yield from map(self._shipped, playbooks.NAMES)

    def _shipped(self, name: str) -> FoundPlaybook:
        return FoundPlaybook(name, Origin.SHIPPED, name)

    @cached_property
    def of_workspace(self) -> tuple[FoundPlaybook, ...]:
        """Those of `.interlock/playbooks/` that have a name; a folder before a file of its name."""
        try:
            entries = sorted(os.scandir(self.root / FOLDER), key=lambda entry: (not entry.is_dir(), entry.name))
        except OSError:
            return ()
        found = []
        for entry in entries:
            name, dot, ending = entry.name.rpartition(".")
            if is_no_part(entry.name) or entry.name in PROCESSES:
                continue
            if entry.is_dir():
                if any(os.path.lexists(f"{entry.path}/{file}") for file in PROCESSES):
                    found.append((entry.name, entry.path))
            elif dot and name and ending in ("py", "yaml"):
                found.append((name, entry.path))
        return tuple(
            FoundPlaybook(name, Origin.WORKSPACE, f"{FOLDER}/{Path(path).name}", Path(path))
            for name, path in found
            if NAME.fullmatch(name)
        )

    @cached_property
    def installed(self) -> tuple[FoundPlaybook, ...]:
        """Those that packages offer. A folder that is merely where somebody stands has installed nothing."""
        from importlib.metadata import distributions

        here = {self.root, Path.cwd()}
        paths = [path for path in sys.path if path and Path(path).resolve() not in here]
        found: dict[str, FoundPlaybook] = {}
        for distribution in distributions(path=paths):
            if GROUP not in (distribution.read_text("entry_points.txt") or ""):
                continue  # most have none, and the parser of those that have some is slow
            for entry in distribution.entry_points:
                if entry.group == GROUP and NAME.fullmatch(entry.name):
                    place = f"{distribution.metadata['Name']} {distribution.version}"
                    found.setdefault(entry.name, FoundPlaybook(entry.name, Origin.INSTALLED, place, entry=entry))
        return tuple(found[name] for name in sorted(found))

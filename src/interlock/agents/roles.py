"""Roles: who an agent is, in a Markdown file with YAML frontmatter, and where such files are looked for.

Order of a search (EN-43, DESIGN 6).  Four places belong to the team: ``.interlock/agents/``,
``.github/agents/`` (``*.agent.md``), ``.claude/agents/`` and ``.opencode/agent/`` (any depth).  A file
``<playbook>/<role>`` in any of them comes before a bare ``<role>`` in any of them; within each of the two, the
places count in this order.  What a playbook brings along comes last: a team's bare ``Review.agent.md`` is meant to
replace the shipped one.  So no role is taken over by a namesake: names are compared in exact case (also where
the file system would not), and a file in the folder of another playbook is that playbook's alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from interlock.documents import Store, split_frontmatter
from interlock.errors import BadInput, PathRefused

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_Folder = TypeVar("_Folder", "Path", "Traversable")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_DEEPEST: Final = 6


@dataclass(frozen=True)
class Role:
    """An agent's instructions and what its file says about how to call it."""

    name: str
    description: str
    body: str
    source: str
    """Where it was found: a workspace-relative path, or the place of a shipped role."""
    model: str | None = None
    tools: tuple[str, ...] = ()
    writes: tuple[str, ...] | None = None
    timeout_s: float | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Everything in the frontmatter that has no field of its own here, or not in a form that it could have."""


@dataclass(frozen=True)
class RoleSource:
    """A role file that exists, for `doctor`."""

    role: str
    playbook: str | None
    """The playbook it is for; ``None``: for any."""
    place: str
    source: str
    problem: str | None = None


@dataclass(frozen=True)
class RoleFolder:
    """A folder of role files."""

    folder: str
    suffix: str = ".md"
    deep: bool = False
    """Files count at any depth, not only directly in the folder or in a playbook's folder."""


TEAM_PLACES: Final = (
    RoleFolder(".interlock/agents"),
    RoleFolder(".github/agents", suffix=".agent.md"),
    RoleFolder(".claude/agents"),
    RoleFolder(".opencode/agent", deep=True),
)
SHIPPED: Final = "shipped"
OWN: Final = "own"


class RoleLibrary:
    """All roles that can be found for a workspace.

    Args:
        workspace: its root.
        shipped: folders that hold ``<playbook>/agents/<role>.md``, normally the package `interlock.playbooks`.
        own: by their names, playbooks that do not ship, each with its place and its folder.
    """

    def __init__(
        self,
        workspace: Path,
        shipped: Sequence[Traversable] = (),
        own: Mapping[str, tuple[str, Traversable]] = MappingProxyType({}),
    ) -> None:
        self._workspace = workspace
        self._store = Store(workspace, attic=workspace / ".interlock" / "attic")
        self._shipped = tuple(shipped)
        self._own = own

    def find(self, playbook: str, role: str) -> Role | None:
        """The role as this playbook gets it; ``None`` if there is none, an error if its file cannot be used."""
        for name in (playbook, role):
            if not _NAME.fullmatch(name):
                raise PathRefused(name, "it is not a plain name of a role or playbook")
        for wanted in (playbook, None):
            for source in self._in_workspace():
                if (source.playbook, source.role) == (wanted, role):
                    return parse_role(self._text(source.source), source.source)
        for source, file in self._in_packages():
            if (source.playbook, source.role) == (playbook, role):
                return parse_role(file.read_text(encoding="utf-8"), source.source)
        return None

    def sources(self) -> list[RoleSource]:
        """Every role file there is, in the order in which they count; unusable ones with what is wrong."""
        team = sorted(self._in_workspace(), key=lambda source: source.playbook is None)
        return [*(self._checked(source) for source in team), *(source for source, _ in self._in_packages())]

    def _checked(self, source: RoleSource) -> RoleSource:
        try:
            parse_role(self._text(source.source), source.source)
        except BadInput as error:
            return replace(source, problem=error.what)
        return source

    def _text(self, path: str) -> str:
        return self._store.read(path).require().text

    def _in_workspace(self) -> Iterator[RoleSource]:
        playbooks = {source.playbook for source, _ in self._in_packages()}
        for place in TEAM_PLACES:
            root = self._workspace / place.folder
            files = _files(root, _DEEPEST if place.deep else 1)
            for file in sorted(files, key=lambda file: (len(file.parts), file.as_posix())):
                role = file.name.removesuffix(place.suffix)
                if role == file.name:
                    continue
                owners: tuple[str | None, ...] = (None,)
                if file.parent != root:
                    folder = file.parent.name
                    owners = (folder, None) if place.deep and folder not in playbooks else (folder,)
                for owner in owners:
                    yield RoleSource(role, owner, place.folder, file.relative_to(self._workspace).as_posix())

    def _in_packages(self) -> Iterator[tuple[RoleSource, Traversable]]:
        """The roles that playbooks bring along; one of somebody's own stands for a shipped one of its name."""
        for name, (place, folder) in self._own.items():
            for file in _roles(folder):
                source = f"{place}/agents/{file.name}"
                yield RoleSource(file.name.removesuffix(".md"), name, OWN, source), file
        for package in self._shipped:
            for playbook in _entries(package):
                for file in _roles(playbook) if playbook.name not in self._own else ():
                    source = f"{SHIPPED}:{playbook.name}/{file.name}"
                    yield RoleSource(file.name.removesuffix(".md"), playbook.name, SHIPPED, source), file


def parse_role(text: str, source: str) -> Role:
    """The role in a Markdown text, in any of the dialects of frontmatter that coding agents use.

    ``tools`` may be a comma list (Claude), a list (Copilot) or a mapping of names to true and false (OpenCode).
    What cannot be used stays in `Role.meta`; only frontmatter that is no YAML is an error. A text without
    frontmatter is all body.
    """
    page = split_frontmatter(text.replace("\r\n", "\n"), source)
    meta = page.data()
    fields: dict[str, Any] = {}
    for name, (keys, read) in _FIELDS.items():
        for key in keys:
            if key in meta and (value := read(meta[key])) is not None:
                fields[name] = value
                del meta[key]
                break
    return Role(
        name=fields.pop("name", None) or _file_role(source),
        description=fields.pop("description", ""),
        body=page.body.strip("\n") + "\n" if page.body.strip() else "",
        source=source,
        meta=meta,
        **fields,
    )


def _word(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _words(value: object) -> tuple[str, ...] | None:
    match value:
        case str():
            return tuple(word for part in value.split(",") if (word := part.strip()))
        case list() if all(isinstance(item, str) for item in value):
            return tuple(value)
        case dict() if all(isinstance(allowed, bool) for allowed in value.values()):
            return tuple(str(name) for name, allowed in value.items() if allowed)
    return None


def _paths(value: object) -> tuple[str, ...] | None:
    return None if isinstance(value, dict) else _words(value)


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < math.inf else None


_FIELDS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[object], Any]]]] = {
    "name": (("name",), _word),
    "description": (("description",), _word),
    "model": (("model",), _word),
    "tools": (("tools",), _words),
    "writes": (("writes",), _paths),
    "timeout_s": (("timeout_s", "timeout"), _seconds),
}
"""Each field of a role with the keys it may come from and what reads it; ``None`` leaves the key in `Role.meta`."""


def _file_role(source: str) -> str:
    return source.replace(":", "/").rpartition("/")[2].removesuffix(".md").removesuffix(".agent")


def _files(folder: Path, depth: int) -> Iterator[Path]:
    """The files in a folder and `depth` levels below.

    Listed, never asked for by name: the latter ignores case on some systems. Links are followed here and
    refused when such a file is read.
    """
    for entry in _entries(folder):
        if entry.is_file():
            yield entry
        elif depth:
            yield from _files(entry, depth - 1)


def _roles(playbook: Traversable) -> list[Traversable]:
    return [file for file in _entries(playbook / "agents") if file.name.endswith(".md")]


def _entries(folder: _Folder) -> list[_Folder]:
    try:
        return sorted(folder.iterdir(), key=lambda entry: entry.name)
    except OSError:  # no folder, or not for us
        return []

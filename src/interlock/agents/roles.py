"""Roles: who an agent is, in a Markdown file with front matter, and where such files are looked for (AGENT-02, -07).

A team's four places count in this order: `.interlock/agents/`, `.github/agents/` (`*.agent.md`), `.claude/agents/`,
`.opencode/agent/` (any depth).  A file `<playbook>/<role>` in any of them comes before a bare `<role>` in any of them,
and what the playbook brings along comes last: a team's bare `review.agent.md` is meant to replace ours.  A file in the
folder of another playbook is that playbook's alone.  Only the five processes take roles from all four: elsewhere a
`reviewer.md` that was written for a chat would be no form, so there it is `.interlock/agents/` and ours alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from interlock.agents.values import Role
from interlock.documents.files import read, relative
from interlock.documents.markdown import front_matter
from interlock.documents.reading import Text
from interlock.errors import BadInput, ConfigInvalid, DocumentInvalid, nearest
from interlock.settings import Agent, Runner

PROCESSES = frozenset({"roadmap", "harness", "feature", "router", "ticket"})
_DEEPEST = 6


class _Place(NamedTuple):
    folder: str
    ending: str = ".md"
    client: str = ""
    """The client whose own format it is: a model named there is one of its models."""


_PLACES = (
    _Place(".interlock/agents"),
    _Place(".github/agents", ".agent.md", "copilot"),
    _Place(".claude/agents", client="claude"),
    _Place(".opencode/agent", client="opencode"),
)
_OURS = _Place("")


class _RoleFile(NamedTuple):
    text: str
    """Its instructions; of a file that is ours, the template as it stands."""
    name: str = ""
    """What its front matter calls it."""
    model: str = ""


class Roles:
    """The roles of one playbook in one workspace."""

    def __init__(self, top: Path, playbook: str, ours: Path, texts: Mapping[str, str] | None = None) -> None:
        """
        Args:
            ours: the folder of role files that the playbook brings along.
            texts: instructions of roles that have no file.
        """
        self._top, self._playbook, self._ours, self._texts = top, playbook, ours, texts or {}
        self._places = _PLACES if playbook in PROCESSES else _PLACES[:1]

    def resolve(self, role: str, *, runner: str, table: Runner, settings: Agent) -> Role:
        """Who plays it: its file, and what settings say of it; `ConfigInvalid` where there is no file.

        Args:
            table: of the runner.
            settings: of the agent.
        """
        place, file = self._named(settings.role) if settings.role else self._find(role)
        found = self._read(place, file) if file else _RoleFile(self._texts[role])
        own = place.client in ("", table.type)
        return Role(
            name=role,
            text=found.text,
            source="" if place is _OURS or file is None else relative(self._top, file),
            runner=runner,
            type=table.type,
            program=table.program or "",
            model=settings.model or (found.model if own else "") or table.model or "",
            timeout_s=settings.timeout_s,
            writes=settings.writes,
        )

    def _named(self, path: str) -> tuple[_Place, Path | None]:
        known = (place for place in _PLACES if path.startswith(f"{place.folder}/"))
        return next(known, _PLACES[0]), self._top / path

    def _find(self, role: str) -> tuple[_Place, Path | None]:
        """The role's file, and whose format that is; None: its instructions are in no file."""
        for place, owner in (
            *((place, owner) for owner in (self._playbook, "") for place in self._places),
            (_OURS, ""),
        ):
            if file := self._in_place(place, owner, role):
                return place, file
        if role in self._texts:
            return _OURS, None
        near = nearest(role, [file.stem for file in _files(self._ours, self._ours)])
        hint = f"; did you mean {near!r}?" if near else ""
        raise ConfigInvalid(
            f"{self._playbook} has no role {role!r}{hint}",
            expected=f".interlock/agents/{self._playbook}/{role}.md",
            remedy=f'Write that file, or name another one in interlock.toml: [agents.{role}] role = "path".',
        )

    def _in_place(self, place: _Place, owner: str, role: str) -> Path | None:
        """By its exact name, by its name in any case, then by what its front matter calls it."""
        root, deep = self._ours if place is _OURS else self._top / place.folder, place.client == "opencode"
        files = {
            file: file.name[: -len(place.ending)]
            for file in _files(root, self._top, _DEEPEST if deep else 1)
            if file.name.casefold().endswith(place.ending) and self._belongs(file.parent, root, owner, deep=deep)
        }
        for file in sorted(files, key=lambda file: files[file] != role):
            if files[file].casefold() == role.casefold():
                return file
        for file in files:
            with suppress(BadInput):  # what cannot be read is no role that anybody asked for
                if self._read(place, file).name.casefold() == role.casefold():
                    return file
        return None

    def _read(self, place: _Place, file: Path) -> _RoleFile:
        """A file of the workspace: what a link would bring in from elsewhere would be told to a model. A header that
        cannot be read leaves the whole text as instructions."""
        path = str(file) if place is _OURS else relative(self._top, file)
        raw = file.read_bytes() if place is _OURS else read(self._top, path)
        if raw is None:
            raise ConfigInvalid("the role file is not there", found=path)
        text = Text.of(raw.decode(errors="replace").encode(), path).text
        try:
            found = front_matter(text, path)
        except DocumentInvalid:
            return _RoleFile(text.strip("\n"))
        said = (found.source.data.get(key) for key in ("name", "model"))
        name, model = (word.strip() if isinstance(word, str) else "" for word in said)
        return _RoleFile(found.body.text.strip("\n"), name, "" if model == "inherit" else model)

    def _belongs(self, folder: Path, root: Path, owner: str, *, deep: bool) -> bool:
        """Whether a file there is this owner's; below `.opencode/agent` any folder is nobody's, if not a playbook's."""
        if folder == root:
            return not owner
        name = folder.name.casefold()
        return name == owner.casefold() if owner else deep and name not in {*PROCESSES, self._playbook.casefold()}


def _files(folder: Path, top: Path, depth: int = 0) -> Iterator[Path]:
    """Plain files in a folder and so many levels below it, shallow ones first; a link may lead to a whole disk.

    Listed, never asked for by name: the latter ignores case on some systems.
    """
    try:
        entries = sorted(folder.iterdir())
    except OSError:  # no folder, or not for us
        return
    yield from (entry for entry in entries if entry.is_file())
    for entry in entries if depth else ():
        if entry.is_dir() and (not entry.is_symlink() or entry.resolve().is_relative_to(top.resolve())):
            yield from _files(entry, top, depth - 1)

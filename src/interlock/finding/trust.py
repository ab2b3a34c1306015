"""Which code of a workspace may be used: what a person has said so of, by its digest (OWN-01).

What is trusted is copied into the person's own folder, under its digest, and loaded from there: whoever swaps a file of
the workspace afterwards changes nothing of what runs.  The copies are the record; none lies in a workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.documents.files import replace
from interlock.documents.model import canonical
from interlock.documents.reading import pointer, read_toml
from interlock.errors import ConfigInvalid, DocumentInvalid, WorkspaceFailed
from interlock.finding.bundle import Bundle, files_in
from interlock.settings_file import leaves
from interlock.workspace.git import object_name
from interlock.workspace.place import HOME
from interlock.workspace.repository import Repository, repository_at

GUESTS = "guests"
"""In our folder of a workspace: blobs that came with somebody else's run (`interlock.fleet`)."""
Consent = Callable[[str, Bundle], bool]
"""Asks a person whether they trust what is called so."""


def nobody(_what: str, _bundle: Bundle) -> bool:
    """There is nobody to ask."""
    return False


@dataclass(frozen=True)
class Trust:
    """What one user trusts, as seen from one workspace."""

    top: Path
    environ: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """Where the copies are: the user's own folder for data."""
        home = Path(self.environ.get("HOME") or Path.home())
        named = Path(self.environ.get("XDG_DATA_HOME") or "")
        folder = (named if named.is_absolute() else home / ".local/share") / "interlock" / "trusted"
        if folder.resolve().is_relative_to(self.top.resolve()):
            raise ConfigInvalid(
                "what is trusted cannot be kept inside of the workspace",
                where=str(folder),
                expected="a folder of your own that no agent can reach",
                remedy="Set XDG_DATA_HOME to a folder outside of the workspace.",
            )
        return folder

    def copy(self, what: str, bundle: Bundle, consent: Consent = nobody) -> Path:
        """The trusted bytes, to be loaded; asks for them if need be, else `ConfigInvalid`.

        Args:
            what: the playbook, as it was asked for.
        """
        if not self.trusts(bundle):
            if not self.is_own(bundle) and not consent(what, bundle):
                raise ConfigInvalid(
                    f"{what} is code that came with the repository, and nobody here has trusted it as it is",
                    where=str(bundle.folder / bundle.main),
                    expected="a person who has read it and says so",
                    found=f"{', '.join(sorted(bundle.files)[:5])}, digest {bundle.digest[:16]}",
                    remedy=f"Read it; then: interlock playbooks trust {what}",
                )
            self.note(bundle)
        return self.folder / bundle.digest

    def trusts(self, bundle: Bundle) -> bool:
        """Whether exactly these bytes lie among those that are trusted."""
        copy = self.folder / bundle.digest
        return copy.is_dir() and dict(files_in(copy)) == bundle.files

    def is_own(self, bundle: Bundle) -> bool:
        """Whether a person here wrote it: git does not track it, or its bytes are in no commit."""
        return not any(self._came_with_git(bundle.folder / file, content) for file, content in bundle.files.items())

    def allows(self, file: Path, parts: Mapping[str, Any], consent: Consent = nobody) -> bool:
        """Whether these parts of a settings file count: a person here wrote them, or trusts them as they are (OWN-06).

        One who only changed something else in the file did not write them.
        """
        each = {name: Bundle(file.parent, file.name, {file.name: canonical({name: it})}) for name, it in parts.items()}
        new = {name: parts[name] for name, bundle in each.items() if not self.trusts(bundle)}
        if new and self._came_with_git(file, file.read_bytes(), new) and not consent(file.name, each[next(iter(new))]):
            return False
        for name in new:
            self.note(each[name])
        return True

    def _came_with_git(self, place: Path, content: bytes, parts: Mapping[str, Any] | None = None) -> bool:
        guests, real = self.top / HOME / GUESTS, place.resolve()
        if guests.exists() and object_name(content) in guests.read_text().split():
            return True  # whatever git knows of it: a person elsewhere wrote it
        # Its own repository: a submodule, a clone beside this one.
        top = next((one for one in real.parents if repository_at(one)), None)
        if top is None:
            return False
        repository = Repository(top)
        return repository.committed(real, content) or (parts is not None and _says(repository.at_head(real), parts))

    def note(self, bundle: Bundle) -> None:
        """These bytes are trusted from here on. Only a person may say so: who calls this has asked."""
        target = self.folder / bundle.digest
        try:
            for file, content in bundle.files.items():
                (target / file).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                replace(target / file, content, mode=0o600)
        except OSError as error:
            raise WorkspaceFailed.of(error, "it cannot be noted that you trust this", where=str(target)) from error


def _says(committed: bytes, parts: Mapping[str, Any]) -> bool:
    """Whether the settings of the last commit say one of these, too."""
    try:
        said = {pointer(keys): value for keys, value in leaves(read_toml(committed.decode(), "").data)}
    except (UnicodeDecodeError, DocumentInvalid):
        return True
    return any(name in said and said[name] == value for name, value in parts.items())

"""Which code of a workspace a person has said may be used: kept by digest, in their own configuration folder (OW-04).

One record for each place, with the digest of every file; a file more, less or other, and the person is asked again.
A workspace cannot say that it is to be trusted: the records are never inside of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from interlock.documents.files import read_plain, replace_file
from interlock.engine.definition import changed_files
from interlock.engine.keys import digest_of, sha256
from interlock.engine.nesting import only_people
from interlock.errors import ConfigInvalid, WorkspaceFailed
from interlock.finding.bundle import Bundle
from interlock.telemetry.lines import printable

RECORD_BYTES = 1_000_000


@dataclass(frozen=True)
class Request:
    """Code that somebody has to trust before it is used."""

    what: str
    """The playbook, as it was asked for."""
    bundle: Bundle
    changed: tuple[str, ...] | None
    """What is not as it was when it was trusted; None: nobody ever trusted it."""

    @property
    def why(self) -> str:
        if self.changed is None:
            return f"{self.what} is code of this workspace that nobody here has trusted yet"
        return f"{self.what} changed since it was trusted: {', '.join(map(printable, self.changed))}"

    @property
    def lines(self) -> list[str]:
        """What would be loaded, for whoever decides."""
        shown = {path: printable(path) for path in sorted(self.bundle.files)}  # a name with a line break is one line
        width = max(map(len, shown.values()))
        marks = {path.removesuffix(" (new)") for path in self.changed or ()}
        return [
            printable(str(self.bundle.place), 1000),
            *(
                f"  {name:<{width}}  {len(self.bundle.files[path]):>7} bytes{'  changed' if path in marks else ''}"
                for path, name in shown.items()
            ),
            f"  digest {self.bundle.digest}",
        ]


Consent = Callable[[Request], bool]
"""Asks a person, and says whether they trust it."""


def nobody(_request: Request) -> bool:
    """There is nobody to ask."""
    return False


@dataclass(frozen=True)
class TrustRecords:
    """What one user trusts in one workspace."""

    root: Path
    environ: Mapping[str, str]
    anywhere: bool = False
    """Whether what the user trusts at another place is trusted here too: a worker has each run in a new folder."""

    @property
    def folder(self) -> Path:
        """Where the records are: the user's own configuration folder."""
        home = Path(self.environ.get("HOME") or Path.home())
        named = Path(self.environ.get("XDG_CONFIG_HOME") or "")
        return (named if named.is_absolute() else home / ".config") / "interlock" / "trusted"

    def changes(self, bundle: Bundle) -> tuple[str, ...] | None:
        """What is not as it was when it was trusted: empty for what is trusted now, None for what never was."""
        before = self._record(bundle.place)
        if before is None and self.anywhere and self.knows(bundle.digest):
            return ()
        return None if before is None else changed_files(before, bundle.digests)

    def knows(self, digest: str) -> bool:
        """Whether the user trusts files of this digest, at whatever place."""
        found = (self._read(file) for file in self.folder.glob("*.json"))
        return any(digest_of(dict(files)) == digest for _, files in filter(None, found))

    def doubt(self, what: str, bundle: Bundle) -> str:
        """Why somebody has to trust this code before it is used; empty for what is trusted now."""
        changed = self.changes(bundle)
        return "" if changed == () else Request(what, bundle, changed).why

    def require(self, what: str, bundle: Bundle, consent: Consent) -> None:
        """Return when this code may be used, after asking if need be; else `ConfigInvalid`."""
        changed = self.changes(bundle)
        if changed == ():
            return
        request = Request(what, bundle, changed)
        if not consent(request):
            raise ConfigInvalid(
                request.why,
                where=str(bundle.place),
                expected="a person who has read it and says so",
                found="\n".join(request.lines[1:]).strip(),
                remedy="Read it. Then say so with --trust behind its name, or call interlock at a terminal: answer y.",
            )
        self.keep(bundle)

    def keep(self, bundle: Bundle) -> None:
        """Note that a person trusts these files at this place. Only a person can."""
        only_people(self.environ, self.root, "trust a playbook")
        if self.folder.resolve().is_relative_to(self.root.resolve()):
            raise ConfigInvalid(
                "what is trusted cannot be kept inside of the workspace",
                where=str(self.folder),
                expected="a folder of your own that no agent can reach",
                remedy="Set XDG_CONFIG_HOME to a folder outside of the workspace.",
            )
        record = {"place": str(bundle.place), "files": bundle.digests}
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(self._file(bundle.place), (json.dumps(record, indent=2) + "\n").encode())
        except OSError as error:
            raise WorkspaceFailed.of(error, "it cannot be noted that you trust this", where=str(self.folder)) from error

    def _file(self, place: Path) -> Path:
        return self.folder / f"{sha256(os.fsencode(place))[:32]}.json"

    def _record(self, place: Path) -> Mapping[str, str] | None:
        """The digests that were trusted at a place; a record that cannot be read, or lies in the workspace, is none."""
        file = self._file(place)
        if file.parent.resolve().is_relative_to(self.root.resolve()):
            return None
        named, files = self._read(file) or ("", None)
        return files if named == str(place) else None

    def _read(self, file: Path) -> tuple[str, Mapping[str, str]] | None:
        try:
            match json.loads(read_plain(file, limit=RECORD_BYTES)):
                case {"place": str(named), "files": dict(files)}:
                    return named, files
        except (OSError, ValueError, RecursionError):
            return None
        return None

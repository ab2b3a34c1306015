"""What a workspace remembers of runs that came or went: by which remote, and how its tree was then."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Self

from interlock.documents.files import read_plain, replace_file
from interlock.engine.folder import HOME, prepare_home

SENDING, SENT, FENCED = "sending", "sent", "fenced"
"""How a run went away from here."""


@dataclass(frozen=True)
class Carried:
    """One run, as it was last seen on its way."""

    remote: str = ""
    commit: str | None = None
    """What its ref led to when this workspace last had it in its hand; None: it never did."""
    coming: str | None = None
    """What the ref was about to lead to when a push began of which the end is not known."""
    trees: tuple[str, ...] = field(default=())
    """How the workspace was when the run left or came: files that are still so are nobody's new work."""

    @classmethod
    def of(cls, root: Path, run_id: str) -> Self:
        try:
            said = json.loads(read_plain(_place(root, run_id)))
            known = {one.name for one in fields(cls)}
            made = {name: value for name, value in said.items() if name in known}
            return cls(**{**made, "trees": tuple(made.get("trees", ()))})
        except (OSError, ValueError, TypeError, AttributeError):
            return cls()

    def keep(self, root: Path, run_id: str) -> None:
        place = _place(root, run_id)
        prepare_home(root)
        place.parent.mkdir(exist_ok=True)
        replace_file(place, (json.dumps(asdict(self), indent=2) + "\n").encode())


def _place(root: Path, run_id: str) -> Path:
    return root / HOME / "carried" / f"{run_id}.json"


def clone_name(root: Path) -> str:
    """What tells this workspace from all others, of the same person and machine too."""
    place = prepare_home(root) / "carried" / "clone"
    try:
        if name := read_plain(place).decode("ascii", "ignore").strip():
            return name
    except OSError:
        place.parent.mkdir(exist_ok=True)
    name = secrets.token_hex(8)
    replace_file(place, f"{name}\n".encode())
    return name

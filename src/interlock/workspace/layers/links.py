"""Where a link of a layer leads, followed in what the program sees."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

_LONGEST = 40
_APART = (".git", ".interlock")


class Placed(Protocol):
    def place(self, path: str) -> Path | None: ...


def leads_out(holding: Placed, root: Path, path: str) -> bool:
    """Whether following a path leaves the workspace at `root`, or enters git's or the engine's folder."""
    return resolved(holding, root, path) is None


def resolved(holding: Placed, root: Path, path: str) -> str | None:
    """The path that links lead to, whether or not something is there; None when they lead out."""
    waiting = path.split("/")[::-1]
    here: list[str] = []
    followed = 0
    while waiting:
        part = waiting.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not here:
                return None
            here.pop()
            continue
        here.append(part)
        place = holding.place("/".join(here))
        if place is None or not place.is_symlink():
            continue
        followed += 1
        if followed > _LONGEST:
            # It leads in circles, which is nowhere.
            return "/".join(here)
        target = os.readlink(place)  # noqa: PTH115
        here.pop()
        if target.startswith("/"):
            # As text: what ".." means behind a link, only following it tells.
            if target != str(root) and not target.startswith(f"{root}/"):
                return None
            here = []
            target = target.removeprefix(str(root))
        waiting += target.split("/")[::-1]
    if here and here[0].lower() in _APART:
        return None
    return "/".join(here)

"""Where the writes of a layer's program are: the small part in which the makers differ.

Paths are those of the workspace, relative, with ``/``.  No program of the layer runs while these are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from interlock.workspace.layers.git_dirs import GitDir, GitState
from interlock.workspace.layers.launcher.order import Record
from interlock.workspace.layers.seam import Bounds, Confinement
from interlock.workspace.layers.touched import Touched
from interlock.workspace.repository import UserRepository


class Holding(Protocol):
    """The writes of one layer."""

    @property
    def root(self) -> Path:
        """The workspace, as the program sees it."""
        ...

    def touched(self, bounds: Bounds) -> Touched:
        """All that may differ. `TooMuch` when it is more than the bounds allow."""
        ...

    def place(self, path: str) -> Path | None:
        """Where the bytes of a path lie; None when the layer says that nothing is there."""
        ...

    def put(self, path: str, staged: Path) -> None:
        """Make a staged file or link what the program finds at a path; whatever is there goes."""
        ...

    def remove(self, path: str) -> None:
        """The program finds nothing at that path."""
        ...

    def reset(self, path: str) -> None:
        """The program finds there what the tree has."""
        ...

    def take(self, path: str) -> None:
        """Move an ignored file or folder (with ``/``) into the tree."""
        ...

    def git_before(self, folder: str, repository: UserRepository) -> GitState:
        """What the user's repository in a folder of the workspace was to the program at first."""
        ...

    def git_dir(self, folder: Path) -> GitDir | None:
        """A git dir of the user's, as the layer has it; None when it is untouched."""
        ...

    def order(self, argv: Sequence[str], *, cwd: Path, confinement: Confinement) -> list[Record]:
        """What the launcher is to do to run a program here."""
        ...

    def set_aside(self) -> list[Path]:
        """Free the layer's name; what is left to be removed."""
        ...

"""The folder of one layer, and what is kept about it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from interlock.errors import PathRefused, WorkspaceFailed
from interlock.workspace.clone import remove_folder
from interlock.workspace.layers.seam import Exit

COPIES = "copies"
_GONE = ".gone"
_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class LayerFolder:
    """``.interlock/layers/<name>/``; its parts as the program and the engine use them."""

    layers: Path
    name: str

    def __post_init__(self) -> None:
        if not self.name or "/" in self.name or "\0" in self.name or self.name.startswith(".") or self.name == COPIES:
            raise PathRefused(self.name, "a layer's name is one plain folder name")

    @property
    def path(self) -> Path:
        return self.layers / self.name

    @property
    def exchange(self) -> Path:
        return self.path / "exchange"

    @property
    def home(self) -> Path:
        """The private HOME."""
        return self.path / "home"

    @property
    def inner(self) -> Path:
        """What the program sees as the engine's folder."""
        return self.path / "inner"

    @property
    def tmp(self) -> Path:
        return self.path / "tmp"

    @property
    def orders(self) -> Path:
        return self.path / "orders"

    @property
    def exit_file(self) -> Path:
        return self.path / "exit.json"

    @property
    def memory(self) -> Path:
        """Where uppers lie when this file system takes none: one folder per user, workspace and layer."""
        return _MEMORY / f"{_in_memory(self.layers)}{self.name}"

    def make(self) -> None:
        """A new folder, empty; a leftover goes."""
        for place in self.set_aside():
            remove_folder(place)
        if self.layers.is_symlink():
            self.layers.unlink()
        try:
            self.path.mkdir(parents=True, mode=0o700)
            for part in (self.exchange, self.orders):
                part.mkdir()
        except OSError as error:
            raise WorkspaceFailed(
                f"a layer cannot be made: {error.strerror}",
                where=str(error.filename or self.path),
                remedy="Make the folder .interlock writable and see that the disk has room.",
            ) from error

    def set_aside(self) -> list[Path]:
        """Free the name at once; what is left to be removed, and is found by `set_aside_in` until then."""
        found = []
        for place in (self.path, self.memory):
            if os.path.lexists(place):
                found.append(place.rename(place.with_name(f".{place.name}.{uuid4().hex[:8]}{_GONE}")))
        return found

    def remember(self, facts: Mapping[str, Any]) -> None:
        fresh = self.path / f"layer.{uuid4().hex}"
        fresh.write_text(json.dumps(facts), encoding="utf-8", errors="surrogateescape")
        fresh.replace(self.path / "layer.json")

    def remembered(self) -> dict[str, Any] | None:
        """What was remembered; None when there is no whole layer of this name."""
        try:
            facts = json.loads((self.path / "layer.json").read_text("utf-8", "surrogateescape"))
        except (OSError, ValueError):
            return None
        return facts if isinstance(facts, dict) else None

    def exit(self) -> Exit | None:
        try:
            told = json.loads(self.exit_file.read_text("ascii"))
            return Exit(int(told["code"]), str(told["at"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write_order(self, text: str) -> Path:
        """A file for the launcher; the same order is the same file."""
        content = text.encode("utf-8", "surrogateescape")
        place = self.orders / sha256(content).hexdigest()[:24]
        if not place.exists():
            fresh = place.with_name(f"{place.name}.{uuid4().hex}")
            fresh.write_bytes(content)
            fresh.replace(place)
        return place


def layer_names(layers: Path) -> list[str]:
    """The layers that have a folder."""
    try:
        return sorted(
            entry.name for entry in os.scandir(layers) if not entry.name.startswith(".") and entry.name != COPIES
        )
    except FileNotFoundError:
        return []


def set_aside_in(layers: Path) -> list[Path]:
    """What was set aside of this workspace's layers and is still there, whoever did it."""
    found = []
    for folder, start in ((layers, "."), (_MEMORY, f".{_in_memory(layers)}")):
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
            found += [folder / name for name in names if name.startswith(start) and name.endswith(_GONE)]
    return found


def _in_memory(layers: Path) -> str:
    mark = sha256(os.fsencode(layers)).hexdigest()[:12]
    return f"interlock-{os.geteuid()}-{mark}-"

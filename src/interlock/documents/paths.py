"""Paths that come from files and agents: relative, inside the workspace, or refused (CM-26)."""

from __future__ import annotations

import os
import re
from pathlib import Path

from interlock.errors import PathRefused

_DRIVE = re.compile(r"[A-Za-z]:(?:[\\/]|$)")


def inside(root: Path, path: str) -> Path:
    """The absolute place of a workspace-relative POSIX path, whether or not anything is there yet.

    Raises PathRefused for a path that is not relative and plain, or that a symlink on its way leads out
    of the workspace.  ``.`` is the workspace itself.
    """
    parts = plain_parts(path)
    if link := _escape(root, parts):
        raise PathRefused(path, f"the symlink {link} leaves the workspace")
    return root.absolute().joinpath(*parts)


def relative(root: Path, path: Path | str) -> str:
    """The workspace-relative POSIX form of a place; PathRefused when it is not in the workspace."""
    place = root.absolute() / path
    for base, candidate in ((root.absolute(), place), (root.resolve(), place.parent.resolve() / place.name)):
        if candidate.is_relative_to(base):
            found = candidate.relative_to(base).as_posix()
            inside(root, found)
            return found
    raise PathRefused(str(path), "it is not inside the workspace")


def plain_parts(path: str) -> tuple[str, ...]:
    """The parts of a path that is relative and plain as text; nothing on disk is looked at."""
    if not path:
        raise PathRefused(path, "it is empty")
    if "\0" in path:
        raise PathRefused(path, "it holds a NUL character")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise PathRefused(path, "it is not valid text") from None
    if path.startswith(("/", "\\")) or _DRIVE.match(path):
        raise PathRefused(path, "it is absolute")
    if ".." in re.split(r"[\\/]", path):
        raise PathRefused(path, "it has '..'")
    return tuple(part for part in path.split("/") if part not in ("", "."))


def spoken(path: str) -> str:
    """The path as any text can carry it: as it is, or in the quotes in which git shows odd names."""
    if path.isprintable() and not set(path) & set('"\\`'):
        return path
    return '"' + "".join(_quoted(char) for char in path) + '"'


def _quoted(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if char.isprintable():
        return char
    # What stands for a byte that is not UTF-8 is shown as that byte.
    raw = char.encode("utf-8", "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass")
    return "".join(f"\\{byte:03o}" for byte in raw)


_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def escaping_link(root: Path, path: str) -> str | None:
    """The first part of the path that is a symlink out of the workspace, as a relative path."""
    return _escape(root, plain_parts(path))


def _escape(root: Path, parts: tuple[str, ...]) -> str | None:
    """Each level is looked at on its own: a link that leads out and back in is refused as well."""
    here = root.absolute()
    for count, part in enumerate(parts, start=1):
        here /= part
        if not os.path.islink(here):  # noqa: PTH114 - the method of Path raises below unreadable folders
            continue
        if not Path(os.path.realpath(here)).is_relative_to(os.path.realpath(root)):
            return "/".join(parts[:count])
    return None

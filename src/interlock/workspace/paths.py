"""Names of files inside a workspace: relative, with ``/``, never able to leave it or to enter ``.git``."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.errors import PathRefused


def normal(path: str) -> str:
    """`path` without ``./`` and doubled slashes; refused when it is absolute or has ``..``."""
    if "\0" in path:
        raise PathRefused(path, "it has a NUL character")
    if path.startswith("/"):
        raise PathRefused(path, "it is absolute")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise PathRefused(path, "it has '..'")
    if not parts:
        raise PathRefused(path, "it names no file")
    return "/".join(parts)


def file_parts(path: str) -> tuple[str, ...]:
    """The components of a file's path that the engine may write; git's own folders are refused."""
    parts = tuple(normal(path).split("/"))
    if any(part.lower() == ".git" for part in parts):
        raise PathRefused(path, "it lies in git's own folder")
    return parts


def above(path: str) -> Iterator[str]:
    """The folders that a path lies in, the innermost first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path

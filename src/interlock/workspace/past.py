"""A snapshot, looked at path by path; the cost is that of the folders on the way, not of the whole tree."""

from __future__ import annotations

from collections.abc import AsyncIterator

from interlock.workspace.objects import GitObjects, Stored
from interlock.workspace.snapshots import Snapshot


class PastTree:
    """What a snapshot held, nested repositories in their places."""

    def __init__(self, snapshot: Snapshot, objects: GitObjects) -> None:
        self._objects = objects
        self._roots = dict(snapshot.trees)

    @property
    def repositories(self) -> tuple[str, ...]:
        """The folders that were repositories: the workspace (``""``) and those nested in it."""
        return tuple(self._roots)

    def repository_of(self, path: str) -> str:
        """The innermost repository's folder that a path lies in."""
        folder = path
        while folder:
            folder = folder.rpartition("/")[0]
            if folder in self._roots:
                return folder
        return ""

    async def entry(self, path: str) -> Stored | None:
        """The file, link or folder at a path."""
        if path in self._roots:
            return Stored(0o040000, self._roots[path])
        repository = self.repository_of(path)
        inner = path[len(repository) + 1 :] if repository else path
        found: Stored | None = None
        tree = self._roots.get(repository)
        for part in inner.split("/"):
            if tree is None:
                return await self._way_to_nested(path)
            found = (await self._objects.tree(tree)).get(part)
            if found is None:
                return await self._way_to_nested(path)
            tree = found.name if found.is_folder else None
        return found

    async def _way_to_nested(self, path: str) -> Stored | None:
        """A folder that the outer tree does not have is there all the same when a repository lies below it."""
        if any(folder.startswith(f"{path}/") for folder in self._roots):
            return Stored(0o040000, "")
        return None

    async def file(self, path: str) -> Stored | None:
        """The file or link at a path; None for a folder."""
        found = await self.entry(path)
        return None if found is None or found.is_folder else found

    async def below(self, folder: str) -> AsyncIterator[tuple[str, Stored]]:
        """Every file and link below a folder (``""``: all)."""
        found = await self.entry(folder) if folder else Stored(0o040000, self._roots.get("", ""))
        if found is None or not found.is_folder:
            return
        prefix = f"{folder}/" if folder else ""
        waiting = [(prefix, found.name)] if found.name else []
        waiting += [
            (f"{nested}/", tree) for nested, tree in self._roots.items() if nested.startswith(prefix) and nested
        ]
        while waiting:
            at, tree = waiting.pop()
            for name, entry in (await self._objects.tree(tree)).items():
                if entry.is_folder:
                    if f"{at}{name}" not in self._roots:
                        waiting.append((f"{at}{name}/", entry.name))
                elif entry.mode != 0o160000:
                    yield f"{at}{name}", entry

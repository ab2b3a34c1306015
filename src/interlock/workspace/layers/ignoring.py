"""Which new files of a layer the user's project ignores.

The user's rules decide, as they are in the user's tree: an ignore file that a program wrote is only one more file.
Git is asked folder by folder in one conversation, so that a new ``node_modules`` is one question and not thousands.
For a folder, which need not exist in the tree, it is asked about a name below it that no rule is meant for: a rule
that is met by that is the folder's, unless it is met by every name.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path

from interlock.workspace.git import Talk
from interlock.workspace.scan import Folder
from interlock.workspace.scope import Scope
from interlock.workspace.snapshots import Workspace
from interlock.workspace.waiting import GitQuestion

_BELOW = "interlock-asks-7d1f0c"
"""A name that no rule is meant for."""
_AT_ONCE = 16_000
"""Bytes of questions before their answers are read."""


@dataclass
class _Node:
    """A folder of new files, or a file when there is nothing below."""

    below: dict[str, _Node] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    """The paths of all files here and below."""


@dataclass(frozen=True)
class Sorted:
    counting: tuple[str, ...]
    ignored: dict[str, int]
    """Topmost folder (with ``/``) or file, to its number of files."""


async def sort_out(workspace: Workspace, repository: str, paths: Iterable[str], known: frozenset[str]) -> Sorted:
    """Tell new files that count from ignored ones.

    Args:
        repository: the folder whose rules apply, with an empty name for the workspace; the paths lie in it.
        known: folders that hold files of the snapshot: they are never ignored as a whole.
    """
    wanted = Scope((*workspace.wanted, *(f"{pattern}/**" for pattern in workspace.wanted)))
    paths = list(paths)
    counting = [path for path in paths if wanted.covers(path)]
    ignored: dict[str, int] = {}
    rest = [path for path in paths if not wanted.covers(path)]
    if not rest:
        return Sorted(tuple(counting), ignored)
    prefix = f"{repository}/" if repository else ""
    level = {prefix + name: node for name, node in _grown(path.removeprefix(prefix) for path in rest).below.items()}
    async with _asking(workspace, repository) as rules:
        while level:
            deeper: dict[str, _Node] = {}
            nodes = ((path, bool(node.below)) for path, node in level.items())
            asked = {path.removeprefix(prefix): folder for path, folder in nodes if not folder or path not in known}
            met = await rules.ignored(asked)
            for path, node in level.items():
                if path.removeprefix(prefix) in met:
                    ignored[f"{path}/" if node.below else path] = max(1, len(node.files))
                elif node.below:
                    deeper.update({f"{path}/{name}": below for name, below in node.below.items()})
                else:
                    counting.append(path)
            level = deeper
    return Sorted(tuple(counting), ignored)


def _grown(paths: Iterable[str]) -> _Node:
    root = _Node()
    for path in paths:
        node = root
        for part in path.split("/"):
            node = node.below.setdefault(part, _Node())
            node.files.append(path)
    return root


async def prepare(workspace: Workspace) -> None:
    """Be ready to tell about files of the workspace, nested repositories not among them."""
    await workspace.ignoring.prepare(_call(workspace, await workspace.folder_of("")))


@asynccontextmanager
async def _asking(workspace: Workspace, repository: str) -> AsyncIterator[_Rules]:
    folder = await workspace.folder_of(repository)
    async with workspace.shadow.busy(), workspace.ignoring.talk(_call(workspace, folder)) as talk:
        yield _Rules(talk, folder.root)


def _call(workspace: Workspace, folder: Folder) -> GitQuestion:
    """Git that is asked about a folder; ignore files in the tree it reads when it is asked."""
    shadow = workspace.shadow
    git = shadow.git(folder.top, folder=folder.root)
    # The repository's own private rules win over those for all repositories: they stand last.
    rules = b"\n".join(file.read_bytes() for file in reversed(folder.exclude_files) if file.is_file())
    private = shadow.path / "tmp" / f"{sha256(rules).hexdigest()[:32]}.exclude"
    asker = replace(git, settings=(f"core.excludesFile={private}",))
    return GitQuestion(
        asker, ("check-ignore", "--no-index", "-z", "-v", "-n", "--stdin"), globs=True, reads={private: rules}
    )


class _Rules:
    def __init__(self, talk: Talk, root: Path) -> None:
        self._talk = talk
        self._root = root

    async def ignored(self, asked: Mapping[str, bool]) -> set[str]:
        """Those of new files and (True) folders that the user's project ignores."""
        found: set[str] = set()
        waiting: dict[str, bytes] = {}
        room = _AT_ONCE
        for path, folder in asked.items():
            if self._beyond_link(f"{path}/" if folder else path):
                continue
            # In front, for a name may begin with the mark of a pathspec's magic.
            question = b"./" + os.fsencode(f"{path}/{_BELOW}" if folder else path) + b"\0"
            room -= 2 * len(question)
            if room < 0 and waiting:
                # More answers than a pipe holds would keep git from reading on.
                found |= await self._answers(waiting, asked)
                waiting, room = {}, _AT_ONCE
            waiting[path] = question
        return found | await self._answers(waiting, asked)

    async def _answers(self, questions: Mapping[str, bytes], asked: Mapping[str, bool]) -> set[str]:
        found: set[str] = set()
        await self._talk.ask(b"".join(questions.values()))
        for path in questions:
            parts = [await self._talk.until(b"\0") for _ in ("file", "line", "rule", "path")]
            rule = os.fsdecode(parts[2])
            if not rule or rule.startswith("!"):
                continue
            if asked[path]:
                # A rule for any name tells nothing of the folder: what is below it is asked about one by one.
                ignored = rule.endswith("/") or not fnmatchcase(_BELOW, rule.rpartition("/")[2])
            else:
                # A rule for folders met the folder that the tree has where the layer has a file.
                ignored = not (rule.endswith("/") and (self._root / path).is_dir())
            if ignored:
                found.add(path)
        return found

    def _beyond_link(self, path: str) -> bool:
        """Whether a link of the tree stands where the layer has a folder: git refuses to look beyond one.

        Nothing is ignored there, which hides nothing.
        """
        place = self._root
        for part in path.split("/")[:-1]:
            place = place / part
            if place.is_symlink():
                return True
            if not place.is_dir():
                return False
        return False

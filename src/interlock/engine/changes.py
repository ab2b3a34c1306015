"""What a run changed: code and documentation with lines added and removed, the playbook's documents apart.

Nothing is written for it, not even into the engine's own folder: looking changes nothing.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.contracts import is_documentation
from interlock.documents.patches import PatchPart, patch_parts
from interlock.engine import journal_file
from interlock.engine.folder import HOME, RunFolder
from interlock.engine.journal import Line
from interlock.engine.objects import unpack
from interlock.errors import JournalDamaged, WorkspaceFailed
from interlock.telemetry import printable
from interlock.workspace import KeptWork, Scope
from interlock.workspace.comparing import Comparison, comparison
from interlock.workspace.git import NO_FETCH
from interlock.workspace.objects import LINK, Stored

GIT_S = 20
PLAIN, EXECUTABLE = 0o100644, 0o100755
LARGE, ALL_OF_IT = 4_000_000, 16_000_000
"""Bytes of one file, and of all of them, that are compared for people."""


@dataclass(frozen=True)
class FileChange:
    """One file, as the run left it against how it found it."""

    path: str
    added: int | None
    """Lines; None for a file that has none, or too many."""
    removed: int | None
    mode: str = ""
    """Its mode before and now, where that differs: whether it can be executed, or is a link."""
    patch: bytes = b""
    """Its difference as git writes it; empty where it is too large for people."""

    @property
    def shown(self) -> str:
        counts = f"+{self.added} -{self.removed}" if self.added is not None else "binary" if self.patch else "large"
        return f"{printable(self.path)} {counts}" + (f" (mode {self.mode})" if self.mode else "")


@dataclass(frozen=True)
class Changes:
    """Everything that the accepted work of a run changed."""

    code: tuple[FileChange, ...]
    documentation: tuple[FileChange, ...]
    """What is written for people."""
    papers: tuple[FileChange, ...]
    """The playbook's documents, as far as agents changed them."""
    documents: tuple[str, ...]
    """All of them, those that the playbook wrote too."""
    besides: tuple[str, ...]
    """What else came into the tree, in a line each; there is no difference of it."""
    patch: bytes


@dataclass(frozen=True)
class Made:
    """The accepted work of one dispatch."""

    key: str
    agent: str
    member: str
    work: KeptWork


def accepted_work(folder: RunFolder, lines: Sequence[Line], agent: str | None = None) -> list[Made]:
    """What came into the tree, dispatch by dispatch in their order; of one agent only, if one is named."""
    with _reading(folder):
        made = [one for line in lines if (one := _made(folder, line)) is not None]
    return [one for one in made if agent is None or agent in (one.agent, one.member, one.key)]


def _made(folder: RunFolder, line: Line) -> Made | None:
    if line.event != "dispatch.end" or not line.data.get("changes"):
        return None
    report = unpack(line.data["out"], folder.objects)
    taken = [path for path in report["changes"] if report.get("accepted", True) or path in report["artifacts"]]
    if not report.get("work") or not taken:
        return None
    work = KeptWork.from_json(report["work"]).only(taken)
    return Made(str(line.key), str(line.agent), str(line.data["member"]), work)


@contextmanager
def _reading(folder: RunFolder) -> Iterator[None]:
    """Whatever is wrong with what is kept of a run becomes an error for people: it may be damaged, and anybody's."""
    try:
        yield
    except OSError as error:
        raise WorkspaceFailed.of(error, "what the run changed cannot be read") from error
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        what = f"what the run changed cannot be read from its records ({type(error).__name__})"
        raise JournalDamaged(what, path=str(folder.path / journal_file.NAME)) from error


def run_changes(
    folder: RunFolder,
    lines: Sequence[Line],
    documents: Iterable[str],
    agent: str | None = None,
    *,
    literal: bool = True,
) -> Changes:
    """The changes of a run, each file against what it was before the first dispatch that changed it.

    Args:
        documents: patterns of the playbook's own documents, which are no code.
        agent: only the work of this one.
        literal: the patch is one for ``git apply``, with the bytes of all files; else it is for people, who see what
            can be read as text as such, and are only told of what is too large.
    """
    with _reading(folder):
        return _run_changes(folder, lines, documents, agent, literal=literal)


def _run_changes(
    folder: RunFolder, lines: Sequence[Line], documents: Iterable[str], agent: str | None, *, literal: bool
) -> Changes:
    papered = Scope(tuple(documents))
    written = {str(line.data["out"]["path"]) for line in lines if line.event == "write" and _path_in(line.data)}
    with comparison(folder.root / HOME) as git:
        old, new = _versions(git, accepted_work(folder, lines, agent))
        differing = sorted(path for path in {*old, *new} if old.get(path) != new.get(path))
        parts = _parts(git, _only(old, differing), _only(new, differing), literal=literal)
    files = tuple(_counted(path, parts.pop(path, []), old.get(path), new.get(path)) for path in differing)
    papers = {path for path in differing if papered.covers(path)} | (written if agent is None else set())
    unknown = tuple(part.whole for some in parts.values() for part in some)
    others = [one for one in files if one.path not in papers]
    return Changes(
        tuple(one for one in others if not is_documentation(one.path)),
        tuple(one for one in others if is_documentation(one.path)),
        tuple(one for one in files if one.path in papers),
        tuple(sorted(papers)),
        tuple(dict.fromkeys(_besides(folder, lines))) if agent is None else (),
        b"".join([*(one.patch for one in files), *unknown]),
    )


def _versions(git: Comparison, works: Sequence[Made]) -> tuple[dict[str, Stored], dict[str, Stored]]:
    """The files as the first of these found them and as the last of them left them; those that were there."""
    first: dict[str, tuple[str, str]] = {}
    last: dict[str, Stored | None] = {}
    for made in works:
        trees = dict(made.work.base.trees)
        for entry in made.work.entries:
            home = max((folder for folder in trees if not folder or entry.path.startswith(f"{folder}/")), key=len)
            first.setdefault(entry.path, (home, trees[home]))
            last[entry.path] = Stored(_mode(entry.mode), entry.blob) if entry.blob else None
    wanted: dict[tuple[str, str], list[str]] = {}
    for path, (home, tree) in first.items():
        wanted.setdefault((home, tree), []).append(path[len(home) :].lstrip("/") if home else path)
    old = {
        f"{home}/{path}" if home else path: found
        for (home, tree), paths in wanted.items()
        for path, found in git.files(tree, paths).items()
    }
    return _only(old, first), {path: entry for path, entry in last.items() if entry is not None}


def _only(files: Mapping[str, Stored], paths: Iterable[str]) -> dict[str, Stored]:
    return {path: files[path] for path in paths if path in files}


def _mode(bits: int) -> int:
    """What git notes of a file's mode."""
    return LINK if stat.S_ISLNK(bits) else EXECUTABLE if bits & stat.S_IXUSR else PLAIN


def _parts(
    git: Comparison, old: Mapping[str, Stored], new: Mapping[str, Stored], *, literal: bool
) -> dict[str, list[PatchPart]]:
    """What git says of each file; a link that became a file is two parts."""
    if literal:
        return _by_path(git.patch(old, new, "--binary"))
    some = list(_readable(git, old, new))
    found = _by_path(git.patch(_only(old, some), _only(new, some)))
    # A NUL makes a file binary for git: whoever is to approve it reads what there is to read.
    binary = [path for path, parts in found.items() if any(part.is_binary for part in parts)]
    as_text = _by_path(git.patch(_only(old, binary), _only(new, binary), "--text")) if binary else {}
    return found | {path: parts for path, parts in as_text.items() if all(_is_text(part) for part in parts)}


def _readable(git: Comparison, old: Mapping[str, Stored], new: Mapping[str, Stored]) -> Iterator[str]:
    """The files that somebody could read: none that is very large, and not too many of the others."""
    sizes = git.sizes([entry.name for files in (old, new) for entry in files.values()])
    room = ALL_OF_IT
    for path in sorted({*old, *new}):
        taken = [sizes.get(files[path].name, 0) for files in (old, new) if path in files]
        if max(taken) <= LARGE and sum(taken) <= room:
            room -= sum(taken)
            yield path


def _by_path(patch: bytes) -> dict[str, list[PatchPart]]:
    found: dict[str, list[PatchPart]] = {}
    for part in patch_parts(patch):
        found.setdefault(part.path or "", []).append(part)
    return found


def _is_text(part: PatchPart) -> bool:
    try:
        part.body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _besides(folder: RunFolder, lines: Sequence[Line]) -> Iterator[str]:
    """What came into the tree beside the work of agents, of which there is no difference to see."""
    dropped = {line.key for line in lines if line.event == "command.dropped"}
    for line in lines:
        if line.event == "dispatch.came_along":
            for path, count in line.data["ignored"].items():
                yield f"{path} ({count} {'file' if count == 1 else 'files'}), ignored by git"
        elif line.event == "command" and line.key not in dropped:
            changed = unpack(line.data["out"], folder.objects).get("changed") or ()
            yield from (f"{path}, by the command {' '.join(line.data['argv'])}" for path in changed)


def _path_in(data: Mapping[str, Any]) -> bool:
    return isinstance(data.get("out"), Mapping) and isinstance(data["out"].get("path"), str)


def _counted(path: str, parts: Sequence[PatchPart], old: Stored | None, new: Stored | None) -> FileChange:
    mode = f"{old.mode:o} -> {new.mode:o}" if old and new and old.mode != new.mode else ""
    patch = b"".join(part.whole for part in parts)
    if not parts or any(part.is_binary for part in parts):
        return FileChange(path, None, None, mode, patch)
    return FileChange(path, sum(part.added for part in parts), sum(part.removed for part in parts), mode, patch)


def git_says(root: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """What git says; nothing where it cannot say it. The records may be anybody's: it starts no other program."""
    words = ["git", "-C", str(root), "-c", "log.showSignature=false", *arguments]
    try:
        done = subprocess.run(
            words, input=stdin, env={**os.environ, **NO_FETCH}, capture_output=True, timeout=GIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return done.stdout if done.returncode == 0 else b""

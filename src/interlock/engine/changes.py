"""What a run changed: code and documentation with lines added and removed, the playbook's documents apart.

Nothing is written for it, not even into the engine's own folder: looking changes nothing.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import os
import stat
import subprocess
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.contracts import is_documentation
from interlock.engine.folder import HOME, RunFolder
from interlock.engine.journal import Line
from interlock.engine.objects import unpack
from interlock.telemetry import printable
from interlock.workspace import KeptWork, Scope
from interlock.workspace.git import NO_FETCH

GIT_S = 20
BINARY = b"GIT binary patch"
PLAIN, EXECUTABLE, LINK = b"100644", b"100755", b"120000"
AT_ONCE = 500
"""Paths that one call of git is given."""


@dataclass(frozen=True)
class FileChange:
    """One file, as the run left it against how it found it."""

    path: str
    added: int | None
    """Lines; None for a file that has none."""
    removed: int | None
    mode: str = ""
    """Its mode before and now, where that differs: whether it can be executed."""

    @property
    def shown(self) -> str:
        counts = "binary" if self.added is None else f"+{self.added} -{self.removed}"
        return f"{printable(self.path)} {counts}" + (f" (mode {self.mode})" if self.mode else "")


@dataclass(frozen=True)
class Changes:
    """Everything that the accepted work of a run changed."""

    code: tuple[FileChange, ...]
    documentation: tuple[FileChange, ...]
    """What is written for people."""
    documents: tuple[str, ...]
    """The playbook's own."""
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
    found = []
    for line in lines:
        if line.event != "dispatch.end" or not line.data.get("changes"):
            continue
        report = unpack(line.data["out"], folder.objects)
        taken = [path for path in report["changes"] if report.get("accepted", True) or path in report["artifacts"]]
        if not report.get("work") or not taken:
            continue
        made = Made(
            str(line.key), str(line.agent), str(line.data["member"]), KeptWork.from_json(report["work"]).only(taken)
        )
        if agent is None or agent in (made.agent, made.member, made.key):
            found.append(made)
    return found


def run_changes(
    folder: RunFolder, lines: Sequence[Line], documents: Iterable[str], agent: str | None = None
) -> Changes:
    """The changes of a run, each file against what it was before the first dispatch that changed it.

    Args:
        documents: patterns of the playbook's own documents, which are no code.
        agent: only the work of this one.
    """
    papered = Scope(tuple(documents))
    texts = _versions(folder.root, accepted_work(folder, lines, agent))
    differing = {
        path: (old, new)
        for path, (old, new) in sorted(texts.items())
        if old.content != new.content or _other_mode(old, new)
    }
    parts = {path: _difference(path, old, new) for path, (old, new) in differing.items()}
    written = {str(line.data["out"]["path"]) for line in lines if line.event == "write" and _path_in(line.data)}
    papers = {path for path in differing if papered.covers(path)} | (written if agent is None else set())
    files = [_counted(path, parts[path], *differing[path]) for path in parts if path not in papers]
    told = {kind: tuple(one for one in files if is_documentation(one.path) is kind) for kind in (False, True)}
    return Changes(told[False], told[True], tuple(sorted(papers)), b"".join(parts.values()))


@dataclass(frozen=True)
class Version:
    """A file at one moment."""

    content: bytes | None
    """None: it was not there."""
    mode: bytes = PLAIN
    """As git has it."""


def _versions(root: Path, works: Sequence[Made]) -> dict[str, tuple[Version, Version]]:
    """Each file as the first of these found it and as the last of them left it."""
    first: dict[str, str] = {}
    last: dict[str, str] = {}
    modes: dict[str, bytes] = {}
    for made in works:
        trees = dict(made.work.base.trees)
        for entry in made.work.entries:
            home = max((folder for folder in trees if not folder or entry.path.startswith(f"{folder}/")), key=len)
            first.setdefault(entry.path, f"{trees[home]}:{entry.path[len(home) :].lstrip('/')}")
            last[entry.path] = entry.blob or ""
            modes[entry.path] = _mode(entry.mode)
    repository = root / HOME / "snapshots.git"
    contents = _contents(repository, [*first.values(), *filter(None, last.values())])
    before = _modes(repository, first.values())
    return {
        path: (
            Version(contents.get(first[path]), before.get(first[path], PLAIN)),
            Version(contents.get(last[path]), modes[path]),
        )
        for path in first
    }


def _mode(bits: int) -> bytes:
    """What git notes of a file's mode."""
    return LINK if stat.S_ISLNK(bits) else EXECUTABLE if bits & stat.S_IXUSR else PLAIN


def _modes(repository: Path, names: Iterable[str]) -> dict[str, bytes]:
    """The modes of the files of these names, each a tree and a path in it; those that are not there are left out."""
    paths: dict[str, list[str]] = {}
    for tree, _, path in (name.partition(":") for name in names):
        paths.setdefault(tree, []).append(path)
    found: dict[str, bytes] = {}
    for tree, wanted in paths.items():
        for at in range(0, len(wanted), AT_ONCE):
            some = wanted[at : at + AT_ONCE]
            told = git_says(repository, "--literal-pathspecs", "ls-tree", "-z", "--full-tree", tree, "--", *some)
            for row in told.split(b"\0")[:-1]:
                facts, _, name = row.partition(b"\t")
                found[f"{tree}:{name.decode('utf-8', 'surrogateescape')}"] = facts.split(b" ")[0]
    return found


def _contents(repository: Path, names: Sequence[str]) -> dict[str, bytes]:
    """The files of these names in the shadow repository; those that are not there are left out."""
    asked = b"".join(name.encode("utf-8", "surrogateescape") + b"\0" for name in names)
    told = git_says(repository, "cat-file", "--batch", "-z", stdin=asked) if names else b""
    found: dict[str, bytes] = {}
    for name in names:
        head, _, told = told.partition(b"\n")
        match head.rsplit(b" ", 2):
            case [_, b"blob", size]:
                found[name], told = told[: int(size)], told[int(size) + 1 :]
            case [_, _, size] if size.isdigit():  # a folder stood there
                told = told[int(size) + 1 :]
    return found


def _difference(path: str, before: Version, after: Version) -> bytes:
    """The difference of two versions of a file as `git apply` reads it."""
    name, old, new = path.encode("utf-8", "surrogateescape"), before.content, after.content
    head = b"diff --git a/%s b/%s\n" % (name, name)
    if old is None:
        head += b"new file mode %s\n" % after.mode
    elif new is None:
        head += b"deleted file mode %s\n" % before.mode
    elif _other_mode(before, after):
        head += b"old mode %s\nnew mode %s\n" % (before.mode, after.mode)
        if old == new:
            return head
    sides = [b"/dev/null" if old is None else b"a/" + name, b"/dev/null" if new is None else b"b/" + name]
    if any(b"\0" in (text or b"")[:8000] for text in (old, new)):
        return head + b"index %s..%s\n%s\n" % (_id(old), _id(new), BINARY) + _literal(new) + _literal(old)
    rows = difflib.diff_bytes(difflib.unified_diff, _rows(old), _rows(new), sides[0], sides[1])
    return head + b"".join(row if row.endswith(b"\n") else row + b"\n\\ No newline at end of file\n" for row in rows)


def _other_mode(before: Version, after: Version) -> bool:
    """Whether a file that stays one can be executed now and could not before, or the other way round."""
    return {before.mode, after.mode} == {PLAIN, EXECUTABLE} and None not in (before.content, after.content)


def _id(content: bytes | None) -> bytes:
    """The name that git gives to a file of this content; zeros where there is none."""
    if content is None:
        return b"0" * 40
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest().encode()


def _literal(content: bytes | None) -> bytes:
    """One side of a binary file: packed, 52 bytes to a line, each with a letter for its length before it."""
    packed = zlib.compress(content or b"")
    rows = [packed[at : at + 52] for at in range(0, len(packed), 52)]
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    lines = (letters[len(row) - 1 : len(row)] + base64.b85encode(row, pad=True) + b"\n" for row in rows)
    return b"literal %d\n%s\n" % (len(content or b""), b"".join(lines))


def _rows(text: bytes | None) -> list[bytes]:
    return [row + b"\n" for row in text.split(b"\n")[:-1]] + _rest(text) if text else []


def _rest(text: bytes) -> list[bytes]:
    """What stands behind the last line end."""
    last = text.rpartition(b"\n")[2]
    return [last] if last else []


def _path_in(data: Mapping[str, Any]) -> bool:
    return isinstance(data.get("out"), Mapping) and isinstance(data["out"].get("path"), str)


def _counted(path: str, patch: bytes, before: Version, after: Version) -> FileChange:
    """Lines added and removed; the head of a difference ends with the line that begins with ``@@``."""
    mode = f"{before.mode.decode()} -> {after.mode.decode()}" if _other_mode(before, after) else ""
    if b"\n@@" not in patch:
        binary = b"\n%s\n" % BINARY in patch
        return FileChange(path, None if binary else 0, None if binary else 0, mode)
    rows = patch.split(b"\n@@", 1)[1].split(b"\n")
    return FileChange(path, sum(row[:1] == b"+" for row in rows), sum(row[:1] == b"-" for row in rows), mode)


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

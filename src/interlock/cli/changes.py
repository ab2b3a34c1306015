"""`diff`: what a run changed: code with lines added and removed, the playbook's documents apart, branch and commits."""

from __future__ import annotations

import base64
import difflib
import hashlib
import os
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.commands import LOOK, LatestRun, command
from interlock.cli.door import Door
from interlock.cli.output import complain, print_lines, write_output
from interlock.engine.folder import HOME, KnownRun
from interlock.errors import InterlockError, Refused
from interlock.telemetry import printable
from interlock.workspace import KeptWork, Scope

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.engine.journal import Line

LISTED = 12
"""Files that the end of a run names; `diff` has them all."""
GIT_S = 20
BINARY = b"GIT binary patch"


@dataclass(frozen=True)
class FileChange:
    """One file, as the run left it against how it found it."""

    path: str
    added: int | None
    """Lines; None for a file that has none."""
    removed: int | None

    @property
    def shown(self) -> str:
        counts = "binary" if self.added is None else f"+{self.added} -{self.removed}"
        return f"{printable(self.path)} {counts}"


@dataclass(frozen=True)
class Changes:
    """Everything that the accepted work of a run changed."""

    code: tuple[FileChange, ...]
    documents: tuple[str, ...]
    patch: bytes


@dataclass(frozen=True)
class Made:
    """The accepted work of one dispatch."""

    key: str
    agent: str
    member: str
    work: KeptWork


@command("diff", example="interlock diff latest", honours=("fields",), panel=LOOK)
def diff(
    door: Door,
    run: LatestRun = "latest",
    agent: Annotated[
        str, typer.Argument(metavar="[AGENT]", help="Only the work of this agent.", show_default=False)
    ] = "",
    stat: Annotated[bool, typer.Option("--stat", help="Only the files, with lines added and removed.")] = False,
) -> int:
    """Print what the work of a run changed, as a patch: each file against how the run found it."""
    known = door.find(run)
    lines = known.folder.lines()
    if agent:
        _check_agent(known, lines, agent)
    found = changes_of(known, lines, agent or None)
    if door.json:
        files = [{"path": one.path, "added": one.added, "removed": one.removed} for one in found.code]
        patch = found.patch.decode("utf-8", "replace")
        facts = {"run_id": known.identity.run_id, "code": files, "documents": list(found.documents)}
        door.give({**facts, "patch": patch})
    elif stat:
        print_lines([*(one.shown for one in found.code), *(f"{path} (document)" for path in found.documents)])
    elif found.patch:
        write_output(found.patch)
    else:
        complain(f"Run {known.identity.run_id} has changed no file.")
    return 0


def _check_agent(known: KnownRun, lines: Sequence[Line], agent: str) -> None:
    made = accepted_work(known, lines)
    if not any(agent in (one.agent, one.member, one.key) for one in made):
        names = list(dict.fromkeys(one.member for one in made))
        raise Refused(
            f"{agent!r} has changed nothing in run {known.identity.run_id}",
            expected=f"one of {', '.join(names)}" if names else "an agent whose work was accepted; there is none",
        )


def accepted_work(known: KnownRun, lines: Sequence[Line], agent: str | None = None) -> list[Made]:
    """What came into the tree, dispatch by dispatch in their order; of one agent only, if one is named."""
    from interlock.engine.objects import unpack

    found = []
    for line in lines:
        if line.event != "dispatch.end" or not line.data.get("changes"):
            continue
        report = unpack(line.data["out"], known.folder.objects)
        taken = [path for path in report["changes"] if report.get("accepted", True) or path in report["artifacts"]]
        if not report.get("work") or not taken:
            continue
        made = Made(
            str(line.key), str(line.agent), str(line.data["member"]), KeptWork.from_json(report["work"]).only(taken)
        )
        if agent is None or agent in (made.agent, made.member, made.key):
            found.append(made)
    return found


def changes_of(known: KnownRun, lines: Sequence[Line], agent: str | None = None) -> Changes:
    """The changes of a run, each file against what it was before the first dispatch that changed it.

    Nothing is written for it, not even into the engine's own folder: looking changes nothing.
    """
    from interlock.finding import Library

    root, identity = known.folder.root, known.identity
    try:
        playbook = Library(root, os.environ).again(identity, ask=False)
        inputs = playbook.parse_inputs(identity.inputs)
        documents = Scope((*playbook.documents(inputs), *playbook.state(inputs)))
    except InterlockError:  # a playbook that is not here any more, or not trusted: its documents count as files
        documents = Scope(())
    texts = _versions(root, accepted_work(known, lines, agent))
    differing = {path: (old, new) for path, (old, new) in sorted(texts.items()) if old != new}
    parts = {path: _difference(path, old, new) for path, (old, new) in differing.items()}
    written = {str(line.data["out"]["path"]) for line in lines if line.event == "write" and _path_in(line.data)}
    papers = {path for path in differing if documents.covers(path)} | (written if agent is None else set())
    code = tuple(_counted(path, parts[path]) for path in parts if path not in papers)
    return Changes(code, tuple(sorted(papers)), b"".join(parts.values()))


def _versions(root: Path, works: Sequence[Made]) -> dict[str, tuple[bytes | None, bytes | None]]:
    """Each file as the first of these found it and as the last of them left it; None where it was not there."""
    first: dict[str, str] = {}
    last: dict[str, str] = {}
    for made in works:
        trees = dict(made.work.base.trees)
        for entry in made.work.entries:
            home = max((folder for folder in trees if not folder or entry.path.startswith(f"{folder}/")), key=len)
            first.setdefault(entry.path, f"{trees[home]}:{entry.path[len(home) :].lstrip('/')}")
            last[entry.path] = entry.blob or ""
    contents = _contents(root / HOME / "snapshots.git", [*first.values(), *filter(None, last.values())])
    return {path: (contents.get(first[path]), contents.get(last[path])) for path in first}


def _contents(repository: Path, names: Sequence[str]) -> dict[str, bytes]:
    """The files of these names in the shadow repository; those that are not there are left out."""
    asked = b"".join(name.encode("utf-8", "surrogateescape") + b"\0" for name in names)
    told = _git(repository, "cat-file", "--batch", "-z", stdin=asked) if names else b""
    found: dict[str, bytes] = {}
    for name in names:
        head, _, told = told.partition(b"\n")
        match head.rsplit(b" ", 2):
            case [_, b"blob", size]:
                found[name], told = told[: int(size)], told[int(size) + 1 :]
            case [_, _, size] if size.isdigit():  # a folder stood there
                told = told[int(size) + 1 :]
    return found


def _difference(path: str, old: bytes | None, new: bytes | None) -> bytes:
    """The difference of two versions of a file as `git apply` reads it."""
    name = path.encode("utf-8", "surrogateescape")
    head = b"diff --git a/%s b/%s\n" % (name, name)
    head += b"new file mode 100644\n" if old is None else b"deleted file mode 100644\n" if new is None else b""
    sides = [b"/dev/null" if old is None else b"a/" + name, b"/dev/null" if new is None else b"b/" + name]
    if any(b"\0" in (text or b"")[:8000] for text in (old, new)):
        return head + b"index %s..%s\n%s\n" % (_id(old), _id(new), BINARY) + _literal(new) + _literal(old)
    rows = difflib.diff_bytes(difflib.unified_diff, _rows(old), _rows(new), sides[0], sides[1])
    return head + b"".join(row if row.endswith(b"\n") else row + b"\n\\ No newline at end of file\n" for row in rows)


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


def _counted(path: str, patch: bytes) -> FileChange:
    """Lines added and removed; the head of a difference ends with the line that begins with ``@@``."""
    if b"\n@@" not in patch:
        binary = b"\n%s\n" % BINARY in patch
        return FileChange(path, None if binary else 0, None if binary else 0)
    rows = patch.split(b"\n@@", 1)[1].split(b"\n")
    return FileChange(path, sum(row[:1] == b"+" for row in rows), sum(row[:1] == b"-" for row in rows))


def branch_line(root: Path, since: str) -> str | None:
    """The branch that the user's repository is on, and the commits made on it since a moment; None without git."""
    branch = _git(root, "symbolic-ref", "--quiet", "--short", "HEAD").decode("utf-8", "replace").strip()
    if not branch:
        return None
    commits = _git(root, "log", "-20", f"--since={since}", "--format=%h %s").decode("utf-8", "replace").splitlines()
    said = "; ".join(printable(commit, 80) for commit in commits[:3]) or "nothing committed"
    more = f" and {len(commits) - 3} more" if len(commits) > 3 else ""
    return f"{printable(branch)}: {said}{more}"


def _git(root: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """What git says; nothing where it cannot say it. The records may be anybody's: it starts no other program."""
    from interlock.workspace.git import NO_FETCH

    words = ["git", "-C", str(root), "-c", "log.showSignature=false", *arguments]
    try:
        done = subprocess.run(
            words, input=stdin, env={**os.environ, **NO_FETCH}, capture_output=True, timeout=GIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return done.stdout if done.returncode == 0 else b""


def change_lines(changes: Changes) -> list[str]:
    """The changes for the end of a run: code file by file, documents in one line."""
    lines = []
    if changes.code:
        added = sum(one.added or 0 for one in changes.code)
        removed = sum(one.removed or 0 for one in changes.code)
        lines.append(f"  code: {_files(len(changes.code))}, +{added} -{removed}")
        lines += [f"    {one.shown}" for one in changes.code[:LISTED]]
        if len(changes.code) > LISTED:
            lines.append(f"    and {len(changes.code) - LISTED} more")
    elif changes.documents:
        lines.append("  code: no file changed")
    if changes.documents:
        lines.append(f"  documents: {_files(len(changes.documents))}{_where(changes.documents)}")
    return lines


def _where(paths: Sequence[str]) -> str:
    """Where files are: by name where they are few, else the folder that all of them are in."""
    folder = os.path.commonpath(paths)
    if len(paths) > 3 and folder:
        return f" below {printable(folder)}/"
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return f": {', '.join(printable(path) for path in paths[:3])}{more}"


def _files(number: int) -> str:
    return f"{number} {'file' if number == 1 else 'files'}"

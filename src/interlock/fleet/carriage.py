"""A run as a commit: its folder, and by the commit's parents its trees, what was before, and the commits it stands on.

Theory of operation.  The tree of the commit holds `about.json` and the run's folder below `run/`, the journal in closed
pieces, so that what is pushed after each dispatch stays small.  Parents are the commit before (every move is a fast
forward), the commit of all trees that the run keeps, and the head of its branch, so that commits travel that nobody has
pushed.  The journal is read first and the workspace after it, and both again where the journal grew meanwhile: what the
journal names is there, and what it does not know of yet did not happen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from interlock.agents.redaction import Redaction
from interlock.documents.files import replace
from interlock.documents.model import Model, canonical
from interlock.engine.journal import lines_of
from interlock.engine.runs import HELD, Entry
from interlock.errors import JournalDamaged, Refused, WorkspaceFailed
from interlock.fleet.remote import RUNS, Remote
from interlock.workspace.git import Entry as Blob
from interlock.workspace.place import stamp
from interlock.workspace.repository import DETACHED
from interlock.workspace.trees import Trees
from interlock.workspace.values import EMPTY, Tree, Where

PIECE = 1 << 16
_PARTS = ("objects", "dispatches", "inbox")
_SAFE = re.compile(r"run/((objects|dispatches|inbox)/(?!.*(^|/)\.)[^\0]+|report\.md|journal/\d{6})", re.DOTALL)
WORKERS = "worker "
"""So the names of holders begin that are workers."""
_TRIES, _JOURNAL = 3, "run/journal/"


class About(Model):
    """What a carried run is, and who has it."""

    model_config = ConfigDict(extra="ignore")

    run: str
    playbook: str
    headline: str
    status: str
    at: datetime
    where: Where
    head: str = Field(pattern="^([0-9a-f]{40})?$")
    """The commit of its branch."""
    tree: Tree
    """The workspace as the run left it, unsaved work included."""
    keep: str = Field(pattern="^[0-9a-f]{40}$")
    """The commit of all trees that it names."""
    holder: str = ""
    """Who works on it; empty: nobody, it can be taken."""
    claim: str = ""
    """Theirs alone: two who take a run in the same second do not both have it."""
    needs: tuple[str, ...] = ()
    """Of a run that was given to workers: what one has to have."""

    @property
    def is_with_a_person(self) -> bool:
        return bool(self.holder) and not self.holder.startswith(WORKERS)


def ref_of(run: str) -> str:
    return f"{RUNS}/{run}"


class Packer:
    """Makes commits of one run; of what it packed before it remembers the names."""

    def __init__(self, trees: Trees, entry: Entry) -> None:
        self._trees, self._entry = trees, entry
        self._known: dict[str, tuple[tuple[int, ...], str]] = {}
        self._pieces: dict[int, str] = {}
        self.packed = -1
        """How far its journal went then."""

    def commit(self, before: str, **held: Any) -> str:
        """A commit of the run as it is now; `held`: what of `About` is not the run's."""
        trees, entry = self._trees, self._entry
        start = entry.view().start
        assert start is not None
        trees.declare(start.documents)
        for _ in range(_TRIES):
            journal = entry.journal.read_bytes()
            view = entry.view()
            standing = trees.standing(entry.id, view.where, view.standing)
            if entry.journal.stat().st_size == len(journal):
                break
        kept = trees.git.text("rev-parse", "-q", "--verify", ref_of(entry.id), ok=(0, 1))
        whole = journal[: journal.rfind(b"\n") + 1]
        about = About(
            run=entry.id,
            playbook=start.playbook,
            headline=start.headline,
            status=view.status_now(worked_on=bool(held.get("holder"))).value,
            at=datetime.now(UTC),
            where=view.where,
            head=standing.head,
            tree=standing.tree,
            keep=trees.commit(standing.tree, kept),
            **held,
        )
        files = {f"run/{name}": (0o100644, blob) for name, blob in (*self._cut(whole), *self._files())}
        self.packed = len(journal)
        return write(trees, about, files, before)

    def _cut(self, journal: bytes) -> Iterator[tuple[str, str]]:
        for number, start in enumerate(range(0, len(journal), PIECE)):
            piece = journal[start : start + PIECE]
            blob = self._pieces.get(number) or self._trees.write(piece)
            if len(piece) == PIECE:
                self._pieces[number] = blob
            yield f"journal/{number:06d}", blob

    def _files(self) -> Iterator[tuple[str, str]]:
        top = self._entry.path
        places = [place for part in _PARTS for place in (top / part).rglob("*")]
        for place in (*places, top / "report.md"):
            if place.is_file() and not place.is_symlink() and not place.name.startswith("."):
                name, now = place.relative_to(top).as_posix(), stamp(place.stat())
                if self._known.get(name, ((), ""))[0] != now:
                    self._known[name] = now, self._trees.write(place.read_bytes())
                yield name, self._known[name][1]


def write(trees: Trees, about: About, files: Mapping[str, Blob], before: str) -> str:
    """The commit of a run; its parents are all that it needs."""
    facts = json.dumps(about.model_dump(mode="json"), indent=1, sort_keys=True).encode()
    tree = trees.tree_of(EMPTY, {**files, "about.json": (0o100644, trees.write(facts))})
    parents = "".join(f"parent {one}\n" for one in dict.fromkeys((before, about.keep, about.head)) if one)
    who = f"interlock <interlock@localhost> {int(about.at.timestamp())} +0000"
    text = f"{about.run}: {about.status}\n"
    return trees.write(f"tree {tree}\n{parents}author {who}\ncommitter {who}\n\n{text}".encode(), "commit")


@dataclass(frozen=True)
class Carried:
    """A run as the remote has it."""

    tip: str
    about: About
    files: Mapping[str, Blob]
    journal: bytes


def about_of(trees: Trees, commit: str, run: str) -> tuple[About, dict[str, Blob]]:
    """What a commit says of this run, and its files; Refused for anything that is no run."""
    try:
        files = trees.entries(Tree(trees.git.text("rev-parse", "--verify", f"{commit}^{{tree}}")))
        content = trees.git.run("cat-file", "blob", files.pop("about.json", (0, ""))[1])
        about = About.model_validate_json(content)
        if about.where.branch not in ("", DETACHED):
            trees.git.run("check-ref-format", about.where.branch)
    except (WorkspaceFailed, ValidationError) as error:
        raise _useless(run, str(error).splitlines()[0]) from None
    if about.run != run:
        raise _useless(run, f"it is of run {about.run}")
    if odd := [name for name, (mode, _) in files.items() if mode != 0o100644 or not _SAFE.fullmatch(name)]:
        raise _useless(run, f"it holds {odd[0]!r}")
    return about, files


def read(trees: Trees, commit: str, run: str) -> Carried:
    """The same with its journal, checked by its hashes, before anything is done with it."""
    about, files = about_of(trees, commit, run)
    pieces = [files[name][1] for name in sorted(files) if name.startswith(_JOURNAL)]
    try:
        found = dict(trees.blobs(pieces))
        journal = b"".join(found[blob] for blob in pieces)
        lines = lines_of(journal, "journal.jsonl")
    except (JournalDamaged, KeyError) as error:
        raise _useless(run, str(error)) from None
    if not lines or getattr(lines[0].event, "run", "") != run:
        raise _useless(run, "its journal is of another one")
    return Carried(commit, about, files, journal)


def lay(trees: Trees, carried: Carried, folder: Path, held: Mapping[str, Any]) -> None:
    """A run's folder as the remote has it; what was there before is renewed, the journal last of all."""
    files = {name: blob for name, (_, blob) in carried.files.items() if not name.startswith(_JOURNAL)}
    wanted = {name.removeprefix("run/"): blob for name, blob in files.items()}
    kept = {name for name in wanted if name.startswith("objects/") and (folder / name).exists()}
    found = dict(trees.blobs(blob for name, blob in wanted.items() if name not in kept))
    for part in _PARTS:
        (folder / part).mkdir(parents=True, exist_ok=True)
    for place in (folder / "inbox").iterdir():
        if f"inbox/{place.name}" not in wanted:
            place.unlink()
    for name in wanted.keys() - kept:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        replace(folder / name, found[wanted[name]], mode=0o600, sync=False)
    note(folder, held)
    replace(folder / "journal.jsonl", carried.journal, mode=0o600)


def note(folder: Path, held: Mapping[str, Any]) -> None:
    """Who has a run, in its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / HELD, canonical(dict(held)), mode=0o600)


def check_secrets(remote: Remote, commit: str, before: str, redaction: Redaction) -> None:
    """Refused, by name, where what the remote does not have yet holds a secret of this environment."""
    theirs = [f"--remotes={remote.name}"] if re.fullmatch(r"[\w.-]+", remote.name) else []
    only = ("--filter=object:type=blob", "--filter-provided-objects", "--missing=allow-any")
    listed = remote.asked("rev-list", "--objects", *only, commit, "--not", *filter(None, (before,)), *theirs)
    names = {line[:40]: line[41:] for line in listed.splitlines()}
    for blob, content in remote.trees.blobs(names):
        if redaction.raw(content) != content:
            path = names[blob].partition("/")[2] or names[blob]
            raise Refused(
                "a file that would travel with the run holds a secret of your environment",
                where=path,
                expected="no secrets in what is carried to other machines",
                remedy="Take it out, or have git ignore the file; then call interlock again.",
            )


def _useless(run: str, why: str) -> Refused:
    remedy = "Nothing was changed here; whoever had it last can send it again."
    return Refused(f"what the remote has of run {run} cannot be used", found=why, remedy=remedy)

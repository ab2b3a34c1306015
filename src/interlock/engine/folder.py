"""The run folder: a run is this folder, and whoever has it can go on with the run."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.engine.identity import Identity
from interlock.engine.journal import (
    FileMedium,
    Journal,
    Line,
    Tripwire,
    no_tripwire,
    read_lines,
    split_torn,
    sync_folder,
    verify,
)
from interlock.engine.keys import sha256
from interlock.engine.objects import FileObjects, MemoryObjects, Objects, unpack
from interlock.errors import DocumentInvalid, JournalDamaged, Refused

HOME = ".interlock"
SHARED_WITH_TEAM = ("agents", "prompts", "playbooks")
GITIGNORE = "/*\n" + "".join(f"!/{name}/\n" for name in SHARED_WITH_TEAM)
PER_TRY = ("brief.md", "output.md", "transcript.jsonl", "stderr.log", "answer.json", "PARTIAL_REQUEST", "changes.patch")


def prepare_home(root: Path) -> Path:
    """The engine's own folder in a workspace; hides itself from git but for what a team shares."""
    home = root / HOME
    home.mkdir(exist_ok=True)
    ignore = home / ".gitignore"
    if not ignore.exists():
        ignore.write_text(GITIGNORE, "utf-8")
    return home


class LateObjects:
    """Objects that stay in memory until the run has come into being (EN-24)."""

    def __init__(self, folder: Path, *, exists: bool) -> None:
        self._memory: MemoryObjects | None = None if exists else MemoryObjects()
        self._files = FileObjects(folder)

    @property
    def _now(self) -> Objects:
        return self._files if self._memory is None else self._memory

    def put(self, content: bytes) -> str:
        return self._now.put(content)

    def put_file(self, path: Path) -> str:
        return self._now.put_file(path)

    def get(self, digest: str) -> bytes:
        return self._now.get(digest)

    def settle(self) -> None:
        held, self._memory = self._memory, None
        for content in held.contents() if held else ():
            self._files.put(content)


class RunFolder:
    """``.interlock/runs/<run-id>/`` and everything in it."""

    def __init__(self, root: Path, run_id: str) -> None:
        self.root = root
        self.run_id = run_id
        self.path = root / HOME / "runs" / run_id
        self.objects: Objects = LateObjects(self.path / "objects", exists=self.exists)
        self.before_create: Callable[[], None] = lambda: None

    @property
    def exists(self) -> bool:
        return (self.path / "run.json").exists()

    def create(self, identity: bytes) -> None:
        """Bring the run into being: from here on it can be resumed."""
        prepare_home(self.root)
        self.before_create()
        self.path.mkdir(parents=True, exist_ok=True)
        assert isinstance(self.objects, LateObjects)
        self.objects.settle()
        temporary = self.path / ".run.json.tmp"
        with temporary.open("wb") as file:
            file.write(identity)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self.path / "run.json")
        sync_folder(self.path)
        sync_folder(self.path.parent)

    def identity(self) -> Identity:
        path = self.path / "run.json"
        try:
            value = json.loads(path.read_bytes())
            return Identity(**value)
        except FileNotFoundError:
            raise Refused(f"there is no run {self.run_id}", where=str(path)) from None
        except (ValueError, TypeError) as error:
            raise DocumentInvalid(f"run.json of {self.run_id} is not readable: {error}", path=str(path)) from error

    def genesis(self) -> str:
        return sha256((self.path / "run.json").read_bytes())

    def medium(self) -> FileMedium:
        return FileMedium(self.path / "journal.jsonl")

    def journal(self, clock: Any, *, tripwire: Tripwire = no_tripwire) -> Journal:
        """The journal for the process that holds the run's lock."""
        return Journal(self.medium(), run_id=self.run_id, genesis=self.genesis(), clock=clock, tripwire=tripwire)

    def lines(self) -> list[Line]:
        """What the journal says now; a torn last line is left for the run's own process to deal with."""
        medium = self.medium()
        whole, _torn = split_torn(medium.load())
        return list(read_lines(whole, genesis=self.genesis(), name=medium.name))

    def verify(self) -> list[str]:
        """What is wrong with the journal and its objects, as sentences."""
        medium = self.medium()
        findings = verify(medium.load(), genesis=self.genesis(), name=medium.name, head=self._head())
        return findings or self._damaged_objects()

    def _damaged_objects(self) -> list[str]:
        """What is wrong with the values that the journal stores elsewhere."""
        findings = dict[str, None]()
        for line in self.lines():
            try:
                out = unpack(line.data, self.objects).get("out")
                if line.event == "dispatch.end":
                    for digest in filter(None, (*out["artifacts"].values(), out["answer_digest"])):
                        self.objects.get(digest)
            except JournalDamaged as damage:
                findings[f"{damage.what} (line {line.seq}, {line.key})"] = None
        return list(findings)

    def remember_head(self, journal: Journal) -> None:
        """Note how far the journal went, so that lines missing at its end show."""
        if not journal.held and journal.lines:
            temporary = self.path / ".head.tmp"
            temporary.write_text(f"{journal.lines[-1].seq} {journal.head}\n", "ascii")
            temporary.replace(self.path / "head")

    def _head(self) -> tuple[int, str] | None:
        try:
            number, seal = (self.path / "head").read_text("ascii").split()
            return int(number), seal
        except (OSError, ValueError):
            return None

    # -- dispatches

    def folder(self, key: str) -> Path:
        return self.path / "dispatches" / key

    def keep(self, key: str, name: str, content: bytes) -> str:
        folder = self.folder(key)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        return self.shown(folder / name)

    def keep_json(self, key: str, name: str, value: Any) -> None:
        self.keep(key, name, (json.dumps(value, indent=2) + "\n").encode())

    def begin_try(self, key: str, number: int) -> None:
        folder = self.folder(key)
        folder.mkdir(parents=True, exist_ok=True)
        leftovers = [folder / name for name in PER_TRY if (folder / name).exists()]
        if leftovers:
            aside = unused(folder / f"before-try-{number}")
            aside.mkdir()
            for path in leftovers:
                path.rename(aside / path.name)

    def shown(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    # -- messages from people

    @property
    def inbox(self) -> Path:
        return self.path / "inbox"

    def send(self, message: Mapping[str, Any]) -> None:
        """Leave a message for the process that holds the run's lock (EN-15)."""
        self.inbox.mkdir(exist_ok=True)
        name = f"{secrets.token_hex(8)}.json"
        temporary = self.inbox / f".{name}.tmp"
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(message, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self.inbox / name)
        sync_folder(self.inbox)

    def messages(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Messages not taken yet, oldest first; whatever is not one of ours is passed over."""
        if not self.inbox.is_dir():
            return
        paths = [path for path in self.inbox.iterdir() if re.fullmatch(r"[0-9a-f]{16}\.json", path.name)]
        for path in sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name)):
            try:
                value = json.loads(path.read_bytes())
            except ValueError:
                continue
            if isinstance(value, dict):
                yield path, value


def unused(path: Path) -> Path:
    """The path, or with the first number behind it that is free."""
    number, free = 2, path
    while free.exists():
        free = path.with_name(f"{path.name}-{number}")
        number += 1
    return free


@dataclass(frozen=True)
class Known:
    """A run that this workspace has."""

    folder: RunFolder
    identity: Identity


def known_runs(root: Path) -> list[Known]:
    """All runs of a workspace, oldest first; folders without a readable ``run.json`` are no runs."""
    runs = root / HOME / "runs"
    if not runs.is_dir():
        return []
    found = []
    for path in runs.iterdir():
        folder = RunFolder(root, path.name)
        with suppress(DocumentInvalid, Refused):
            found.append(Known(folder, folder.identity()))
    return sorted(found, key=lambda known: (known.identity.started_at, known.identity.run_id))


def find_run(root: Path, name: str) -> Known:
    """The run that a person means: its id, an unambiguous beginning of it, or ``latest``."""
    runs = known_runs(root)
    if not runs:
        raise Refused(
            "this workspace has no runs", where=str(root), remedy="Start one with: interlock run PLAYBOOK ..."
        )
    if name == "latest":
        return runs[-1]
    fitting = [known for known in runs if known.identity.run_id == name] or [
        known for known in runs if known.identity.run_id.startswith(name)
    ]
    if len(fitting) == 1:
        return fitting[0]
    if (folder := RunFolder(root, name)).exists:
        folder.identity()  # says what is wrong with it
    ids = ", ".join(known.identity.run_id for known in (fitting or runs)[-5:])
    if fitting:
        raise Refused(f"{name!r} fits {len(fitting)} runs", expected=f"one of {ids}", remedy="Give more of the id.")
    raise Refused(f"there is no run {name!r}", expected=f"for example {ids}", remedy="List them with: interlock runs")

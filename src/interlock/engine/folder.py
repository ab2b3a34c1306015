"""The run folder: a run is this folder, and whoever has it can go on with the run."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from interlock.documents.files import LEFTOVER, read_plain, remove_leftovers, replace_file, sync_folder
from interlock.engine import head, journal_file
from interlock.engine.head import Head, HeadFile, Mark, disagreements
from interlock.engine.identity import Identity
from interlock.engine.journal import Journal, Line, Tripwire, no_tripwire, read_lines, split_torn, verify
from interlock.engine.journal_file import FileMedium
from interlock.engine.keys import sha256
from interlock.engine.objects import FileObjects, MemoryObjects, Objects, unpack
from interlock.errors import DocumentInvalid, InterlockError, JournalDamaged, Refused, WorkspaceFailed

HOME = ".interlock"
SHARED_WITH_TEAM = ("agents", "prompts", "playbooks")
GITIGNORE = "/*\n" + "".join(f"!/{name}/\n" for name in SHARED_WITH_TEAM)
HEARD = ("transcript.jsonl", "stream.jsonl", "output.md", "stderr.log")
PER_TRY = ("brief.md", "output.md", "transcript.jsonl", "stderr.log", "answer.json", "PARTIAL_REQUEST", "changes.patch")
IDENTITY = "run.json"
ELSEWHERE = "elsewhere.json"
FETCHED = "fetched"
"""How a run is elsewhere that was never here: only a copy is, for people to look at."""
UNBORN = frozenset({"objects", head.NAME})
"""What a run folder has before its ``run.json``: whoever was killed there had not begun."""
EARLIER_LEFTOVER = re.compile(r"\.(?:run\.json|head|report\.md|[0-9a-f]{16}(?:\.json)?)\.tmp")
"""How earlier versions called their temporary files."""
DRAFT = re.compile(r"\..+\.tmp", re.DOTALL)
MESSAGE_BYTES = 1_000_000


def prepare_home(root: Path) -> Path:
    """The engine's own folder in a workspace; hides itself from git but for what a team shares."""
    home = root / HOME
    with failing("the folder of interlock cannot be made", home):
        home.mkdir(exist_ok=True)
        ignore = home / ".gitignore"
        if not ignore.exists():
            replace_file(ignore, GITIGNORE.encode())
    return home


@contextmanager
def failing(what: str, where: Path) -> Iterator[None]:
    """Whatever the operating system refuses in here is said so that a person can do something about it."""
    try:
        yield
    except OSError as error:
        place = error.filename if isinstance(error.filename, str) else str(where)
        raise WorkspaceFailed.of(error, what, where=place) from error


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


@dataclass(frozen=True)
class Elsewhere:
    """Where a run is that went away from here."""

    who: str
    since: str
    how: str
    """In what way it went, for whoever carries runs."""
    remedy: str
    held: bool = False
    """Whether somebody works on it there, as it was last seen."""
    listens: bool = False
    """Whether it is a fleet's: what people say to it from here reaches it."""
    remote: str = ""
    commit: str = ""
    """For whoever carries runs: of what the rest of the folder is a copy; empty where it is what stayed behind."""
    documents: Mapping[str, str] | None = None
    """Each document that its gate shows, with the digest that it had there; the bytes are objects of the run.
    None: they are those of this workspace."""

    @property
    def is_copy(self) -> bool:
        """Whether the run was never here: it is meant only by whoever names it."""
        return self.how == FETCHED

    def refusal(self, run_id: str) -> Refused:
        since = f" since {self.since}" if self.since else ""
        return Refused(f"run {run_id} is not here any more: {self.who}{since}", remedy=self.remedy)


class RunFolder:
    """``.interlock/runs/<run-id>/`` and everything in it."""

    def __init__(self, root: Path, run_id: str) -> None:
        self.root = root
        self.run_id = run_id
        self.path = root / HOME / "runs" / run_id
        self.objects: Objects = LateObjects(self.path / "objects", exists=self.exists or self._has_journal)
        self.before_create: Callable[[], None] = lambda: None

    @property
    def exists(self) -> bool:
        return (self.path / IDENTITY).exists()

    def create(self, identity: bytes) -> None:
        """Bring the run into being: from here on it can be resumed."""
        prepare_home(self.root)
        self.before_create()
        with failing("the run cannot be begun", self.path):
            self._sweep_unborn()
            with self._being_born():
                assert isinstance(self.objects, LateObjects)
                self.objects.settle()
                self.objects.put(identity)  # under the name that the first line's link to it has
                HeadFile(self.path).create(Head(Mark(0, sha256(identity))))
                replace_file(self.path / IDENTITY, identity)
            sync_folder(self.path.parent)

    @contextmanager
    def _being_born(self) -> Iterator[None]:
        """The run's folder, held so that nobody takes it for one that was given up; gone again after a failure."""
        while True:
            self.path.mkdir(parents=True, exist_ok=True)
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(folder, fcntl.LOCK_EX)
            if os.fstat(folder).st_nlink:
                break
            os.close(folder)
        try:
            yield
        except BaseException:
            if not self.exists:
                shutil.rmtree(self.path, ignore_errors=True)
            raise
        finally:
            os.close(folder)

    def _sweep_unborn(self) -> None:
        """Remove what is left of runs whose process was killed before they came into being."""
        for path in self.path.parent.iterdir() if self.path.parent.is_dir() else ():
            if path.name == self.run_id or (path / IDENTITY).exists() or path.is_symlink() or not path.is_dir():
                continue
            with suppress(OSError):
                folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    names = {entry.name for entry in path.iterdir() if not is_leftover(entry.name)}
                    if names <= UNBORN and not (path / IDENTITY).exists():
                        shutil.rmtree(path)
                finally:
                    os.close(folder)

    def identity(self) -> Identity:
        return self._read_identity()[0]

    def genesis(self) -> str:
        """The first link of the journal's chain."""
        return self._read_identity()[1]

    def _read_identity(self) -> tuple[Identity, str]:
        path = self.path / IDENTITY
        try:
            raw = read_plain(path)
        except (FileNotFoundError, NotADirectoryError):
            if self._has_journal:
                raise self._unreadable("is missing, but its journal is there") from None
            raise Refused(f"there is no run {self.run_id}", where=str(path)) from None
        except OSError as error:
            raise self._unreadable(f"is not readable: {(error.strerror or '').lower()}") from error
        try:
            identity = Identity(**json.loads(raw))
        except (ValueError, TypeError, RecursionError) as error:
            raise self._unreadable(f"is not readable: {error}") from error
        texts = (identity.run_id, identity.playbook, identity.key, identity.version, identity.started_at)
        if not all(isinstance(text, str) for text in texts) or type(identity.order) is not int:
            raise self._unreadable("is not readable: a name, a time or a number is missing")
        if not _is_moment(identity.started_at):
            raise self._unreadable(f"is not readable: {identity.started_at!r} is no time")
        if identity.run_id != self.run_id:
            raise self._unreadable(f"is that of another run, {identity.run_id}")
        return identity, sha256(raw)

    def _unreadable(self, what: str) -> DocumentInvalid:
        return DocumentInvalid(
            f"run.json of {self.run_id} {what}",
            path=str(self.path / IDENTITY),
            expected="the file that was written when the run began",
            remedy=f"Nothing was changed. Put it back from what the run keeps: interlock recover {self.run_id}.",
        )

    @property
    def _has_journal(self) -> bool:
        return (self.path / journal_file.NAME).exists()

    # -- where the run is

    def elsewhere(self) -> Elsewhere | None:
        """Who has the run now, where this folder is only what it left behind."""
        try:
            said = json.loads(read_plain(self.path / ELSEWHERE, limit=MESSAGE_BYTES))
            shown = said.get("documents")
            return Elsewhere(
                str(said["who"]),
                str(said["since"]),
                str(said["how"]),
                str(said["remedy"]),
                held=said.get("held") is True,
                listens=said.get("listens") is True,
                remote=str(said.get("remote", "")),
                commit=str(said.get("commit", "")),
                documents=None if shown is None else {str(path): str(digest) for path, digest in shown.items()},
            )
        except FileNotFoundError:
            return None
        except (
            OSError,
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            RecursionError,
        ):  # whoever wrote it had given the run away
            return Elsewhere("somebody else", "", "", f"Get it back with: interlock take {self.run_id}")

    def leave_to(self, other: Elsewhere | None) -> None:
        """From now on nobody works on the run here; None: from now on they do again."""
        place = self.path / ELSEWHERE
        with failing("it cannot be noted where the run is", place):
            if other is not None:
                replace_file(place, (json.dumps(asdict(other), indent=2) + "\n").encode())
            else:
                place.unlink(missing_ok=True)
                sync_folder(self.path)

    # -- the journal

    def medium(self) -> FileMedium:
        """Where the journal is; of a run that has come into being, it is held against the note of how far it went."""
        return self._medium(self.identity() if self.exists or self._has_journal else None)

    def _medium(self, identity: Identity | None) -> FileMedium:
        needs_head = None if identity is None else identity.order > 0
        return FileMedium(self.path / journal_file.NAME, needs_head=needs_head)

    def journal(self, clock: Any, *, tripwire: Tripwire = no_tripwire) -> Journal:
        """The journal for the process that holds the run's lock."""
        if (other := self.elsewhere()) is not None:
            raise other.refusal(self.run_id)
        self.tidy()
        identity, genesis = self._read_identity()
        return Journal(self._medium(identity), run_id=self.run_id, genesis=genesis, clock=clock, tripwire=tripwire)

    def tidy(self) -> None:
        """Remove the temporary files of killed writes. Only for the process that holds the run's lock."""
        for folder in (self.path, self.path / "objects", self.path / "bases", self.inbox):
            with suppress(OSError):
                remove_leftovers(folder)
                remove_leftovers(folder, EARLIER_LEFTOVER)
        with suppress(OSError):
            remove_leftovers(self.path / "bases", DRAFT)

    def lines(self) -> list[Line]:
        """What the journal says now; a torn last line is left for the run's own process to deal with."""
        identity, genesis = self._read_identity()
        medium, before = self._medium(identity), HeadFile(self.path).read()
        whole, torn = split_torn(medium.load())
        after = HeadFile(self.path).read()
        lines = list(read_lines(whole, genesis=genesis, name=medium.name))
        if findings := disagreements(lines, torn, before, after, needed=identity.order > 0):
            raise JournalDamaged(findings[0], path=medium.name)
        return lines

    def verify(self) -> list[str]:
        """What is wrong with the run's identity, its journal and its objects, as sentences."""
        try:
            identity, genesis = self._read_identity()
            medium, before = self._medium(identity), HeadFile(self.path).read()
            raw = medium.load()
            after = HeadFile(self.path).read()
            if findings := verify(raw, genesis=genesis, name=medium.name):
                return findings
            whole, torn = split_torn(raw)
            lines = list(read_lines(whole, genesis=genesis, name=medium.name))
            findings = disagreements(lines, torn, before, after, needed=identity.order > 0)
            if before is None:
                findings += medium.only_in_copy(len(lines))
            if not findings and identity.order:
                self.objects.get(genesis)  # run.json once more
            return findings or self._damaged_objects(lines)
        except InterlockError as error:
            return [error.what]

    def _damaged_objects(self, lines: list[Line]) -> list[str]:
        """What is wrong with the values that the journal stores elsewhere."""
        findings = dict[str, None]()
        for line in lines:
            try:
                self.check_values(line)
            except JournalDamaged as damage:
                findings[f"{damage.what} (line {line.seq}, {line.key})"] = None
        return list(findings)

    def check_values(self, line: Line) -> None:
        """Raise `JournalDamaged` when a value that this line stores elsewhere is not what was stored."""
        out = unpack(line.data, self.objects).get("out")
        if line.event == "dispatch.end" and isinstance(out, Mapping):
            for digest in filter(None, (*out.get("artifacts", {}).values(), out.get("answer_digest"))):
                self.objects.get(digest)

    # -- dispatches

    def folder(self, key: str) -> Path:
        return self.path / "dispatches" / key

    def keep(self, key: str, name: str, content: bytes) -> str:
        folder = self.folder(key)
        with failing("a record of the run cannot be kept", folder):
            folder.mkdir(parents=True, exist_ok=True)
            replace_file(folder / name, content, sync=False)
        return self.shown(folder / name)

    def keep_json(self, key: str, name: str, value: Any) -> None:
        self.keep(key, name, (json.dumps(value, indent=2) + "\n").encode())

    def last_sign(self, key: str) -> datetime | None:
        """When the call that this dispatch made last was last heard of: its stream is written as it comes."""
        times = [path.stat().st_mtime for name in HEARD if (path := self.folder(key) / name).is_file()]
        return datetime.fromtimestamp(max(times), UTC) if times else None

    def begin_try(self, key: str, number: int) -> None:
        folder = self.folder(key)
        with failing("the records of a try cannot be begun", folder):
            folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(folder)
            leftovers = [folder / name for name in PER_TRY if os.path.lexists(folder / name)]
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
        with failing("the message cannot be left for the process that works on the run", self.inbox):
            self.inbox.mkdir(exist_ok=True)
            replace_file(self.inbox / f"{secrets.token_hex(8)}.json", json.dumps(message).encode())

    def messages(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Messages not taken yet, oldest first; whatever is not one of ours is passed over."""
        for path in sorted(self._message_files(), key=_age):
            try:
                value = json.loads(read_plain(path, limit=MESSAGE_BYTES))
            except (OSError, ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield path, value

    def _message_files(self) -> list[Path]:
        try:
            return [path for path in self.inbox.iterdir() if re.fullmatch(r"[0-9a-f]{16}\.json", path.name)]
        except (FileNotFoundError, NotADirectoryError):
            return []


def _age(path: Path) -> tuple[int, str]:
    try:
        return path.lstat().st_mtime_ns, path.name
    except OSError:  # taken meanwhile
        return 0, path.name


def is_leftover(name: str) -> bool:
    return LEFTOVER.fullmatch(name) is not None or EARLIER_LEFTOVER.fullmatch(name) is not None


def unused(path: Path) -> Path:
    """The path, or with the first number behind it that is free."""
    number, free = 2, path
    while free.exists():
        free = path.with_name(f"{path.name}-{number}")
        number += 1
    return free


@dataclass(frozen=True)
class KnownRun:
    """A run that this workspace has."""

    folder: RunFolder
    identity: Identity

    @property
    def is_copy(self) -> bool:
        """Whether it was never here, and only a copy is."""
        note = self.folder.elsewhere()
        return note is not None and note.is_copy

    @property
    def place(self) -> tuple[int, str, str]:
        """Where it stands among all runs: those that nobody counted first, by the clock; then as they were counted."""
        return self.identity.order, self.identity.started_at, self.identity.run_id


def _is_moment(stamp: str) -> bool:
    try:
        datetime.fromisoformat(stamp)
    except ValueError:
        return False
    return True


def known_runs(root: Path) -> list[KnownRun]:
    """All runs of a workspace, oldest first; folders without a readable ``run.json`` are no runs."""
    found = []
    for folder in run_folders(root):
        with suppress(DocumentInvalid, Refused):
            found.append(KnownRun(folder, folder.identity()))
    return sorted(found, key=lambda known: known.place)


def unreadable_runs(root: Path) -> list[DocumentInvalid]:
    """What is wrong with the folders of runs of which nobody can say what they are."""
    found = []
    for folder in run_folders(root):
        try:
            folder.identity()
        except DocumentInvalid as error:
            found.append(error)
        except Refused:
            continue
    return sorted(found, key=lambda error: error.path)


def run_folders(root: Path) -> list[RunFolder]:
    runs = root / HOME / "runs"
    try:
        return [RunFolder(root, path.name) for path in runs.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise WorkspaceFailed.of(error, "the runs of this workspace cannot be listed", where=str(runs)) from error


def last_run(root: Path, playbook: str, key: str) -> KnownRun | None:
    """The run of this playbook and key that began last; copies of other places' runs are none of this one's."""
    same = (k for k in reversed(known_runs(root)) if k.identity.playbook == playbook and k.identity.key == key)
    return next((known for known in same if not known.is_copy), None)


def next_order(root: Path) -> int:
    """The number of a run that begins now: greater than that of every run there is, whatever the clock says."""
    return 1 + max((known.identity.order for known in known_runs(root)), default=0)


def find_run(root: Path, name: str) -> KnownRun:
    """The run that a person means: its id, an unambiguous beginning of it, or ``latest``.

    A copy of another place's run is the latest only where there is nothing else.
    """
    for folder in run_folders(root):
        if folder.run_id == name:
            return KnownRun(folder, folder.identity())  # or says what is wrong with it
    runs = known_runs(root)
    if not runs:
        raise Refused(
            "this workspace has no runs", where=str(root), remedy="See how to start one: interlock run --help"
        )
    if name == "latest":
        return next((known for known in reversed(runs) if not known.is_copy), runs[-1])
    fitting = [known for known in runs if name and known.identity.run_id.startswith(name)]
    if len(fitting) == 1:
        return fitting[0]
    ids = ", ".join(known.identity.run_id for known in (fitting or runs)[-5:])
    if fitting:
        raise Refused(f"{name!r} fits {len(fitting)} runs", expected=f"one of {ids}", remedy="Give more of the id.")
    raise Refused(f"there is no run {name!r}", expected=f"for example {ids}", remedy="List them with: interlock runs")

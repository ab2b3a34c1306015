"""The journal: one typed event a line, chained by hash, appended before anybody sees its outcome (RUN-03, RUN-06).

A line is ``{"seq", "at", "key", "event", "prev", "hash"}``.  The hash is the last member and covers the bytes before
it, so that checking needs no second way of spelling JSON.  Nothing is on disk before the first effect: lines are held
until the first `sync`, which gives birth to the run's folder (RUN-11).

A crash can tear the last line only.  One that is whole but for its newline is kept; anything less is cut, and said.
Any other damage is an error that names the line; a person's `doctor --mend` cuts before it and keeps the rest beside.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from interlock.documents.files import sha256
from interlock.engine.events import EVENTS, Event
from interlock.errors import JournalDamaged, WorkspaceFailed

# Dumped as Python has it: a dump as JSON would spell keys with half surrogates (names of files) otherwise.
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=datetime.isoformat).encode
FIRST = "0" * 64


class Unknown(Event):
    """A line that this version does not know: shown as it is, never an exception (RUN-21)."""

    e: str
    facts: Any = None


class Line(NamedTuple):
    seq: int
    at: datetime
    key: str
    event: Event


class Memory:
    """A journal that lives as long as its owner: simulation, plan."""

    def __init__(self, content: bytes = b"") -> None:
        self.name = "journal in memory"
        self.content = bytearray(content)
        self.safe = 0
        """How much a power cut would leave of it."""

    def load(self) -> bytes:
        return bytes(self.content)

    def append(self, chunk: bytes) -> None:
        self.content += chunk

    def sync(self) -> None:
        self.safe = len(self.content)

    def cut(self, size: int) -> None:
        del self.content[size:]


class OnDisk:
    """A journal's file; born, with its folder's entry, at the first append."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._fd = -1

    def load(self) -> bytes:
        with told("the journal cannot be read", self.name), suppress(FileNotFoundError):
            return self._path.read_bytes()
        return b""

    def append(self, chunk: bytes) -> None:
        with told("the journal cannot be written", self.name):
            if self._fd < 0:
                self._fd = _opened(self._path)
            size = os.fstat(self._fd).st_size
            try:
                left = memoryview(chunk)
                while left:
                    left = left[os.write(self._fd, left) :]
            except OSError:
                os.ftruncate(self._fd, size)  # on a full disk half a line would be left
                raise

    def sync(self) -> None:
        with told("the journal cannot be synced", self.name):
            if self._fd >= 0:
                getattr(os, "fdatasync", os.fsync)(self._fd)  # macOS has no fdatasync

    def cut(self, size: int) -> None:
        with told("the journal's torn end cannot be cut", self.name):
            os.truncate(self._path, size)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


Medium = Memory | OnDisk
"""Where a journal's bytes are."""


def _opened(path: Path) -> int:
    born = not path.exists()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    if born:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(folder)
        os.close(folder)
    return fd


@contextmanager
def told(what: str, where: object) -> Iterator[None]:
    """What the operating system refuses is told with what a person can do about it."""
    try:
        yield
    except OSError as error:
        raise WorkspaceFailed.of(error, what, where=str(where)) from error


class Journal:
    """The lines of one run: read once, then appended to by the one process that holds its lock."""

    def __init__(self, medium: Medium) -> None:
        self._medium = medium
        content = medium.load()
        self.lines, self._prev, self._whole = _read(content, medium.name)
        self.torn = content[self._whole :]
        """What a crash left of a last line; cut before the next one is written."""
        self._newline = b"" if content[: self._whole].endswith(b"\n") or not self._whole else b"\n"
        self._held: list[bytes] = []
        self._written = bool(content)
        self._dirty = False
        self._broken = False

    def append(self, at: datetime, key: str, event: Event) -> Line:
        """Add a line; on disk at once where the run has begun, else held until the first `sync`."""
        seq, at = len(self.lines) + 1, at.astimezone(UTC)
        at = at.replace(microsecond=at.microsecond // 1000 * 1000)  # as it will be read
        when = at.isoformat(timespec="milliseconds")
        body = _encode({"seq": seq, "at": when, "key": key, "event": event.model_dump(), "prev": self._prev})
        self._prev = sha256(body.encode("ascii"))
        self._held.append(f'{body[:-1]},"hash":"{self._prev}"}}\n'.encode("ascii"))
        if self._written:
            self._write()
        self.lines.append(Line(seq, at, key, event))
        return self.lines[-1]

    def _write(self) -> None:
        if self._broken:
            raise WorkspaceFailed("the journal could not be written before: this process takes no further line")
        self._broken = self._written = True
        if self.torn:
            self._medium.cut(self._whole)
            self.torn = b""
        self._medium.append(b"".join((self._newline, *self._held)))
        self._newline, self._held = b"", []
        self._broken, self._dirty = False, True

    @property
    def safe(self) -> bool:
        """Nothing was appended since the last sync: an effect may follow."""
        return not self._held and not self._dirty

    def sync(self) -> None:
        """Everything appended so far is safe when this returns."""
        if self._held:
            self._write()
        if self._dirty:
            self._broken = True
            self._medium.sync()
            self._broken = self._dirty = False


def _read(content: bytes, name: str) -> tuple[list[Line], str, int]:
    """The lines, the last hash, and how many bytes are whole lines."""
    lines, prev, whole, damage = _sound(content)
    if damage and b"\n" in content[whole:]:  # else torn
        what = f"line {len(lines) + 1} of the journal {damage}"
        raise JournalDamaged(what, run=Path(name).parent.name, path=name, line=len(lines) + 1)
    return lines, prev, whole


def _sound(content: bytes) -> tuple[list[Line], str, int, str]:
    """The same up to the first line that is none, and what is wrong with that; empty: nothing."""
    lines: list[Line] = []
    prev, whole = FIRST, 0
    for number, piece in enumerate(content.split(b"\n"), 1):
        if whole >= len(content):
            break
        try:
            line, prev = _line(piece, number, prev)
        except ValueError as error:
            return lines, prev, whole, str(error)
        lines.append(line)
        whole = min(whole + len(piece) + 1, len(content))
    return lines, prev, whole, ""


def _line(piece: bytes, number: int, prev: str) -> tuple[Line, str]:
    body, mark, seal = piece.rpartition(b',"hash":"')
    if not mark or not seal.endswith(b'"}') or sha256(body + b"}") != seal[:-2].decode("ascii", "replace"):
        raise ValueError("is not as it was written")
    try:
        data = json.loads(body + b"}")
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if data.get("seq") != number or data.get("prev") != prev:
        raise ValueError("does not follow the one before it")
    return line_of(data), seal[:-2].decode()


def line_of(data: dict[str, Any]) -> Line:
    """A line as it stands in JSON."""
    event = data["event"]
    try:
        known: Event = EVENTS.validate_python(event)
    except ValidationError:
        known = Unknown(e=str(event.get("e", "?")) if isinstance(event, dict) else "?", facts=event)
    return Line(data["seq"], datetime.fromisoformat(data["at"]), data["key"], known)


def read_lines(path: Path) -> list[Line]:
    """The whole lines of a journal that somebody else may be writing."""
    return lines_of(OnDisk(path).load(), str(path))


def lines_of(content: bytes, name: str) -> list[Line]:
    """The whole lines of a journal that came from elsewhere."""
    return _read(content, name)[0]


def mend(path: Path) -> tuple[int, Path | None]:
    """Cut a damaged journal before its first bad line; the rest is kept beside. How many lines stand."""
    content = path.read_bytes()
    lines, _, good, _ = _sound(content)
    if not content[good:].strip():
        return len(lines), None
    beside = next(p for n in range(1, 10_000) if not (p := path.with_suffix(f".damaged-{n}")).exists())
    beside.write_bytes(content[good:])
    with path.open("r+b") as file:
        file.truncate(good)
        os.fsync(file.fileno())
    return len(lines), beside

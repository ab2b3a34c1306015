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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pydantic import ValidationError

from interlock.engine.events import EVENTS, Event
from interlock.engine.keys import sha256
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


class Medium(Protocol):
    """Where a journal's bytes are."""

    name: str

    def load(self) -> bytes: ...
    def append(self, chunk: bytes) -> None: ...
    def sync(self) -> None: ...
    def cut(self, size: int) -> None: ...


class Memory:
    """A journal that lives as long as its owner: simulation, plan."""

    name = "journal in memory"

    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)

    def load(self) -> bytes:
        return bytes(self.content)

    def append(self, chunk: bytes) -> None:
        self.content += chunk

    def sync(self) -> None:
        return None

    def cut(self, size: int) -> None:
        del self.content[size:]


class OnDisk:
    """A journal's file; born, with its folder's entry, at the first append."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._fd = -1

    def load(self) -> bytes:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise WorkspaceFailed.of(error, "the journal cannot be read", where=self.name) from error

    def append(self, chunk: bytes) -> None:
        try:
            if self._fd < 0:
                self._open()
            size = os.fstat(self._fd).st_size
            try:
                left = memoryview(chunk)
                while left:
                    left = left[os.write(self._fd, left) :]
            except OSError:
                os.ftruncate(self._fd, size)  # on a full disk half a line would be left
                raise
        except OSError as error:
            raise WorkspaceFailed.of(error, "the journal cannot be written", where=self.name) from error

    def _open(self) -> None:
        born = not self._path.exists()
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if born:
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def sync(self) -> None:
        if self._fd >= 0:
            try:
                getattr(os, "fdatasync", os.fsync)(self._fd)  # macOS has no fdatasync
            except OSError as error:
                raise WorkspaceFailed.of(error, "the journal cannot be synced", where=self.name) from error

    def cut(self, size: int) -> None:
        try:
            os.truncate(self._path, size)
        except OSError as error:
            raise WorkspaceFailed.of(error, "the journal's torn end cannot be cut", where=self.name) from error

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


class Journal:
    """The lines of one run: read once, then appended to by the one process that holds its lock."""

    def __init__(self, medium: Medium) -> None:
        self._medium = medium
        content = medium.load()
        self.lines, self._prev, whole = _read(content, medium.name)
        self.torn = content[whole:]
        """What a crash left of a last line; cut before the next one is written."""
        self._whole = whole
        self._complete = not content[:whole] or content[:whole].endswith(b"\n")
        self._held: list[bytes] = []
        self._written = bool(content)
        self._dirty = False
        self._broken = False

    def append(self, at: datetime, key: str, event: Event) -> Line:
        """Add a line; on disk at once where the run has begun, else held until the first `sync`."""
        if self._broken:
            raise WorkspaceFailed("the journal could not be written before: this process takes no further line")
        seq, at = len(self.lines) + 1, at.astimezone(UTC)
        at = at.replace(microsecond=at.microsecond // 1000 * 1000)  # as it will be read
        body = _encode(
            {
                "seq": seq,
                "at": at.isoformat(timespec="milliseconds"),
                "key": key,
                "event": event.model_dump(),
                "prev": self._prev,
            }
        ).encode("ascii")
        seal = sha256(body)
        chunk = body[:-1] + b',"hash":"' + seal.encode() + b'"}\n'
        if self._written:
            self._write(chunk)
        else:
            self._held.append(chunk)
        self._prev = seal
        line = Line(seq, at, key, event)
        self.lines.append(line)
        return line

    def _write(self, chunk: bytes) -> None:
        self._broken = True
        if self.torn:
            self._medium.cut(self._whole)
            self.torn = b""
        if not self._complete:
            chunk = b"\n" + chunk
            self._complete = True
        self._medium.append(chunk)
        self._broken = False
        self._dirty = True

    @property
    def safe(self) -> bool:
        """Nothing was appended since the last sync: an effect may follow."""
        return not self._held and not self._dirty

    def sync(self) -> None:
        """Everything appended so far is safe when this returns."""
        if self._held:
            held, self._held = self._held, []
            self._written = True
            self._write(b"".join(held))
        if self._dirty:
            self._broken = True
            self._medium.sync()
            self._broken = self._dirty = False


def _read(content: bytes, name: str) -> tuple[list[Line], str, int]:
    """The lines, the last hash, and how many bytes are whole lines."""
    lines: list[Line] = []
    prev, whole = FIRST, 0
    pieces = content.split(b"\n")
    for number, piece in enumerate(pieces, 1):
        last = number == len(pieces)
        if last and not piece:
            break
        try:
            line, prev = _line(piece, number, prev)
        except ValueError as error:
            if last:  # torn
                break
            run = Path(name).parent.name
            raise JournalDamaged(f"line {number} of the journal {error}", run=run, path=name, line=number) from None
        lines.append(line)
        whole += len(piece) + (0 if last else 1)
    return lines, prev, whole


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
    return Line(number, datetime.fromisoformat(data["at"]), data["key"], _event(data["event"])), seal[:-2].decode()


def _event(data: Any) -> Event:
    try:
        event: Event = EVENTS.validate_python(data)
    except ValidationError:
        return Unknown(e=str(data.get("e", "?")) if isinstance(data, dict) else "?", facts=data)
    return event


def read_lines(path: Path) -> list[Line]:
    """The whole lines of a journal that somebody else may be writing."""
    return _read(OnDisk(path).load(), str(path))[0]


def mend(path: Path) -> tuple[int, Path | None]:
    """Cut a damaged journal before its first bad line; the rest is kept beside. How many lines stand."""
    content = path.read_bytes()
    good = 0
    prev, count = FIRST, 0
    for piece in content.split(b"\n"):
        try:
            _, prev = _line(piece, count + 1, prev)
        except ValueError:
            break
        count, good = count + 1, good + len(piece) + 1
    good = min(good, len(content))
    if not content[good:].strip():
        return count, None
    beside = next(p for n in range(1, 10_000) if not (p := path.with_suffix(f".damaged-{n}")).exists())
    beside.write_bytes(content[good:])
    with path.open("r+b") as file:
        file.truncate(good)
        os.fsync(file.fileno())
    return count, beside

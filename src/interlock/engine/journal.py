"""The journal: one synced line per outcome, chained by hash.

Theory of operation.  A line is appended and synced before the playbook sees its outcome.  Each line holds
the hash of the one before it; the first holds the digest of ``run.json``, so that a changed, missing or
reordered line shows, and so do changed inputs.  The hash is the last member of the line and covers every byte
before it, so that checking needs no second way of spelling JSON.

A crash can tear only the last line.  A last line that is whole but for its newline is kept; anything less is cut
off and noted.  Damage before the last line is reported, never repaired.

Until a run has its first effect (EN-24) its lines are held in memory and no file exists.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from interlock.engine.keys import sha256
from interlock.errors import JournalDamaged

Tripwire = Callable[[str], None]
"""Called where a crash matters, with ``before-sync``, ``after-sync`` or ``effect``; a test lets it raise."""


def no_tripwire(_point: str) -> None:
    return None


LONG = 4096
"""Bytes from which on a line's large values are stored elsewhere."""
_spell = json.JSONEncoder(separators=(",", ":")).encode


class Line(NamedTuple):
    """One line of a journal, in the order in which it is written."""

    seq: int
    ts: str
    run: str
    event: str
    key: str | None
    agent: str | None
    attempt: int | None
    iteration: int | None
    digest: str | None
    data: Mapping[str, Any]
    prev: str
    hash: str

    @property
    def settles(self) -> bool:
        """Whether this line is the outcome of the verb at its key."""
        return "out" in self.data

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


class Medium(Protocol):
    """Where the bytes of a journal are."""

    name: str

    def load(self) -> bytes: ...

    def write(self, chunk: bytes) -> None: ...

    def sync(self) -> None: ...

    def truncate(self, size: int) -> None: ...


class MemoryMedium:
    """A journal that lives as long as its owner: simulation, dry run."""

    name = "journal in memory"

    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)

    def load(self) -> bytes:
        return bytes(self.content)

    def write(self, chunk: bytes) -> None:
        self.content += chunk

    def sync(self) -> None:
        return None

    def truncate(self, size: int) -> None:
        del self.content[size:]


class FileMedium:
    """A journal on disk; opened at the first write, so that reading leaves no trace."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)
        self._file: int | None = None

    def load(self) -> bytes:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""

    def write(self, chunk: bytes) -> None:
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            sync_folder(self.path.parent)
        while chunk:
            chunk = chunk[os.write(self._file, chunk) :]

    def sync(self) -> None:
        if self._file is not None:
            sync_data(self._file)

    def truncate(self, size: int) -> None:
        with self.path.open("r+b") as file:
            file.truncate(size)
            os.fsync(file.fileno())

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


sync_data = getattr(os, "fdatasync", os.fsync)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power loss."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Journal:
    """The lines of one run; appending is the only way to change them."""

    def __init__(
        self,
        medium: Medium,
        *,
        run_id: str,
        genesis: str,
        clock: Callable[[], str],
        held: bool = False,
        tripwire: Tripwire = no_tripwire,
    ) -> None:
        self.run_id = run_id
        self.tripwire = tripwire
        self._medium = medium
        self._clock = clock
        self._held: list[bytes] | None = [] if held else None
        self._broken: BaseException | None = None
        raw = medium.load()
        whole, torn = split_torn(raw)
        self.lines: list[Line] = list(read_lines(whole, genesis=genesis, name=medium.name))
        self._head = self.lines[-1].hash if self.lines else genesis
        self._listeners: list[Callable[[Line], None]] = []
        if torn:
            medium.truncate(len(whole))
            self.append("journal.cut", data={"bytes": len(torn), "text": torn[:200].decode("utf-8", "replace")})
        elif whole and not raw.endswith(b"\n"):
            medium.write(b"\n")

    @property
    def head(self) -> str:
        return self._head

    def listen(self, listener: Callable[[Line], None]) -> None:
        self._listeners.append(listener)

    def append(
        self,
        event: str,
        *,
        key: str | None = None,
        agent: str | None = None,
        attempt: int | None = None,
        iteration: int | None = None,
        digest: str | None = None,
        data: Mapping[str, Any] | None = None,
        shrink: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
    ) -> Line:
        """Write one line and return when it is safe. `shrink` makes the data of a line that got too long smaller."""
        seq, ts, prev = len(self.lines) + 1, self._clock(), self._head
        fields: dict[str, Any] = {
            "seq": seq,
            "ts": ts,
            "run": self.run_id,
            "event": event,
            "key": key,
            "agent": agent,
            "attempt": attempt,
            "iteration": iteration,
            "digest": digest,
            "data": data if data is not None else {},
            "prev": prev,
        }
        body = _spell(fields).encode("ascii")
        if shrink is not None and len(body) > LONG:
            fields["data"] = data = shrink(fields["data"])
            body = _spell(fields).encode("ascii")
        seal = sha256(body)
        chunk = body[:-1] + b',"hash":"' + seal.encode() + b'"}\n'
        if self._held is None:
            self._commit(chunk)
        else:
            self._held.append(chunk)
        line = Line(seq, ts, self.run_id, event, key, agent, attempt, iteration, digest, data or {}, prev, seal)
        self.lines.append(line)
        self._head = seal
        for listener in self._listeners:
            listener(line)
        return line

    def release(self) -> None:
        """Write what was held; from now on every line goes to the medium at once."""
        if self._held is None:
            return
        held, self._held = self._held, None
        self._commit(b"".join(held))

    def _commit(self, chunk: bytes) -> None:
        """Write and sync. After a failure nobody knows what is on the disk: this journal takes nothing more."""
        if self._broken is not None:
            raise self._broken
        try:
            self._medium.write(chunk)
            self.tripwire("before-sync")
            self._medium.sync()
            self.tripwire("after-sync")
        except BaseException as failure:
            self._broken = failure
            raise

    @property
    def held(self) -> bool:
        return self._held is not None


SEAL = len(',"hash":""}') + 64


def split_torn(raw: bytes) -> tuple[bytes, bytes]:
    """The whole lines (the last perhaps without its newline) and what a crash left of a torn one."""
    end = raw.rfind(b"\n", 0, len(raw) - 1) + 1 if raw else 0
    last = raw[end:]
    if not last or is_whole(last.rstrip(b"\n")):
        return raw, b""
    return raw[:end], last


def is_whole(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def read_lines(raw: bytes, *, genesis: str, name: str) -> Iterator[Line]:
    """The lines of a journal, each checked against the chain; the first damage raises."""
    prev = genesis
    for number, text in enumerate(raw.removesuffix(b"\n").split(b"\n") if raw else (), start=1):
        line = check_line(text, number, prev, name)
        prev = line.hash
        yield line


def check_line(text: bytes, number: int, prev: str, name: str) -> Line:
    def damaged(what: str) -> JournalDamaged:
        return JournalDamaged(f"journal line {number} {what}", path=name, line=number)

    try:
        fields = json.loads(text)
        line = Line(**fields)
    except (ValueError, TypeError) as error:
        raise damaged("is not a journal line") from error
    if line.seq > number:
        raise damaged(f"has number {line.seq}: lines {number} to {line.seq - 1} are missing")
    if line.seq < number:
        raise damaged(f"has number {line.seq}: it was repeated or moved")
    if sha256(text[:-SEAL] + b"}") != line.hash:
        raise damaged("was changed: its hash does not fit its content")
    if line.prev != prev:
        what = "does not follow the line before it" if number > 1 else "does not belong to this run.json"
        raise damaged(f"{what}: the chain is broken")
    return line


def verify(raw: bytes, *, genesis: str, name: str, head: tuple[int, str] | None = None) -> list[str]:
    """What is wrong with a journal, as sentences; empty when it is whole. `head`: last known number and hash."""
    whole, torn = split_torn(raw)
    findings = [f"the last line is torn ({len(torn)} bytes)"] if torn else []
    count = 0
    try:
        hashes = {}
        for line in read_lines(whole, genesis=genesis, name=name):
            count = line.seq
            hashes[line.seq] = line.hash
    except JournalDamaged as damage:
        return [*findings, damage.what]
    if head is not None:
        number, seal = head
        if number > count:
            findings.append(f"lines {count + 1} to {number} are missing at the end")
        elif number and hashes[number] != seal:
            findings.append(f"journal line {number} is not the one that was written")
    return findings

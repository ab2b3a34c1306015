"""The journal: one synced line per outcome, chained by hash.

Theory of operation.  A line is appended and synced before the playbook sees its outcome.  Each line holds
the hash of the one before it; the first holds the digest of ``run.json``, so that a changed, missing or
reordered line shows, and so do changed inputs.  The hash is the last member of the line and covers every byte
before it, so that checking needs no second way of spelling JSON.  How far the chain went is noted beside it
(see `head`), so that a missing end shows as well.

A crash can tear only the last line.  A last line that is whole but for its newline is kept; anything less is cut
off and noted.  Any other damage is reported, never repaired in passing.  The process that holds a journal looks
before each line whether the file still is what it wrote; if not, it takes nothing more.  A second file beside it,
``journal.copy``, has every line once more: from that, a person can let the run go on (see `salvage`).

Until a run has its first effect (EN-24) its lines are held in memory and no file exists.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from interlock.engine.head import Mark
from interlock.engine.keys import sha256
from interlock.errors import InterlockError, JournalDamaged, WorkspaceFailed

Tripwire = Callable[[str], None]
"""Called where a crash matters, with ``before-sync``, ``after-sync`` or ``effect``; a test lets it raise."""


def no_tripwire(_point: str) -> None:
    return None


def stamp_now() -> str:
    """The time of a line that is written now."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


CheckLine = Callable[[bytes, int, str, str], "Line"]
"""Makes a line of its bytes, its number, the hash of the one before it and the name of its journal; or refuses it."""
LONG = 4096
"""Bytes from which on a line's large values are stored elsewhere."""
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def _spell(fields: Mapping[str, Any]) -> bytes:
    """Fields as the one line that they are; ASCII without any control character, whoever looks at the file."""
    return _encode(fields).encode("ascii")


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

    def to_bytes(self) -> bytes:
        """The line as it stands in its file."""
        fields = self._asdict()
        seal = fields.pop("hash")
        return sealed(_spell(fields), seal)


def sealed(body: bytes, seal: str) -> bytes:
    return body[:-1] + b',"hash":"' + seal.encode() + b'"}\n'


class Medium(Protocol):
    """Where the bytes of a journal are."""

    name: str

    def load(self) -> bytes: ...

    def confirm(self, lines: Sequence[Line], torn: bytes) -> None:
        """Raise `JournalDamaged` when these cannot be all the lines that were written."""
        ...

    def untouched(self) -> bool:
        """Whether what was loaded or written last surely still is what is there. Cheap; False means: look closely."""
        ...

    def announce(self, settled: Mark, coming: Mark, chunk: bytes) -> None:
        """Note which line is safe and which one is written next, and keep a second copy of that."""
        ...

    def write(self, chunk: bytes) -> None: ...

    def sync(self) -> None: ...

    def settle(self, settled: Mark) -> None:
        """Note that what was written is safe."""
        ...

    def truncate(self, size: int) -> None: ...

    def keep(self, content: bytes) -> None:
        """Make the second copy this one: what the process knows that holds the journal."""
        ...

    def close(self, settled: Mark) -> None:
        """Note that nothing is being written any more."""
        ...


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

    def confirm(self, lines: Sequence[Line], torn: bytes) -> None:
        return None

    def untouched(self) -> bool:
        return True

    def announce(self, settled: Mark, coming: Mark, chunk: bytes) -> None:
        return None

    def settle(self, settled: Mark) -> None:
        return None

    def keep(self, content: bytes) -> None:
        return None

    def close(self, settled: Mark) -> None:
        return None


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
        known: Sequence[Line] | None = None,
        check: CheckLine | None = None,
    ) -> None:
        """`known`: its lines, where whoever opens it has read them, and nobody else can write."""
        self.run_id = run_id
        self.tripwire = tripwire
        self._medium = medium
        self._clock = clock
        self._held: list[bytes] | None = [] if held else None
        self._broken: BaseException | None = None
        self._genesis = genesis
        raw = medium.load() if known is None else b""
        whole, torn = split_torn(raw)
        self.lines: list[Line] = list(
            read_lines(whole, genesis=genesis, name=medium.name, check=check) if known is None else known
        )
        medium.confirm(self.lines, torn)
        self._head = self.lines[-1].hash if self.lines else genesis
        self._settled = Mark(len(self.lines), self._head)
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
        body = _spell(fields)
        if shrink is not None and len(body) > LONG:
            fields["data"] = data = shrink(fields["data"])
            body = _spell(fields)
        seal = sha256(body)
        chunk = sealed(body, seal)
        if self._held is None:
            self._commit(chunk, Mark(seq, seal))
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
        held, self._held = self._held, None
        if held:
            self._commit(b"".join(held), Mark(len(self.lines), self._head))

    def check(self) -> None:
        """Raise `JournalDamaged` when the file is not what this process wrote; cheap while nobody touched it."""
        if self._broken is not None:
            raise self._broken
        if self._held is not None or self._medium.untouched():
            return
        try:
            self._look_closely()
        except InterlockError as damage:
            self._broken = damage
            with suppress(OSError):
                self._medium.keep(b"".join(line.to_bytes() for line in self.lines))
            raise

    def _look_closely(self) -> None:
        whole, torn = split_torn(self._medium.load())
        name = self._medium.name
        found = list(read_lines(whole, genesis=self._genesis, name=name))
        known, count = len(self.lines), len(found)
        if count < known:
            what = f"lines {count + 1} to {known} are missing at the end"
        elif count > known:
            what = f"lines {known + 1} to {count} were not written by the process that works on the run"
        elif torn:
            what = f"{len(torn)} bytes were added behind its last line"
        elif found and found[-1].hash != self._head:
            what = f"journal line {count} is not the one that was written"
        else:
            return
        raise JournalDamaged(f"the journal was changed while the run was going on: {what}", path=name)

    def close(self) -> None:
        """Note how far the journal went, for good. More lines may follow all the same."""
        if self._held is None and self._broken is None and self.lines:
            with suppress(OSError):  # the lines are safe; the note of the last one says so, too
                self._medium.close(self._settled)

    def _commit(self, chunk: bytes, coming: Mark) -> None:
        """Write and sync. After a failure nobody knows what is on the disk: this journal takes nothing more."""
        self.check()
        try:
            self._medium.announce(self._settled, coming, chunk)
            self._medium.write(chunk)
            self.tripwire("before-sync")
            self._medium.sync()
            self.tripwire("after-sync")
        except OSError as error:
            self._broken = WorkspaceFailed.of(error, "the journal cannot be written", where=self._medium.name)
            raise self._broken from error
        except BaseException as failure:
            self._broken = failure
            raise
        self._settled = coming
        with suppress(OSError):  # the line is safe
            self._medium.settle(coming)

    @property
    def held(self) -> bool:
        return self._held is not None


SEAL = len(',"hash":""}') + 64


def split_torn(raw: bytes) -> tuple[bytes, bytes]:
    """The whole lines (the last perhaps without its newline) and what a crash left of a torn one."""
    end = raw.rfind(b"\n", 0, -1) + 1
    last = raw[end:]
    if not last or is_whole(last.rstrip(b"\n")):
        return raw, b""
    return raw[:end], last


def is_whole(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def read_lines(raw: bytes, *, genesis: str, name: str, check: CheckLine | None = None) -> Iterator[Line]:
    """The lines of a journal, each checked against the chain; the first damage raises."""
    prev, check = genesis, check or check_line
    for number, text in _texts(raw):
        line = check(text, number, prev, name)
        prev = line.hash
        yield line


def _texts(raw: bytes) -> Iterator[tuple[int, bytes]]:
    return enumerate(raw.removesuffix(b"\n").split(b"\n") if raw else (), start=1)


def is_chain(raw: bytes, *, genesis: str, seal_of: Callable[[bytes, int, str], str | None]) -> bool:
    """Whether each line has its number, is sealed and follows the one before it; `verify` says what is wrong."""
    prev: str | None = genesis
    return all((prev := seal_of(text, number, prev or "")) is not None for number, text in _texts(raw))


def seal_of(text: bytes, number: int, prev: str) -> str | None:
    """The hash of a line that has this number, follows the line of that hash and is whole, by its bytes alone."""
    body = text[:-SEAL] + b"}"
    if not text.startswith(b'{"seq":%d,' % number) or not body.endswith(b',"prev":"%s"}' % prev.encode()):
        return None
    seal = sha256(body)
    return seal if sealed(body, seal) == text + b"\n" else None


def check_line(text: bytes, number: int, prev: str, name: str) -> Line:
    def damaged(what: str) -> JournalDamaged:
        return JournalDamaged(f"journal line {number} {what}", path=name, line=number)

    try:
        fields = json.loads(text)
        line = Line(**fields)
        if type(line.seq) is not int:
            raise TypeError
    except (ValueError, TypeError, RecursionError) as error:
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


def verify(raw: bytes, *, genesis: str, name: str) -> list[str]:
    """What is wrong with the lines of a journal, as sentences; whether its end is there, its note says (`head`)."""
    whole, torn = split_torn(raw)
    findings = [f"the last line is torn ({len(torn)} bytes)"] if torn else []
    try:
        for _line in read_lines(whole, genesis=genesis, name=name):
            continue
    except JournalDamaged as damage:
        findings.append(damage.what)
    return findings


def whole_beginning(raw: bytes, *, genesis: str, name: str) -> list[Line]:
    """The lines from the first up to the last before any damage."""
    lines: list[Line] = []
    with suppress(JournalDamaged):
        for line in read_lines(split_torn(raw)[0], genesis=genesis, name=name):
            lines.append(line)
    return lines

"""Every error interlock raises on purpose, and the one table of how a command ends.

    InterlockError
      BadInput            a person can mend it: an argument, a setting, a document (exit 2)
        ConfigInvalid       interlock.toml, an environment variable, an option
        DocumentInvalid     a document of the workspace
        PathRefused         a path that leaves the workspace
        Refused             the request does not fit the state of the run
      Locked              somebody else works on the run (exit 6)
      JournalDamaged      the journal is not the one that was written (exit 2)
      Diverged            the playbook no longer asks what the journal says it asked (exit 2)
      WorkspaceFailed     git or the file system did not do its part (exit 5)
      EngineFault         our bug, or a playbook that breaks the engine's rules (exit 5)

Expected outcomes (a broken contract, a refused gate, a cap that is used up) are values, not errors: decision tables
must see them.  An error carries its parts as attributes; the doors alone put them into lines or JSON.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from enum import IntEnum, StrEnum
from typing import Any, Self


class Exit(IntEnum):
    """How a command ends (RUN-09)."""

    DONE = 0
    """As asked."""
    FINDINGS = 1
    """Finished, with findings that are listed."""
    INPUT = 2
    """Bad input or settings; nothing was done."""
    STOPPED = 3
    """Stopped for a person: blocked, capped, rejected, cancelled."""
    WAITING = 4
    FAILED = 5
    """An agent, a program or the file system failed."""
    LOCKED = 6
    INTERRUPTED = 130


class Status(StrEnum):
    """How a run stands; the last two are answers of a command to whom no run belongs."""

    exit: Exit
    is_open: bool
    """The run can go on at its first unrecorded verb."""
    has_ended: bool

    WORKING = "working", Exit.DONE, "open"
    """Somebody else works on it: looking at it went well."""
    WAITING = "waiting", Exit.WAITING, "open"
    INTERRUPTED = "interrupted", Exit.INTERRUPTED, "open"
    FAILED = "failed", Exit.FAILED, "open"
    COMPLETE = "complete", Exit.DONE, "ended"
    DEGRADED = "degraded", Exit.FINDINGS, "ended"
    STOPPED = "stopped", Exit.STOPPED, "ended"
    CANCELLED = "cancelled", Exit.STOPPED, "ended"
    INVALID = "invalid", Exit.INPUT, ""
    LOCKED = "locked", Exit.LOCKED, ""

    def __new__(cls, word: str, exit: Exit = Exit.DONE, stands: str = "") -> Self:  # a status is found by its word
        status = str.__new__(cls, word)
        status._value_ = word
        status.exit, status.is_open, status.has_ended = exit, stands == "open", stands == "ended"
        return status


class InterlockError(Exception):
    """What happened; where; what was expected and found; what to do (as far as each is known)."""

    exit_code: Exit = Exit.FAILED

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        found: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.expected = expected
        self.found = found
        self.remedy = remedy
        self.also: tuple[InterlockError, ...] = ()
        """Other problems that were found with it: a person can mend all of them at once."""

    def parts(self) -> list[tuple[str, str]]:
        """The known parts after the first line, as (label, text)."""
        every = (("where", self.where), ("expected", self.expected), ("found", self.found), ("to do", self.remedy))
        return [(label, text) for label, text in every if text is not None]

    def to_json(self) -> dict[str, Any]:
        known = {label.replace(" ", "_"): text for label, text in self.parts()}
        return {"what": self.what, **known, **({"also": [other.to_json() for other in self.also]} if self.also else {})}

    @classmethod
    def together(cls, problems: Iterable[InterlockError]) -> InterlockError:
        """The first of several problems, which carries the others; at least one."""
        first, *others = problems
        first.also = (*first.also, *others)
        return first


class BadInput(InterlockError):
    exit_code = Exit.INPUT


class ConfigInvalid(BadInput):
    """A setting, option or environment variable that cannot be used."""


class DocumentInvalid(BadInput):
    """A document that is missing, unreadable or not of its format."""


class PathRefused(BadInput):
    """A path that is absolute, has `..`, or leaves the workspace through a link."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"path {path!r} is refused: {why}",
            where=path,
            expected="a relative path inside the workspace, without '..'",
        )


class Refused(BadInput):
    """A request that does not fit the state of things; nothing was changed."""


class Locked(InterlockError):
    exit_code = Exit.LOCKED


class JournalDamaged(InterlockError):
    """What is stored of a run is not what was written; mended only when a person says so."""

    exit_code = Exit.INPUT

    def __init__(self, what: str, *, run: str, path: str, line: int | None = None) -> None:
        super().__init__(
            what,
            where=place(path, line),
            expected="the bytes that the run's own process wrote",
            remedy=f"interlock doctor --mend {run} cuts before it and keeps the rest beside.",
        )
        self.line = line


class Diverged(InterlockError):
    """The playbook and its journal disagree about a key; going on would use a wrong result."""

    exit_code = Exit.INPUT

    def __init__(self, what: str, *, key: str, remedy: str) -> None:
        super().__init__(what, where=key, remedy=remedy)
        self.key = key


class WorkspaceFailed(InterlockError):
    """A git command or a file operation of the engine failed."""

    @classmethod
    def of(cls, error: OSError, what: str = "the file system failed", *, where: str | None = None) -> Self:
        """The error of the operating system, with what a person can do about it."""
        told = re.search(r"\[Errno (\d+)\]", str(error))  # of several at once (`shutil.Error`) the text alone tells
        number = error.errno or (int(told[1]) if told else 0)
        reason = (error.strerror or (os.strerror(number) if number else type(error).__name__)).lower()
        spot = error.filename if where is None else where
        return cls(
            f"{what}: {reason}",
            where=None if spot is None else os.fsdecode(spot) if isinstance(spot, bytes) else str(spot),
            remedy=f"{_REMEDIES.get(number, 'See why the operating system refuses this.')} "
            "Then call interlock again: what is done is not done again.",
        )


class EngineFault(InterlockError):
    """Our bug, or a playbook that breaks a rule of the engine."""


def place(path: str, line: int | None = None, column: int | None = None) -> str:
    """`path:line:column`, as far as known, as compilers and editors write it."""
    return ":".join(str(part) for part in (path, line, column) if part is not None)


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The known name that was probably meant."""
    import difflib

    by_letters = {each.casefold().replace("-", "_"): each for each in known}
    close = difflib.get_close_matches(name[:100].casefold().replace("-", "_"), by_letters, 1, likeness)
    return by_letters[close[0]] if close else None


def unknown(
    what: str,
    name: str,
    known: Iterable[str],
    *,
    kind: type[BadInput] = Refused,
    where: str | None = None,
    remedy: str | None = None,
) -> BadInput:
    """The error for a name that nobody knows: those that are known, and the nearest of them."""
    names = list(known)
    near = nearest(name, names)
    remedy = f"Did you mean {near}?" if near else remedy
    return kind(what, where=where, expected=f"one of {', '.join(names)}", found=name, remedy=remedy)


_FULL = "Free some space on that disk, or raise the limit of this user or shell."
_PERMIT = "Give the user who runs interlock the permission for that place."
_REMEDIES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: _FULL,
    errno.EMFILE: "Allow more open files in this shell (ulimit -n 4096).",
    errno.ENFILE: "The whole system has no more open files: end other programs, or raise fs.file-max.",
    errno.ENOMEM: "Free some memory.",
    errno.EAGAIN: "Allow this user more processes (ulimit -u), or end some.",
    errno.EROFS: "Make that file system writable.",
    errno.EACCES: _PERMIT,
    errno.EPERM: _PERMIT,
    errno.ENAMETOOLONG: "Use a shorter name, or a workspace with a shorter path.",
    errno.EIO: "The disk reports an error: check it before anything else.",
}
"""What helps, by the number of the error: never guessed from its words."""

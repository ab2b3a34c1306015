"""Every error interlock raises on purpose.

    InterlockError
      BadInput            fixable by the user: an argument, a setting, a document (exit 2, or 3 once work has begun)
        ConfigInvalid       interlock.toml, an environment variable, a command-line option
        DocumentInvalid     a document of the workspace: path, line, field
        PathRefused         a path that leaves the workspace
        Refused             the request does not fit the state of the run (nothing waits, nested start ...)
        NameRefused         a name from a document that cannot stand in a key or a folder
      Locked              another run holds the lock (exit 6)
      JournalDamaged      the journal was changed, or is not the one that was written (exit 2)
      Diverged            the playbook no longer does what the journal says it did (exit 2)
      AgentFailed         an agent did not do its part (exit 5)
      WorkspaceFailed     git or the file system did not do its part (exit 5)
      EngineFault         our bug, or a playbook that breaks the engine's rules (exit 5)

Expected outcomes (a broken contract, a refused gate, a cap that is used up) are values, not errors:
decision tables must see them.  Each error carries its parts as attributes, so that the one handler in
the doors can print them and ``--json`` can carry them.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Self


class InterlockError(Exception):
    """What happened; where; what was expected and found; what to do (as far as each is known)."""

    exit_code = 5

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

    def parts(self) -> Iterator[tuple[str, str]]:
        """The known parts after the first line, as (label, text)."""
        for label in ("where", "expected", "found"):
            if (text := getattr(self, label)) is not None:
                yield label, text
        if self.remedy is not None:
            yield "to do", self.remedy

    def __str__(self) -> str:
        return self.what


class BadInput(InterlockError):
    exit_code = 2


class ConfigInvalid(BadInput):
    """A setting, option or environment variable that cannot be used."""


class DocumentInvalid(BadInput):
    """A document that is missing, unreadable or not of its format."""

    def __init__(
        self,
        what: str,
        *,
        path: str,
        line: int | None = None,
        expected: str | None = None,
        found: str | None = None,
        remedy: str | None = None,
    ) -> None:
        where = path if line is None else f"{path}:{line}"
        super().__init__(what, where=where, expected=expected, found=found, remedy=remedy)
        self.path = path
        self.line = line


class PathRefused(BadInput):
    """A path that is absolute, has ``..`` or leaves the workspace through a symbolic link."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"path {path!r} is refused: {why}",
            where=path,
            expected="a relative path inside the workspace, without '..'",
        )
        self.path = path
        self.why = why


class Refused(BadInput):
    """A request that does not fit the state of things; nothing was changed."""


class NameRefused(BadInput):
    """A name that is too long, or has characters that the name of a folder cannot have."""


class Locked(InterlockError):
    exit_code = 6

    def __init__(self, what: str, *, holder: dict[str, object] | None = None, remedy: str | None = None) -> None:
        super().__init__(what, remedy=remedy)
        self.holder = holder or {}


class JournalDamaged(InterlockError):
    """What is stored of a run is not what was written; it is reported, and mended only when a person says so."""

    exit_code = 2

    def __init__(self, what: str, *, path: str, line: int | None = None, remedy: str | None = None) -> None:
        super().__init__(
            what,
            where=path if line is None else f"{path}:{line}",
            expected="the bytes that the run's own process wrote",
            remedy=remedy
            or f"Nothing was changed. See all that is wrong: interlock show {_run_of(path)} --verify. "
            f"Then go on with what is whole; the rest is kept beside it: interlock recover {_run_of(path)}.",
        )
        self.path = path
        self.line = line


def _run_of(path: str) -> str:
    """The run whose folder a path lies in; else the word that stands for one."""
    _, found, below = path.rpartition("/runs/")
    return below.split("/", 1)[0] if found else "RUN"


class Diverged(InterlockError):
    """The playbook and its journal disagree; going on would use a wrong result."""

    exit_code = 2

    def __init__(self, what: str, *, key: str, other: str | None = None, remedy: str) -> None:
        super().__init__(what, where=key, remedy=remedy)
        self.key = key
        self.other = other


class AgentFailed(InterlockError):
    """An agent could not be started, or failed after its retries."""


class WorkspaceFailed(InterlockError):
    """A git command or a file operation of the engine failed."""

    @classmethod
    def of(cls, error: OSError, what: str = "the file system failed", *, where: str | None = None) -> Self:
        """The error of the operating system, with what a person can do about it."""
        reason = (error.strerror or type(error).__name__).lower()
        place = where if where is not None else error.filename
        return cls(
            f"{what}: {reason}",
            where=None if place is None else _as_text(place),
            remedy=f"{_REMEDIES.get(error.errno or 0, 'See why the operating system refuses this.')} {_GO_ON}",
        )


_GO_ON = "Then call interlock again: what is done is not done again."
_FULL = "Free some space on that disk, or raise the limit of this user or shell."
_REMEDIES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: _FULL,
    errno.EMFILE: "Allow more open files in this shell (ulimit -n 4096).",
    errno.ENFILE: "The whole system has no more open files: end other programs, or raise fs.file-max.",
    errno.ENOMEM: "Free some memory.",
    errno.EAGAIN: "Allow this user more processes (ulimit -u), or end some.",
    errno.EROFS: "Make that file system writable.",
    errno.EACCES: "Give the user who runs interlock the permission for that place.",
    errno.EPERM: "Give the user who runs interlock the permission for that place.",
    errno.ENOENT: "Something removed it while interlock used it: put it back.",
    errno.EEXIST: "Something else stands there: move it away.",
    errno.ENOTDIR: "A file stands where a folder is needed: move it away.",
    errno.EISDIR: "A folder stands where a file is needed: move it away.",
    errno.ENAMETOOLONG: "Use a shorter name, or a workspace with a shorter path.",
    errno.ELOOP: "Links there lead in a circle: remove them.",
    errno.EIO: "The disk reports an error: check it before anything else.",
    errno.ESTALE: "The network folder was mounted anew: change into the workspace again.",
    errno.ENXIO: "Something else than a plain file stands there: move it away.",
}
"""What helps, by the number of the error: never guessed from its words."""


def _as_text(place: object) -> str:
    return place.decode("utf-8", "surrogateescape") if isinstance(place, bytes) else str(place)


class EngineFault(InterlockError):
    """Our bug, or a playbook that breaks a rule of the engine."""

"""Every error interlock raises on purpose.

    InterlockError
      BadInput            fixable by the user: an argument, a setting, a document (exit 2, or 3 once work has begun)
        ConfigInvalid       interlock.toml, an environment variable, a command-line option
        DocumentInvalid     a document of the workspace: path, line, field
        PathRefused         a path that leaves the workspace
        Refused             the request does not fit the state of the run (nothing waits, nested start ...)
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

from collections.abc import Iterator


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


class Locked(InterlockError):
    exit_code = 6

    def __init__(self, what: str, *, holder: dict[str, object] | None = None, remedy: str | None = None) -> None:
        super().__init__(what, remedy=remedy)
        self.holder = holder or {}


class JournalDamaged(InterlockError):
    exit_code = 2

    def __init__(self, what: str, *, path: str, line: int | None = None) -> None:
        super().__init__(
            what,
            where=path if line is None else f"{path}:{line}",
            remedy="The journal is reported, never repaired: restore it from a copy, or start a new run.",
        )
        self.path = path
        self.line = line


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


class EngineFault(InterlockError):
    """Our bug, or a playbook that breaks a rule of the engine."""

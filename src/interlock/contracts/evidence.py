"""What stands behind a verdict, in one form for all playbooks, and what in it speaks against a pass (EV-01, EV-02).

Agents give evidence in many shapes: fields of a JSON answer, lines of a report, a checklist.  A playbook reads its own
shape into `Evidence` once, with the readers below; whether a claim holds is then decided here, for all of them alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from interlock.documents import Sections

PASS, FAIL, SKIPPED = "pass", "fail", "skipped"
QUOTED_MOST = 3
"""Of one kind of contradiction, so many are quoted; the rest is counted."""


@dataclass(frozen=True)
class Check:
    """A command that was run, and how it ended."""

    command: str
    exit: int | None = None
    summary: str = ""

    @property
    def shown(self) -> str:
        said = f"`{self.command}` ended with exit status {self.exit}"
        return f"{said}: {self.summary}" if self.summary else said


@dataclass(frozen=True)
class Evidence:
    """What an agent put behind its verdict."""

    checks: tuple[Check, ...] = ()
    passed: int = 0
    failed: int = 0
    """Numbers of tests."""
    failures: tuple[str, ...] = ()
    """Failures that it lists by name."""
    marks: Mapping[str, str] = field(default_factory=dict)
    """Kinds of checks (lint, build) with the word for each: pass, fail, skipped."""
    unmet: tuple[str, ...] = ()
    """Acceptance criteria that it leaves open."""
    blocking: tuple[str, ...] = ()
    """Issues that it calls blocking."""
    nothing_to_run: str = ""
    """Why there was no command to run."""

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What speaks against a pass, each in a sentence that quotes it."""
        red = [check.shown for check in self.checks if check.exit]
        marks = [f"{name}: {FAIL}" for name, word in self.marks.items() if word == FAIL]
        counted = [f"{self.failed} tests failed"] if self.failed else []
        return (
            *_quoted("", red),
            *counted,
            *_quoted("failure listed: ", self.failures),
            *marks,
            *_quoted("criterion not met: ", self.unmet),
            *_quoted("blocking issue: ", self.blocking),
        )

    def to_json(self) -> dict[str, Any]:
        """What is there, as JSON data."""
        said = {name: value for name, value in vars(self).items() if value}
        if self.checks:
            said["checks"] = [asdict(check) for check in self.checks]
        return said

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        fields: dict[str, Any] = {name: tuple(said) if isinstance(said, list) else said for name, said in value.items()}
        fields["checks"] = tuple(Check(**one) for one in value.get("checks", ()))
        return cls(**fields)

    @property
    def lack(self) -> str:
        """What a pass needs and this has not; empty when it is enough."""
        if self.nothing_to_run or any(check.exit is not None for check in self.checks):
            return ""
        return NO_COMMAND


NO_COMMAND = (
    "a pass needs at least one command that was run, with its exit status; where there is nothing to run, "
    "say so and why"
)


@dataclass(frozen=True)
class Claim:
    """Whether an agent says that all is well, and what it puts behind that."""

    passes: bool
    evidence: Evidence = field(default_factory=Evidence)
    shows: bool = True
    """A pass must show a command (EV-02); not so where a judge reads and runs nothing."""


def _quoted(lead: str, texts: Iterable[str]) -> Iterator[str]:
    listed = [f"{lead}{' '.join(text.split())}" for text in texts]
    yield from listed[:QUOTED_MOST]
    if len(listed) > QUOTED_MOST:
        yield f"{lead}and {len(listed) - QUOTED_MOST} more"


# -- readers


def checks_in_data(value: Any) -> tuple[Check, ...]:
    """Commands out of a list of objects (``command``, ``exit``, ``summary``) or of lines; whatever it is, no error."""
    return tuple(_from_entries(value))


def _from_entries(value: Any) -> Iterator[Check]:
    for entry in value if isinstance(value, list | tuple) else ():
        match entry:
            case {"command": str() as command}:
                code = next((entry[name] for name in ("exit", "exit_code", "exitCode", "code") if name in entry), None)
                summary = entry.get("summary")
                yield Check(_line(command), _whole(code), _line(summary) if isinstance(summary, str) else "")
            case str() if entry.strip():
                yield next(iter(checks_in_text(entry)), Check(_line(entry)))


def checks_in_text(text: str) -> tuple[Check, ...]:
    """Commands that a text reports in its own words: a line with a command as code and the status it ended with.

    ``- `npm test`: exit 0``, ``| `make` | exit status 2 |``; examples in code blocks and quotes are nobody's word.
    """
    found = []
    for line in Sections(text).prose().splitlines():
        command, status = _COMMAND.search(line), _STATUS.search(line)
        if command and status:
            found.append(Check(_line(command[1] or command[2]), int(status[1])))
    return tuple(found)


def nothing_to_run(text: str) -> str:
    """The reason that a text gives for having run nothing (``Nothing to run: why``)."""
    found = _NOTHING_TO_RUN.search(Sections(text).prose())
    return _line(found[1]).strip("*_` ") if found else ""


_COMMAND = re.compile(r"``\s?(.+?)\s?``|`([^`]+)`")
_STATUS = re.compile(
    r"\bexit(?:ed)?(?:[ _](?:status|code))?(?:[ ](?:with|was|is))?[*_` :=|]*(-?\d{1,3})\b", re.IGNORECASE
)
_NOTHING_TO_RUN = re.compile(
    r"^[ \t]*(?:[-*+][ \t]+)?[*_`]{0,3}nothing to run[*_`]{0,3}[ \t]*:[ \t]*(\S.*)$", re.I | re.M
)


def _whole(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,3}", value.strip()):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _line(text: str) -> str:
    return " ".join(text.split())

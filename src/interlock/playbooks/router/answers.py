"""What an agent's return amounts to: exactly one `Return`, and from it how the run ends.  Pure.

The answer itself is never touched: it is relayed byte for byte or, where it cannot count, kept and pointed at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from interlock.contracts import Reason
from interlock.engine import Status, Table
from interlock.playbooks.router.documents import Returns
from interlock.playbooks.router.problems import escaped, shown_value

SHOWN_TAIL = 2_000
"""Bytes at the end of a cut-off answer that are shown."""

_STATUS_LINE = re.compile(r"Status:[ \t]*(\S+)")
_LONGEST_LINE = 10_000


class Return(StrEnum):
    """How a delegation came back."""

    COMPLETED = "completed"
    UNVERIFIED = "unverified"
    """Words, and none about how it ended."""
    PARTIAL = "partial"
    FAILED = "failed"
    BLOCKED = "blocked"
    BAD_JSON = "bad json"
    BAD_STATUS = "bad status"
    NO_ANSWER = "no answer"
    FOREIGN_SESSION = "foreign session"
    OUT_OF_SCOPE = "out of scope"
    CONFLICT = "conflict"
    TIMED_OUT = "timed out"
    NOT_STARTED = "not started"


STATUSES = (Return.COMPLETED, Return.PARTIAL, Return.FAILED, Return.BLOCKED)
"""What an agent may say of its work."""
RELAYED = frozenset({*STATUSES, Return.UNVERIFIED})
"""With any of these its answer is passed on."""

ENDING: Table[Status] = Table(
    "ending",
    {
        (Return.COMPLETED,): Status.COMPLETE,
        (Return.UNVERIFIED,): Status.DEGRADED,
        (Return.PARTIAL,): Status.DEGRADED,
        (Return.BLOCKED,): Status.STOPPED,
        (Return.FAILED,): Status.FAILED,
        (Return.BAD_JSON,): Status.FAILED,
        (Return.BAD_STATUS,): Status.FAILED,
        (Return.NO_ANSWER,): Status.FAILED,
        (Return.FOREIGN_SESSION,): Status.FAILED,
        (Return.OUT_OF_SCOPE,): Status.FAILED,
        (Return.CONFLICT,): Status.FAILED,
        (Return.TIMED_OUT,): Status.FAILED,
        (Return.NOT_STARTED,): Status.FAILED,
    },
)


def ending(kind: Return) -> Status:
    """How a run with this return ends."""
    return ENDING(kind)


@dataclass(frozen=True)
class ReturnFacts:
    """The facts of a return."""

    agent: str
    returns: Returns
    content: bytes
    """The final message, or the result file where there was no message."""
    path: str = ""
    session: str = ""
    exit_code: int | None = 0
    reason: Reason | None = None
    """What the engine found wrong with the call."""
    token: str | None = None
    """The status that the engine found in the answer."""
    detail: str = ""
    against: tuple[str, ...] = ()
    """What in the answer contradicts its status."""
    data: Mapping[str, Any] | None = None
    """The object that the engine found in the answer or in the result file."""
    partial: bool = False
    timeout_s: float = 0
    violations: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Files that somebody else had changed too, so that its work could not be merged."""


@dataclass(frozen=True)
class JudgedReturn:
    """A judged return: what it is, and in a sentence why."""

    kind: Return
    reason: str

    @property
    def relayed(self) -> bool:
        return self.kind in RELAYED


def judge_return(answer: ReturnFacts) -> JudgedReturn:
    """What the return amounts to, from what the engine found and what the agent said."""
    if answer.conflicts:
        paths = ", ".join(map(escaped, answer.conflicts))
        why = (
            f"{answer.agent} changed what was changed meanwhile by somebody else; its work was not taken over: {paths}"
        )
        return _refused(answer, Return.CONFLICT, why)
    match answer.reason:
        case Reason.SPAWN_FAILED:
            return JudgedReturn(
                Return.NOT_STARTED, f"Error: {answer.agent} could not be started: {escaped(answer.detail)}"
            )
        case Reason.TIMEOUT:
            return JudgedReturn(Return.TIMED_OUT, _timed_out(answer))
        case Reason.SESSION_MISMATCH:
            found = escaped(str((answer.data or {}).get("session_id", "unknown")))
            said = f"Error: answer belongs to session {found}, expected {answer.session}"
            return JudgedReturn(Return.FOREIGN_SESSION, f"{said}\n\nRaw answer: {answer.path}")
        case Reason.SCOPE_VIOLATION:
            paths = ", ".join(escaped(path) for path in answer.violations)
            return _refused(
                answer,
                Return.OUT_OF_SCOPE,
                f"{answer.agent} changed files outside its scope; they were not taken over: {paths}",
            )
        case Reason.CONTRADICTED:
            why = "; ".join(map(escaped, answer.against))
            return JudgedReturn(Return.FAILED, f"{answer.agent} returned status {answer.token}, but: {why}")
        case None if answer.token in STATUSES:
            return _odd_status(answer) or _said(answer, Return(answer.token))
        case None if answer.returns is Returns.TEXT and answer.exit_code == 0 and answer.content.strip():
            return _odd_status(answer) or JudgedReturn(Return.UNVERIFIED, _unverified(answer.agent))
    if answer.token in STATUSES:
        return _said(answer, Return.FAILED)
    if answer.returns is Returns.JSON:
        return _unusable_json(answer)
    if (odd := _odd_status(answer)) is not None:
        return odd
    if answer.exit_code == 0 and not answer.content.strip():
        return _refused(answer, Return.NO_ANSWER, f"{answer.agent} returned no answer")
    return _said(answer, Return.FAILED)


def _said(answer: ReturnFacts, status: Return) -> JudgedReturn:
    ended = "" if answer.exit_code in (0, None) else f" (exit {answer.exit_code})"
    return JudgedReturn(status, f"{answer.agent} returned status {status}{ended}")


def _refused(answer: ReturnFacts, kind: Return, why: str) -> JudgedReturn:
    return JudgedReturn(kind, f"Error: {why}. Raw answer: {answer.path}")


def _bad_status(answer: ReturnFacts, named: object) -> JudgedReturn:
    shown = "no status" if named is None else f"status {shown_value(named)}"
    *most, last = STATUSES
    return _refused(answer, Return.BAD_STATUS, f"{answer.agent} returned {shown}; expected {', '.join(most)} or {last}")


def _unverified(agent: str) -> str:
    *most, last = STATUSES
    return f"unverified: {agent} did not say how it ended (Status: {', '.join(most)} or {last}); read its answer"


def _odd_status(answer: ReturnFacts) -> JudgedReturn | None:
    """The complaint about a text with a status of its own making: in its result file, or in its last line.

    Only that line counts: an agent may well quote ``Status: 404`` from somewhere else.
    """
    if answer.returns is not Returns.TEXT:
        return None
    if answer.data is not None:
        named = answer.data.get("status")
        return _bad_status(answer, named) if named is not None and named not in STATUSES else None
    last = answer.content[-_LONGEST_LINE:].decode("utf-8", "replace").rstrip().rpartition("\n")[2]
    found = _STATUS_LINE.fullmatch(last)
    return _bad_status(answer, found[1]) if found and found[1].lower() not in STATUSES else None


def _unusable_json(answer: ReturnFacts) -> JudgedReturn:
    found = _json(answer.content) if answer.data is None else answer.data
    if isinstance(found, _NotJson):
        place = f"line {found.line} column {found.column}"
        return _refused(answer, Return.BAD_JSON, f"{answer.agent} returned invalid JSON ({place})")
    named = found.get("status") if isinstance(found, Mapping) else None
    if isinstance(named, str) and named in STATUSES:  # a key twice, or an answer too long to be looked at
        return _refused(answer, Return.BAD_JSON, f"{answer.agent} returned unusable JSON ({escaped(answer.detail)})")
    return _bad_status(answer, named)


@dataclass(frozen=True)
class _NotJson:
    line: int
    column: int


def _json(content: bytes) -> object:
    """The data of an answer, or where it stops being JSON."""
    try:
        return json.loads(content.decode("utf-8", "replace").removeprefix("\ufeff"), parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        return _NotJson(error.lineno, error.colno)
    except (RecursionError, ValueError):
        return _NotJson(1, 1)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _timed_out(answer: ReturnFacts) -> str:
    said = f"Error: {answer.agent} timed out after {answer.timeout_s:g} s and gave no partial result in time."
    tail = answer.content[-SHOWN_TAIL:].decode("utf-8", "replace").strip()
    if not tail:
        return f"{said} It had written nothing."
    shown = "\n".join(escaped(line) for line in tail.split("\n"))
    return f"{said} Raw answer: {answer.path}\n\nIt had written, at the end:\n\n{shown}"

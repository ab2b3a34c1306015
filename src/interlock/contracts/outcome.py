"""How a dispatch ended: the closed sets that decision tables are made of."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """How one call of one agent ended, whatever words the playbook uses for it."""

    OK = "OK"
    REVISE = "REVISE"
    FAIL = "FAIL"
    BLOCKED = "BLOCKED"


class Reason(StrEnum):
    """Why a dispatch ended in FAIL; of those that end in REVISE, `CONTRADICTED` ones have a reason too."""

    AGENT_ERROR = "agent_error"
    NO_VERDICT = "no_verdict"
    TIMEOUT = "timeout"
    SPAWN_FAILED = "spawn_failed"
    CRASHED = "crashed"
    CONTRACT_VIOLATION = "contract_violation"
    SCOPE_VIOLATION = "scope_violation"
    BAD_FORMAT = "bad_format"
    SESSION_MISMATCH = "session_mismatch"
    CANCELLED = "cancelled"
    NO_CHANGE = "no_change"
    """It exists to change files, changed none and did not say why (EV-06)."""
    CONTRADICTED = "contradicted"
    """It said pass, and its own evidence says otherwise (EV-01)."""


TRANSIENT = frozenset({Reason.TIMEOUT, Reason.SPAWN_FAILED, Reason.CRASHED})
"""No verdict was given: repeating the same call may help."""

UNUSABLE = frozenset(
    {
        Reason.NO_VERDICT,
        Reason.CONTRACT_VIOLATION,
        Reason.BAD_FORMAT,
        Reason.SESSION_MISMATCH,
        Reason.NO_CHANGE,
    }
)
"""An answer or artifact came but cannot be used: re-asked with the exact complaint."""

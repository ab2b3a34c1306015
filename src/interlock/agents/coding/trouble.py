"""What can go wrong between an agent and its model service, and when it is worth another try. Pure.

Agents wrap such errors differently, some as an ordinary answer.  A dialect finds them; what they mean is decided here,
once: by the HTTP status where one is known, else by the words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from interlock.agents.runner import Fault, Limited
from interlock.contracts import Reason


class Kind(StrEnum):
    LIMITED = "limited"
    """Too many requests, a used-up quota or an overloaded service: the same call will work later."""
    SERVICE = "service"
    """The service failed or could not be reached: trying again may help."""
    ACCESS = "access"
    """Not signed in, a wrong key, no permission: only a person can help."""
    REQUEST = "request"
    """The service refuses this very request (too long, unknown model): trying again does not help."""
    ROLE = "role"
    """The agent does not work under the role that it was given."""


@dataclass(frozen=True)
class Trouble:
    """Why a call does not count, whatever its exit status and text say."""

    kind: Kind
    text: str
    reset_s: float | None = None
    """Seconds until the service takes requests again, where it says so."""

    @property
    def fault(self) -> Fault:
        again = self.kind in (Kind.LIMITED, Kind.SERVICE)
        return Fault(Reason.CRASHED if again else Reason.AGENT_ERROR, self.text)

    @property
    def limited(self) -> Limited | None:
        return Limited(self.text, self.reset_s) if self.kind is Kind.LIMITED else None


_BY_STATUS: Final = {
    401: Kind.ACCESS,
    402: Kind.ACCESS,
    403: Kind.ACCESS,
    408: Kind.SERVICE,
    409: Kind.SERVICE,
    425: Kind.SERVICE,
    429: Kind.LIMITED,
    503: Kind.LIMITED,
    529: Kind.LIMITED,
}
_LIMIT_WORDS: Final = re.compile(
    r"rate.?limit|too many requests|quota|usage limit|session limit|weekly limit|hit (your|the) limit|limit reached"
    r"|overloaded|capacity|resource.?exhausted|\b429\b|\b529\b",
    re.IGNORECASE,
)
_ACCESS_WORDS: Final = re.compile(
    r"unauthori[sz]ed|authenticat|invalid api key|api key|not logged in|log ?in|sign in|permission_?denied|credential"
    r"|\b40[13]\b",
    re.IGNORECASE,
)
_REQUEST_WORDS: Final = re.compile(
    r"prompt is too long|context (length|window)|maximum context|invalid.?request|unknown model|model not found"
    r"|does not exist|\b40[04]\b",
    re.IGNORECASE,
)
_STATUS: Final = re.compile(r"(?<![\d.])(4\d\d|5\d\d)(?![\d.])")
_PERIOD: Final = re.compile(
    r"(?:(?:retry|again|reset[s]?|wait)\D{0,20}?)(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?)\b",
    re.IGNORECASE,
)
_UNITS: Final = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_EPOCH: Final = re.compile(r"(?<!\d)(1[6-9]\d{8}|2\d{9})(?!\d)")
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")


def trouble(
    text: str, *, status: int | None = None, reset_s: float | None = None, now: datetime | None = None
) -> Trouble:
    """What a failed request to the model service means; total, whatever was said."""
    said = " ".join(text.split()) or (f"the model service answered {status}" if status else "the model service failed")
    status = status if status is not None else _status_in(said)
    kind = kind_of(status, said)
    if kind is Kind.LIMITED and reset_s is None:
        reset_s = reset_in(said, now or datetime.now(UTC))
    return Trouble(kind, said, reset_s)


def kind_of(status: int | None, text: str) -> Kind:
    if status is not None:
        # A used-up quota comes under several statuses; its words tell it from a key that is not allowed.
        if status in (402, 403) and _LIMIT_WORDS.search(text):
            return Kind.LIMITED
        if status in _BY_STATUS:
            return _BY_STATUS[status]
        if status >= 500:
            return Kind.LIMITED if "overloaded" in text.lower() else Kind.SERVICE
        if status >= 400:
            return Kind.REQUEST
    for pattern, kind in ((_LIMIT_WORDS, Kind.LIMITED), (_ACCESS_WORDS, Kind.ACCESS), (_REQUEST_WORDS, Kind.REQUEST)):
        if pattern.search(text):
            return kind
    return Kind.SERVICE


def reset_in(text: str, now: datetime) -> float | None:
    """Seconds until the moment that a text about a limit names, if it names one."""
    if found := _PERIOD.search(text):
        unit = found[2].lower()
        scale = next(_UNITS[prefix] for prefix in ("milli", "ms", "s", "m", "h") if unit.startswith(prefix))
        return float(found[1]) * scale
    if found := _EPOCH.search(text):
        return max(0.0, float(found[1]) - now.timestamp())
    if found := _ISO.search(text):
        try:
            return max(0.0, (datetime.fromisoformat(found[0].replace("Z", "+00:00")) - now).total_seconds())
        except ValueError:
            return None
    return None


def _status_in(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1]) if found else None

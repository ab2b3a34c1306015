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


class Cause(StrEnum):
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
class CallTrouble:
    """Why a call does not count, whatever its exit status and text say."""

    cause: Cause
    text: str
    reset_s: float | None = None
    """Seconds until the service takes requests again, where it says so."""

    @property
    def fault(self) -> Fault:
        again = self.cause in (Cause.LIMITED, Cause.SERVICE)
        return Fault(Reason.CRASHED if again else Reason.AGENT_ERROR, self.text)

    @property
    def limited(self) -> Limited | None:
        return Limited(self.text, self.reset_s) if self.cause is Cause.LIMITED else None


_BY_STATUS: Final = {
    401: Cause.ACCESS,
    402: Cause.ACCESS,
    403: Cause.ACCESS,
    408: Cause.SERVICE,
    409: Cause.SERVICE,
    425: Cause.SERVICE,
    429: Cause.LIMITED,
    503: Cause.LIMITED,
    529: Cause.LIMITED,
}
_REQUEST_WORDS: Final = re.compile(
    r"prompt is too long|context.?(length|window)|maximum context|too many tokens|invalid.?request|unknown model"
    r"|model.{0,40}(not found|does not exist)",
    re.IGNORECASE,
)
_LIMIT_WORDS: Final = re.compile(
    r"rate.?limit|too many requests|quota|usage limit|session limit|weekly limit|hit (your|the) limit|limit reached"
    r"|overloaded|at capacity|no capacity|capacity (is )?exhausted|resource.?exhausted",
    re.IGNORECASE,
)
_ACCESS_WORDS: Final = re.compile(
    r"unauthori[sz]ed|authenticat|(invalid|incorrect|missing|no) (api )?key|not logged in|\blog ?in\b|\bsign in\b"
    r"|permission.?denied|credential",
    re.IGNORECASE,
)
_STATUS: Final = re.compile(
    r"(?:^|\(|\[|,\s(?=\d{3}$)|(?:status|error|code|http)\W{0,3}(?:code\W{0,2})?)(4\d\d|5\d\d)(?![\d.]|\s*(?:ms|s|sec|m|h)\b)",
    re.IGNORECASE,
)
_PERIOD: Final = re.compile(
    r"(?:retry|again|reset|wait)[^\d\n]{0,20}?(?P<parts>(?:\d+(?:\.\d+)?\s*(?:ms|milliseconds?|s|secs?|seconds?|m|mins?"
    r"|minutes?|h|hrs?|hours?|d|days?)(?![a-z])[\s,]*(?:and\s+)?)+)",
    re.IGNORECASE,
)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_UNITS: Final = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_LONGEST_RESET_S: Final = 8 * 86_400.0
"""A number that would be a later moment is none."""
_EPOCH: Final = re.compile(r"(?<!\d)(1[6-9]\d{8}|2\d{9})(?!\d)")
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")


def trouble(
    text: str, *, status: int | None = None, reset_s: float | None = None, now: datetime | None = None
) -> CallTrouble:
    """What a failed request to the model service means; total, whatever was said."""
    said = " ".join(text.split()) or (f"the model service answered {status}" if status else "the model service failed")
    cause = cause_of(status, said) if status is not None else _cause_by_words(said)
    if cause is Cause.LIMITED and reset_s is None:
        reset_s = reset_in(said, now or datetime.now(UTC))
    return CallTrouble(cause, said, reset_s)


def used_up(text: str) -> bool:
    """Whether a text says that the agent reached the limit of cost that it was given."""
    return bool(_USED_UP.search(text))


_USED_UP: Final = re.compile(r"budget[ _](is )?(exhausted|exceeded|reached)|max(imum)?[ _]budget", re.IGNORECASE)


def _cause_by_words(text: str) -> Cause:
    """Words that say it before numbers that only may be a status."""
    by_words = cause_of(None, text)
    found = _status_in(text) if by_words is Cause.SERVICE else None
    return cause_of(found, text)


def cause_of(status: int | None, text: str) -> Cause:
    """By the status where one is known, else by the words; a used-up quota comes under several statuses."""
    by_words = next((cause for pattern, cause in _WORDS if pattern.search(text)), None)
    if status is None:
        return by_words or Cause.SERVICE
    if status in _BY_STATUS:
        return Cause.LIMITED if status in (402, 403) and by_words is Cause.LIMITED else _BY_STATUS[status]
    if status >= 500:
        return Cause.LIMITED if "overloaded" in text.lower() else Cause.SERVICE
    return Cause.REQUEST


_WORDS: Final = ((_REQUEST_WORDS, Cause.REQUEST), (_LIMIT_WORDS, Cause.LIMITED), (_ACCESS_WORDS, Cause.ACCESS))


def reset_in(text: str, now: datetime) -> float | None:
    """Seconds until the moment that a text about a limit names, if it names one."""
    if found := _PERIOD.search(text):
        return sum(float(number) * _seconds(unit) for number, unit in _PART.findall(found["parts"]))
    moment = _moment(text)
    if moment is None:
        return None
    left = moment - now.timestamp()
    return max(0.0, left) if left <= _LONGEST_RESET_S else None


def _seconds(unit: str) -> float:
    return next(_UNITS[prefix] for prefix in ("milli", "ms", "s", "m", "h", "d") if unit.lower().startswith(prefix))


def _moment(text: str) -> float | None:
    if found := _EPOCH.search(text):
        return float(found[1])
    if found := _ISO.search(text):
        try:
            return datetime.fromisoformat(found[0].replace("Z", "+00:00")).timestamp()
        except ValueError:
            return None
    return None


def _status_in(text: str) -> int | None:
    """A number that stands where a status stands; others are ports, limits and seconds."""
    found = _STATUS.search(text)
    return int(found[1]) if found else None

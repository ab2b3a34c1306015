"""What can go wrong between an agent and its model service, and when it passes. Pure.

Agents wrap such errors differently, some as an ordinary answer.  A client finds them; what they mean is decided here,
once: by the HTTP status where one is known, else by the words.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from interlock.agents.reading import Json, parsed
from interlock.agents.values import Trouble, TroubleKind

_LIMIT, _LOGIN, _BUSY = TroubleKind.LIMIT, TroubleKind.LOGIN, TroubleKind.BUSY
_BY_STATUS = {
    **dict.fromkeys((401, 402, 403), _LOGIN),
    **dict.fromkeys((408, 409, 425, 503, 529), _BUSY),
    429: _LIMIT,
}
_WORDS = (
    (
        TroubleKind.MODEL,
        r"(unknown|invalid( value for)?|unsupported|no such|not a valid) model"
        r"|models?\b.{0,60}(not|no longer) (found|exist|supported|available)"
        r"|model.?not.?found|issue with the selected model|not_found_error.{0,40}model",
    ),
    (
        TroubleKind.REFUSED,
        r"(prompt|input|request)( is)? too long|context.?(length|window)|maximum context|too many tokens|token count"
        r"|content.?filter|usage policy",
    ),
    (_BUSY, r"overloaded|at capacity|no capacity"),
    (
        _LIMIT,
        r"rate.?limit|too many requests|quota|usage limit|session limit|weekly limit|hit (your|the) limit|limit reached"
        r"|capacity (is )?exhausted|resource.?exhausted|(usage|allowance)\b.{0,20}exceeded|exceeded your\b.{0,40}usage"
        r"|out of (extra )?usage|all your premium requests|credits?\b(?! card)|insufficient balance",
    ),
    (
        _LOGIN,
        r"unauthori[sz]ed|not authori[sz]ed|authenticat|(invalid|incorrect|missing|no) (x-)?(api.?)?key|\blog ?in\b"
        r"|api.?key\b.{0,20}(not valid|missing|invalid)|not (logged|signed) in|\bsign in\b|permission.?denied"
        r"|access denied|credential|auth (method|type)|token (has |is )?(expired|revoked)|has been disabled",
    ),
    (TroubleKind.REFUSED, r"invalid.?request"),
)
_PATTERNS = tuple((kind, re.compile(words, re.IGNORECASE)) for kind, words in _WORDS)
_STATUS = re.compile(
    r"(?:^|\(|\[|,\s(?=\d{3}$)|(?:status|error|code|http)\W{0,3}(?:code\W{0,2})?)(4\d\d|5\d\d)(?![\d.]|\s*(?:ms|s|sec|m|h)\b)",
    re.IGNORECASE,
)
"""A number that stands where a status stands; others are ports, limits and seconds."""
_PERIOD = re.compile(
    r"(?:retry|again|reset|wait)[^\d\n]{0,20}?(?P<parts>(?:\d+(?:\.\d+)?\s*(?:ms|milliseconds?|s|secs?|seconds?|m|mins?"
    r"|minutes?|h|hrs?|hours?|d|days?)(?![a-z])[\s,]*(?:and\s+)?)+)|retry.after\W{1,3}(?P<bare>\d{1,6})(?![\w.:-])",
    re.IGNORECASE,
)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_UNITS = {"milli": 0.001, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_EPOCH = re.compile(r"(?<!\d)(1[6-9]\d{8}|2\d{9})(?!\d)")
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_CLOCK = re.compile(
    r"\b(?:again at|resets?(?: at)?|until) (?:(?P<month>[A-Z][a-z]{2})[a-z]* (?P<day>\d{1,2})(?:st|nd|rd|th)?,? "
    r"(?:(?P<year>\d{4}),? )?(?:at )?)?(?P<hour>\d{1,2})(?::(?P<minute>\d\d)|(?= ?[AP]M))(?: ?(?P<half>[AP]M\b))?"
    r"(?: \((?P<zone>[\w/+-]+)\))?",
    re.IGNORECASE,
)
"""Subscriptions name the moment in local time, or in a zone that they name, with a date only when it is another day."""
_LONGEST = timedelta(days=8)
"""What would be a later moment is none."""
_LONG = 20_000
"""Characters of a text in which anything is looked for."""
_NO_WEATHER = timedelta(minutes=1)
"""Who is told to come back no sooner than this is not asked again at once."""


def trouble(
    text: str,
    *,
    status: int | None = None,
    until: datetime | None = None,
    kind: TroubleKind | None = None,
    now: datetime | None = None,
) -> Trouble:
    """What a failed request to the model service means; total, whatever was said.

    Args:
        kind: as the client itself names it.
        now: in local time.
    """
    if len(text) > _LONG:
        text = text[: _LONG // 2] + text[-_LONG // 2 :]
    text, code, delay = _readable(text)
    status, until = status or code, until or after(delay, now)
    said = " ".join(text.split()) or (f"the model service answered {status}" if status else "the model service failed")
    kind = kind or _kind(status, said)
    now = now or datetime.now().astimezone()
    if kind in (_LIMIT, _BUSY) and until is None:
        until = end_of_limit(said, now)
    if kind is _BUSY and until is not None and until - now >= _NO_WEATHER:
        kind = _LIMIT  # whatever it calls it
    return Trouble(kind=kind, text=said[:2000], until=until if kind is _LIMIT else None)


_API_ERROR = re.compile(r"\[API Error: (?P<said>.*?)\](?P<advice>\n.*)?\Z", re.DOTALL)
"""The words of Gemini and Qwen Code around those of the service."""
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")


def _readable(text: str) -> tuple[str, int | None, float | None]:
    """Of an answer of the service that a client hands on as it got it: its words, its status, and seconds to wait."""
    found = _API_ERROR.search(text)
    said, advice = (found["said"], found["advice"] or "") if found else (text, "")
    error = Json(parsed(said) if said.startswith("{") else None).at("error")
    if not error.text("message"):
        return f"{said} {advice}", None, None
    delays = [_DELAY.fullmatch(detail.text("retryDelay")) for detail in error.each("details")]
    told = [error.number("resets_in_seconds"), *(float(one[1]) for one in delays if one)]
    words = (error.text(name) for name in ("message", "type", "status", "code"))
    return ", ".join(filter(None, words)), error.count("code"), next((one for one in told if one is not None), None)


def used_up(text: str) -> bool:
    """Whether a text says that the agent reached the limit of cost that it was given."""
    return bool(re.search(r"budget[ _](is )?(exhausted|exceeded|reached)|max(imum)?[ _]budget", text, re.IGNORECASE))


def kind_of_words(text: str) -> TroubleKind | None:
    return next((kind for kind, pattern in _PATTERNS if pattern.search(text)), None)


def _kind(status: int | None, text: str) -> TroubleKind:
    """Words say it before numbers that only may be a status; a used-up quota comes under several."""
    words = kind_of_words(text)
    if status is None:
        found = _STATUS.search(text) if words is None else None
        status = int(found[1]) if found else None
    if status is None:
        return words or _BUSY
    if status in _BY_STATUS:
        return _LIMIT if status in (402, 403) and words is _LIMIT else _BY_STATUS[status]
    if status >= 500:
        return _BUSY
    return TroubleKind.MODEL if words is TroubleKind.MODEL or status == 404 else TroubleKind.REFUSED


def end_of_limit(text: str, now: datetime) -> datetime | None:
    """The moment that a text about a limit names, if it names one; not before `now`."""
    moment = _moment(text, now)
    return max(moment, now) if moment is not None and moment - now <= _LONGEST else None


def _moment(text: str, now: datetime) -> datetime | None:
    try:
        if found := _PERIOD.search(text):
            parts = _PART.findall(found["parts"] or f"{found['bare']} s")
            sizes = ((float(number), unit.lower()) for number, unit in parts)
            return after(sum(next(n * _UNITS[one] for one in _UNITS if unit.startswith(one)) for n, unit in sizes), now)
        if found := _EPOCH.search(text):
            return datetime.fromtimestamp(int(found[1]), UTC)
        if found := _ISO.search(text):
            return datetime.fromisoformat(found[0])
        if found := _CLOCK.search(text):
            return _on_the_clock(found, now)
    except (ValueError, OverflowError):
        pass
    return None


def after(seconds: float | None, now: datetime | None = None) -> datetime | None:
    """That many seconds from now; None for what is no time that anybody waits."""
    if seconds is None or not 0 <= seconds <= _LONGEST.total_seconds():
        return None
    return (now or datetime.now().astimezone()) + timedelta(seconds=seconds)


def _on_the_clock(found: re.Match[str], now: datetime) -> datetime:
    if found["zone"]:
        with suppress(LookupError, OSError, ValueError):
            now = now.astimezone(ZoneInfo(found["zone"]))
    half = (found["half"] or "").upper()
    hour = int(found["hour"]) % 12 + (12 if half == "PM" else 0) if half else int(found["hour"])
    moment = now.replace(hour=hour, minute=int(found["minute"] or 0), second=0, microsecond=0)
    if found["month"] is None:
        return moment if moment >= now else moment + timedelta(days=1)
    day = datetime.strptime(f"{found['month']} {found['day']} {found['year'] or now.year}", "%b %d %Y")
    moment = moment.replace(year=day.year, month=day.month, day=day.day)
    return moment if found["year"] or moment > now - timedelta(days=1) else moment.replace(year=day.year + 1)

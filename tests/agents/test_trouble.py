"""What a failed request to a model service means, and when a limit passes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.trouble import after, end_of_limit, trouble
from interlock.agents.values import TroubleKind as Kind

NOON = datetime(2026, 12, 15, 12, 0, tzinfo=timezone(timedelta(hours=2)))
BY_STATUS = [
    ("Request rejected", 429, Kind.LIMIT),
    ("overloaded", 529, Kind.BUSY),
    ("no capacity", 503, Kind.BUSY),
    ("boom", 500, Kind.BUSY),
    ("bad key", 401, Kind.LOGIN),
    ("not allowed", 403, Kind.LOGIN),
    ("You exceeded your current quota", 403, Kind.LIMIT),
    ("prompt is too long", 400, Kind.REFUSED),
    ("nothing here", 404, Kind.MODEL),
    ("no such model: x", 400, Kind.MODEL),
]
BY_WORDS = [
    ("API Error: Request rejected (429)", Kind.LIMIT),
    ("[API Error: 401 Incorrect key]", Kind.LOGIN),
    ("You've hit your session limit", Kind.LIMIT),
    ("RESOURCE_EXHAUSTED", Kind.LIMIT),
    ("please log in first", Kind.LOGIN),
    ("the model's context window limit is reached", Kind.REFUSED),
    ("connection reset by peer", Kind.BUSY),
    ("Rate limit reached: Limit 500, Used 500, Requested 1. Please try again in 120ms.", Kind.LIMIT),
    ("connect ETIMEDOUT 160.79.104.10:443", Kind.BUSY),
    ("getaddrinfo ENOTFOUND models.example.org:443", Kind.BUSY),
    ("the catalog index is broken", Kind.BUSY),
    ("HTTP 503 from upstream", Kind.BUSY),
    ("error code 400: bad", Kind.REFUSED),
    ("The model `x` does not exist or you do not have access to it.", Kind.MODEL),
    ("", Kind.BUSY),
    ("There's an issue with the selected model (x). It may not exist or you may not have access to it.", Kind.MODEL),
    ("The 'x' model is not supported when using Codex with a ChatGPT account.", Kind.MODEL),
    ("models/x is not found for API version v1beta, or is not supported for generateContent.", Kind.MODEL),
    ("ModelNotFoundError: Requested entity was not found.", Kind.MODEL),
    ('Model "x" from --model flag is not available.', Kind.MODEL),
    ("x is not a valid model ID", Kind.MODEL),
    ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", Kind.REFUSED),
    ("Input is too long for requested model.", Kind.REFUSED),
    ("Claude Code is unable to respond to this request, which appears to violate our Usage Policy", Kind.REFUSED),
    ("This model is temporarily unavailable, its answer is not valid JSON", Kind.BUSY),
    ("Credit balance is too low", Kind.LIMIT),
    ("402 Payment required: insufficient credits", Kind.LIMIT),
    ("Sorry, you have exceeded your Copilot token usage", Kind.LIMIT),
    ("Please try again in 28h15m30s", Kind.LIMIT),
    ("the stream broke off, retry in 5s", Kind.BUSY),
    ("OAuth token has expired. Please obtain a new token or refresh your existing token.", Kind.LOGIN),
    ("API key not valid. Please pass a valid API key.", Kind.LOGIN),
    ("Anthropic API key is missing. Pass it using the 'apiKey' parameter.", Kind.LOGIN),
    ("Internal error: invalid key", Kind.LOGIN),
    ("invalid_request_error: invalid x-api-key", Kind.LOGIN),
    ("Please set an Auth method in your settings.json or specify GEMINI_API_KEY", Kind.LOGIN),
    ("you are not authorized to use this Copilot feature", Kind.LOGIN),
]


@pytest.mark.req("AGENT-04")
@pytest.mark.parametrize(("text", "status", "kind"), [*BY_STATUS, *((text, None, kind) for text, kind in BY_WORDS)])
def test_an_error_of_the_service_means_one_thing(text: str, status: int | None, kind: Kind) -> None:
    """By its status where there is one, else by its words; a number that only looks like a status is none."""
    assert trouble(text, status=status).kind is kind


@pytest.mark.req("RUN-15")
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Please retry in 36.5s", timedelta(seconds=36.5)),
        ("Retry after 500 ms", timedelta(seconds=0.5)),
        ("Please try again in 1m12.5s", timedelta(seconds=72.5)),
        ("resets in 2 days, 1 hour and 5 minutes", timedelta(days=2, hours=1, minutes=5)),
        ("retry-after: 30 seconds", timedelta(seconds=30)),
        (f"usage limit reached|{int(NOON.timestamp()) + 90}", timedelta(seconds=90)),
        ("resets at 2026-12-15T10:10:00Z", timedelta(minutes=10)),
        ("resets at 2026-12-15T09:00:00+00:00", timedelta()),
        ("You've hit your usage limit. Upgrade to Pro or try again at 1:30 PM.", timedelta(minutes=90)),
        ("try again at 11:00 AM.", timedelta(hours=23)),
        ("try again at Dec 16th, 2026 12:01 PM.", timedelta(days=1, minutes=1)),
        ("try again at Dec 1st, 2026 12:00 PM.", timedelta()),
        ("You've hit your limit · resets 3pm (Europe/Athens)", timedelta(hours=3)),
        ("Weekly limit reached · resets Dec 17, 9am", timedelta(days=1, hours=21)),
        ("limit reached · resets 3pm (UTC)", timedelta(hours=5)),
        ("limit reached · resets Dec 17, 09:00 (America/New_York)", timedelta(days=2, hours=4)),
        ("limit reached · resets 3pm (Nowhere/Land)", timedelta(hours=3)),
        ("resets 3pm (Europe)", timedelta(hours=3)),
        ("Weekly limit reached · resets December 17 at 15:30", timedelta(days=2, hours=3.5)),
        ("Your quota will reset after 15h3m59s.", timedelta(hours=15, minutes=3, seconds=59)),
        ("Too Many Requests: retry-after: 7200", timedelta(hours=2)),
        ("resets at 25:00", None),
        ("request 2147483647 was refused", None),
        ("try again at Nov 31st, 2026 12:00 PM.", None),
        ("try again in 400 days", None),
        ("too many requests", None),
        ("status 429, 3 attempts", None),
    ],
)
def test_the_end_of_a_limit_is_found_in_words(text: str, left: timedelta | None) -> None:
    """A period, a moment, a time of day in local time; one that is over is now."""
    found = end_of_limit(text, NOON)
    assert (found and found - NOON) == left


def test_a_year_that_is_not_named_is_the_next_one_where_the_day_is_over() -> None:
    """Limits end in the future."""
    late = NOON.replace(day=29)
    assert end_of_limit("resets Jan 2, 9am", late) == late.replace(year=2027, month=1, day=2, hour=9)


@pytest.mark.req("RUN-19")
@given(st.text(max_size=200), st.none() | st.integers(100, 599))
def test_every_text_has_a_meaning(text: str, status: int | None) -> None:
    """Total: never an error, never an empty explanation, never an end that is over."""
    found = trouble(text, status=status, now=NOON)
    assert found.text
    assert found.until is None or (found.until >= NOON and found.kind is Kind.LIMIT)


@given(st.floats())
def test_only_what_anybody_waits_is_a_time(seconds: float) -> None:
    """Not below nothing, not above eight days."""
    assert (after(seconds, NOON) is not None) == (0 <= seconds <= 8 * 86_400)

"""One suite over what every coding agent prints: recorded from the real programs, and the rows of each one's table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.coding.codex import service_trouble
from interlock.agents.coding.dialect import LooksBack
from interlock.agents.coding.events import SessionBegan, Spent, Spoke, Waits
from interlock.agents.coding.settling import settle
from interlock.agents.coding.trouble import Cause
from interlock.agents.runner import Usage
from tests.agents.coding.tables import FOLDER, Line, Row, Table, cases, recorded, tools
from tests.agents.coding.tables.claude import CLAUDE
from tests.agents.coding.tables.codex import CODEX
from tests.agents.coding.tables.copilot import COPILOT
from tests.agents.coding.tables.gemini import GEMINI
from tests.agents.coding.tables.opencode import OPENCODE
from tests.agents.coding.tables.qwen import QWEN

TABLES = (CLAUDE, CODEX, COPILOT, GEMINI, OPENCODE, QWEN)
NOON = datetime(2026, 11, 15, 12, 0, tzinfo=timezone(timedelta(hours=2)))
MEANINGS = {401: Cause.ACCESS, 429: Cause.LIMITED, 500: Cause.SERVICE}
each_client = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)


@each_client
def test_a_call_that_went_well_is_read_completely(table: Table) -> None:
    """Session, tools, text, tokens and cost, as the real program reports them."""
    reader, events = table.read(recorded(f"{table.name}-ok"))
    said = reader.conclude()
    assert (said.finished, said.acted, said.trouble) == (True, True, None)
    assert said.text == "All done: docs/note.md written."
    assert "".join(event.text for event in events if isinstance(event, Spoke)) == said.text
    assert said.session in {event.session for event in events if isinstance(event, SessionBegan)}
    assert tools(events) == table.tools
    assert said.usage == table.usage
    assert [event.usage for event in events if isinstance(event, Spent)][-1:] == ([said.usage] if said.usage else [])
    assert settle(said, code=0, timed_out=False).fault is None


@each_client
def test_a_refused_edit_is_told_as_refused(table: Table) -> None:
    """Not as a tool that failed."""
    _, events = table.read(recorded(f"{table.name}-refused"))
    assert tools(events) == table.refused


@each_client
@pytest.mark.parametrize("status", MEANINGS)
def test_an_error_of_the_service_is_no_answer(table: Table, status: int) -> None:
    """Whatever the stream calls it; tokens of failed requests are unknown, and a wait is told where it is known."""
    reader, events = table.read(recorded(f"{table.name}-http-{status}"))
    said = reader.conclude()
    assert said.trouble is not None
    assert said.trouble.cause is MEANINGS[status]
    assert said.usage is None
    assert settle(said, code=0, timed_out=False).fault is not None
    assert any(isinstance(event, Waits) for event in events) == (status in table.waits)


@pytest.mark.req("LY-15", "LY-16")
@pytest.mark.parametrize(
    ("table", "row"), [pytest.param(one, row, id=f"{one.name}: {row.why}") for one in TABLES for row in one.rows]
)
def test_what_a_client_says_is_understood(table: Table, row: Row) -> None:
    """Each row of its table; among them its session as soon as there is one, and that it stopped at its limit."""
    found = table.facts(row)
    assert {name: found[name] for name in row.expected} == row.expected


def test_a_used_up_subscription_of_claude_says_when_it_is_open_again() -> None:
    """The event before the refusal carries the moment."""
    limit = {"status": "rejected", "resetsAt": datetime.now(UTC).timestamp() + 1000, "rateLimitType": "five_hour"}
    refused = {"type": "result", "subtype": "success", "is_error": True, "result": "You've hit your session limit"}
    reader, events = CLAUDE.read(({"type": "rate_limit_event", "rate_limit_info": limit}, refused))
    found = reader.conclude().trouble
    assert found is not None
    assert (found.cause, isinstance(events[0], Waits)) == (Cause.LIMITED, True)
    assert 900 < (found.reset_s or 0) <= 1000


@pytest.mark.parametrize(
    ("moment", "seconds"),
    [
        ("1:30 PM", 5400),
        ("11:00 AM", 23 * 3600),
        ("Nov 16th, 2026 12:01 PM", 24 * 3600 + 60),
        ("Nov 1st, 2026 12:00 PM", 0),
        ("Nov 31st, 2026 12:00 PM", None),
        ("later", None),
    ],
)
def test_a_used_up_plan_of_codex_says_when_it_is_open_again(moment: str, seconds: float | None) -> None:
    """It names the time of day, with the date when it is not today."""
    found = service_trouble(f"You've hit your usage limit. Upgrade to Pro or try again at {moment}.", NOON)
    assert (found.cause, found.reset_s) == (Cause.LIMITED, seconds)


@pytest.mark.parametrize(
    ("table", "case"), [pytest.param(one, case, id=case) for one in TABLES for case in cases(one.name)]
)
def test_no_part_of_a_stream_without_its_end_counts(table: Table, case: str) -> None:
    """Cut after any line before the end of the turn: not finished, so a fault."""
    lines = recorded(case)
    whole = table.read(lines)[0].conclude()
    ends = max((number for number, line in enumerate(lines) if table.ends(line)), default=len(lines))
    for length in range(ends + 1):
        said = table.read(lines[:length])[0].conclude()
        assert not said.finished
        assert settle(said, code=0, timed_out=False).fault is not None
    assert whole.finished or whole.trouble is not None


# -- whatever other versions may say


KINDS = ("type", "subtype", "method")


@cache
def vocabulary(table: Table) -> tuple[list[str], list[str]]:
    """The words that a client has for kinds of lines, and for fields, in its samples and rows."""
    lines = [line for case in cases(table.name) for line in recorded(case)]
    lines += [line for row in table.rows for line in row.lines]
    kinds = {line[name] for line in lines for name in KINDS if isinstance(line.get(name), str)}
    return sorted(kinds), sorted({key for line in lines for key in _keys(line)})


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)


def json_values(words: list[str], keys: list[str]) -> st.SearchStrategy[Any]:
    plain = st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=5)
    return st.recursive(
        plain | st.sampled_from(words),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(keys), inner, max_size=4),
        max_leaves=6,
    )


@st.composite
def streams(draw: st.DrawFn, table: Table) -> tuple[Line, ...]:
    words, keys = vocabulary(table)
    values = json_values(words, keys)
    line = st.builds(
        lambda kinds, more: {**more, **dict(zip(KINDS, kinds, strict=True))},
        st.tuples(*[st.sampled_from(words) | values] * len(KINDS)),
        st.dictionaries(st.sampled_from(keys), values, max_size=4),
    )
    return tuple(draw(st.lists(line, max_size=4)))


@each_client
@given(data=st.data())
def test_whatever_a_stream_holds_it_is_read(table: Table, data: st.DataObject) -> None:
    """Never an error, never finished without an end, and every event can be told."""
    lines = data.draw(streams(table))
    reader, events = table.read(lines)
    if isinstance(reader, LooksBack):
        text = data.draw(st.text(max_size=40))
        reader.look_back(text, {FOLDER / "copilot-usage.json": text})
    for event in events:
        event.news()
    said = reader.conclude()
    assert not said.finished or any(table.ends(line) for line in lines)
    assert isinstance(said.text, str)
    assert said.usage is None or isinstance(said.usage, Usage)

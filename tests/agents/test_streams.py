"""What each client prints and what it means: one suite over streams of the real programs, and a table for each.

A row of a table (`said/CLIENT.jsonl`) has `why`, the `lines` that were printed or the name of the `recorded` stream of
the real program (of which the last `but` are left out), what was asked or left beside it, and what it all `is`: facts
of the reading, with the trouble's `kind`, `said` and hours `left`, and the tools that it told of.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents import clients
from interlock.agents.process import ProcessEnd
from interlock.agents.reading import Json, Reading, parsed
from interlock.agents.values import Ask, News, NewsKind, Role, Room, Usage
from interlock.settings import CLIENTS, Runner

Line = dict[str, Any]
HERE = Path(__file__).parent
OPENING: list[Line] = [{"id": 1, "result": {"protocolVersion": 1}}, {"id": 2, "result": {"sessionId": "s1"}}]
"""Of a session over the Agent Client Protocol."""


def lines_of(file: str) -> list[Line]:
    return [json.loads(line) for line in (HERE / f"{file}.jsonl").read_text("utf-8").splitlines()]


@cache
def rows(name: str) -> list[Line]:
    return lines_of(f"said/{name}")


def printed(row: Line) -> list[Line]:
    if "recorded" in row:
        found = lines_of(f"streams/{row['recorded']}")
        return found[: len(found) - row.get("but", 0)]
    later = str(datetime.now(UTC).timestamp() + 5 * 3600)
    made: list[Line] = json.loads(json.dumps(row["lines"]).replace('"in 5 hours"', later))
    return made


def usage(account: list[Any]) -> Usage:
    return Usage(input_tokens=account[0], output_tokens=account[1], cost_usd=account[2])


def heard(name: str, row: Line, lines: list[Line]) -> tuple[Reading, list[News]]:
    """What the client's reader makes of these lines, and what it tells meanwhile."""
    argv = tuple(row.get("argv", ["mine"])) if name == "acp" else None
    client = clients.client(Runner.model_validate({"type": name, "argv": argv}), Path())
    ask = Ask(
        role=Role(name="tester", runner="r", type=name),
        brief="b",
        transcript=Path("/t"),
        form=row.get("form"),
        spent=usage(row.get("spent", [None, None, None])),
    )
    said, news = client.reader(ask, Room(name, new_session="NEW")), list[News]()
    said.hear = news.append
    for line in [*(OPENING if name == "acp" else []), *lines]:
        said.read(Json(line))
    said.end(ProcessEnd(stderr=row.get("stderr", "")), row.get("files", {}))
    return said, news


def facts(said: Reading, news: list[News]) -> dict[str, Any]:
    until = said.wrong and said.wrong.until
    tools = [one.facts for one in news if one.kind is NewsKind.TOOL]
    return {
        **vars(said),
        "text": said.text,
        "kind": said.wrong and said.wrong.kind.value,
        "said": said.wrong and said.wrong.text,
        "left": until and round((until - datetime.now(UTC)).total_seconds() / 3600),
        "tools": sorted([tool["name"], tool["subject"], tool["state"]] for tool in tools),
        "news": [one.facts for one in news],
        "usage": [said.usage.input_tokens, said.usage.output_tokens, said.usage.cost_usd],
    }


NAMES = (*CLIENTS, "acp")


@pytest.mark.req("AGENT-01", "AGENT-04", "AGENT-05", "EVID-01", "EVID-10", "RUN-14", "RUN-15")
@pytest.mark.parametrize(
    ("name", "row"), [pytest.param(name, row, id=f"{name}: {row['why']}") for name in NAMES for row in rows(name)]
)
def test_what_a_client_says_is_understood(name: str, row: Line) -> None:
    """Each row of its table; every text that is told is told while it works."""
    said, news = heard(name, row, printed(row))
    found = facts(said, news)
    assert {key: found[key] for key in row["is"]} == row["is"]
    if row["why"] == "a call that went well":
        assert "".join(one.facts["text"] for one in news if one.kind is NewsKind.TEXT) == said.text
        assert [one.facts["session"] for one in news if one.kind is NewsKind.SESSION][-1] == said.session


@cache
def vocabulary(name: str) -> tuple[list[str], list[str]]:
    """Words and keys that the client uses."""
    lines = [line for row in rows(name) for line in printed(row)]
    return sorted({str(line.get("type")) for line in lines} | {"success", "error"}), sorted(set(_keys(lines)))


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from value
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for one in inner:
        yield from _keys(one)


@st.composite
def streams(draw: st.DrawFn, name: str) -> list[Line]:
    known, keys = vocabulary(name)
    plain = st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=5)
    values = st.recursive(
        plain | st.sampled_from(known),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(keys), inner, max_size=4),
        max_leaves=6,
    )
    line = st.builds(
        lambda kind, subtype, more: {**more, "type": kind, "subtype": subtype},
        st.sampled_from(known),
        st.sampled_from(["init", "api_retry", "success", ""]),
        st.dictionaries(st.sampled_from(keys), values, max_size=4),
    )
    return draw(st.lists(line, max_size=4))


@pytest.mark.req("RUN-19")
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_whatever_a_stream_holds_it_is_read(name: str, data: st.DataObject) -> None:
    """Never an error, and never finished without an end."""
    lines, text = data.draw(streams(name)), data.draw(st.text(max_size=40))
    said, _ = heard(name, {"stderr": text, "files": {"copilot-usage.json": text}}, lines)
    ends = {"codex": ("turn.completed", "turn.failed"), "opencode": ("step_finish",)}.get(name, ("result",))
    assert not said.finished or any(line["type"] in ends or "result" in line for line in lines)
    assert isinstance(said.text, str)


@pytest.mark.req("RUN-19")
@given(st.text(max_size=200))
def test_half_a_character_is_replaced_and_noise_is_nothing(noise: str) -> None:
    """A cut emoji, as JavaScript writes it: the rest is there, every text can be stored; deep nesting is no JSON."""
    assert parsed('{"text": "cut \\ud83d here", "whole": "\\ud83d\\ude00"}') == {
        "text": "cut ? here",
        "whole": "\N{GRINNING FACE}",
    }
    assert parsed("[" * 100_000) is None
    found = Json(parsed(noise))
    assert (found.text("a"), found.count("a"), found.each("a"), found.at("a", "b").value) == ("", None, [], None)

"""What all coding agents have in common: lines, troubles, and whether a call counts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.coding.asking import Configured, ask_of, version_of
from interlock.agents.coding.dialect import Conclusion
from interlock.agents.coding.events import Event, Planned, SessionBegan, Spent, Spoke, Thought, ToolUsed, Waits, Warned
from interlock.agents.coding.settling import settle
from interlock.agents.coding.stream import JsonLines
from interlock.agents.coding.trouble import CallTrouble, Cause, reset_in, trouble
from interlock.agents.runner import AgentRequest, Usage
from interlock.contracts import Reason

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


# -- lines


@given(st.lists(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=8))), st.data())
def test_objects_come_out_whole_however_the_bytes_were_cut(objects: list[dict[str, Any]], data: st.DataObject) -> None:
    """Pieces of any size; the last line needs no end."""
    raw = b"\n".join(json.dumps(one, ensure_ascii=False).encode() for one in objects)
    found: list[Mapping[str, Any]] = []
    lines = JsonLines(found.append)
    while raw:
        size = data.draw(st.integers(1, len(raw)))
        lines.feed(raw[:size])
        raw = raw[size:]
    lines.close()
    assert found == objects


@given(st.binary(max_size=300))
def test_what_is_no_object_is_passed_over(noise: bytes) -> None:
    """Banners, warnings, half lines, anything at all: never an error."""
    found: list[Mapping[str, Any]] = []
    lines = JsonLines(found.append)
    lines.feed(noise + b'\n{"kept": 1}\nWarning: {oops}\n')
    lines.close()
    assert found[-1] == {"kept": 1}


def test_half_a_character_is_replaced_not_an_error() -> None:
    """A cut emoji, as JavaScript writes it: the rest of the text is there, and every text can be stored."""
    found: list[Mapping[str, Any]] = []
    lines = JsonLines(found.append)
    lines.feed(b'{"text": "cut \\ud83d here", "whole": "\\ud83d\\ude00", "name": "\\u00fc"}\n')
    assert found == [
        {"text": "cut ? here", "whole": "\N{GRINNING FACE}", "name": "\N{LATIN SMALL LETTER U WITH DIAERESIS}"}
    ]


def test_a_line_beyond_all_measure_is_skipped_and_said() -> None:
    """Memory stays bounded; the line after it is read again."""
    found: list[Mapping[str, Any]] = []
    lines = JsonLines(found.append, limit=100)
    for _ in range(50):
        lines.feed(b'{"x": "' + b"y" * 50)
    lines.feed(b'\n{"next": true}\n')
    assert found == [{"next": True}]
    assert lines.cut


# -- troubles


@pytest.mark.parametrize(
    ("text", "status", "cause"),
    [
        ("Request rejected", 429, Cause.LIMITED),
        ("overloaded", 529, Cause.LIMITED),
        ("no capacity", 503, Cause.LIMITED),
        ("Overloaded, try again", 500, Cause.LIMITED),
        ("boom", 500, Cause.SERVICE),
        ("boom", 502, Cause.SERVICE),
        ("bad key", 401, Cause.ACCESS),
        ("not allowed", 403, Cause.ACCESS),
        ("You exceeded your current quota", 403, Cause.LIMITED),
        ("prompt is too long", 400, Cause.REQUEST),
        ("no such model", 404, Cause.REQUEST),
        ("API Error: Request rejected (429)", None, Cause.LIMITED),
        ("[API Error: 401 Incorrect key]", None, Cause.ACCESS),
        ("You've hit your session limit", None, Cause.LIMITED),
        ("RESOURCE_EXHAUSTED", None, Cause.LIMITED),
        ("please log in first", None, Cause.ACCESS),
        ("the model's context window is exceeded", None, Cause.REQUEST),
        ("connection reset by peer", None, Cause.SERVICE),
        ("Rate limit reached: Limit 500, Used 500, Requested 1. Please try again in 120ms.", None, Cause.LIMITED),
        ("Rate limit: please retry after 450 seconds", None, Cause.LIMITED),
        ("connect ETIMEDOUT 160.79.104.10:443", None, Cause.SERVICE),
        ("getaddrinfo ENOTFOUND models.example.org:443", None, Cause.SERVICE),
        ("the catalog index is broken", None, Cause.SERVICE),
        ("context window limit reached", None, Cause.REQUEST),
        ("HTTP 503 from upstream", None, Cause.LIMITED),
        ("status: 500", None, Cause.SERVICE),
        ("error code 400: bad", None, Cause.REQUEST),
        ("", None, Cause.SERVICE),
    ],
)
def test_an_error_of_the_service_means_one_thing(text: str, status: int | None, cause: Cause) -> None:
    """By its status where there is one, else by its words."""
    assert trouble(text, status=status).cause is cause


def test_only_what_may_pass_by_itself_is_worth_another_try() -> None:
    """A limit and a failure of the service are transient; a wrong key or a refused request is not."""
    reasons = {cause: CallTrouble(cause, "x").fault.reason for cause in Cause}
    assert {cause for cause, reason in reasons.items() if reason is Reason.CRASHED} == {Cause.LIMITED, Cause.SERVICE}
    assert [cause for cause in Cause if CallTrouble(cause, "x").limited] == [Cause.LIMITED]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Please retry in 36.5s", 36.5),
        ("try again in 2 minutes", 120),
        ("Retry after 500 ms", 0.5),
        ("limit resets in 5 hours", 18_000),
        ("try again in 6m0s", 360),
        ("Please try again in 1m12.5s", 72.5),
        ("resets in 1 hour 30 minutes", 5400),
        ("resets in 2 days, 1 hour and 5 minutes", 176_700),
        ("request 2147483647 was refused", None),
        ("retry-after: 30 seconds", 30),
        (f"usage limit reached|{int(NOW.timestamp()) + 90}", 90),
        ("resets at 2026-05-01T12:10:00Z", 600),
        ("resets at 2026-05-01T11:00:00+00:00", 0),
        ("too many requests", None),
        ("status 429, 3 attempts", None),
    ],
)
def test_the_moment_of_a_reset_is_found_in_words(text: str, seconds: float | None) -> None:
    """A period, a moment, or nothing; one that is over is now."""
    assert reset_in(text, NOW) == seconds


@given(st.text(max_size=200), st.none() | st.integers(100, 599))
def test_every_text_has_a_meaning(text: str, status: int | None) -> None:
    """Total: never an error, never an empty explanation, never a negative wait."""
    found = trouble(text, status=status, now=NOW)
    assert found.text
    assert found.reset_s is None or found.reset_s >= 0


# -- does it count

SAID = Conclusion(text="OK: done", finished=True)


@pytest.mark.parametrize(
    ("said", "code", "reason"),
    [
        (SAID, 0, None),
        (SAID, 1, None),  # the exit status is judged with the answer
        (Conclusion(text="", finished=True, acted=True), 0, None),
        (Conclusion(text="OK: done"), 0, Reason.CRASHED),
        (Conclusion(), -15, Reason.CRASHED),
        (Conclusion(finished=True, text=" \n"), 0, Reason.NO_VERDICT),
        (Conclusion("OK: done", finished=True, trouble=CallTrouble(Cause.SERVICE, "500")), 0, Reason.CRASHED),
        (Conclusion("OK: done", finished=True, trouble=CallTrouble(Cause.ROLE, "other")), 0, Reason.AGENT_ERROR),
    ],
)
def test_exit_status_and_text_are_never_enough(said: Conclusion, code: int, reason: Reason | None) -> None:
    """Without the agent's own end of turn, with an error of its service, without a word: it did not happen."""
    fault = settle(said, code=code, timed_out=False).fault
    assert (fault.reason if fault else None) is reason


def test_a_missing_end_of_turn_is_explained_by_the_last_words() -> None:
    """What it wrote to standard error stands in the fault, and so does an answer that was too long."""
    told = settle(Conclusion(), code=1, timed_out=False, last_words="no such option: --model").fault
    assert told is not None
    assert (
        told.text == "the agent ended with exit status 1 without reporting the end of its turn: no such option: --model"
    )
    cut = settle(Conclusion(), code=0, timed_out=False, cut=True).fault
    assert cut is not None
    assert "too long" in cut.text


def test_a_passed_deadline_is_not_also_a_fault() -> None:
    """The engine judges time; a half stream at the deadline is no crash."""
    settled = settle(Conclusion(), code=-15, timed_out=True)
    assert (settled.fault, settled.limited) == (None, None)


def test_a_deadline_that_passed_while_the_agent_waited_for_its_service_is_a_limit() -> None:
    """Some agents sleep through a limit themselves: that is not slowness."""
    settled = settle(Conclusion(), code=-15, timed_out=True, waiting="429")
    assert settled.limited is not None
    assert "429" in settled.limited.text


# -- asking


def request(tmp_path: Path, **more: Any) -> AgentRequest:
    facts: dict[str, Any] = {
        "run_id": "r",
        "playbook": "ticket",
        "step": "s",
        "agent": "Reviewer",
        "member": "Reviewer",
        "attempt": 1,
        "dispatch": "k",
        "session": "s1",
        "workspace": tmp_path,
        "folder": tmp_path / "d",
        "brief": "# role\n\n# task",
        "timeout_s": 5,
    }
    return AgentRequest(**{**facts, **more})


def test_the_role_is_handed_over_apart_from_the_task(tmp_path: Path) -> None:
    """Where it stands at the head of the brief; together they are the brief, nothing is lost or said twice."""
    ask = ask_of(request(tmp_path, instructions="# role"), Configured("claude", "claude", model="m"))
    assert ask.role is not None
    assert (ask.role.name, ask.role.text, ask.prompt, ask.model) == (
        "interlock-ticket-reviewer",
        "# role",
        "# task",
        "m",
    )
    assert f"{ask.role.text}\n\n{ask.prompt}" == "# role\n\n# task"


@pytest.mark.parametrize("instructions", ["", "# other"])
def test_a_role_that_cannot_be_taken_apart_stays_in_the_prompt(tmp_path: Path, instructions: str) -> None:
    """None at all, or one that is not at the head: the whole brief is the prompt."""
    ask = ask_of(request(tmp_path, instructions=instructions), Configured("claude", "claude"))
    assert ask.role is None
    assert ask.prompt == "# role\n\n# task"
    assert ask.undivided == ask


def test_role_and_task_are_the_brief_again(tmp_path: Path) -> None:
    """For an agent that cannot be given the role apart."""
    whole = ask_of(request(tmp_path, instructions="# role"), Configured("claude", "claude")).undivided
    assert (whole.role, whole.prompt) == (None, "# role\n\n# task")


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("GitHub Copilot CLI 1.0.102.", "1.0.102"),
        ("2.1.197 (Claude Code)", "2.1.197"),
        ("codex-cli 0.166.0", "0.166.0"),
        ("v1.2.0-rc.1+build.5, of today", "1.2.0-rc.1+build.5"),
        ("1.0", "1.0"),
        ("no number", None),
    ],
)
async def test_a_version_is_the_number_alone(tmp_path: Path, said: str, version: str | None) -> None:
    """Whatever sentence it stands in."""
    program = tmp_path / "agent"
    program.write_text(f"#!/bin/sh\necho '{said}'\n")
    program.chmod(0o755)
    assert await version_of(str(program), {"PATH": os.defpath}) == version


# -- events


def test_every_event_becomes_news_of_plain_values() -> None:
    """What a transcript keeps is JSON, and long texts are cut."""
    events: list[Event] = [
        SessionBegan("s", "m"),
        Spoke("x" * 10_000),
        Thought("t"),
        ToolUsed("1", "Write", "a\nb"),
        Planned((("one", "pending"),)),
        Spent(Usage(1, None, None)),
        Waits("busy", 2.0),
        Warned("w"),
    ]
    kinds = [event.news().kind for event in events]
    assert kinds == ["session", "text", "thought", "tool", "plan", "usage", "waiting", "warning"]
    for event in events:
        assert len(json.dumps(dict(event.news().data))) < 5_000
    assert events[3].news().data["subject"] == "a b"
    assert events[5].news().data["cost_usd"] is None

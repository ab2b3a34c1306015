"""A call that goes on with a session, one with an allowance, and one that is looked at after its engine is gone."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.agents.coding.asking import Configured
from interlock.agents.coding.catalogue import make_runner
from interlock.agents.coding.dialect import Conclusion
from interlock.agents.coding.settling import forgot_session
from interlock.agents.coding.trouble import CallTrouble, Cause
from interlock.agents.runner import AgentExit, AgentNews, AgentRequest, Allowance, Usage
from interlock.contracts import Reason
from tests.agents.conftest import Wrapped

RequestFor = Callable[..., AgentRequest]
Agent = Callable[[str], Path]
HEAD = """\
import json, os, pathlib, signal, sys, time
asked = sys.stdin.read()
def say(**line): print(json.dumps(line), flush=True)
def begin(session="S-1"): say(type="system", subtype="init", session_id=session)
def spend(number, tokens, tool=None):
    block = {"type": "tool_use", "id": tool, "name": "Bash", "input": {}} if tool else {"type": "text", "text": "hm"}
    say(type="assistant", message={"id": f"m{number}", "content": [block], "usage": {"input_tokens": tokens}})
def end(text, **more): say(type="result", subtype="success", is_error=False, result=text, **more)
"""


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """A program that speaks like Claude Code."""

    def write(source: str) -> Path:
        place = tmp_path / "claude"
        place.write_text(f"#!{sys.executable} -SE\n{HEAD}{textwrap.dedent(source)}", encoding="utf-8")
        place.chmod(0o755)
        return place

    return write


async def called(program: Path, request: AgentRequest, news: list[AgentNews] | None = None) -> AgentExit:
    runner = make_runner("claude", Configured("mine", str(program)), {"PATH": "/usr/bin:/bin", "HOME": "/nowhere"})
    return await runner.call(request, (news if news is not None else []).append)


def told(news: list[AgentNews], kind: str) -> list[dict[str, Any]]:
    return [dict(one.data) for one in news if one.kind == kind]


# -- going on


@pytest.mark.req("LY-15")
async def test_a_session_goes_on_without_its_brief(agent: Agent, request_for: RequestFor) -> None:
    """The agent is told that it was cut off, that its files are there, and where the brief is."""
    program = agent('begin(sys.argv[sys.argv.index("--resume") + 1]); end(asked)')
    request, news = request_for(resume="S-1"), list[AgentNews]()
    ended = await called(program, request, news)
    said = ended.output.read().decode()
    assert "cut off" in said
    assert "as you left them" in said
    assert str(request.brief_path) in said
    assert "Add the login page" not in said
    assert (ended.session, told(news, "session")) == ("S-1", [{"session": "S-1", "model": None}])


@pytest.mark.req("LY-15")
async def test_the_session_is_told_once_and_before_any_work(agent: Agent, request_for: RequestFor) -> None:
    """The engine notes it down at once: it is what a crash needs."""
    news = list[AgentNews]()
    await called(agent('begin(); spend(1, 5, "t1"); begin(); end("done")'), request_for(), news)
    kinds = [one.kind for one in news]
    assert kinds.count("session") == 1
    assert kinds.index("session") < kinds.index("tool")


@pytest.mark.req("LY-15")
async def test_a_session_that_is_not_known_begins_anew_in_the_same_call(agent: Agent, request_for: RequestFor) -> None:
    """With the whole brief, in the time that is left; what the first process said is kept beside."""
    program = agent(
        """
        if "--resume" in sys.argv:
            print("No conversation found with session ID: S-1", file=sys.stderr)
            say(type="result", subtype="error_during_execution", is_error=True,
                errors=["No conversation found with session ID: S-1"])
            sys.exit(1)
        begin("S-2"); end(asked)
        """
    )
    request, news = request_for(resume="S-1"), list[AgentNews]()
    ended = await called(program, request, news)
    assert ended.fault is None
    assert "Add the login page" in ended.output.read().decode()
    assert (ended.session, ended.code) == ("S-2", 0)
    assert "starts anew" in told(news, "warning")[0]["text"]
    assert [one["session"] for one in told(news, "session")] == ["S-2"]
    assert "S-1" in (request.folder / "stderr.log.1").read_text()


@pytest.mark.parametrize(
    "words",
    [
        "No conversation found with session ID: 00000000-0000-4000-8000-000000000009",
        "Error: thread/resume failed: no rollout found for thread id 00000000-0000-4000-8000-000000000009",
        "\x1b[91mError: \x1b[0mSession not found",
        'Error resuming session: Invalid session identifier "00000000-0000-4000-8000-000000000009".',
        "No previous sessions found for this project.",
        "No saved session found with ID 00000000-0000-4000-8000-000000000009. Run `qwen --resume` without an ID",
        "Error: No session, task, or name matched '00000000-0000-4000-8000-000000000009'.",
    ],
)
def test_every_agent_has_its_words_for_a_session_that_it_does_not_know(words: str) -> None:
    """As the real ones say it, on standard error or as an error; not once they have begun to work."""
    assert forgot_session(Conclusion(), words)
    assert forgot_session(Conclusion(trouble=CallTrouble(Cause.SERVICE, words)), "")
    assert not forgot_session(Conclusion(acted=True), words)
    assert not forgot_session(Conclusion(usage=Usage(1)), words)


@pytest.mark.parametrize("words", ["", "429 too many requests", "invalid api key", "no such option: --resume"])
def test_other_troubles_are_no_lost_session(words: str) -> None:
    """The session stays the one to go on with."""
    assert not forgot_session(Conclusion(trouble=CallTrouble(Cause.SERVICE, words)), words)


# -- an allowance


@pytest.mark.parametrize(
    ("allowance", "usage", "up"),
    [
        (Allowance(usd=1.0), Usage(cost_usd=0.99), False),
        (Allowance(usd=1.0), Usage(cost_usd=1.0), True),
        (Allowance(usd=1.0), Usage(10**9, 10**9), False),
        (Allowance(tokens=100), Usage(60, 39), False),
        (Allowance(tokens=100), Usage(60, 40), True),
        (Allowance(tokens=100), Usage(100), True),
        (Allowance(tokens=0), Usage(), False),
        (Allowance(usd=1.0, tokens=100), Usage(5, 5, 2.0), True),
        (Allowance(), Usage(10**9, 10**9, 1e9), False),
    ],
)
def test_only_what_was_said_uses_up_an_allowance(allowance: Allowance, usage: Usage, up: bool) -> None:
    """An unknown cost is not a cost."""
    assert allowance.used_up(usage) == up


@pytest.mark.req("LY-16")
async def test_an_agent_is_ended_when_its_allowance_is_used_up(agent: Agent, request_for: RequestFor) -> None:
    """In the middle of its work, by the usual way: it can end itself first. What it said of its cost is kept."""
    program = agent(
        """
        def leave(number, frame):
            pathlib.Path("told").touch()
            sys.exit(3)
        signal.signal(signal.SIGTERM, leave)
        begin(); spend(1, 600, "t1"); spend(2, 600, "t2")
        time.sleep(600)
        """
    )
    request = request_for(allowance=Allowance(tokens=1000))
    ended = await called(program, request)
    assert (ended.exhausted, ended.timed_out, ended.limited) == (True, False, None)
    assert (ended.usage, ended.session, ended.code) == (Usage(1200), "S-1", 3)
    assert ended.fault is not None
    assert (ended.fault.reason, "1000 tokens" in ended.fault.text) == (Reason.AGENT_ERROR, True)
    assert (request.workspace / "told").exists()


@pytest.mark.req("LY-16")
async def test_an_answer_that_used_up_the_allowance_still_counts(agent: Agent, request_for: RequestFor) -> None:
    """It was its last turn anyway: the end is there before anybody is ended."""
    program = agent('begin(); spend(1, 5000); end("done", usage={"input_tokens": 5000, "output_tokens": 1})')
    ended = await called(program, request_for(allowance=Allowance(tokens=1000)))
    assert (ended.exhausted, ended.fault, ended.output.read()) == (False, None, b"done")
    assert ended.usage == Usage(5000, 1)


@pytest.mark.req("LY-16")
async def test_an_agent_that_goes_on_in_silence_is_ended_too(agent: Agent, request_for: RequestFor) -> None:
    """No tool is at work, but no end comes either."""
    ended = await called(
        agent("begin(); spend(1, 5000); time.sleep(600)"), request_for(allowance=Allowance(tokens=1000))
    )
    assert ended.exhausted


# -- in a layer, and after it


@pytest.mark.req("LY-11")
async def test_a_call_in_a_layer_shares_its_exchange_folder_alone(
    agent: Agent, request_for: RequestFor, wrapped: Wrapped, tmp_path: Path
) -> None:
    """Brief, answer and files of the call are there; what the engine keeps is not."""
    program = agent(
        """
        brief = pathlib.Path(os.environ["INTERLOCK_BRIEF"])
        pathlib.Path(os.environ["INTERLOCK_RESULT"]).write_text('{"usage": {"input_tokens": 7}}')
        begin(); end(json.dumps([brief.read_text(), os.getcwd(), sys.argv[1:]]))
        """
    )
    exchange = tmp_path / "exchange"
    request = request_for(within=wrapped, exchange=exchange)
    ended = await called(program, request)
    brief, folder, argv = json.loads(ended.output.read())
    assert (brief, folder) == (request.brief, str(request.workspace))
    assert "--dangerously-skip-permissions" in argv
    assert (ended.usage, ended.result) == (Usage(7), b'{"usage": {"input_tokens": 7}}')
    assert {path.name for path in exchange.iterdir()} == {"brief.md", "answer.json"}
    assert {path.name for path in request.folder.iterdir()} == {
        "brief.md",
        "output.md",
        "stderr.log",
        "stream.jsonl",
        "transcript.jsonl",
    }


@pytest.mark.req("LY-38")
async def test_a_call_that_ended_can_be_recalled_from_its_records(agent: Agent, request_for: RequestFor) -> None:
    """The same answer, session, tokens and faults; one that was cut off cannot."""
    program = agent('begin(); spend(1, 9, "t1"); end("done", usage={"input_tokens": 9, "output_tokens": 2})')
    request = request_for()
    first = await called(program, request)
    runner = make_runner("claude", Configured("mine", str(program)), {"PATH": "/usr/bin:/bin"})
    (request.output_path).unlink()
    again = await runner.recall(replace(request, brief=""), 0)
    assert again is not None
    assert (again.output.read(), again.code, again.fault) == (b"done", 0, None)
    assert (again.session, again.usage) == (first.session, first.usage)
    stream = request.folder / "stream.jsonl"
    stream.write_text("".join(stream.read_text().splitlines(keepends=True)[:-1]))
    assert await runner.recall(request, 0) is None
    stream.unlink()
    assert await runner.recall(request, 0) is None

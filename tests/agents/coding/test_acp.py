"""The ACP runner with a real program that speaks the protocol."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.agents import process_table
from interlock.agents.coding import acp_session
from interlock.agents.coding.acp import AcpRunner
from interlock.agents.coding.acp_profiles import PLAIN, Opening, Profile
from interlock.agents.coding.asking import Configured
from interlock.agents.runner import AgentExit, AgentNews, AgentRequest, Allowance, Usage
from interlock.contracts import Reason
from tests.agents.conftest import Wrapped
from tests.deadlines import Deadline
from tests.proofs import long

RequestFor = Callable[..., AgentRequest]
THOUGHT = ["think", "x" * 2000]
"""Long enough to be told at once."""
AGENT = Path(__file__).parent / "acp_agent.py"


def brief(*lines: Any, head: str = "# Implement\n\n") -> str:
    return head + "".join(f"{json.dumps(line)}\n" for line in lines)


def runner(profile: Profile = PLAIN, nature: dict[str, Any] | None = None, **changes: Any) -> AcpRunner:
    given = {"args": (str(AGENT),), "env": {"AGENT": json.dumps(nature or {}), "SOME_API_KEY": "secret-0123456789"}}
    return AcpRunner(profile, Configured("mine", sys.executable, **{**given, **changes}), dict(os.environ), grace_s=0.3)


async def call(
    request: AgentRequest,
    *lines: Any,
    news: list[AgentNews] | None = None,
    profile: Profile = PLAIN,
    nature: dict[str, Any] | None = None,
    **changes: Any,
) -> AgentExit:
    request = replace(request, brief=brief(*lines)) if lines else request
    observe = (news if news is not None else []).append
    return await runner(profile, nature, **changes).call(request, observe)


def told(news: list[AgentNews], kind: str) -> list[dict[str, Any]]:
    return [dict(one.data) for one in news if one.kind == kind]


def left(request: AgentRequest) -> list[int]:
    """Living processes of the call, by its marker."""
    found = process_table.processes()
    return [one.pid for one in found if not one.dead and process_table.marker(one.pid) == request.marker]


@pytest.fixture
def child_of() -> Callable[[AgentRequest], list[int]]:
    """The tools of a call that are still alive, whatever their environment says."""

    def running(request: AgentRequest) -> list[int]:
        pids = [int(line) for line in (request.workspace / "children").read_text().split()]
        return [pid for pid in pids if process_table.started(pid) is not None]

    return running


# -- a whole call


async def test_a_turn_gives_the_answer_the_usage_and_the_session(request_for: RequestFor) -> None:
    """The last message is the answer; events, raw stream and transcript are where those of other runners are."""
    request, news = request_for(), list[AgentNews]()
    ended = await call(
        request,
        ["think", "hm"],
        ["say", "I will write it."],
        ["send", "plan", {"entries": [{"content": "write", "status": "pending", "priority": "high"}]}],
        ["edit", "a.txt", "hello"],
        ["say", "All "],
        ["say", "done."],
        ["send", "usage_update", {"used": 10, "size": 100, "cost": {"amount": 0.25, "currency": "USD"}}],
        ["stop", "end_turn", {"usage": {"inputTokens": 7, "outputTokens": 5, "totalTokens": 12}}],
        news=news,
    )
    assert (ended.code, ended.fault, ended.limited, ended.timed_out) == (0, None, None, False)
    assert ended.output.read() == b"All done."
    assert (ended.session, ended.usage) == ("sess-1", Usage(7, 5, 0.25))
    assert [one.kind for one in news] == [
        "started",
        "session",
        "thought",
        "text",
        "plan",
        "tool",
        "tool",
        "usage",
        "text",
        "usage",
        "ended",
    ]
    assert told(news, "text") == [{"text": "I will write it."}, {"text": "All done."}]
    assert [one["state"] for one in told(news, "tool")] == ["began", "done"]
    assert (request.workspace / "a.txt").read_text() == "hello"
    stream = (request.folder / "stream.jsonl").read_text().splitlines()
    assert {"session/update", "session/request_permission"} <= {json.loads(line).get("method") for line in stream}
    assert len((request.folder / "transcript.jsonl").read_text().splitlines()) == len(news)
    assert left(request) == []


async def test_the_agent_gets_brief_workspace_and_environment(request_for: RequestFor) -> None:
    """The whole brief where nothing takes the role apart, however long; no terminal, no files by our hand."""
    request = request_for(instructions="# You are the implementer", env={"EXTRA": "1"})
    text = brief(["confess"], ["say", "ok"], head=f"{request.instructions}\n\n{'long ' * 60_000}\n")
    ended = await call(replace(request, brief=text))
    seen = json.loads((request.workspace / "seen.json").read_text())
    assert (ended.fault, seen["prompt"], seen["cwd"]) == (None, text, str(request.workspace))
    assert seen["env"]["EXTRA"] == "1"
    assert seen["capabilities"]["fs"] == {"readTextFile": False, "writeTextFile": False}
    assert seen["capabilities"]["terminal"] is False


async def test_secrets_do_not_reach_the_transcript(request_for: RequestFor) -> None:
    """What the agent says is redacted there like everything else that is written down."""
    request = request_for()
    await call(request, ["say", "the key is secret-0123456789"])
    assert "secret-0123456789" not in (request.folder / "transcript.jsonl").read_text()


# -- what it may write


async def test_edits_are_allowed_in_its_folder_and_only_once_at_a_time(request_for: RequestFor) -> None:
    """A lasting yes would let the next edit through unasked, wherever it goes."""
    request, news = request_for(), list[AgentNews]()
    ended = await call(
        request,
        ["edit", "docs/a.md", "yes"],
        ["edit", "../d.md", "no"],
        ["edit", str(request.result_path), "{}"],
        ["say", "done"],
        news=news,
    )
    answers = [json.loads((request.workspace / f"call-{n}.answer").read_text()) for n in (1, 2, 3)]
    assert [answer["optionId"] for answer in answers] == ["allow_once", "reject_once", "allow_once"]
    assert not (request.workspace.parent / "d.md").exists()
    states = {one["subject"].rpartition("/")[2]: one["state"] for one in told(news, "tool") if one["state"] != "failed"}
    assert states == {"a.md": "done", "d.md": "refused", "answer.json": "done"}
    assert (ended.fault, ended.result) == (None, b"{}")


@pytest.mark.req("LY-13")
async def test_in_a_layer_everything_it_asks_for_is_allowed(request_for: RequestFor, wrapped: Wrapped) -> None:
    """The kernel holds it there; an answer of ours would only be in its way."""
    request, news = request_for(within=wrapped), list[AgentNews]()
    ended = await call(request, ["edit", "../d.md", "yes"], ["say", "done"], news=news)
    assert (ended.fault, ended.output.read()) == (None, b"done")
    assert (request.workspace.parent / "d.md").exists()
    assert [one["state"] for one in told(news, "tool")] == ["began", "done"]


@pytest.mark.long
async def test_what_we_do_not_offer_is_answered_with_that(request_for: RequestFor) -> None:
    """No terminal, and no question that only a person could answer."""
    request = request_for()
    await call(request, ["ask", "terminal/create", {"command": "ls"}], ["ask", "elicitation/create", {}], ["say", "ok"])
    answers = [json.loads(line) for line in (request.workspace / "answers").read_text().splitlines()]
    assert [answer["error"] for answer in answers] == [-32601, -32601]


# -- mode, model and role


@pytest.mark.long
async def test_model_and_mode_are_chosen_among_those_offered(request_for: RequestFor) -> None:
    """By the protocol's switches, new or old, where the profile does not hand them over itself."""
    nature = {"options": {"model": ["small", "large"]}, "modes": ["ask", "edit"]}
    profile = replace(PLAIN, opening=lambda ask: Opening(args=ask.args, mode="edit"))
    request = request_for(model="large")
    ended = await call(request, ["confess"], ["say", "ok"], profile=profile, nature=nature)
    seen = json.loads((request.workspace / "seen.json").read_text())
    assert (ended.fault, seen["model"], seen["mode"]) == (None, "large", "edit")


@pytest.mark.parametrize("nature", [{}, *long({"options": {"model": ["small", "large"]}})])
async def test_a_model_that_is_not_taken_is_a_fault(request_for: RequestFor, nature: dict[str, Any]) -> None:
    """Not offered, or quietly replaced: nothing is done with another one."""
    request = request_for(model="large")
    ended = await call(request, ["edit", "a.txt", "x"], nature={**nature, "stubborn": True})
    assert ended.fault is not None
    assert (ended.fault.reason, "model 'large'" in ended.fault.text) == (Reason.AGENT_ERROR, True)
    assert not (request.workspace / "a.txt").exists()


@pytest.mark.long
async def test_a_role_that_is_not_known_is_a_fault(request_for: RequestFor) -> None:
    """Where the role is a mode of the session, another mode is another role."""
    profile = replace(PLAIN, opening=lambda ask: Opening(args=ask.args, mode="mine", role_given=True))
    nature = {"options": {"mode": ["build", "mine"]}, "stubborn": True}
    ended = await call(request_for(), ["say", "ok"], profile=profile, nature=nature)
    assert ended.fault is not None
    assert "mode 'mine'" in ended.fault.text


@pytest.mark.long
async def test_what_a_profile_opens_with_reaches_the_agent(request_for: RequestFor) -> None:
    """Arguments, environment, files beside the records, and what the request for a session carries."""
    request = request_for()
    file = request.folder / "given" / "role.md"
    opening = Opening(args=(str(AGENT), "--flag"), env={"X": "1"}, files={file: "a role"}, meta={"role": "text"})
    profile = replace(PLAIN, opening=lambda _ask: opening)
    await call(request, ["confess"], ["say", "ok"], profile=profile)
    seen = json.loads((request.workspace / "seen.json").read_text())
    assert (seen["argv"], seen["meta"], file.read_text()) == (["--flag"], {"role": "text"}, "a role")


# -- going on with a session

LOADS = {"loads": ["sess-0"]}


@pytest.mark.req("LY-15")
async def test_a_session_that_was_cut_off_goes_on(request_for: RequestFor) -> None:
    """The agent is told to go on, and not the brief again; what it repeats of its history is not this call's."""
    request, news = request_for(resume="sess-0"), list[AgentNews]()
    ended = await call(request, ["say", "not asked again"], news=news, nature=LOADS)
    seen = json.loads((request.workspace / "seen.json").read_text())
    assert seen["loaded"] == "sess-0"
    assert "cut off" in seen["prompt"]
    assert str(request.brief_path) in seen["prompt"]
    assert "not asked again" not in seen["prompt"]
    assert (ended.fault, ended.output.read(), ended.session) == (None, b"went on", "sess-0")
    assert told(news, "session") == [{"session": "sess-0", "model": None}]
    assert told(news, "text") == [{"text": "went on"}]


@pytest.mark.req("LY-15")
@pytest.mark.parametrize("nature", [{}, *long({"loads": []}, {"loads": ["sess-0"], "forgetful": True})], ids=str)
async def test_a_session_that_is_not_known_begins_anew_in_the_same_call(
    request_for: RequestFor, nature: dict[str, Any]
) -> None:
    """It cannot load one, does not know this one, or took it for an empty one: then it gets its whole brief."""
    request, news = request_for(resume="sess-0"), list[AgentNews]()
    ended = await call(request, ["say", "from the beginning"], news=news, nature=nature)
    assert (ended.fault, ended.output.read()) == (None, b"from the beginning")
    assert ended.session == ("sess-0" if nature.get("forgetful") else "sess-1")
    assert bool(told(news, "warning")) == (not nature.get("forgetful"))


@pytest.mark.long
@pytest.mark.req("LY-15")
async def test_a_role_that_stands_in_the_first_prompt_is_not_said_again(request_for: RequestFor) -> None:
    """The session has it."""
    request = request_for(resume="sess-0", instructions="# You write", brief="# You write\n\nWrite it.\n")
    await call(request, nature=LOADS)
    assert "# You write" not in json.loads((request.workspace / "seen.json").read_text())["prompt"]


# -- an allowance


@pytest.mark.long
@pytest.mark.req("LY-16")
async def test_an_agent_that_has_used_up_its_allowance_is_told_to_stop(request_for: RequestFor) -> None:
    """As soon as it says so, and with what it said."""
    cost = {"used": 10, "size": 100, "cost": {"amount": 0.25, "currency": "USD"}}
    request = request_for(allowance=Allowance(usd=0.2))
    ended = await call(request, ["send", "usage_update", cost], ["hang"])
    assert (ended.exhausted, ended.timed_out, ended.limited) == (True, False, None)
    assert ended.usage == Usage(cost_usd=0.25)
    assert ended.fault is not None
    assert "0.2 USD" in ended.fault.text
    assert (request.workspace / "told-to-stop").exists()
    assert left(request) == []


@pytest.mark.long
@pytest.mark.req("LY-16")
async def test_an_agent_that_stopped_by_itself_for_that_reason_is_known(request_for: RequestFor) -> None:
    """By its own words."""
    ended = await call(request_for(), ["say", "half"], ["fail", -32603, "Reached maximum budget ($0.2)"])
    assert ended.exhausted


# -- looking at it afterwards


@pytest.mark.long
@pytest.mark.req("LY-38")
async def test_a_turn_that_ended_can_be_recalled_from_its_records(request_for: RequestFor) -> None:
    """The same answer, session and tokens; not one that was never ended."""
    request, news = request_for(), list[AgentNews]()
    usage = {"usage": {"inputTokens": 7, "outputTokens": 5, "totalTokens": 12}}
    lines = (["edit", "a.txt", "x"], ["say", "All "], ["say", "done."], ["stop", "end_turn", usage])
    first = await call(request, *lines, news=news)
    again = await runner().recall(replace(request, brief=""), 0)
    assert again is not None
    assert (again.output.read(), again.session, again.usage) == (first.output.read(), "sess-1", Usage(7, 5))
    assert (again.code, again.fault) == (0, None)
    await call(request, ["say", "half"], ["die", 7, "gone"])
    assert await runner().recall(request, 7) is None


# -- false success


@pytest.mark.parametrize(
    ("lines", "reason", "text"),
    [
        ([["say", "half"], ["stop", "max_tokens"]], Reason.AGENT_ERROR, "limit of tokens"),
        ([["stop", "end_turn"]], Reason.NO_VERDICT, "without a word"),
        ([["say", "half"], ["die", 7, "out of memory"]], Reason.CRASHED, "exit status 7 .*: out of memory"),
        *long(
            ([["say", "half"], ["fail", 401, "bad key"]], Reason.AGENT_ERROR, "bad key"),
            ([["say", "half"], ["close_output"], ["hang"]], Reason.CRASHED, "without reporting the end"),
            ([["elsewhere", "done"]], Reason.NO_VERDICT, "without a word"),
        ),
    ],
    ids=str,
)
async def test_an_end_that_is_none_is_a_fault(
    request_for: RequestFor, lines: list[Any], reason: Reason, text: str
) -> None:
    """Whatever was said before it, and however politely it is said."""
    ended = await call(request_for(), *lines)
    assert ended.fault is not None
    assert ended.fault.reason is reason
    assert re.search(text, ended.fault.text)


async def test_what_an_agent_said_before_it_died_is_kept(request_for: RequestFor) -> None:
    """Told, and in the answer's place, though it does not count."""
    news = list[AgentNews]()
    ended = await call(request_for(), ["say", "half a"], ["die", 7, "out of memory"], news=news)
    assert (ended.code, ended.output.read(), told(news, "text")) == (7, b"half a", [{"text": "half a"}])


async def test_a_limit_of_the_model_service_is_said(request_for: RequestFor) -> None:
    """So that the same call can be made later."""
    ended = await call(request_for(), ["fail", -32603, "429 too many requests, retry in 30 seconds"])
    assert ended.limited is not None
    assert ended.limited.reset_s == 30


async def test_an_agent_that_gives_up_at_a_refusal_has_not_done_its_part(request_for: RequestFor) -> None:
    """It ends its turn properly, with nothing after the refusal."""
    request = request_for()
    lines = (["say", "I will."], ["edit", "../a.py", "x"], ["say", "never said"])
    ended = await call(request, *lines, nature={"easily discouraged": True})
    assert ended.fault is not None
    assert "gave up when it was refused" in ended.fault.text
    assert "a.py" in ended.fault.text


@pytest.mark.parametrize(
    ("nature", "text"),
    [
        ({"dies at the greeting": True}, "exit status 3 without reporting the end of its turn: cannot find my config"),
        ({"refuses sessions": "Authentication required"}, "Authentication required"),
        ({"protocol": 2}, "speaks version 2"),
        ({"mute": True}, "no answer in 1.5 seconds"),
    ],
    ids=str,
)
async def test_an_agent_that_cannot_be_spoken_with_says_why(
    request_for: RequestFor, nature: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any work is done; nothing is left running."""
    monkeypatch.setattr(acp_session, "GREETING_S", 1.5 if "mute" in nature else 20.0)
    request = request_for()
    ended = await call(request, ["say", "never"], nature=nature)
    assert ended.fault is not None
    assert text in ended.fault.text
    assert left(request) == []


async def test_a_program_that_is_not_there_is_said(request_for: RequestFor) -> None:
    """As for every runner."""
    made = AcpRunner(PLAIN, Configured("mine", "no-such-program"), dict(os.environ))
    ended = await made.call(request_for(), lambda _news: None)
    assert (ended.code, "no-such-program" in (ended.spawn_error or "")) == (None, True)


# -- noise and size


@pytest.mark.long
async def test_noise_between_messages_is_passed_over(request_for: RequestFor) -> None:
    """Banners, broken objects, unknown updates, answers to nothing: the turn goes on."""
    noise = [
        "Update available!",
        "{broken",
        "[1, 2]",
        '{"jsonrpc": "2.0", "id": [1], "result": {}}',
        '{"jsonrpc": "2.0", "id": 99, "result": {}}',
        '{"jsonrpc": "2.0", "method": 5, "params": {}}',
        '{"jsonrpc": "2.0", "method": "_own/notification", "params": null}',
        '{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "sess-1", "update": 7}}',
    ]
    ended = await call(request_for(), *(["raw", line] for line in noise), ["send", "new_kind", {}], ["say", "done"])
    assert (ended.fault, ended.output.read()) == (None, b"done")


@pytest.mark.long
async def test_large_answers_and_a_chatty_stderr_pass(request_for: RequestFor) -> None:
    """Messages beyond the SDK's own limit for a line, and more on standard error than a pipe holds."""
    request = request_for()
    ended = await call(request, ["mutter", 300_000], ["say", "x" * 600_000], ["mutter", 300_000])
    assert (ended.fault, ended.output.size) == (None, 600_000)
    assert (request.folder / "stderr.log").stat().st_size == 600_000


# -- deadline, cancellation, leftovers


async def test_at_the_deadline_the_turn_is_broken_off_and_all_is_ended(
    request_for: RequestFor, child_of: Callable[[AgentRequest], list[int]], deadline: Deadline
) -> None:
    """It is told to stop first; tools in sessions of their own end with it."""
    request, news = request_for(), list[AgentNews]()
    deadline(lambda: told(news, "thought"))
    ended = await call(request, ["start", "sleep", "600"], ["say", "half"], THOUGHT, ["hang"], news=news)
    assert (ended.timed_out, ended.partial, ended.fault) == (True, False, None)
    assert (request.workspace / "told-to-stop").exists()
    assert ended.output.read() == b"half"
    assert (left(request), child_of(request)) == ([], [])


async def test_an_agent_that_does_not_listen_is_ended(
    request_for: RequestFor,
    child_of: Callable[[AgentRequest], list[int]],
    monkeypatch: pytest.MonkeyPatch,
    deadline: Deadline,
) -> None:
    """What is asked of it is not waited for."""
    monkeypatch.setattr(acp_session, "_BREAK_OFF_S", 0.2)
    request, news = request_for(), list[AgentNews]()
    deadline(lambda: told(news, "thought"))
    ended = await call(request, ["start", "sleep", "600"], THOUGHT, ["hang"], news=news, nature={"deaf": True})
    assert ended.timed_out
    assert (request.workspace / "told-to-stop").exists()
    assert (left(request), child_of(request)) == ([], [])


async def test_partial_results_are_asked_for_and_waited_for(request_for: RequestFor, deadline: Deadline) -> None:
    """A turn that ends in the time after that counts as partial."""
    request, news = request_for(partial_grace_s=120.0), list[AgentNews]()
    deadline(lambda: told(news, "thought"))
    ended = await call(request, THOUGHT, ["wait_for", str(request.partial_path)], ["say", "this far"], news=news)
    assert (ended.timed_out, ended.partial, ended.output.read()) == (True, True, b"this far")
    assert told(news, "partial.requested") == [{"grace_s": 120.0}]


async def test_cancelling_a_call_ends_everything_first(
    request_for: RequestFor, child_of: Callable[[AgentRequest], list[int]]
) -> None:
    """The agent is told to stop, and when the cancellation goes on nothing is left."""
    request = request_for()
    begun = asyncio.Event()
    task = asyncio.create_task(
        runner().call(
            replace(request, brief=brief(["start", "sleep", "600"], THOUGHT, ["hang"])),
            lambda news: begun.set() if news.kind == "thought" else None,
        )
    )
    await asyncio.wait_for(begun.wait(), 120)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (request.workspace / "told-to-stop").exists()
    assert (left(request), child_of(request)) == ([], [])


async def test_what_a_finished_turn_left_running_is_ended(
    request_for: RequestFor, child_of: Callable[[AgentRequest], list[int]]
) -> None:
    """Also when it changed its session."""
    request = request_for()
    ended = await call(request, ["start", "sleep", "600"], ["say", "done"])
    assert (ended.code, ended.fault) == (0, None)
    assert (left(request), child_of(request)) == ([], [])


@pytest.mark.long
async def test_an_observer_that_fails_is_heard(request_for: RequestFor) -> None:
    """A journal that cannot be written is our error, not silence; the agent is ended all the same."""
    request = replace(request_for(), brief=brief(["edit", "a.txt", "x"], ["say", "done"]))

    def observe(news: AgentNews) -> None:
        if news.kind == "tool":
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        await runner().call(request, observe)
    assert left(request) == []


# -- health


async def test_health_is_a_greeting() -> None:
    """Program and version, without asking a model."""
    health = await runner().health()
    assert (health.ok, health.text) == (True, f"version 1.2.3, {sys.executable}")


@pytest.mark.parametrize(
    ("program", "args", "nature", "text"),
    [
        ("no-such-program", (), {}, "is not found"),
        ("true", (), {}, "ends without an answer"),
        (sys.executable, (str(AGENT),), {"protocol": 2}, "speaks version 2"),
    ],
)
async def test_a_program_that_cannot_be_spoken_with_is_not_healthy(
    program: str, args: tuple[str, ...], nature: dict[str, Any], text: str
) -> None:
    """And it is said what to do."""
    configured = Configured("mine", program, args, env={"AGENT": json.dumps(nature)})
    health = await AcpRunner(PLAIN, configured, dict(os.environ)).health()
    assert not health.ok
    assert text in health.text
    assert health.remedy

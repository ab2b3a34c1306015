"""Programs that speak the Agent Client Protocol: our side of a session, and what is believed of theirs."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.agents.acp import ROWS, Acp, Profile, profile_of
from interlock.agents.values import Ask, Exit, Role, Room, TroubleKind, Usage
from tests.agents.conftest import Calls, says, too_long_when

AGENT = Path(__file__).parent / "acp_agent.py"
USED: Any = {"usage": {"inputTokens": 10, "outputTokens": 2, "totalTokens": 12}}
DONE = ["end", {"stopReason": "end_turn", **USED}]
OPTION = {"id": "m", "category": "model", "currentValue": "small", "options": [{"value": "small"}, {"value": "big"}]}
ONCE = [{"kind": kind, "optionId": f"o-{kind}", "name": kind} for kind in ("allow_always", "allow_once", "reject_once")]


class Given:
    """Calls of an agent that plays what it is told."""

    def __init__(self, calls: Calls) -> None:
        self.layer, self.calls = calls.layer, calls

    async def call(self, *turn: Any, ask: Any = None, confined: bool = False, **nature: Any) -> Exit:
        client = Acp(sys.executable, "-S", str(AGENT), json.dumps({**nature, "turn": turn}))
        return await self.calls(client, layer=replace(self.layer, confined=confined), **(ask or {}))

    def seen(self, method: str) -> Any:
        """What the agent was sent last with this method."""
        lines = [json.loads(line) for line in (self.layer.root / "seen.jsonl").read_text().splitlines()]
        found = [line for line in lines if line.get("method") == method]
        return found[-1]["params"] if found else None

    def answers(self) -> list[Any]:
        """What the agent was answered."""
        lines = [json.loads(line) for line in (self.layer.root / "seen.jsonl").read_text().splitlines()]
        return [line.get("result") or line["error"]["code"] for line in lines if "method" not in line]

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [news.facts for news in self.calls.news if news.kind == kind]


@pytest.fixture
def given(calls: Calls) -> Given:
    return Given(calls)


# -- a whole call


@pytest.mark.req("AGENT-01", "AGENT-05")
async def test_a_turn_gives_answer_usage_and_session(given: Given) -> None:
    """It is asked in the folder where people stood, and heard while it works."""
    tool = {"toolCallId": "t1", "kind": "execute", "title": "Shell", "rawInput": {"command": "make"}}
    exit_ = await given.call(
        ["update", {"sessionUpdate": "tool_call", "status": "pending", **tool}],
        ["update", {"sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "completed"}],
        ["update", {"sessionUpdate": "usage_update", "cost": {"amount": 0.5, "currency": "USD"}}],
        ["say", "All "],
        ["say", "done."],
        DONE,
        session={"configOptions": [{**OPTION, "currentValue": "big"}]},
    )
    assert (exit_.finished, exit_.text, exit_.session, exit_.model) == (True, "All done.", "s1", "big")
    assert exit_.exit == 0  # its input has ended
    assert exit_.usage == Usage(input_tokens=10, output_tokens=2, cost_usd=0.5)
    assert given.seen("session/new") == {"cwd": str(given.layer.root), "mcpServers": []}
    assert given.seen("session/prompt")["prompt"] == [{"type": "text", "text": "# Do it ü\n"}]
    assert [facts["state"] for facts in given.told("tool")] == ["began", "done"]
    assert given.told("tool")[0]["subject"] == "make"
    assert [facts["text"] for facts in given.told("text")] == ["All done."]


async def test_an_agent_made_with_the_protocols_own_kit_is_understood(given: Given) -> None:
    """The other side is not ours: names and shapes are those of the protocol."""
    code = """
import asyncio, acp
from acp import schema

class Agent:
    def on_connect(self, conn):
        self.client = conn
    async def initialize(self, **_):
        return schema.InitializeResponse(protocol_version=1)
    async def new_session(self, **_):
        return schema.NewSessionResponse(session_id="kit")
    async def prompt(self, session_id, prompt, **_):
        call = schema.ToolCallUpdate(tool_call_id="t1", kind="edit", title="Write")
        options = [schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once")]
        answer = await self.client.request_permission(session_id=session_id, tool_call=call, options=options)
        words = acp.text_block(prompt[0].text + answer.outcome.option_id)
        await self.client.session_update(session_id, acp.update_agent_message(words))
        return schema.PromptResponse(stop_reason="end_turn")

asyncio.run(acp.run_agent(Agent()))
"""
    exit_ = await given.calls(Acp(sys.executable, "-c", code), env={"PYTHONPATH": os.pathsep.join(sys.path)})
    assert (exit_.finished, exit_.session, exit_.text) == (True, "kit", "# Do it ü\nyes")


# -- what it asks of us


@pytest.mark.parametrize(
    ("call_", "confined", "options", "chosen"),
    [
        ({"kind": "edit", "locations": [{"path": "a/b"}]}, False, ONCE, "o-allow_once"),
        ({"kind": "edit", "locations": [{"path": "../b"}]}, False, ONCE, "o-reject_once"),
        ({"kind": "edit", "locations": [{"path": "/etc/b"}]}, False, ONCE, "o-reject_once"),
        ({"kind": "other", "content": [{"type": "diff", "path": "/etc/b"}]}, False, ONCE, "o-reject_once"),
        ({"kind": "delete", "rawInput": {"file_path": "out/b"}}, False, ONCE, "o-reject_once"),
        ({"kind": "edit", "rawInput": {"file_path": "a\0b"}}, False, ONCE, "o-allow_once"),
        ({"kind": "read", "locations": [{"path": "/etc/b"}]}, False, ONCE, "o-allow_once"),
        ({"kind": "execute", "rawInput": {"command": "make"}}, False, ONCE, "o-allow_once"),
        ({"kind": "edit", "locations": [{"path": "/etc/b"}]}, True, ONCE, "o-allow_once"),
        # A lasting yes would hold for other files, too; without an answer that fits nothing is chosen.
        ({"kind": "edit"}, False, ONCE[:1], ""),
        ({"kind": "edit"}, True, ONCE[:1], "o-allow_always"),
    ],
)
async def test_permissions_are_answered_without_a_person(
    given: Given, call_: dict[str, Any], confined: bool, options: Any, chosen: str
) -> None:
    """All of them where the kernel holds it; else edits inside of its folder, by the real places of paths."""
    (given.layer.root / "out").symlink_to("/etc")
    asked = {"toolCall": {"toolCallId": "t1", **call_}, "options": options}
    exit_ = await given.call(["ask", asked], ["say", "Done."], confined=confined)
    selected = {"outcome": "selected", "optionId": chosen} if chosen else {"outcome": "cancelled"}
    assert given.answers() == [{"outcome": selected}]
    assert bool(exit_.refused) == ("reject" in chosen)
    assert exit_.finished


async def test_what_we_do_not_offer_is_answered_with_that(given: Given) -> None:
    """Files are never read or written through us."""
    exit_ = await given.call(["request", "fs/write_text_file"], ["request", "terminal/create"], ["say", "Done."])
    assert (given.answers(), exit_.finished) == ([-32601, -32601], True)
    assert given.seen("initialize")["clientCapabilities"]["fs"] == {"readTextFile": False, "writeTextFile": False}


# -- what is believed; more of it is in `said/acp.jsonl`


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        ({"code": -32000, "message": "Authentication required"}, TroubleKind.LOGIN, "Authentication required"),
        ({"code": 429, "message": '{"error": {"message": "slow down"}}'}, TroubleKind.LIMIT, "slow down"),
        ({"code": -32603, "message": "Internal error", "data": {"details": "500 boom"}}, TroubleKind.BUSY, "500 boom"),
        (
            {"code": -32603, "message": "Internal error: x", "data": {"errorKind": "rate_limit"}},
            TroubleKind.LIMIT,
            "x: rate_limit",
        ),
        ({"code": 500, "message": "model: nonesuch not found"}, TroubleKind.MODEL, "nonesuch"),
        ({"code": 500, "message": "it is down"}, TroubleKind.BUSY, "it is down"),
        ({"code": "?"}, TroubleKind.BUSY, "without a word"),
    ],
)
async def test_an_error_is_told_in_its_own_words(given: Given, error: Any, kind: TroubleKind, words: str) -> None:
    """Also where they are hidden in its data, or are the service's answer as it came."""
    exit_ = await given.call(["say", "half"], ["fail", error])
    assert exit_.trouble is not None
    assert (exit_.finished, exit_.trouble.kind, words in exit_.trouble.text) == (False, kind, True)


# -- how it begins


async def test_a_program_that_does_not_greet_does_not_speak_the_protocol(given: Given) -> None:
    """It is not waited for until the deadline."""
    late = too_long_when(says(given.layer.root / "seen.jsonl", b"initialize"))
    exit_ = await given.call(mute=True, ask={"timeout_s": 1e9})
    await late
    assert exit_.trouble is not None
    assert (exit_.timed_out, "does not speak" in exit_.trouble.text) == (False, True)


async def test_the_model_is_chosen_among_those_that_are_offered(given: Given) -> None:
    """One that it has already needs no word; one that it does not take is said before anything is paid."""
    session = {"configOptions": [OPTION]}
    assert (await given.call(["say", "Done."], ask={"model": "small"}, session=session)).finished
    assert given.seen("session/set_config_option") is None
    assert (await given.call(["say", "Done."], ask={"model": "big"}, session=session)).finished
    assert given.seen("session/set_config_option") == {"sessionId": "s1", "configId": "m", "value": "big"}
    (given.layer.root / "seen.jsonl").unlink()
    for nature in ({"session": session, "keeps": "small"}, {"session": {}}):
        exit_ = await given.call(ask={"model": "big"}, **nature)
        assert (exit_.finished, exit_.trouble and exit_.trouble.kind) == (False, TroubleKind.MODEL)
    assert given.seen("session/prompt") is None


@pytest.mark.req("AGENT-05")
async def test_a_session_goes_on(given: Given) -> None:
    """What it tells again was said in an earlier call: nobody hears it twice."""
    before = [{"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "said long ago"}}]
    exit_ = await given.call(["say", "Now."], ask={"session": "s1"}, load=before)
    assert (exit_.finished, exit_.text, exit_.session) == (True, "Now.", "s1")
    assert given.seen("session/load")["sessionId"] == "s1"
    assert [facts["text"] for facts in given.told("text")] == ["Now."]


@pytest.mark.parametrize(
    ("nature", "kind"),
    [
        ({}, TroubleKind.SESSION),
        ({"load": None}, TroubleKind.SESSION),
        ({"load": []}, TroubleKind.SESSION),
        ({"greeting": {"protocolVersion": 2}}, TroubleKind.OTHER),
    ],
)
async def test_a_session_that_cannot_go_on_is_said(given: Given, nature: dict[str, Any], kind: TroubleKind) -> None:
    """It cannot load any, does not know this one, or remembers nothing: whoever asked begins anew. In another
    version of the protocol it would be no better anew. Nothing is paid for."""
    exit_ = await given.call(ask={"session": "s1"}, **nature)
    assert (exit_.trouble and exit_.trouble.kind) == kind
    assert given.seen("session/prompt") is None


# -- how it ends


@pytest.mark.req("RUN-14")
async def test_it_is_ended_when_its_share_of_the_budget_is_used_up(given: Given) -> None:
    """While a tool works, at once."""
    spent = {"sessionUpdate": "agent_message_chunk", "_meta": {"usage": {"inputTokens": 90, "outputTokens": 20}}}
    tool = {"sessionUpdate": "tool_call", "toolCallId": "t1", "kind": "execute", "rawInput": {"command": "make"}}
    ask = {"budget_tokens": 100}
    exit_ = await given.call(["update", tool], ["update", spent], ["until cancelled", None], ask=ask)
    assert (exit_.finished, exit_.exhausted, exit_.usage.tokens) == (False, True, 110)


# -- the table


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.client)
def test_a_row_is_found_by_its_command_line_and_has_the_clients_account(row: Profile) -> None:
    """Its logins, hosts and variables are those of its other way of speaking."""
    words = (f"/somewhere/{row.words[0]}", *row.words[1:], "--more")
    client = Acp(*words)
    known = profile_of(words).row(words[0])
    assert (client.ROW, client.ROW.program, client.ROW.name) == (known, words[0], "acp")
    assert client.ROW.logins and client.ROW.hosts and client.ROW.install


def test_how_a_row_is_started() -> None:
    """A model by the program's own way, variables that keep it quiet, its own count of a budget."""
    role = Role(name="b", runner="m", type="acp", model="big")
    ask = Ask(role=role, brief="", transcript=Path("t"), budget_tokens=5, budget_usd=1.0)
    gemini = Acp("gemini", "--acp").start(ask, Room("gemini", exchange="/x"))
    assert gemini.argv == ("gemini", "--acp", "--model=big")
    assert gemini.files.keys() == {"gemini-settings.json"}
    codex = json.loads(Acp("codex-acp").start(ask, Room("codex-acp")).env["CODEX_CONFIG"])
    assert (codex["model"], codex["features"]["rollout_budget"]["limit_tokens"]) == ("big", 5)
    claude = Acp("claude-agent-acp").start(ask, Room("claude-agent-acp"))
    assert claude.env["ANTHROPIC_MODEL"] == "big"

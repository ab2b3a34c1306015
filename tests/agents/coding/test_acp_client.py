"""What an agent asks of us is answered without a person: by its folder, or with yes where the kernel holds it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import acp
import pytest

from interlock.agents.coding.acp_client import AcpClient, Authority
from interlock.agents.coding.acp_profiles import PLAIN, Profile
from interlock.agents.coding.acp_stream import AcpStream
from interlock.agents.coding.events import Event, Spoke, ToolUsed

KINDS = ("allow_always", "allow_once", "reject_once", "reject_always")


class Side:
    """Our side of a session, with the agent's questions put to it one by one."""

    def __init__(self, *folders: Path, profile: Profile = PLAIN, everything: bool = False) -> None:
        self.events: list[Event] = []
        self.stream = AcpStream(profile)
        self.client = AcpClient(profile, Authority(folders, everything), self.stream, self.events.extend)

    async def ask(self, call: Any, kinds: tuple[str, ...] = KINDS) -> str:
        """The kind of the answer that is chosen, or ``cancelled``."""
        options = [{"optionId": f"id of {kind}", "name": kind, "kind": kind} for kind in kinds]
        asked = {"sessionId": "s", "toolCall": call, "options": options}
        answer = await self.client.handle("session/request_permission", asked, False)
        outcome = answer.model_dump(by_alias=True)["outcome"]
        return str(outcome.get("optionId", outcome["outcome"])).removeprefix("id of ")

    async def hear(self, what: str, **fields: Any) -> None:
        update = {"sessionUpdate": what, **fields}
        await self.client.handle("session/update", {"sessionId": "s", "update": update}, True)


def edit(*paths: str, **fields: Any) -> dict[str, Any]:
    return {"toolCallId": "x", "kind": "edit", "locations": [{"path": path} for path in paths], **fields}


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (edit("docs/a.md"), "allow_once"),
        (edit("docs/a.md", kind="move"), "allow_once"),
        (edit("docs/../src/a.py"), "allow_once"),
        (edit(), "allow_once"),
        (edit("../a.md"), "reject_once"),
        (edit("docs/a.md", "/etc/passwd"), "reject_once"),
        (edit("docs/a\0.md"), "reject_once"),
        (edit(kind="delete", rawInput={"path": "/etc/passwd"}), "reject_once"),
        (edit("docs/a.md", rawInput={"file_path": "/etc/passwd"}), "reject_once"),
        (edit(kind="other", content=[{"type": "diff", "path": "/etc/passwd"}]), "reject_once"),
        (edit(kind="other", content=[{"type": "diff", "path": "docs/a.md"}]), "allow_once"),
        (edit(kind="switch_mode"), "reject_once"),
        (edit("/etc/passwd", kind="read"), "allow_once"),
        (edit("src", kind="execute", rawInput={"command": "make"}), "allow_once"),
        (edit(kind="a kind to come"), "allow_once"),
        ({"toolCallId": "x"}, "allow_once"),
        (None, "allow_once"),
    ],
    ids=str,
)
async def test_each_question_has_its_answer(tmp_path: Path, call: Any, answer: str) -> None:
    """Reading and commands are allowed, edits by every path that they name, and nothing for longer than the call."""
    side = Side(tmp_path)
    assert await side.ask(call) == answer
    states = [event.state for event in side.events if isinstance(event, ToolUsed)]
    assert ("refused" in states) == (answer == "reject_once")


@pytest.mark.req("LY-13")
@pytest.mark.parametrize("kind", ["edit", "delete", "switch_mode", "execute", "read", "a kind to come"])
async def test_whoever_is_held_by_the_kernel_is_allowed_everything(tmp_path: Path, kind: str) -> None:
    """A refusal would only keep it from work that its layer keeps apart anyway."""
    side = Side(tmp_path, profile=replace(PLAIN, asks_to_leave_sandbox=True), everything=True)
    assert await side.ask(edit("/etc/passwd", kind=kind)) == "allow_once"
    assert await side.ask(edit("/etc/passwd", kind=kind), ("allow_always", "reject_once")) == "allow_always"


@pytest.mark.parametrize(
    ("path", "kinds", "answer"),
    [
        ("docs/a.md", ("allow_always", "reject_always", "reject_once"), "reject_once"),
        ("docs/a.md", ("allow_always",), "cancelled"),
        ("../a.py", ("allow_once", "reject_always"), "reject_always"),
        ("../a.py", ("allow_once", "allow_always"), "cancelled"),
        ("docs/a.md", (), "cancelled"),
    ],
)
async def test_a_lasting_yes_is_never_given_to_an_edit(
    tmp_path: Path, path: str, kinds: tuple[str, ...], answer: str
) -> None:
    """It would let the next edit through unasked; a no is a no in whatever form it is offered."""
    assert await Side(tmp_path).ask(edit(path), kinds) == answer


async def test_a_lasting_yes_is_given_to_commands_where_there_is_no_other(tmp_path: Path) -> None:
    """They are allowed anyway."""
    assert await Side(tmp_path).ask(edit(kind="execute"), ("allow_always", "reject_once")) == "allow_always"


async def test_what_was_said_of_a_call_before_counts(tmp_path: Path) -> None:
    """A question may be as short as the number of its call."""
    side = Side(tmp_path)
    await side.hear("tool_call", **edit("/etc/passwd"))
    assert await side.ask({"toolCallId": "x"}) == "reject_once"


@pytest.mark.req("LY-15")
async def test_what_is_told_again_was_said_before(tmp_path: Path) -> None:
    """A session that goes on repeats its history: nothing of it is news, but it shows that there is a memory."""
    side = Side(tmp_path)
    side.client.replaying = True
    await side.hear("available_commands_update")
    assert not side.client.remembers
    await side.hear("agent_message_chunk", content={"type": "text", "text": "long ago"})
    assert side.client.remembers
    side.client.replaying = False
    assert side.events == []
    await side.hear("agent_message_chunk", content={"type": "text", "text": "now"})
    assert list(side.stream.rest()) == [Spoke("now")]


async def test_after_a_stop_every_question_is_answered_with_that(tmp_path: Path) -> None:
    """As the protocol wants it."""
    side = Side(tmp_path)
    side.client.stopped = True
    assert await side.ask(edit("a.txt")) == "cancelled"


async def test_a_command_that_would_leave_its_sandbox_is_refused(tmp_path: Path) -> None:
    """Some agents ask about commands only then; their edits are judged as everybody's."""
    side = Side(tmp_path, profile=replace(PLAIN, asks_to_leave_sandbox=True))
    assert await side.ask(edit(kind="execute", rawInput={"command": "curl x"})) == "reject_once"
    assert await side.ask(edit("docs/a.md", toolCallId="y")) == "allow_once"


async def test_paths_are_judged_by_where_they_lead(tmp_path: Path) -> None:
    """Not by how they are spelled; the folder of brief and answer is the agent's too."""
    work, outside, shared = tmp_path / "work", tmp_path / "outside", tmp_path / "shared"
    for folder in (work, outside, shared):
        folder.mkdir()
    (work / "out").symlink_to(outside)
    (tmp_path / "link").symlink_to(work)
    authority = Authority((tmp_path / "link", shared))
    for path in ("a.md", f"{work}/a.md", f"{tmp_path}/link/a.md", f"{shared}/answer.json", "x/../a.md"):
        assert authority.objection(path) is None, path
    for path in ("out/a.md", f"{outside}/a.md", "../a.md", "/etc/passwd", "", "a\0"):
        assert authority.objection(path) is not None, path


@pytest.mark.req("LY-01")
@pytest.mark.parametrize(
    "method",
    [
        "fs/write_text_file",
        "fs/read_text_file",
        "terminal/create",
        "elicitation/create",
        "_own/question",
        "",
    ],
)
async def test_what_we_do_not_offer_is_answered_with_that(tmp_path: Path, method: str) -> None:
    """No file by our hand, which would be outside of its layer; no terminal, no question for a person."""
    with pytest.raises(acp.RequestError) as refused:
        await Side(tmp_path).client.handle(method, None, False)
    assert refused.value.code == -32601


async def test_our_own_errors_are_kept_and_not_the_agents(tmp_path: Path) -> None:
    """The agent gets an answer; the first error is there for whoever made the call."""
    side = Side(tmp_path)

    def fail(_events: Any) -> None:
        raise OSError("the disk is full")

    side.client._tell = fail
    with pytest.raises(acp.RequestError):
        await side.ask(edit("a.txt"))
    assert str(side.client.broken) == "the disk is full"

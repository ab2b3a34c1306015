"""What an agent asks of us is answered by the scope of its role."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import acp
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from interlock.agents.coding.acp_client import AcpClient, Authority
from interlock.agents.coding.acp_profiles import PLAIN, Profile
from interlock.agents.coding.acp_stream import AcpStream
from interlock.agents.coding.events import Event, ToolUsed
from interlock.agents.coding.scopes import path_rules
from interlock.workspace import Scope

KINDS = ("allow_always", "allow_once", "reject_once", "reject_always")


class Side:
    """Our side of a session, with the agent's questions put to it one by one."""

    def __init__(self, workspace: Path, *scope: str, profile: Profile = PLAIN, always: tuple[Path, ...] = ()) -> None:
        self.events: list[Event] = []
        self.stream = AcpStream(profile)
        authority = Authority(workspace, Scope(scope).covers if scope else None, always)
        self.client = AcpClient(profile, authority, self.stream, self.events.extend)

    async def ask(self, call: Any, kinds: tuple[str, ...] = KINDS) -> str:
        """The kind of the answer that is chosen, or ``cancelled``."""
        options = [{"optionId": f"id of {kind}", "name": kind, "kind": kind} for kind in kinds]
        asked = {"sessionId": "s", "toolCall": call, "options": options}
        answer = await self.client.handle("session/request_permission", asked, False)
        outcome = answer.model_dump(by_alias=True)["outcome"]
        return str(outcome.get("optionId", outcome["outcome"])).removeprefix("id of ")

    async def write(self, path: str, content: Any = "text") -> str:
        """Empty, or why it was refused."""
        try:
            await self.client.handle("fs/write_text_file", {"path": path, "content": content}, False)
        except acp.RequestError as error:
            return str(error)
        return ""


def edit(*paths: str, **fields: Any) -> dict[str, Any]:
    return {"toolCallId": "x", "kind": "edit", "locations": [{"path": path} for path in paths], **fields}


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (edit("docs/a.md"), "allow_once"),
        (edit("docs/a.md", kind="move"), "allow_once"),
        (edit("docs/private/a.md"), "reject_once"),
        (edit("src/a.py"), "reject_once"),
        (edit("docs/a.md", "src/a.py"), "reject_once"),
        (edit("docs/../src/a.py"), "reject_once"),
        (edit("/etc/passwd"), "reject_once"),
        (edit("docs/a\0.md"), "reject_once"),
        (edit(), "reject_once"),
        (edit(kind="delete", rawInput={"path": "src/a.py"}), "reject_once"),
        (edit("docs/a.md", rawInput={"file_path": "src/a.py"}), "reject_once"),
        (edit(kind="other", content=[{"type": "diff", "path": "src/a.py"}]), "reject_once"),
        (edit(kind="other", content=[{"type": "diff", "path": "docs/a.md"}]), "allow_once"),
        (edit(kind="switch_mode"), "reject_once"),
        (edit("src/a.py", kind="read"), "allow_once"),
        (edit("src", kind="execute", rawInput={"command": "make"}), "allow_once"),
        (edit(kind="a kind to come"), "allow_once"),
        ({"toolCallId": "x"}, "allow_once"),
        (None, "allow_once"),
    ],
    ids=str,
)
async def test_each_question_has_its_answer(tmp_path: Path, call: Any, answer: str) -> None:
    """Reading and commands are allowed, edits by every path that they name, and nothing for longer than the call."""
    side = Side(tmp_path, "docs/**", "!docs/private/**")
    assert await side.ask(call) == answer
    states = [event.state for event in side.events if isinstance(event, ToolUsed)]
    assert ("refused" in states) == (answer == "reject_once")


@pytest.mark.parametrize(
    ("path", "kinds", "answer"),
    [
        ("docs/a.md", ("allow_always", "reject_always", "reject_once"), "reject_once"),
        ("docs/a.md", ("allow_always",), "cancelled"),
        ("src/a.py", ("allow_once", "reject_always"), "reject_always"),
        ("src/a.py", ("allow_once", "allow_always"), "cancelled"),
        ("docs/a.md", (), "cancelled"),
    ],
)
async def test_a_lasting_yes_is_never_given_to_an_edit(
    tmp_path: Path, path: str, kinds: tuple[str, ...], answer: str
) -> None:
    """It would let the next edit through unasked; a no is a no in whatever form it is offered."""
    assert await Side(tmp_path, "docs/**").ask(edit(path), kinds) == answer


async def test_a_lasting_yes_is_given_to_commands_where_there_is_no_other(tmp_path: Path) -> None:
    """They are allowed anyway."""
    assert await Side(tmp_path, "docs/**").ask(edit(kind="execute"), ("allow_always", "reject_once")) == "allow_always"


async def test_what_was_said_of_a_call_before_counts(tmp_path: Path) -> None:
    """A question may be as short as the number of its call."""
    side = Side(tmp_path, "docs/**")
    update = {"sessionUpdate": "tool_call", **edit("src/a.py")}
    await side.client.handle("session/update", {"sessionId": "s", "update": update}, True)
    assert await side.ask({"toolCallId": "x"}) == "reject_once"


async def test_after_a_stop_every_question_is_answered_with_that(tmp_path: Path) -> None:
    """As the protocol wants it."""
    side = Side(tmp_path)
    side.client.stopped = True
    assert await side.ask(edit("a.txt")) == "cancelled"


async def test_a_command_that_would_leave_its_sandbox_is_refused(tmp_path: Path) -> None:
    """Some agents ask about commands only then; their edits are judged as everybody's."""
    side = Side(tmp_path, "docs/**", profile=replace(PLAIN, asks_to_leave_sandbox=True))
    assert await side.ask(edit(kind="execute", rawInput={"command": "curl x"})) == "reject_once"
    assert await side.ask(edit("docs/a.md", toolCallId="y")) == "allow_once"


async def test_folders_are_made_for_an_agent_that_cannot(tmp_path: Path) -> None:
    """Only where the edit was allowed."""
    side = Side(tmp_path, "docs/**", profile=replace(PLAIN, lacks_folders=True))
    await side.ask(edit("docs/new/a.md"))
    await side.ask(edit("src/new/a.py", toolCallId="y"))
    assert (tmp_path / "docs/new").is_dir()
    assert not (tmp_path / "src").exists()


async def test_files_are_written_by_where_paths_lead(tmp_path: Path) -> None:
    """Not by how they are spelled; a link is judged by where it stands and where it leads."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    (work / "docs").mkdir(parents=True)
    outside.mkdir()
    (work / "docs/out").symlink_to(outside)
    (work / "docs/up.md").symlink_to(work / "secret.md")
    (work / "alias").symlink_to(work / "docs")
    os.mkfifo(work / "docs/pipe")
    side = Side(work, "docs/**", always=(outside / "answer.json",))
    assert await side.write(f"{work}/docs/new/a.md", "ü") == ""
    assert await side.write("docs/b.md") == ""
    assert await side.write(f"{outside}/answer.json") == ""
    assert (work / "docs/new/a.md").read_bytes() == "ü".encode()
    for path, why in {
        f"{work}/docs/../c.md": "outside of the role's scope",
        f"{work}/docs/out/d.md": "outside of the workspace",
        f"{work}/docs/up.md": "outside of the role's scope",
        f"{work}/alias/e.md": "outside of the role's scope",
        f"{outside}/f.md": "outside of the workspace",
        "../g.md": "outside of the workspace",
        "": "no path",
        "docs/x\0": "no path",
        "docs/pipe": "cannot be written",
        "docs": "scope",
        "docs/new": "cannot be written",
    }.items():
        assert why in await side.write(path), path
    assert "Invalid params" in await side.write("docs/h.md", 7)
    assert [path.name for path in outside.iterdir()] == ["answer.json"]
    assert not (work / "secret.md").exists()


async def test_a_workspace_behind_a_link_is_the_same_workspace(tmp_path: Path) -> None:
    """Agents name files by the real path or by the one they were given."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    side = Side(tmp_path / "link", "docs/**")
    for base in ("real", "link"):
        assert await side.write(f"{tmp_path}/{base}/docs/{base}.md") == ""
        assert await side.write(f"{tmp_path}/{base}/{base}.md") != ""


async def test_without_a_scope_the_workspace_is_the_bound(tmp_path: Path) -> None:
    """Everything in it may be written, nothing beside it."""
    work = tmp_path / "work"
    work.mkdir()
    side = Side(work)
    assert await side.write("a/b.txt") == ""
    assert await side.write("../c.txt") != ""
    assert await side.ask(edit()) == "allow_once"


async def test_files_are_read_for_agents_that_ask(tmp_path: Path) -> None:
    """Whole or by lines; what is none, or never ends, is an error and no standstill."""
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    os.mkfifo(tmp_path / "pipe")
    side = Side(tmp_path)

    async def read(**asked: Any) -> Any:
        return (await side.client.handle("fs/read_text_file", asked, False))["content"]

    assert await read(path="a.txt") == "one\ntwo\nthree\n"
    assert await read(path=f"{tmp_path}/a.txt", line=2, limit=1) == "two\n"
    assert await read(path="a.txt", line=3) == "three\n"
    for path in ("none", "pipe", ".", "a\0"):
        with pytest.raises(acp.RequestError):
            await read(path=path)


@pytest.mark.parametrize("method", ["terminal/create", "elicitation/create", "_own/question", ""])
async def test_what_we_do_not_offer_is_answered_with_that(tmp_path: Path, method: str) -> None:
    """No terminal, and no question that only a person could answer."""
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


WORDS = st.sampled_from(["a", "b", "docs", "*", "**", "?", "x*", "a.md"])
PATHS = st.lists(st.sampled_from(["a", "b", "docs", "xy", "a.md"]), min_size=1, max_size=3).map("/".join)
PATTERNS = st.tuples(st.sampled_from(["", "!"]), st.lists(WORDS, min_size=1, max_size=3), st.sampled_from(["", "/"]))


@given(st.lists(PATTERNS.map(lambda one: one[0] + "/".join(one[1]) + one[2]), max_size=4), PATHS)
def test_path_rules_cover_what_the_scope_covers(patterns: list[str], path: str) -> None:
    """Where rules can say the scope, they say the same."""
    rules = path_rules(patterns)
    assume(rules is not None)
    assert rules is not None
    assert rules.covers(path) == Scope(tuple(patterns)).covers(path)

"""A coding agent that is started once per call: what it gets, and what is handed on of how it ended."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from interlock.agents.coding.asking import Configured
from interlock.agents.coding.dialect import Ask, Conclusion, Invocation
from interlock.agents.coding.events import Event, SessionBegan, Spoke, Waits
from interlock.agents.coding.headless import HeadlessRunner
from interlock.agents.coding.stream import LINE_LIMIT
from interlock.agents.coding.trouble import trouble
from interlock.agents.runner import AgentExit, AgentNews, AgentRequest, Limited, Usage
from interlock.contracts import Reason
from tests.deadlines import Deadline

RequestFor = Callable[..., AgentRequest]
KEY = "sk-0123456789abcdef"
INHERITED = {"PATH": os.environ["PATH"], "MY_API_KEY": KEY, "COMMON": "caller", "INTERLOCK_OUTER": "1"}


class Plain:
    """The simplest dialect: one word for each thing that a stream can say."""

    name = program = "plain"

    def invocation(self, program: str, ask: Ask) -> Invocation:
        settings = {ask.folder / "settings" / "role.md": ask.role.text if ask.role else ""}
        own = {"DIALECT": "dialect", "COMMON": "dialect"}
        return Invocation((program, *ask.args), stdin=ask.prompt, env=own, files=settings)

    def reader(self, ask: Ask) -> PlainReader:
        return PlainReader()


class PlainReader:
    def __init__(self) -> None:
        self.said: dict[str, Any] = {}

    def take(self, line: Mapping[str, Any]) -> Iterable[Event]:
        self.said |= line
        match line:
            case {"session": session}:
                yield SessionBegan(session)
            case {"text": text}:
                yield Spoke(text)
            case {"waits": why}:
                yield Waits(why)

    def conclude(self) -> Conclusion:
        return Conclusion(
            text=self.said.get("text", ""),
            finished="end" in self.said,
            session=self.said.get("session"),
            usage=Usage(*self.said["usage"]) if "usage" in self.said else None,
            trouble=trouble(self.said["error"]) if "error" in self.said else None,
        )


@pytest.fixture
def agent(tmp_path: Path) -> Callable[[str], Path]:
    """An agent's program: Python source that can `say` a line of the stream."""

    def write(source: str) -> Path:
        head = "import json, os, pathlib, sys, time\ndef say(**line): print(json.dumps(line), flush=True)\n"
        place = tmp_path / "agent"
        place.write_text(f"#!{sys.executable} -SE\n{head}{textwrap.dedent(source)}", encoding="utf-8")
        place.chmod(0o755)
        return place

    return write


async def called(program: Path, request: AgentRequest, news: list[AgentNews] | None = None, **more: Any) -> AgentExit:
    runner = HeadlessRunner(Plain(), Configured("mine", str(program), **more), INHERITED, grace_s=0.3)
    return await runner.call(request, (news if news is not None else []).append)


async def test_a_call_gives_the_answer_and_what_was_said_of_it(
    agent: Callable[[str], Path], request_for: RequestFor
) -> None:
    """Answer, session and usage; news as they come, between the start and the end of the process."""
    program = agent('say(session="s-1"); say(text="done."); say(end=1, usage=[7, 5, 0.25])')
    request, news = request_for(), list[AgentNews]()
    ended = await called(program, request, news)
    assert (ended.code, ended.fault, ended.limited, ended.timed_out) == (0, None, None, False)
    assert (ended.output.read(), ended.session, ended.usage) == (b"done.", "s-1", Usage(7, 5, 0.25))
    assert [one.kind for one in news] == ["started", "session", "text", "ended"]


async def test_files_stand_in_place_before_the_agent_starts(
    agent: Callable[[str], Path], request_for: RequestFor
) -> None:
    """The role in a file of the record folder, the task on standard input, the settings' arguments on the line."""
    program = agent(
        """
        role = pathlib.Path(os.environ["INTERLOCK_BRIEF"]).parent / "settings" / "role.md"
        say(text=json.dumps([role.read_text(), sys.stdin.read(), sys.argv[1:], os.getcwd()]), end=1)
        """
    )
    request = request_for(instructions="# You write", brief="# You write\n\nWrite it.\n")
    ended = await called(program, request, args=("--fast",))
    assert json.loads(ended.output.read()) == ["# You write", "Write it.\n", ["--fast"], str(request.workspace)]
    assert not list(request.workspace.iterdir())


async def test_the_environment_is_that_of_the_call(agent: Callable[[str], Path], request_for: RequestFor) -> None:
    """Caller, then dialect, then settings, then protocol; nothing of an outer run."""
    program = agent("say(text=json.dumps(dict(os.environ)), end=1)")
    request = request_for(env={"EXTRA": "request"})
    settings = {"COMMON": "settings", "OWN": "settings", "INTERLOCK_AGENT": "somebody else"}
    seen = json.loads((await called(program, request, env=settings)).output.read())
    assert request.environment().items() <= seen.items()
    assert {name: seen.get(name) for name in ("COMMON", "OWN", "DIALECT", "EXTRA", "INTERLOCK_OUTER")} == {
        "COMMON": "settings",
        "OWN": "settings",
        "DIALECT": "dialect",
        "EXTRA": "request",
        "INTERLOCK_OUTER": None,
    }
    assert json.loads((await called(program, request)).output.read())["COMMON"] == "dialect"


async def test_a_limit_of_the_service_is_handed_on(agent: Callable[[str], Path], request_for: RequestFor) -> None:
    """With its moment, and whatever the exit status and the answer are."""
    program = agent('say(text="All done.", error="429 too many requests, retry in 30 s", end=1)')
    ended = await called(program, request_for())
    assert ended.limited == Limited("429 too many requests, retry in 30 s", 30.0)
    assert ended.fault is not None
    assert (ended.code, ended.fault.reason) == (0, Reason.CRASHED)


async def test_a_deadline_that_passes_while_the_agent_waits_for_its_service_is_a_limit(
    agent: Callable[[str], Path], request_for: RequestFor, deadline: Deadline
) -> None:
    """Where that was the last that was heard of it; one that went on to work is slow, nothing else."""
    news: list[AgentNews] = []
    deadline(lambda: "waiting" in [one.kind for one in news])
    ended = await called(agent('say(waits="429"); time.sleep(600)'), request_for(), news)
    assert ended.timed_out
    assert ended.limited is not None
    assert "429" in ended.limited.text
    news.clear()
    deadline(lambda: "text" in [one.kind for one in news])
    ended = await called(agent('say(waits="429"); say(text="on"); time.sleep(600)'), request_for(), news)
    assert (ended.timed_out, ended.limited, ended.fault) == (True, None, None)


async def test_the_last_words_of_an_agent_that_breaks_off_stand_in_the_fault(
    agent: Callable[[str], Path], request_for: RequestFor
) -> None:
    """The line of standard error that says most of it, and the exit status."""
    program = agent('say(text="half"); sys.stderr.write("starting\\nconfig.json: no such model\\n\\n"); sys.exit(3)')
    ended = await called(program, request_for())
    assert ended.fault is not None
    assert (ended.code, ended.fault.reason) == (3, Reason.CRASHED)
    assert "exit status 3" in ended.fault.text
    assert ended.fault.text.endswith(": config.json: no such model")


async def test_an_answer_on_a_line_too_long_to_be_read_is_told_as_that(
    agent: Callable[[str], Path], request_for: RequestFor
) -> None:
    """Not as an agent that forgot to end its turn."""
    program = agent(f'say(text="x" * {LINE_LIMIT}, end=1)')
    ended = await called(program, request_for())
    assert ended.fault is not None
    assert "its answer was too long to be read" in ended.fault.text


async def test_a_program_that_cannot_be_started_is_named(tmp_path: Path, request_for: RequestFor) -> None:
    """No status and no answer, only why; news still come to their end."""
    news = list[AgentNews]()
    ended = await called(tmp_path / "nowhere", request_for(), news)
    assert ended.code is None
    assert ended.spawn_error is not None
    assert "nowhere" in ended.spawn_error
    assert [one.kind for one in news] == ["ended"]


async def test_secrets_of_the_environment_leave_the_call_nowhere(
    agent: Callable[[str], Path], request_for: RequestFor
) -> None:
    """Neither in faults and limits nor in news nor in any record."""
    program = agent(
        """
        key = os.environ["MY_API_KEY"]
        sys.stderr.write(f"using {key}\\n")
        say(text=f"the key is {key}"); say(error=f"429 quota of {key} reached", end=1)
        """
    )
    request, news = request_for(), list[AgentNews]()
    ended = await called(program, request, news)
    assert ended.limited is not None
    assert ended.limited.text == "429 quota of [redacted:MY_API_KEY] reached"
    assert KEY not in repr([ended, news])
    records = [path for path in request.folder.rglob("*") if path.is_file()]
    assert {"stderr.log", "stream.jsonl", "transcript.jsonl"} <= {path.name for path in records}
    assert [path.name for path in records if KEY in path.read_text()] == []

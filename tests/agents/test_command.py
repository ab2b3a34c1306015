"""The `command` runner speaks the plain protocol with real programs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.agents import process_table
from interlock.agents.command import PLACEHOLDERS, CommandRunner
from interlock.agents.runner import AgentExit, AgentNews, AgentRequest, Usage
from interlock.errors import ConfigInvalid
from tests.deadlines import Deadline, says

RequestFor = Callable[..., AgentRequest]
Program = Callable[[str], list[str]]


def runner(argv: list[str], **changes: Any) -> CommandRunner:
    return CommandRunner("mine", argv, **{"env": {}, "inherit": dict(os.environ), "grace_s": 0.3, **changes})


async def call(
    argv: list[str], request: AgentRequest, news: list[AgentNews] | None = None, **changes: Any
) -> AgentExit:
    return await runner(argv, **changes).call(request, (news if news is not None else []).append)


@pytest.mark.req("CM-08")
async def test_a_program_gets_brief_protocol_and_workspace_and_nothing_else(request_for: RequestFor) -> None:
    """Standard input is the brief, every protocol variable is there, an outer run's are not."""
    script = 'cat > brief.txt; env | grep ^INTERLOCK_ | sort > env.txt; pwd -P > cwd.txt; echo "the answer"'
    request = request_for(depth=2, path=("orchestrator", "implementer"))
    ended = await call(
        ["sh", "-c", script],
        request,
        inherit={"PATH": os.environ["PATH"], "INTERLOCK_OUTER": "x", "INTERLOCK_DEPTH": "9"},
    )
    assert (ended.code, ended.output.read(), ended.result, ended.usage) == (0, b"the answer\n", None, None)
    assert (request.workspace / "brief.txt").read_text() == request.brief
    assert (request.workspace / "cwd.txt").read_text().strip() == str(request.workspace.resolve())
    found = dict(line.split("=", 1) for line in (request.workspace / "env.txt").read_text().splitlines())
    assert found == request.environment()
    assert found["INTERLOCK_PATH"] == "orchestrator/implementer"


@pytest.mark.req("CM-08")
async def test_the_same_brief_twice_gives_the_same_start(request_for: RequestFor) -> None:
    """Arguments, environment, input and folder are equal for equal requests."""
    script = ["sh", "-c", 'echo "$@"; env | sort; cat; pwd', "agent", "{member}", "{attempt}", "{brief}"]
    outputs = [(await call(script, request_for())).output.read() for _ in range(2)]
    assert outputs[0] == outputs[1]
    assert b"Add the login page." in outputs[0]


async def test_placeholders_are_filled_once_and_literal_braces_stay(request_for: RequestFor) -> None:
    """A value that looks like a placeholder is not looked into."""
    argv = [
        "printf",
        "%s\n",
        "{agent}/{member}",
        "{step}",
        "a{attempt}",
        "{model}",
        "{brief}",
        "{workspace}",
        "{{agent}} {{}}",
    ]
    request = request_for(agent="impl", member="{attempt}", model="small", attempt=3, step="3b build")
    ended = await call(argv, request)
    assert ended.output.read().decode().splitlines() == [
        "impl/{attempt}", "3b build", "a3", "small", str(request.brief_path), str(request.workspace), "{agent} {}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("argument", "named"),
    [("{agnet}", "{agnet}"), ("--x={agent.name}", "{agent.name}"), ("{agent!r}", "{agent}"), ("{}", "{}"),
     ('{"a": 1}', '{"a"}'), ("{agent", "unbalanced"), ("agent}", "unbalanced")],
)  # fmt: skip
def test_an_unknown_placeholder_is_refused_before_anything_runs(argument: str, named: str) -> None:
    """The error names it, the known ones and how to write a brace."""
    with pytest.raises(ConfigInvalid) as caught:
        runner(["agent", argument])
    assert named in caught.value.what
    assert caught.value.where == "runners.mine.argv"
    assert all(f"{{{name}}}" in (caught.value.expected or "") for name in PLACEHOLDERS)
    assert "{{" in (caught.value.remedy or "")


@pytest.mark.parametrize("argv", [[], [""]])
def test_a_runner_needs_a_program(argv: list[str]) -> None:
    """An empty argv is a mistake in the settings."""
    with pytest.raises(ConfigInvalid):
        runner(argv)


async def test_settings_reach_the_program(request_for: RequestFor) -> None:
    """The runner's own variables are in its environment, and its PATH finds the program."""
    ended = await call(["sh", "-c", "echo $MODEL"], request_for(), env={"MODEL": "small"})
    assert ended.output.read() == b"small\n"


async def test_the_result_file_and_its_usage_come_back(request_for: RequestFor) -> None:
    """Well-typed figures are taken."""
    result = '{"status": "success", "usage": {"input_tokens": 12, "output_tokens": 3, "cost_usd": 0.5}}'
    ended = await call(["sh", "-c", "cat > $INTERLOCK_RESULT; exit 4"], request_for(brief=result))
    assert (ended.code, ended.result) == (4, result.encode())
    assert ended.usage == Usage(12, 3, 0.5)


@pytest.mark.parametrize(
    ("result", "usage"),
    [
        ('{"usage": {"input_tokens": 7}}', Usage(input_tokens=7)),
        ('{"usage": {"cost_usd": 2}}', Usage(cost_usd=2.0)),
        ('{"usage": {"input_tokens": "7", "output_tokens": true, "cost_usd": -1}}', None),
        ('{"usage": {"cost_usd": NaN}}', None),
        ('{"usage": [1]}', None),
        ("[1]", None),
        ("not json", None),
        ("", None),
    ],
)
async def test_usage_that_is_not_well_typed_is_unknown_not_zero(
    request_for: RequestFor, result: str, usage: Usage | None
) -> None:
    """Only figures that can be figures count; the bytes come back either way."""
    request = request_for(brief=result)
    ended = await call(["sh", "-c", "cat > $INTERLOCK_RESULT"], request)
    assert (ended.result, ended.usage) == (result.encode(), usage)


@pytest.mark.parametrize(
    "make",
    ["ln -s /etc/passwd $INTERLOCK_RESULT", "mkfifo $INTERLOCK_RESULT", "mkdir $INTERLOCK_RESULT",
     "head -c 10000001 /dev/zero > $INTERLOCK_RESULT"],
)  # fmt: skip
async def test_a_result_that_is_no_plain_file_of_at_most_10_mb_counts_as_none(
    request_for: RequestFor, make: str
) -> None:
    """A link does not lead us anywhere and a pipe does not hold us up."""
    ended = await call(["sh", "-c", make], request_for())
    assert (ended.code, ended.result) == (0, None)


async def test_an_earlier_calls_answer_is_set_aside_not_taken(request_for: RequestFor) -> None:
    """A second call in the same folder starts clean, and nothing is lost."""
    request = request_for()
    await call(["sh", "-c", "echo one; echo '{{}}' > $INTERLOCK_RESULT; echo e >&2"], request)
    request.partial_path.touch()
    ended = await call(["sh", "-c", "echo two; test -e $INTERLOCK_PARTIAL && echo asked; true"], request)
    assert (ended.output.read(), ended.result) == (b"two\n", None)
    assert (request.folder / "output.md.1").read_text() == "one\n"
    assert (request.folder / "answer.json.1").read_text() == "{}\n"
    assert (request.folder / "stderr.log.1").read_text() == "e\n"


async def test_a_program_that_cannot_be_started(request_for: RequestFor) -> None:
    """No exit status, the reason named."""
    ended = await call(["no-such-agent"], request_for())
    assert ended.code is None
    assert "no-such-agent" in (ended.spawn_error or "")


@pytest.mark.req("CM-09")
async def test_a_hanging_agent_ends_by_its_deadline_with_what_it_wrote(
    request_for: RequestFor, deadline: Deadline
) -> None:
    """Timed out, process gone, output kept."""
    request, news = request_for(), list[AgentNews]()
    deadline(says(request.output_path, b"begun"))
    ended = await call(["sh", "-c", "echo begun; exec sleep 60"], request, news)
    assert (ended.code, ended.timed_out, ended.partial) == (-signal.SIGTERM, True, False)
    assert ended.output.read() == b"begun\n"
    assert process_table.started(int(str(news[0].data["pid"]))) is None


async def test_partial_results_are_asked_for_by_a_file(request_for: RequestFor) -> None:
    """The file named in the environment appears whole at the deadline, and the answer counts as partial."""
    news: list[AgentNews] = []
    request = request_for(timeout_s=0.2, partial_grace_s=120)
    script = "while ! [ -e $INTERLOCK_PARTIAL ]; do sleep 0.02; done; wc -l < $INTERLOCK_PARTIAL"
    ended = await call(["sh", "-c", script], request, news)
    assert (ended.code, ended.timed_out, ended.partial) == (0, True, True)
    assert ended.output.read().strip() == b"1"
    assert [one.kind for one in news] == ["started", "partial.requested", "ended"]


async def test_without_a_grace_partial_results_are_not_asked_for(request_for: RequestFor) -> None:
    """Most playbooks have no use for them."""
    request = request_for(timeout_s=0.1)
    assert (await call(["sleep", "60"], request)).timed_out
    assert not request.partial_path.exists()


async def test_the_transcript_has_a_line_per_news(request_for: RequestFor) -> None:
    """What was observed is also on disk, with the numbers that a later process needs to end leftovers."""
    news: list[AgentNews] = []
    request = request_for()
    await call(["sleep", "0.05"], request, news)
    lines = [json.loads(line) for line in (request.folder / "transcript.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines] == [one.kind for one in news] == ["started", "ended"]
    assert lines[0]["pid"] == lines[0]["pgid"] == news[0].data["pid"]
    assert isinstance(lines[0]["started"], float)


@pytest.mark.req("CM-29")
async def test_secrets_do_not_reach_the_records(request_for: RequestFor) -> None:
    """An error that quotes one names the variable instead."""
    secret = "hunter2-hunter2"
    ended = await call([f"/{secret}"], request_for(), inherit={"DEPLOY_PASSWORD": secret})
    assert "[redacted:DEPLOY_PASSWORD]" in (ended.spawn_error or "")
    assert secret not in (ended.spawn_error or "")


@pytest.mark.req("CM-21")
async def test_cancelling_a_call_ends_its_program_first(request_for: RequestFor) -> None:
    """When the cancellation goes on nothing is running."""
    pid: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        runner(["sleep", "60"]).call(request_for(), lambda news: pid.set_result(int(str(news.data["pid"]))))
    )
    await pid
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert process_table.started(pid.result()) is None


async def test_health_says_whether_the_program_is_found(tmp_path: Path) -> None:
    """By the PATH that calls will have; a relative program below the root."""
    assert (await runner(["sh"]).health()).ok
    missing = await runner(["no-such-agent"]).health()
    assert not missing.ok
    assert "runners.mine.argv" in (missing.remedy or "")
    assert not (await runner(["sh"], env={"PATH": str(tmp_path)}).health()).ok
    tool = tmp_path / "tools" / "agent"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert (await runner(["tools/agent"], root=tmp_path).health()).ok
    assert not (await runner(["tools/agent"], root=tmp_path / "tools").health()).ok

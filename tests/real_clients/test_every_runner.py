"""One suite for every runner: whatever stands behind it, the engine can rely on the same promises.

The coding agents are the real programs; behind them answers a scripted model.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from interlock.agents import Allowance
from interlock.contracts import Reason
from tests.deadlines import Deadline
from tests.real_clients.subjects import ROLE, SUBJECTS, Bench, Subject, marked, text, until
from tools.clients import MODELS
from tools.model_server import Serving


def each(*more: pytest.MarkDecorator) -> list[object]:
    """All of them; real agents with further marks."""
    return [
        pytest.param(one, id=one.label, marks=[*map(pytest.mark.agents, one.packages), *(more if one.real else ())])
        for one in SUBJECTS
    ]


real_ones_at_length = pytest.mark.parametrize("subject", each(pytest.mark.long), indirect=True)
LEAVES_ITS_GROUP = "@shell setsid sleep 4321 & echo $! > docs/pid.txt; wait"
"""A tool that no signal to the agent's process group reaches."""
AT_WORK = f"@write docs/x.md :: x\n{LEAVES_ITS_GROUP}\n@sleep 300\n@say OK: late"


@pytest.fixture(params=each())
def subject(request: pytest.FixtureRequest) -> Subject:
    found: Subject = request.param
    return found


@pytest.fixture
def bench(subject: Subject, tmp_path: Path, model_server: Serving) -> Bench:
    return Bench(subject, tmp_path / "bench", model_server)


async def test_work_is_done_in_the_workspace_and_the_last_words_are_the_answer(bench: Bench) -> None:
    """Files by tool and by command land in the right folder; the final message comes back; it counts."""
    exit_ = await bench.call("@write docs/note.md :: hello\n@shell pwd > docs/pwd.txt\n@say OK: all is done")
    assert (bench.workspace / "docs" / "note.md").read_text().strip() == "hello"
    assert (bench.workspace / "docs" / "pwd.txt").read_text().strip() == str(bench.workspace.resolve())
    assert text(exit_).strip() == "OK: all is done"
    assert (exit_.code, exit_.fault, exit_.limited, exit_.timed_out) == (0, None, None, False)
    assert bench.processes() == []


@real_ones_at_length
async def test_the_brief_arrives_whole(bench: Bench) -> None:
    """Longer than any command line holds, to the letter; the role stands where this agent takes it, once."""
    words = "“quotes”, $HOME, {env:HOME}, `ticks`, \\ signs, a@keep.org, @code and @code.py"
    filler = "".join(f"Line {number} of a long brief, with {words}.\n" for number in range(3000))
    task = f"# Task\n\nBRIEF-BEGINS\n{filler}BRIEF-ENDS\n\n@say OK: read"
    assert len(task) > 250_000
    model = CHOSEN.get(bench.subject.client)
    exit_ = await bench.furnish().call(task, model=model)
    assert text(exit_).strip() == "OK: read"
    if bench.subject.kind == "scripted":
        return  # nobody receives anything: the scenario knows what to do
    instructions, human = bench.received()
    # Gemini pastes in a file that it is not told to leave alone.
    assert task.strip() in human.replace("\\@code.py", "@code.py")
    assert (instructions.count(ROLE), human.count(ROLE)) == ((1, 0) if bench.subject.role == "system" else (0, 1))
    if model is not None:
        assert bench.model.turns()[0].model == model.rpartition("/")[2]


CHOSEN = {**MODELS, "gemini": "gemini-2.5-flash", "copilot": "gpt-5.4", "claude": "claude-opus-4-5"}
"""Models that clients take on their command line."""


@real_ones_at_length
async def test_without_a_layer_it_edits_in_its_folder(bench: Bench, elsewhere: Path) -> None:
    """By its own rules, or by our answer to its question; commands are free."""
    if not bench.subject.real:
        pytest.skip("is held by nobody but the kernel")
    here = bench.furnish().workspace
    task = f"@write {here}/docs/a.md :: in\n@shell echo x > by-shell.txt\n@write {elsewhere}/out.md :: out\n@say tried"
    await bench.call(task)
    assert bench.files() == {"docs/a.md": "in", "docs/keep.md": "kept", "code.py": "old", "by-shell.txt": "x"}
    assert list(elsewhere.iterdir()) == [] or not bench.subject.held
    assert bench.processes() == []


@pytest.mark.req("LY-16")
async def test_it_ends_at_its_limit_of_cost(bench: Bench) -> None:
    """By itself or by us, where it says while it works what that takes; at most one answer too late."""
    if not bench.subject.counts:
        pytest.skip("says what it took at the end alone")
    allowance = Allowance(usd=0.005) if bench.subject.counts == "usd" else Allowance(tokens=1500)
    steps = "".join(f"@write {bench.workspace}/docs/{number}.md :: x\n@shell echo {number}\n" for number in range(40))
    exit_ = await bench.call(f"@usage 1000 50\n{steps}@say late", allowance=allowance)
    assert exit_.exhausted
    assert exit_.fault is not None
    assert "used up" in exit_.fault.text
    assert len(bench.model.turns()) < 40
    assert bench.processes() == []


@real_ones_at_length
async def test_what_it_did_can_be_watched_and_looked_up(bench: Bench) -> None:
    """Tools and text as they happen; session, tokens and cost where the agent says them, never a made-up zero."""
    exit_ = await bench.call("@usage 1000 50\n@write docs/note.md :: x\n@say OK: all is done")
    assert bench.news[0].kind == "started"
    if not bench.subject.real:
        assert (exit_.session, exit_.usage) == (None, None)
        return
    kinds = [one.kind for one in bench.news]
    assert "tool" in kinds
    assert exit_.session
    if bench.subject.tokens:
        assert exit_.usage is not None
        answers = len(bench.model.turns())
        assert (exit_.usage.input_tokens, exit_.usage.output_tokens) == (answers * 1000, answers * 50)
    cost = exit_.usage.cost_usd if exit_.usage else None
    assert cost is None or cost > 0
    assert (cost is not None) or not bench.subject.cost


async def test_an_error_of_the_model_service_is_no_success(bench: Bench) -> None:
    """Whatever exit status and text the agent makes of it."""
    exit_ = await bench.call("@http 401 the key is wrong", timeout_s=60.0)
    assert exit_.fault is not None or exit_.code != 0
    if bench.subject.real:
        assert exit_.fault is not None
        assert exit_.fault.reason is Reason.AGENT_ERROR
        assert (exit_.limited, exit_.usage) == (None, None)
    assert bench.processes() == []


@pytest.mark.long
async def test_a_time_limit_leaves_nothing_running(bench: Bench, deadline: Deadline) -> None:
    """The deadline passes while a tool works that left the process group: all of it is gone when the call returns."""
    deadline(lambda: is_at_work(bench))
    exit_ = await bench.call(AT_WORK)
    assert exit_.timed_out
    assert bench.processes() == []


async def test_a_cancelled_call_leaves_nothing_running(bench: Bench) -> None:
    """Cancelled in the middle of such a tool: gone before the cancellation goes on."""
    call = bench.begin(AT_WORK)
    await until(lambda: call.done() or is_at_work(bench))
    assert not call.done()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert bench.processes() == []


def is_at_work(bench: Bench) -> bool:
    """Its tool works; the scripted player runs none when it hangs: then its file is there."""
    return (bench.workspace / "docs" / ("x.md" if bench.subject.kind == "scripted" else "pid.txt")).exists()


@real_ones_at_length
async def test_an_agent_that_dies_is_no_success_and_its_tools_die_with_it(bench: Bench) -> None:
    """Killed from outside in the middle of its work."""
    if bench.subject.kind == "scripted":
        pytest.skip("is played in this very process: there is nothing to kill")
    call = bench.begin(AT_WORK)
    await until(lambda: call.done() or (bench.workspace / "docs" / "pid.txt").exists(), 90)
    tool = int((bench.workspace / "docs" / "pid.txt").read_text())
    for pid, _name in marked(bench.marker):
        if pid != tool:
            kill(pid)
    exit_ = await call
    assert exit_.fault is not None or exit_.code != 0
    assert bench.processes() == []


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@real_ones_at_length
async def test_a_huge_answer_comes_back_whole(bench: Bench) -> None:
    """Far more than any model says."""
    exit_ = await bench.call(f"@big {bench.subject.longest}")
    assert exit_.fault is None
    assert exit_.output.size >= bench.subject.longest - 100
    assert not exit_.output.cut


async def test_a_program_that_cannot_be_started_is_told_as_that(bench: Bench) -> None:
    """No exit status, and the reason."""
    if not bench.subject.real:
        pytest.skip("has its own tests (tests/agents)")
    runner = bench.coding_runner("/nowhere/agent", {"PATH": ""})
    exit_ = await runner.call(bench.request("@say hello"), bench.news.append)
    assert exit_.code is None
    assert exit_.spawn_error is not None
    assert "/nowhere/agent" in exit_.spawn_error
    assert not (await runner.health()).ok

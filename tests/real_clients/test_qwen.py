"""Qwen Code itself, behind its runner: role, brief, rules and the errors of its service."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.contracts import Reason
from tests.real_clients.subjects import ROLE, Bench, Subject, text
from tools.model_server import Serving

pytestmark = pytest.mark.agents("qwen")


@pytest.fixture
def bench(tmp_path: Path, model_server: Serving) -> Bench:
    return Bench(Subject("headless", "qwen"), tmp_path / "a bench", model_server).furnish()


async def test_the_role_arrives_as_instructions_and_the_brief_as_the_task(bench: Bench) -> None:
    """300 KB of brief, no file pasted in and no space changed; the model is asked for nothing else."""
    task = "# Task\n\n" + "A line with “quotes”, $HOME, a@keep.org,\n@code.py\n@code.py.\n" * 5000 + "\n@say OK: read"
    exit_ = await bench.call(task, model="other")
    (turn,) = bench.model.log()
    assert text(exit_) == "OK: read"
    assert turn.human.replace("\\@", "@").endswith(task)
    assert len(turn.human) < len(task.replace("@", "\\@")) + 200
    assert ROLE in turn.system
    assert turn.model == "other"


async def test_edits_outside_of_the_scope_are_refused_and_commands_run(bench: Bench) -> None:
    """New files and edits; the shell is held by the comparison afterwards alone."""
    task = f"""\
@write docs/new.md :: in
@write docs/keep.md :: changed
@edit {bench.workspace}/code.py :: old => changed
@write sub/docs/new.md :: out
@shell echo built > artifact.txt && ls / > /dev/null
@say OK: tried"""
    exit_ = await bench.call(task, writes=("docs/**", "!docs/keep.md"))
    assert text(exit_) == "OK: tried"
    assert bench.files() == {
        "docs/new.md": "in",
        "docs/keep.md": "kept",
        "code.py": "old",
        "artifact.txt": "built",
    }
    assert [one.data["state"] for one in bench.news if one.kind == "tool"].count("refused") == 3


async def test_without_a_rule_everything_may_be_edited(bench: Bench) -> None:
    """The comparison afterwards decides then."""
    await bench.call("@write new.md :: in\n@say OK", writes=("**",))
    assert bench.files()["new.md"] == "in"


async def test_a_judge_is_not_even_offered_the_tools_that_edit(bench: Bench) -> None:
    """An empty scope: the model does not know of them, and has the shell."""
    await bench.call("Judge.\n@say OK\n", writes=())
    tools = set(bench.model.turns()[0].tools)
    assert not {"write_file", "edit"} & tools
    assert "run_shell_command" in tools


async def test_an_error_after_good_work_is_no_success(bench: Bench) -> None:
    """Qwen ends with 0 and gives the error as its answer."""
    exit_ = await bench.call("@write docs/new.md :: in\n@http 401 the key is wrong\n@say OK")
    assert exit_.code == 0
    assert exit_.fault is not None
    assert exit_.fault.reason is Reason.AGENT_ERROR
    assert bench.files()["docs/new.md"] == "in"

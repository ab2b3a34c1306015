"""Gemini CLI itself, behind its runner: role, brief, policy and the errors of its service."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real_clients.subjects import ROLE, Bench, Subject, text
from tools.model_server import Serving

pytestmark = pytest.mark.agents("gemini")


@pytest.fixture
def bench(tmp_path: Path, model_server: Serving) -> Bench:
    return Bench(Subject("headless", "gemini"), tmp_path / "bench", model_server).furnish()


async def test_the_role_arrives_as_instructions_and_the_brief_as_the_task(bench: Bench) -> None:
    """300 KB of brief to the letter, also with words after ``@`` that look like parts of the names of files."""
    task = "# Task\n\n" + "A line with “quotes”, $HOME, a@keep.org, @code and @@ in it.\n" * 5000 + "\n@say OK: read"
    exit_ = await bench.call(task, model="gemini-2.5-flash")
    turn = bench.model.turns()[0]
    assert text(exit_) == "OK: read"
    assert turn.human == task
    assert turn.system.startswith(ROLE)
    assert ROLE not in turn.human
    assert turn.model == "gemini-2.5-flash"


async def test_a_file_that_the_brief_names_after_an_at_sign_is_not_pasted_in(bench: Bench) -> None:
    """The name alone arrives, marked as gemini wants it; line breaks and all the rest stay."""
    await bench.call("Look at @docs/keep.md\nand at @docs,\n  please.\n@say OK")
    assert bench.model.turns()[0].human == "Look at \\@docs/keep.md\nand at \\@docs,\n  please.\n@say OK"


async def test_edits_outside_of_the_scope_are_refused_and_commands_run(bench: Bench) -> None:
    """By relative and absolute path, new files and edits; the shell is held by the comparison afterwards alone."""
    task = f"""\
@write docs/new.md :: in
@write {bench.workspace}/docs/deep/new.md :: in
@write docs/../detour.md :: out
@write docs/keep.md :: changed
@edit {bench.workspace}/code.py :: old => changed
@shell echo built > artifact.txt
@say OK: tried"""
    exit_ = await bench.call(task, writes=("docs/**", "!docs/keep.md"))
    assert text(exit_) == "OK: tried"
    assert bench.files() == {
        "docs/new.md": "in",
        "docs/deep/new.md": "in",
        "docs/keep.md": "kept",
        "code.py": "old",
        "artifact.txt": "built",
    }
    states = [one.data["state"] for one in bench.news if one.kind == "tool" and one.data["state"] != "began"]
    assert states == ["done", "done", "refused", "refused", "refused", "done"]


async def test_a_judge_is_not_even_offered_the_tools_that_edit(bench: Bench) -> None:
    """An empty scope: the model does not know of them."""
    await bench.call("Judge.\n@say OK\n", writes=())
    assert not {"write_file", "replace"} & set(bench.model.turns()[0].tools)


async def test_what_the_user_has_forbidden_stays_forbidden(bench: Bench) -> None:
    """Our policy adds prohibitions and lifts none."""
    own = bench.home / ".gemini" / "policies" / "mine.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[[rule]]\ntoolName = "web_fetch"\ndecision = "deny"\npriority = 100\n')
    await bench.call("@say OK\n", writes=("docs/**",))
    assert "web_fetch" not in bench.model.turns()[0].tools


async def test_a_limit_of_the_service_is_told_as_one(bench: Bench) -> None:
    """The engine waits then, and does not count it as a failure."""
    exit_ = await bench.call("@retry_after 0.01\n@http 429 too many requests")
    assert exit_.limited is not None
    assert exit_.fault is not None
    assert exit_.usage is None


async def test_a_deadline_leaves_no_process(bench: Bench) -> None:
    """In the middle of a command in a session of its own."""
    exit_ = await bench.call("@shell sleep 300\n@say late", timeout_s=8.0)
    assert exit_.timed_out
    assert bench.processes() == []

"""Gemini CLI itself, behind its runner: role, brief, policy and the errors of its service."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deadlines import Deadline
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


async def test_without_a_layer_it_works_in_its_folder(bench: Bench) -> None:
    """Edits there are made and commands run; an edit elsewhere is not."""
    task = f"""\
@write docs/new.md :: in
@edit {bench.workspace}/code.py :: old => changed
@write {bench.home}/out.md :: out
@shell echo built > artifact.txt && ls / > /dev/null
@say OK: tried"""
    exit_ = await bench.call(task)
    assert text(exit_) == "OK: tried"
    assert bench.files() == {
        "docs/new.md": "in",
        "docs/keep.md": "kept",
        "code.py": "changed",
        "artifact.txt": "built",
    }
    assert not (bench.home / "out.md").exists()


async def test_what_the_user_has_forbidden_stays_forbidden(bench: Bench) -> None:
    """Our policy lifts nothing."""
    own = bench.home / ".gemini" / "policies" / "mine.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[[rule]]\ntoolName = "web_fetch"\ndecision = "deny"\npriority = 100\n')
    await bench.call("@say OK\n")
    assert "web_fetch" not in bench.model.turns()[0].tools


async def test_a_limit_of_the_service_is_told_as_one(bench: Bench) -> None:
    """The engine waits then, and does not count it as a failure."""
    exit_ = await bench.call("@retry_after 0.01\n@http 429 too many requests")
    assert exit_.limited is not None
    assert exit_.fault is not None
    assert exit_.usage is None


async def test_a_deadline_leaves_no_process(bench: Bench, deadline: Deadline) -> None:
    """In the middle of a command in a session of its own."""
    deadline(lambda: any("sleep" in one for one in bench.processes()))
    exit_ = await bench.call("@shell sleep 300\n@say late")
    assert exit_.timed_out
    assert bench.processes() == []

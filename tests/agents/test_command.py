"""The plain protocol: any program that reads a brief and writes an answer is an agent."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from interlock.agents.command import Command
from interlock.agents.values import Exit
from tests.agents.conftest import Calls, Program

FORM = {"type": "object", "properties": {"status": {"type": "string"}}}
Run = Callable[..., Awaitable[Exit]]


@pytest.fixture
def run(calls: Calls, program: Program) -> Run:
    env = {"MODEL": "small", "INTERLOCK_AGENT": "builder", "INTERLOCK_ATTEMPT": "2"}
    calls.given |= {"form": FORM, "env": env}
    return lambda source, *words, **asked: calls(Command(*program(source), *words), **{"model": "small", **asked})


@pytest.mark.req("AGENT-01")
async def test_the_protocol_is_kept_to_the_letter(run: Run, calls: Calls) -> None:
    """Brief on standard input and in a file, the form's schema in another, the dispatch's variables, the folder;
    what is filled into an argument is never filled again; odd letters arrive as they are recorded."""
    exit_ = await run(
        """
        import json, os, sys
        brief = sys.stdin.buffer.read().decode()
        assert brief == open(os.environ["INTERLOCK_BRIEF"], encoding="utf-8").read()
        schema = json.load(open(os.environ["INTERLOCK_SCHEMA"]))
        json.dump({"status": "done", "schema": schema}, open(os.environ["INTERLOCK_RESULT"], "w"))
        names = sorted(name for name in os.environ if name.startswith("INTERLOCK_"))
        print(json.dumps([brief, os.getcwd(), os.environ["MODEL"], names, sys.argv[1:]]))
        """,
        "{agent}-{attempt}-{model}",
        "{{other}}",
        brief="# Do it ü \ud800 \udcff\n",
        model="{agent}",
    )
    assert exit_.finished
    assert exit_.form == {"status": "done", "schema": FORM}
    brief, folder, model, names, words = json.loads(exit_.text)
    assert (brief, folder, model) == ("# Do it ü \\ud800 \\udcff\n", str(calls.layer.root), "small")
    assert words == ["builder-2-{agent}", "{{other}}"]
    told = {"AGENT", "ATTEMPT", "BRIEF", "MARKER", "PARTIAL", "RESULT", "SCHEMA"}
    assert names == sorted(f"INTERLOCK_{name}" for name in told)


@pytest.mark.req("EVID-10")
@pytest.mark.parametrize(
    ("source", "text", "form"),
    [
        ("", "", None),
        ('import os; print(os.environ.get("INTERLOCK_SCHEMA"))', "None\n", None),
        (
            'import os; open(os.environ["INTERLOCK_RESULT"], "w").write("{")',
            "",
            "the file that INTERLOCK_RESULT names is no JSON",
        ),
    ],
)
async def test_an_end_with_0_is_the_end_of_its_turn(run: Run, source: str, text: str, form: Any) -> None:
    """Also without a word; where no form is asked for no variable names a schema; a broken one is the complaint."""
    exit_ = await run(source, form=None)
    assert (exit_.finished, exit_.trouble, exit_.text, exit_.form) == (True, None, text, form)


@pytest.mark.parametrize(
    ("argv", "finished"),
    [
        (("tools/agent",), True),
        (("sh", "tools/agent"), True),
        (("./tools/agent",), True),
        (("sh", "agent"), False),
        (("agent",), False),
    ],
)
async def test_paths_of_the_settings_count_from_the_top_wherever_it_works(
    calls: Calls, argv: tuple[str, ...], finished: bool
) -> None:
    """Its folder is where people stood."""
    file, below = calls.layer.root / "tools/agent", calls.layer.root / "below"
    below.mkdir()
    file.parent.mkdir()
    file.write_text("#!/bin/sh\npwd\n")
    file.chmod(0o755)
    exit_ = await calls(Command(*argv), place="below")
    assert (exit_.finished, exit_.text) == (finished, f"{below}\n" if finished else "")

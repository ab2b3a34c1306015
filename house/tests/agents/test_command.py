"""The plain protocol: any program that reads a brief and writes an answer is an agent."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.agents.client import call
from interlock.agents.command import Command, filled
from interlock.agents.environment import Environment
from interlock.agents.redaction import Redaction
from interlock.agents.values import Ask, Exit, Role, TroubleKind
from tests.real import NoLayer

FORM = {"type": "object", "properties": {"status": {"type": "string"}}}
Run = Callable[..., Awaitable[Exit]]


@pytest.fixture
def run(no_layer: NoLayer, marker: str, program: Callable[[str], list[str]]) -> Run:
    async def go(source: str, *words: str, **fields: Any) -> Exit:
        given: dict[str, Any] = {"brief": "# Do it ü\n", "form": FORM, "marker": marker, "timeout_s": 600}
        ask = Ask(
            role=Role(name="builder", runner="mine", type="command", model="small"),
            env={"MODEL": "small", "INTERLOCK_AGENT": "builder", "INTERLOCK_ATTEMPT": "2"},
            transcript=no_layer.exchange / "transcript",
            **{**given, **fields},
        )
        environment = Environment({"PATH": "/usr/bin:/bin"})
        client = Command(*program(source), *words)
        return await call(client, ask, no_layer, lambda news: None, Redaction(), env=environment)

    return go


@pytest.mark.req("AGENT-01")
async def test_the_protocol_is_kept_to_the_letter(run: Run, no_layer: NoLayer) -> None:
    """Brief on standard input and in a file, the form's schema in another, the dispatch's variables, the folder."""
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
        "{other}",
    )
    assert exit_.finished
    assert exit_.form == {"status": "done", "schema": FORM}
    brief, folder, model, names, words = json.loads(exit_.text)
    assert (brief, folder, model) == ("# Do it ü\n", str(no_layer.root), "small")
    assert words == ["builder-2-small", "{other}"]
    told = {"AGENT", "ATTEMPT", "BRIEF", "MARKER", "PARTIAL", "RESULT", "SCHEMA"}
    assert names == sorted(f"INTERLOCK_{name}" for name in told)


async def test_without_a_form_there_is_no_schema(run: Run) -> None:
    """A variable that names no file would be a lie."""
    exit_ = await run('import os; print(os.environ.get("INTERLOCK_SCHEMA"))', form=None)
    assert (exit_.text, exit_.form) == ("None\n", None)


@pytest.mark.req("EVID-10")
async def test_an_end_with_0_is_the_end_of_its_turn(run: Run) -> None:
    """Also without a word: whether it changed anything is seen elsewhere."""
    exit_ = await run("")
    assert (exit_.finished, exit_.text, exit_.trouble) == (True, "", None)


@pytest.mark.req("EVID-10", "AGENT-04")
@pytest.mark.parametrize(
    ("source", "how", "kind"),
    [
        ("import sys; print('done'); sys.exit('no idea')", "exit status 1: no idea", TroubleKind.OTHER),
        ("import sys; sys.exit('429 Too Many Requests')", "429", TroubleKind.LIMIT),
        ("import os; os.kill(os.getpid(), 9)", "signal 9", TroubleKind.OTHER),
    ],
)
async def test_any_other_end_is_a_failure_in_its_own_words(run: Run, source: str, how: str, kind: TroubleKind) -> None:
    """Whatever it has printed."""
    exit_ = await run(source)
    assert not exit_.finished
    assert exit_.trouble is not None
    assert (how in exit_.trouble.text, exit_.trouble.kind) == (True, kind)


async def test_a_result_that_is_no_json_is_said(run: Run) -> None:
    """The one who reads forms hands that on as the complaint."""
    exit_ = await run('import os; open(os.environ["INTERLOCK_RESULT"], "w").write("{")')
    assert exit_.form == "the file that INTERLOCK_RESULT names is no JSON"


async def test_a_result_of_an_earlier_call_is_none_of_this_one(run: Run) -> None:
    """Nothing that lies in the exchange can be taken for an answer."""
    await run('import os; open(os.environ["INTERLOCK_RESULT"], "w").write("1")')
    assert (await run("print('hi')")).form is None


async def test_a_program_that_is_not_there_was_not_started(no_layer: NoLayer, marker: str) -> None:
    """That is said with its name."""
    role = Role(name="b", runner="mine", type="command")
    ask = Ask(role=role, brief="", marker=marker, transcript=Path("/dev/null"))
    environment = Environment({"PATH": "/usr/bin:/bin"})
    exit_ = await call(Command("no-such-program"), ask, no_layer, lambda news: None, Redaction(), env=environment)
    assert (exit_.started, exit_.finished) == (False, False)
    assert exit_.trouble is not None
    assert "no-such-program" in exit_.trouble.text


def test_what_is_filled_in_is_never_filled_again() -> None:
    """Values may hold braces; what is no placeholder stays as it is."""
    ask = Ask(role=Role(name="{model}", runner="m", type="command", model="x"), brief="", transcript=Path("t"))
    assert filled(("{agent}", "{{agent}}", "{a: 1}"), ask) == ("{model}", "{{model}}", "{a: 1}")

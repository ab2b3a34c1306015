"""However long a role is: every agent can be started, and nothing of the role is lost."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from interlock.agents.coding.acp_profiles import profile_of
from interlock.agents.coding.catalogue import KNOWN, dialect_of
from interlock.agents.coding.dialect import ARGUMENT_LIMIT, Ask, RoleText, fits

NAMES = [agent.name for agent in KNOWN]
TEXTS = {
    "short": "You do x.",
    "umlauts": "ü" * 60_000,
    "lines": 'a "b"\n' * 18_000,
    "just too long": "x" * ARGUMENT_LIMIT,
    "far too long": "Line of a role.\n" * 20_000,
}


def ask_for(text: str, place: Path, **more: Any) -> Ask:
    return Ask("the task", place, place / "records", RoleText("interlock-x", "d", text), **more)


def starts(argv: Iterable[str], env: Mapping[str, str]) -> bool:
    """Whether the system takes it; the program itself is another."""
    program = shutil.which("true")
    assert program is not None
    return subprocess.run([program, *argv], env=dict(env), check=False).returncode == 0


def holds(text: str, places: Iterable[str]) -> bool:
    forms = (text, json.dumps(text, ensure_ascii=False)[1:-1])
    return any(form in place for place in places for form in forms)


def test_what_fits_is_what_the_system_takes() -> None:
    """By bytes, not by characters; one more is refused."""
    assert fits("ü" * (ARGUMENT_LIMIT // 2))
    assert starts(["x" * ARGUMENT_LIMIT], {})
    assert not fits("ü" * (ARGUMENT_LIMIT // 2) + "xx")
    with pytest.raises(OSError, match="too long"):
        starts(["x" * (ARGUMENT_LIMIT + 1)], {})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("confined", [False, True])
def test_every_agent_can_be_started_and_has_its_role_once(name: str, text: str, confined: bool, tmp_path: Path) -> None:
    """Apart from the task where it fits, in its finished form; else at the head of the prompt."""
    call = dialect_of(name).invocation(name, ask_for(text, tmp_path, confined=confined))
    assert starts(call.argv[1:], call.env)
    apart = holds(text, [*call.argv, *call.env.values(), *call.files.values()])
    assert call.stdin == ("the task" if apart else f"{text}\n\nthe task")
    assert apart or len(text) > 60_000


@pytest.mark.parametrize("name", NAMES)
def test_a_role_that_needs_no_argument_has_no_limit(name: str, tmp_path: Path) -> None:
    """Two agents take it as a file, the others on their command line or in a variable."""
    call = dialect_of(name).invocation(name, ask_for(TEXTS["far too long"], tmp_path))
    assert (call.stdin == "the task") == (name in ("copilot", "gemini"))


def test_claude_is_not_expected_to_know_a_role_that_stayed_in_the_prompt(tmp_path: Path) -> None:
    """Its first event names the roles it knows."""
    init = {"type": "system", "subtype": "init", "agents": []}
    for text, known in (("short", False), (TEXTS["far too long"], True)):
        reader = dialect_of("claude").reader(ask_for(text, tmp_path))
        list(reader.take(init))
        assert (reader.conclude().trouble is None) == known


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_agent_can_be_opened_by_protocol(name: str, text: str, tmp_path: Path) -> None:
    """What is not in the opening goes with the prompt."""
    opening = profile_of(name).opening(ask_for(text, tmp_path))
    assert starts(opening.args, opening.env)
    places = [
        *opening.args,
        *opening.env.values(),
        *opening.files.values(),
        json.dumps(opening.meta, ensure_ascii=False),
    ]
    assert holds(text, places) == opening.role_given

"""How each client is started: pure, from what is asked and where it sits."""

from __future__ import annotations

import importlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from interlock.agents.client import Client, Seat, Start
from interlock.agents.gemini import taken_literally
from interlock.agents.schemas import plain, strict
from interlock.agents.values import Ask, Role

CLIENTS = ("claude", "codex", "copilot", "gemini", "opencode", "qwen")
FORM = {
    "type": "object",
    "$defs": {"Item": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "unchanged": 3}},
    "properties": {
        "items": {"type": "array", "items": {"oneOf": [{"$ref": "#/$defs/Item"}], "discriminator": {}}},
        "when": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}], "default": None},
        "word": {"enum": ["a", "b"], "type": "string"},
    },
    "required": ["word"],
}


def start(name: str, *, confined: bool = True, brief: str = "Do it.", model: str = "", **asked: Any) -> Start:
    module: Client = importlib.import_module(f"interlock.agents.{name}")
    role = Role(name="tester", runner=name, type=name, model=model)
    seat = Seat(name, confined, Path("/work"), "/exchange", "NEW")
    return module.start(Ask(role=role, brief=brief, transcript=Path("/t"), **asked), seat)


def follows(made: Start, *words: str) -> bool:
    """Whether these stand in the command line, in a row."""
    return "\0".join(("", *words, "")) in "\0".join(("", *made.argv, ""))


@pytest.mark.req("AGENT-01", "RUN-19")
@pytest.mark.parametrize("name", CLIENTS)
def test_a_brief_of_any_size_is_no_argument(name: str) -> None:
    """Linux takes 128 KiB; the settings' words, model and session stand on the command line, which starts."""
    schema = {"type": "object", "properties": {"x": {"type": "string", "description": "d" * 200_000}}}
    made = start(name, brief="ü" * 200_000, model="m-1", form=schema, session="S-1", budget_usd=1, budget_tokens=9)
    assert made.stdin == "ü" * 200_000
    line = " ".join(made.argv)
    assert "m-1" in line
    assert "S-1" in line
    subprocess.run(["true", *made.argv[1:]], check=True, env={"PATH": "/usr/bin:/bin", **made.env})


@pytest.mark.parametrize(
    ("name", "confined", "free"),
    [
        ("claude", "--dangerously-skip-permissions", "--permission-mode"),
        ("codex", "--dangerously-bypass-approvals-and-sandbox", 'default_permissions="interlock"'),
    ],
)
def test_where_the_kernel_holds_it_a_client_is_not_held_twice(name: str, confined: str, free: str) -> None:
    """Else it is held by its own rules, which know the exchange."""
    assert confined in start(name).argv
    assert free not in start(name).argv
    held = start(name, confined=False)
    assert confined not in held.argv
    assert free in held.argv
    assert "/exchange" in " ".join(held.argv)


def test_root_may_be_let_free_in_a_layer() -> None:
    """Claude Code refuses that to root unless it is told of a sandbox; elsewhere it is not told so."""
    assert start("claude").env["IS_SANDBOX"] == "1"
    assert "IS_SANDBOX" not in start("claude", confined=False).env


@pytest.mark.req("RUN-14")
def test_a_share_of_the_budget_goes_to_clients_that_take_one() -> None:
    """In dollars, in tokens; of nothing almost nothing is left."""
    assert follows(start("claude", budget_usd=0.5), "--max-budget-usd", "0.500000")
    assert follows(start("claude", budget_usd=0), "--max-budget-usd", "0.000001")
    assert "features.rollout_budget.limit_tokens=1000 " in " ".join(start("codex", budget_tokens=1000).argv)
    assert "--max-budget-usd" not in start("claude").argv


@pytest.mark.req("AGENT-05")
def test_a_session_goes_on_or_gets_a_name() -> None:
    """Copilot would tell the name of a new one at its end alone."""
    assert follows(start("codex", session="S"), "exec", "--color", "never", "resume")
    assert start("codex", session="S").argv[-2:] == ("S", "-")
    assert "--session-id=NEW" in start("copilot").argv
    assert "--resume=S" in start("copilot", session="S").argv


@pytest.mark.req("EVID-01")
def test_a_form_is_handed_over_in_the_part_of_the_language_that_the_client_knows() -> None:
    """Claude Code ignores a schema with an unknown keyword; OpenAI's services refuse one that is not strict."""
    argv = start("claude", form=FORM).argv
    schema = json.loads(argv[argv.index("--json-schema") + 1])
    assert schema == plain(FORM)
    assert not {"discriminator", "unchanged", "format", "oneOf"} & _keys(schema)
    assert schema["$defs"]["Item"]["properties"]["n"] == {"type": "integer", "minimum": 1}
    made = start("codex", form=FORM)
    assert follows(made, "--output-schema", "/exchange/schema-codex.json")
    strictly = json.loads(made.files["schema-codex.json"])
    assert strictly["required"] == ["items", "when", "word"]
    assert strictly["$defs"]["Item"] == {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }


def _keys(value: Any) -> set[str]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {*(value if isinstance(value, dict) else ()), *(key for one in inner for key in _keys(one))}


@pytest.mark.parametrize(
    "field",
    [
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "array"},
        {},
    ],
)
def test_a_form_that_cannot_be_said_strictly_is_not_said(field: dict[str, Any]) -> None:
    """The brief has it all the same."""
    form = {"type": "object", "properties": {"x": field}}
    assert strict(form) is None
    assert not start("codex", form=form).files
    assert strict({"type": "array", "items": {"type": "string"}}) is None


@pytest.mark.parametrize("name", ["gemini", "qwen", "opencode"])
def test_nothing_is_fetched_or_reported_by_itself(name: str) -> None:
    """By the lowest of its settings, so that all that a person has set stays."""
    made = start(name)
    text = " ".join([*made.files.values(), *made.env.values()])
    assert '"enableAutoUpdate": false' in text or '"autoupdate": false' in text
    assert not any(path.startswith("/") for path in made.files)


def test_a_brief_is_no_command_and_no_file_is_pasted_into_it(tmp_path: Path) -> None:
    """Of words behind an "@" those that are files get a backslash; a slash at the very beginning would be a command."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a b.py").touch()
    for said, passed in (
        ("@src and @nowhere, a@b.c", "\\@src and @nowhere, a@b.c"),
        ('see @"src/a b.py".', 'see \\@"src/a b.py".'),
        ("already \\@src", "already \\@src"),
        ("/help me", "\n/help me"),
        ("@" + "x" * 5000 + "\0", "@" + "x" * 5000 + "\0"),
    ):
        assert taken_literally(said, tmp_path) == passed
    assert "gemini-policy.toml" in start("gemini", brief="ask @somebody").files
    assert "gemini-policy.toml" not in start("gemini").files

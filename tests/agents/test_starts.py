"""How each client is started: pure, from what is asked and where it sits."""

from __future__ import annotations

import importlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from interlock.agents.client import Client, Start
from interlock.agents.clients.gemini import taken_literally
from interlock.agents.schemas import plain, strict
from interlock.agents.values import Ask, Role, Room

CLIENTS = ("claude", "codex", "copilot", "gemini", "opencode", "qwen")
ITEM: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
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
    module: Client = importlib.import_module(f"interlock.agents.clients.{name}")
    role = Role(name="tester", runner=name, type=name, model=model)
    room = Room(name, confined, Path("/work"), "/exchange", "NEW")
    return module.start(Ask(role=role, brief=brief, transcript=Path("/t"), **asked), room)


@pytest.mark.req("AGENT-01", "RUN-19")
@pytest.mark.parametrize("name", CLIENTS)
def test_a_brief_of_any_size_is_no_argument(name: str) -> None:
    """Linux takes 128 KiB; the settings' words, model and session stand on the command line, which starts."""
    schema = {"type": "object", "properties": {"x": {"type": "string", "description": "d" * 100_000}}}
    made = start(name, brief="ü" * 200_000, model="m-1", form=schema, session="S-1", budget_usd=1, budget_tokens=9)
    assert made.stdin == "ü" * 200_000
    line = " ".join(made.argv)
    assert "=m-1" in line  # no option, whatever a role's file says
    assert "=S-1" in line or "-- S-1" in line
    subprocess.run(["true", *made.argv[1:]], check=True, env={"PATH": "/usr/bin:/bin", **made.env})


QUIET = '"enableAutoUpdate": false'
ROWS: list[tuple[str, dict[str, Any], str, str]] = [
    # Where the kernel holds it, it is not held twice; else by its own rules, which know the exchange.
    ("claude", {}, "--dangerously-skip-permissions IS_SANDBOX=1", "--permission-mode"),
    ("claude", {"confined": False}, "--permission-mode /exchange", "--dangerously-skip-permissions IS_SANDBOX"),
    ("codex", {}, "--dangerously-bypass-approvals-and-sandbox", "default_permissions"),
    ("codex", {"confined": False}, 'default_permissions="interlock" /exchange', "--dangerously-bypass"),
    # A share of the budget in dollars or tokens; of nothing almost nothing is left.
    ("claude", {"budget_usd": 0.5}, "--max-budget-usd 0.500000", ""),
    ("claude", {"budget_usd": 0}, "--max-budget-usd 0.000001", ""),
    ("claude", {"budget_tokens": 1000}, "", "--max-budget-usd"),
    ("codex", {"budget_tokens": 1000}, "features.rollout_budget.limit_tokens=1000", ""),
    # A session goes on; Copilot would tell the name of a new one at its end alone.
    ("codex", {"session": "S"}, "exec resume S", ""),
    ("copilot", {"session": "S"}, "--resume=S", "--session-id"),
    ("copilot", {}, "--session-id=NEW", "--resume"),
    # Nothing is fetched or reported by itself, by the lowest settings: all that a person has set stays.
    ("gemini", {}, f"{QUIET} gemini-settings.json=", "gemini-policy.toml"),
    ("gemini", {"brief": "ask @somebody"}, "gemini-policy.toml=", ""),
    ("qwen", {}, f"{QUIET} qwen-settings.json=", ""),
    ("opencode", {}, '"autoupdate": false', ""),
]


@pytest.mark.req("RUN-14", "AGENT-05")
@pytest.mark.parametrize(("name", "asked", "there", "absent"), ROWS)
def test_how_a_client_is_started(name: str, asked: dict[str, Any], there: str, absent: str) -> None:
    """What is to stand in its command line, variables or files, and what not."""
    made = start(name, **asked)
    said = " ".join((*made.argv, *(f"{key}={value}" for key, value in {**made.env, **made.files}.items())))
    assert [word for word in there.split() if word not in said] == []
    assert [word for word in absent.split() if word in said] == []


@pytest.mark.req("EVID-01")
def test_a_form_is_handed_over_in_the_part_of_the_language_that_the_client_knows() -> None:
    """Claude Code ignores a schema with an unknown keyword; OpenAI's services refuse one that is not strict."""
    argv = start("claude", form=FORM).argv
    schema = json.loads(argv[argv.index("--json-schema") + 1])
    assert schema == plain(FORM)
    assert not {"discriminator", "unchanged", "format", "oneOf"} & _keys(schema)
    assert schema["$defs"]["Item"]["properties"]["n"] == {"type": "integer", "minimum": 1}
    made = start("codex", form=FORM)
    assert "/exchange/schema-codex.json" in made.argv
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
    "field", [{**ITEM, "additionalProperties": {"type": "integer"}}, {"type": "object"}, {"type": "array"}, {}]
)
def test_a_form_that_cannot_be_said_strictly_is_not_said(field: dict[str, Any]) -> None:
    """The brief has it all the same."""
    form = {"type": "object", "properties": {"x": field}}
    assert strict(form) is None
    assert not start("codex", form=form).files
    assert strict({"type": "array", "items": {"type": "string"}}) is None


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

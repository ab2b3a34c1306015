"""How each agent is started and opened: role, model, and what makes it ask before it edits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.agents.coding.acp_profiles import PLAIN, profile_of
from interlock.agents.coding.dialect import Ask, RoleText

ROLE = RoleText("interlock-roadmap-implement", "implements", 'You are "R".\nüñ')
ASK = Ask("the task", Path("/w"), Path("/records"), role=ROLE, model="large", args=("--own", "1"))
NAMES = ("claude", "codex", "opencode", "gemini", "qwen", "copilot", "acp")


@pytest.mark.parametrize("name", NAMES)
def test_the_settings_arguments_stand_last(name: str) -> None:
    """After the profile's own, so that they can override them."""
    assert profile_of(name).opening(ASK).args[-2:] == ("--own", "1")
    assert profile_of(name).name == name


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_said_of_a_role_and_a_model_that_are_not_given(name: str) -> None:
    """The agent's own choice stays its own."""
    opening = profile_of(name).opening(replace(ASK, role=None, model=None, args=()))
    assert not (opening.role_given or opening.model_given or opening.files)
    given = json.dumps([opening.args, dict(opening.env), opening.meta], default=dict)
    assert "model" not in given
    assert "prompt" not in given.lower()


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_that_says_it_hands_over_a_role_does(name: str) -> None:
    """Whole, in arguments, environment, files or the request for a session; others leave it to the prompt."""
    opening = profile_of(name).opening(ASK)
    places: list[Any] = [*opening.args, *opening.env.values(), *opening.files.values(), json.dumps(dict(opening.meta))]
    inside = any(ROLE.text in place or json.dumps(ROLE.text)[1:-1] in place or _in_json(place) for place in places)
    assert inside == opening.role_given == (name not in ("codex", "gemini", "acp"))


def _in_json(place: str) -> bool:
    return json.dumps(ROLE.text, ensure_ascii=False)[1:-1] in place


def test_files_lie_in_the_record_folder() -> None:
    """Never in the workspace, never in the user's home."""
    for name in NAMES:
        for path in profile_of(name).opening(ASK).files:
            assert path.is_relative_to(ASK.folder)


def test_claude_asks_before_every_edit_whatever_the_user_allows_himself() -> None:
    """And starts in the mode that asks."""
    opening = profile_of("claude").opening(ASK)
    options = opening.meta["claudeCode"]["options"]
    assert options["settings"]["permissions"]["ask"] == ["Edit", "Write", "NotebookEdit"]
    assert (options["model"], opening.mode) == ("large", "default")
    assert opening.meta["systemPrompt"] == {"append": ROLE.text}


def test_codex_is_read_only_where_commands_must_leave_nothing() -> None:
    """Then it asks before each edit; else its sandbox ends at the workspace."""
    codex = profile_of("codex")
    assert codex.opening(replace(ASK, shell_writes=False)).mode == "read-only"
    assert codex.opening(ASK).mode == "workspace-write"
    assert json.loads(codex.opening(ASK).env["CODEX_CONFIG"]) == {"model": "large"}
    assert codex.opening(replace(ASK, model=None)).env == {}


def test_opencode_gets_its_role_as_an_agent_of_its_own() -> None:
    """Which asks before edits, goes on after a refusal, and must be the session's mode."""
    opening = profile_of("opencode").opening(ASK)
    config = json.loads(opening.env["OPENCODE_CONFIG_CONTENT"])
    agent = config["agent"][ROLE.name]
    assert (agent["prompt"], agent["permission"]["edit"], opening.mode) == (ROLE.text, "ask", ROLE.name)
    assert config["experimental"]["continue_loop_on_deny"] is True
    assert config["model"] == "large"
    assert profile_of("opencode").opening(replace(ASK, role=None)).mode == "interlock"


def test_an_unknown_agent_is_taken_to_need_nothing() -> None:
    """Any program that speaks the protocol can be used."""
    assert profile_of("acp") is PLAIN
    assert profile_of("somebody") is PLAIN
    assert PLAIN.opening(ASK).args == ("--own", "1")

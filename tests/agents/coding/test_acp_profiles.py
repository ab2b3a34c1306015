"""How each agent is started and opened: role, model, and how it is freed of its own permissions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.agents.coding.acp_profiles import PLAIN, profile_of
from interlock.agents.coding.dialect import Ask, RoleText
from interlock.agents.runner import Allowance
from tests.agents.coding.tables import TEXTS, holds, starts

ROLE = RoleText("interlock-roadmap-implement", "implements", 'You are "R".\nüñ')
ASK = Ask("the task", Path("/w"), Path("/records"), role=ROLE, model="large", args=("--own", "1"))
NAMES = ("claude", "codex", "qwen", "acp")


@pytest.mark.parametrize("name", NAMES)
def test_the_settings_arguments_stand_last(name: str) -> None:
    """After the profile's own, so that they can override them."""
    assert profile_of(name).opening(ASK).args[-2:] == ("--own", "1")
    assert profile_of(name).name == name


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_said_of_a_role_and_a_model_that_are_not_given(name: str) -> None:
    """The agent's own choice stays its own."""
    opening = profile_of(name).opening(replace(ASK, role=None, model=None, args=()))
    assert not (opening.role_given or opening.model_given)
    given = json.dumps([opening.args, dict(opening.env), opening.meta], default=dict)
    assert "--model" not in given
    assert "prompt" not in given.lower()


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_that_says_it_hands_over_a_role_does(name: str) -> None:
    """Whole, in arguments, environment, files or the request for a session; others leave it to the prompt."""
    opening = profile_of(name).opening(ASK)
    meta = json.dumps(dict(opening.meta), ensure_ascii=False)
    inside = holds(ROLE.text, [*opening.args, *opening.env.values(), *opening.files.values(), meta])
    assert inside == opening.role_given == (name in ("claude", "qwen"))


def test_files_lie_in_the_folder_of_the_call() -> None:
    """Never in the workspace, never in the user's home."""
    for name in NAMES:
        for path in profile_of(name).opening(ASK).files:
            assert path.is_relative_to(ASK.folder)


@pytest.mark.req("LY-13")
@pytest.mark.parametrize(
    ("name", "free", "held"),
    [
        ("claude", "bypassPermissions", "acceptEdits"),
        ("codex", "agent-full-access", "workspace-write"),
        ("qwen", "yolo", "default"),
        ("acp", None, None),
    ],
)
def test_the_mode_is_free_where_the_kernel_holds_the_agent(name: str, free: str | None, held: str | None) -> None:
    """Else the one that ends at the workspace, or asks us."""
    assert profile_of(name).opening(replace(ASK, confined=True)).mode == free
    assert profile_of(name).opening(ASK).mode == held


@pytest.mark.req("LY-13")
def test_claude_is_told_that_it_is_held() -> None:
    """As root it would not offer the mode."""
    assert profile_of("claude").opening(replace(ASK, confined=True)).env["IS_SANDBOX"] == "1"
    assert "IS_SANDBOX" not in profile_of("claude").opening(ASK).env


def test_claude_gets_role_and_model_with_the_request_for_a_session() -> None:
    """Beside what the protocol has."""
    opening = profile_of("claude").opening(ASK)
    assert opening.meta["claudeCode"]["options"] == {"model": "large"}
    assert opening.meta["systemPrompt"] == {"append": ROLE.text}


def test_codex_gets_its_model_as_a_setting() -> None:
    """None where none is chosen."""
    codex = profile_of("codex")
    assert json.loads(codex.opening(ASK).env["CODEX_CONFIG"]) == {"model": "large"}
    assert codex.opening(replace(ASK, model=None)).env == {}


@pytest.mark.req("LY-16")
def test_agents_that_know_a_limit_of_cost_are_given_theirs() -> None:
    """Claude in dollars, Codex in tokens: each in what it counts itself."""
    limited = replace(ASK, allowance=Allowance(usd=0.5, tokens=9000))
    assert profile_of("claude").opening(limited).meta["claudeCode"]["options"]["maxBudgetUsd"] == 0.5
    budget = json.loads(profile_of("codex").opening(limited).env["CODEX_CONFIG"])["features"]["rollout_budget"]
    assert (budget["limit_tokens"], budget["enforce_limit"]) == (9000, True)


def test_what_has_no_option_is_set_below_the_settings_of_the_user_of_qwen() -> None:
    """No update, no statistics, no long waits, no requests for its memory: unless the user says otherwise."""
    opening = profile_of("qwen").opening(ASK)
    (path,) = opening.files
    assert opening.env == {"QWEN_CODE_SYSTEM_DEFAULTS_PATH": str(path)}
    found = json.loads(opening.files[path])
    assert found["general"]["enableAutoUpdate"] is False
    assert found["privacy"]["usageStatisticsEnabled"] is False
    assert found["memory"]["enableManagedAutoMemory"] is False
    assert found["model"]["generationConfig"]["maxRetries"] == 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_agent_can_be_opened_however_long_its_role_is(name: str, text: str) -> None:
    """What is not in the opening goes with the prompt."""
    opening = profile_of(name).opening(replace(ASK, role=replace(ROLE, text=text)))
    assert starts(opening.args, opening.env)
    meta = json.dumps(dict(opening.meta), ensure_ascii=False)
    places = [*opening.args, *opening.env.values(), *opening.files.values(), meta]
    assert holds(text, places) == opening.role_given


def test_an_unknown_agent_is_taken_to_need_nothing() -> None:
    """Any program that speaks the protocol can be used."""
    assert profile_of("acp") is PLAIN
    assert profile_of("somebody") is PLAIN
    assert PLAIN.opening(ASK).args == ("--own", "1")

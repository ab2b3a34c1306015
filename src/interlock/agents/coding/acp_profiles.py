"""What is particular about each agent that speaks the Agent Client Protocol. Pure.

The protocol says how a session goes; how an agent gets its role and model, how it is freed of its own permissions, and
what its adapter mixes into the agent's own words, it does not.  An agent that needs nothing of this is `acp`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from interlock.agents.coding.claude import LEAST_USD
from interlock.agents.coding.codex import token_budget
from interlock.agents.coding.dialect import Ask, fits, text_of


@dataclass(frozen=True)
class Opening:
    """How one call begins: the program, and what its session is opened with."""

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[Path, str] = field(default_factory=dict)
    """Written before the start, in the folder of the ask."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """What the request for a session carries beyond the protocol."""
    mode: str | None = None
    """The session's mode; a call in another one does not count."""
    role_given: bool = False
    """The role is in here; otherwise it goes by the protocol where the agent takes it, else with the prompt."""
    model_given: bool = False
    """The model is in here; otherwise it is chosen among those that the session offers."""


_Notice = Callable[[Mapping[str, Any], str], bool]


def _never(_update: Mapping[str, Any], _text: str) -> bool:
    return False


@dataclass(frozen=True)
class Profile:
    name: str
    opening: Callable[[Ask], Opening]
    notice: _Notice = _never
    """Whether a piece of a message comes from the adapter, not from the model."""
    warning: re.Pattern[str] = re.compile(r"(?!)")
    """Notices that report no failure."""
    counts_tokens: bool = False
    """It reports tokens for every turn that reached the model: without them the text is an error message."""
    asks_to_leave_sandbox: bool = False
    """A command that it asks about is one that its sandbox would not let through."""


def profile_of(kind: str) -> Profile:
    """The profile of an agent by its name in the settings; any other is taken to need none."""
    return _PROFILES.get(kind, PLAIN)


def _plain(ask: Ask) -> Opening:
    return Opening(args=ask.args)


def _claude(ask: Ask) -> Opening:
    options: dict[str, Any] = {"model": ask.model} if ask.model else {}
    if ask.allowance is not None and ask.allowance.usd is not None:
        options["maxBudgetUsd"] = max(ask.allowance.usd, LEAST_USD)
    meta: dict[str, Any] = {"claudeCode": {"options": options}}
    if ask.role is not None:
        meta["systemPrompt"] = {"append": ask.role.text}
    env = {
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "2",
    }
    if ask.confined:
        env["IS_SANDBOX"] = "1"  # else it does not offer that mode to root
    return Opening(
        args=ask.args,
        env=env,
        meta=meta,
        mode="bypassPermissions" if ask.confined else "acceptEdits",
        role_given=ask.role is not None,
        model_given=bool(ask.model),
    )


def _codex(ask: Ask) -> Opening:
    """Its own default would ask a model for permission."""
    config: dict[str, Any] = {"model": ask.model} if ask.model else {}
    if ask.allowance is not None and ask.allowance.tokens is not None:
        config["features"] = {"rollout_budget": token_budget(ask.allowance.tokens)}
    return Opening(
        args=ask.args,
        env={"CODEX_CONFIG": json.dumps(config, ensure_ascii=False)} if config else {},
        mode="agent-full-access" if ask.confined else "workspace-write",
        model_given=bool(ask.model),
    )


def _qwen(ask: Ask) -> Opening:
    """What has no option is set in the lowest of its settings files, so that all that the user has set stays."""
    model = ("--model", ask.model) if ask.model else ()
    role = ("--append-system-prompt", ask.role.text) if ask.role and fits(ask.role.text) else ()
    settings = ask.folder / "qwen-settings.json"
    return Opening(
        args=("--acp", *model, *role, *ask.args),
        env={"QWEN_CODE_SYSTEM_DEFAULTS_PATH": str(settings)},
        files={settings: json.dumps(_QWEN_SETTINGS, indent=2)},
        mode="yolo" if ask.confined else "default",
        role_given=bool(role),
        model_given=bool(ask.model),
    )


_QWEN_SETTINGS: Final = {
    "$version": 4,
    "general": {"enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    # Long waits are ours; by itself it waits for minutes, ten times. Seven tries in over a minute stay in any case.
    "model": {"generationConfig": {"maxRetries": 0}},
    # After each answer it would ask its model what to remember of it.
    "memory": {"enableManagedAutoMemory": False},
}


def _without_message(update: Mapping[str, Any], _text: str) -> bool:
    """codex-acp gives each message of the model a number, and its own remarks none."""
    return not text_of(update.get("messageId"))


PLAIN: Final = Profile("acp", _plain)
_PROFILES: Final = {
    profile.name: profile
    for profile in (
        Profile("claude", _claude, counts_tokens=True),
        Profile(
            "codex",
            _codex,
            notice=_without_message,
            warning=re.compile(r"(Config warning|Warning): |\*Context compacted"),
            counts_tokens=True,
            asks_to_leave_sandbox=True,
        ),
        Profile("qwen", _qwen),
    )
}

"""What is particular about each program that speaks the Agent Client Protocol: rows of a table.

The protocol says how a session goes.  How a model is chosen, how the program is freed of a sandbox of its own, what its
adapter mixes into the model's words, it does not.  Variables and files that keep a client quiet are those of its other
way of speaking, in the module of its name.  A program that is not in the table needs none of this.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import PurePosixPath
from typing import Any, cast

from interlock.agents.client import Client, Row
from interlock.agents.clients.codex import rollout_budget
from interlock.agents.values import Ask

_NEVER = re.compile(r"(?!)")


@dataclass(frozen=True)
class Profile:
    """One row."""

    words: tuple[str, ...] = ()
    """How its command line begins."""
    client: str = ""
    """The module of the same client."""
    install: str = ""
    """What a person types to get the program, where it is one of its own."""
    model: str | None = None
    """The option that names the model; empty: it is named otherwise; None: chosen among those that a session offers."""
    modes: tuple[str, ...] = ()
    """Of one with a sandbox of its own: the session's mode in a confined layer, and in a copy."""
    noise: re.Pattern[str] = _NEVER
    """Words of its adapter, in a piece of their own, that report no failure."""
    failure: re.Pattern[str] = _NEVER
    """Those that do."""
    numbered: bool = False
    """It gives each message of its model a number, and its own words, noise or failure, none."""

    @property
    def headless(self) -> Client | None:
        return cast("Client", import_module(f"interlock.agents.clients.{self.client}")) if self.client else None

    def row(self, program: str) -> Row:
        """As people and layers need to know it."""
        if self.headless is None:
            return Row("acp", title=program, program=program)
        known = self.headless.ROW
        title = known.title if self.words[0] == known.program else f"{known.title} ({self.words[0]})"
        return replace(known, name="acp", title=title, program=program, install=self.install or known.install)


def profile_of(argv: Sequence[str]) -> Profile:
    """The row of a command line, by the name of its program and the words behind it."""
    words = (PurePosixPath(argv[0]).name, *argv[1:])
    return next((row for row in ROWS if words[: len(row.words)] == row.words), Profile())


def meta(profile: Profile, ask: Ask) -> dict[str, Any]:
    """What the request for a session carries beyond the protocol."""
    if profile.client != "claude":
        return {}
    options: dict[str, Any] = {"model": ask.role.model} if ask.role.model else {}
    if ask.budget_usd is not None:
        options["maxBudgetUsd"] = max(ask.budget_usd, 0.000001)
    return {"_meta": {"claudeCode": {"options": options}}} if options else {}


def variables(profile: Profile, ask: Ask) -> dict[str, str]:
    """Variables of the start beyond those of the client's other way."""
    if profile.client != "codex":
        return {}
    config: dict[str, Any] = {"model": ask.role.model} if ask.role.model else {}
    if limit := rollout_budget(ask):
        config["features"] = {"rollout_budget": limit}
    return {"CODEX_CONFIG": json.dumps(config)} if config else {}


_NPM = "npm install -g @agentclientprotocol/"
ROWS = (
    Profile(("claude-agent-acp",), "claude", f"{_NPM}claude-agent-acp", model=""),
    Profile(
        ("codex-acp",),
        "codex",
        f"{_NPM}codex-acp",
        model="",
        # Its own default would ask a model for permission; in a layer its sandbox writes nothing.
        modes=("agent-full-access", "workspace-write"),
        noise=re.compile(r"(Config warning|Warning): |\*Context compacted"),
        numbered=True,
    ),
    Profile(("opencode", "acp"), "opencode"),
    Profile(("gemini", "--acp"), "gemini", model="--model", noise=re.compile(r"\[MODE_UPDATE\] ")),
    Profile(("qwen", "--acp"), "qwen", model="--model"),
    Profile(
        ("copilot", "--acp"),
        "copilot",
        model="--model",
        noise=re.compile(r"(Info|Warning): "),
        failure=re.compile(r"Error: "),
    ),
)

"""The coding agents that interlock knows, and how a runner for each is made.

Nothing of an agent is imported before it is used: a run with one of them does not pay for the others.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal, cast

from interlock.agents.coding.asking import Configured
from interlock.agents.coding.headless import HeadlessRunner
from interlock.errors import ConfigInvalid

if TYPE_CHECKING:
    from interlock.agents.coding.dialect import Dialect
    from interlock.agents.runner import Runner

AgentMode = Literal["headless", "acp"]


@dataclass(frozen=True)
class KnownAgent:
    """A coding agent by its name in the settings."""

    name: str
    title: str
    program: str
    """Its usual name on PATH."""
    install: str
    """What a person types to get it."""
    sign_in: str
    """What a person does to sign in."""
    mode: AgentMode = "headless"
    """How it is spoken to, unless its adapter is asked for."""
    adapter: str | None = None
    """A program of its own that speaks the Agent Client Protocol for it."""

    def mode_of(self, asked: AgentMode | None, where: str) -> AgentMode:
        """The way that is asked for, or the usual one; `ConfigInvalid` when it has no such way."""
        if asked in (None, self.mode) or (asked == "acp" and self.adapter is not None):
            return asked or self.mode
        raise ConfigInvalid(
            f"{self.title} is not spoken to in mode {asked!r}",
            where=where,
            expected=f"{self.mode!r}, or nothing",
            found=repr(asked),
            remedy="Remove the line: there is one way of speaking to it, the better one (docs/agents.md).",
        )

    def program_for(self, mode: AgentMode) -> str:
        """What is started for it."""
        return self.adapter if mode == "acp" and self.adapter is not None else self.program


KNOWN: Final = (
    KnownAgent(
        "claude",
        "Claude Code",
        "claude",
        "npm install -g @anthropic-ai/claude-code",
        "Run `claude` once and sign in, or set ANTHROPIC_API_KEY.",
        adapter="claude-agent-acp",
    ),
    KnownAgent(
        "codex",
        "Codex",
        "codex",
        "npm install -g @openai/codex",
        "Run `codex login`, or set CODEX_API_KEY.",
        adapter="codex-acp",
    ),
    KnownAgent(
        "copilot",
        "GitHub Copilot CLI",
        "copilot",
        "npm install -g @github/copilot",
        "Run `copilot` once and use its /login, or set GH_TOKEN.",
    ),
    KnownAgent("opencode", "OpenCode", "opencode", "npm install -g opencode-ai", "Run `opencode auth login`."),
    KnownAgent(
        "gemini",
        "Gemini CLI",
        "gemini",
        "npm install -g @google/gemini-cli",
        "Run `gemini` once and sign in, or set GEMINI_API_KEY.",
    ),
    KnownAgent(
        "qwen",
        "Qwen Code",
        "qwen",
        "npm install -g @qwen-code/qwen-code",
        "Run `qwen` once and sign in, or set OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL.",
        mode="acp",
    ),
)
"""In the order in which one is chosen where nothing is configured."""


def known(name: str) -> KnownAgent:
    return next(agent for agent in KNOWN if agent.name == name)


def on_path(path: str | None) -> Iterator[KnownAgent]:
    """Those whose program is found there."""
    return (agent for agent in KNOWN if shutil.which(agent.program, path=path))


def make_runner(kind: str, configured: Configured, inherit: Mapping[str, str], mode: AgentMode | None = None) -> Runner:
    """A runner for one of the known agents, or for any that speaks the protocol (kind ``acp``).

    Args:
        mode: None: the usual one of that agent.
    """
    if kind == "acp" or (mode or known(kind).mode) == "acp":
        from interlock.agents.coding.acp import AcpRunner
        from interlock.agents.coding.acp_profiles import profile_of

        return AcpRunner(profile_of(kind), configured, inherit)
    return HeadlessRunner(dialect_of(kind), configured, inherit)


def dialect_of(name: str) -> Dialect:
    """Of an agent that is started once per call: the class of its name, in the module of its name."""
    module = import_module(f"interlock.agents.coding.{name}")
    return cast("Dialect", getattr(module, name.title())())

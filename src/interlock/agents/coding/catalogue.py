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

if TYPE_CHECKING:
    from interlock.agents.coding.dialect import Dialect
    from interlock.agents.runner import Runner

Mode = Literal["headless", "acp"]


@dataclass(frozen=True)
class Known:
    """A coding agent by its name in the settings."""

    name: str
    title: str
    program: str
    """Its usual name on PATH."""
    dialect: str
    """The class in the module of the agent's name."""
    install: str
    """What a person types to get it."""
    sign_in: str
    """What a person does to sign in."""
    acp_program: str
    """What speaks the Agent Client Protocol for it; an adapter where the agent itself does not."""

    def program_for(self, mode: Mode) -> str:
        return self.program if mode == "headless" else self.acp_program


KNOWN: Final = (
    Known(
        "claude",
        "Claude Code",
        "claude",
        "Claude",
        "npm install -g @anthropic-ai/claude-code",
        "Run `claude` once and sign in, or set ANTHROPIC_API_KEY.",
        "claude-agent-acp",
    ),
    Known(
        "codex",
        "Codex",
        "codex",
        "Codex",
        "npm install -g @openai/codex",
        "Run `codex login`, or set CODEX_API_KEY.",
        "codex-acp",
    ),
    Known(
        "copilot",
        "GitHub Copilot CLI",
        "copilot",
        "Copilot",
        "npm install -g @github/copilot",
        "Run `copilot` once and use its /login, or set GH_TOKEN.",
        "copilot",
    ),
    Known(
        "opencode",
        "OpenCode",
        "opencode",
        "Opencode",
        "npm install -g opencode-ai",
        "Run `opencode auth login`.",
        "opencode",
    ),
    Known(
        "gemini",
        "Gemini CLI",
        "gemini",
        "Gemini",
        "npm install -g @google/gemini-cli",
        "Run `gemini` once and sign in, or set GEMINI_API_KEY.",
        "gemini",
    ),
    Known(
        "qwen",
        "Qwen Code",
        "qwen",
        "Qwen",
        "npm install -g @qwen-code/qwen-code",
        "Run `qwen` once and sign in, or set OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL.",
        "qwen",
    ),
)
"""In the order in which one is chosen where nothing is configured."""


def known(name: str) -> Known:
    return next(agent for agent in KNOWN if agent.name == name)


def on_path(path: str | None) -> Iterator[Known]:
    """Those whose program is found there."""
    return (agent for agent in KNOWN if shutil.which(agent.program, path=path))


def make_runner(kind: str, configured: Configured, inherit: Mapping[str, str], mode: Mode = "headless") -> Runner:
    """A runner for one of the known agents, or for any that speaks the protocol (kind ``acp``)."""
    if mode == "acp" or kind == "acp":
        from interlock.agents.coding.acp import AcpRunner
        from interlock.agents.coding.acp_profiles import profile_of

        return AcpRunner(profile_of(kind), configured, inherit)
    return HeadlessRunner(dialect_of(kind), configured, inherit)


def dialect_of(name: str) -> Dialect:
    module = import_module(f"interlock.agents.coding.{name}")
    return cast("Dialect", getattr(module, known(name).dialect)())

"""The coding agents that interlock is tested with, pinned to versions that run on Node 20."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from interlock.errors import BadInput

CACHE_VARIABLE = "INTERLOCK_CLIENTS"


@dataclass(frozen=True)
class Client:
    """One package of the npm registry."""

    name: str
    package: str
    version: str
    program: str
    """What it is called among the package's programs."""
    acp: tuple[str, ...] | None = None
    """Arguments with which the program speaks ACP over standard input and output; None: it cannot."""
    acp_by: str | None = None
    """The client that speaks ACP in its place."""

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.version}"

    @property
    def spec(self) -> str:
        return f"{self.package}@{self.version}"

    def path(self, cache: Path | None = None) -> Path:
        """The program, installed or not."""
        return (cache or cache_folder()) / self.folder / "node_modules" / ".bin" / self.program

    def installed(self, cache: Path | None = None) -> bool:
        return self.path(cache).exists()

    def acp_command(self, cache: Path | None = None) -> tuple[str, ...] | None:
        """The command that speaks ACP for this client."""
        if self.acp_by is not None:
            return CLIENTS[self.acp_by].acp_command(cache)
        return None if self.acp is None else (str(self.path(cache)), *self.acp)


_ALL = (
    Client("claude", "@anthropic-ai/claude-code", "2.1.197", "claude", acp_by="claude-acp"),
    Client("codex", "@openai/codex", "0.166.0", "codex", acp_by="codex-acp"),
    Client("opencode", "opencode-ai", "1.18.33", "opencode", acp=("acp",)),
    Client("copilot", "@github/copilot", "1.0.102", "copilot", acp=("--acp",)),
    Client("gemini", "@google/gemini-cli", "0.61.0", "gemini", acp=("--acp",)),
    Client("qwen", "@qwen-code/qwen-code", "0.15.10", "qwen", acp=("--acp", "--auth-type", "openai")),
    Client("claude-acp", "@agentclientprotocol/claude-agent-acp", "0.49.0", "claude-agent-acp", acp=()),
    Client("codex-acp", "@agentclientprotocol/codex-acp", "2.6.0", "codex-acp", acp=()),
)

CLIENTS: Mapping[str, Client] = {client.name: client for client in _ALL}

HEADLESS = ("claude", "codex", "opencode", "copilot", "gemini", "qwen")
"""Clients that do one task and end; the others are ACP adapters of two of them."""


class UnknownClient(BadInput):
    """A name that is not in the catalogue."""


def client(name: str) -> Client:
    """The client of this name.

    Raises:
        UnknownClient: there is none.
    """
    if name not in CLIENTS:
        raise UnknownClient(f"there is no client {name!r}", expected=", ".join(CLIENTS))
    return CLIENTS[name]


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where clients are installed: outside the repository, kept between checkouts."""
    if chosen := environment.get(CACHE_VARIABLE):
        return Path(chosen).absolute()
    caches = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(caches) / "interlock" / "clients"

"""How each client does one task without a terminal: the plainest command line, nothing of interlock in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.clients.catalogue import client
from tools.clients.homes import MODELS


@dataclass(frozen=True)
class Invocation:
    """A command, and what it reads."""

    argv: tuple[str, ...]
    stdin: str = ""


def headless(name: str, prompt: str, workspace: Path) -> Invocation:
    """The invocation in which the client may write and run commands, and tells its events as JSON lines."""
    stdin, arguments = _ARGUMENTS[name](prompt, workspace)
    return Invocation((str(client(name).path()), *arguments), stdin)


_Arguments = tuple[str, tuple[str, ...]]


def _claude(prompt: str, workspace: Path) -> _Arguments:
    mode = ("--permission-mode", "acceptEdits", "--allowedTools", "Bash")
    return prompt, ("-p", "--output-format", "stream-json", "--verbose", "--model", MODELS["claude"], *mode)


def _codex(prompt: str, workspace: Path) -> _Arguments:
    folder = ("-s", "workspace-write", "-C", str(workspace), "--skip-git-repo-check")
    return prompt, ("exec", "--json", *folder, "-")


def _opencode(prompt: str, workspace: Path) -> _Arguments:
    # a prompt among the arguments would get quotation marks
    return prompt, ("run", "--format", "json")


def _copilot(prompt: str, workspace: Path) -> _Arguments:
    return "", ("-p", prompt, "--output-format", "json", "--allow-all-tools", "--no-color")


def _gemini(prompt: str, workspace: Path) -> _Arguments:
    mode = ("--approval-mode", "yolo", "--skip-trust", "-m", MODELS["gemini"])
    return "", ("-p", prompt, "-o", "stream-json", *mode)


def _qwen(prompt: str, workspace: Path) -> _Arguments:
    return "", ("-p", prompt, "-o", "stream-json", "--approval-mode", "yolo", "--auth-type", "openai")


_ARGUMENTS: Mapping[str, Callable[[str, Path], _Arguments]] = {
    "claude": _claude,
    "codex": _codex,
    "opencode": _opencode,
    "copilot": _copilot,
    "gemini": _gemini,
    "qwen": _qwen,
}

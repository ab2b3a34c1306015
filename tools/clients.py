"""`python -m tools.clients [install] [NAME ...]`: the pinned real coding agents, installed by npm beside the project.

Where they are: the folder that INTERLOCK_CLIENTS names, else `~/.cache/interlock-clients`; each in a folder of its own.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

_PATIENCE_S = 900


@dataclass(frozen=True)
class Package:
    """One package of the npm registry, in a version that runs on Node 20."""

    spec: str
    program: str

    @property
    def path(self) -> Path:
        """The program, installed or not."""
        return folder() / self.spec.replace("/", "+") / "node_modules" / ".bin" / self.program


PACKAGES = {
    "claude": Package("@anthropic-ai/claude-code@2.1.197", "claude"),
    "codex": Package("@openai/codex@0.166.0", "codex"),
    "copilot": Package("@github/copilot@1.0.102", "copilot"),
    "opencode": Package("opencode-ai@1.18.33", "opencode"),
    "gemini": Package("@google/gemini-cli@0.61.0", "gemini"),
    "qwen": Package("@qwen-code/qwen-code@0.15.10", "qwen"),
    "claude-acp": Package("@agentclientprotocol/claude-agent-acp@0.49.0", "claude-agent-acp"),
    "codex-acp": Package("@agentclientprotocol/codex-acp@2.6.0", "codex-acp"),
}


def folder() -> Path:
    return Path(os.environ.get("INTERLOCK_CLIENTS") or Path.home() / ".cache" / "interlock-clients").absolute()


def missing(name: str) -> str:
    """Why this client cannot be tried; empty where it can."""
    if shutil.which("node") is None:
        return "there is no Node on PATH"
    return "" if PACKAGES[name].path.exists() else f"not installed: python -m tools.clients install {name}"


def install(name: str) -> None:
    """Whole or not at all: it is made beside its place and then renamed. Of two at once, one finds it done."""
    package = PACKAGES[name]
    place = package.path.parents[2]
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if package.path.exists():
            return
        with tempfile.TemporaryDirectory(prefix=".making-", dir=folder()) as made:
            options = ["--prefix", made, "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(["npm", "install", *options, package.spec], cwd=made, check=True, timeout=_PATIENCE_S)
            shutil.rmtree(place, ignore_errors=True)
            Path(made).rename(place)


def main(words: list[str]) -> int:
    names = [word for word in words if word != "install"] or list(PACKAGES)
    if unknown := [name for name in names if name not in PACKAGES]:
        print(f"there is no client {unknown[0]!r}, only {', '.join(PACKAGES)}", file=sys.stderr)
        return 2
    for name in names:
        began = time.monotonic()
        if "install" in words:
            install(name)
        state = missing(name) or f"{PACKAGES[name].path}  ({time.monotonic() - began:.0f} s)"
        print(f"{name:<11} {PACKAGES[name].spec}\n            {state}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

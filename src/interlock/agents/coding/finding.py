"""Which coding agents a person has on this machine, and whether they are signed in; no model is asked anything."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.agents.coding.asking import ask_program, version_of
from interlock.agents.coding.catalogue import KNOWN, KnownAgent
from interlock.agents.environment import agent_environment


@dataclass(frozen=True)
class InstalledAgent:
    """An installed coding agent."""

    agent: KnownAgent
    path: str
    version: str | None
    signed_in: bool | None
    """None: it cannot be told without asking its model."""

    @property
    def text(self) -> str:
        signed = {True: "signed in", False: "not signed in", None: "sign-in unknown"}[self.signed_in]
        return f"{self.agent.title} {self.version or '(version unknown)'}, {signed}"


@dataclass(frozen=True)
class SignIn:
    """Where a sign-in leaves its mark: a variable, a file, or the answer of the program itself."""

    variables: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """In the home folder."""
    data_files: tuple[str, ...] = ()
    """In the folder for programs' data."""
    status: tuple[str, ...] = ()
    """Arguments of a command that ends with 0 only when somebody is signed in."""
    certain: bool = True
    """Whether another end means that nobody is; not where a model service of one's own needs no sign-in."""


SIGN_INS: Final = {
    "claude": SignIn(
        ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"), status=("auth", "status")
    ),
    "codex": SignIn(("CODEX_API_KEY",), status=("login", "status"), certain=False),
    "copilot": SignIn(("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL")),
    "opencode": SignIn(("OPENCODE_CONFIG",), data_files=("opencode/auth.json",)),
    "gemini": SignIn(("GEMINI_API_KEY", "GOOGLE_API_KEY"), (".gemini/oauth_creds.json",)),
    "qwen": SignIn(("OPENAI_API_KEY",), (".qwen/oauth_creds.json",)),
}
_STATUS_LIMIT_S: Final = 30.0


async def installed_agents(inherit: Mapping[str, str]) -> list[InstalledAgent]:
    """All that are on PATH, in the order in which one would be chosen."""
    env = agent_environment(inherit, {}, {})
    places = [(agent, shutil.which(agent.program, path=env.get("PATH"))) for agent in KNOWN]
    return await asyncio.gather(*(_look_at(agent, path, env) for agent, path in places if path is not None))


def choice_of(found: list[InstalledAgent]) -> InstalledAgent | None:
    """The one to use where nobody chose: signed in before unknown before not, else in the order of the catalogue."""
    ranks = {True: 0, None: 1, False: 2}
    return min(found, key=lambda one: ranks[one.signed_in], default=None)


async def _look_at(agent: KnownAgent, path: str, env: Mapping[str, str]) -> InstalledAgent:
    version, signed = await asyncio.gather(version_of(path, env), _signed_in(SIGN_INS[agent.name], path, env))
    return InstalledAgent(agent, path, version, signed)


async def _signed_in(marks: SignIn, program: str, env: Mapping[str, str]) -> bool | None:
    home = Path(env.get("HOME") or Path.home())
    data = Path(env.get("XDG_DATA_HOME") or home / ".local" / "share")
    places = [*(home / name for name in marks.files), *(data / name for name in marks.data_files)]
    if any(env.get(name) for name in marks.variables) or any(place.is_file() for place in places):
        return True
    if not marks.status:
        return None
    code, _ = await ask_program([program, *marks.status], env, _STATUS_LIMIT_S)
    return True if code == 0 else False if code is not None and marks.certain else None

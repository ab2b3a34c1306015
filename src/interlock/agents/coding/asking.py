"""From a dispatch to what a coding agent is asked, for all of them and both ways of speaking to them."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

from interlock.agents.coding.dialect import Ask, RoleText
from interlock.agents.environment import agent_environment, looks_secret
from interlock.agents.process import run_process
from interlock.agents.runner import AgentRequest, ClientNeeds, Health

_VERSION_LIMIT_S: Final = 30.0
_VERSION: Final = re.compile(r"\d+\.\d+(?:[\w.+-]*\w)?")


@dataclass(frozen=True)
class Configured:
    """What the settings say of a coding agent, whatever its kind."""

    name: str
    """The runner's name in the settings."""
    program: str
    args: tuple[str, ...] = ()
    model: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)


def ask_of(request: AgentRequest, configured: Configured) -> Ask:
    """The role apart from the task where it stands at its head; a session that goes on is told so, and no more."""
    apart = bool(request.instructions) and request.task != request.brief
    role = RoleText(role_name(request), _description(request), request.instructions) if apart else None
    prompt = request.task if apart else request.brief
    return Ask(
        prompt=prompt if request.resume is None else _GO_ON.format(brief=request.brief_path),
        workspace=request.workspace,
        folder=request.shared.absolute(),
        role=role,
        model=request.model or configured.model,
        args=configured.args,
        confined=request.confined,
        resume=request.resume,
        new_session=str(uuid4()),
        allowance=request.allowance,
    )


_GO_ON: Final = """\
You were cut off in the middle of this task: the program that you run in was ended from outside.

All files are as you left them; commands that were still running are gone. Look at what you have done already, then \
finish what the brief asks for, and answer in the form that it asks for. The brief can be read again in this file: \
{brief}
"""


def role_name(request: AgentRequest) -> str:
    """The agent's name as every client takes it: lower case, digits and dashes, told apart from the client's own."""
    plain = re.sub(r"[^a-z0-9]+", "-", f"{request.playbook}-{request.agent}".lower()).strip("-")
    return f"interlock-{plain}"


def _description(request: AgentRequest) -> str:
    said = request.role.description if request.role is not None else ""
    return " ".join(said.split()) or f"{request.agent} of {request.playbook}"


def at_hand(configured: Configured, inherit: Mapping[str, str], needs: ClientNeeds, setting: str) -> Health:
    """Whether the program is there and anybody is signed in, by what lies on the disk and in the environment.

    Only what is certain counts: a login may lie in a key ring of the system, and any secret may be a key.
    """
    env = agent_environment(inherit, {}, configured.env)
    found = shutil.which(configured.program, path=env.get("PATH"))
    if found is None:
        return Health(False, f"{configured.program!r} is not found", f"Install it, or name its program: {setting}")
    may_be_elsewhere = sys.platform != "linux" or any(map(looks_secret, env))
    if needs.hosts and not needs.login and not may_be_elsewhere:
        return Health(False, f"{configured.program} is not signed in", f"Start it once by hand: {configured.program}")
    return Health(True, found)


async def installed(configured: Configured, inherit: Mapping[str, str], remedy: str) -> Health:
    """Whether the program is there and says its version; nothing is asked of a model."""
    env = agent_environment(inherit, {}, configured.env)
    found = shutil.which(configured.program, path=env.get("PATH"))
    if found is None:
        return Health(False, f"{configured.program!r} is not found", remedy)
    version = await version_of(found, env)
    if version is None:
        return Health(False, f"{found} does not say its version", f"Run it by hand: {configured.program} --version")
    return Health(True, f"version {version}, {found}")


async def version_of(program: str, env: Mapping[str, str]) -> str | None:
    """What the program answers to ``--version``, the number alone; None when it does not."""
    code, said = await ask_program([program, "--version"], env, _VERSION_LIMIT_S)
    found = _VERSION.search(said) if code == 0 else None
    return found[0] if found else None


async def ask_program(argv: Sequence[str], env: Mapping[str, str], limit_s: float) -> tuple[int | None, str]:
    """Exit status and output of a short command in an empty folder; no status when it did not end in time."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="interlock-ask-") as place:
        folder = Path(place)
        ended = await run_process(
            argv,
            cwd=folder,
            env=env,
            stdin=None,
            stdout=folder / "out",
            stderr=folder / "err",
            timeout_s=limit_s,
            marker=f"ask:{folder.name}",
        )
        if ended.timed_out:
            return None, ""
        return ended.code, (folder / "out").read_text(errors="replace")

"""Which clients there are, and which one is used where nobody chose."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.agents import clients
from interlock.agents.client import Client
from interlock.agents.values import Ask, Role, Room
from interlock.errors import ConfigInvalid
from interlock.settings import CLIENTS, Runner


def program(folder: Path, *names: str) -> dict[str, str]:
    """An environment in which these are the only programs."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).touch(0o755)
    return {"PATH": str(folder)}


@pytest.mark.req("AGENT-01")
@pytest.mark.parametrize("name", CLIENTS)
def test_a_coding_agent_is_a_module_of_its_name(tmp_path: Path, name: str) -> None:
    """With a row, a start and a reader; its marks of a sign-in are files below HOME or variables."""
    client: Client = clients.client(Runner(type=name), tmp_path)  # type: ignore[arg-type]
    ask = Ask(role=Role(name="builder", runner=name, type=name), brief="Do it.", transcript=tmp_path / "t")
    assert client.ROW.name == clients.row(name).name == name
    assert client.start(ask, Room(client.ROW.program)).argv[0] == client.ROW.program
    assert client.ROW.install and client.ROW.sign_in and client.ROW.hosts
    assert all("/" in mark or mark.isupper() for mark in client.ROW.signed_in)


def test_the_others_are_made_of_their_settings(tmp_path: Path) -> None:
    """Their command line is theirs; a scenario is read where the workspace's top is."""
    (tmp_path / "play.yaml").write_text("reactions: [{agent: a}]")
    command = clients.client(Runner(type="command", argv=("python3", "x.py")), tmp_path)
    ask = Ask(role=Role(name="builder", runner="m", type="command"), brief="", transcript=tmp_path / "t")
    assert command.start(ask, Room(command.ROW.program)).argv == ("python3", "x.py")
    spoken = clients.client(Runner(type="acp", argv=("opencode", "acp")), tmp_path)
    assert (spoken.ROW.title, spoken.ROW.logins) == ("OpenCode", clients.row("opencode").logins)
    assert clients.client(Runner(type="scripted", scenario="play.yaml"), tmp_path).ROW.title == "scripted agent"
    with pytest.raises(ConfigInvalid, match="not there"):
        clients.client(Runner(type="scripted", scenario="none.yaml"), tmp_path)


@pytest.mark.req("AGENT-01")
def test_a_client_is_added_by_its_module_alone(tmp_path: Path) -> None:
    """It can be named in settings, is found on PATH, and needs a word nowhere else."""
    package = Path(clients.__file__).parents[2]
    shutil.copytree(package, tmp_path / "interlock", ignore=shutil.ignore_patterns("playbooks", "__pycache__"))
    other = (package / "agents/clients/codex.py").read_text().replace('name="codex"', 'name="another"')
    (tmp_path / "interlock/agents/clients/another.py").write_text(other)
    code = """
from pathlib import Path
from interlock.agents import clients
from interlock.settings import Settings
settings = Settings.model_validate({"runners": {"mine": {"type": "another", "model": "m"}}})
print(clients.client(settings.runners["mine"], Path()).ROW.name, settings.runner_named("another").type)
print([one.name for one in clients.rows()].index("another"))
"""
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert subprocess.check_output([sys.executable, "-c", code], env=env, text=True) == "another another\n0\n"


@pytest.mark.req("AGENT-01")
def test_the_first_one_that_is_signed_in_is_used_else_the_first_one(tmp_path: Path) -> None:
    """By a variable or a file below HOME."""
    environ = program(tmp_path / "bin", "claude", "codex", "gemini")
    assert clients.first_found(environ, tmp_path).text == "Claude Code, not signed in as far as can be seen"
    assert clients.first_found({**environ, "GEMINI_API_KEY": "x"}, tmp_path).name == "gemini"
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/auth.json").touch()
    assert clients.first_found({**environ, "GEMINI_API_KEY": "x"}, tmp_path).text == "Codex, signed in"


def test_none_at_all_says_what_to_install(tmp_path: Path) -> None:
    """And that any program will do."""
    with pytest.raises(ConfigInvalid, match="no coding agent was found") as caught:
        clients.first_found(program(tmp_path / "bin"), tmp_path)
    assert "claude, codex" in str(caught.value.expected)
    assert "npm install" in str(caught.value.remedy)

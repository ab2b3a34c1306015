"""`doctor` and `init`: what is here, what is missing, what to do."""

from __future__ import annotations

import asyncio
import os
import re
import tomllib
from pathlib import Path

import pytest

from interlock.agents.values import Exit, Trouble, TroubleKind, Usage
from interlock.errors import ConfigInvalid
from interlock.workspace.layers.layers import Layers, Making
from tests.cli.conftest import CommandLine


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs, first on PATH; a home in which nobody is signed in."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_TOKEN")):
            monkeypatch.delenv(name)
    return folder


def install(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("#!/bin/sh\nexit 1\n")
        (folder / name).chmod(0o755)


@pytest.mark.req("AGENT-01")
def test_init_writes_the_agent_that_is_signed_in_and_overwrites_nothing(
    interlock: CommandLine, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = interlock.top / "interlock.toml"
    kept = interlock("init")
    assert (kept.code, "kept as it is" in kept.out) == (0, True)
    file.unlink()
    assert (interlock("init").code, tomllib.loads(file.read_text())) == (0, {}), "without an agent nothing is invented"
    said = interlock("run", "task", "x")
    assert (said.code, "no coding agent was found" in said.err) == (2, True)
    file.unlink()
    install(programs, "claude", "codex")
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setenv("CODEX_API_KEY", "x")

    said = interlock("init").out

    assert re.findall(r"found: (\w+):", said) == ["claude", "codex"]
    assert tomllib.loads(file.read_text()) == {"runner": "codex"}
    assert '# judges = "claude"' in file.read_text()
    assert interlock("plan", "task", "x").code == 0


@pytest.mark.req("AGENT-01", "RUN-11")
def test_doctor_tells_what_is_here_and_changes_nothing(interlock: CommandLine, programs: Path) -> None:
    install(programs, "claude")
    before = interlock.bytes_of_all()

    said = interlock("doctor", "--no-ask")

    assert said.code == 0
    for line in ("ok      git        git version", "ok      settings   interlock.toml", "mine: sh agent.sh"):
        assert line in said.out
    assert "note    agent      Claude Code, not signed in" in said.out
    assert max(len(line) for line in said.out.splitlines() if str(interlock.top) not in line) <= 80
    assert interlock.bytes_of_all() == before
    assert not (interlock.top / ".interlock").exists()


BROKEN = {
    'runer = "x"\n[limits]\nmax_parallel = 0\n': ["interlock.toml:1", "Did you mean runner?", "interlock.toml:3"],
    'runner = "mine"\n[runners.mine]\ntype = "command"\nargv = ["no-such"]\n': ["'no-such' is not found"],
    "": ["no coding agent was found"],
}


def test_doctor_tells_what_is_broken(interlock: CommandLine, programs: Path) -> None:
    for settings, told in BROKEN.items():
        interlock.write("interlock.toml", settings)
        said = interlock("doctor", "--no-ask", "--json")
        assert (said.code, said.json["ok"], [one for one in told if one not in said.out]) == (2, False, [])


@pytest.mark.req("TREE-11")
def test_doctor_tells_why_agents_are_not_confined_and_what_helps(
    interlock: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Making("copy", "the kernel refuses it", "As root, put the profile there.", "profile x {\n  userns,\n}")
    monkeypatch.setattr(Layers, "maker", lambda self: made)

    said = interlock("doctor", "--no-ask").out

    assert "not confined: the kernel refuses it" in " ".join(said.split())
    assert "to do: As root, put the profile there." in said
    assert "    profile x {\n      userns,\n    }\n" in said

    def refuses(self: Layers) -> Making:
        raise ConfigInvalid("agents cannot be confined here", found="no namespaces", remedy='mode = "auto"')

    monkeypatch.setattr(Layers, "maker", refuses)
    assert interlock("doctor", "--no-ask").code == 2


ANSWERS = [
    (Exit(finished=True, text="ready", seconds=3, usage=Usage(input_tokens=5, cost_usd=0.01)), 0, "0.01 USD"),
    (Exit(finished=False, trouble=Trouble(kind=TroubleKind.LOGIN, text="not logged in")), 2, "sign in"),
    (Exit(finished=False, trouble=Trouble(kind=TroubleKind.LIMIT, text="used up")), 0, "runs wait for it"),
    (Exit(finished=False, trouble=Trouble(kind=TroubleKind.MODEL, text="no such model")), 2, "Correct its model"),
    (Exit(finished=False, timed_out=True), 2, "did not answer within"),
    (Exit(finished=False, started=False, trouble=Trouble(kind=TroubleKind.OTHER, text="?")), 2, "npm install"),
]


@pytest.mark.req("AGENT-04", "TREE-10")
def test_doctor_asks_the_agent_a_question(
    interlock: CommandLine, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the program itself; and names the variables that it does not get."""
    install(programs, "claude")
    interlock.write("interlock.toml", 'runner = "claude"\n')
    monkeypatch.setenv("NPM_TOKEN", "x")
    said = interlock("doctor")
    assert (said.code, "exit status 1" in said.out, "NPM_TOKEN" in said.out) == (2, True, True)
    for came, code, told in ANSWERS:
        monkeypatch.setattr("interlock.agents.client.call", lambda *_, came=came, **__: asyncio.sleep(0, came))
        said = interlock("doctor")
        assert (said.code, told in said.out) == (code, True), said.out

"""What a program needs where the rest of the machine is hidden."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from interlock.agents import CommandRunner, Scenario, ScriptedRunner
from interlock.agents.surroundings import hosts_of, program_places, real_start


def executable(place: Path, text: str = "#!/bin/sh\n") -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(0o755)
    return place


@pytest.mark.req("LY-11")
def test_a_node_program_is_its_packages_and_its_interpreter(tmp_path: Path) -> None:
    """By the real place: a script finds its parts beside itself, not beside a link to it."""
    packages = tmp_path / "prefix" / "lib" / "node_modules"
    script = executable(packages / "@x" / "agent" / "cli.js", "#!/usr/bin/env -S node --flag\n")
    executable(packages / "@x" / "agent" / "node_modules" / "inner" / "x.js")
    node = executable(tmp_path / "elsewhere" / "bin" / "node")
    link = tmp_path / "bin" / "agent"
    link.parent.mkdir()
    link.symlink_to(script)
    env = {"PATH": f"{link.parent}:{node.parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    assert set(program_places("agent", env)) == {packages, node}
    assert real_start("agent", env) == str(script)


@pytest.mark.req("LY-11")
def test_a_program_of_a_virtual_environment_is_all_of_it_and_its_python(tmp_path: Path) -> None:
    """The interpreter behind it with its library, and the program's own folder."""
    python = executable(tmp_path / "pythons" / "3.11" / "bin" / "python3.11", "binary")
    (tmp_path / "pythons" / "3.11" / "lib" / "python3.11").mkdir(parents=True)
    venv = tmp_path / "tools" / "agent"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("")
    (venv / "bin" / "python").symlink_to(python)
    program = executable(venv / "bin" / "agent", f"#!{venv}/bin/python\n")
    link = tmp_path / ".local" / "bin" / "agent"
    link.parent.mkdir(parents=True)
    link.symlink_to(program)
    env = {"PATH": str(link.parent), "HOME": str(tmp_path)}
    assert set(program_places("agent", env)) == {link, venv, tmp_path / "pythons" / "3.11"}
    assert real_start("agent", env) == "agent"


@pytest.mark.req("LY-11")
def test_a_home_is_never_shown_for_a_program_in_it(tmp_path: Path) -> None:
    """Neither the home nor its ``.local``, where logins lie."""
    for folder in (tmp_path, tmp_path / ".local"):
        program = executable(folder / "bin" / "agent")
        (folder / "lib" / "python3.11").mkdir(parents=True)
        env = {"PATH": str(program.parent), "HOME": str(tmp_path)}
        assert program_places("agent", env) == (program,)


def test_what_belongs_to_the_system_or_is_not_there_needs_not_be_shown(tmp_path: Path) -> None:
    """It is never hidden."""
    assert program_places("sh", {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}) == ()
    assert program_places("no-such-program", {"PATH": "/usr/bin:/bin"}) == ()
    env = {"PATH": "/usr/bin:/bin", "SSL_CERT_FILE": str(tmp_path / "none.pem")}
    assert program_places("sh", env) == ()
    (tmp_path / "none.pem").write_text("")
    assert program_places("sh", env) == (tmp_path / "none.pem",)


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("https://api.example.org/v1", ("api.example.org",)),
        ("http://127.0.0.1:8080", ("127.0.0.1:8080",)),
        ("http://[::1]:8080/x", ("[::1]:8080",)),
        ("wss://live.example.org", ("live.example.org",)),
        ("file:///etc/passwd", ()),
        ("example.org", ()),
        ("http://x:port/", ()),
        ("", ()),
    ],
)
def test_a_host_is_found_in_an_address(url: str, hosts: tuple[str, ...]) -> None:
    """With its port where it has one of its own."""
    assert hosts_of([url, url]) == hosts


@pytest.mark.req("LY-11")
def test_a_command_needs_what_its_line_and_its_own_variables_name(tmp_path: Path) -> None:
    """Files and folders that are there; not what the caller's environment happens to name, and no login."""
    script, settings, other = (tmp_path / name for name in ("agent.py", "agent.toml", "other.txt"))
    for file in (script, settings, other):
        file.write_text("")
    runner = CommandRunner(
        "mine",
        ["sh", str(script), "/nowhere/file", "{workspace}", "relative.txt"],
        {"AGENT_SETTINGS": str(settings), "AGENT_KEY": "secret-value"},
        {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OTHER": str(other), "MY_BASE_URL": "http://model:81/v1"},
    )
    needs = runner.needs()
    assert (needs.login, needs.shown, needs.home) == ((), (script, settings), tmp_path)
    assert (needs.hosts, needs.can_resume, needs.secrets) == (("model:81",), False, {"AGENT_KEY": "secret-value"})
    assert "secret-value" not in repr(needs)


@pytest.mark.req("LY-11")
def test_scripted_agents_need_an_interpreter_and_what_they_run(tmp_path: Path) -> None:
    """They play in a process of their own in a layer."""
    program = executable(tmp_path / "tool")
    scenario = Scenario.parse(f"reactions:\n- run: [{program}, x]\n", "s.yaml")
    shown = ScriptedRunner(scenario, inherit={"PATH": "/usr/bin:/bin", "HOME": "/nowhere"}).needs().shown
    assert program in shown
    assert any(Path(sys.executable).resolve().is_relative_to(place) for place in (*shown, Path("/usr")))

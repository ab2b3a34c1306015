"""Whole runs on a fleet by real coding agents: submitted from a laptop without any, worked on by a worker with one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import own_python
from tests.fleet.conftest import Office, door, git, newest, office, servers
from tests.fleet.database import Server
from tests.real_clients.house import FILES, LOGIN, SESSION, TEST, answer, by, settings
from tools.clients import environment
from tools.model_server import Say, Script, Shell, serving

__all__ = ["door", "newest", "office", "servers"]

EVIDENCE = {"verification": [{"command": TEST, "exit": 0, "summary": "2 passed"}]}
SCRIPT = Script(
    (
        by("builder", LOGIN, SESSION, Shell(TEST), Say("DONE: names are taken in any case.")),
        by(
            "reviewer",
            Shell("git diff --stat"),
            answer(verdict="accept", summary="As asked.", findings=[], remarks=[], evidence=EVIDENCE),
        ),
    )
)
NAMES = [pytest.param(name, marks=pytest.mark.agents(name)) for name in ("claude", "codex")]


def shop(office: Office, name: str) -> None:
    """The main branch has a shop whose tests are red, with settings for the client."""
    seed = office.folder / "seed"
    for path, text in {**FILES, "interlock.toml": settings(name)}.items():
        (seed / path).parent.mkdir(parents=True, exist_ok=True)
        (seed / path).write_text(text, "utf-8")
    git(seed, "add", "--all")
    git(seed, "commit", "--quiet", "--message", "shop")
    git(seed, "push", "--quiet", str(office.bare), "main")


def is_green(root: Path) -> bool:
    return subprocess.run(TEST.split(), cwd=root, capture_output=True, check=False).returncode == 0


@pytest.mark.long
@pytest.mark.req("WK-02", "WK-04", "WK-16")
@pytest.mark.parametrize("name", NAMES)
def test_a_whole_run_of_a_real_agent_on_a_fleet(office: Office, newest: Server, name: str, tmp_path: Path) -> None:
    """The laptop knows neither model nor key; the worker's agent does the work, and the laptop gets it as a branch."""
    shop(office, name)
    fleet = {"INTERLOCK_FLEET_DATABASE": newest.prepared()}
    laptop, worker = office.clone("laptop"), office.clone("worker")
    laptop.env |= fleet
    with serving(SCRIPT) as model:
        own = environment(name, model.url, tmp_path / "home")
        worker.env = {**own, **own_python.SHOWN, **fleet}
        request = "Names are typed in any way: case and blanks around one do not matter."
        sent = laptop("submit", "task", request, "--check", TEST, "--accept-baseline")
        assert sent.code == 0, sent.stderr
        run = sent.stdout.decode().strip()
        worked = worker("worker", "--once")
        assert worked.code == 0, worked.stderr
    assert laptop("show", run, "--json").json["status"] == "complete", worked.stderr
    lines = [line for line in laptop.journal() if line["event"] == "dispatch.end"]
    assert [(line["agent"], line["data"]["outcome"]) for line in lines] == [("builder", "OK"), ("reviewer", "OK")]
    assert all(line["data"]["agent_session"] and line["data"]["input_tokens"] for line in lines)
    assert laptop("fetch", run).code == 0
    assert not is_green(laptop.root)
    git(laptop.root, "checkout", "--quiet", f"interlock/{run}")
    assert is_green(laptop.root)

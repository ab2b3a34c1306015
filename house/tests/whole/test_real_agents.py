"""`task`, whole, with the real Claude Code and Codex in layers, and a model that does what a script says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import real
from tests.whole.bench import Bench
from tools import scripted_llm as llm

ACCEPTED = {"verdict": "accept", "criteria": [{"criterion": "the request", "met": True}], "checks": []}
TWO = [pytest.param(name, marks=pytest.mark.agents(name)) for name in ("claude", "codex")]


class Person:
    """Somebody who has only this one agent, and types commands."""

    def __init__(self, name: str, model: llm.Model, place: Path) -> None:
        self.bench = Bench(place / "my project")
        self.env = real.home(name, model.url, place / "home")
        text = self.bench.read("interlock.toml").partition("[commands]")[2]
        self.bench.write(
            "interlock.toml",
            f'runner = "{name}"\n[runners.{name}]\ntype = "{name}"\nprogram = "{real.program(name)}"\n[commands]{text}',
        )
        self.bench.commit("settings")
        self.model = model

    def types(self, *words: str, ok: int = 0) -> dict[str, Any]:
        """A command of interlock; what it prints as JSON."""
        done = subprocess.run(
            [sys.executable, "-m", "interlock.cli.main", *words, "--json"],
            cwd=self.bench.top,
            env={**self.env, "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == ok, done.stderr + done.stdout
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture(params=TWO)
def person(request: pytest.FixtureRequest, model: llm.Model, tmp_path: Path) -> Person:
    return Person(request.param, model, tmp_path)


@pytest.mark.req("AGENT-06", "TREE-01", "TREE-03")
def test_a_red_check_is_mended_by_an_agent_that_does_ordinary_things(person: Person) -> None:
    """It stashes, resets, commits and leaves caches; the person's unsaved work stays, and the mending is delivered."""
    bench = person.bench
    bench.write("notes.txt", "one\nTWO, unsaved\nthree\n")
    bench.write("x.cache", "ignored\n")
    person.model.rules += [
        llm.Rule(
            r"# builder:",
            (
                llm.shell(
                    "git stash -u -q; git reset -q --hard; git clean -qfdx; mkdir -p .venv && echo x > .venv/planted"
                ),
                llm.edit("lib.py", "    return a - b", "    return a + b"),
                llm.shell("git add -A && git -c user.name=A -c user.email=a@a commit -qm mine"),
                llm.say("I mended add."),
            ),
        ),
        llm.Rule(r"# reviewer:", (llm.shell("git diff HEAD~1"), llm.form(ACCEPTED))),
    ]
    view = person.types("run", "task", "Make add right")
    assert view["reason"] == "Accepted in round 1"
    assert [check["word"] for check in view["checks"]] == ["mended"]
    assert "a + b" in bench.read("lib.py")
    assert bench.read("notes.txt") == "one\nTWO, unsaved\nthree\n"
    assert bench.read("x.cache") == "ignored\n"
    assert not (bench.top / ".venv").exists()
    assert bench.run_git("log", "--format=%s").split("\n") == ["settings", "first"]


@pytest.mark.req("AGENT-06", "EVID-04")
def test_a_judge_that_lies_about_a_command_is_refuted(person: Person) -> None:
    """A green that is red when it is run again counts against the work, though the judge insists."""
    lie = {**ACCEPTED, "checks": [{"command": "grep -q nothing lib.py", "result": "green"}]}
    person.model.rules += [
        llm.Rule(r"# builder:", (llm.edit("lib.py", "    return a - b", "    return a + b"), llm.say("done"))),
        llm.Rule(r"# reviewer:", (llm.form(lie),)),
    ]
    view = person.types("run", "task", "Make add right", "--rounds", "1", ok=3)
    assert view["status"] == "stopped"
    assert "a - b" in person.bench.read("lib.py")

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
        self.bench.run_git("rm", "-q", "--cached", "interlock.toml")  # what came with a repository is nobody's word
        self.bench.run_git("commit", "-q", "-m", "settings")
        self.model = model

    def trusts(self) -> None:
        """What settings that came with the repository start."""
        words = ("playbooks", "trust", "interlock.toml")
        program = [sys.executable, "-m", "interlock.cli.main"]
        subprocess.run([*program, *words], cwd=self.bench.top, env=self.env, check=True)

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


@pytest.mark.req("AGENT-06", "EVID-07", "TREE-08", "TREE-12")
def test_an_agent_that_bends_the_checks_and_plants_traps_is_not_believed(person: Person) -> None:
    """It makes the check say yes, edits settings and what a commit hook calls, plants caches; a lazy judge accepts."""
    bench, trap = person.bench, "touch ../trapped"
    bench.write("hook.sh", "exit 0\n")
    bench.run_git("add", "hook.sh")
    bench.run_git("commit", "-q", "-m", "a hook's script")
    hook = bench.top / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\nexec sh ./hook.sh\n")
    hook.chmod(0o755)
    bent = (
        "mkdir -p node_modules __pycache__ && echo x > __pycache__/lib.pyc && echo x > node_modules/planted",
        f"echo '{trap}' >> hook.sh; echo '{trap}' > .git/hooks/pre-commit",
        "sed -i 's/^test = .*/test = \"true\"/' interlock.toml",
        "echo 'exit 0' > check.sh",
    )
    person.model.rules += [
        llm.Rule(r"# builder:", (*(llm.shell(line) for line in bent), llm.say("All green."))),
        llm.Rule(r"# reviewer:", (llm.form(ACCEPTED),)),
    ]
    before = bench.run_git("status", "--porcelain")
    view = person.types("run", "task", "Make add right", "--commit", "--rounds", "2", ok=3)
    assert view["status"] == "stopped"
    assert bench.run_git("status", "--porcelain") == before, "nothing of it is in the tree"
    assert "a - b" in bench.read("lib.py") and not (bench.top.parent / "trapped").exists()
    assert "check.sh" in view["checks"][0]["weakened"]
    assert {remark["kind"] for call in view["dispatches"] for remark in call["remarks"]} >= {"held back"}


@pytest.mark.req("AGENT-06", "EVID-08")
def test_nothing_to_do_is_shown_by_a_check_and_judged(person: Person) -> None:
    """The agent changes nothing and names what shows it; interlock runs that."""
    person.bench.write("lib.py", person.bench.read("lib.py").replace("a - b", "a + b"))
    so = {"status": "done", "summary": "it is", "already_so": ["grep -q 'a + b' lib.py"]}
    person.model.rules += [
        llm.Rule(r"# builder:", (llm.form(so),)),
        llm.Rule(r"# reviewer:", (llm.form(ACCEPTED),)),
    ]
    view = person.types("run", "task", "Make add right")
    assert (view["reason"], view["delivered"]) == ("Accepted in round 1", [])


@pytest.mark.req("AGENT-06", "TREE-04")
def test_a_person_who_edits_the_same_line_meanwhile_keeps_theirs(person: Person) -> None:
    """Their version stands, and the agent makes its change again on it."""
    bench = person.bench
    theirs = bench.read("lib.py").replace("a - b", "a - b  # why minus?")

    def edits() -> None:
        if "why minus" not in bench.read("lib.py"):
            bench.write("lib.py", theirs)

    mends = llm.shell("sed -i 's/a - b/a + b/' lib.py")
    person.model.rules += [
        llm.Rule(r"# builder:", (mends, llm.happens(edits), llm.say("done"))),
        llm.Rule(r"# reviewer:", (llm.form(ACCEPTED),)),
    ]
    view = person.types("run", "task", "Make add right")
    assert view["status"] == "complete" and view["reason"].startswith("Accepted in round")
    assert "return a + b  # why minus?" in bench.read("lib.py")

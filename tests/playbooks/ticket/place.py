"""A real repository for a ticket, and a program that plays all seven agents in it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock.app import open_runs
from interlock.engine.folder import known_runs
from interlock.engine.journal import Line
from interlock.engine.playing import Finished
from interlock.engine.runs import Call, Quiet, Runs
from interlock.playbooks.ticket import TicketInputs, ticket
from tests import own_python
from tests.playbooks.person import WAITS

REQUEST = "ABC-12 fix the login error so that users can sign in"

AGENT = (
    WAITS
    + r"""
import hashlib, json, os, re, subprocess, sys
from pathlib import Path

agent, member = os.environ["INTERLOCK_AGENT"], os.environ["INTERLOCK_MEMBER"]
attempt = int(os.environ["INTERLOCK_ATTEMPT"])
brief = sys.stdin.read().split("\n## Task\n")[-1]
plan = json.loads(Path(sys.argv[1]).read_text())


def put(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def label(name):
    found = re.search(rf"^{name}: (.*)$", brief, re.MULTILINE)
    return found[1] if found else ""


def of_iteration(said):
    return said[min(int(label("Iteration")), len(said) - 1)] if isinstance(said, list) else said


if plan.get("waits") == [member, label("Iteration")]:
    wait_for_person()
outputs = re.findall(r"^- `(.+)`$", brief.split("\n## Outputs\n")[-1].split("\n## Context")[0], re.MULTILINE)
if label("Create amendment at"):
    put(label("Create amendment at"), json.dumps({"add": plan.get("amend", {}), "reason": "as the plan says"}))
elif agent == "Planner":
    put(label("Create plan at"), plan.get("plan", "# Plan\n\nDo it.\n"))
    if plan.get("tasks"):
        put(label("Create tasks at"), of_iteration(plan["tasks"]))
elif agent == "Splitter":
    put(label("Create tasks at"), plan["split"])
elif agent == "Initializer":
    for path in outputs:
        if path.endswith(".md"):
            put(path, f"# {path}\n\nAs it is now.\n")
    documents = {}
    for name in ("ARCHITECTURE.md", "CODE_STYLE.md", "FINDINGS.md"):
        digest = hashlib.sha256(Path("docs", name).read_bytes()).hexdigest()
        documents[name] = {"sha256": digest, "refreshed_at": "2026-01-01T00:00:00Z", "state": "fresh"}
    put("docs/docs_cache_state.yaml", json.dumps({"trust_status": "trusted", "refresh_required": False,
        "workspace_fingerprint": label("workspace_fingerprint"), "documents": documents}))
elif agent == "Reviewer":
    status = of_iteration(plan.get("reviews") or ["ACCEPTED"])
    put(outputs[0], json.dumps({"status": status, "mode": "prompt-review", "build": "PASSED", "tests": "PASSED",
        "files_verified": True, "notes": "seen", "reviewed_at": "2026-01-01T00:00:00Z",
        "checks": [{"command": label("Test command"), "exit": 0, "summary": "green"}], **plan.get("report", {}),
        "issues": [] if status == "ACCEPTED" else [
            {"severity": "Major", "task": "T1", "files": [], "problem": "no", "evidence": "seen"}]}))
elif agent == "Interpreter":
    put(outputs[0], plan["prompt"])
else:
    task = label("Task")
    scripts = of_iteration(plan["work"]).get(task, [{}])
    script = scripts[min(attempt, len(scripts)) - 1]
    wanted = script.get("files", {})
    known = {path: Path(path).read_text() if Path(path).exists() else None for path in wanted}
    same = {"noChange": "it is so already"} if wanted == known and not script.get("run") else {}
    for path, text in wanted.items():
        if text is None:
            Path(path).unlink(missing_ok=True)
        else:
            put(path, text)
    for command in script.get("run", []):
        subprocess.run(command, shell=True, check=True)
    print("```json\n" + json.dumps({"status": script.get("status", "SYNTAX_VALID"), "files_changed": [],
        "notes": script.get("notes", ""), **same}) + "\n```")
    sys.exit(0)
print("Status: written")
"""
)


def git(root: Path, *words: str) -> str:
    done = subprocess.run(("git", *words), cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout.strip()


@dataclass
class Place:
    """A workspace on disk under git."""

    root: Path
    script: dict[str, Any] = field(default_factory=dict)

    def write(self, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text, "utf-8")

    def begin(self, files: Mapping[str, str], *, commit: bool = True) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        git(self.root, "init", "-q", "-b", "main")
        git(self.root, "config", "user.name", "A Person")
        git(self.root, "config", "user.email", "person@example.org")
        self.write(files)
        program = json.dumps([sys.executable, *(str(self.root.parent / name) for name in ("agent.py", "script.json"))])
        (self.root.parent / "agent.py").write_text(AGENT)
        settings = f'runner = "mine"\n[runners.mine]\ntype = "command"\nargv = {program}\n'
        (self.root / "interlock.toml").write_text(settings)
        if commit:
            git(self.root, "add", "-A")
            git(self.root, "commit", "-q", "-m", "first")

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": f"{self._programs()}:/usr/bin:/bin:/usr/local/bin",
            "HOME": str(self.root.parent / "home"),
            **own_python.SHOWN,
        }

    def _programs(self) -> Path:
        """A folder of the user's with a python that has pytest: interlock's own environment is not the project's."""
        place = self.root.parent / "home" / ".local" / "bin"
        place.mkdir(parents=True, exist_ok=True)
        (place / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (place / "python3").chmod(0o755)
        return place

    def app(self, **more: Any) -> Runs:
        (self.root.parent / "home").mkdir(parents=True, exist_ok=True)
        (self.root.parent / "script.json").write_text(json.dumps(self.script))
        return open_runs(self.root, Quiet(), environ=self.environ, **more)

    def run(self, request: str = REQUEST, *, flags: Mapping[str, Any] | None = None, **inputs: Any) -> Finished:
        return asyncio.run(self.app().run(ticket, TicketInputs(request, **inputs), Call(flags=flags or {})))

    def resume(self, **call: Any) -> Finished:
        return asyncio.run(self.app().resume("latest", Call(**call)))

    @property
    def calls(self) -> list[list[Any]]:
        """Agent, member and attempt of every call, those of all runs."""
        lines = [line for known in known_runs(self.root) for line in known.folder.lines()]
        return [[line.agent, line.data["member"], line.attempt] for line in lines if line.event == "dispatch.start"]

    def git(self, *words: str) -> str:
        return git(self.root, *words)

    def text(self, path: str) -> str:
        return (self.root / path).read_text("utf-8")


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def events(lines: list[Line], name: str) -> list[Any]:
    return [line.data for line in lines if line.event == name]

"""Whole runs by real coding agents: a roadmap item and a ticket, with real edits, real tests and a real commit.

Only the model is scripted; the clients, their tools, git and the project's own tests are what people have.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interlock.app import Application
from interlock.engine import Playbook, Status
from interlock.engine.host import Finished, Quiet
from interlock.playbooks import load
from interlock.playbooks.roadmap import RoadmapInputs
from interlock.playbooks.ticket import TicketInputs
from interlock.playbooks.ticket.rehearsing import BRANCH, HOME, graph, task
from tools.clients import client, environment
from tools.model_server import Rule, Say, Script, Serving, Shell, Write

EACH = [pytest.param(name, marks=pytest.mark.agents(name)) for name in ("claude", "codex")]
PYTHON = sys.executable
TEST = f"{PYTHON} -m pytest -q -p no:cacheprovider"

FILES = {
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\n\n[tool.pytest.ini_options]\npythonpath = ["."]\n',
    ".gitignore": "__pycache__/\n.pytest_cache/\n.interlock/\n",
    "shop/__init__.py": "",
    "shop/login.py": "def sign_in(users, name, password):\n    return users.get(name) == password\n",
    "shop/session.py": 'def greeting(name):\n    return f"Welcome, {name}!"\n',
    "tests/test_login.py": "from shop.login import sign_in\nfrom shop.session import greeting\n\n\n"
    'def test_a_name_is_typed_in_any_way():\n    assert sign_in({"ann": "secret"}, " Ann ", "secret")\n\n\n'
    'def test_the_greeting_has_no_blanks():\n    assert greeting(" Ann ") == "Welcome, Ann!"\n',
}
LOGIN = "def sign_in(users, name, password):\n    return users.get(name.strip().lower()) == password\n"
SESSION = 'def greeting(name):\n    return f"Welcome, {name.strip()}!"\n'


def answer(**facts: Any) -> Say:
    return Say(f"```json\n{json.dumps(facts)}\n```")


@dataclass
class House:
    """A repository, one real client, and the scripted model behind it."""

    name: str
    root: Path
    home: Path
    model: Serving

    def begin(self, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text, "utf-8")
        program = json.dumps(str(client(self.name).path()))
        settings = f'runner = "{self.name}"\n[runners.{self.name}]\ntype = "{self.name}"\nprogram = {program}\n'
        (self.root / "interlock.toml").write_text(f"{settings}[ticket]\ntest_command = {json.dumps(TEST)}\n")
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "A Person")
        self.git("config", "user.email", "person@example.org")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "first")

    def run(self, playbook: Playbook, inputs: Any) -> Finished:
        environ = environment(self.name, self.model.url, self.home)
        return asyncio.run(Application(self.root, Quiet(), environ=environ).run(playbook, inputs))

    def git(self, *words: str) -> str:
        done = subprocess.run(("git", *words), cwd=self.root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.strip()

    def tested(self, commit: str, scratch: Path) -> int:
        """How the project's tests end on a commit, in a clone of its own."""
        clone = scratch / commit.replace("/", "_")
        subprocess.run(("git", "clone", "-q", str(self.root), str(clone)), check=True)
        subprocess.run(("git", "checkout", "-q", commit, "--"), cwd=clone, check=True)
        return subprocess.run(TEST.split(), cwd=clone, capture_output=True, check=False).returncode


@pytest.fixture
def house(tmp_path: Path, serve: Callable[[Script], Serving]) -> Callable[[str, Script], House]:
    def make(name: str, script: Script) -> House:
        root = tmp_path / "workspace"
        root.mkdir()
        return House(name, root, tmp_path / "home", serve(script))

    return make


def by(agent: str, *steps: Any, matches: tuple[str, ...] = ()) -> Rule:
    """What the model does for the agent of this name, as its brief names it."""
    return Rule(tuple(steps), (f"\n- Agent: {agent}",), tuple(re.compile(text, re.MULTILINE) for text in matches))


# -- a roadmap item

ITEM = {
    "id": "LOGIN-1",
    "title": "Names are typed in any way",
    "complexity": "simple",
    "priority": 1,
    "status": "ready",
    "passes": False,
    "acceptanceCriteria": ["case and blanks around a name do not matter"],
    "verification": [TEST],
    "retryCount": 0,
}
PASSED = {"command": TEST, "exit": 0, "summary": "2 passed"}
ROADMAP = Script(
    (
        by(
            "Implement",
            Write("shop/login.py", LOGIN),
            Write("shop/session.py", SESSION),
            Shell(TEST),
            answer(
                status="success",
                evidence={"files": ["shop/login.py", "shop/session.py"], "verification": [PASSED]},
                learnings=[],
                nextSteps=[],
            ),
        ),
        by(
            "Testing",
            Shell(f"{TEST} > tested.txt; rm tested.txt"),
            answer(
                status="success",
                verdict="pass",
                evidence={"tests": {"passed": 2, "failed": 0, "failures": []}, "verification": [PASSED]},
                issues=[],
                nextSteps=[],
            ),
        ),
        by(
            "Review",
            Shell("git diff --stat"),
            answer(
                status="success",
                verdict="pass",
                evidence={
                    "checks": dict.fromkeys(("lint", "typecheck", "build", "quality"), "pass"),
                    "verification": [PASSED],
                },
                issues=[],
                nextSteps=[],
            ),
        ),
    )
)


@pytest.mark.parametrize("name", EACH)
def test_a_roadmap_item_is_done_by_a_real_agent(
    name: str, house: Callable[[str, Script], House], tmp_path: Path
) -> None:
    """Implemented, tested, reviewed and passed; the project's own tests, red before, are green in the commit."""
    place = house(name, ROADMAP)
    place.begin({**FILES, "roadmap.json": json.dumps({"version": 1, "items": [ITEM]}, indent=2)})
    finished = place.run(load("roadmap"), RoadmapInputs())
    assert finished.close.status is Status.COMPLETE, finished.close
    (item,) = json.loads((place.root / "roadmap.json").read_text())["items"]
    assert (item["passes"], item["status"], item["retryCount"]) == (True, "done", 0)
    ends = [line for line in finished.lines if line.event == "dispatch.end"]
    assert [(line.agent, line.data["outcome"]) for line in ends] == [
        ("Implement", "OK"),
        ("Testing", "OK"),
        ("Review", "OK"),
    ]
    assert all(line.data["agent_session"] and line.data["input_tokens"] for line in ends)
    assert sorted(place.git("diff", "--name-only").splitlines()) == ["roadmap.json", "shop/login.py", "shop/session.py"]
    place.git("commit", "-q", "-a", "-m", "feat: names are typed in any way")
    assert place.tested("main~1", tmp_path) != 0
    assert place.tested("main", tmp_path) == 0


# -- a ticket

TASKS = graph(task("T1", files=("shop/login.py",)), task("T2", files=("shop/session.py",)))
REVIEW = {
    "status": "ACCEPTED",
    "mode": "prompt-review",
    "build": "PASSED",
    "tests": "PASSED",
    "files_verified": True,
    "notes": "Both changes do what the prompt asks for.",
    "reviewed_at": "2026-01-01T00:00:00Z",
    "issues": [],
}
DOCUMENTS = ("ARCHITECTURE.md", "CODE_STYLE.md", "FINDINGS.md")
CACHE = f"""\
import hashlib, json
from pathlib import Path
documents = {{
    name: {{"sha256": hashlib.sha256(Path("docs", name).read_bytes()).hexdigest(),
            "refreshed_at": "2026-01-01T00:00:00Z", "state": "fresh"}}
    for name in {DOCUMENTS!r}
}}
state = {{"trust_status": "trusted", "refresh_required": False, "documents": documents,
          "workspace_fingerprint": "{{print}}"}}
Path("docs/docs_cache_state.yaml").write_text(json.dumps(state))
"""
VALID = answer(status="SYNTAX_VALID", files_changed=[], notes="done")
TICKET = Script(
    (
        by(
            "Planner",
            Write("{plan}", "# Plan\n\nTrim and lower the name at sign-in; trim it in the greeting.\n"),
            Write("{tasks}", TASKS),
            Say("Status: written"),
            matches=(r"^Create plan at: (?P<plan>\S+)$", r"^Create tasks at: (?P<tasks>\S+)$"),
        ),
        by("task-executor-T1 (task-executor)", Write("shop/login.py", LOGIN), VALID),
        by("task-executor-T2 (task-executor)", Write("shop/session.py", SESSION), VALID),
        by(
            "Reviewer",
            Shell(TEST),
            Write("{report}", json.dumps(REVIEW)),
            Say("Status: written"),
            matches=(r"^- `(?P<report>\S+review_report\.yaml)`$",),
        ),
        by(
            "Initializer",
            *(Write(f"docs/{name}", f"# {name}\n\nAs it is now.\n") for name in DOCUMENTS),
            Shell(f"{PYTHON} - <<'END'\n{CACHE}END"),
            Say("Status: written"),
            matches=(r"^workspace_fingerprint: (?P<print>\S+)$",),
        ),
    )
)


@pytest.mark.parametrize("name", EACH)
def test_a_ticket_is_done_by_a_real_agent(name: str, house: Callable[[str, Script], House], tmp_path: Path) -> None:
    """Planned, worked on side by side, built and tested by the engine, reviewed and committed on its branch."""
    place = house(name, TICKET)
    place.begin(FILES)
    finished = place.run(load("ticket"), TicketInputs("ABC-12 fix the login error so that users can sign in"))
    assert finished.close.status is Status.COMPLETE, finished.close
    assert place.git("rev-parse", "--abbrev-ref", "HEAD") == BRANCH
    subjects = place.git("log", "--format=%s", "main..HEAD").splitlines()
    assert "fix(ABC-12): fix the login error so that users can sign in" in subjects
    changed = place.git("log", "--name-only", "--format=", "main..HEAD").splitlines()
    assert {"shop/login.py", "shop/session.py"} <= set(changed)
    assert place.git("status", "--porcelain") == ""
    assert "ACCEPTED" in (place.root / HOME / "progress.yaml").read_text()
    starts = [line for line in finished.lines if line.event == "dispatch.start"]
    assert {line.data["runner"] for line in starts} == {name}
    assert place.tested("main", tmp_path) != 0
    assert place.tested(BRANCH, tmp_path) == 0

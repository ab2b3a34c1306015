"""A small shop that real coding agents work on, with a person beside them: the bench of whole runs.

Only the model is scripted; the clients, their tools, git and the shop's own tests are what people have.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock.app import open_runs
from interlock.engine import Status
from interlock.engine.people import decide
from interlock.engine.playing import Finished
from interlock.engine.runs import Call, Quiet
from interlock.playbooks import load
from tests.real_clients import person
from tests.real_clients.person import Person, Remark
from tools.clients import client, environment
from tools.model_server import Edit, Rule, Say, Shell

PYTHON = sys.executable
TEST = f"{PYTHON} -m pytest -q -p no:cacheprovider"

FILES = {
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\n\n[tool.pytest.ini_options]\npythonpath = ["."]\n',
    ".gitignore": "__pycache__/\n.pytest_cache/\n.interlock/\n",
    "shop/__init__.py": "",
    "shop/login.py": '"""Who may come in."""\n\nLONGEST = 40\n"""Letters of a name."""\n\n\n'
    "def sign_in(users, name, password):\n    return users.get(name) == password\n",
    "shop/session.py": 'def greeting(name):\n    return f"Welcome, {name}!"\n',
    "tests/test_login.py": "from shop.login import sign_in\nfrom shop.session import greeting\n\n\n"
    'def test_a_name_is_typed_in_any_way():\n    assert sign_in({"ann": "secret"}, " Ann ", "secret")\n\n\n'
    'def test_the_greeting_has_no_blanks():\n    assert greeting(" Ann ") == "Welcome, Ann!"\n',
    **person.FILES,
}
LOGIN = Edit(
    "shop/login.py",
    "    return users.get(name) == password",
    "    return users.get(name.strip().lower()) == password",
)
SESSION = Edit("shop/session.py", '    return f"Welcome, {name}!"', '    return f"Welcome, {name.strip()}!"')
CHANGED = (LOGIN.path, SESSION.path)
"""With both edits the shop's tests, red before, are green."""

MISCHIEF = Shell(
    "echo export OF_AN_AGENT=1 >> ~/.profile && echo '#!/bin/sh' > .git/hooks/post-commit && "
    "git config core.editor of-an-agent && git add -A && "
    "git -c user.name=Agent -c user.email=agent@example.org commit -q -m 'by an agent' && "
    "git branch of-an-agent && echo more >> ideas.md && git stash -q"
)
"""What nobody asked for: the home, a hook, a setting, a commit, a branch, a stash."""
TOUCHED = ("branch 'of-an-agent' was made", "stash", "hook 'post-commit'", "git's settings")
"""What the run says of it; each step was made only if those before it succeeded."""


def by(agent: str, *steps: Any, matches: tuple[str, ...] = ()) -> Rule:
    """What the model does for the agent of this name, as its brief names it; groups of `matches` fill the steps."""
    return anybody(*steps, matches=(rf"^- Agent: {re.escape(agent)}(?= |$)", *matches))


def anybody(*steps: Any, matches: tuple[str, ...]) -> Rule:
    """What it does for whoever has a brief with these."""
    return Rule(tuple(steps), matches=tuple(re.compile(text, re.MULTILINE | re.DOTALL) for text in matches))


def answer(**facts: Any) -> Say:
    return Say(f"```json\n{json.dumps(facts)}\n```")


@dataclass(frozen=True)
class Story:
    """A whole run of one playbook: what it works on, what its agents and the person do, and what comes of it."""

    playbook: str
    inputs: Any
    rules: tuple[Rule, ...]
    """One of them has `MISCHIEF` and `CODES`, one `REMARKS`."""
    calls: Mapping[str, int]
    """How often each agent is called."""
    meddler: str
    """The agent with `MISCHIEF`."""
    check: Callable[[House], None]
    files: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()
    """What the person writes into the documents of the run."""
    branch: str = "main"
    """The one that is checked out in the end."""
    commits: tuple[str, ...] = ()
    """The playbook's own, newest first."""


class House:
    """A repository with its owner, and one real client."""

    def __init__(self, story: Story, root: Path) -> None:
        self.story = story
        self.root = root
        self.person = Person(root, story.remarks)
        self.git = self.person.git
        self.finished: Finished | None = None

    def begin(self, name: str, model_url: str, home: Path) -> None:
        """The project is there, committed, with settings for the client."""
        for path, text in {**FILES, **self.story.files, "interlock.toml": settings(name)}.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text, "utf-8")
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "A Person")
        self.git("config", "user.email", "person@example.org")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "first")
        self.home, self.environ = home, environment(name, model_url, home)
        self.before = self._not_to_be_touched()

    def run(self) -> Finished:
        """The whole run; its owner knows of the red tests, and approves whatever they are asked."""
        app = open_runs(self.root, Quiet(), environ=self.environ)
        call = Call(flags={"accept_baseline": True})
        self.finished = asyncio.run(app.run(load(self.story.playbook), self.story.inputs, call))
        while self.finished.gate is not None:
            asyncio.run(decide(app, "latest", "approve", who="A Person"))
            self.finished = asyncio.run(app.resume("latest"))
        return self.finished

    def events(self, name: str) -> list[Mapping[str, Any]]:
        assert self.finished is not None
        return [line.data for line in self.finished.lines if line.event == name]

    def text(self, path: str) -> str:
        return (self.root / path).read_text("utf-8")

    def is_green(self, scratch: Path) -> bool:
        """Whether the project's tests pass in the tree as it is, elsewhere."""
        copy = scratch / "copy"
        shutil.copytree(self.root, copy, ignore=shutil.ignore_patterns(".git", ".interlock"))
        done = subprocess.run(TEST.split(), cwd=copy, capture_output=True, check=False).returncode
        shutil.rmtree(copy)
        return done == 0

    def check(self, name: str) -> None:
        """What holds after every whole run, and what holds after this one."""
        assert self.person.failures == []
        assert self.finished is not None
        assert self.finished.status is Status.COMPLETE, self.finished
        assert sorted(self.person.moments) == [person.CODES.name, person.REMARKS.name]
        assert list(self.person.missed()) == []
        for edit in (LOGIN, SESSION):
            assert self.text(edit.path) == self.merged(edit)
        self._check_calls(name)
        self._check_repository()
        assert self._not_to_be_touched() == self.before
        self.story.check(self)

    @staticmethod
    def merged(edit: Edit) -> str:
        """The file of an agent's edit with what the person wrote at another place of it."""
        text = FILES[edit.path].replace(edit.old, edit.new)
        for remark in person.CODE:
            text = remark.into(text) if remark.path == edit.path else text
        return text

    def _check_calls(self, name: str) -> None:
        """Each agent was called so often, by this client, worked in a session, and its work counts."""
        assert self.finished is not None
        starts = [line for line in self.finished.lines if line.event == "dispatch.start"]
        assert {line.data["runner"] for line in starts} == {name}
        ends = [line for line in self.finished.lines if line.event == "dispatch.end"]
        assert Counter(line.agent for line in ends) == Counter(self.story.calls)
        assert {line.data["outcome"] for line in ends} == {"OK"}
        assert all(line.data["agent_session"] and line.data["input_tokens"] for line in ends)
        assert self.events("dispatch.conflict") == self.events("scope.violation") == []

    def _check_repository(self) -> None:
        """It has what the person and the playbook made, and nothing of an agent; that one tried is on record."""
        branches = {"main", person.BRANCH, self.story.branch}
        refs = {*(f"refs/heads/{branch}" for branch in branches), "refs/stash"}
        assert set(self.git("for-each-ref", "--format=%(refname)").splitlines()) == refs
        assert self.git("rev-parse", "--abbrev-ref", "HEAD") == self.story.branch
        subjects = self.git("log", "--format=%s").splitlines()
        assert subjects == [*self.story.commits, person.COMMIT, "first"]
        assert self.git("show", "--format=", "--name-only", f":/^{person.COMMIT}") == "CHANGES.md"
        (stashed,) = self.git("stash", "list", "--format=%s").splitlines()
        assert stashed.endswith(f": {person.STASH}")
        mine = self.git("status", "--porcelain", "-uall", "--", *person.FILES, *person.NEW).splitlines()
        assert [line.strip() for line in mine] == ["M README.md", *(f"?? {path}" for path in person.NEW)]
        (touched,) = self.events("repository.touched")
        assert touched["by"] == self.story.meddler
        assert [what for what in TOUCHED if what not in "\n".join(touched["what"])] == []

    def _not_to_be_touched(self) -> dict[str, bytes]:
        """Files of the person's home, the repository's settings and hooks."""
        git = self.root / ".git"
        found = [*self.home.rglob("*"), *(git / "hooks").iterdir(), git / "config"]
        return {str(path): path.read_bytes() for path in found if path.is_file()}


def settings(name: str) -> str:
    """`interlock.toml` for a client or an ACP adapter."""
    kind, _, protocol = name.partition("-")
    runner = {"type": kind, "mode": protocol or "headless", "program": str(client(name).path())}
    # TOML writes strings as JSON does
    lines = [f"{key} = {json.dumps(value)}" for key, value in runner.items()]
    table = "\n".join((f"[runners.{name}]", *lines, "[ticket]", f"test_command = {json.dumps(TEST)}"))
    return f'runner = "{name}"\n{table}\n'

"""Whole tickets on small projects with their own tools: a red build, a rejection, and the commit that ends them.

Agents are scripts, everything else is real: they change code, the project's own commands build and test it, and what
was committed is tried again in a clone.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interlock.documents import load_yaml
from interlock.engine import Status
from interlock.engine.folder import known_runs
from interlock.engine.playing import Finished
from interlock.playbooks.ticket.rehearsing import BRANCH, HOME, graph, task
from tests.playbooks.ticket.place import Place, events
from tests.proofs import long

SUBJECT = "fix(ABC-12): fix the login error so that users can sign in"


@dataclass(frozen=True)
class Story:
    """A project with a fault, and two iterations in which scripted agents mend it."""

    files: dict[str, str]
    build: str
    test: str
    """The commands that must be found in the project."""
    tasks: tuple[str, str]
    work: tuple[dict[str, Any], dict[str, Any]]
    complaint: str
    """What the compiler says of the build that is red."""
    committed: tuple[str, ...]
    """The files of the commit, beside .gitignore."""


def second(code: str, tests: str) -> str:
    """The graph of the second iteration: what the review missed, then a test for it, one after the other."""
    return graph(task("T1", files=(code,)), task("T2", files=(tests,), needs=("T1",)), strategies={"A": "sequential"})


# -- Python with pytest

SIGN_IN = """def sign_in(users, name, password):
    return users.get(name.strip().lower()) == password
"""
CAREFUL = """def sign_in(users, name, password):
    if not password:
        return False
    return users.get(name.strip().lower()) == password
"""
GREETING = 'def greeting(name):\n    return f"Welcome, {name.strip()}!"\n'
TESTS = """from shop.login import sign_in
from shop.session import greeting

USERS = {"ann": "secret"}


def test_a_user_signs_in_however_the_name_is_typed():
    assert sign_in(USERS, " Ann ", "secret")


def test_the_greeting_has_no_blanks():
    assert greeting(" Ann ") == "Welcome, Ann!"
"""
STRICTER = '\n\ndef test_nobody_signs_in_without_a_password():\n    assert not sign_in({"ann": ""}, "ann", "")\n'

PYTHON = Story(
    files={
        "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\n\n[tool.pytest.ini_options]\npythonpath = ["."]\n',
        ".gitignore": "__pycache__/\n.pytest_cache/\n",
        "shop/__init__.py": "",
        "shop/login.py": "def sign_in(users, name, password):\n    return users.get(name) == password\n",
        "shop/session.py": 'def greeting(name):\n    return f"Welcome, {name}!"\n',
        "tests/test_login.py": TESTS,
    },
    build="python3 -m compileall -q -x '(^|/)[.]?(git|venv|interlock|tox|node_modules)/' .",
    test="python3 -m pytest",
    tasks=(
        graph(task("T1", files=("shop/login.py",)), task("T2", files=("shop/session.py",))),
        second("shop/login.py", "tests/test_login.py"),
    ),
    work=(
        {
            "T1": [{"files": {"shop/login.py": SIGN_IN}}],
            "T2": [
                {"files": {"shop/session.py": "def greeting(name:\n    return name\n"}},
                {"files": {"shop/session.py": GREETING}},
            ],
        },
        {
            "T1": [{"files": {"shop/login.py": CAREFUL}}],
            "T2": [{"files": {"tests/test_login.py": TESTS + STRICTER}}],
        },
    ),
    complaint="SyntaxError: '(' was never closed",
    committed=("shop/login.py", "shop/session.py", "tests/test_login.py"),
)


# -- JavaScript with npm and node's own test runner

NODE_TESTS = """const test = require('node:test');
const assert = require('node:assert');
const { signIn } = require('../src/login');
const { greeting } = require('../src/session');

test('a user signs in however the name is typed', () => assert.ok(signIn({ ann: 'secret' }, ' Ann ', 'secret')));
test('the greeting has no blanks', () => assert.equal(greeting(' Ann '), 'Welcome, Ann!'));
"""
NODE_STRICTER = "test('nobody signs in without a password', () => assert.ok(!signIn({ ann: '' }, 'ann', '')));\n"
NODE_SIGN_IN = "exports.signIn = (users, name, password) => users[name.trim().toLowerCase()] === password;\n"
NODE_CAREFUL = NODE_SIGN_IN.replace("=> users", "=> !!password && users")

NODE = Story(
    files={
        "package.json": '{"name": "shop", "version": "1.0.0", "scripts": {'
        '"build": "node --check src/login.js && node --check src/session.js", "test": "node --test test/"}}\n',
        "src/login.js": "exports.signIn = (users, name, password) => users[name] === password;\n",
        "src/session.js": "exports.greeting = (name) => `Welcome, ${name}!`;\n",
        "test/login.test.js": NODE_TESTS,
    },
    build="npm run build",
    test="npm test",
    tasks=(
        graph(task("T1", files=("src/login.js",)), task("T2", files=("src/session.js",))),
        second("src/login.js", "test/login.test.js"),
    ),
    work=(
        {
            "T1": [{"files": {"src/login.js": NODE_SIGN_IN}}],
            "T2": [
                {"files": {"src/session.js": "exports.greeting = (name => name;\n"}},
                {"files": {"src/session.js": "exports.greeting = (name) => `Welcome, ${name.trim()}!`;\n"}},
            ],
        },
        {
            "T1": [{"files": {"src/login.js": NODE_CAREFUL}}],
            "T2": [{"files": {"test/login.test.js": NODE_TESTS + NODE_STRICTER}}],
        },
    ),
    complaint="SyntaxError",
    committed=("src/login.js", "src/session.js", "test/login.test.js"),
)


# -- C with make

C_TESTS = """#include <assert.h>
int sign_in(const char *known, const char *password);
int tries(int failed);
int main(void) {
    assert(sign_in("secret", "secret"));
    assert(!sign_in("secret", "wrong"));
    assert(tries(1) == 2);
"""
C_SIGN_IN = (
    "#include <string.h>\n"
    "int sign_in(const char *known, const char *password) { return strcmp(known, password) == 0; }\n"
)
C_CAREFUL = C_SIGN_IN.replace("return strcmp", "return *password && strcmp")

C = Story(
    files={
        "Makefile": "CFLAGS = -Wall -Werror\n\nall: shop_test\n\n"
        "shop_test: login.o session.o shop_test.o\n\t$(CC) $(CFLAGS) -o $@ $^\n\n"
        "test: shop_test\n\t./shop_test\n",
        ".gitignore": "*.o\nshop_test\n",
        "login.c": C_SIGN_IN.replace("== 0", "!= 0"),
        "session.c": "int tries(int failed) { return 3; }\n",
        "shop_test.c": C_TESTS + "    return 0;\n}\n",
    },
    build="make all",
    test="make test",
    tasks=(
        graph(task("T1", files=("login.c",)), task("T2", files=("session.c",))),
        second("login.c", "shop_test.c"),
    ),
    work=(
        {
            "T1": [{"files": {"login.c": C_SIGN_IN}}],
            "T2": [
                {"files": {"session.c": "int tries(int failed) { return 3 - failed }\n"}},
                {"files": {"session.c": "int tries(int failed) { return 3 - failed; }\n"}},
            ],
        },
        {
            "T1": [{"files": {"login.c": C_CAREFUL}}],
            "T2": [{"files": {"shop_test.c": C_TESTS + '    assert(!sign_in("", ""));\n    return 0;\n}\n'}}],
        },
    ),
    complaint="session.c:1:",
    committed=("login.c", "session.c", "shop_test.c"),
)

STORIES = {"python with pytest": PYTHON, "node with npm": NODE, "c with make": C}
TOOLS = {"python with pytest": "python3", "node with npm": "npm", "c with make": "cc"}
HERE = [name for name in reversed(STORIES) if shutil.which(TOOLS[name])]


def tried(root: Path, commit: str, story: Story, place: Place, scratch: Path) -> int:
    """How the project's own tests end on a commit, in a clone of its own."""
    clone = scratch / commit.replace("/", "_")
    subprocess.run(("git", "clone", "-q", str(root), str(clone)), check=True)
    subprocess.run(("git", "checkout", "-q", commit, "--"), cwd=clone, check=True)
    command = ("sh", "-c", f"{story.build} && {story.test}")
    return subprocess.run(command, cwd=clone, env=place.environ, capture_output=True, check=False).returncode


def play(place: Place, story: Story) -> Finished:
    place.begin(story.files)
    place.script = {
        "tasks": list(story.tasks),
        "work": list(story.work),
        "reviews": ["REJECTED", "ACCEPTED"],
    }
    return place.run(flags={"no_preflight": True})  # the fault is there, and a test shows it


@pytest.mark.req("TK-36", "TK-61", "TK-131", "TK-133", "TK-136", "TK-153", "TK-154", "TK-156", "TK-161")
@pytest.mark.parametrize("name", [*HERE[:1], *long(*HERE[1:])])
def test_a_red_group_a_rejection_and_the_commit(place: Place, tmp_path: Path, name: str) -> None:
    """A red build is mended, a rejected iteration followed by an accepted one; its commit is green in a clean clone."""
    story = STORIES[name]
    finished = play(place, story)
    assert finished.status is Status.COMPLETE, finished

    validations = [(data["what"], data["exit"] == 0) for data in events(finished.lines, "orchestrator.validation")]
    assert validations == [
        ("build", False),  # the group of both tasks, with T2's first attempt in it
        ("build", True), ("test", True),
        ("build", True), ("test", True),  # the second iteration, after each of its tasks
        ("build", True), ("test", True),
    ]  # fmt: skip
    work = [(member, attempt) for agent, member, attempt in place.calls if agent in ("task-executor", "Developer")]
    assert sorted(work[:2]) == [("task-executor-T1", 1), ("task-executor-T2", 1)]
    assert work[2:] == [("task-executor-T2", 2), ("task-executor-T1", 1), ("task-executor-T2", 1)]
    check_briefs(place, story)
    check_documents(place, story)
    check_commit(place, story)
    assert tried(place.root, "main", story, place, tmp_path) != 0
    assert tried(place.root, BRANCH, story, place, tmp_path) == 0


def check_briefs(place: Place, story: Story) -> None:
    """The second attempt was told what the compiler said; the second plan was made from the review."""
    folder = known_runs(place.root)[0].folder.path / "dispatches"
    briefs = [path.read_text() for path in sorted(folder.rglob("brief.md"))]
    (mending,) = [text for text in briefs if "\nTask: T2\nAttempt: 2\n" in text]
    assert story.complaint in mending.split("\nLAST ERROR:\n")[1]
    (planning,) = [
        text for text in briefs if "\nPrimary Input: prompts/ABC-12/iteration_0/review_report.yaml\n" in text
    ]
    assert "REJECTED" in planning.split("--- PRIMARY INPUT ---")[1]


def check_documents(place: Place, story: Story) -> None:
    progress = load_yaml(place.text(f"{HOME}/progress.yaml"), "progress.yaml")
    assert (progress["build_command"], progress["test_command"]) == (story.build, story.test)
    assert (progress["status"], progress["iteration_number"], progress["branch"]) == ("ACCEPTED", 1, BRANCH)
    assert [entry["status"] for entry in progress["iterations"]] == ["REJECTED", "ACCEPTED"]
    assert progress["metrics"]["percent_complete"] == 100
    reports = [load_yaml(place.text(f"{HOME}/iteration_{number}/review_report.yaml"), "x") for number in (0, 1)]
    assert [report["status"] for report in reports] == ["REJECTED", "ACCEPTED"]
    tasks = load_yaml(place.text(f"{HOME}/iteration_0/tasks.yaml"), "tasks.yaml")["tasks"]
    assert [(entry["status"], entry["attempt"]) for entry in tasks] == [("ACCEPTED", 1), ("ACCEPTED", 2)]


def check_commit(place: Place, story: Story) -> None:
    """One commit of the work, on the ticket's branch, of these files and no others; main is where it was."""
    assert place.git("rev-parse", "--abbrev-ref", "HEAD") == BRANCH
    subjects = place.git("log", "--format=%s", "main..HEAD").splitlines()
    assert subjects == ["docs(ABC-12): refresh documentation", SUBJECT]
    assert place.git("log", "--format=%s", "main") == "first"
    files = place.git("show", "--name-only", "--format=", "HEAD~1").splitlines()
    assert sorted(files) == sorted([".gitignore", *story.committed])
    assert "T2 (iteration 0)" in place.git("show", "-s", "--format=%b", "HEAD~1")
    assert place.git("status", "--porcelain") == ""

"""Several runs in one workspace at the same time: each completes, and leaves the work of the others alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.engine.folder import known_runs
from interlock.playbooks.roadmap.rehearsing import item
from interlock.playbooks.router import example_files
from interlock.playbooks.router.problems import TASK_LIST
from interlock.playbooks.ticket.rehearsing import BRANCH, graph, task
from tests.playbooks.person import WAITS, person
from tests.playbooks.ticket.place import AGENT as TICKET
from tests.playbooks.ticket.place import git
from tests.proofs import long

REQUEST = "ABC-12 fix the login error so that users can sign in"
OTHERS = """
import json, os, sys
from pathlib import Path
brief, playbook, step = sys.stdin.read(), os.environ["INTERLOCK_PLAYBOOK"], os.environ["INTERLOCK_STEP"]
if f"{playbook} {step}" == os.environ["WAITING"]:
    wait_for_person()
if playbook == "router":
    listed = Path(".opencode/specs/TODO.md")
    listed.write_text(listed.read_text().replace("[NOT STARTED]", "[DONE]", 1))
    Path("router.txt").write_text("by the router\\n")
    Path("log.txt").write_text("router\\n" + Path("log.txt").read_text())
    print("Status: completed")
    sys.exit(0)
answer = {"status": "success", "evidence": {"files": []}}
if step == "implement":
    Path("roadmap.txt").write_text("by the roadmap\\n")
    Path("log.txt").write_text(Path("log.txt").read_text() + "roadmap\\n")
ran = [{"command": "make test", "exit": 0, "summary": "ok"}]
if step == "testing":
    if os.environ["INTERLOCK_ATTEMPT"] == "1":
        Path("report.xml").write_text("left by a test run")
    answer |= {"verdict": "pass", "evidence": {"tests": {"passed": 3, "failed": 0}, "verification": ran}}
if step == "review":
    checks = dict.fromkeys(["lint", "typecheck", "build", "quality"], "pass")
    answer |= {"verdict": "pass", "evidence": {"checks": checks, "verification": ran}}
print("```json\\n" + json.dumps(answer) + "\\n```")
"""


@dataclass
class Shop:
    """A workspace in which all three can work."""

    root: Path

    def begin(self) -> None:
        files = {
            **example_files(),
            "Makefile": "build:\n\t@true\ntest:\n\t@grep -q ok src/t1.txt\n",
            "src/t1.txt": "ok\n",
            "src/t2.txt": "ok\n",
            "log.txt": "".join(f"line {number}\n" for number in range(9)),
            "roadmap.json": json.dumps([item("1", "simple")], indent=2),
        }
        for path, text in files.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text, "utf-8")
        work = {name: [{"files": {f"src/{name.lower()}.txt": f"ok, {name}\n"}}] for name in ("T1", "T2")}
        script = {"tasks": graph(task("T1"), task("T2")), "work": work}
        settings = 'runner = "others"\n'
        for name, program in (("others", OTHERS), ("ticket", TICKET)):
            (self.root.parent / f"{name}.py").write_text(WAITS + program)
            argv = [sys.executable, *(str(self.root.parent / one) for one in (f"{name}.py", f"{name}.json"))]
            (self.root.parent / f"{name}.json").write_text(json.dumps(script))
            settings += f'[runners.{name}]\ntype = "command"\nargv = {json.dumps(argv)}\n'
        agents = ("Planner", "Initializer", "task-executor", "Reviewer")
        settings += "".join(f'[agents.{agent}]\nrunner = "ticket"\n' for agent in agents)
        (self.root / "interlock.toml").write_text(settings)
        git(self.root, "init", "-q", "-b", "main")
        git(self.root, "config", "user.name", "A Person")
        git(self.root, "config", "user.email", "person@example.org")
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "-m", "first")

    def start(self, *words: str, waiting: str = "") -> subprocess.Popen[str]:
        """`interlock run ...` as a process of its own, whose agent at this step waits for a person."""
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.root.parent), "WAITING": waiting}
        return subprocess.Popen(
            [sys.executable, "-m", "interlock", "run", *words],
            cwd=self.root,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def text(self, path: str) -> str:
        return (self.root / path).read_text("utf-8")

    @property
    def events(self) -> list[str]:
        return [line.event for known in known_runs(self.root) for line in known.folder.lines()]


def ends_well(process: subprocess.Popen[str]) -> None:
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    found = Shop(tmp_path / "work")
    found.begin()
    return found


ROADMAP, ROUTER = ("roadmap",), ("router", "/implement 196")


@pytest.mark.req("LY-30", "LY-05", "EN-39")
@pytest.mark.parametrize("waiting", ["roadmap implement", *long("roadmap testing", "router stage-3")])
def test_roadmap_and_router_beside_each_other(shop: Shop, waiting: str) -> None:
    """One runs from beginning to end while an agent of the other works, and both changed the same file."""
    outer, inner = (ROUTER, ROADMAP) if waiting.startswith("router") else (ROADMAP, ROUTER)
    process = shop.start(*outer, waiting=waiting)
    with person(shop.root, lambda _name: ends_well(shop.start(*inner))) as waited:
        ends_well(process)
    assert len(waited) == 1
    assert shop.text("router.txt") == "by the router\n"
    assert shop.text("roadmap.txt") == "by the roadmap\n"
    lines = shop.text("log.txt").splitlines()
    assert (lines[0], lines[1], lines[-2], lines[-1]) == ("router", "line 0", "line 8", "roadmap")
    assert "[DONE]" in shop.text(TASK_LIST)
    (done,) = json.loads(shop.text("roadmap.json"))
    assert (done["status"], done["passes"]) == ("done", True)
    assert not (shop.root / "report.xml").exists()
    assert {"scope.violation", "foreign_write", "dispatch.conflict"}.isdisjoint(shop.events)


@pytest.mark.long
@pytest.mark.req("LY-30", "LY-05", "EN-39")
def test_a_roadmap_beside_a_ticket(shop: Shop) -> None:
    """While the ticket's Reviewer works a whole roadmap is worked through: the ticket commits its own work only."""
    script = shop.root.parent / "ticket.json"
    script.write_text(json.dumps({**json.loads(script.read_text()), "waits": ["Reviewer", "0"]}))
    process = shop.start("ticket", *REQUEST.split())
    with person(shop.root, lambda _name: ends_well(shop.start(*ROADMAP))) as waited:
        ends_well(process)
    assert waited == ["Reviewer"]
    assert git(shop.root, "rev-parse", "--abbrev-ref", "HEAD") == BRANCH
    at = git(shop.root, "log", "--format=%h", "--grep=^fix(ABC-12)")
    assert git(shop.root, "show", "--name-only", "--format=", at).splitlines() == [
        ".gitignore", "src/t1.txt", "src/t2.txt",
    ]  # fmt: skip
    users = git(shop.root, "status", "--porcelain", "--untracked-files=all").splitlines()
    assert {line.split()[-1] for line in users} == {"log.txt", "roadmap.json", "roadmap.txt"}
    (done,) = json.loads(shop.text("roadmap.json"))
    assert (done["status"], done["passes"]) == ("done", True)


@pytest.mark.long
@pytest.mark.req("LY-30", "LY-05", "EN-39")
def test_a_ticket_beside_a_roadmap(shop: Shop) -> None:
    """While Implement works a whole ticket is begun, committed and ended on a branch of its own; both works stand."""
    process = shop.start(*ROADMAP, waiting="roadmap implement")
    beside = ("ticket", *REQUEST.split(), "--dirty", "carry")
    with person(shop.root, lambda _name: ends_well(shop.start(*beside))) as waited:
        ends_well(process)
    assert waited == ["Implement"]
    assert (shop.text("src/t1.txt"), shop.text("roadmap.txt")) == ("ok, T1\n", "by the roadmap\n")
    at = git(shop.root, "log", "--format=%h", "--grep=^fix(ABC-12)")
    assert "roadmap.json" not in git(shop.root, "show", "--name-only", "--format=", at).splitlines()
    (done,) = json.loads(shop.text("roadmap.json"))
    assert (done["status"], done["passes"]) == ("done", True)

"""The machine is lost in the middle of a ticket: another clone with `prompts/` copied over goes on where it stood."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interlock.documents import load_yaml
from interlock.engine import Status
from interlock.engine.playing import Finished
from interlock.playbooks.ticket.rehearsing import BRANCH, HOME, graph, task
from tests.playbooks.person import person
from tests.playbooks.ticket.place import REQUEST, Place, events, git
from tests.playbooks.ticket.test_door import start
from tests.playbooks.ticket.test_real_runs import MAKE
from tests.proofs import long

WORK = "fix(ABC-12): fix the login error so that users can sign in"
GROUPS = graph(task("T1"), task("T2", "B", needs=("T1",)))
DONE = {name: [{"files": {f"src/{name.lower()}.txt": f"ok, {name}\n"}}] for name in ("T1", "T2", "T3")}


@dataclass(frozen=True)
class Loss:
    """Where the machine is lost, and who is called afterwards in a clone that has the work, or has it not."""

    agent: tuple[str, str]
    """Who works then, and in which iteration."""
    phase: str
    with_work: tuple[str, ...]
    without: tuple[str, ...]
    script: dict[str, Any]


ONCE = {"tasks": GROUPS, "work": DONE}
TWICE = {
    "tasks": [GROUPS, graph(task("T3", files=("src/t3.txt",)), task("T4", files=("src/t4.txt",)))],
    "work": {**DONE, "T4": [{"files": {"src/t4.txt": "ok, T4\n"}}]},
    "reviews": ["REJECTED", "ACCEPTED"],
}
SECOND = ("Planner", "task-executor-T3", "task-executor-T4", "Reviewer")
LOSSES = {
    "a task of the second group": Loss(
        ("task-executor-T2", "0"),
        "TASK_EXECUTION",
        ("task-executor-T2", "Reviewer"),
        ("task-executor-T1", "task-executor-T2", "Reviewer"),
        ONCE,
    ),
    "the review": Loss(
        ("Reviewer", "0"), "REVIEW", ("Reviewer",), ("task-executor-T1", "task-executor-T2", "Reviewer"), ONCE
    ),
    "the second plan": Loss(
        ("Planner", "1"),
        "PLANNING",
        SECOND,
        ("task-executor-T1", "task-executor-T2", "Reviewer", *SECOND),
        TWICE,
    ),
}


def lose_the_machine(place: Place, loss: Loss) -> None:
    """Run the ticket in a process of its own, which is killed while the agent at that place works."""
    place.begin(MAKE)
    place.script = {**loss.script, "waits": list(loss.agent)}
    process = start(place, "run", "ticket", REQUEST)
    with person(place.root, lambda _name: process.kill()):
        assert process.wait(timeout=300) == -9
    assert progress(place)["current_phase"] == loss.phase
    assert place.git("rev-parse", "main") == place.git("rev-parse", BRANCH)


def progress(place: Place) -> dict[str, Any]:
    found: dict[str, Any] = load_yaml(place.text(f"{HOME}/progress.yaml"), "progress.yaml")
    return found


def push_the_work(place: Place, server: Path) -> None:
    """What is in the tree goes to a server on the ticket's branch, as people do before they leave."""
    git(place.root.parent, "init", "-q", "--bare", "-b", "main", str(server))
    place.git("add", "src")
    place.git("commit", "-q", "-m", "work in progress")
    place.git("push", "-q", str(server), "main", BRANCH)


def come_back(place: Place, source: Path, elsewhere: Path, loss: Loss) -> Place:
    """A clone with `prompts/` and nothing else of the lost machine."""
    git(place.root.parent, "clone", "-q", str(source), str(elsewhere / "work"))
    shutil.copytree(place.root / "prompts", elsewhere / "work" / "prompts")
    clone = Place(elsewhere / "work", loss.script)
    clone.git("config", "user.name", "A Person")
    clone.git("config", "user.email", "person@example.org")
    settings = clone.root / "interlock.toml"
    settings.write_text(settings.read_text().replace(str(place.root.parent), str(elsewhere)))
    shutil.copy(place.root.parent / "agent.py", elsewhere / "agent.py")
    assert not (clone.root / ".interlock").exists()
    return clone


def called(place: Place) -> list[str]:
    """Who was called, those side by side in order of name."""
    members = [member for agent, member, _ in place.calls if agent != "Initializer"]
    return [*members[:-3], *sorted(members[-3:-1]), members[-1]] if len(members) > 3 else members


def check_the_end(clone: Place, finished: Finished, subjects: list[str]) -> None:
    assert finished.status is Status.COMPLETE, finished
    log = [subject for subject in clone.git("log", "--format=%s").splitlines() if not subject.startswith("docs(")]
    assert log == subjects
    assert clone.git("rev-parse", "--abbrev-ref", "HEAD") == BRANCH
    assert clone.text("src/t1.txt") == "ok, T1\n"
    assert clone.text("src/t2.txt") == "ok, T2\n"
    assert clone.git("status", "--porcelain", "--", "src") == ""
    assert progress(clone)["status"] == "ACCEPTED"
    resumed = events(finished.lines, "orchestrator.resume")
    assert len(resumed) == 1
    logged = [json.loads(line)["event"] for line in clone.text(f"{HOME}/log.jsonl").splitlines()]
    assert logged.count("orchestrator.startup.analysis.start") == 1  # the lost machine's


@pytest.mark.req("TK-18", "TK-19", "TK-22", "TK-23", "TK-25", "TK-27", "TK-30")
@pytest.mark.parametrize("where", ["the review", *long("a task of the second group", "the second plan")])
def test_accepted_work_that_is_in_the_clone_is_not_repeated(place: Place, tmp_path: Path, where: str) -> None:
    """The branch is fetched from where it was pushed to; only what was not done is done."""
    loss = LOSSES[where]
    lose_the_machine(place, loss)
    push_the_work(place, tmp_path / "server.git")
    clone = come_back(place, tmp_path / "server.git", tmp_path / "elsewhere", loss)
    assert clone.git("branch", "--list", BRANCH) == ""
    finished = clone.run()
    assert called(clone) == list(loss.with_work)
    pending = [] if where == "the review" else [WORK]
    check_the_end(clone, finished, [*pending, "work in progress", "first"])
    assert "not as they were accepted" not in str(events(finished.lines, "warning"))


@pytest.mark.long
@pytest.mark.req("TK-23", "TK-27")
@pytest.mark.parametrize("where", ["the review", *long("a task of the second group", "the second plan")])
def test_accepted_work_that_went_with_the_machine_is_done_again(place: Place, tmp_path: Path, where: str) -> None:
    """A warning names the tasks; nothing is planned anew that stands, and nothing is accepted that is not there."""
    loss = LOSSES[where]
    lose_the_machine(place, loss)
    clone = come_back(place, place.root, tmp_path / "elsewhere", loss)
    assert clone.text("src/t1.txt") == "ok\n"
    finished = clone.run()
    assert called(clone) == list(loss.without)
    check_the_end(clone, finished, [WORK, "first"])
    assert "T1" in str(events(finished.lines, "warning"))

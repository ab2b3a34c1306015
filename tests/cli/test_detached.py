"""`--detach`: a run in the background, and what its caller is told before it returns."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

HANGS = {"agent": "planner", "misbehave": "hang"}


def is_gone(pid: int) -> bool:
    """Whether it has ended; whoever got it as an orphan may never ask how."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.req("WB-07")
def test_a_detached_run_goes_on_when_its_caller_has_returned(workspace: Any) -> None:
    """The caller gets the run's id on a pipe that closes; the process has its own session, no terminal, no input."""
    workspace.scenario(HANGS)
    caller = workspace.spawn("run", "toy", "a", "--detach")
    said, told = caller.communicate(timeout=300)
    run_id = workspace.folders[0].name
    assert (caller.returncode, said.decode()) == (0, f"{run_id}\n")
    assert f"watch it: interlock watch {run_id}" in told.decode()
    worker = workspace.worker
    assert (worker != caller.pid, os.getsid(worker)) == (True, worker)
    assert [Path(f"/proc/{worker}/fd/{number}").readlink() for number in range(3)] == [
        Path("/dev/null"),
        *[workspace.folders[0] / "detached.log"] * 2,
    ]
    assert workspace("cancel", run_id).code == 0
    assert "run stopped: cancelled" in (workspace.folders[0] / "detached.log").read_text("utf-8")


@pytest.mark.req("WB-07")
def test_a_program_gets_one_object_about_a_run_that_was_detached(workspace: Any) -> None:
    """It is running, and which one it is."""
    workspace.scenario(HANGS)
    answer = workspace("run", "toy", "a", "--detach", "--json")
    facts = (answer.json["status"], answer.json["run_id"], answer.json["exit_code"])
    assert facts == ("running", workspace.folders[0].name, 0)
    assert workspace("cancel", "latest").code == 0


@pytest.mark.req("WB-07")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["run", "toy", "--detach"], 2, "Missing argument"),
        (["run", "toy", "a", "--runner", "nobody", "--detach"], 2, "runner 'nobody' is not known"),
        (["resume", "latest", "--detach"], 2, "this workspace has no runs"),
        (["run", "router", "/implement 7", "--detach"], 2, "TODO.md not found"),
    ],
)
def test_what_refuses_a_run_is_said_to_the_caller(workspace: Any, words: list[str], code: int, said: str) -> None:
    """With the exit code that it would have in the foreground; no run has come into being."""
    answer = workspace(*words)
    assert (answer.code, said in answer.stderr, answer.stdout) == (code, True, b"")
    assert workspace.folders == []


@pytest.mark.req("WB-07")
def test_a_run_that_is_worked_on_is_not_detached_a_second_time(workspace: Any) -> None:
    """Locked: who holds it is said to the caller, who gets one JSON object."""
    workspace.scenario(HANGS)
    assert workspace("run", "toy", "a", "--detach").code == 0
    again = workspace("run", "toy", "a", "--detach", "--json")
    assert (again.code, again.json["status"], again.json["error"]["holder"]["pid"]) == (6, "locked", workspace.worker)
    assert workspace("cancel", "latest").code == 0


@pytest.mark.req("WB-07")
def test_a_run_that_only_waits_is_told_to_the_caller(workspace: Any) -> None:
    """Nothing would happen in the background: the question is asked here, with exit code 4."""
    assert workspace("run", "toy", "a").code == 4
    answer = workspace("resume", "latest", "--detach")
    assert (answer.code, "decide with: interlock approve" in answer.stderr) == (4, True)


@pytest.mark.req("WB-07")
def test_a_decision_can_let_the_run_go_on_in_the_background(workspace: Any) -> None:
    """`approve --detach` records it and returns when the run is at work."""
    workspace.scenario({"agent": "builder", "misbehave": "hang"})
    assert workspace("run", "toy", "a").code == 4
    answer = workspace("approve", "--detach")
    assert (answer.code, answer.stdout.decode()) == (0, f"{workspace.folders[0].name}\n")
    assert workspace("cancel", "latest").code == 0


@pytest.mark.req("WB-07")
def test_a_detached_process_that_dies_leaves_an_interrupted_run(workspace: Any) -> None:
    """The list says so, and `resume --detach` goes on."""
    workspace.scenario(HANGS)
    assert workspace("run", "toy", "a", "--detach").code == 0
    worker = workspace.worker
    os.kill(worker, signal.SIGKILL)
    workspace.until(lambda: is_gone(worker), "the process is gone")
    (glance,) = workspace("runs", "--json").json
    assert (glance["status"], glance["how"]) == ("interrupted", "its process died: resume goes on")
    workspace.scenario()
    assert workspace("resume", "latest", "--detach").code == 0
    workspace.until_event("gate.opened")


@pytest.mark.req("WB-07")
def test_an_agent_cannot_leave_a_run_behind(workspace: Any) -> None:
    """What a dispatch starts ends with it."""
    answer = workspace("run", "toy", "a", "--detach", INTERLOCK_DISPATCH="plan/planner#1")
    assert (answer.code, "only a person may leave a run in the background" in answer.stderr) == (2, True)
    assert workspace.folders == []


def test_what_the_run_said_is_kept_in_its_folder(workspace: Any) -> None:
    """Events, the playbook's own output and the summary, in one file, also of a process that went on later."""
    assert workspace("run", "toy", "a", "--detach").code == 0
    workspace.until(lambda: b"decide with" in (workspace.folders[0] / "detached.log").read_bytes(), "it waits")
    workspace.until(lambda: not list((workspace.root / ".interlock" / "locks").glob("toy-*.json")), "it has left")
    assert workspace("approve", "--detach").code == 0
    log = workspace.folders[0] / "detached.log"
    workspace.until(lambda: b"toy a: complete" in log.read_bytes(), "it has ended")
    assert b"shipped\xff" in log.read_bytes()
    assert json.loads((workspace.folders[0] / "run.json").read_bytes())["key"] == "a"

"""Runs through the real command line: exit codes, what goes to stdout and what to stderr, interrupts, locks."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

KEYS = (
    *("run_id", "playbook", "key", "status", "exit_code", "reason", "output", "gate", "dispatches", "usage"),
    *("started_at", "finished_at"),
)


@pytest.mark.req("CM-30", "EN-28")
def test_progress_is_one_line_per_event_on_stderr_and_output_alone_is_on_stdout(workspace: Any) -> None:
    """What the playbook says goes to stdout with a newline; dispatches and the end are lines on stderr."""
    workspace.scenario({"agent": "planner", "files": {"plan.md": "# Plan\n"}})
    answer = workspace("run", "toy", "a", "--mode", "quick")
    assert answer.code == 0
    assert answer.stdout == b"planned\ndone quickly\n"
    for said in ("step plan: planner  started (attempt 1", "step plan: planner  ok in ", "run complete"):
        assert answer.stderr.count(said) == 1
    assert (workspace.folders[0] / "report.md").read_text("utf-8").startswith("# toy a\n")


@pytest.mark.req("CM-31", "EN-28")
def test_json_is_one_object_with_all_keys(workspace: Any) -> None:
    """With --json stdout is one object; the playbook's output is in it, progress is on stderr."""
    answer = workspace("run", "toy", "a", "--mode", "quick", "--json")
    value = answer.json
    assert tuple(value) == KEYS
    assert (value["status"], value["exit_code"], value["output"]) == ("complete", 0, "planned\ndone quickly")
    assert (value["playbook"], value["key"], value["dispatches"]) == ("toy", "a", 1)
    assert value["usage"] == {"input_tokens": None, "output_tokens": None, "cost_usd": None}
    assert value["run_id"] == workspace.folders[0].name
    assert "planner  ok in" in answer.stderr


@pytest.mark.req("CM-30", "EN-28")
def test_bytes_of_an_agent_are_relayed_exactly(router: Any) -> None:
    """The router's answer reaches stdout byte for byte; decisions are shown on stderr."""
    said = "Tést\r\n\r\nStatus: completed"  # no newline at the end
    router.scenario({"agent": "lean-implementation-agent", "message": said})
    answer = router("run", "router", "/implement", "259", "be", "brief")
    assert answer.code == 0
    assert answer.stdout == said.encode()
    assert "decision route: language lean -> lean-implementation-agent" in answer.stderr
    assert '"line": "/implement 259 be brief"' in (router.folders[0] / "run.json").read_text("utf-8")


@pytest.mark.req("EN-25")
@pytest.mark.parametrize(("status", "code"), [("completed", 0), ("partial", 1), ("blocked", 3), ("failed", 5)])
def test_the_routers_endings_have_their_exit_codes(router: Any, status: str, code: int) -> None:
    """completed is 0, partial 1, blocked 3, failed 5; the JSON object says the same."""
    router.scenario({"status": status})
    answer = router("--json", "run", "router", "/implement 259")
    assert (answer.code, answer.json["exit_code"]) == (code, code)
    assert answer.json["status"] == {0: "complete", 1: "degraded", 3: "stopped", 5: "failed"}[code]


@pytest.mark.req("EN-24", "CM-33")
def test_a_typo_leaves_nothing_behind(router: Any) -> None:
    """A task that does not exist is exit 2 with the whole text, no run and no second prefix."""
    answer = router("run", "router", "/implement 999")
    assert (answer.code, answer.stdout) == (2, b"")
    assert answer.stderr.startswith("Error: Task 999 not found in TODO.md\n\n")
    assert not (router.root / ".interlock").exists()
    value = router("run", "router", "/implement 999", "--json").json
    assert tuple(value) == (*KEYS, "error")
    assert (value["status"], value["exit_code"], value["run_id"]) == ("invalid", 2, None)
    assert (value["playbook"], value["key"]) == ("router", "implement 999")


@pytest.mark.req("CM-32")
def test_a_dry_run_shows_the_brief_and_changes_nothing(router: Any) -> None:
    """--dry-run prints the next step and its brief; not a byte of the tree changes, with or without an open run."""
    before = router.digest()
    answer = router("run", "router", "/implement 259 be brief", "--dry-run")
    assert answer.code == 0
    assert "agent: lean-implementation-agent" in answer.stdout.decode()
    assert '"user_prompt": "be brief"' in answer.stdout.decode()
    plan = router("run", "router", "/plan 196", "--dry-run", "--json").json
    assert (plan["plan"]["next"], plan["plan"]["agent"]) == ("dispatch", "planner")
    assert router.digest() == before
    assert router("run", "toy", "a").code == 4
    before = router.digest()
    answer = router("resume", "latest", "--dry-run")
    assert "question: Ship this plan?" in answer.stdout.decode()
    assert router.digest() == before


@pytest.mark.req("CM-21", "EN-16")
def test_an_interrupted_run_is_saved_and_resumes(workspace: Any) -> None:
    """Ctrl-C ends the agents and the process with 130; the run is listed as interrupted and goes on with resume."""
    workspace.scenario({"agent": "planner", "delay_s": 30})
    process = workspace.start("run", "toy", "a", "--mode", "quick")
    workspace.until_event("dispatch.running")
    process.send(signal.SIGINT)
    ended = process.wait()
    assert ended.code == 130
    assert "Traceback" not in ended.stderr
    assert "next: interlock resume toy-" in ended.stderr
    assert [run["status"] for run in workspace("runs", "--json").json] == ["interrupted"]
    workspace.scenario({"agent": "planner"})
    answer = workspace("resume", "latest")
    assert (answer.code, answer.stdout) == (0, b"planned\ndone quickly\n")
    assert workspace.events().count("dispatch.end") == 1


@pytest.mark.req("CM-21")
def test_a_second_interrupt_is_immediate(workspace: Any) -> None:
    """An agent that ignores the request to end cannot keep the person waiting for the five seconds it has."""
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); open('deaf', 'w').close(); time.sleep(60)"
    workspace.scenario({"agent": "planner", "run": [sys.executable, "-c", deaf]})
    process = workspace.start("run", "toy", "a", "--mode", "quick")
    workspace.until(lambda: bool(list(workspace.root.glob(".interlock/layers/*/upper/deaf"))), "the agent is deaf")

    def gone() -> bool:
        try:
            process.send(signal.SIGINT)
        except ProcessLookupError:
            return True
        return False

    workspace.until(gone, "the process has ended")
    assert process.wait().code in (130, -signal.SIGINT)
    assert "run.interrupted" not in workspace.events()  # which it would have said after the agent's five seconds
    workspace.scenario()
    assert workspace("resume", "latest").code == 0


@pytest.mark.req("CM-01", "EN-16")
def test_one_run_per_key_and_a_dead_ones_lock_is_taken_over(workspace: Any) -> None:
    """A second start of the key is exit 6; after kill -9 the next one takes the lock over and says so."""
    workspace.scenario({"agent": "planner", "delay_s": 30})
    process = workspace.start("run", "toy", "a")
    workspace.until_event("dispatch.running")
    refused = workspace("run", "toy", "a", "--json")
    assert (refused.code, refused.json["status"]) == (6, "locked")
    assert refused.json["error"]["holder"]["pid"] == process.pid
    assert [run["status"] for run in workspace("runs", "--json").json] == ["running"]
    process.send(signal.SIGKILL)
    process.wait()
    crashed = workspace("runs").stdout.decode()
    assert "interrupted" in crashed
    checks = workspace("doctor", "--json").json["checks"]
    assert any(check["subject"] == "locks" and check["state"] == "note" for check in checks)
    workspace.scenario()
    answer = workspace("resume", "latest")
    assert answer.code == 4
    assert "The lock of a dead process is taken over" in answer.stderr
    assert "lock.taken_over" in workspace.events()


@pytest.mark.req("EN-17")
def test_an_open_run_goes_on_or_other_inputs_are_refused(workspace: Any) -> None:
    """The same inputs resume the open run and say so; other inputs are exit 2 with both commands."""
    assert workspace("run", "toy", "a").code == 4
    name = workspace.folders[0].name
    again = workspace("run", "toy", "a")
    assert again.code == 4
    assert f"Run {name} is open with these inputs: it goes on." in again.stderr
    other = workspace("run", "toy", "a", "--mode", "question")
    assert other.code == 2
    assert f"interlock resume {name}" in other.stderr
    assert f"interlock cancel {name}" in other.stderr
    assert len(workspace.folders) == 1


@pytest.mark.req("CM-23")
def test_resuming_a_finished_run_changes_nothing(workspace: Any) -> None:
    """Resume of a complete run is exit 0, prints the final output again and leaves the tree as it is."""
    assert workspace("run", "toy", "a", "--mode", "quick").code == 0
    before = workspace.digest()
    again = workspace("resume", "latest")
    assert (again.code, again.stdout) == (0, b"done quickly\n")
    assert "has already ended: complete" in again.stderr
    assert workspace.digest() == before


def test_a_reader_that_leaves_is_no_error(workspace: Any) -> None:
    """Closing the pipe ends the output quietly, as other programs do it."""
    workspace("run", "toy", "a", "--mode", "quick")
    process = workspace.spawn("logs", "latest", "--follow", "--json")
    process.stdout.close()
    process.stdout = None
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 141
    assert stderr == b""


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_run_survives_streams_that_nobody_reads(workspace: Any, stream: str) -> None:
    """Output and progress that cannot be written are dropped; the run ends as it would have, with its exit code."""
    process = workspace.spawn("run", "toy", "a", "--mode", "quick")
    getattr(process, stream).close()
    setattr(process, stream, None)
    said = process.communicate(timeout=120)
    assert process.returncode == 0
    assert workspace.events()[-1] == "run.end"
    assert b"Traceback" not in b"".join(part or b"" for part in said)


def test_a_budget_of_zero_waits_before_the_first_dispatch(workspace: Any) -> None:
    """--budget 0 is a budget; one that is no number is refused."""
    answer = workspace("run", "toy", "a", "--budget", "0")
    assert answer.code == 4
    assert "budget reached: 0.00 of 0.00 USD spent" in answer.stderr
    assert workspace("resume", "latest", "--budget", "nan").code == 2
    assert workspace("resume", "latest", "--budget", "1").code == 4
    assert workspace.events().count("dispatch.end") == 1


@pytest.mark.req("CM-31", "EN-16")
def test_logs_follow_a_run_of_another_process_to_its_end(workspace: Any) -> None:
    """--follow shows what another process does and ends with the run; --json gives the journal's own bytes."""
    workspace.scenario({"agent": "planner", "delay_s": 1.5})
    process = workspace.start("run", "toy", "a", "--mode", "quick")
    workspace.until_event("dispatch.start")
    assert "run.end" not in workspace.events()
    followed = workspace("logs", "latest", "--follow")
    process.wait()
    assert followed.stdout.decode().rstrip().endswith("run complete")
    raw = workspace("logs", "latest", "--json").stdout
    assert raw == (workspace.folders[0] / "journal.jsonl").read_bytes()
    assert all("event" in json.loads(line) for line in raw.splitlines())


def test_python_dash_m_is_the_command(workspace: Any) -> None:
    """`python -m interlock` is the same program."""
    done = subprocess.run([sys.executable, "-m", "interlock", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("interlock ")

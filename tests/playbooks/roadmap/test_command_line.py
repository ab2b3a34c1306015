"""`interlock run roadmap`: options, output, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from .conftest import FILE, Terminal, item

TOKEN = "<promise>COMPLETE</promise>"


@pytest.mark.req("RM-20", "RM-92", "EN-28")
def test_stdout_has_the_blocks_and_the_token_on_a_line_of_its_own(terminal: Terminal) -> None:
    """Progress is on stderr; exit 0."""
    code, out, err = terminal("run", "roadmap")
    assert code == 0
    lines = out.splitlines()
    assert lines.count("## Orchestration Iteration") == 2
    assert lines[-1] == TOKEN
    assert lines[2:4] == ["- Selected item: 7 Login", "- Dispatch: Implement#1, Testing#1, Review#1"]
    assert "Implement  started" in err
    assert terminal("run", "roadmap")[:2] == (0, f"{TOKEN}\n")


@pytest.mark.req("EN-21", "RM-77", "RM-21")
def test_once_is_exit_0_after_one_item_and_the_next_call_goes_on(terminal: Terminal) -> None:
    """Two calls, two items; only the second prints the token."""
    code, out, err = terminal("run", "roadmap", "--once")
    assert (code, out.count("## Orchestration Iteration")) == (0, 1)
    assert "<promise>" not in out
    assert "one iteration done; next candidate: 8 Logout" in err
    code, out, _ = terminal("run", "roadmap", "--once")
    assert (code, out.splitlines()[-1]) == (0, TOKEN)
    assert "- Selected item: 8 Logout" in out


@pytest.mark.req("EN-28", "RM-73", "RM-74", "RM-21", "RM-12")
def test_a_blocked_item_is_exit_3_with_its_evidence_in_the_output(terminal: Terminal) -> None:
    """As text and as the one JSON object; nobody is asked anything."""
    failing = {"verdict": "fail", "status": "success", "evidence": {"tests": {"passed": 1, "failed": 1}}}
    terminal.scenario({"agent": "Testing", "message": json.dumps(failing)})
    code, out, _ = terminal("run", "roadmap", "--json")
    value = json.loads(out)
    assert (code, value["status"], value["exit_code"], value["key"]) == (3, "stopped", 3, FILE)
    assert value["reason"] == "item 7 is blocked: tests: verdict fail"
    for attempt in (1, 2, 3):
        assert f"- attempt {attempt}, Testing: tests: verdict fail" in value["output"]
    assert "<promise>" not in value["output"]
    code, out, _ = terminal("run", "roadmap", "--file", FILE, "--once")
    assert (code, "- Selected item: 8 Logout" in out) == (3, True)
    assert terminal("run", "roadmap")[0] == 3


@pytest.mark.req("RM-10", "RM-97", "CM-33")
def test_a_broken_roadmap_is_exit_2_with_every_problem(terminal: Terminal) -> None:
    """One line each; the bytes stay."""
    terminal.roadmap(item(7, title="Login", priority="high"), item(8, complexity="hard"))
    before = (terminal.root / FILE).read_bytes()
    code, _, err = terminal("run", "roadmap")
    assert code == 2
    assert 'item 7 "Login": priority is "high"; expected integer\n' in err
    assert 'item 8 "Item 8": complexity is "hard"; expected simple | medium | complex\n' in err
    assert (terminal.root / FILE).read_bytes() == before
    assert not (terminal.root / ".interlock").exists()
    assert terminal("validate", "roadmap")[0] == 2


def test_another_file_is_named_from_where_the_person_is(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a folder below, by absolute path, or from the folder that -C names; outside of the workspace is refused."""
    terminal.roadmap(item(1), path="plans/next.json")
    monkeypatch.chdir(terminal.root / "plans")
    code, out, _ = terminal("run", "roadmap", "--file", "next.json", "--json")
    assert (code, json.loads(out)["key"]) == (0, "plans/next.json")
    assert terminal("run", "roadmap", "--file", str(terminal.root / "plans" / "next.json"))[:2] == (0, f"{TOKEN}\n")
    monkeypatch.chdir(terminal.root.parent)
    assert terminal("run", "roadmap", "-C", "work", "--file", "plans/next.json")[:2] == (0, f"{TOKEN}\n")
    code, _, err = terminal("run", "roadmap", "-C", "work", "--file", "../elsewhere.json")
    assert code == 2
    assert "../elsewhere.json" in err


@pytest.mark.req("RM-31")
def test_settings_for_an_agent_that_the_roadmap_does_not_have_are_refused(terminal: Terminal) -> None:
    """Exit 2 before anything starts, with the five there are."""
    with (terminal.root / "interlock.toml").open("a") as settings:
        settings.write('[agents."roadmap/Planner"]\ntimeout_s = 5\n[agents."roadmap/Review"]\ntimeout_s = 5\n')
    code, _, err = terminal("run", "roadmap")
    assert code == 2
    assert "roadmap has no agent 'Planner'" in err
    assert "Research, Architect, Implement, Testing, Review" in err
    assert not (terminal.root / ".interlock").exists()


@pytest.mark.req("RM-99", "CM-01")
def test_a_second_start_while_one_runs_is_exit_6_with_pid_and_time(terminal: Terminal) -> None:
    """The first one is named, and goes on undisturbed until a person ends it."""
    terminal.scenario({"agent": "Implement", "delay_s": 600})
    environ = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    command = [sys.executable, "-m", "interlock", "run", "roadmap", "--once"]
    first = subprocess.Popen(command, cwd=terminal.root, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while not list(terminal.root.glob(".interlock/runs/*/dispatches/**/brief.md")):
        assert time.monotonic() < end
        time.sleep(0.02)
    code, _, err = terminal("run", "roadmap")
    assert code == 6
    assert str(first.pid) in err
    started = json.loads(next(terminal.root.glob(".interlock/runs/*/run.json")).read_text())["started_at"]
    assert started[:10] in err
    assert first.poll() is None
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=120)
    assert first.returncode == 130


def test_init_gives_an_example_that_runs(terminal: Terminal) -> None:
    """The example roadmap is sound, and complete after a run with scripted agents."""
    (terminal.root / FILE).unlink()
    assert terminal("init", "--playbook", "roadmap", "--example")[0] == 0
    assert terminal("validate", "roadmap")[0] == 0
    code, out, _ = terminal("run", "roadmap", "--fail-fast")
    assert (code, out.count("## Orchestration Iteration"), out.splitlines()[-1]) == (0, 3, TOKEN)

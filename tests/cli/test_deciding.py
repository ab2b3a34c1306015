"""What people say to a run, through the real command line."""

from __future__ import annotations

import getpass
import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

TOY = str(Path(__file__).parent / "toy_cli.py")


@pytest.fixture
def waiting(workspace: Any) -> Any:
    """A workspace whose run waits at its gate."""
    assert workspace("run", "toy", "a").code == 4
    return workspace


def test_a_waiting_run_says_what_it_waits_for(workspace: Any) -> None:
    """stderr shows question, files, choices and the exact commands; --json has the gate."""
    answer = workspace("run", "toy", "a")
    name = workspace.folders[0].name
    assert (answer.code, answer.stdout) == (4, b"")
    for said in (
        "question: Ship this plan?",
        "shows: plan.md",
        "choice: reject - the run stops",
        f"decide with: interlock approve {name} --resume",
        f'decide with: interlock reject {name} --note "what is to be changed" --resume',
        f"decide with: interlock answer {name} later --resume",
        f"see more: interlock diff {name}\n            interlock why {name}\n",
    ):
        assert said in answer.stderr
    gate = workspace("resume", "latest", "--json").json["gate"]
    assert (gate["name"], gate["shows"]) == ("ship", ["plan.md"])
    assert [choice["name"] for choice in gate["choices"]] == ["approve", "reject", "later"]
    (workspace.root / "interlock.toml").write_text("nonsense = 1\n", "utf-8")
    assert "question: Ship this plan?" in workspace("show", "latest").stdout.decode()


@pytest.mark.req("CM-19", "EN-31", "EN-28")
def test_an_approval_is_recorded_at_once_and_the_run_goes_on(waiting: Any) -> None:
    """approve journals who and note, brings the state document up to date, and says how it goes on."""
    answer = waiting("approve", "latest", "--note", "fine")
    assert answer.code == 0
    assert f"go on with: interlock resume {waiting.folders[0].name}" in answer.stderr
    decided = [line for line in waiting.journal() if line["event"] == "gate.decided"]
    assert [(line["data"]["choice"], line["data"]["note"]) for line in decided] == [("approve", "fine")]
    assert "@" in decided[0]["data"]["who"]
    assert (waiting.root / "state.txt").read_text("utf-8") == "approve\n"
    assert not (waiting.root / "built.txt").exists()
    done = waiting("resume", "latest")
    assert (done.code, done.stdout) == (0, b"shipped\xff")
    assert (waiting.root / "built.txt").exists()


@pytest.mark.req("CM-31", "EN-28")
def test_approve_can_go_on_itself(waiting: Any) -> None:
    """--resume carries the run on; bytes that are no UTF-8 are replaced in JSON only."""
    value = waiting("approve", "latest", "--resume", "--json").json
    assert (value["status"], value["exit_code"], value["output"]) == ("complete", 0, "shipped\ufffd")


@pytest.mark.req("EN-25")
def test_a_rejection_needs_a_reason_and_ends_the_run(waiting: Any) -> None:
    """reject without a note is exit 2; with one, the run has ended as stopped, and nothing new was started."""
    refused = waiting("reject", "latest")
    assert refused.code == 2
    assert "--note TEXT" in refused.stderr
    answer = waiting("reject", "latest", "--note", "no tests", "--resume")
    assert answer.code == 3
    assert "With that the run has ended: stopped: reject: no tests" in answer.stderr
    assert len(waiting.folders) == 1
    assert [run["status"] for run in waiting("runs", "--json").json] == ["stopped"]


@pytest.mark.req("CM-20")
def test_a_decision_that_decides_nothing_is_refused(waiting: Any) -> None:
    """An unknown choice, an unknown run and a run that does not wait are exit 2 and change nothing."""
    before = waiting.digest()
    unknown = waiting("answer", "latest", "maybe")
    assert unknown.code == 2
    assert "expected: approve | reject | later" in unknown.stderr
    assert waiting("approve", "toy-1999").code == 2
    assert waiting.digest() == before
    assert waiting("answer", "latest", "later").code == 0
    ended = waiting("approve", "latest")
    assert ended.code == 2
    assert "nothing waits for a decision" in ended.stderr


def test_a_question_without_choices_takes_a_text(workspace: Any) -> None:
    """answer RUN TEXT answers it; the run that has nothing left to do ends with its output."""
    asked = workspace("run", "toy", "a", "--mode", "question")
    assert "answer toy-" in asked.stderr
    assert '"your words" --resume' in asked.stderr
    answer = workspace("answer", "latest", "deep blue")
    assert (answer.code, answer.stdout) == (0, b"the colour is deep blue\n")


@pytest.mark.req("EN-29")
def test_what_changed_at_the_gate_must_be_seen_before_it_is_approved(waiting: Any) -> None:
    """Approving what was not shown is refused with both digests; show opens the gate anew, and then it counts."""
    (waiting.root / "plan.md").write_text("# A better plan\n", "utf-8")
    refused = waiting("approve", "latest")
    assert refused.code == 2
    assert "expected: digest " in refused.stderr
    assert "found: digest " in refused.stderr
    assert waiting("show", "latest").code == 0
    openings = [line["data"]["opening"] for line in waiting.journal() if line["event"] == "gate.opened"]
    assert openings == [1, 2]
    assert waiting("approve", "latest").code == 0


@pytest.mark.req("EN-15")
def test_twenty_approvers_at_once_decide_once(waiting: Any) -> None:
    """However many approve at the same time: one decision counts, and the chain stays whole."""
    approvers = [waiting.start("approve", "latest") for _ in range(20)]
    codes = [approver.wait().code for approver in approvers]
    assert len(codes) == 20
    assert set(codes) <= {0, 2}
    assert 0 in codes
    waiting("resume", "latest")
    assert waiting.events().count("gate.decided") == 1
    assert waiting("show", "latest", "--verify").code == 0


@pytest.mark.req("EN-15", "CM-19")
def test_a_decision_reaches_the_process_that_works_on_the_run(workspace: Any) -> None:
    """While another member still works, the approval is handed over to the live process, which goes on with it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        until_told = f"import socket; socket.create_connection(('127.0.0.1', {port})).recv(1)"
        workspace.scenario({"agent": "worker", "run": [sys.executable, "-c", until_told]})
        process = workspace.start("run", "toy", "a", "--mode", "side")
        workspace.until_event("gate.opened")
        worker, _ = server.accept()
        with worker:
            answer = workspace("approve", "latest", "--note", "from beside")
    assert answer.code == 0
    assert "handed over to the process that works on the run" in answer.stderr
    assert process.wait().code == 0
    decided = [line for line in workspace.journal() if line["event"] == "gate.decided"]
    assert [line["data"]["note"] for line in decided] == ["from beside"]


@pytest.mark.req("CM-19")
def test_an_agent_cannot_approve(waiting: Any) -> None:
    """approve from inside a dispatch is refused, also with the variables of the protocol taken away."""
    name = waiting.folders[0].name
    call = [sys.executable, TOY, "approve", name, "--json"]
    for key, argv in (("plain", call), ("bare", ["env", "-u", "INTERLOCK_DISPATCH", *call])):
        waiting.scenario({"agent": "planner", "run": argv, "message": "{run}"})
        # The program of the test may lie in a folder that is hidden from agents.
        waiting("run", "toy", key, "--mode", "quick", INTERLOCK_SANDBOX_HOME=json.dumps([str(Path(TOY).parents[2])]))
        output = next(waiting.folders[-1].rglob("output.md")).read_text("utf-8")
        # It sees neither the runs of this workspace nor who works on them; in a mere copy it is told that it may not.
        assert "this workspace has no runs" in output or "only a person may decide at a gate" in output
    assert "gate.decided" not in waiting.events(0)


def test_cancel_ends_a_live_run_for_good(workspace: Any) -> None:
    """cancel interrupts the process that works on the run and writes its end."""
    workspace.scenario({"agent": "planner", "delay_s": 30})
    process = workspace.start("run", "toy", "a")
    workspace.until_event("dispatch.running")
    answer = workspace("cancel", "latest")
    assert answer.code == 0
    assert process.wait().code == 3
    assert [run["how"] for run in workspace("runs", "--json").json] == ["cancelled"]
    assert workspace("cancel", "latest").code == 2


@pytest.mark.req("WB-05")
def test_a_decision_can_be_bound_to_what_was_shown(waiting: Any) -> None:
    """`--shown` names the opening that somebody saw; at any other one nothing is decided, by whatever it differs."""
    seen = waiting("show", "latest", "--json").json["gate"]["shown"]
    (waiting.root / "plan.md").write_text("# A better plan\n", "utf-8")
    now = waiting("show", "latest", "--json").json["gate"]["shown"]
    before = waiting.digest()
    stale = waiting("approve", "latest", "--shown", seen, "--json")
    assert (stale.code, stale.json["error"]["what"]) == (2, "gate ship is not as it was shown any more")
    assert (seen != now, waiting.digest()) == (True, before)
    assert waiting("approve", "latest", "--shown", now).code == 0


@pytest.mark.req("WB-05")
def test_who_decided_through_another_door_is_recorded_with_who_let_them(waiting: Any) -> None:
    """`--by` cannot hide who called the command line."""
    assert waiting("approve", "latest", "--by", "Ada\x1b[31m Lovelace").code == 0
    (decided,) = [line["data"] for line in waiting.journal() if line["event"] == "gate.decided"]
    assert decided["who"].startswith("Ada")
    assert "\x1b" not in decided["who"]
    assert f", by {getpass.getuser()}@{socket.gethostname()}" in decided["who"]

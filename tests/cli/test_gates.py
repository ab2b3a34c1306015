"""A gate as a person meets it, and what becomes of the words that they say there."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOY = str(Path(__file__).parent / "toy_cli.py")
PLAN = "# Plan\n\nFirst build, then test.\n"
PROMPTS = (b"[q]uit: ", b"changed? ", b"Enter): ")


@pytest.fixture
def planned(workspace: Any) -> Any:
    """A workspace whose run waits with a plan that says something."""
    workspace.scenario({"agent": "planner", "files": {"plan.md": PLAN}})
    assert workspace("run", "toy", "a").code == 4
    return workspace


def at_a_terminal(workspace: Any, *words: str, answers: list[str]) -> tuple[int, str]:
    """Exit code and screen of a command line at which somebody sits and answers each question."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, TOY, *words],
        cwd=workspace.root,
        env={**workspace.env, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "24", "PAGER": "cat"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen, asked, left = b"", 0, [answer.encode() + b"\n" for answer in answers]
    while select.select([ours], [], [], 60)[0]:
        try:
            seen += os.read(ours, 65536)
        except OSError:  # Linux says so when the other side has gone
            break
        if seen.endswith(PROMPTS) and len(seen) > asked:
            asked = len(seen)
            os.write(ours, left.pop(0))
    os.close(ours)
    assert not left, seen.decode()
    return process.wait(), seen.decode().replace("\r\n", "\n")


def briefs(workspace: Any, agent: str) -> str:
    """What an agent was told, last."""
    found = sorted((workspace.folders[-1] / "dispatches").rglob(f"{agent}#*/brief.md"))
    return found[-1].read_text("utf-8")


@pytest.mark.req("EV-22")
def test_a_gate_presents_what_there_is_to_know(planned: Any) -> None:
    """Question, what happened so far, each document with its size and first lines, and how to see more."""
    said = planned("show", "latest").stdout.decode()
    name = planned.folders[0].name
    for part in (
        "  question: Ship this plan?\n",
        "  since the start: 1 dispatch, 1 well\n",
        f"  shows: plan.md (3 lines, {len(PLAN)} bytes)\n    First build, then test.\n",
        f"  see more: interlock diff {name}\n            interlock why {name}\n",
    ):
        assert part in said


@pytest.mark.req("EV-22")
def test_a_gate_that_opens_again_says_what_changed(planned: Any) -> None:
    """Against what the person saw the last time."""
    (planned.root / "plan.md").write_text(f"{PLAN}And then ship.\nAt once.\n", "utf-8")
    said = planned("show", "latest").stdout.decode()
    assert "changed since you saw it: +2 -0)" in said


@pytest.mark.req("EV-22", "EV-20")
def test_a_gate_is_answered_in_place(workspace: Any) -> None:
    """Other words ask again, view shows the document, a rejection needs its words; then the run goes on at once."""
    workspace.scenario({"agent": "planner", "files": {"plan.md": PLAN}})
    answers = ["what?", "v", "r", "", "a", "mind the tests"]
    code, seen = at_a_terminal(workspace, "run", "toy", "a", answers=answers)
    assert code == 0
    assert "[a]pprove  [r]eject  [l]ater  [v]iew  [q]uit: " in seen
    assert "=== plan.md\n\n# Plan" in seen
    assert "+First build, then test." in seen
    decided = [line["data"] for line in workspace.journal() if line["event"] == "gate.decided"]
    assert [(data["choice"], data["note"]) for data in decided] == [("approve", "mind the tests")]
    assert "\a" in seen
    assert "mind the tests" in briefs(workspace, "builder")


@pytest.mark.req("EV-22")
def test_whoever_would_rather_decide_later_learns_how(workspace: Any) -> None:
    """The run keeps waiting, and the commands stand on the screen."""
    code, seen = at_a_terminal(workspace, "run", "toy", "a", answers=["q"])
    assert code == 4
    assert f"decide with: interlock approve {workspace.folders[0].name} --resume" in seen


@pytest.mark.req("EV-22")
def test_a_rejection_in_place_ends_the_run_as_the_command_does(workspace: Any) -> None:
    """No new run is begun by it."""
    code, seen = at_a_terminal(workspace, "run", "toy", "a", answers=["r", "no tests in it"])
    assert code == 3
    assert "stopped: reject: no tests in it" in seen
    assert len(workspace.folders) == 1


@pytest.mark.req("EV-22")
def test_the_only_waiting_run_needs_no_name(planned: Any) -> None:
    """approve, reject and answer find it; with none or two of them they say so."""
    assert planned("approve", "--note", "fine").code == 0
    nobody = planned("approve")
    assert (nobody.code, "no run waits" in nobody.stderr) == (2, True)
    for word in "bc":
        assert planned("run", "toy", word).code == 4
    many = planned("answer", "later")
    assert (many.code, "2 runs wait" in many.stderr) == (2, True)
    assert planned("answer", planned.folders[-1].name, "later").code == 0
    assert planned("reject", "--note", "no").code == 0


@pytest.mark.req("EV-20")
@pytest.mark.parametrize("words", [["approve", "--note"], ["answer", "approve", "--note"]])
def test_a_note_at_a_gate_reaches_the_next_brief(planned: Any, words: list[str]) -> None:
    """Under a heading of its own, with who said it."""
    assert planned(*words, "keep it small").code == 0
    assert planned("resume", "latest").code == 0
    brief = briefs(planned, "builder")
    said = brief.split("## Said by people", 1)[1].split("\n## ", 1)[0]
    assert "keep it small" in said
    assert "@" in said


@pytest.mark.req("EV-20")
def test_a_note_with_resume_reaches_the_next_brief_also_in_a_successor(planned: Any) -> None:
    """In the open run, and in the one that follows a run that has failed."""
    planned("approve")
    assert planned("resume", "latest", "--note", "use tabs").code == 0
    assert "use tabs" in briefs(planned, "builder")
    planned.scenario({"agent": "planner", "exit": 1})
    assert planned("run", "toy", "b").code == 5
    planned.scenario()
    assert planned("resume", "latest", "--note", "try the other way").code == 4
    assert "try the other way" in briefs(planned, "planner")
    assert len(planned.folders) == 3


@pytest.mark.req("EV-24")
def test_a_cancelled_run_stays_cancelled(planned: Any) -> None:
    """resume refuses and names the command for a new run; that works, and nothing was begun before it."""
    planned("cancel", "latest")
    refused = planned("resume", "latest")
    assert refused.code == 2
    assert "was cancelled, and that is final" in refused.stderr
    assert "interlock run toy a --new-run" in refused.stderr
    assert len(planned.folders) == 1
    assert planned("run", "toy", "a", "--new-run").code == 4


@pytest.mark.req("EV-23")
def test_what_comes_too_late_is_refused_and_never_ignored(planned: Any) -> None:
    """A note to a run that is complete; other inputs for an open one, with what differs and nothing else."""
    other = planned("run", "toy", "a", "--mode", "quick")
    assert other.code == 2
    assert "  expected: mode = 'quick'\n  found: mode = 'ship'\n" in other.stderr
    planned("approve", "--resume")
    late = planned("resume", "latest", "--note", "one more thing")
    assert (late.code, "nobody works on it any more" in late.stderr) == (2, True)


@pytest.mark.req("EV-23")
def test_an_option_for_the_start_is_refused_after_the_start() -> None:
    """--accept-baseline means nothing to a run that has looked at its commands already, and says so."""
    from interlock.engine.journal import Line
    from interlock.engine.runs import Call, check_options
    from interlock.errors import Refused

    looked = Line(1, "", "r", "preflight", "preflight/note#1", None, None, None, None, {}, "", "")
    check_options("r", Call(flags={"no_preflight": True}), [looked])
    check_options("r", Call(flags={"accept_baseline": True}), [])
    with pytest.raises(Refused) as refused:
        check_options("r", Call(flags={"accept_baseline": True}), [looked])
    assert refused.value.where == "option --accept-baseline"


@pytest.mark.req("EV-05")
def test_the_options_of_the_look_reach_the_run() -> None:
    """As flags, and only those that were given."""
    from interlock.cli.door import Door, Errand

    given = Door.of(Errand(), {"accept_baseline": True, "no_preflight": False})
    assert given.call(flags={"once": True}).flags == {"accept_baseline": True, "once": True}
    assert Door.of(Errand(), {"no_preflight": True}).call().flags == {"no_preflight": True}

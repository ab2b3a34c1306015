"""`watch`: a run that another process executes, as it is seen from here."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.agents import AgentNews
from interlock.agents.records import TRANSCRIPT, TranscriptReader
from tests.cli.test_live import ESCAPE, TOY, Clock, drawn, line

SESSION = '{"type": "system", "subtype": "init", "session_id": "s", "model": "m"}'
TEXT = '{"type": "assistant", "message": {"content": [{"type": "text", "text": "first\\nthen the login"}]}}'
TOOL = (
    '{"type": "assistant", "message": {"content": '
    '[{"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "src/login.py"}}]}}'
)


@pytest.fixture
def talking(workspace: Any) -> Any:
    """A workspace with a detached run whose agent says something, uses a tool, and does not end."""
    workspace.talks(SESSION, TEXT, TOOL)
    assert workspace("run", "toy", "a", "--detach").code == 0
    return workspace


@pytest.mark.req("WB-07")
def test_what_agents_say_and_do_is_told_as_it_comes(talking: Any) -> None:
    """In plain lines where no terminal is; the watching ends with the run, and with its exit code."""
    watching = talking.start("watch", "latest")
    talking.until(lambda: "Read src/login.py" in watching.seen, "the tool call is told")
    assert re.search(r"\d  planner: first\n +then the login\n", watching.seen)
    assert "run.end" not in talking.events()
    assert talking("cancel", "latest").code == 0
    answer = watching.wait()
    assert answer.code == 3
    assert "run stopped: cancelled" in answer.stdout.decode()
    assert "toy a: stopped" in answer.stderr


@pytest.mark.req("WB-07")
def test_an_interrupt_ends_the_watching_only(talking: Any) -> None:
    """The run goes on, and whoever leaves is told how to come back."""
    watching = talking.start("watch", "latest")
    talking.until(lambda: "Read src/login.py" in watching.seen, "the tool call is told")
    watching.send(signal.SIGINT)
    answer = watching.wait()
    assert (answer.code, "the run goes on. Watch it again: interlock watch toy-" in answer.stderr) == (130, True)
    assert talking("runs", "--json").json[0]["status"] == "running"
    assert talking("cancel", "latest").code == 0


@pytest.mark.req("WB-07")
def test_programs_get_an_object_on_every_line(talking: Any) -> None:
    """The journal's own lines from the first on, the news of agents, and how it stands at the end."""
    watching = talking.start("watch", "latest", "--json")
    talking.until(lambda: '"Read"' in watching.seen, "the tool call is told")
    assert talking("cancel", "latest").code == 0
    objects = [json.loads(row) for row in watching.wait().stdout.splitlines()]
    journal = [one for one in objects[:-1] if "hash" in one]
    assert [one["seq"] for one in journal] == list(range(1, len(journal) + 1))
    news = [one for one in objects if one.get("event") == "agent.news"]
    assert {"key": "plan/planner#1", "kind": "text"}.items() <= news[[n["kind"] for n in news].index("text")].items()
    assert (objects[-1]["status"], objects[-1]["exit_code"]) == ("stopped", 3)


@pytest.mark.req("WB-07")
def test_a_terminal_sees_what_the_agents_of_another_process_do(talking: Any) -> None:
    """The same live view as that of the process which executes the run."""
    ours, theirs = pty.openpty()
    watching = subprocess.Popen(
        [sys.executable, TOY, "watch", "latest"],
        cwd=talking.root,
        env={**talking.env, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "24"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen, asked = "", False
    while select.select([ours], [], [], 120)[0]:
        try:
            part = os.read(ours, 65536).decode(errors="replace")
        except OSError:  # Linux says so when the other side has gone
            break
        seen += part
        if not asked and re.search(r"step plan: planner .*Read src/login.py", ESCAPE.sub("", seen)):
            assert talking("cancel", "latest").code == 0
            asked = True
    os.close(ours)
    assert (asked, watching.wait()) == (True, 3)
    assert "toy a: stopped" in seen
    assert seen.rfind("\x1b[?25h") > seen.rfind("\x1b[?25l")


@pytest.mark.req("WB-07")
def test_a_run_that_waits_is_watched_to_its_question(workspace: Any) -> None:
    """What waits and how to decide, with exit code 4; nothing is decided by it."""
    assert workspace("run", "toy", "a").code == 4
    before = workspace.digest()
    answer = workspace("watch", "latest")
    assert answer.code == 4
    assert "question: Ship this plan?" in answer.stderr
    assert f"decide with: interlock approve {workspace.folders[0].name} --resume" in answer.stderr
    assert workspace.digest() == before


@pytest.mark.req("WB-07")
def test_a_question_beside_work_is_told_at_once_with_its_commands(workspace: Any) -> None:
    """Others may still work for long: whoever watches learns now what waits."""
    workspace.scenario({"agent": "worker", "misbehave": "hang"})
    assert workspace("run", "toy", "a", "--mode", "side", "--detach").code == 0
    watching = workspace.start("watch", "latest")
    workspace.until(lambda: "decide with: interlock approve" in watching.seen, "it says how to decide")
    assert "run.end" not in workspace.events()
    assert workspace("cancel", "latest").code == 0
    assert watching.wait().code == 3


@pytest.mark.req("WB-07")
def test_a_process_that_died_is_an_interrupted_run(talking: Any) -> None:
    """Whoever watches learns it at once, and what to do."""
    watching = talking.start("watch", "latest")
    talking.until(lambda: "Read src/login.py" in watching.seen, "the tool call is told")
    os.kill(talking.worker, signal.SIGKILL)
    answer = watching.wait()
    assert (answer.code, "its process died: resume goes on" in answer.stderr) == (130, True)
    assert talking("cancel", "latest").code == 0


@pytest.mark.req("WB-07")
def test_a_run_that_has_ended_is_told_with_its_exit_code(workspace: Any) -> None:
    """Its last events, its output, its summary."""
    workspace.scenario({"agent": "planner", "exit": 1})
    code = workspace("run", "toy", "a", "--mode", "quick").code
    answer = workspace("watch", "latest")
    assert (code, answer.code) == (5, 5)
    assert "run failed: planner:" in answer.stdout.decode()


def test_whoever_joins_sees_since_when_agents_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times count from when it happened; what an earlier process had begun is not shown as work."""
    from interlock.cli.live import Board

    clock = Clock()
    board = Board(clock=clock)
    board.begin("toy a", [], None)
    start = {"member": "a", "step": "s", "try": 1, "runner": "x"}
    for ago, made in [
        (500, line("run.start")),
        (400, line("dispatch.start", "s/lost#1", **start)),
        (90, line("run.resumed")),
        (65, line("dispatch.start", **start)),
    ]:
        board.ago = ago
        board.line(made)
    board.ago = 0
    head, row = drawn(board)
    assert head == "toy a  1:30  eta ~?  0 ok"
    assert "attempt 1  1:05" in row


def said(reader: TranscriptReader) -> list[object]:
    return [news.data["text"] for news in reader.fresh()]


def test_a_transcript_is_read_as_it_grows(tmp_path: Path) -> None:
    """Each line once, a torn one when it is whole; another try's from its beginning; what is no news is passed over."""
    file = tmp_path / TRANSCRIPT
    reader = TranscriptReader(tmp_path, at_most=60)
    assert said(reader) == []
    rows = [json.dumps({"ts": "t", "kind": "text", "text": str(number)}) + "\n" for number in range(9)]
    file.write_text("".join(rows[:4]), "utf-8")
    assert said(reader) == ["3"]
    with file.open("a") as more:
        more.write(rows[4] + 'nothing\n{"ts": 1}\n' + rows[5] + rows[6][:10])
    assert said(reader) == ["4", "5"]
    with file.open("a") as more:
        more.write(rows[6][10:])
    assert said(reader) == ["6"]
    file.rename(tmp_path / "before")
    file.write_text(rows[7] + rows[8], "utf-8")
    assert list(reader.fresh()) == [AgentNews("text", {"text": "7"}), AgentNews("text", {"text": "8"})]

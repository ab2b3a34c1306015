"""The live view: what the board knows, how it is drawn, and that a terminal is left as it was."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from interlock.agents import AgentNews
from interlock.cli.live import Board, Picture, minutes
from interlock.engine.journal import Line
from interlock.telemetry import doing

TOY = str(Path(__file__).parent / "toy_cli.py")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def line(event: str, key: str = "s/a#1", attempt: int = 1, **data: Any) -> Line:
    return Line(1, "2026-01-01T10:00:00.000+00:00", "r", event, key, "a", attempt, None, None, data, "", "")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def board(clock: Clock) -> Board:
    made = Board(clock=clock)
    made.begin("toy a", [], None)
    return made


def drawn(board: Board, width: int = 80) -> list[str]:
    """The view as a terminal of this width shows it."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, legacy_windows=False)
    console.print(Picture(board))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return [row.rstrip() for row in ESCAPE.sub("", text).splitlines()]


def test_a_dispatch_stands_on_the_board_while_it_runs(board: Board, clock: Clock) -> None:
    """From its start to its end, with attempt, time and the last thing the agent did."""
    board.line(line("dispatch.start", member="a", step="s", **{"try": 1}, runner="x"))
    clock.now += 65
    board.news("s/a#1", AgentNews("tool", {"name": "edit", "subject": "src/x.py", "state": "began"}))
    head, row = drawn(board)
    assert head == "toy a  1:05  eta ~?  0 ok"
    assert row.split() == [row.split()[0], *["step", "s:", "a", "attempt", "1", "1:05", "edit", "src/x.py"]]
    board.line(line("dispatch.end", outcome="OK", cost_usd=0.5))
    assert drawn(board) == ["toy a  1:05  eta ~?  1 ok  0.50 USD"]


def test_the_tokens_of_an_agent_stand_in_its_row(board: Board) -> None:
    """As soon as the agent says them, at a glance; one that says nothing has none."""
    board.line(line("dispatch.start", member="a", step="s", **{"try": 1}, runner="x"))
    assert "tokens" not in drawn(board)[1]
    board.news("s/a#1", AgentNews("usage", {"input_tokens": 41_000, "output_tokens": 234, "cost_usd": None}))
    assert "41.2k tokens" in drawn(board)[1]


def test_waiting_for_a_service_is_shown_as_waiting(board: Board) -> None:
    """With how long and why, until the next call begins."""
    board.line(line("dispatch.start", member="a", step="s", **{"try": 1}, runner="x"))
    board.line(line("dispatch.try", move="wait", delay_s=30.0, detail="429 too many requests"))
    assert "waits 30 s for its service: 429" in drawn(board, 200)[1]
    board.line(line("dispatch.try", move="wait", delay_s=17_999.7, detail="429 too many requests"))
    assert "waits 5 h 00 min for its service: 429" in drawn(board, 200)[1]
    board.line(line("dispatch.try", move="wait", delay_s=0.0, detail="429 too many requests"))
    assert "its limit lasts longer than may be waited: 429" in drawn(board, 200)[1]


@pytest.mark.parametrize(("move", "delay_s", "said"), [("repeat", 5.0, "repeat in 5.0 s"), ("repair", 0.0, "repair")])
def test_a_call_that_is_made_again_is_announced(board: Board, move: str, delay_s: float, said: str) -> None:
    """What kind of repeat it is, and how soon where that is not at once."""
    board.line(line("dispatch.start", member="a", step="s", **{"try": 1}, runner="x"))
    board.line(line("dispatch.try", move=move, delay_s=delay_s, detail="crashed"))
    assert drawn(board, 200)[1].endswith(f"  {said}")


def test_failures_and_costs_add_up_and_unknown_costs_stay_unknown(board: Board) -> None:
    """A cost that nobody said adds nothing, is not shown as zero, and what is known is not shown as the whole."""
    board.line(line("dispatch.end", outcome="FAIL", cost_usd=None))
    assert board.counts.cost_usd is None
    assert "1 failed" in drawn(board)[0]
    assert "USD" not in drawn(board)[0]
    board.line(line("dispatch.end", outcome="OK", cost_usd=0.5))
    board.line(line("dispatch.end", outcome="OK", cost_usd=0.25))
    assert drawn(board)[0].endswith("  2 ok  1 failed  0.75 USD + unknown")


def test_what_earlier_runs_took_gives_an_eta(board: Board, clock: Clock) -> None:
    """The rest of the usual time; once that is over, nobody knows."""
    board.begin("toy a", [], 100.0)
    clock.now += 40
    assert "eta ~1:00" in drawn(board)[0]
    clock.now += 80
    assert "eta ~?" in drawn(board)[0]


def test_the_steps_stand_in_a_row_and_give_an_eta_where_no_run_came_before(board: Board, clock: Clock) -> None:
    """Done, skipped, now and ahead; a third of the way in a minute leaves about two."""
    board.begin("toy a", [], None, {"1": "one", "2": "two", "s": "three", "4": "four"})
    board.line(line("note", key="1/x"))
    clock.now += 60
    assert "eta ~?" in drawn(board)[0]
    board.line(line("dispatch.start", member="a", step="s", **{"try": 1}, runner="x"))
    head, steps, row = drawn(board)
    assert steps == "+ one - two > three . four"
    assert "eta ~2:00" in head
    assert "step s: a" in row


def test_a_narrow_terminal_gets_cut_lines_and_no_wrapped_ones(board: Board) -> None:
    """However narrow: one line for the head, one for each that works."""
    board.line(line("dispatch.start", member="a-role-with-a-very-long-name", step="stage", **{"try": 1}, runner="x"))
    board.news("s/a#1", AgentNews("text", {"text": "first\n" + "much to say " * 30}))
    for width in (30, 60, 200):
        rows = drawn(board, width)
        assert len(rows) == 2
        assert all(len(row) <= width for row in rows)


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("text", {"text": "one\ntwo \x1b[2J"}, "two \\x1b[2J"),
        ("tool", {"name": "edit", "subject": "a.py", "state": "began"}, "edit a.py"),
        ("tool", {"name": "edit", "subject": "a.py", "state": "refused"}, "edit refused a.py"),
        ("tool", {"name": "edit", "state": "done"}, ""),
        ("plan", {"entries": [["a", "completed"], ["b", "in_progress"], ["c", "pending"]]}, "plan 1/3: b"),
        ("plan", {"entries": []}, ""),
        ("waiting", {"why": "overloaded", "seconds": 2}, "waits: overloaded"),
        ("usage", {"input_tokens": 5}, ""),
        ("started", {"pid": 1}, ""),
        ("partial.requested", {}, "time is up: asked for partial results"),
    ],
)
def test_news_become_a_few_printable_words(kind: str, data: dict[str, object], said: str) -> None:
    """The last line of a text, the name of a tool; nothing that moves the cursor."""
    assert doing(kind, data) == said


def test_running_times_are_short() -> None:
    """m:ss, and h:mm:ss from an hour on."""
    assert [minutes(s) for s in (0.4, 59.9, 60, 3599, 3661)] == ["0:00", "0:59", "1:00", "59:59", "1:01:01"]


def on_a_terminal(workspace: Any, *words: str, **env: str) -> tuple[int, str]:
    """Exit code and everything that reached the terminal, of a command line whose stderr and stdout are one."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, TOY, *words],
        cwd=workspace.root,
        env={**workspace.env, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "24", **env},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    while select.select([ours], [], [], 30)[0]:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux says so when the other side has gone
            break
        if not part:
            break
        seen += part
    os.close(ours)
    return process.wait(), seen.decode()


def test_a_terminal_sees_the_run_live_and_keeps_a_plain_summary(workspace: Any) -> None:
    """The view is drawn in colour while agents work; lines and summary stay, cursor and output are in order."""
    workspace.scenario({"agent": "planner", "delay_s": 0.5})
    code, seen = on_a_terminal(workspace, "run", "toy", "a", "--mode", "quick")
    assert code == 0
    assert re.search(r"step plan: planner\s+\x1b\[2mattempt 1", seen)
    assert "\x1b[32mstep plan: planner  ok in" in seen
    assert seen.rfind("\x1b[?25h") > seen.rfind("\x1b[?25l")
    tail = ESCAPE.sub("", seen).replace("\r", "").splitlines()
    assert tail[tail.index("done quickly") + 1].startswith("toy a: complete after ")


def test_no_color_is_respected(workspace: Any) -> None:
    """With NO_COLOR no colour is sent, and the view works all the same."""
    code, seen = on_a_terminal(workspace, "run", "toy", "a", "--mode", "quick", NO_COLOR="1")
    assert code == 0
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", seen)
    assert "planned" in seen


def test_a_dumb_terminal_gets_plain_lines(workspace: Any) -> None:
    """TERM=dumb: one plain line per event, no escape sequence at all."""
    code, seen = on_a_terminal(workspace, "run", "toy", "a", "--mode", "quick", TERM="dumb")
    assert code == 0
    assert "\x1b" not in seen
    assert "planner  started (attempt 1" in seen


REASON = "the first thing that is wrong is a long one, and the second is no shorter than that, nor is the third of them"


@pytest.mark.req("EV-30")
@pytest.mark.parametrize("width", [60, 80, 130])
def test_a_terminal_gets_its_words_whole(workspace: Any, width: int) -> None:
    """Events, summary and pages go on below at a word; what is there to be copied stays on one line."""
    workspace.scenario({"agent": "planner", "message": f"ERROR: {REASON}"})
    for words in (["run", "toy", "a"], ["show", "latest"], ["logs", "latest"], ["why", "latest"]):
        _, seen = on_a_terminal(workspace, *words, COLUMNS=str(width), NO_COLOR="1")
        rows = ESCAPE.sub("", seen).replace("\r", "\n").splitlines()
        assert " ".join(" ".join(rows).split()).count(REASON) >= 1, words
        assert all(len(row) <= width for row in rows if "interlock " not in row and ".interlock" not in row), words


@pytest.mark.req("EV-30")
def test_a_pipe_gets_a_line_for_each_event(workspace: Any) -> None:
    """However wide: programs read lines."""
    workspace.scenario({"agent": "planner", "message": f"ERROR: {REASON}"})
    answer = workspace("run", "toy", "a", COLUMNS="80")
    assert any(REASON in row for row in answer.stderr.splitlines())
    assert workspace("show", "latest", COLUMNS="80").stdout.decode().count(REASON) >= 1

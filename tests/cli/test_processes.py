"""The command line as a program: signals, a terminal, the background, streams that are closed."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.app import Place
from interlock.engine.run import Outcome, Run
from tests.cli.conftest import CommandLine

HANGS = "trap '' TERM; cat > /dev/null; while :; do sleep 60; done"
LIMIT_S = 120


def until(process: subprocess.Popen[str], said: str) -> str:
    """Read its lines until one has these words."""
    assert process.stderr is not None
    lines = ""
    for line in process.stderr:
        lines += line
        if said in line:
            return lines
    raise AssertionError(f"it never said {said!r}: {lines}")


class Terminal:
    """A program at a terminal of its own."""

    def __init__(self, interlock: CommandLine, *arguments: str, columns: int = 80, **env: str) -> None:
        self.master, slave = pty.openpty()
        os.set_blocking(self.master, False)
        size = {"COLUMNS": str(columns), "LINES": "30", "TERM": "xterm", **env}
        self.process = interlock.spawn(
            *arguments, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, **size}, start_new_session=True
        )
        os.close(slave)
        self.seen = ""

    def until(self, has: Callable[[str], object] = lambda seen: False) -> str:
        """Read until what was seen has it; without one, to the end."""
        while not has(self.seen):
            if not select.select([self.master], [], [], LIMIT_S)[0]:
                raise AssertionError(self.seen)
            try:
                raw = os.read(self.master, 65536)
            except OSError:  # the program has gone
                break
            if not raw:
                break
            self.seen += raw.decode()
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.seen).replace("\r", "")

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def end(self) -> int:
        self.until()
        os.close(self.master)
        return self.process.wait(LIMIT_S)


@pytest.mark.req("RUN-12", "RUN-09")
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_the_first_signal_ends_in_order_and_the_run_goes_on_later(
    interlock: CommandLine, number: signal.Signals, tmp_path: Path
) -> None:
    flag = tmp_path / "hangs"  # the dispatch goes on in its layer, where its own files are as they were
    flag.touch()
    interlock.act("builder", f"cat > /dev/null; [ ! -e {flag} ] || exec sleep 600; sed -i 's/a - b/a + b/' lib.py")
    process = interlock.spawn("Make add right")
    until(process, "builder begins")

    process.send_signal(number)

    out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out) == (130, "")
    assert "Ending in order" in err
    assert "interrupted after" in err
    flag.unlink()
    command = next(line for line in err.splitlines() if line.startswith("  next    interlock"))
    assert interlock(*command.split()[2:]).code == 0


@pytest.mark.long
@pytest.mark.req("RUN-12")
def test_the_second_signal_ends_at_once(interlock: CommandLine, tmp_path: Path) -> None:
    """And whatever an agent started with it, also what hears no TERM."""
    os.mkfifo(alive := tmp_path / "alive")
    reader = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
    interlock.act("builder", f"exec 9> {alive}; echo I live >&9; {HANGS}")
    process = interlock.spawn("Make add right")
    until(process, "builder begins")
    assert select.select([reader], [], [], LIMIT_S)[0] and os.read(reader, 100) == b"I live\n"

    process.send_signal(signal.SIGINT)
    until(process, "Once more ends at once")
    process.send_signal(signal.SIGINT)

    assert process.wait(LIMIT_S) == 130
    assert Place(interlock.top).runs.find("latest").holder() is None
    assert select.select([reader], [], [], LIMIT_S)[0] and os.read(reader, 100) == b""
    process.communicate()


@pytest.mark.req("RUN-07")
def test_a_cancel_reaches_a_run_that_works(interlock: CommandLine) -> None:
    interlock.act("builder", "cat > /dev/null; exec sleep 600")
    process = interlock.spawn("Make add right", "--json")
    until(process, "builder begins")

    said = interlock("cancel", "latest")

    out, err = process.communicate(timeout=LIMIT_S)
    assert (said.code, "is told to end" in said.err) == (0, True)
    assert (process.returncode, json.loads(out)["status"]) == (3, "cancelled")
    assert "cancelled by" in err


@pytest.mark.req("CLI-01")
def test_detached_it_goes_on_alone_and_is_watched(
    interlock: CommandLine, plays: Callable[[Any], None], tmp_path: Path
) -> None:
    async def says(run: Run, inputs: object) -> Outcome:
        return Outcome.complete("said")

    go = tmp_path / "go"
    os.mkfifo(go)
    waits = f"mkdir {tmp_path}/first 2> /dev/null && cat {go} > /dev/null"
    interlock.act("builder", f"cat > /dev/null; {waits}; sed -i 's/a - b/a + b/' lib.py; echo done")
    ends, held = os.pipe()

    process = interlock.spawn("Make add right", "--detach", "--json", pass_fds=(held,))
    os.close(held)
    out, err = process.communicate(timeout=LIMIT_S)  # to the end of its streams: it holds none of them

    assert process.returncode == 0
    assert select.select([ends], [], [], LIMIT_S)[0] and os.read(ends, 1) == b"", "nor anything else of the caller's"
    run = json.loads(out)["run_id"]
    assert json.loads(out)["status"] == "working"
    assert f"interlock watch {run}" in err
    assert interlock("show").out.splitlines()[-1] == f"  next    interlock watch {run}"
    plays(says)
    assert interlock("Do something else").code == 0
    watch = interlock.spawn("watch")
    assert run in until(watch, "builder begins"), "what works, not what is the latest"
    leaves = interlock.spawn("watch")
    until(leaves, "builder begins")
    leaves.send_signal(signal.SIGINT)
    err = leaves.communicate(timeout=LIMIT_S)[1]
    assert (leaves.returncode, f"Run {run} goes on" in err) == (130, True), "who watches ends nothing"
    go.write_text("go")
    out, err = watch.communicate(timeout=LIMIT_S)
    assert (watch.returncode, "complete in" in err) == (0, True)
    log = interlock.top / ".interlock" / "runs" / run / "detached.log"
    assert "complete in" in log.read_text() or interlock("show", run).code == 0


@pytest.mark.long
@pytest.mark.req("RUN-11")
def test_what_refuses_a_detached_run_reaches_the_caller(interlock: CommandLine) -> None:
    process = interlock.spawn("Make add right", "--detach", "--check", "no-such-program-at-all")

    out, err = process.communicate(timeout=LIMIT_S)

    assert (process.returncode, out) == (2, "")
    assert "no-such-program-at-all" in err
    assert interlock("runs").out == ""


@pytest.mark.req("PERSON-01")
def test_a_person_at_the_terminal_is_asked_in_place(waits: CommandLine) -> None:
    terminal = Terminal(waits, "resume")
    terminal.until(lambda seen: "[q]uit" in seen)

    terminal.type("nonsense\n")
    terminal.until(lambda seen: seen.count("[q]uit") == 2)
    terminal.type("a\n")
    terminal.until(lambda seen: "A note" in seen)
    terminal.type("good enough\n")

    assert terminal.end() == 0
    assert "complete in" in terminal.seen
    assert "decided approve" in terminal.seen
    assert "good enough" in waits("show", "--log").out


@pytest.mark.long
@pytest.mark.req("PERSON-01", "RUN-07")
def test_while_it_is_asked_in_place_another_terminal_can_decide(waits: CommandLine) -> None:
    """Also without a name: it waits. The question gives way, and who decided is told."""
    terminal = Terminal(waits, "resume")
    asked = terminal.until(lambda seen: "[q]uit" in seen)
    assert "- check.sh: it was wrong" in asked, "why the judge lets it stand"

    assert "takes it up" in waits("approve", "--note", "said elsewhere").err

    assert terminal.end() == 0
    assert "said elsewhere" in terminal.seen


@pytest.mark.req("PERSON-01", "RUN-09")
@pytest.mark.parametrize("keys", [*(pytest.param(one, marks=pytest.mark.long) for one in ("q\n", "\x04")), "\x03"])
def test_q_the_end_and_ctrl_c_mean_later(waits: CommandLine, keys: str) -> None:
    terminal = Terminal(waits, "resume")
    terminal.until(lambda seen: "[q]uit" in seen)

    if keys == "\x03":  # no controlling terminal makes a signal of it here
        terminal.process.send_signal(signal.SIGINT)
    else:
        terminal.type(keys)

    assert terminal.end() == 4
    assert "interlock approve" in terminal.seen


@pytest.mark.req("CLI-02", "CLI-04")
@pytest.mark.parametrize(
    ("env", "coloured", "live"),
    [
        ({}, True, True),
        pytest.param({"NO_COLOR": "1"}, False, True, marks=pytest.mark.long),
        pytest.param({"TERM": "dumb"}, False, False, marks=pytest.mark.long),
    ],
    ids=["plain", "no colour", "dumb"],
)
def test_a_terminal_gets_what_it_can_show(
    interlock: CommandLine, env: dict[str, str], coloured: bool, live: bool
) -> None:
    terminal = Terminal(interlock, "Make add right", columns=60, **env)

    assert terminal.end() == 0
    seen = terminal.seen
    assert bool(re.search(r"\x1b\[(3\d|1;3\d)m", seen)) is coloured
    assert ("\x1b[?25l" in seen) is live
    block = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen[seen.rindex("complete in") :])
    assert max(len(line.rstrip("\r")) for line in block.splitlines()) <= 60


@pytest.mark.long
@pytest.mark.req("CLI-04")
def test_with_json_nobody_is_asked_in_place(waits: CommandLine) -> None:
    terminal = Terminal(waits, "resume", "--json")

    assert (terminal.end(), "[q]uit" in terminal.seen) == (4, False)


@pytest.mark.req("CLI-04")
def test_what_is_shown_fits_a_narrow_terminal(done: CommandLine) -> None:
    terminal = Terminal(done, "show", columns=50)

    assert terminal.end() == 0
    lines = terminal.seen.replace("\r", "").splitlines()
    assert any(line.startswith("  checks  sh check.sh") for line in lines)
    assert [line for line in lines if len(line) > 50 and "interlock" not in line] == []


@pytest.mark.long
@pytest.mark.req("TREE-08")
def test_guarded_work_is_asked_for_at_the_end(interlock: CommandLine) -> None:
    interlock.act("builder", "sed -i 's/a - b/a + b/' lib.py; echo be nice > CLAUDE.md; echo done")
    terminal = Terminal(interlock, "Make add right")
    terminal.until(lambda seen: "[y/N]" in seen)

    terminal.type("y\n")

    assert terminal.end() == 0
    assert (interlock.top / "CLAUDE.md").exists()


@pytest.mark.req("CLI-04")
def test_a_reader_that_leaves_is_no_fault(done: CommandLine) -> None:
    read, write = os.pipe()
    os.close(read)

    process = done.spawn("show", stdout=write)
    os.close(write)

    _, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, err) == (141, "")


@pytest.mark.long
def test_closed_streams_get_no_file_of_the_run(interlock: CommandLine) -> None:
    line = f"exec {sys.executable} -P -m interlock.cli.main 'Make add right' <&- >&- 2>&-"

    code = subprocess.run(["/bin/sh", "-c", line], cwd=interlock.top, timeout=LIMIT_S, check=False).returncode

    assert code == 0
    assert interlock("show").code == 0


@pytest.mark.req("CLI-05")
def test_a_bug_is_a_sentence_and_a_log(interlock: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr("interlock.cli.looking.list_runs", breaks)

    said = interlock("runs", "--json")

    assert (said.code, said.json["status"]) == (5, "failed")
    assert "interlock has a fault: KeyError" in said.err
    assert "Traceback" not in said.err
    (log,) = (tmp_path / "state" / "interlock").iterdir()
    assert "Traceback" in log.read_text()

"""Programs are fed, heard, held to their deadline, and ended with everything they started."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.agents import process
from interlock.agents.process import Pipe, recorded_exit
from interlock.agents.process_tree import MARKER, end_leftovers, kill_everything
from interlock.agents.redaction import Redaction
from interlock.errors import EngineFault, WorkspaceFailed
from tests.agents.conftest import Execute, Program, alive, eventually, marked, pid_in, says, too_long_when

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="the engine inherits orphans on Linux only")
CHILD = "setsid sh -c 'echo $$ > child; exec sleep 300' & while ! [ -s child ]; do sleep 0.01; done;"
DAEMON = """
    import os
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            script = "echo $$ > daemon.new; mv daemon.new daemon; exec sleep 300 >/dev/null 2>&1"
            os.execve("/bin/sh", ["sh", "-c", script], {})
        os._exit(0)
    os.wait()
    while not os.path.exists("daemon"):
        pass
    """


async def test_a_program_gets_its_input_and_its_output_comes_back(execute: Execute, tmp_path: Path) -> None:
    """Standard input arrives whole; output, the end of standard error and the exit status come back."""
    ended = await execute(["sh", "-c", "tr a-z A-Z; echo trouble >&2; exit 3"], stdin=b"brief")
    assert (ended.exit, ended.out, ended.stderr, ended.error, ended.timed_out) == (3, b"BRIEF", "trouble\n", "", False)
    assert (tmp_path / "out").read_bytes() == b"BRIEF"


async def test_input_may_be_nothing_or_a_file(execute: Execute, tmp_path: Path) -> None:
    """No input is an end of file, not the terminal."""
    (tmp_path / "in").write_bytes(b"from a file")
    assert (await execute(["cat"])).out == b""
    assert (await execute(["cat"], stdin=tmp_path / "in")).out == b"from a file"


@pytest.mark.parametrize("script", ["exec <&-; exit 0", "true", "head -c 10 >/dev/null"])
async def test_input_that_is_not_read_blocks_nobody(execute: Execute, script: str) -> None:
    """A brief of 5 MB to a program that closes its input, never reads it or stops early is no failure."""
    ended = await execute(["sh", "-c", script], stdin=b"x" * 5_000_000)
    assert (ended.exit, ended.timed_out) == (0, False)


async def test_input_and_output_larger_than_any_pipe_do_not_wait_for_each_other(
    execute: Execute, tmp_path: Path
) -> None:
    """5 MB through `cat` come out as they went in."""
    brief = os.urandom(5_000_000)
    assert (await execute(["cat"], stdin=brief)).exit == 0
    assert (tmp_path / "out").read_bytes() == brief


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        (["/no-such-program-here"], "No such file"),
        (["/"], "Permission denied"),
        (["true", "nul\0byte"], "null byte"),
        ([], "no program"),
    ],
)
async def test_a_program_that_cannot_be_started_is_a_fact_not_an_exception(
    execute: Execute, argv: list[str], part: str
) -> None:
    """The reason comes back with no exit status."""
    ended = await execute(argv)
    assert ended.exit is None
    assert part in ended.error


async def test_a_missing_working_folder_is_named(execute: Execute, tmp_path: Path) -> None:
    """It is not mistaken for a missing program."""
    assert "nowhere" in (await execute(["true"], cwd=tmp_path / "nowhere")).error


async def test_a_transcript_that_cannot_be_kept_is_our_failure(execute: Execute, tmp_path: Path) -> None:
    """Nothing is started when its output could not be kept; a pipe in its place does not make us wait."""
    os.mkfifo(tmp_path / "fifo")
    for place in (tmp_path / "no" / "folder", tmp_path / "fifo", tmp_path):
        with pytest.raises(WorkspaceFailed):
            await execute(["touch", "started"], transcript=place)
    assert not (tmp_path / "started").exists()


@pytest.mark.req("RUN-12")
async def test_a_hanging_program_may_tidy_up_at_its_deadline(
    execute: Execute, program: Program, tmp_path: Path
) -> None:
    """It is asked to end first; what it writes then is kept, and its exit status means nothing."""
    argv = program(
        """
        import os, signal, sys, time
        def tidy(*_):
            os.write(1, b"tidied\\n")  # print may be at work right now
            sys.exit(7)
        signal.signal(signal.SIGTERM, tidy)
        print("working", flush=True)
        time.sleep(60)
        """
    )
    late = too_long_when(says(tmp_path / "out", b"working"))
    ended = await execute(argv, grace_s=120, stdin=b"x" * 5_000_000)
    await late
    assert (ended.exit, ended.timed_out, ended.out) == (None, True, b"working\ntidied\n")


@pytest.mark.req("RUN-12")
async def test_a_program_that_ignores_the_request_is_killed_with_its_children(
    execute: Execute, program: Program, tmp_path: Path
) -> None:
    """Deadline plus grace is the end; the fixture looks for what is left."""
    argv = program(
        """
        import signal, subprocess, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"])
        while True:
            time.sleep(1)
        """
    )
    late = too_long_when(says(tmp_path / "out", b"deaf"))
    assert (await execute(argv)).timed_out
    await late


@pytest.mark.req("RUN-12")
@pytest.mark.parametrize("end", ["exit 0", "sleep 60"])
async def test_a_child_in_a_session_of_its_own_is_ended(execute: Execute, tmp_path: Path, end: str) -> None:
    """`setsid` does not save a tool, neither at a normal end nor at the deadline."""
    late = too_long_when(lambda: pid_in(tmp_path / "child")) if "60" in end else None
    ended = await execute(["sh", "-c", f"{CHILD} {end}"])
    assert ended.timed_out == (late is not None)
    assert not alive(pid_in(tmp_path / "child"))


@linux_only
@pytest.mark.req("RUN-12")
async def test_a_daemon_that_cleaned_its_environment_is_ended(
    execute: Execute, program: Program, tmp_path: Path
) -> None:
    """Twice forked, own session, empty environment: still found, and collected."""
    assert (await execute(program(DAEMON))).exit == 0
    assert pid_in(tmp_path / "daemon")
    assert not Path(f"/proc/{pid_in(tmp_path / 'daemon')}").exists()


@linux_only
async def test_an_unmarked_daemon_dies_with_the_last_program_that_it_may_belong_to(
    execute: Execute, program: Program, tmp_path: Path
) -> None:
    """Another program's end does not take it away; the end of its own does."""
    waiting = "touch {0}.on; while ! [ -e {0} ]; do sleep 0.02; done"
    other = asyncio.ensure_future(
        execute(["sh", "-c", waiting.format("go")], marker="another:1", transcript=tmp_path / "2")
    )
    await eventually((tmp_path / "go.on").exists)
    owner = asyncio.ensure_future(execute(["sh", "-c", f"{shlex.join(program(DAEMON))}; {waiting.format('stop')}"]))
    await eventually((tmp_path / "stop.on").exists)
    (tmp_path / "go").touch()
    assert (await other).exit == 0
    assert alive(pid_in(tmp_path / "daemon"))
    (tmp_path / "stop").touch()
    assert (await owner).exit == 0
    assert not alive(pid_in(tmp_path / "daemon"))


@linux_only
async def test_exit_statuses_of_other_children_are_not_taken(execute: Execute) -> None:
    """Programs that others started and wait for keep running and keep their exit status."""
    plain, finished = subprocess.Popen(["sh", "-c", "read x; exit 9"], stdin=subprocess.PIPE), subprocess.Popen("false")
    for _ in range(3):
        assert (await execute(["sh", "-c", "setsid sleep 60 & exit 0"])).exit == 0
    plain.communicate(b"\n")
    assert (plain.returncode, finished.wait()) == (9, 1)


async def test_a_background_child_that_keeps_the_output_open_does_not_hang_us(
    execute: Execute, tmp_path: Path, took: Callable[[], float]
) -> None:
    """The program's own end counts; what it had written is complete."""
    ended = await execute(["sh", "-c", "sleep 300 & echo $! > child; echo answer"])
    assert (ended.exit, ended.out) == (0, b"answer\n")
    assert took() < 250
    assert not alive(pid_in(tmp_path / "child"))


@pytest.mark.req("RUN-12")
@pytest.mark.parametrize("second", ["", "cancel", "kill_everything"])
async def test_cancelling_ends_in_order_and_a_second_time_at_once(
    execute: Execute, tmp_path: Path, second: str, took: Callable[[], float]
) -> None:
    """An agent has its grace to tidy up; whoever asks twice does not wait for it."""
    polite = "trap 'touch tidied; exit' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done" if second else polite
    task = asyncio.ensure_future(execute(["sh", "-c", script], grace_s=1000))
    await eventually(lambda: pid_in(tmp_path / "pid"))
    task.cancel()
    if second == "cancel":
        await asyncio.sleep(0)
        task.cancel()
    elif second:
        await asyncio.sleep(0)
        kill_everything()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert took() < 500
    assert (tmp_path / "tidied").exists() != bool(second)
    assert not alive(pid_in(tmp_path / "pid"))


async def test_what_a_line_leads_to_may_fail_and_ends_the_program(execute: Execute) -> None:
    """There is nobody any more for whom it would work; the error comes out."""

    def hear(line: bytes) -> None:
        raise RuntimeError(f"journal is full: {line!r}")

    with pytest.raises(RuntimeError, match="b'one'"):
        await execute(["sh", "-c", "echo one; sleep 300"], on_line=hear)


@pytest.mark.req("TREE-10")
async def test_a_watch_ends_a_program_and_says_why(
    execute: Execute, monkeypatch: pytest.MonkeyPatch, took: Callable[[], float]
) -> None:
    """It is asked again and again, as long as it is content."""
    monkeypatch.setattr(process, "WATCH_S", 0.01)
    answers = iter(["", "", "12 GB in the layer"])
    ended = await execute(["sleep", "300"], watch=lambda: next(answers))
    assert (ended.over, ended.exit, ended.timed_out) == ("12 GB in the layer", None, False)
    assert took() < 250


async def test_a_program_can_be_spoken_with(execute: Execute) -> None:
    """What is heard can be answered; when the talk is over, its input ends and it may leave by itself."""
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def talk(pipe: Pipe) -> None:
        for word in (b"one\n", b"two\n"):
            pipe.write(word)
            assert await heard.get() == word.strip().upper()

    script = "while read x; do echo $x | tr a-z A-Z; done; exit 4"
    assert (await execute(["sh", "-c", script], stdin=talk, on_line=heard.put_nowait)).exit == 4


async def test_a_talk_has_a_last_word_at_the_deadline(execute: Execute, tmp_path: Path) -> None:
    """It is cancelled, and what it says then still arrives."""

    async def talk(pipe: Pipe) -> None:
        try:
            pipe.write(b"begin\n")
            await asyncio.sleep(1e5)
        finally:
            pipe.write(b"stop\n")

    late = too_long_when(says(tmp_path / "out", b"begin"))
    ended = await execute(["cat"], stdin=talk)
    await late
    assert (ended.timed_out, ended.exit, ended.out) == (True, None, b"begin\nstop\n")


async def test_many_programs_at_once_leave_nothing_open(tmp_path: Path) -> None:
    """A hundred side by side all give their own answer."""

    async def one(number: int) -> int | None:
        marker, argv = f"many-{os.getpid()}:{number}", ["sh", "-c", f"cat; exit {number}"]
        options = {"marker": marker, "deadline_s": 600.0, "redact": Redaction(), "stdin": str(number).encode()}
        return (await process.run(argv, dict(os.environ), tmp_path, **options)).exit  # type: ignore[arg-type]

    before = len(list(Path("/dev/fd").iterdir()))
    assert await asyncio.gather(*map(one, range(100))) == list(range(100))
    assert len(list(Path("/dev/fd").iterdir())) <= before + 2  # the loop's own


@pytest.mark.req("RUN-12")
async def test_what_a_dead_engine_left_running_is_found_by_its_marker(marker: str, tmp_path: Path) -> None:
    """With all that it started in its session; we ourselves and others are spared, and no marker is no answer."""
    env = {**os.environ, MARKER: marker}
    script = "env -i sleep 300 & echo $! > child; exec sleep 300"
    left = subprocess.Popen(["sh", "-c", script], cwd=tmp_path, env=env, start_new_session=True)
    await eventually(lambda: pid_in(tmp_path / "child"))
    assert set(end_leftovers(marker.removesuffix("1"))) == {left.pid, pid_in(tmp_path / "child")}
    assert left.wait(60) == -signal.SIGKILL
    assert marked(marker) == []
    with pytest.raises(EngineFault):
        end_leftovers("")


LAUNCHER = """\
import json, os, signal, subprocess, sys
def told(number, frame):
    open("launcher-was-told", "w").close()
    os._exit(99)
signal.signal(signal.SIGTERM, told)
code = subprocess.Popen(sys.argv[1:], start_new_session=True).wait()
with open("exit.json", "a") as file:
    file.write(json.dumps({"exit-code": code if code >= 0 else 128 - code}) + "\\n")
sys.exit(code if code >= 0 else 128 - code)
"""


async def test_behind_a_launcher_the_program_itself_is_asked_to_end(
    execute: Execute, program: Program, tmp_path: Path
) -> None:
    """The launcher would take it along before it could tidy up."""
    script = "trap 'echo tidied; exit 0' TERM; echo working; while :; do sleep 0.02; done"
    late = too_long_when(says(tmp_path / "out", b"working"))
    argv = [*program(LAUNCHER), "sh", "-c", script]
    ended = await execute(argv, exit_file=tmp_path / "exit.json", grace_s=120)
    await late
    assert (ended.timed_out, ended.out) == (True, b"working\ntidied\n")
    assert not (tmp_path / "launcher-was-told").exists()


async def test_a_launcher_that_could_not_start_the_program_says_why(
    execute: Execute, program: Program, tmp_path: Path
) -> None:
    """Only its file tells that from a program that failed; what it says is the reason."""
    file = tmp_path / "exit.json"
    file.write_text('{ "child-pid": 12 }\n')
    why = "bwrap: execvp nothing: No such file or directory"
    ended = await execute(["sh", "-c", f"echo '{why}' >&2; exit 1"], exit_file=file)
    assert (ended.exit, ended.error) == (None, why)
    assert (await execute([*program(LAUNCHER), "sh", "-c", "exit 1"], exit_file=file)).exit == 1
    assert recorded_exit(file) == 1
    assert recorded_exit(tmp_path / "none") is None


async def test_descriptors_that_are_handed_on_are_closed_here(execute: Execute, tmp_path: Path) -> None:
    """The program has them, and a program that could not be started does not leave them open."""
    for argv, written in (["sh", "-c", "echo told > /dev/fd/{}"], b"told\n"), (["/no-such-program", "{}"], b""):
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
            await execute([word.format(handle) for word in argv], pass_fds=(handle,))
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(handle)
            file.seek(0)
            assert file.read() == written

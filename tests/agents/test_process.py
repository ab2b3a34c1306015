"""Programs are fed, heard, held to their deadline, and ended with everything they started."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from interlock.agents import process
from interlock.agents.process_tree import MARKER, end_leftovers, kill_everything
from interlock.agents.redaction import Redaction
from interlock.errors import WorkspaceFailed
from tests.agents.conftest import Execute, Program, alive, eventually, pid_in, says, too_long_when
from tests.real import Plain

POLITE = "trap 'echo tidied; exit 7' TERM; echo working; while :; do sleep 0.02; done"
DEAF = "trap '' TERM; echo working; while :; do sleep 0.1; done"
MUTE = DEAF.replace("while", "exec >&- 2>&-; while")
CHILD = "sh -c 'echo $$ > child; exec sleep 300' & while ! [ -s child ]; do sleep 0.01; done;"


async def test_a_program_gets_its_input_and_its_output_comes_back(execute: Execute, tmp_path: Path) -> None:
    """Standard input arrives whole, larger than any pipe; output, standard error and the exit status come back."""
    brief = os.urandom(5_000_000)
    ended = await execute(["sh", "-c", "cat; echo trouble >&2; exit 3"], stdin=brief)
    assert (ended.exit, ended.stderr, ended.error, ended.timed_out) == (3, "trouble\n", "", False)
    assert (tmp_path / "out").read_bytes() == brief
    assert ended.out.startswith(brief[:400_000])


@pytest.mark.parametrize("script", ["exec <&-; exit 0", "true", "head -c 10 >/dev/null"])
async def test_input_that_is_not_read_blocks_nobody(execute: Execute, script: str) -> None:
    """A brief of 5 MB to a program that closes its input, never reads it or stops early is no failure."""
    ended = await execute(["sh", "-c", script], stdin=b"x" * 5_000_000)
    assert (ended.exit, ended.timed_out) == (0, False)


@pytest.mark.parametrize(
    ("argv", "cwd", "part"),
    [
        (["/no-such-program-here"], ".", "No such file"),
        (["/"], ".", "Permission denied"),
        (["true", "nul\0byte"], ".", "null byte"),
        ([], ".", "no program"),
        (["true"], "nowhere", "nowhere"),
    ],
)
async def test_a_program_that_cannot_be_started_is_a_fact_not_an_exception(
    execute: Execute, tmp_path: Path, argv: list[str], cwd: str, part: str
) -> None:
    """The reason comes back with no exit status."""
    ended = await execute(argv, cwd=tmp_path / cwd)
    assert ended.exit is None
    assert part in ended.error


async def test_a_transcript_that_cannot_be_kept_is_our_failure(execute: Execute, tmp_path: Path) -> None:
    """Nothing is started when its output could not be kept; what stood there is replaced, a pipe too."""
    for place in (tmp_path / "no" / "folder", tmp_path):
        with pytest.raises(WorkspaceFailed):
            await execute(["touch", "started"], transcript=place)
    assert not (tmp_path / "started").exists()
    os.mkfifo(tmp_path / "out")
    await execute(["echo", "new"])
    assert (tmp_path / "out").read_text() == "new\n"


@pytest.mark.req("RUN-19")
async def test_a_full_disk_ends_the_program_and_says_so(execute: Execute, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nobody any more for whom it would work."""
    monkeypatch.setattr(process.Transcript, "write", _full)
    with pytest.raises(OSError, match="No space left"):
        await execute(["sh", "-c", "echo one; sleep 300"])


def _full(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.req("RUN-12")
@pytest.mark.parametrize(
    ("script", "out"), [(POLITE, b"working\ntidied\n"), (DEAF, b"working\n"), (MUTE, b"working\n")]
)
async def test_at_its_deadline_a_program_may_tidy_up_and_is_ended(
    execute: Execute, tmp_path: Path, script: str, out: bytes
) -> None:
    """It is asked first and killed then; what it still writes is kept, and its exit status means nothing."""
    late = too_long_when(says(tmp_path / "out", b"working"))
    ended = await execute(["sh", "-c", script], grace_s=120 if script is POLITE else 0.3, stdin=b"x" * 5_000_000)
    await late
    assert (ended.exit, ended.timed_out, ended.out) == (None, True, out)


@pytest.mark.req("RUN-12")
@pytest.mark.parametrize("hiding", ["setsid", "env -i", ""])
@pytest.mark.parametrize("end", ["exit 0", "sleep 60"])
async def test_what_a_program_leaves_running_is_ended(execute: Execute, tmp_path: Path, hiding: str, end: str) -> None:
    """In a session of its own, or without our marker, at a normal end and at the deadline, with the output open."""
    late = too_long_when(lambda: pid_in(tmp_path / "child")) if "60" in end else None
    ended = await execute(["sh", "-c", f"{hiding} {CHILD} {end}"])
    assert ended.timed_out == (late is not None)
    assert not alive(pid_in(tmp_path / "child"))


async def test_what_a_program_said_before_it_exited_is_read_to_its_end(
    execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However busy we are: its last line is the end of its turn."""
    monkeypatch.setattr(process, "_LAST_WORDS_S", 0.0)
    ended = await execute(["sh", "-c", "yes | head -c 900000; echo end"], on_line=lambda line: None)
    assert ended.out.endswith(b"end\n")


@pytest.mark.req("RUN-12")
@pytest.mark.parametrize("second", ["", "cancel", "kill_everything"])
async def test_cancelling_ends_in_order_and_a_second_time_at_once(
    execute: Execute, tmp_path: Path, second: str
) -> None:
    """An agent has its grace to tidy up; whoever asks twice does not wait for it."""
    began = time.monotonic()
    task = asyncio.ensure_future(execute(["sh", "-c", DEAF if second else POLITE], grace_s=1000))
    await eventually(says(tmp_path / "out", b"working"))
    task.cancel()
    if second == "cancel":
        await asyncio.sleep(0)
        task.cancel()
    elif second:
        await asyncio.sleep(0)
        kill_everything()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 500
    assert ("tidied" in (tmp_path / "out").read_text()) != bool(second)


async def test_many_programs_at_once_leave_nothing_open(tmp_path: Path) -> None:
    """They all give their own answer."""

    async def one(number: int) -> int | None:
        program = Plain(["sh", "-c", f"cat; exit {number}"], dict(os.environ), str(tmp_path))
        marker = f"many-{os.getpid()}:{number}"
        return (await process.run(program, marker=marker, deadline_s=600.0, redact=Redaction(), stdin=b"x")).exit

    before = len(list(Path("/dev/fd").iterdir()))
    assert await asyncio.gather(*map(one, range(30))) == list(range(30))
    assert len(list(Path("/dev/fd").iterdir())) <= before + 2  # the loop's own


@pytest.mark.req("RUN-12")
async def test_what_a_dead_engine_left_running_is_found_by_its_marker(marker: str, tmp_path: Path) -> None:
    """With all that shares its session; the programs of another run are spared."""
    script = "env -i sleep 300 & echo $! > $CHILD; exec sleep 300"
    left, children = [], [tmp_path / "ours", tmp_path / "theirs"]
    for name, child in zip((marker, f"another-{marker}"), children, strict=True):
        env = {**os.environ, MARKER: name, "CHILD": str(child)}
        left.append(subprocess.Popen(["sh", "-c", script], env=env, start_new_session=True))
        await eventually(lambda child=child: pid_in(child))
    end_leftovers(marker.removesuffix("1"))
    assert [alive(pid_in(child)) for child in children] == [False, True]
    end_leftovers("another-")
    assert [one.wait(60) for one in left] == [-9, -9]


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


@pytest.mark.req("RUN-12")
async def test_behind_a_launcher_the_program_itself_is_asked_to_end(
    execute: Execute, program: Program, tmp_path: Path
) -> None:
    """The launcher would take it along before it could tidy up."""
    late = too_long_when(says(tmp_path / "out", b"working"))
    argv = [*program(LAUNCHER), "sh", "-c", POLITE]
    ended = await execute(argv, exit_file=tmp_path / "exit.json", grace_s=120)
    await late
    assert (ended.timed_out, ended.out) == (True, b"working\ntidied\n")
    assert not (tmp_path / "launcher-was-told").exists()


@pytest.mark.parametrize("one_stream", [True, False])
async def test_a_launcher_that_could_not_start_the_program_says_why(
    execute: Execute, program: Program, tmp_path: Path, one_stream: bool
) -> None:
    """Only its file tells that from a program that failed; what it says is the reason."""
    file = tmp_path / "exit.json"
    file.write_text('{ "child-pid": 12 }\n')
    why = "bwrap: execvp nothing: No such file or directory"
    ended = await execute(["sh", "-c", f"echo '{why}' >&2; exit 1"], exit_file=file, one_stream=one_stream)
    assert (ended.exit, ended.error) == (None, why)
    ours = ["sh", "-c", "echo 'interlock: x is missing' >&2; exit 127"]
    assert (await execute([*program(LAUNCHER), *ours], exit_file=file)).error == "x is missing"
    assert (await execute([*program(LAUNCHER), "sh", "-c", "exit 1"], exit_file=file)).exit == 1


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

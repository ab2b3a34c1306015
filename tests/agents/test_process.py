"""Programs are fed, heard, held to their deadline, and ended with everything they started."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.agents import process_table
from interlock.agents.capped_file import CappedFile, cut_mark
from interlock.agents.process import ProcessExit, run_process
from interlock.agents.process_tree import ProcessTree, end_leftovers, kill_everything
from interlock.errors import EngineFault, WorkspaceFailed
from tests.deadlines import Deadline, says

Execute = Callable[..., Any]
Program = Callable[[str], list[str]]

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="the engine inherits orphans on Linux only")


def alive(pid: int) -> bool:
    return process_table.started(pid) is not None


def listed(pid: int) -> bool:
    return any(process.pid == pid for process in process_table.processes())


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


async def eventually(condition: Callable[[], object], within: float = 120.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "never became true"
        await asyncio.sleep(0.01)


def pid_in(path: Path) -> int | None:
    return int(path.read_text()) if path.exists() and path.read_text().endswith("\n") else None


async def test_a_program_gets_its_input_and_its_output_is_in_the_files(execute: Execute, tmp_path: Path) -> None:
    """Standard input arrives whole; both outputs and the exit status come back."""
    ended = await execute(["sh", "-c", "tr a-z A-Z; echo trouble >&2; exit 3"], stdin=b"brief")
    assert ended == ProcessExit(3, duration_s=ended.duration_s)
    assert ((tmp_path / "out").read_bytes(), (tmp_path / "err").read_bytes()) == (b"BRIEF", b"trouble\n")


async def test_a_program_without_input_reads_an_empty_one(execute: Execute, tmp_path: Path) -> None:
    """No input is an end of file, not the terminal."""
    assert (await execute(["cat"])).code == 0
    assert (tmp_path / "out").read_bytes() == b""


@pytest.mark.parametrize("script", ["exec <&-; exit 0", "true", "head -c 10 >/dev/null"])
async def test_input_that_is_not_read_blocks_nobody(execute: Execute, script: str) -> None:
    """A brief of 5 MB to a program that closes its input, never reads it or stops early is no failure."""
    ended = await execute(["sh", "-c", script], stdin=b"x" * 5_000_000)
    assert (ended.code, ended.timed_out) == (0, False)


async def test_input_and_output_larger_than_any_pipe_do_not_wait_for_each_other(
    execute: Execute, tmp_path: Path
) -> None:
    """5 MB through `cat` come out as they went in."""
    brief = os.urandom(5_000_000)
    assert (await execute(["cat"], stdin=brief)).code == 0
    assert (tmp_path / "out").read_bytes() == brief


async def test_a_program_that_sleeps_on_a_large_input_is_held_to_its_deadline(execute: Execute) -> None:
    """A full input pipe does not keep the deadline from coming."""
    ended = await execute(["sleep", "60"], stdin=b"x" * 5_000_000, timeout_s=0.2)
    assert ended.timed_out


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        (["/no-such-program-here"], "No such file"),
        (["/"], "Permission denied"),
        (["true", "nul\0byte"], "null byte"),
    ],
)
async def test_a_program_that_cannot_be_started_is_a_fact_not_an_exception(
    execute: Execute, argv: list[str], part: str
) -> None:
    """The reason comes back with no exit status."""
    ended = await execute(argv)
    assert ended.code is None
    assert part in ended.spawn_error
    assert argv[0] in ended.spawn_error


async def test_no_program_at_all_is_such_a_fact_too(execute: Execute) -> None:
    """A command line that came out empty does not raise."""
    assert "no program" in (await execute([])).spawn_error


async def test_a_missing_working_folder_is_named(execute: Execute, tmp_path: Path) -> None:
    """It is not mistaken for a missing program."""
    ended = await execute(["true"], cwd=tmp_path / "nowhere")
    assert "nowhere" in ended.spawn_error


async def test_an_output_file_that_cannot_be_created_is_our_failure(execute: Execute, tmp_path: Path) -> None:
    """Nothing is started when its output could not be kept."""
    with pytest.raises(WorkspaceFailed):
        await execute(["touch", "started"], stdout=tmp_path / "no" / "folder")
    assert not (tmp_path / "started").exists()


async def test_the_start_is_told_with_pid_and_group(execute: Execute) -> None:
    """The numbers are those of a process that leads its own group."""
    seen: list[tuple[int, int, int]] = []
    await execute(["sleep", "0.2"], on_start=lambda pid, pgid: seen.append((pid, pgid, os.getpgid(pid))))
    assert [(pid == pgid == real) for pid, pgid, real in seen] == [True]


@pytest.mark.req("CM-09")
async def test_a_hanging_program_gets_a_termination_request_at_its_deadline(
    execute: Execute, program: Program, tmp_path: Path, deadline: Deadline
) -> None:
    """It may tidy up in the grace period; what it wrote is kept."""
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
    deadline(says(tmp_path / "out", b"working"))
    ended = await execute(argv, grace_s=120)
    assert (ended.code, ended.timed_out, ended.partial) == (7, True, False)
    assert (tmp_path / "out").read_text() == "working\ntidied\n"


@pytest.mark.req("CM-09")
async def test_a_program_that_ignores_termination_is_killed_after_the_grace(
    execute: Execute, program: Program, tmp_path: Path, deadline: Deadline
) -> None:
    """Deadline plus grace is the end, for its children too."""
    argv = program(
        """
        import signal, subprocess, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen(["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"])
        while True:
            time.sleep(1)
        """
    )
    deadline(says(tmp_path / "out", b"deaf"))
    ended = await execute(argv, grace_s=0.4)
    assert (ended.code, ended.timed_out) == (-signal.SIGKILL, True)


@pytest.mark.req("CM-09")
@pytest.mark.parametrize("end", ["exit 0", "sleep 60"])
async def test_a_child_in_a_session_of_its_own_is_ended(
    execute: Execute, tmp_path: Path, deadline: Deadline, end: str
) -> None:
    """`setsid` does not save a tool, neither at a normal end nor at the deadline."""
    script = f"setsid sh -c 'echo $$ > child; exec sleep 300' & while ! [ -s child ]; do sleep 0.01; done; {end}"
    if "60" in end:
        deadline(lambda: pid_in(tmp_path / "child"))
    ended = await execute(["sh", "-c", script])
    assert ended.timed_out == ("60" in end)
    assert not alive(pid_in(tmp_path / "child") or 0)


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


@linux_only
@pytest.mark.req("CM-09")
async def test_a_daemon_that_cleaned_its_environment_is_ended(
    execute: Execute, program: Program, tmp_path: Path
) -> None:
    """Twice forked, own session, empty environment: still found, and collected."""
    assert (await execute(program(DAEMON))).code == 0
    pid = pid_in(tmp_path / "daemon") or 0
    assert pid
    assert not listed(pid)


@linux_only
async def test_an_unmarked_daemon_lives_until_the_last_program_it_may_belong_to_ends(
    execute: Execute, program: Program, tmp_path: Path
) -> None:
    """Another program's end does not take it away; the end of its own does."""
    files = {"stdout": tmp_path / "other.out", "stderr": tmp_path / "other.err"}
    waiting = "while ! [ -e {} ]; do sleep 0.02; done"
    other = asyncio.create_task(execute(["sh", "-c", waiting.format("go")], marker="another:program:1", **files))
    await eventually(files["stdout"].exists)
    owner = asyncio.create_task(execute(["sh", "-c", f"{' '.join(program(DAEMON))}; {waiting.format('stop')}"]))
    await eventually((tmp_path / "daemon").exists)
    pid = pid_in(tmp_path / "daemon") or 0
    (tmp_path / "go").touch()
    assert (await other).code == 0
    assert alive(pid)
    (tmp_path / "stop").touch()
    assert (await owner).code == 0
    assert not alive(pid)


async def test_a_process_with_the_marker_is_ended_whoever_started_it(execute: Execute, marker: str) -> None:
    """A helper outside that starts something for the program passes its environment on."""
    helper: list[subprocess.Popen[bytes]] = []

    def start_beside(pid: int, _: int) -> None:
        helper.append(subprocess.Popen(["sleep", "60"], env={process_table.MARKER: marker}))

    assert (await execute(["true"], on_start=start_beside)).code == 0
    assert helper[0].wait(timeout=120) == -signal.SIGTERM


@linux_only
async def test_exit_statuses_of_other_children_are_not_taken(execute: Execute) -> None:
    """Programs that others started and wait for keep running and keep their exit status."""
    plain = await asyncio.create_subprocess_exec("sh", "-c", "sleep 0.5; exit 9")
    finished = subprocess.Popen(["sh", "-c", "exit 8"])
    for _ in range(5):
        assert (await execute(["sh", "-c", "setsid sleep 60 & exit 0"])).code == 0
    assert (await plain.wait(), finished.wait()) == (9, 8)


async def test_a_background_child_that_keeps_the_output_open_does_not_hang_us(execute: Execute, tmp_path: Path) -> None:
    """The program's own end counts; what it had written is complete."""
    ended = await execute(["sh", "-c", "sleep 300 & echo $! > child; echo answer"])
    assert (ended.code, ended.timed_out) == (0, False)
    assert ended.duration_s < 250
    assert (tmp_path / "out").read_text() == "answer\n"
    assert not alive(pid_in(tmp_path / "child") or 0)


async def test_output_that_comes_right_after_the_exit_is_kept(execute: Execute, tmp_path: Path) -> None:
    """A pipeline's last words are waited for, shortly."""
    await execute(["sh", "-c", "(sleep 0.05; echo late) & echo early"])
    assert (tmp_path / "out").read_text() == "early\nlate\n"


@pytest.mark.req("CM-10")
async def test_output_over_the_limit_is_cut_with_a_mark_and_the_program_goes_on(
    execute: Execute, tmp_path: Path
) -> None:
    """60 MB leave 50 MB in the file, mark included, and the program ends by itself."""
    ended = await execute(["sh", "-c", "head -c 60000000 /dev/zero; echo fine >&2; exit 4"])
    assert (ended.code, ended.stdout_cut, ended.stderr_cut) == (4, True, False)
    with (tmp_path / "out").open("rb") as file:
        assert file.seek(0, os.SEEK_END) == 50_000_000
        file.seek(-200, os.SEEK_END)
        assert file.read().endswith(cut_mark(50_000_000))
    assert (tmp_path / "err").read_bytes() == b"fine\n"


@pytest.mark.req("CM-10")
async def test_standard_error_has_the_same_limit(execute: Execute, tmp_path: Path) -> None:
    """The other stream is not a way around."""
    ended = await execute(["sh", "-c", "head -c 9000 /dev/zero >&2"], limit_bytes=1000)
    assert (ended.stdout_cut, ended.stderr_cut) == (False, True)
    assert (tmp_path / "err").stat().st_size == 1000


@pytest.mark.parametrize(("size", "cut"), [(0, False), (499, False), (500, False), (501, True), (5000, True)])
def test_a_capped_file_is_never_longer_than_its_limit(tmp_path: Path, size: int, cut: bool) -> None:
    """Exactly the limit fits; one byte more is marked, and characters stay whole."""
    content = ("é" * size).encode()[:size]
    with CappedFile(tmp_path / "f", 500) as file:
        for start in range(0, size, 64):
            file.write(content[start : start + 64])
    kept = (tmp_path / "f").read_bytes()
    assert file.cut == cut
    assert len(kept) <= 500
    if cut:
        assert kept.endswith(cut_mark(500))
        kept.decode()
    else:
        assert kept == content


async def test_partial_results_are_asked_for_at_the_deadline(execute: Execute, tmp_path: Path) -> None:
    """An orderly end in the time given counts as partial and as timed out."""
    script = "while ! [ -e please ]; do sleep 0.02; done; echo half"
    ended = await execute(["sh", "-c", script], timeout_s=0.2, partial=(tmp_path / "please").touch, partial_grace_s=120)
    assert (ended.code, ended.timed_out, ended.partial) == (0, True, True)
    assert (tmp_path / "out").read_text() == "half\n"


async def test_a_failure_after_the_request_is_not_a_partial_result(execute: Execute, tmp_path: Path) -> None:
    """Only an exit status of 0 is an answer; the request may be a coroutine."""

    async def ask() -> None:
        (tmp_path / "please").touch()

    script = "while ! [ -e please ]; do sleep 0.02; done; exit 3"
    ended = await execute(["sh", "-c", script], timeout_s=0.2, partial=ask, partial_grace_s=120)
    assert (ended.code, ended.timed_out, ended.partial) == (3, True, False)


async def test_a_program_that_gives_no_partial_result_is_ended(execute: Execute) -> None:
    """The grace for partial results is bounded too."""
    ended = await execute(["sleep", "60"], timeout_s=0.1, partial=lambda: None, partial_grace_s=0.2)
    assert (ended.code, ended.timed_out, ended.partial) == (-signal.SIGTERM, True, False)


@pytest.mark.req("CM-21")
async def test_cancelling_terminates_waits_and_kills_before_it_goes_on(
    execute: Execute, program: Program, tmp_path: Path
) -> None:
    """An agent has its grace to tidy up; a tool of its that ignores the request is killed after it."""
    argv = program(
        """
        import os, signal, subprocess, sys, time
        def tidy(*_):
            open("tidied", "w").close()
            sys.exit(0)
        signal.signal(signal.SIGTERM, tidy)
        tool = "trap '' TERM; echo $$ > child; while :; do sleep 0.1; done"
        subprocess.Popen(["sh", "-c", tool], start_new_session=True)
        time.sleep(60)
        """
    )
    task = asyncio.create_task(execute(argv, grace_s=2.0))
    await eventually(lambda: pid_in(tmp_path / "child"))
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began >= 2.0
    assert (tmp_path / "tidied").exists()
    assert not alive(pid_in(tmp_path / "child") or 0)


@pytest.mark.req("CM-21")
@pytest.mark.parametrize("second", ["cancel", "kill_everything"])
async def test_a_second_interrupt_does_not_wait_for_the_grace(execute: Execute, tmp_path: Path, second: str) -> None:
    """Whoever asks twice gets an immediate end."""
    task = asyncio.create_task(
        execute(["sh", "-c", "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done"], grace_s=1000)
    )
    await eventually(lambda: pid_in(tmp_path / "pid"))
    task.cancel()
    await asyncio.sleep(0.05)
    began = time.monotonic()
    if second == "cancel":
        task.cancel()
    else:
        kill_everything()
        assert not alive(pid_in(tmp_path / "pid") or 0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 500
    assert not alive(pid_in(tmp_path / "pid") or 0)


async def test_an_error_in_the_start_callback_ends_the_program(execute: Execute, tmp_path: Path) -> None:
    """Our own fault leaves nothing running either."""
    pids: list[int] = []

    def fail(pid: int, _: int) -> None:
        pids.append(pid)
        raise RuntimeError("journal is full")

    with pytest.raises(RuntimeError):
        await execute(["sleep", "60"], on_start=fail)
    assert not alive(pids[0])


async def test_where_there_are_no_process_descriptors_a_thread_notices_the_end(
    execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit status is not lost on such systems."""
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert (await execute(["sh", "-c", "exit 5"])).code == 5
    assert (await execute(["sleep", "60"], timeout_s=0.1)).timed_out


async def test_many_programs_at_once(execute: Execute, tmp_path: Path) -> None:
    """A hundred side by side all give their own answer, with no descriptor left open."""

    async def one(number: int) -> int | None:
        folder = tmp_path / str(number)
        folder.mkdir()
        ended = await run_process(
            ["sh", "-c", f"cat; exit {number}"],
            cwd=folder,
            env=dict(os.environ),
            stdin=str(number).encode(),
            stdout=folder / "out",
            stderr=folder / "err",
            timeout_s=600,
            marker=f"many-{os.getpid()}:{number}",
        )
        assert (folder / "out").read_text() == str(number)
        return ended.code

    before = open_files()
    assert await asyncio.gather(*(one(number) for number in range(100))) == list(range(100))
    assert open_files() == before


ENGINE = """
    import asyncio, os, sys
    from pathlib import Path
    from interlock.agents import process_table
    from interlock.agents.process import run_process

    def on_start(pid, pgid):
        Path("started.new").write_text(f"{pgid} {process_table.started(pid)!r}")
        os.rename("started.new", "started")

    asyncio.run(run_process(
        sys.argv[2:], cwd=Path("."), env=dict(os.environ), stdin=None, stdout=Path("o"), stderr=Path("e"),
        timeout_s=None, marker=sys.argv[1], on_start=on_start))
    """


@pytest.fixture
def crashed_engine(tmp_path: Path, marker: str) -> tuple[int, float, list[int]]:
    """An engine that was killed while its program ran: group, start time, and the processes it left."""
    engine = tmp_path / "engine.py"
    engine.write_text(textwrap.dedent(ENGINE), encoding="utf-8")
    script = "setsid sh -c 'echo $$ > a; exec sleep 300' & (echo $$ > b; exec sleep 300)"
    process = subprocess.Popen([sys.executable, str(engine), marker, "sh", "-c", script], cwd=tmp_path)
    deadline = time.monotonic() + 120
    while not all(
        (tmp_path / name).exists() and (tmp_path / name).read_text().strip() for name in ("a", "b", "started")
    ):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.wait()
    group, began = (tmp_path / "started").read_text().split()
    left = [int((tmp_path / name).read_text()) for name in ("a", "b")]
    assert all(alive(pid) for pid in left)
    return int(group), float(began), left


@pytest.mark.req("CM-09")
def test_the_next_process_ends_what_a_killed_engine_left(
    crashed_engine: tuple[int, float, list[int]], marker: str
) -> None:
    """Found by the beginning of the marker, sessions of their own included, and named."""
    _, _, left = crashed_engine
    assert end_leftovers("test-no-such:3b/agent#1:", None, None) == []
    ended = end_leftovers(marker.removesuffix("1"), None, None)
    assert set(left) <= set(ended)
    assert not any(alive(pid) for pid in left)
    assert end_leftovers(marker.removesuffix("1"), None, None) == []


@pytest.mark.parametrize("same", [True, False])
def test_a_recorded_group_counts_only_while_its_leader_is_the_same_process(
    crashed_engine: tuple[int, float, list[int]], marker: str, same: bool
) -> None:
    """Numbers are given again: with another start time the group is someone else's."""
    group, began, left = crashed_engine
    ended = end_leftovers("test-other-marker:", group, began if same else began - 1.0)
    assert (left[1] in ended) == same
    assert alive(left[1]) != same
    end_leftovers(marker, None, None)


def test_leftovers_without_a_marker_are_refused() -> None:
    """An empty beginning would match every process there is."""
    with pytest.raises(EngineFault):
        end_leftovers("", None, None)


def test_an_engine_inside_an_agent_does_not_end_itself(tmp_path: Path, marker: str) -> None:
    """Its own ancestors are spared even if they carry the marker."""
    inner = "import sys; from interlock.agents import end_leftovers; end_leftovers(sys.argv[1]); print('alive')"
    ended = subprocess.run(
        ["sh", "-c", '"$0" -c "$1" "$2"; true', sys.executable, inner, marker],
        env={**os.environ, "INTERLOCK_MARKER": marker},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "alive\n")


def test_the_process_table_knows_this_process() -> None:
    """Parent, group, session and start time are those the system says."""
    me = next(process for process in process_table.processes() if process.pid == os.getpid())
    assert (me.parent, me.group, me.session) == (os.getppid(), os.getpgid(0), os.getsid(0))
    assert me.started == process_table.started(os.getpid())
    assert me.started <= process_table.now()


def test_elsewhere_psutil_gives_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The portable way names the same parents, groups and markers."""
    child = subprocess.Popen(["sleep", "60"], env={"INTERLOCK_MARKER": "portable:1"}, start_new_session=True)
    try:
        monkeypatch.setattr(process_table, "_ON_LINUX", False)
        listed = next(process for process in process_table.processes() if process.pid == child.pid)
        assert (listed.parent, listed.group, listed.session, listed.dead) == (os.getpid(), child.pid, child.pid, False)
        assert process_table.marker(child.pid) == "portable:1"
        assert listed.started == process_table.started(child.pid)
        assert end_leftovers("portable:") == [child.pid]
    finally:
        child.kill()
        child.wait()


async def test_a_tree_can_be_used_without_files(tmp_path: Path, marker: str) -> None:
    """A runner that speaks with its program over pipes starts and ends it by the same rules."""
    tree = ProcessTree.start(["cat"], cwd=tmp_path, env={}, marker=marker, stdin=subprocess.PIPE)
    exited = tree.exited()
    try:
        assert tree.popen.stdin and tree.popen.stdout
        tree.popen.stdin.write(b"ping")
        assert await asyncio.to_thread(os.read, tree.popen.stdout.fileno(), 10) == b"ping"
        assert not exited.done()
        assert await tree.end(2.0) == ()
    finally:
        assert tree.close() == -signal.SIGTERM


async def test_an_error_of_whoever_listens_ends_the_program_and_is_raised(execute: Execute, tmp_path: Path) -> None:
    """Nobody is left for whom it would work; what it started is gone, and the error is not lost."""

    def deaf(chunk: bytes) -> None:
        raise WorkspaceFailed("the disk is full")

    began = time.monotonic()
    with pytest.raises(WorkspaceFailed, match="the disk is full"):
        await execute(["sh", "-c", f"echo $$ > {tmp_path}/pid; echo hello; sleep 1000"], tap=deaf)
    assert time.monotonic() - began < 500
    assert not alive(int((tmp_path / "pid").read_text()))
    assert (tmp_path / "out").read_bytes() == b"hello\n"


async def test_lines_are_cleaned_before_they_are_stored_however_they_come(execute: Execute, tmp_path: Path) -> None:
    """A secret in two pieces is one secret; the last line needs no end. Whoever listens hears it as it was said."""
    heard = bytearray()
    await execute(
        ["sh", "-c", "printf 'a sec'; sleep 0.2; printf 'ret here\\nand a secret'; printf 'a secret\\n' >&2"],
        clean=lambda raw: raw.replace(b"secret", b"[x]"),
        tap=heard.extend,
    )
    assert (tmp_path / "out").read_bytes() == b"a [x] here\nand a [x]"
    assert (tmp_path / "err").read_bytes() == b"a [x]\n"
    assert bytes(heard) == b"a secret here\nand a secret"

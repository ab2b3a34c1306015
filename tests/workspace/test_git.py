"""Git is started and ended in order, whatever happens to whoever asked for it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from interlock.workspace.git import Git

MOST_STEPS = 12
"""After so many turns of the event loop a git that was asked for has started."""


@pytest.fixture
def repository(tmp_path: Path) -> Git:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return Git(tmp_path / ".git", tmp_path)


async def cut(git: Git, steps: int, *, times: int) -> None:
    """Ask for something and think better of it so many turns later."""
    asked = asyncio.create_task(git.run("rev-parse", "--git-dir"))
    for _ in range(steps):
        await asyncio.sleep(0)
    for _ in range(times):
        asked.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([asked])  # it may have been quicker


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("steps", range(1, MOST_STEPS, 2))
async def test_a_start_can_be_cancelled_at_every_moment_more_than_once(repository: Git, steps: int, times: int) -> None:
    """Nobody waits for ever for a git that was cancelled while it started, and none is left."""
    async with asyncio.timeout(300):
        await cut(repository, steps, times=times)


BREAKS_OFF = """
import asyncio, sys
from pathlib import Path
from interlock.workspace.git import Git

async def main(place: Path, steps: int) -> None:
    asyncio.create_task(Git(place / ".git", place).run("rev-parse", "--git-dir"))
    for _ in range(steps):
        await asyncio.sleep(0)

for steps in range(1, int(sys.argv[2])):
    asyncio.run(main(Path(sys.argv[1]), steps))
"""


def test_the_end_of_everything_does_not_wait_for_ever_for_a_git_that_starts(repository: Git) -> None:
    """An event loop that closes cancels every task, also those that somebody shields."""
    words = [sys.executable, "-c", BREAKS_OFF, str(repository.work_tree), str(MOST_STEPS)]
    subprocess.run(words, check=True, timeout=300)


FORKS = """
import asyncio, os, sys
from pathlib import Path
from interlock.workspace.git import Git

def ask() -> None:
    place = Path(sys.argv[1])
    asyncio.run(Git(place / ".git", place).run("rev-parse", "--git-dir"))

ask()
if (child := os.fork()) == 0:
    ask()
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_process_that_was_forked_has_git_too(repository: Git) -> None:
    """Its threads are those of the process that it came from, and none of them is in it."""
    with subprocess.Popen([sys.executable, "-c", FORKS, str(repository.work_tree)], process_group=0) as program:
        try:
            assert program.wait(120) == 0
        except BaseException:
            os.killpg(program.pid, 9)  # with the child that waits
            raise


async def test_questions_and_answers_may_be_more_than_pipes_hold(repository: Git) -> None:
    """While git waits until somebody takes its answers, it takes no question."""
    names = [f"{number:05}-{'n' * 200}" for number in range(2000)]
    async with asyncio.timeout(300), repository.talk("check-ignore", "-z", "-v", "-n", "--stdin", globs=True) as talk:
        for stream in (talk._stdin, talk._stdout):
            fcntl.fcntl(stream, fcntl.F_SETPIPE_SZ, 4096)  # as much as there is where many agents have large ones
        for name in names:
            await talk.ask(f"{name}\0".encode())
        for name in names:
            assert [await talk.until(b"\0") for _ in range(4)] == [b"", b"", b"", name.encode()]


async def test_whoever_thinks_better_of_it_does_not_wait_for_a_slow_start(
    repository: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing holds the event loop up while git starts: a person's Ctrl-C is heard."""
    started, go_on = threading.Event(), threading.Event()

    class Slow(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            started.set()
            go_on.wait(600)
            super().__init__(*args, **options)

    monkeypatch.setattr(subprocess, "Popen", Slow)
    asked = asyncio.create_task(repository.run("rev-parse", "--git-dir"))
    await asyncio.to_thread(started.wait, 600)
    asked.cancel()
    await asyncio.sleep(0)
    go_on.set()  # not reached before the start is over, if whoever cancels waits for it
    with pytest.raises(asyncio.CancelledError):
        await asked

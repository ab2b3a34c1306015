"""Launchers that are forked instead of started: the same to their programs and to the engine, and nothing leaks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from interlock.agents import process_tree, run_process
from interlock.workspace import DiskLayer
from interlock.workspace.layers import nursery
from interlock.workspace.layers.launcher import telling
from interlock.workspace.layers.nursery import Forked, Nursery

from .conftest import Bench

LOOK = """
import json, os, sys
names = sorted(int(name) for name in os.listdir("/proc/self/fd"))
listing = max(names)
print(json.dumps({
    "env": dict(os.environ), "fds": [name for name in names if name != listing], "cwd": os.getcwd(),
    "input": sys.stdin.read(),
}))
print("said", file=sys.stderr)
sys.exit(7)
"""


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[Nursery]:
    """A nursery of this test, and a process that takes in orphans, as the engine is."""
    process_tree._prepare_engine()
    fresh = Nursery()
    monkeypatch.setattr("interlock.workspace.layers.layer.NURSERY", fresh)
    monkeypatch.setattr("interlock.workspace.layers.making.NURSERY", fresh)
    yield fresh
    fresh.close()


def process_of(nursery: Nursery) -> psutil.Process:
    return psutil.Process(nursery._pid)


def forked(layer: DiskLayer, argv: list[str], env: dict[str, str], stdin: int = subprocess.DEVNULL) -> Forked:
    started = layer.fork(layer.command_line(argv, cwd=layer.root, env=env), env=env, stdin=stdin)
    assert started is not None
    return started


def ended(started: Forked) -> tuple[int, bytes, bytes]:
    assert started.stdout is not None and started.stderr is not None
    with started.stdout as out, started.stderr as err:
        said = out.read(), err.read()
    return started.wait(120), *said


@pytest.mark.req("LY-22", "LY-11", "LY-38")
async def test_a_forked_launcher_gives_its_program_what_a_started_one_does(bench: Bench) -> None:
    """Environment, folder, input, no further descriptors; its exit is its program's, and lies beside the layer."""
    layer = await bench.layer()
    env = {"PATH": bench.env["PATH"], "HOME": str(bench.home), "ODD": "a=b\nc", "EMPTY": ""}
    argv = [sys.executable, "-I", "-S", "-c", LOOK]
    one = forked(layer, argv, env, subprocess.PIPE)
    assert one.stdin is not None
    with one.stdin as pipe:
        pipe.write(b"hello")
    code, out, err = ended(one)
    seen = json.loads(out)
    assert (code, err, seen["input"], seen["fds"], seen["cwd"]) == (7, b"said\n", "hello", [0, 1, 2], str(layer.root))
    assert json.loads(replace(bench, env=env).run(layer, argv, stdin=b"hello").out) == seen
    left = layer.exit()
    assert left is not None and left.code == 7


@pytest.mark.req("LY-22")
async def test_an_order_that_was_cut_is_not_carried_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever could not say all of it starts the program another way: it must not run twice, with half of its words."""
    layer = await bench.layer()
    monkeypatch.setattr(telling, "END", b"")
    cut = forked(layer, ["sh", "-c", "echo ran"], bench.env)
    assert ended(cut) == (125, b"", b"")


@pytest.mark.req("LY-22", "LY-14", "LY-34")
async def test_it_is_a_child_of_the_engine_in_a_session_of_its_own(bench: Bench, own: Nursery) -> None:
    """So that it can be waited for, and ended with all that its program started; a signal is told as one."""
    layer = await bench.layer()
    one = forked(layer, ["sh", "-c", "echo on; exec sleep 1000"], bench.env)
    assert one.stdout is not None and one.stdout.readline() == b"on\n"
    assert psutil.Process(one.pid).ppid() == os.getpid()
    assert os.getsid(one.pid) == os.getpgid(one.pid) == one.pid
    assert os.getsid(process_of(own).pid) == os.getsid(0)
    inside = psutil.Process(one.pid).children(recursive=True)
    os.kill(one.pid, signal.SIGKILL)
    assert ended(one)[0] == -signal.SIGKILL
    psutil.wait_procs(inside, timeout=120)
    assert not any(process.is_running() for process in inside)


ENGINE = """
import asyncio, os, subprocess, sys
from pathlib import Path
from interlock.agents import process_tree, run_process
from interlock.workspace import Confinement, Workspace, open_layers
async def main():
    process_tree._prepare_engine()
    root = Path(sys.argv[1])
    layers = open_layers(Workspace(root, root / ".interlock"), environ=dict(os.environ), maker=sys.argv[2])
    layer = await layers.make("run-1", Confinement())
    if sys.argv[3] == "waiting":
        print(layer.launcher._line.recv(32).decode(), flush=True)
    else:
        words = layer.command_line(["sh", "-c", "echo on; exec sleep 1000"], cwd=layer.root, env=dict(os.environ))
        one = layer.fork(words, env=dict(os.environ), stdin=subprocess.DEVNULL)
        if sys.argv[3] == "running":
            one.stdout.readline()
        print(one.pid, flush=True)
    sys.stdin.read()
asyncio.run(main())
"""


@pytest.mark.req("LY-22", "LY-14", "LY-34")
@pytest.mark.parametrize("moment", ["waiting", "starting", "running"])
def test_nothing_of_it_outlives_the_engine(bench: Bench, moment: str) -> None:
    """Killed, at once or later, the engine takes the nursery, the launcher and the program with it."""
    words = [sys.executable, "-c", ENGINE, str(bench.root), bench.maker, moment]
    engine = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=bench.env)
    assert engine.stdout is not None and engine.stdin is not None
    launcher = psutil.Process(int(engine.stdout.readline()))
    below = psutil.Process(engine.pid).children(recursive=True)
    assert launcher in below
    engine.kill()
    engine.wait()
    engine.stdin.close()
    engine.stdout.close()
    assert psutil.wait_procs(below, timeout=120)[1] == []


@pytest.mark.req("LY-22")
async def test_one_that_waits_is_nobodys_orphan_and_goes_with_its_layer(bench: Bench, tmp_path: Path) -> None:
    """Not ended with what another program left behind, nor kept when nothing is started in the layer."""
    layer = await bench.layer()
    env = {"PATH": os.environ["PATH"]}
    done = await run_process(
        ["sh", "-c", "setsid sleep 600 & exit 3"],
        cwd=tmp_path,
        env=env,
        stdin=None,
        stdout=tmp_path / "out",
        stderr=tmp_path / "err",
        timeout_s=60,
        marker="test:one-that-waits",
    )
    assert (done.code, done.survivors) == (3, ())
    one = forked(layer, ["sh", "-c", "exit 4"], bench.env)
    assert ended(one) == (4, b"", b"")
    before = psutil.Process().children(recursive=True)
    await (await bench.layer("run-2")).drop()
    left = [child for child in psutil.Process().children(recursive=True) if child not in before]
    assert psutil.wait_procs(left, timeout=120)[1] == []


@pytest.mark.req("LY-22", "LY-38")
async def test_when_its_program_is_over_nothing_of_that_is_left_and_the_exit_follows(bench: Bench) -> None:
    """Who goes on before the launcher has ended finds all that was written; settled, the exit is beside the layer."""
    base = await bench.workspace.snapshot()
    layer = await bench.layer()
    daemon = "(exec setsid sleep 600 &)" if layer.sealed else ":"
    one = forked(layer, ["sh", "-c", f"{daemon}; echo new > new; exit 5"], bench.env)
    assert ended(one) == (5, b"", b""), "all who could write have ended"
    assert await bench.found(layer, base) == {"new": "added"}
    await layer.settled()
    left = layer.exit()
    assert left is not None and left.code == 5
    assert one.collect() and not psutil.pid_exists(one.pid)
    assert one.over() == (bench.maker == "namespaces")


@pytest.mark.req("LY-22", "LY-39")
async def test_the_nursery_never_sees_an_environment(bench: Bench, own: Nursery) -> None:
    """Nothing of one program is in the memory from which the next one's launcher is forked."""
    layer = await bench.layer()
    secret = f"SECRET-{os.urandom(12).hex()}"
    env = {**bench.env, "TOKEN": secret}
    assert ended(forked(layer, ["sh", "-c", 'echo "$TOKEN"'], env))[1] == f"{secret}\n".encode()
    pid = process_of(own).pid
    assert secret.encode() not in memory_of(pid)
    assert Path(f"/proc/{pid}/environ").read_bytes() == b""
    assert memory_of(os.getpid()).count(secret.encode()) > 0, "the look into memory works"


def memory_of(pid: int) -> bytes:
    """All that a process can write to."""
    found = []
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights, *_ = line.split()
            start, end = (int(part, 16) for part in span.split("-"))
            if rights.startswith("rw"):
                memory.seek(start)
                found.append(memory.read(end - start))
    return b"".join(found)


@pytest.mark.req("LY-22")
async def test_without_it_launchers_are_started_the_ordinary_way(
    bench: Bench, own: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it cannot be started there is none; where it was killed, the next one is another."""
    layer = await bench.layer()
    words = layer.command_line(["true"], cwd=layer.root, env=bench.env)
    assert ended(forked(layer, ["true"], bench.env))[0] == 0
    process_of(own).kill()
    assert ended(forked(layer, ["true"], bench.env))[0] == 0
    own.close()
    monkeypatch.setattr(nursery.sys, "executable", "/nonexistent/python")
    assert layer.fork(words, env=bench.env, stdin=subprocess.DEVNULL) is None
    monkeypatch.undo()
    assert own.fork(Path(words[-1]), bench.env, -1) is None, "it is not tried again and again"

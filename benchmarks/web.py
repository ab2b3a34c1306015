"""What the page costs (WB-10): a board with 1,000 runs, a transcript of 20 MB, 50 browsers that watch, and its memory.

The server is the real one, as a process. Every run is a real one too: the journal of one run of `task`, by scripted
agents, written anew for each, with its own chain. Times are those that a client on this machine sees, from its request
to the last byte; the first board, for which every journal is read, is told apart. Memory is the peak of the server's
process, over all of it. CPU is the server's own, which tells what a time is worth on a machine that is busy otherwise.

With `--quick` the same with a few runs and browsers, which shows no more than that it works.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from interlock.engine.folder import KnownRun, RunFolder, find_run
from interlock.engine.identity import identity_bytes
from interlock.engine.journal import Journal, stamp_now
from interlock.pages import address

QUICK = "--quick" in sys.argv
RUNS, WATCHING, TRANSCRIPT_MB = (20, 5, 2) if QUICK else (1000, 50, 20)
REQUEST = "Export the expenses of a month as CSV, for use in a spreadsheet"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "work"
        first = workspace(root)
        for number in range(RUNS - 1):
            again(first, number)
        with served(root, Path(folder)) as page:
            took = timed(lambda: page.get("/"))
            print(
                f"the board with {RUNS} runs, the first time: {took:.2f} s, {cpu_s(page):.2f} s of CPU with its start"
            )
            before = cpu_s(page)
            board = [timed(lambda: page.get("/")) * 1000 for _ in range(20)]
            cpu = (cpu_s(page) - before) * 1000 / len(board)
            print(
                f"the board with {RUNS} runs: {statistics.median(board):.0f} ms (max 100), "
                f"slowest {max(board):.0f} ms, {cpu:.0f} ms of CPU"
            )
            size = len(page.get("/"))
            print(f"its size: {size / 1000:.0f} KB")
            print(f"a run: {median_ms(page, address.run('work', first.identity.run_id)):.0f} ms")
            transcript(page, first)
            watching(page, first)
            print(f"peak memory of the server: {page.peak_mb():.0f} MB (max 120)")


# -- the runs


def workspace(root: Path) -> KnownRun:
    """A workspace in which one run of `task` has ended."""
    root.mkdir()
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    (root / "README.md").write_text("# A project\n", "utf-8")
    words = [
        sys.executable,
        "-m",
        "interlock",
        "-C",
        str(root),
        "run",
        "task",
        REQUEST,
        "--runner",
        "scripted",
        "--json",
    ]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return find_run(root, "latest")


def again(first: KnownRun, number: int) -> KnownRun:
    """One more run, with the same story."""
    run_id = f"{first.identity.run_id[:-4]}{number:04x}"
    inputs = {**first.identity.inputs, "request": f"{REQUEST} ({number})"}
    identity = replace(
        first.identity, run_id=run_id, key=f"{first.identity.key}-{number}", order=number + 2, inputs=inputs
    )
    folder = RunFolder(first.folder.root, run_id)
    shutil.copytree(first.folder.path / "objects", folder.path / "objects")
    folder.create(identity_bytes(identity))
    journal = folder.journal(stamp_now)
    copy_lines(first, journal)
    journal.close()
    return KnownRun(folder, identity)


def copy_lines(first: KnownRun, journal: Journal) -> None:
    for line in first.folder.lines():
        journal.append(
            line.event,
            key=line.key,
            agent=line.agent,
            attempt=line.attempt,
            iteration=line.iteration,
            digest=line.digest,
            data=line.data,
        )


# -- the server


@dataclass
class Served:
    """The server, and a browser's cookie for it."""

    process: subprocess.Popen[bytes]
    port: int
    host: str
    cookie: str = ""

    def open(self, path: str) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("GET", path, headers={"Host": self.host, "Cookie": self.cookie})
        return connection

    def answer(self, path: str) -> tuple[int, Mapping[str, str], bytes]:
        connection = self.open(path)
        got = connection.getresponse()
        body = got.read()
        connection.close()
        return got.status, dict(got.getheaders()), body

    def get(self, path: str) -> bytes:
        status, _, body = self.answer(path)
        assert status == 200, (path, status)
        return body

    def peak_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text("ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@contextmanager
def served(root: Path, home: Path) -> Iterator[Served]:
    environ = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
    words = [sys.executable, "-m", "interlock", "-C", str(root), "web", "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, env=environ)
    assert process.stdout is not None
    try:
        parts = urlsplit(process.stdout.readline().decode().partition("The page: ")[2].strip())
        page = Served(process, parts.port or 0, parts.netloc)
        _, headers, _ = page.answer(f"{parts.path}?{parts.query}")
        page.cookie = headers["set-cookie"].partition(";")[0]
        yield page
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def median_ms(page: Served, path: str) -> float:
    page.get(path)
    return statistics.median(timed(lambda: page.get(path)) * 1000 for _ in range(9))


# -- what is measured


def transcript(page: Served, run: KnownRun) -> None:
    """A long transcript, page by page: the first, one in the middle, the last."""
    key = next(line.key for line in run.folder.lines() if line.event == "dispatch.end")
    assert key is not None
    file = run.folder.folder(key) / "transcript.jsonl"
    text = json.dumps({"ts": stamp_now(), "kind": "text", "text": "I look at the next file. " * 40}) + "\n"
    with file.open("a", encoding="utf-8") as out:
        for _ in range(TRANSCRIPT_MB * 1_000_000 // len(text)):
            out.write(text)
    at = ("work", run.identity.run_id, key)
    first = timed(lambda: page.get(address.dispatch(*at)))
    each = [median_ms(page, path(number, at)) for number in (0, 7, 100_000)]
    shown = " ms, ".join(f"{one:.0f}" for one in each)
    print(f"a transcript of {TRANSCRIPT_MB} MB, page by page: {shown} ms; the first time {first * 1000:.0f} ms")


def path(number: int, at: tuple[str, str, str]) -> str:
    return address.dispatch(*at, page=number).partition("#")[0]


def watching(page: Served, first: KnownRun) -> None:
    """Browsers that watch the board: what one more line of one run costs until all of them have it."""
    streams = [page.open(address.board_stream()) for _ in range(WATCHING)]
    for stream in streams:
        assert stream.getresponse().status == 200
    sockets = [stream.sock for stream in streams]
    drain(sockets, 3.0)
    cpu = cpu_s(page)

    def change() -> None:
        again(first, 0xF000 + secrets.randbelow(1000))
        all_hear(sockets)

    took = timed(change)
    print(f"{WATCHING} browsers watch the board: {took * 1000:.0f} ms until all have what changed")
    drain(sockets, 5.0)
    print(f"CPU of the server for that and 5 s more: {(cpu_s(page) - cpu) * 1000:.0f} ms")
    for stream in streams:
        stream.close()


def drain(sockets: list, seconds: float) -> None:  # type: ignore[type-arg]
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        for ready in select.select(sockets, [], [], left)[0]:
            ready.recv(1_000_000)


def all_hear(sockets: list) -> None:  # type: ignore[type-arg]
    waiting = list(sockets)
    while waiting:
        for ready in select.select(waiting, [], [], 60)[0]:
            ready.recv(1_000_000)
            waiting.remove(ready)


def cpu_s(page: Served) -> float:
    fields = Path(f"/proc/{page.process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()

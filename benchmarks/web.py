"""What the page costs (PAGE-04): 1,000 runs on the board, a run of 1,000 dispatches, 50 who watch, memory."""

from __future__ import annotations

import argparse
import http.client
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))
from interlock.engine import events as ev
from tests.web.many import lay

WATCHERS = 50


class Page:
    """A server, and a browser that came in."""

    def __init__(self, top: Path) -> None:
        words = [sys.executable, "-P", "-m", "interlock.cli.main", "web", "--port", "0"]
        self.process = subprocess.Popen(words, cwd=top, stderr=subprocess.PIPE, text=True)
        self.server = psutil.Process(self.process.pid)
        assert self.process.stderr is not None
        while "The page: " not in (line := self.process.stderr.readline()):
            assert line, "the server did not begin"
        parts = urlsplit(line.partition("The page: ")[2].strip())
        self.port, self.host, self.cookie = parts.port, parts.netloc, ""
        self.cookie = self.ask(f"{parts.path}?{parts.query}").getheader("set-cookie", "").partition(";")[0]

    def ask(self, path: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        headers = {"Host": self.host, "Cookie": self.cookie, "Accept-Encoding": "gzip", "Connection": "close"}
        connection.request("GET", path, headers=headers)
        return connection.getresponse()

    def measured(self, what: str, path: str, times: int) -> None:
        """Time of the server's processor, which is what it takes on a machine that does nothing else."""
        took = []
        for _ in range(times + 1):
            before = self.cpu_s
            with self.ask(path) as answer:
                size = len(answer.read())
                assert answer.status == 200, (path, answer.status)
            took.append(1000 * (self.cpu_s - before))
        again = statistics.mean(took[1:])
        print(f"{what}: {again:.0f} ms, {took[0]:.0f} ms the first time, {size / 1000:.1f} kB compressed")

    @property
    def cpu_s(self) -> float:
        times = self.server.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)

    @property
    def megabytes(self) -> float:
        return float(self.server.memory_info().rss) / 1e6

    def heard(self, path: str, change: Callable[[], object]) -> list[float]:
        """When each of those who watch a page has heard of a change."""
        streams = [self.ask(path) for _ in range(WATCHERS)]
        for stream in streams:
            while not stream.readline().startswith(b"data: "):
                pass
        when: list[float] = []

        def listen(stream: http.client.HTTPResponse) -> None:
            while not stream.readline().startswith(b"data: "):
                pass
            when.append(time.perf_counter())

        threads = [threading.Thread(target=listen, args=(stream,)) for stream in streams]
        for thread in threads:
            thread.start()
        began = time.perf_counter()
        change()
        for thread in threads:
            thread.join()
        for stream in streams:
            stream.close()
        return [at - began for at in when]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    runs, dispatches, times = (30, 40, 2) if quick else (1000, 1000, 9)
    with tempfile.TemporaryDirectory(prefix="interlock-bench-", dir="/var/tmp") as folder:
        top = Path(folder) / "work"
        there = top / ".interlock/runs"
        there.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", top], check=True)
        asks = ev.GateOpened(gate="it", question="Ship it?", choices=("approve", "reject"), shown={}, opening=1)
        waits = [("gate-it#1", asks), ("", ev.Paused(status="waiting", why="It asks."))]
        for number in range(2, runs + 1):
            lay(there, number, then=() if number % 5 else waits)
        long = lay(there, 1, dispatches=dispatches)
        page = Page(top)
        try:
            page.measured(f"board of {runs} runs, one of five open", "/", times)
            page.measured(f"run of {dispatches} dispatches", f"/runs/{long}", times)
            heard = page.heard("/stream/", lambda: lay(there, runs + 1))
            print(f"{WATCHERS} who watch the board heard of a run after {min(heard):.1f} to {max(heard):.1f} s")
            heard = page.heard(f"/stream/runs/{long}", lambda: os.utime(there / long / "journal.jsonl"))
            print(f"{WATCHERS} who watch the long run heard of a change after {min(heard):.1f} to {max(heard):.1f} s")
            print(f"memory of the server: {page.megabytes:.0f} MB")
        finally:
            page.process.terminate()
            page.process.communicate()


if __name__ == "__main__":
    main()

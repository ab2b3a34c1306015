"""What surrounds workers in tests, in the hands of the test: their agents, and the wires to database and remote.

An agent is a real process that asks here what it is to do, and waits for the answer.  So a test says when an agent
ends, sees each call that was ever made, whoever made it, and notices when an agent is gone.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

AGENT = r"""
import json, os, pathlib, re, socket, sys

brief = sys.stdin.read()
names = ("run_id", "agent", "member", "attempt", "dispatch", "workspace")
said = {name: os.environ["INTERLOCK_" + name.upper()] for name in names}
said |= {"pid": os.getpid(), "env": dict(os.environ), "mark": os.environ.get("STAGE_MARK", "")}
host, _, port = os.environ["STAGE"].partition(":")
with socket.create_connection((host, int(port))) as stage:
    stage.sendall(json.dumps(said).encode() + b"\n")
    raw = stage.makefile().readline()
if not raw:
    sys.exit(9)
told = json.loads(raw)
outputs = re.findall(r"^- `([^`]+)`", brief.partition("## Outputs")[2].partition("\n## ")[0], re.M)
for path in outputs:
    made = pathlib.Path(path)
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_text(f"{path} by {said['member']}\n")
for place in told.get("look", ()):
    try:
        seen = pathlib.Path(place).read_text()
    except OSError:
        seen = "hidden"
    pathlib.Path(outputs[0]).write_text(seen)
for name, text in told.get("files", {}).items():
    made = pathlib.Path(name)
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_text(text)
print(told.get("say", "DONE: it is written"))
sys.exit(told.get("exit", 0))
"""


@dataclass
class Call:
    """One agent that came, and waits."""

    run: str
    agent: str
    member: str
    dispatch: str
    said: dict[str, Any]
    _connection: socket.socket
    answered: bool = False

    def answer(self, **told: Any) -> None:
        """What it is to do: `files` to write, `say`, `exit`."""
        self.answered = True
        with suppress(OSError):  # it is gone
            self._connection.sendall(json.dumps(told).encode() + b"\n")
        self._connection.close()

    @property
    def gone(self) -> bool:
        """Whether its process has ended, or it has its answer."""
        try:
            return self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


class Stage:
    """All agents of a test; those that are not held are answered at once."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.heard: Callable[[Call], None] = lambda _call: None
        """Hears of each call before it is answered."""
        self._held: set[str] = set()
        self._changed = threading.Condition()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()

    def hold(self, *agents: str) -> None:
        """These wait from now on until a test answers them; by agent or by member."""
        with self._changed:
            self._held |= set(agents)

    def release(self, *agents: str) -> None:
        """These, or all, are answered from now on, and those that wait too."""
        with self._changed:
            self._held -= set(agents) or set(self._held)
            waiting = [call for call in self.calls if not call.answered and not self._is_held(call)]
        for call in waiting:
            call.answer()

    def waiting(self, agent: str, *, seconds: float = 120.0, but: Collection[Call] = ()) -> Call:
        """An agent that waits; it is waited for."""

        def found() -> Call | None:
            here = (one for one in self.calls if agent in (one.agent, one.member) and not one.answered)
            return next((one for one in here if all(one is not other for other in but)), None)

        with self._changed:
            assert self._changed.wait_for(lambda: found() is not None, seconds), f"{agent} was not called"
            call = found()
            assert call is not None
            return call

    def count(self, dispatch: str, run: str | None = None) -> int:
        return sum(call.dispatch == dispatch and run in (None, call.run) for call in self.calls)

    def close(self) -> None:
        _end_serving(self._server, self._serving)
        for call in self.calls:
            call._connection.close()

    def _is_held(self, call: Call) -> bool:
        return bool({call.agent, call.member} & self._held)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._hear, args=[connection], daemon=True).start()

    def _hear(self, connection: socket.socket) -> None:
        with connection.makefile() as lines:
            raw = lines.readline()
        if not raw:  # it ended before it could say anything
            connection.close()
            return
        said = json.loads(raw)
        call = Call(said["run_id"], said["agent"], said["member"], said["dispatch"], said, connection)
        with self._changed:
            self.calls.append(call)
            held = self._is_held(call)
            self._changed.notify_all()
        self.heard(call)
        if not held:
            call.answer()


@dataclass
class Wire:
    """A way to a server of this machine that can be cut, or hang."""

    target: int
    port: int = 0
    lose: bytes = b""
    """The first answer that holds this gets lost, and the wire is cut."""
    _watch: tuple[bool, bytes, Callable[[], None], int] | None = None
    _open: bool = True
    _flows: threading.Event = field(default_factory=threading.Event)
    _pairs: list[tuple[socket.socket, socket.socket]] = field(default_factory=list)
    _ends: threading.Lock = field(default_factory=threading.Lock)
    _done: set[tuple[socket.socket, socket.socket]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._flows.set()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()

    @property
    def lines(self) -> int:
        """How many connections there are."""
        return len(self._pairs)

    def cut(self) -> None:
        """Connections break, and none can be made."""
        self._open = False
        self._flows.set()
        self._break_all()

    def hang(self) -> None:
        """Nothing comes through any more, and nobody is told."""
        self._flows.clear()

    def mend(self) -> None:
        self._open = True
        self._flows.set()

    def on(self, mark: bytes, act: Callable[[], None], *, answers: bool, nth: int = 1) -> None:
        """Do something when what passes holds this for the nth time, before it goes on its way."""
        self._watch = (answers, mark, act, nth)

    def _look_at(self, data: bytes, answers: bool) -> None:
        if (watch := self._watch) is None or answers is not watch[0] or watch[1] not in data:
            return
        self._watch = (*watch[:3], watch[3] - 1) if watch[3] > 1 else None
        if self._watch is None:
            watch[2]()

    def close(self) -> None:
        self.cut()
        _end_serving(self._server, self._serving)

    def _break_all(self) -> None:
        for pair in self._pairs:
            for end in pair:
                _reset(end)
        self._pairs.clear()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            if not self._open:
                _reset(near)
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                _reset(near)
                continue
            self._pairs.append((near, far))
            for source, sink, answers in ((near, far, False), (far, near, True)):
                threading.Thread(target=self._carry, args=[source, sink, answers], daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                self._flows.wait()
                if self.lose and answers and self.lose in data:
                    self.lose = b""
                    self.cut()
                    return
                self._look_at(data, answers)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            _reset(sink)
        with self._ends:
            done = self._done = {*self._done, (source, sink)}
            if (sink, source) in done:
                self._done = done - {(source, sink), (sink, source)}
                self._pairs = [pair for pair in self._pairs if source not in pair]
                source.close()
                sink.close()


def _end_serving(server: socket.socket, serving: threading.Thread) -> None:
    """No connection is accepted any more.

    A thread that still waits for one when the socket is closed goes on waiting; after a signal it waits at whatever
    has the number of that socket then, and takes connections from the next test.
    """
    server.shutdown(socket.SHUT_RDWR)
    serving.join()
    server.close()


def _reset(end: socket.socket) -> None:
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RDWR)
    end.close()

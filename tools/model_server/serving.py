"""The server in a thread of its own, for tests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from interlock.errors import WorkspaceFailed
from tools.model_server.script import Script
from tools.model_server.script_file import load
from tools.model_server.server import Entry, ModelServer

START_S = 10.0


@dataclass(frozen=True)
class Serving:
    """A running server."""

    url: str
    """Without a path: clients add their own."""
    _model: ModelServer

    def log(self) -> tuple[Entry, ...]:
        """The requests so far, oldest first."""
        return self._model.entries

    def turns(self) -> tuple[Entry, ...]:
        """The requests in which a client offered tools: the work itself, without titles and probes."""
        return tuple(entry for entry in self._model.entries if entry.tools)


@contextmanager
def serving(
    script: Script | Path | None = None, port: int = 0, *, meanwhile: Callable[[str], None] = lambda _name: None
) -> Iterator[Serving]:
    """A scripted model on a loopback port of its own, until the block ends.

    Args:
        meanwhile: called with the name of each `Meanwhile`, once, while the client waits for its answer.
    """
    model = ModelServer(load(script) if isinstance(script, Path) else script or Script(), meanwhile)
    with socket.create_server(("127.0.0.1", port)) as listener:
        server = _Server(uvicorn.Config(model.app(), log_level="critical", lifespan="off", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            if not server.ready.wait(START_S):
                raise WorkspaceFailed("the scripted model does not start", where=str(listener.getsockname()))
            yield Serving(f"http://127.0.0.1:{listener.getsockname()[1]}", model)
        finally:
            server.should_exit = server.force_exit = True
            thread.join()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

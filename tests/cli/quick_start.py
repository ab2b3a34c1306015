"""Starts command lines quickly: one process has everything imported, and forks a child for each call.

What runs is a real process with its own environment, folder, streams and signals; only the second that Python
needs to import everything is spared. `python quick_start.py SOCKET` serves until it is ended.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys
import traceback
from pathlib import Path


def serve(place: str) -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    import toy_cli  # type: ignore[import-not-found]

    import interlock.app
    import interlock.finding.library
    import interlock.playbooks.router
    import interlock.web.serving  # noqa: F401 - warm
    from interlock.cli import commands

    toy_cli.install()
    assert all(commands.Homes().values())  # they are imported now, not at each call
    server = socket.socket(socket.AF_UNIX)
    server.bind(place)
    server.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers need no burial
    print("ready", flush=True)
    while True:
        connection, _ = server.accept()
        message, streams, _, _ = socket.recv_fds(connection, 1 << 20, 2)
        if os.fork() == 0:
            server.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            keep(connection, json.loads(message), streams)
            os._exit(0)
        for stream in (*streams, connection.fileno()):
            os.close(stream)
        connection.detach()


def keep(connection: socket.socket, call: dict[str, object], streams: list[int]) -> None:
    """Fork the call, and tell its id and then its exit status."""
    worker = os.fork()
    if worker == 0:
        connection.close()
        work(call, streams)
    connection.sendall(struct.pack("i", worker))
    _, status = os.waitpid(worker, 0)
    connection.sendall(struct.pack("i", os.waitstatus_to_exitcode(status)))


def work(call: dict[str, object], streams: list[int]) -> None:
    code = 99
    try:
        for number, stream in enumerate(streams, start=1):
            os.dup2(stream, number)
        os.chdir(str(call["cwd"]))
        os.environ.clear()
        os.environ.update(call["env"])  # type: ignore[call-overload]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from interlock.cli.main import answer

        code = answer(call["arguments"])  # type: ignore[arg-type]
    except BaseException:  # noqa: BLE001 - a test shall see it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])

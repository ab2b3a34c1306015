"""A process that waits with everything imported and forks supervisors, so that Python's start is paid for once.

A supervisor is a child of the engine, as this process is.  What it is to do, and the program's environment, come to it
alone, over a socket of its own: this process never sees them, and so nothing of one program is in the memory from which
the next one's launcher is forked.  It is asked for before there is an order, and makes its namespaces meanwhile.
"""

from __future__ import annotations

import os
import socket

from . import first, kernel, supervise, telling

PLAIN, CONFINED, CUT_OFF = b"p", b"c", b"n"
"""What a supervisor gets ready: nothing, namespaces, and such without a network."""


def serve(control: int) -> None:
    """Fork a supervisor for every socket that comes, until the engine is gone. Does not return."""
    engine = os.getppid()
    kernel.ignore_requests_to_end()
    asked = socket.socket(fileno=control)
    while True:
        wanted, handles, _, _ = socket.recv_fds(asked, 1, 1)
        if not wanted or os.getppid() != engine:
            os._exit(0)
        if not kernel.clone(kernel.PARENT):
            asked.close()
            _supervise(socket.socket(fileno=handles[0]), engine, wanted)
        for handle in handles:
            os.close(handle)


def _supervise(line: socket.socket, engine: int, wanted: bytes) -> None:
    try:
        if os.getppid() != engine:
            return
        line.send(str(os.getpid()).encode())
        ready = first.First.ready(cut_off=wanted == CUT_OFF) if wanted != PLAIN else None
        if (told := telling.heard(line)) is not None:
            # Only now: what is in another session, and unknown to the engine, is taken for a program's orphan.
            os.setsid()
            if ready is not None:
                ready.tell(*told)
            supervise.carry_out(*told, supervise.Engine(engine, line), ready)
        elif ready is not None:
            ready.end()
    finally:
        os._exit(supervise.NOT_ENTERED)

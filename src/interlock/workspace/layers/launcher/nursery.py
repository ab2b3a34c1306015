"""A process that waits with everything imported and forks supervisors, so that Python's start is paid for once.

A supervisor is a child of the engine, as this process is.  What it is to do, and the program's environment, come to it
alone, over a socket of its own: this process never sees them, and so nothing of one program is in the memory from which
the next one's launcher is forked.
"""

from __future__ import annotations

import os
import socket

from . import kernel, supervise

END = b"\0\0"
"""Behind an order and its environment; what ends otherwise was cut."""
_PIECE = 1 << 16


def serve(control: int) -> None:
    """Fork a supervisor for every socket that comes, until the engine is gone. Does not return."""
    engine = os.getppid()
    kernel.ignore_requests_to_end()
    asked = socket.socket(fileno=control)
    while True:
        word, handles, _, _ = socket.recv_fds(asked, 1, 1)
        if not word or os.getppid() != engine:
            os._exit(0)
        if not kernel.clone(kernel.PARENT):
            asked.close()
            _supervise(handles[0], engine)
        for handle in handles:
            os.close(handle)


def _supervise(handle: int, engine: int) -> None:
    try:
        if os.getppid() != engine:
            return
        os.setsid()
        with socket.socket(fileno=handle) as told:
            told.send(str(os.getpid()).encode())
            text, streams, _, _ = socket.recv_fds(told, _PIECE, 3)
            parts = [text]
            while parts[-1]:
                parts.append(told.recv(_PIECE))
        whole = b"".join(parts)
        if not whole.endswith(END):
            return
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, max(streams) + 1)
        order, *variables = whole.removesuffix(END).split(b"\0")
        pairs = (variable.partition(b"=") for variable in variables)
        supervise.carry_out(os.fsdecode(order), {name: value for name, _, value in pairs}, engine)
    finally:
        os._exit(supervise.NOT_ENTERED)

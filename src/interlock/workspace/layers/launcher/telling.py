"""How a launcher is told what to do: over a socket, with the program's environment and its three streams."""

from __future__ import annotations

import os
import socket

TYPE_CHECKING = False  # as `typing` has it, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

END = b"\0\0"
"""Behind an order and its environment; what ends otherwise was cut."""
_PIECE = 1 << 16


def tell(line: socket.socket, order: str, environment: Mapping[bytes, bytes], streams: Sequence[int]) -> None:
    """Tell all of it; nothing more can be said then, and the other side can still answer."""
    text = b"\0".join((os.fsencode(order), *(name + b"=" + value for name, value in environment.items()))) + END
    socket.send_fds(line, [text[:1]], streams)
    line.sendall(text[1:])
    line.shutdown(socket.SHUT_WR)


def heard(line: socket.socket) -> tuple[str, dict[bytes, bytes]] | None:
    """The file with the order, and the environment, when the streams are this process's own; None when nobody said
    all of it."""
    text, streams, _, _ = socket.recv_fds(line, _PIECE, 3)
    parts = [text]
    while parts[-1]:
        parts.append(line.recv(_PIECE))
    whole = b"".join(parts)
    if not whole.endswith(END):
        return None
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    order, *variables = whole.removesuffix(END).split(b"\0")
    pairs = (variable.partition(b"=") for variable in variables)
    return os.fsdecode(order), {name: value for name, _, value in pairs}

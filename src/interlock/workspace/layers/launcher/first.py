"""The first process of a layer's namespaces, as its supervisor has it: made ready, told what to do, and heard."""

from __future__ import annotations

import os
import select
import socket
from contextlib import suppress

from . import inside, kernel, telling
from .supervise import ALL, Engine, Failed, LaunchOrder, bound, end_all, map_users

_MAPPED = b"m"
_LONGEST_REPORT = 4096
"""Bytes that a pipe takes and gives at once."""


class First:
    """The first process of new namespaces, which waits to be told what to do."""

    def __init__(self, *, cut_off: bool) -> None:
        self._report, report = os.pipe()
        self._line, line = socket.socketpair()
        self._pid = kernel.clone(ALL | (kernel.NEWNET if cut_off else 0))
        if not self._pid:
            self._line.close()
            _be_first(line, report, cut_off=cut_off)
        os.close(report)
        line.close()
        map_users(self._pid)
        self._line.send(_MAPPED)

    @classmethod
    def ready(cls, *, cut_off: bool) -> First | None:
        """One before it is needed; None when that is refused, which is said when it is needed."""
        try:
            return cls(cut_off=cut_off)
        except OSError:
            return None

    def tell(self, file_of_order: str, environment: dict[bytes, bytes]) -> None:
        """Have it start the program of an order, with the streams of this process."""
        with suppress(BrokenPipeError):  # It has failed, and says why.
            telling.tell(self._line, file_of_order, environment, (0, 1, 2))

    def end(self) -> None:
        """There is nothing for it to do. Does not return."""
        end_all(self._pid)

    def heard(self, engine: Engine) -> int:
        """The exit code of its program; when the engine ends first, all of it is killed and there is none."""
        if engine.handle is not None:
            poll = select.poll()
            poll.register(engine.handle, select.POLLIN)
            poll.register(self._report, select.POLLIN)
            if self._report not in (place for place, _ in poll.poll()):
                end_all(self._pid)
        word, _, rest = os.read(self._report, _LONGEST_REPORT).decode(errors="surrogateescape").partition(" ")
        if word == "exit" and engine.line is not None:
            inside.let_go_of_streams()
            with suppress(OSError):
                engine.line.send(rest.encode())
        status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        if word == "fail":
            raise Failed(rest)
        # Without a word it was killed: by the engine, or for want of memory.
        return int(rest) if word == "exit" else status


def _be_first(line: socket.socket, report: int, *, cut_off: bool) -> None:
    """What the first process does. Does not return."""
    try:
        kernel.die_with_parent()
        if line.recv(1) != _MAPPED:
            os._exit(inside.NOT_ENTERED)
        os.setsid()
        if cut_off:
            kernel.loopback_up()
        mounts = inside.ready()
        if (told := telling.heard(line)) is not None:
            given = LaunchOrder.of(told[0])
            bound(given)
            inside.enter(mounts, given.records, others_files=given.has("others_files"))
            inside.keep_house(given.fields("argv"), told[1], given.word("cwd"), report)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the engine has to learn of it
        os.write(report, f"fail {error}".encode(errors="surrogateescape")[:_LONGEST_REPORT])
    finally:
        os._exit(inside.NOT_ENTERED)

"""The supervisor: starts the program of an order in its layer, and leaves its exit in a file, synced.

It stays outside of the namespaces, ignores requests to end (each process of a tree gets its own), and kills what it
started when the engine is gone.  An exit that happened before is written all the same: it is what a resume needs.
The engine is told of an end at once, where that can be: it need not wait until the mounts are gone and all is on disk.
"""

from __future__ import annotations

import os
import select
import sys
import time

from . import inside, kernel, order

TYPE_CHECKING = False  # as `typing` has it, which takes long to import
if TYPE_CHECKING:
    import socket

    from .first import First

ALL = kernel.NEWUSER | kernel.NEWNS | kernel.NEWPID | kernel.NEWIPC | kernel.NEWUTS | kernel.NEWCGROUP
_SIGNALS = 64


class Failed(Exception):
    """The program could not be started at all."""


class LaunchOrder:
    """What the supervisor was told to do."""

    def __init__(self, text: str) -> None:
        self.records = list(order.read(text))
        self._fields = dict(self.records)

    @classmethod
    def of(cls, file_of_order: str) -> LaunchOrder:
        with open(file_of_order, encoding="utf-8", errors="surrogateescape", newline="") as file:  # noqa: PTH123
            return cls(file.read())

    def has(self, word: str) -> bool:
        return word in self._fields

    def fields(self, word: str) -> list[str]:
        return self._fields.get(word, [])

    def word(self, word: str) -> str:
        return self._fields[word][0]


class Engine:
    """The process that started this one; its end is noticed however it comes."""

    def __init__(self, number: int, line: socket.socket | None = None) -> None:
        self.line = line
        """On which it hears of the program's end."""
        try:
            self.handle: int | None = os.pidfd_open(number)
        except (AttributeError, OSError):
            self.handle = None
        if os.getppid() != number:
            os._exit(inside.NOT_ENTERED)


NOT_ENTERED = inside.NOT_ENTERED


def main(arguments: list[str]) -> None:
    # Not os.environ: Python may have set its own locale there.
    carry_out(arguments[0], _initial_environment(), Engine(os.getppid()))


def carry_out(file_of_order: str, environment: dict[bytes, bytes], engine: Engine, first: First | None = None) -> None:
    """Do what an order says, for the process that is the parent of this one. Does not return.

    Args:
        first: one that has been told of it.
    """
    given = LaunchOrder.of(file_of_order)
    if given.has("probe"):
        _probe(given)
    kernel.ignore_requests_to_end()
    try:
        match given.word("maker"):
            case "namespaces":
                from .first import First  # with sockets, which take long to import

                if first is None:
                    first = First(cut_off=given.has("no_network"))
                    first.tell(file_of_order, environment)
                code = first.heard(engine)
            case "bubblewrap":
                code = _in_bubblewrap(given, environment, engine)
            case _:
                code = _plainly(given, environment, engine)
    except (OSError, Failed) as error:
        inside.complain(f"the layer cannot be entered: {error}")
        os._exit(inside.NOT_ENTERED)
    if given.has("exit"):
        leave_exit(given.word("exit"), code)
    _end_like(code)


def _plainly(given: LaunchOrder, environment: dict[bytes, bytes], engine: Engine) -> int:
    supervisor = os.getpid()
    program = os.fork()
    if not program:
        _as_child(supervisor, engine)
        bound(given)
        inside.start(given.fields("argv"), environment, given.word("cwd"))
    return _until_end(program, engine)


def _in_bubblewrap(given: LaunchOrder, environment: dict[bytes, bytes], engine: Engine) -> int:
    report, told = os.pipe()
    kernel.adopt_orphans()
    supervisor = os.getpid()
    first = os.fork()
    if not first:
        _as_child(supervisor, engine)
        bound(given)
        kernel.new_session_keyring()
        kernel.no_new_privileges()
        kernel.fence_off()
        kernel.signals_as_at_first()
        if given.has("ignoring"):
            kernel.ignore_requests_to_end()
        inside.close_all_but(told)
        os.set_inheritable(told, True)
        program, *words = given.fields("bubblewrap")
        os.execve(program, [program, "--json-status-fd", str(told), *words, "--", *given.fields("argv")], environment)
    os.close(told)
    code = _until_end(first, engine)
    _collect_all()
    if '"exit-code"' not in _all_of(report):
        raise Failed(f"bubblewrap ended with {code}")
    # It tells a signal as shells do.
    return -(code - 128) if 128 < code <= 128 + _SIGNALS else code


def _as_child(supervisor: int, engine: Engine) -> None:
    if sys.platform == "linux":
        kernel.die_with_parent()
    if os.getppid() != supervisor:  # It ended before that was said.
        os._exit(inside.NOT_ENTERED)
    if engine.handle is not None:
        os.close(engine.handle)


def _until_end(child: int, engine: Engine) -> int:
    """The child's exit code; when the engine ends first, the child is killed and there is none."""
    if engine.handle is not None:
        handle = os.pidfd_open(child)
        poll = select.poll()
        poll.register(engine.handle, select.POLLIN)
        poll.register(handle, select.POLLIN)
        if handle not in (place for place, _ in poll.poll()):
            end_all(child)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def end_all(child: int) -> None:
    """Nobody wants an exit: the engine is gone, or has no use for it. Does not return."""
    os.kill(child, 9)
    _collect_all()
    os._exit(inside.NOT_ENTERED)


def _collect_all() -> None:
    """Wait for whatever is left; bubblewrap ends before the last process in its namespaces does."""
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return


def map_users(child: int) -> None:
    """Users and groups are the same inside: all of them where we may, so that files of others can be copied up."""
    if os.geteuid() == 0:
        try:
            for kind in ("uid_map", "gid_map"):
                ranges = [line.split() for line in _text(f"/proc/self/{kind}").splitlines()]
                _write(f"/proc/{child}/{kind}", "".join(f"{start} {start} {count}\n" for start, _, count in ranges))
            return
        except PermissionError:
            pass
    _write(f"/proc/{child}/setgroups", "deny")
    _write(f"/proc/{child}/uid_map", f"{os.geteuid()} {os.geteuid()} 1\n")
    _write(f"/proc/{child}/gid_map", f"{os.getegid()} {os.getegid()} 1\n")


def bound(given: LaunchOrder) -> None:
    kernel.limit_files(int(given.word("size")))


def leave_exit(path: str, code: int) -> None:
    """Write the exit so that it is whole or not there, and survives a crash of the machine."""
    now = time.time()
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06d}+00:00"
    fresh = f"{path}.{os.getpid()}"
    with open(fresh, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(f'{{"code": {code}, "at": "{at}"}}\n')
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)  # noqa: PTH105
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)  # noqa: PTH120
    os.fsync(folder)


def _end_like(code: int) -> None:
    """End as the program did, so that whoever waits sees the same."""
    if code < 0:
        kernel.signals_as_at_first()
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def _probe(given: LaunchOrder) -> None:
    """Enter namespaces with the mounts of the order and end at once: 0, or a sentence on standard error."""
    words = [record for record in given.records if record[0] != "probe"]
    report, told = os.pipe()
    ready, go = os.pipe()
    first = 0
    try:
        first = kernel.clone(ALL)
        if not first:
            os.close(go)
            os.read(ready, 1)
            mounts = inside.ready()
            inside.enter(mounts, words, others_files=False)
            os.write(told, b"ok" if mounts.new_proc else b"ok, with the old /proc")
            os._exit(0)
        os.close(told)
        map_users(first)
        os.write(go, b"x")
        os.waitpid(first, 0)
        answer = _all_of(report)
    except OSError as error:
        answer = str(error)
        if not first:
            os.write(told, answer.encode(errors="surrogateescape"))
            os._exit(1)
    works = answer.startswith("ok")
    os.write(1 if works else 2, (answer if works else f"interlock: {answer}\n").encode(errors="surrogateescape"))
    os._exit(0 if works else 1)


def _initial_environment() -> dict[bytes, bytes]:
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
            pairs = (entry.partition(b"=") for entry in file.read().split(b"\0") if b"=" in entry)
            return {name: value for name, _, value in pairs}
    except OSError:
        return dict(os.environb)


def _all_of(handle: int) -> str:
    parts = []
    while part := os.read(handle, 65536):
        parts.append(part)
    os.close(handle)
    return b"".join(parts).decode(errors="surrogateescape")


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        return file.read()


def _write(path: str, text: str) -> None:
    place = os.open(path, os.O_WRONLY)
    try:
        os.write(place, text.encode())
    finally:
        os.close(place)

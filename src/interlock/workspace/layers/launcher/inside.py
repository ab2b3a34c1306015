"""The first process of a layer's namespaces: it mounts, gives up all it could, starts the program, and waits."""

from __future__ import annotations

import os

from . import kernel
from .mounts import Mounts

_OTHERS_FILES = {kernel.CAP_CHOWN, kernel.CAP_DAC_OVERRIDE, kernel.CAP_FOWNER}
"""To write files of other users, where root works in the tree of one."""
STEPS = ("tmpfs", "bind", "overlay", "mask")

NOT_FOUND, NOT_EXECUTABLE, NOT_ENTERED = 127, 126, 125
"""Exit statuses of a program that could not be started, as shells have them."""


def ready() -> Mounts:
    """Do in this process, the first of its namespaces, all that can be done before it is known what it is for."""
    mounts = Mounts()
    # Before /proc/sys is read-only: from here on nobody gets capabilities by a user namespace of their own.
    _write("/proc/sys/user/max_user_namespaces", "0")
    kernel.new_session_keyring()
    kernel.give_up_for_programs(kernel.all_capabilities() - _OTHERS_FILES)
    return mounts


def enter(mounts: Mounts, records: list[tuple[str, list[str]]], *, others_files: bool) -> None:
    """Make this process one that is confined for good."""
    steps = [(word, fields) for word, fields in records if word in STEPS]
    mounts.prepare(steps)
    for word, fields in steps:
        mounts.step(word, fields)
    mounts.seal()
    kept = _OTHERS_FILES if others_files else set()
    kernel.give_up_for_programs(_OTHERS_FILES - kept)
    kernel.keep_capabilities(kept)
    kernel.no_new_privileges()
    kernel.fence_off()


def keep_house(argv: list[str], environment: dict[bytes, bytes], cwd: str, report: int) -> None:
    """Start the program and collect everything that ends, until the program does; then all else is ended, and the
    program's exit reported."""
    kernel.hide_from_neighbours()
    close_all_but(report)
    code = _kept_until_end(argv, environment, cwd)
    os.write(report, f"exit {code}".encode())
    os._exit(0)


def _kept_until_end(argv: list[str], environment: dict[bytes, bytes], cwd: str) -> int:
    try:
        os.chdir(cwd)
        # Not forked: a copy of this process's memory would be made for nothing.
        program = os.posix_spawn(
            _found(argv[0], environment), argv, environment, setsid=True, setsigmask=(), setsigdef=range(1, 32)
        )
    except OSError as error:
        return _not_started(argv, error)
    os.chdir("/")
    let_go_of_streams()
    ended = status = 0
    while ended != program:
        ended, status = os.wait()
    # Not left to the end of this process: its report says that nobody writes any more.
    try:
        os.kill(-1, 9)
        while True:
            os.wait()
    except (ProcessLookupError, ChildProcessError):
        return os.waitstatus_to_exitcode(status)


def start(argv: list[str], environment: dict[bytes, bytes], cwd: str) -> None:
    """Become the program: no descriptor but the three, signals as they are for a new program. Does not return."""
    code = NOT_EXECUTABLE
    try:
        close_all_but()
        kernel.signals_as_at_first()
        os.chdir(cwd)
        os.execve(_found(argv[0], environment), argv, environment)
    except OSError as error:
        code = _not_started(argv, error)
    except BaseException as error:  # noqa: BLE001 - nothing of the launcher may go on in the program's place
        complain(f"{argv[0]!r} cannot be started: {error!r}")
    finally:
        os._exit(code)


def _not_started(argv: list[str], error: OSError) -> int:
    complain(f"{argv[0]!r} cannot be started: {error.strerror}")
    return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE


def _found(program: str, environment: dict[bytes, bytes]) -> bytes:
    """Where the program is, by the environment it gets. Not `os.execvpe`: that imports, and may not see the library."""
    name = os.fsencode(program)
    if b"/" in name:
        return name
    for folder in environment.get(b"PATH", b"/usr/local/bin:/usr/bin:/bin").split(b":"):
        place = (folder or b".") + b"/" + name
        if os.access(place, os.X_OK) and not os.path.isdir(place):  # noqa: PTH112
            return place
    raise FileNotFoundError(2, "no such program on PATH")


def close_all_but(kept: int | None = None) -> None:
    """Close what was inherited or opened, besides standard input, output and error."""
    if kept is None:
        os.closerange(3, _highest() + 1)
        return
    os.closerange(3, kept)
    os.closerange(kept + 1, _highest() + 1)


def let_go_of_streams() -> None:
    """The program's streams are to end with what it started, and not with this process."""
    nothing = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.close(nothing)


def complain(text: str) -> None:
    os.write(2, f"interlock: {text}\n".encode(errors="surrogateescape"))


def _highest() -> int:
    return max(map(int, os.listdir("/dev/fd")))  # noqa: PTH208


def _write(path: str, text: str) -> None:
    place = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(place, text.encode())
    finally:
        os.close(place)

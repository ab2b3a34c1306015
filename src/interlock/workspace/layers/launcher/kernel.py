"""The few system calls that Python has no name for. Linux on x86-64 and aarch64."""

from __future__ import annotations

import ctypes
import os
import struct

PARENT = 0x00008000
NEWNS = 0x00020000
NEWCGROUP = 0x02000000
NEWUTS = 0x04000000
NEWIPC = 0x08000000
NEWUSER = 0x10000000
NEWPID = 0x20000000
NEWNET = 0x40000000

MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8

RDONLY = 0x1
NOSUID = 0x2
NODEV = 0x4

CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER = 0, 1, 3

_SIGCHLD = 17
_REQUESTS_TO_END = (1, 2, 15)
_SIG_SETMASK = 2
_RLIMIT_FSIZE, _RLIMIT_CORE = 1, 4
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 4, 24, 38, 47
_PR_SET_CHILD_SUBREAPER = 36
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_KEYCTL_JOIN_SESSION_KEYRING = 1
_LANDLOCK_VERSION = 1
_LANDLOCK_SCOPES = 0b11
"""Abstract unix sockets, and signals, of processes outside."""
_LANDLOCK_WITH_SCOPES = 6
_CAPABILITY_VERSION = 0x20080522

_CALLS = {
    "x86_64": {"clone": 56, "capset": 126, "keyctl": 250},
    "aarch64": {"clone": 220, "capset": 91, "keyctl": 219},
}
_CALLS_EVERYWHERE = {"mount_setattr": 442, "landlock_create_ruleset": 444, "landlock_restrict_self": 446}

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _call(name: str, *arguments: object) -> int:
    machine = os.uname().machine
    if machine not in _CALLS:
        raise OSError(f"processor {machine!r} is not known to the launcher")
    number = {**_CALLS_EVERYWHERE, **_CALLS[machine]}[name]
    given = (ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments)
    return _checked(int(_libc.syscall(ctypes.c_long(number), *given)), name)


def clone(flags: int) -> int:
    """Fork into new namespaces, or (`PARENT`) a child of this process's parent: 0 in the child, its number here. Only
    while there is a single thread."""
    return _call("clone", flags | _SIGCHLD, 0, 0, 0, 0)


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    answer = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() if kind is not None else None,
        ctypes.c_ulong(flags),
        os.fsencode(options) if options is not None else None,
    )
    _checked(answer, f"mount {kind or source} on {target}")


def change_mount(folder: int | str, *, add: int = 0, clear: int = 0, below: bool = False) -> None:
    """Change flags of the mount at an open place or path, or of all mounts below it too."""
    attributes = struct.pack("=QQQQ", add, clear, 0, 0)
    at, path = (-100, os.fsencode(folder)) if isinstance(folder, str) else (folder, b"")
    flags = (_AT_RECURSIVE if below else 0) | (_AT_EMPTY_PATH if not path else 0)
    _call("mount_setattr", at, path, flags, attributes, len(attributes))


def die_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, 9)


def adopt_orphans() -> None:
    """What loses its parent below this process becomes its child, so that it can be waited for."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def hide_from_neighbours() -> None:
    """No process of the same user may trace this one or look into it."""
    _prctl(_PR_SET_DUMPABLE, 0)


def no_new_privileges() -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def all_capabilities() -> set[int]:
    last = int(open("/proc/sys/kernel/cap_last_cap").read())  # noqa: PTH123, SIM115 - pathlib takes long to import
    return set(range(last + 1))


def give_up_for_programs(capabilities: set[int]) -> None:
    """No program that is started from here ever gets those."""
    for number in capabilities:
        _prctl(_PR_CAPBSET_DROP, number)


def keep_capabilities(kept: set[int]) -> None:
    """Give up all capabilities but those; what programs may get is another matter."""
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    low = sum(1 << number for number in kept)
    _call(
        "capset",
        struct.pack("=Ii", _CAPABILITY_VERSION, 0),
        struct.pack("=IIIIII", low, low, 0, 0, 0, 0),
    )


def new_session_keyring() -> None:
    """Keys of the user's login are out of reach; a kernel without keys has none."""
    try:
        _call("keyctl", _KEYCTL_JOIN_SESSION_KEYRING, 0)
    except OSError as error:
        if error.errno not in (1, 38):  # EPERM where a container forbids it altogether, ENOSYS
            raise


def fence_off() -> bool:
    """Abstract sockets and processes outside are out of reach, where the kernel can do that (6.12)."""
    try:
        if _call("landlock_create_ruleset", 0, 0, _LANDLOCK_VERSION) < _LANDLOCK_WITH_SCOPES:
            return False
        rules = struct.pack("=QQQ", 0, 0, _LANDLOCK_SCOPES)
        ruleset = _call("landlock_create_ruleset", rules, len(rules), 0)
        try:
            _call("landlock_restrict_self", ruleset, 0)
        finally:
            os.close(ruleset)
    except OSError:
        return False
    return True


def limit_files(size: int) -> None:
    """No file may grow beyond a size, and no core is left. Not by `resource`, which takes long to import."""
    for number, value in ((_RLIMIT_FSIZE, size), (_RLIMIT_CORE, 0)):
        found = ctypes.create_string_buffer(16)
        _checked(_libc.getrlimit(ctypes.c_int(number), found), "getrlimit")
        lowest = min(value, struct.unpack("=QQ", found.raw)[1])
        _checked(_libc.setrlimit(ctypes.c_int(number), struct.pack("=QQ", lowest, lowest)), "setrlimit")


def ignore_requests_to_end() -> None:
    """Hangup, interrupt and termination do nothing; programs that are started from here would inherit that."""
    for number in _REQUESTS_TO_END:
        _libc.signal(ctypes.c_int(number), ctypes.c_void_p(1))


def signals_as_at_first() -> None:
    """Every signal has its default effect and none is held back: Python and its callers changed some."""
    for number in range(1, 32):
        _libc.signal(ctypes.c_int(number), ctypes.c_void_p(0))
    _libc.sigprocmask(ctypes.c_int(_SIG_SETMASK), ctypes.create_string_buffer(128), None)


def loopback_up() -> None:
    """A new network namespace has a loopback device that is down."""
    import socket
    from fcntl import ioctl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0x1 | 0x40)
        ioctl(any_socket.fileno(), 0x8914, request)


def _prctl(option: int, *values: int) -> None:
    given = (ctypes.c_ulong(value) for value in (*values, *(0,) * (4 - len(values))))
    _checked(_libc.prctl(ctypes.c_int(option), *given), f"prctl {option}")

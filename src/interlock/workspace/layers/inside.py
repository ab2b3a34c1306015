"""Runs inside a layer in front of the program, and does what bubblewrap cannot.

    python -I -S -c TEXT PROCESSES DESCRIPTOR [HOST:PORT ...] -- ARGV

Its text is handed over on the command line, since interlock itself may be hidden inside: the standard library only.
Nothing of it stays behind: it becomes the program.
"""

import ctypes
import json
import os
import platform
import resource
import signal
import socket
import sys

_ABSTRACT_SOCKETS = 1
_KEYRING = {"x86_64": 250, "aarch64": 219}
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def main() -> None:
    processes, descriptor, *rest = sys.argv[1:]
    hosts, argv = rest[: rest.index("--")], rest[rest.index("--") + 1 :]
    # As it was given: Python itself adds LC_CTYPE at its start.
    with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
        pairs = [entry.partition(b"=") for entry in file.read().split(b"\0") if entry]
    environment = {name: value for name, _, value in pairs}
    if processes != "0":
        resource.setrlimit(resource.RLIMIT_NPROC, (int(processes), int(processes)))
    fence()
    if descriptor != "-":
        environment |= {name.encode(): value.encode() for name, value in open_doors(int(descriptor), hosts).items()}
    for name in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and what is ignored stays so
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        sys.stderr.write(f"interlock: {argv[0]!r} cannot be started: {error.strerror}\n")
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


def fence() -> None:
    """Abstract sockets belong to the network, which may be the person's (Landlock, Linux 6.12); keys to their login."""
    libc = ctypes.CDLL(None)
    rules = (ctypes.c_uint64 * 3)(0, 0, _ABSTRACT_SOCKETS)
    made = libc.syscall(444, rules, ctypes.c_size_t(24), 0)
    if made >= 0:
        libc.syscall(446, made, 0)
        os.close(made)
    if number := _KEYRING.get(platform.machine()):
        libc.syscall(number, 1, None, 0, 0, 0)


def open_doors(descriptor: int, hosts: list[str]) -> dict[str, str]:
    """Listen in here, and hand the listening over to the relay outside; the variables that say where."""
    proxy = socket.create_server(("127.0.0.1", 0))
    doors = [(proxy, "")]
    for host in hosts:  # servers of the person's own machine: few clients use a proxy for those
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            try:
                doors.append((socket.create_server((address, int(host.rpartition(":")[2])), family=family), host))
            except OSError:  # there may be no IPv6
                continue
    with socket.socket(fileno=descriptor) as relay:
        said = json.dumps([host for _, host in doors]).encode()
        socket.send_fds(relay, [said], [door.fileno() for door, _ in doors])
        relay.recv(1)
    address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
    spared = "localhost,127.0.0.1,::1,[::1]"
    return {
        **{spelled: address for name in _PROXIES for spelled in (name, name.upper())},
        **{"no_proxy": spared, "NO_PROXY": spared, "NODE_USE_ENV_PROXY": "1"},
    }


if __name__ == "__main__":
    main()

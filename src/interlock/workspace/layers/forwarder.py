"""Runs inside a layer's network namespace: gives the program there a proxy on loopback that leads to the relay.

    python -I -S -c PROGRAM SOCKET [HOST:PORT ...] -- ARGV

Its text is handed over on the command line, since interlock itself may be hidden inside: the standard library only,
and nothing of interlock.  It only copies bytes.  What may be reached is decided in `relay.py`, outside.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import struct
import sys
import threading
import time

CONNECTIONS = 200
PATIENCE_S = 10.0
"""How long a client may go on sending what nobody reads any more."""


def proxy_variables(port: int, *, loopback: bool) -> dict[str, str]:
    """What makes clients use the proxy at this port; `loopback`: for addresses in here too, which is rarely right.

    A program's own servers, those of its tests for instance, are on loopback, and no proxy outside could reach them.
    """
    names = ("http_proxy", "https_proxy", "all_proxy")
    address = f"http://127.0.0.1:{port}"
    besides = "" if loopback else "localhost,127.0.0.1,::1,[::1]"
    return {
        **{spelled: address for name in names for spelled in (name, name.upper())},
        **{"no_proxy": besides, "NO_PROXY": besides},
        "NODE_USE_ENV_PROXY": "1",
    }


def main(arguments: list[str]) -> None:
    end = arguments.index("--")
    (path, *direct), argv = arguments[:end], arguments[end + 1 :]
    environment = inherited_environment()
    environment.update({os.fsencode(name): os.fsencode(value) for name, value in open_doors(path, direct).items()})
    for name in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and what is ignored stays so
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        sys.stderr.write(f"interlock: {argv[0]} cannot be started: {error.strerror}\n")
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


def open_doors(path: str, direct: list[str]) -> dict[str, str]:
    """Listen on loopback for as long as this process lives, whatever it becomes; the variables that say where.

    Args:
        path: the relay's socket.
        direct: servers on loopback (``host:port``) that are to be found at their own port too.
    """
    bring_loopback_up()
    doors, missing = [], False
    for target in direct:
        port = int(target.rpartition(":")[2])
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            try:
                doors.append((listening(family, host, port), target))
            except (
                OSError
            ):  # there may be no IPv6; the other one is missed where the port is taken, or not ours to have
                missing = missing or family == socket.AF_INET
    doors.append((proxy := listening(socket.AF_INET, "127.0.0.1", 0), ""))
    leave_behind(path, doors)
    variables = proxy_variables(proxy.getsockname()[1], loopback=missing)
    for door, _ in doors:
        door.close()
    return variables


def inherited_environment() -> dict[bytes, bytes]:
    """The environment as it was given: Python itself adds LC_CTYPE to it at its start."""
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123 - pathlib is not worth its start
            entries = [entry.partition(b"=") for entry in file.read().split(b"\0") if entry]
    except OSError:
        return dict(os.environb)
    return {name: value for name, _, value in entries}


def bring_loopback_up() -> None:
    """In a new network namespace it is down; bubblewrap has brought it up already."""
    get, put, is_up = 0x8913, 0x8914, 0x1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        raw = fcntl.ioctl(any_socket, get, struct.pack("16sH22x", b"lo", 0))
        flags = struct.unpack("16sH22x", raw)[1]
        if not flags & is_up:
            fcntl.ioctl(any_socket, put, struct.pack("16sH22x", b"lo", flags | is_up))


def listening(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    door = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            door.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        door.bind((host, port))
        door.listen(CONNECTIONS)
    except OSError:
        door.close()
        raise
    return door


def leave_behind(path: str, doors: list[tuple[socket.socket, str]]) -> None:
    """A process that serves the doors until this one has ended; it is nobody's child, and holds nothing of ours."""
    program = os.pidfd_open(os.getpid())
    if between := os.fork():
        os.close(program)
        os.waitpid(between, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            keep_apart({program, *(door.fileno() for door, _ in doors)})
            serve(path, doors)
            ended = select.poll()
            ended.register(program, select.POLLIN)
            ended.poll()
    finally:
        os._exit(0)


def keep_apart(kept: set[int]) -> None:
    """Let go of all descriptors but these: somebody may wait for the end of the program's output."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    last = 2
    for number in sorted(kept):
        os.closerange(last + 1, number)
        last = number
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))


def serve(path: str, doors: list[tuple[socket.socket, str]]) -> None:
    folder, _, name = path.rpartition("/")
    os.chdir(folder or "/")  # a socket's path is at most 107 bytes long
    room = threading.BoundedSemaphore(CONNECTIONS)
    for door, target in doors:
        threading.Thread(target=welcome, args=(door, target, name, room), daemon=True).start()


def welcome(door: socket.socket, target: str, name: str, room: threading.BoundedSemaphore) -> None:
    while True:
        room.acquire()
        try:
            client, _ = door.accept()
        except OSError:  # no descriptor is free: some will be
            room.release()
            time.sleep(0.05)
            continue
        threading.Thread(target=carry, args=(client, target, name, room), daemon=True).start()


def carry(client: socket.socket, target: str, name: str, room: threading.BoundedSemaphore) -> None:
    """One connection, to its end."""
    try:
        with client, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as relay:
            relay.connect(name)
            if target and not tunnelled(relay, target):
                return
            there = threading.Thread(target=pump, args=(client, relay), daemon=True)
            there.start()
            pump(relay, client)
            there.join()
    except OSError:
        pass  # the relay has gone, or the client: both are closed now
    finally:
        room.release()


def tunnelled(relay: socket.socket, target: str) -> bool:
    """Whether the relay opened a way to the target."""
    relay.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    said = b""
    while not said.endswith(b"\r\n\r\n"):
        part = relay.recv(1)  # what follows the head is the server's
        if not part or len(said) > 8192:
            return False
        said += part
    return said.startswith(b"HTTP/1.1 200 ")


def pump(source: socket.socket, sink: socket.socket) -> None:
    """Copy until the source ends, then tell the sink; one that takes no more is read to its end, within limits."""
    try:
        while part := source.recv(65536):
            sink.sendall(part)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        drain(source)


def drain(source: socket.socket) -> None:
    """A connection that is closed with unread bytes takes the answer with it."""
    try:
        source.settimeout(PATIENCE_S)
        while source.recv(65536):
            pass
    except OSError:
        pass


if __name__ == "__main__":
    main(sys.argv[1:])

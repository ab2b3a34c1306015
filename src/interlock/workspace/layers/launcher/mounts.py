"""What a program in a layer sees, mounted step by step in a mount namespace of its own.

Sources are opened before the first mount and used by descriptor: what is hidden later stays usable, and no path needs
escaping.  Targets are walked to without following links: an earlier program may have put some into its private
folders.  Overlays are mounted while their upper folders can still be written; then everything is made read-only at
once, and what is meant to be written is opened again.
"""

from __future__ import annotations

import os

from . import kernel

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ANYTHING = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "ptmx": "pts/ptmx"}
_DEVICE_LINKS["stderr"] = "/proc/self/fd/2"
_PROC_READ_ONLY = ("sys", "irq", "bus", "fs", "acpi", "scsi", "driver")
PROC_MASKED = ("sysrq-trigger", "kcore", "kmsg", "keys", "key-users", "timer_list", "sched_debug", "kpagecount")


class Mounts:
    """Mounts steps in order; parents come before what lies below them. /dev and /proc are there at once."""

    def __init__(self) -> None:
        self._private: list[str] = []
        """Where missing mount points may be made: nothing of the machine's is there."""
        self._writable: list[str] = []
        self._devices: list[str] = []
        self._sources: dict[str, int] = {}
        # Nothing mounted here goes anywhere else, nothing mounted elsewhere comes here.
        kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        self._old_devices = os.open("/dev", _FOLDER)
        self._make_devices()
        self.new_proc = self._make_processes()

    def _open(self, *paths: str) -> None:
        for path in paths:
            # Uppers may lie in the machine's shared memory.
            name, folder = (path[5:], self._old_devices) if path.startswith("/dev/") else (path, None)
            self._sources[path] = os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=folder)

    def prepare(self, steps: list[tuple[str, list[str]]]) -> None:
        """Open all sources while everything else is still in sight."""
        for word, fields in steps:
            if word == "bind":
                self._open(fields[0])
            elif word == "overlay":
                self._open(*fields[:3])

    def step(self, word: str, fields: list[str]) -> None:
        match word, fields:
            case "tmpfs", [at, mode, writable]:
                self._on(self._folder(at), "tmpfs", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"mode={mode}")
                self._note(at, bool(writable), private=True)
            case "bind", [source, at, writable, file]:
                target = self._file(at) if file else self._folder(at)
                self._on(target, self._source(source), None, kernel.MS_BIND | (0 if writable else kernel.MS_REC))
                self._note(at, bool(writable), private=bool(writable))
            case "overlay", [lower, upper, work, at, lasting]:
                folders = (self._source(path) for path in (lower, upper, work))
                options = "lowerdir={},upperdir={},workdir={},userxattr".format(*folders)
                # Otherwise the end of the mount waits until the whole file system is written to disk.
                options += "" if lasting else ",volatile"
                self._on(self._folder(at), "overlay", "overlay", kernel.MS_NOSUID | kernel.MS_NODEV, options)
                self._note(at, True, private=True)
            case "mask", [at]:
                self._mask(at)
            case _:
                raise OSError(f"unknown step {word!r}")

    def _make_devices(self) -> None:
        """A small /dev: no disk, no terminal, shared memory and pseudo-terminals of its own."""
        self._open(*(f"/dev/{name}" for name in _DEVICES if os.path.exists(f"/dev/{name}")))  # noqa: PTH110
        self._on(self._folder("/dev"), "tmpfs", "tmpfs", kernel.MS_NOSUID, "mode=0755")
        self._private.append("/dev")
        for name in _DEVICES:
            if (source := f"/dev/{name}") in self._sources:
                self._on(self._file(source), self._source(source), None, kernel.MS_BIND)
                self._devices.append(source)
        for name, target in _DEVICE_LINKS.items():
            os.symlink(target, f"/dev/{name}")  # noqa: PTH211
        self._on(self._folder("/dev/shm"), "tmpfs", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=1777")
        self._writable.append("/dev/shm")
        options = "newinstance,ptmxmode=0666,mode=620"
        self._on(self._folder("/dev/pts"), "devpts", "devpts", kernel.MS_NOSUID | kernel.MS_NOEXEC, options)
        self._writable.append("/dev/pts")
        self._devices.append("/dev/pts")

    def _make_processes(self) -> bool:
        """A /proc of the new process namespace, without what could steer the machine; False when that is refused.

        Where a container hides parts of its /proc, the kernel refuses a new one; then the old one is read-only: other
        processes are listed in it, and being of another user namespace, they are out of reach.
        """
        flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
        try:
            self._on(self._folder("/proc"), "proc", "proc", flags)
            is_new = True
        except PermissionError:
            is_new = False
        if is_new:
            for name in _PROC_READ_ONLY:
                if os.path.isdir(path := f"/proc/{name}"):  # noqa: PTH112
                    self._on(self._folder(path), path, None, kernel.MS_BIND | kernel.MS_REC)
            self._writable.append("/proc")
        for name in PROC_MASKED:
            self._mask(f"/proc/{name}")
        return is_new

    def seal(self) -> None:
        """Everything read-only and without devices, but for what is meant to be written."""
        kernel.change_mount("/", add=kernel.RDONLY | kernel.NODEV | kernel.NOSUID, below=True)
        for path in self._writable:
            self._clear(path, kernel.RDONLY)
        for path in self._devices:
            self._clear(path, kernel.NODEV)
        for source in (*self._sources.values(), self._old_devices):
            os.close(source)

    def _clear(self, path: str, flags: int) -> None:
        place = self._walk(path, _ANYTHING)
        kernel.change_mount(place, clear=flags)
        os.close(place)

    def _mask(self, path: str) -> None:
        try:
            place = self._walk(path, _ANYTHING)
        except OSError:
            return
        self._on(place, self._source("/dev/null"), None, kernel.MS_BIND)

    def _note(self, at: str, writable: bool, *, private: bool) -> None:
        if private:
            self._private.append(at)
        if writable:
            self._writable.append(at)

    def _on(self, target: int, source: str, kind: str | None, flags: int, options: str | None = None) -> None:
        try:
            kernel.mount(source, f"/proc/self/fd/{target}", kind, flags, options)
        except OSError as error:
            path = os.readlink(f"/proc/self/fd/{target}")  # noqa: PTH115
            what = kind or "a folder"
            raise OSError(error.errno, f"{what} cannot be mounted on {path}: {os.strerror(error.errno or 0)}") from None
        finally:
            os.close(target)

    def _source(self, path: str) -> str:
        return f"/proc/self/fd/{self._sources[path]}"

    def _folder(self, path: str) -> int:
        return self._walk(path, _FOLDER, make=True)

    def _file(self, path: str) -> int:
        return self._walk(path, _ANYTHING, make=True)

    def _walk(self, path: str, last: int, *, make: bool = False) -> int:
        """An open place; no link on the way is followed. What is missing is made where nothing is the machine's."""
        may_make = make and any(path.startswith(place + "/") for place in self._private)
        here = os.open("/", _FOLDER)
        names = [name for name in path.split("/") if name]
        for number, name in enumerate(names):
            flags = last if number == len(names) - 1 else _FOLDER
            try:
                try:
                    below = os.open(name, flags, dir_fd=here)
                except FileNotFoundError:
                    if not may_make:
                        raise
                    if flags == _FOLDER:
                        os.mkdir(name, 0o755, dir_fd=here)
                    else:
                        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=here))
                    below = os.open(name, flags, dir_fd=here)
            except OSError as error:
                raise OSError(error.errno, f"{path} cannot be reached: {error.strerror}") from None
            finally:
                os.close(here)
            here = below
        return here

"""Where words go: the playbook's own output to stdout, byte for byte; everything else to stderr (CLI-04).

This is the edge: all that the command line prints goes through here, and what a terminal would obey ends here.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TextIO

from interlock.cli import text

stands_in: ContextVar[str] = ContextVar("stands_in", default="")
"""The folder, as `-C` was given."""


class ReaderGone(Exception):
    """Whoever read our output has closed it. In our own words: click would end the program with 1, `degraded`."""


def fill_standard_streams() -> None:
    """Stand-ins for standard streams that are closed: a file opened later must not get one of their numbers."""
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:  # the lowest number that is free
        os.set_inheritable(number, True)
    os.close(number)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - for as long as we live
        elif hasattr(stream := getattr(sys, name), "reconfigure"):  # a locale without our characters is no fault
            stream.reconfigure(errors="backslashreplace")


def write_output(content: bytes) -> None:
    """The playbook's output: bytes as they are; a terminal gets them without what would move its cursor.

    If nobody reads it any more, that is no reason to lose the run's exit code.
    """
    if content and sys.stdout.isatty() and not content.endswith(b"\n"):
        content += b"\n"
    with suppress(ReaderGone):
        print_patch(content)


def print_json(value: Any) -> None:
    """One JSON value on stdout, in plain ASCII: nothing in it moves a cursor; a number without a name is null."""
    plain = json.loads(json.dumps(value, default=str), parse_constant=lambda name: None)
    with suppress(OSError, ReaderGone):  # stderr has the words all the same
        _put(json.dumps(plain).replace("\x7f", "\\u007f") + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """What was asked for, on stdout: in the columns of a terminal, with nothing in it that moves a cursor."""
    width = columns(sys.stdout)
    _put("".join(f"{text.harmless(_fitted(line, width))}\n" for line in lines))


def print_patch(patch: bytes) -> None:
    """A patch on stdout: byte for byte into a pipe, harmless on a terminal."""
    _put(text.harmless(patch.decode("utf-8", "backslashreplace")) if sys.stdout.isatty() else patch)


def tell(*lines: str) -> None:
    """Say something on stderr, in the columns of a terminal; a pipe gets each line whole."""
    width = columns(sys.stderr)
    complain(*(_fitted(line, width) for line in lines))


def _fitted(line: str, width: int | None) -> str:
    line = here(line, stands_in.get())
    return line if width is None else text.fitted(line, width, 10)


def here(said: str, folder: str) -> str:
    """The text with its commands as they work from where the person is: the engine does not know of -C."""
    if not folder:
        return said
    from interlock.cli.commands import app

    command = rf"\binterlock (?=[\"']|(?:{'|'.join(app.commands)})\b)"
    return re.sub(command, f"interlock -C {shlex.quote(folder)} ", said)


def complain(*lines: str) -> None:
    """The same, as it is laid already."""
    put_beside("".join(f"{line}\n" for line in lines))


def columns(stream: TextIO) -> int | None:
    """How wide the terminal is; None: it is none, programs read lines."""
    return shutil.get_terminal_size((text.WIDTH, 24)).columns if not stream.closed and stream.isatty() else None


def attended() -> bool:
    """Whether somebody sits at a terminal who can be asked here and now."""
    streams = (sys.stdin, sys.stderr)  # one that is closed is None
    return all(stream is not None and not stream.closed and stream.isatty() for stream in streams)


def confirmed(question: str) -> bool:
    """The word of the person at the terminal; nobody there, or anything but yes: no."""
    if not attended():
        return False
    put_beside(f"{question} [y/N] ")
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def put_beside(prompt: str) -> None:
    """On stderr, where a question is answered behind it; if nobody listens there, that is no reason to stop."""
    with suppress(OSError, ValueError):
        print(text.harmless(prompt), end="", file=sys.stderr, flush=True)


def flush() -> None:
    """Say what is still to be said now; later, when Python shuts down, it would be an error of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            _quiet(stream)


def _quiet(stream: TextIO) -> None:
    """After a reader has gone: what is still buffered must not raise again when Python shuts down."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _put(words: str | bytes) -> None:
    """On stdout, in UTF-8 whatever the locale says."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(words if isinstance(words, bytes) else words.encode("utf-8", "backslashreplace"))
        sys.stdout.flush()
    except BrokenPipeError:
        _quiet(sys.stdout)
        raise ReaderGone from None

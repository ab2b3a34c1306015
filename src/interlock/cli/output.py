"""Where words go: the playbook's own output to stdout, byte for byte; everything else to stderr.

This is the edge: all that the command line prints goes through here, and what a terminal would obey ends here.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from interlock.errors import ConfigInvalid
from interlock.telemetry.fitting import fitted
from interlock.telemetry.lines import harmless
from interlock.telemetry.standing import shown_as

if TYPE_CHECKING:
    from interlock.telemetry import Totals

WIDTH = 80
"""Columns that every terminal has."""


def write_output(text: str | bytes) -> None:
    """Put the playbook's output on stdout: bytes exactly as they are, text with a newline at its end.

    A terminal gets it without what would move its cursor: an agent may have written it.  If nobody reads it any more,
    that is no reason to lose the run's exit code.
    """
    words = isinstance(text, str)
    if isinstance(text, str):
        text = (text if text.endswith("\n") or not text else text + "\n").encode("utf-8", "surrogateescape")
    if sys.stdout.isatty():
        spoken = harmless(text.decode("utf-8", "surrogateescape"))
        text = (_for_people(spoken, sys.stdout) if words else spoken).encode()
    try:
        _put(text)
    except BrokenPipeError:
        quiet(sys.stdout)


def _put(raw: bytes) -> None:
    sys.stdout.flush()
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:  # a captured stdout that takes text only
        sys.stdout.write(raw.decode("utf-8", "replace"))
    else:
        stream.write(raw)
    sys.stdout.flush()


def print_lines(lines: Iterable[str]) -> None:
    """Text of our own on stdout, with what agents, files and people put into it: nothing in it moves a cursor."""
    _put((_for_people(harmless("\n".join(lines)), sys.stdout) + "\n").encode())


def as_text(output: str | bytes) -> str:
    """Output as JSON can carry it: what is no UTF-8 is replaced there, and only there."""
    raw = output.encode("utf-8", "surrogateescape") if isinstance(output, str) else output
    return raw.decode("utf-8", "replace")


def print_json(value: Any) -> None:
    """One JSON value on stdout, in UTF-8 whatever the locale says; what is not printable is escaped in it."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:  # a number that JSON has no name for
        text = json.dumps(_finite(value), ensure_ascii=False, default=str)
    try:
        _put((escaped_json(text) + "\n").encode())
    except BrokenPipeError:
        quiet(sys.stdout)


def selection(facts: Any, names: Sequence[str]) -> Any:
    """Only these fields of an object, or of every object of a list, in the order in which they are named."""
    if isinstance(facts, list):
        return [selection(one, names) for one in facts]
    if facts is None:
        return None
    inside: dict[str, list[str]] = {}
    for name in names:
        head, _, rest = name.strip().partition(".")
        inside.setdefault(head, []).append(rest)
    for name in inside:
        if not isinstance(facts, Mapping) or name not in facts:
            known = ", ".join(facts) if isinstance(facts, Mapping) else "no field: it is no object"
            raise ConfigInvalid(f"there is no field {name!r}", where="option --fields", expected=known, found=name)
    return {name: facts[name] if "" in rest else selection(facts[name], rest) for name, rest in inside.items()}


def print_journal_line(raw: bytes) -> None:
    """A line of a journal on stdout: byte for byte, but for a terminal."""
    _put((escaped_json(raw.decode("utf-8", "replace")).encode() if sys.stdout.isatty() else raw) + b"\n")


def escaped_json(text: str) -> str:
    """The same JSON without characters that a terminal would obey: they can only stand in its texts."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1].replace("\x7f", "\\u007f") for char in text)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def complain(*lines: str) -> None:
    """Say something on stderr; if nobody listens there, that is no reason to stop."""
    with suppress(OSError, ValueError):
        print(_for_people(harmless("\n".join(lines)), sys.stderr), file=sys.stderr, flush=True)


def put_beside(text: str) -> None:
    """Part of a line on stderr: a question that is answered behind it."""
    with suppress(OSError, ValueError):
        print(harmless(text), end="", file=sys.stderr, flush=True)


def overwrite(text: str) -> None:
    """The last line of the terminal, anew; empty: it is taken away."""
    with suppress(OSError, ValueError):
        print(f"\r\x1b[K{harmless(text)}", end="", file=sys.stderr, flush=True)


def at_terminal() -> bool:
    """Whether somebody sits at a terminal who can be asked here and now."""
    streams = (sys.stdin, sys.stderr)  # one that is closed is None
    attended = all(stream is not None and stream.isatty() for stream in streams)
    return attended and os.environ.get("TERM", "") != "dumb"


def ring() -> None:
    """The bell of the terminal: somebody is waited for."""
    with suppress(OSError, ValueError):
        print("\a", end="", file=sys.stderr, flush=True)


def fill_standard_streams() -> None:
    """Stand-ins for standard streams that are closed: a file opened later must not get one of their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
            os.set_inheritable(number, True)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - for as long as we live


def quiet(*streams: TextIO) -> None:
    """After a reader has gone: what is still buffered must not raise again when Python shuts down."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        with suppress(OSError, ValueError):
            os.dup2(null, stream.fileno())


def wrapped(text: str, indent: str = "") -> list[str]:
    """A line on lines of 80 columns, set in below the first, wherever it goes."""
    return fitted(f"{indent}{text}", WIDTH).split("\n")


def _for_people(text: str, stream: TextIO) -> str:
    """The text as somebody reads it: on a terminal in its columns, elsewhere as it is, for programs read lines."""
    try:
        if not stream.isatty():
            return text
        width = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return text
    asked = os.environ.get("COLUMNS", "")
    return fitted(text, int(asked) if asked.isdecimal() and int(asked) else width or WIDTH)


def columns(rows: Sequence[Sequence[str]], *, gap: str = "  ") -> list[str]:
    """Rows as lines in which the cells of a column stand below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    return [gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


class AboutRun(Protocol):
    """Whatever says which run is meant, as far as that is known."""

    @property
    def run_id(self) -> str | None: ...
    @property
    def playbook(self) -> str | None: ...
    @property
    def key(self) -> str | None: ...
    @property
    def started_at(self) -> str | None: ...


def envelope(
    about: AboutRun,
    *,
    status: str,
    exit_code: int,
    reason: str = "",
    output: str = "",
    gate: Mapping[str, Any] | None = None,
    sums: Totals | None = None,
    finished_at: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The one JSON object of a command about a run, always with the same keys (DESIGN 4); `more` stands after them."""
    return {
        "run_id": about.run_id,
        "playbook": about.playbook,
        "key": about.key,
        "status": status,
        "exit_code": exit_code,
        "reason": reason,
        "output": output,
        "gate": None if gate is None else gate_json(gate),
        "dispatches": 0 if sums is None else sums.dispatches,
        "usage": {
            "input_tokens": None if sums is None else sums.input_tokens,
            "output_tokens": None if sums is None else sums.output_tokens,
            "cost_usd": None if sums is None else sums.cost_usd,
        },
        "started_at": about.started_at,
        "finished_at": finished_at,
        **more,
    }


def gate_json(gate: Mapping[str, Any]) -> dict[str, Any]:
    """A gate for programs: what it asks, what it shows, how it can be answered."""
    return {
        "key": gate["key"],
        "name": gate["gate"],
        "question": gate["question"],
        "choices": [dict(choice) for choice in gate["choices"]],
        "shows": list(gate["digests"]),
        "opening": gate["opening"],
        "shown": shown_as(gate["key"], gate["opening"], gate["digests"]),
    }

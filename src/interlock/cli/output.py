"""Where words go: the playbook's own output to stdout, byte for byte; everything else to stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TextIO


def write_output(text: str | bytes) -> None:
    """Put the playbook's output on stdout: bytes exactly as they are, text with a newline at its end.

    If nobody reads it any more, that is no reason to lose the run's exit code.
    """
    if isinstance(text, str):
        text = (text if text.endswith("\n") or not text else text + "\n").encode("utf-8", "surrogateescape")
    try:
        sys.stdout.flush()
        stream = getattr(sys.stdout, "buffer", None)
        if stream is None:  # a captured stdout that takes text only
            sys.stdout.write(text.decode("utf-8", "replace"))
        else:
            stream.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        quiet(sys.stdout)


def as_text(output: str | bytes) -> str:
    """Output as JSON can carry it: what is no UTF-8 is replaced there, and only there."""
    raw = output.encode("utf-8", "surrogateescape") if isinstance(output, str) else output
    return raw.decode("utf-8", "replace")


def print_json(value: Any) -> None:
    """One JSON value on stdout, in UTF-8 whatever the locale says."""
    write_output((json.dumps(value, ensure_ascii=False, default=str) + "\n").encode("utf-8", "replace"))


def complain(*lines: str) -> None:
    """Say something on stderr; if nobody listens there, that is no reason to stop."""
    with suppress(OSError, ValueError):
        print("\n".join(lines), file=sys.stderr, flush=True)


def quiet(*streams: TextIO) -> None:
    """After a reader has gone: what is still buffered must not raise again when Python shuts down."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        with suppress(OSError, ValueError):
            os.dup2(null, stream.fileno())


def columns(rows: Sequence[Sequence[str]], *, gap: str = "  ") -> list[str]:
    """Rows as lines in which the cells of a column stand below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    return [gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]

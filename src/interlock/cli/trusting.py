"""Code of a workspace is used when a person says so: what they are shown, and how they are asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from interlock.cli.output import complain, put_beside

if TYPE_CHECKING:
    from interlock.finding import Library, Request


def library(root: Path, *, trust: bool, json: bool) -> Library:
    """The playbooks of a workspace, for somebody at the command line.

    Args:
        trust: they have said so already, with --trust.
        json: a program reads the answer: nobody is asked.
    """
    from interlock.finding import Library

    def consent(request: Request) -> bool:
        if trust:
            complain(f"Trusted from now on: {request.what}, digest {request.bundle.digest}")
            return True
        return not json and at_terminal() and asked(request)

    return Library(root, os.environ, consent=consent)


def at_terminal() -> bool:
    """Whether somebody sits at a terminal who can be asked here and now."""
    streams = (sys.stdin, sys.stderr)  # one that is closed is None
    attended = all(stream is not None and stream.isatty() for stream in streams)
    return attended and os.environ.get("TERM", "") != "dumb"


def asked(request: Request) -> bool:
    """What the person at the terminal says; anything but yes is no."""
    complain(f"{request.why}. It would be loaded and executed:", *request.lines)
    put_beside("Do you trust it? It can do what you can do. [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class Peek(NamedTuple):
    """What is said further along a command line that is not parsed yet."""

    workspace: Path | None
    trust: bool
    json: bool


def peek(arguments: Sequence[str]) -> Peek:
    """The options that decide which playbook is meant, and whether it may be loaded: before its own are known."""
    words = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    workspace = None
    for number, word in enumerate(words):
        if word in ("-C", "--workspace") and number + 1 < len(words):
            workspace = Path(words[number + 1])
        elif word.startswith("--workspace="):
            workspace = Path(word.partition("=")[2])
        elif word.startswith("-C") and len(word) > 2:
            workspace = Path(word[2:])
    return Peek(workspace, _trusting(words), "--json" in words)


def _trusting(words: Sequence[str]) -> bool:
    """Whether --trust is surely an option: behind one that may take a value, it may be somebody's text."""
    from interlock.cli.commands import SWITCHES

    return any(
        word == "--trust" and (not above.startswith("-") or "=" in above or above in SWITCHES)
        for above, word in zip(["", *words], words, strict=False)
    )

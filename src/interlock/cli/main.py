"""The entry point."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from interlock import __version__

if TYPE_CHECKING:
    import typer

    app: typer.Typer


VERSION = (["--version"], ["-V"])


def main() -> None:
    """Run the command line of this process, and leave with its exit code."""
    if sys.argv[1:] not in VERSION:
        from interlock.cli.asides import keep_asides

        keep_asides()
    try:
        code = answer(sys.argv[1:])
    except KeyboardInterrupt:  # while the program was still being loaded, or just ended
        code = 130
    sys.exit(code)


def answer(arguments: Sequence[str]) -> int:
    """Do what the arguments ask for; the exit code."""
    if list(arguments) in VERSION:
        print(f"interlock {__version__}")
        return 0
    from interlock.cli.failures import guarded

    return guarded(arguments)


def __getattr__(name: str) -> object:
    """`app`, made when it is asked for: `--version` does not pay for it."""
    if name == "app":
        from interlock.cli.commands import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""The entry point."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from interlock import __version__

if TYPE_CHECKING:
    import typer

    app: typer.Typer


VERSION = (["--version"], ["-V"])


def main() -> None:
    """Run the command line of this process, and leave with its exit code."""
    if sys.argv[1:] not in VERSION:
        keep_asides()
    try:
        code = answer(sys.argv[1:])
    except KeyboardInterrupt:  # while the program was still being loaded, or just ended
        code = 130
    sys.exit(code)


def keep_asides() -> None:
    """From now on this process says nothing but what it says on purpose; for programs that are the command line.

    Python would print warnings, and errors that nobody waits for, with tracebacks and with the text of whoever wrote a
    document or an answer.  None of it is for the person at the terminal; what is an error is kept as a log.
    """
    import logging
    import threading
    import warnings

    class Kept(logging.Handler):
        """For libraries that log: errors are kept, everything else is theirs alone."""

        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info:
                _keep(record.exc_info[1])

    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    sys.unraisablehook = lambda about: _keep(about.exc_value)
    threading.excepthook = lambda about: _keep(about.exc_value)
    logging.getLogger().addHandler(Kept(logging.ERROR))


def _keep(error: BaseException | None) -> None:
    if error is not None:
        with suppress(Exception):  # Python itself may be shutting down
            from interlock.cli.failures import keep_log

            keep_log(error)


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

"""What Python would print beside our words: warnings, and errors that nobody waits for.

They come with tracebacks and with the text of whoever wrote a document or an answer.  None of it is for the person at
the terminal; what is an error is kept as a log.
"""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from contextlib import suppress


def keep_asides() -> None:
    """From now on this process says nothing but what it says on purpose; for programs that are the command line."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    sys.unraisablehook = lambda about: _keep(about.exc_value)
    threading.excepthook = lambda about: _keep(about.exc_value)
    logging.getLogger().addHandler(_Kept(logging.ERROR))


class _Kept(logging.Handler):
    """For libraries that log: errors are kept, everything else is theirs alone."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            _keep(record.exc_info[1])


def _keep(error: BaseException | None) -> None:
    if error is not None:
        with suppress(Exception):  # Python itself may be shutting down
            from interlock.cli.failures import keep_log

            keep_log(error)

"""The one place where an error becomes words, an exit code and, for bugs, a log that can be pasted (CLI-05)."""

from __future__ import annotations

import os
import platform
import sys
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import click

from interlock.cli.output import ReaderGone, complain, fill_standard_streams, flush, print_json, stands_in, tell
from interlock.errors import BadInput, EngineFault, Exit, InterlockError, Status, WorkspaceFailed

BROKEN_PIPE = 141


class Interrupted(InterlockError):
    exit_code = Exit.INTERRUPTED


def guarded(arguments: Sequence[str]) -> int:
    """Run the command line; whatever happens, the answer is an exit code and never a traceback."""
    fill_standard_streams()
    stands_in.set("")
    json = "--json" in (arguments[: arguments.index("--")] if "--" in arguments else arguments)
    try:
        return _answered(arguments, json=json)
    finally:
        flush()


def _answered(arguments: Sequence[str], *, json: bool) -> int:
    from interlock.cli.commands import app

    try:
        code = app.main(list(arguments), prog_name="interlock", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        complain(error.format_message())
        return int(Exit.INPUT)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        remedy = f"See: {context.command_path} --help" if context is not None else None
        return _known(BadInput(error.format_message(), remedy=remedy), json=json)
    except InterlockError as error:
        return _known(error, json=json, log=keep_log(error) if isinstance(error, EngineFault) else None)
    except (KeyboardInterrupt, click.Abort):
        return _known(Interrupted("Interrupted."), json=json)
    except ReaderGone:
        return BROKEN_PIPE
    except OSError as error:
        return _known(WorkspaceFailed.of(error), json=json)
    except Exception as error:  # noqa: BLE001 - the last line: a bug is said in one sentence, the rest is in the log
        what = f"interlock has a fault: {type(error).__name__}: {error}"
        return _known(EngineFault(what, remedy="Please report it, with this log."), json=json, log=keep_log(error))


def _known(error: InterlockError, *, json: bool, log: str | None = None) -> int:
    """The one JSON object, for a call that no run came of; and the words."""
    code = int(error.exit_code)
    if json:
        from interlock.engine.view import View

        status = next(status.value for status in Status if status.exit is error.exit_code)
        ended = {"status": status, "exit_code": code, "reason": error.what}
        about = error.to_json() | ({"log": log} if log else {})
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        print_json(View().to_json() | ended | {"finished_at": now, "error": about})
    for one in (error, *error.also):
        tell(*told(one))
    tell(*([f"  log: {log}"] if log else []))
    return code


def told(error: InterlockError) -> list[str]:
    """The error for people: what, then each known part on a line of its own; no further line passes for one of ours."""
    plain = error.what.startswith(("Error:", "ERROR:")) or isinstance(error, Interrupted)
    rows = [error.what if plain else f"Error: {error.what}"]
    for label, said in error.parts():
        rows.append(f"  {label}: {said}".replace("\n", "\n    "))
    return rows


def keep_log(error: BaseException) -> str:
    """Write the traceback where the user's programs keep such things; returns where."""
    try:
        base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        place = base / "interlock" / f"fault-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}-{os.getpid()}.log"
        about = f"interlock {version('interlock')}, Python {platform.python_version()}, {platform.platform()}\n\n"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(about + "".join(traceback.format_exception(error)), "utf-8", "backslashreplace")
    except (OSError, RuntimeError, ImportError) as failure:
        return f"(could not be written: {failure})"
    return str(place)

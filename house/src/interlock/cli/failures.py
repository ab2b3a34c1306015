"""The one place where an error becomes words, an exit code and, for bugs, a log that can be pasted (CLI-05)."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
import traceback
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from interlock.cli.output import ReaderGone, complain, fill_standard_streams, flush, print_json, tell
from interlock.errors import BadInput, EngineFault, Exit, InterlockError, Status, WorkspaceFailed

BROKEN_PIPE = 141


def guarded(arguments: Sequence[str]) -> int:
    """Run the command line; whatever happens, the answer is an exit code and never a traceback."""
    from interlock.cli.commands import app

    fill_standard_streams()
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    json = "--json" in options
    try:
        return _answered(app, arguments, json=json)
    finally:
        flush()


def _answered(app: click.Group, arguments: Sequence[str], *, json: bool) -> int:
    facts: dict[str, Any] = {"dir": ""}
    try:
        code = app.main(list(arguments), prog_name="interlock", standalone_mode=False, obj=facts)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        complain(error.format_message())
        return int(Exit.INPUT)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        remedy = f"See: {context.command_path} --help" if context is not None else None
        return _known(BadInput(error.format_message(), remedy=remedy), facts, json=json)
    except InterlockError as error:
        return _known(error, facts, json=json, log=keep_log(error) if isinstance(error, EngineFault) else None)
    except (KeyboardInterrupt, click.Abort):
        if json:
            print_json(_object(Exit.INTERRUPTED, {"what": "interrupted"}))
        complain("Interrupted.")
        return int(Exit.INTERRUPTED)
    except ReaderGone:
        return BROKEN_PIPE
    except OSError as error:
        return _known(WorkspaceFailed.of(error), facts, json=json)
    except Exception as error:  # noqa: BLE001 - the last line: a bug is said in one sentence, the rest is in the log
        what = f"interlock has a fault: {type(error).__name__}: {error}"
        fault = EngineFault(what, remedy="Please report it, with this log.")
        return _known(fault, facts, json=json, log=keep_log(error))


def _known(error: InterlockError, facts: Mapping[str, Any], *, json: bool, log: str | None = None) -> int:
    if json:
        print_json(_object(error.exit_code, error.to_json() | ({"log": log} if log else {})))
    for one in (error, *error.also):
        tell(*told(one, facts["dir"]))
    tell(*([f"  log: {log}"] if log else []))
    return int(error.exit_code)


def told(error: InterlockError, folder: str) -> list[str]:
    """The error for people: what, then each known part on a line of its own; no further line passes for one of ours."""
    rows = [error.what if error.what.startswith(("Error:", "ERROR:")) else f"Error: {error.what}"]
    for label, said in error.parts():
        rows.append(f"  {label}: {here(said, folder) if label == 'to do' else said}".replace("\n", "\n    "))
    return rows


def here(said: str, folder: str) -> str:
    """The text with its commands as they work from where the person is: the engine does not know of -C."""
    return _COMMAND.sub(f"interlock -C {shlex.quote(folder)} ", said) if folder else said


_COMMAND = re.compile(r"\binterlock (?=[a-z\"'])")


def _object(code: Exit, error: Mapping[str, Any]) -> dict[str, Any]:
    """The one JSON object, for a call that no run came of."""
    from interlock.engine.view import View

    return View().to_json() | {
        "status": next(status for status in Status if status.exit is code).value,
        "exit_code": int(code),
        "reason": error["what"],
        "finished_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "error": error,
    }


def keep_log(error: BaseException) -> str:
    """Write the traceback where the user's programs keep such things; returns where."""
    base = os.environ.get("XDG_STATE_HOME")
    now = datetime.now(UTC)
    try:
        from importlib.metadata import version

        folder = (Path(base) if base else Path.home() / ".local" / "state") / "interlock"
        place = folder / f"fault-{now:%Y%m%d-%H%M%S-%f}-{os.getpid()}.log"
        about = f"interlock {version('interlock')}, Python {platform.python_version()}, {platform.platform()}\n\n"
        folder.mkdir(parents=True, exist_ok=True)
        place.write_text(about + "".join(traceback.format_exception(error)), "utf-8", "backslashreplace")
    except (OSError, RuntimeError, ImportError) as failure:
        return f"(could not be written: {failure})"
    return str(place)

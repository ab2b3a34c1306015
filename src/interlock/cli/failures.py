"""The one place where an error becomes words, an exit code and, for bugs, a log that can be pasted."""

from __future__ import annotations

import io
import os
import platform
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from interlock import __version__
from interlock.cli.door import Errand
from interlock.cli.output import complain, envelope, fill_standard_streams, print_json, quiet
from interlock.errors import BadInput, EngineFault, InterlockError, Locked, WorkspaceFailed
from interlock.telemetry.fitting import COMMANDS
from interlock.telemetry.lines import harmless, indented

INTERRUPTED, BROKEN_PIPE, FAULT, USAGE = 130, 141, 5, 2
BROKEN = 2
"""What was looked at is not as it must be."""


class Interrupted(Exception):
    """Ctrl-C outside of a run. In our own words: typer would end the program before we can say it in JSON."""


class ReaderGone(Exception):
    """Whoever read our output has closed it. In our own words: typer would make it exit code 1, `degraded`."""


def guarded(arguments: Sequence[str]) -> int:
    """Run the command line; whatever happens, the answer is an exit code and never a traceback."""
    from interlock.cli.main import app

    fill_standard_streams()
    errand = Errand(json=any(word == "--json" or word.startswith("--fields") for word in _options(arguments)))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a locale without our characters is no fault
            stream.reconfigure(errors="backslashreplace")
    try:
        return _answered(app, arguments, errand)
    finally:
        _flush()


def _answered(app: typer.Typer, arguments: Sequence[str], errand: Errand) -> int:
    try:
        code = typer.main.get_command(app).main(
            list(arguments), prog_name="interlock", standalone_mode=False, obj=errand
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except typer.TyperException as error:
        return _usage(error, errand)
    except InterlockError as error:
        log = keep_log(error) if isinstance(error, EngineFault) else None
        return _known(error, errand, log)
    except (Interrupted, KeyboardInterrupt, typer.Abort):
        if errand.json:
            _print(failed(errand, "interrupted", INTERRUPTED, "interrupted", {"what": "interrupted"}))
        complain("Interrupted.")
        return INTERRUPTED
    except (ReaderGone, BrokenPipeError):
        quiet(sys.stdout, sys.stderr)
        return BROKEN_PIPE
    except OSError as error:
        return _known(WorkspaceFailed.of(error), errand, None)
    except (RecursionError, MemoryError, UnicodeError) as error:
        return _known(too_much(error), errand, keep_log(error))
    except Exception as error:  # noqa: BLE001 - the last line: a bug is said in one sentence, the rest is in the log
        return _fault(error, errand)


def too_much(error: Exception) -> InterlockError:
    """What is no bug of ours and was not said better where it came from: something odd that we were given."""
    remedy = "The log says where it was met. Then call interlock again: what is done is not done again."
    if isinstance(error, UnicodeError):
        return BadInput(f"a text is not valid Unicode: {error}", expected="UTF-8", remedy=remedy)
    if isinstance(error, MemoryError):
        return WorkspaceFailed("there is not enough memory", remedy="Free some memory. " + remedy)
    return BadInput(
        "something is nested too deeply", expected="documents and answers with at most 100 levels", remedy=remedy
    )


def _print(value: Mapping[str, Any]) -> None:
    """The one JSON object; where stdout itself is what failed, stderr has the words all the same."""
    with suppress(OSError):
        print_json(value)


def _flush() -> None:
    """Say what is still to be said now; later, when Python shuts down, it would be an error of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            quiet(stream)


def _options(arguments: Sequence[str]) -> Sequence[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _usage(error: typer.TyperException, errand: Errand) -> int:
    """A command line that cannot be understood; typer's own words, with its hint at --help."""
    code = int(getattr(error, "exit_code", USAGE))
    if type(error).__name__ == "NoArgsIsHelpError":  # the help was the message
        return code
    if errand.json:
        _print(failed(errand, "invalid", code, error.format_message(), {"what": error.format_message()}))
    context = getattr(error, "ctx", None)
    hint = [f"  to do: see {context.command_path} --help"] if context is not None else []
    complain(f"Error: {error.format_message()}", *hint)
    return code


def _known(error: InterlockError, errand: Errand, log: Path | str | None) -> int:
    parts = dict(error.parts())
    if log is not None:
        parts["log"] = str(log)
    if errand.json:
        facts: dict[str, Any] = {"what": error.what, **parts}
        if isinstance(error, Locked) and error.holder:
            facts["holder"] = error.holder
        if error.also:
            facts["also"] = [{"what": other.what, **dict(other.parts())} for other in error.also]
        _print(failed(errand, STATUS_OF.get(error.exit_code, "failed"), error.exit_code, error.what, facts))
    complain(*told(error.what, parts, errand))
    for other in error.also:
        complain(*told(other.what, dict(other.parts()), errand))
    return error.exit_code


def here(text: str, errand: Errand) -> str:
    """The text with its commands as they work from where the person is: the engine does not know of -C."""
    return _COMMAND.sub(f"interlock{errand.place} ", text) if errand.place else text


_COMMAND = re.compile(rf"\binterlock (?=(?:{'|'.join(COMMANDS)})\b)")


def told(what: str, parts: Mapping[str, str], errand: Errand | None = None) -> list[str]:
    """The error for people: what, then each known part on a line of its own."""
    if errand is not None:
        parts = {label: here(text, errand) if label == "to do" else text for label, text in parts.items()}
    headline = what if what.startswith(("Error:", "ERROR:")) else f"Error: {what}"
    rows = (headline, *(f"  {label}: {indented(text, '    ')}" for label, text in parts.items()))
    return [harmless(row) for row in rows]


def _fault(error: Exception, errand: Errand) -> int:
    what = f"interlock has a fault: {type(error).__name__}: {error}"
    parts = {"log": str(keep_log(error)), "to do": "Please report it, with this log."}
    if errand.json:
        _print(failed(errand, "failed", FAULT, what, {"what": what, **parts}))
    complain(what, *(f"  {label}: {text}" for label, text in parts.items()))
    return FAULT


STATUS_OF = {2: "invalid", 3: "stopped", 5: "failed", 6: "locked", 130: "interrupted"}


def failed(errand: Errand, status: str, code: int, reason: str, error: Mapping[str, Any]) -> dict[str, Any]:
    """The one JSON object, for a call that ended in an error."""
    return envelope(
        errand,
        status=status,
        exit_code=code,
        reason=reason,
        finished_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        error=dict(error),
    )


def keep_log(error: BaseException) -> Path | str:
    """Write the traceback where the user's programs keep such things; returns where."""
    base = os.environ.get("XDG_STATE_HOME")
    folder = (Path(base) if base else Path.home() / ".local" / "state") / "interlock"
    now = datetime.now(UTC)
    place = folder / f"fault-{now:%Y%m%d-%H%M%S-%f}-{os.getpid()}.log"
    text = "".join(traceback.format_exception(error))
    about = f"interlock {__version__}, Python {platform.python_version()}, {platform.platform()}\n{now.isoformat()}\n\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        place.write_text(about + text, "utf-8", "backslashreplace")
    except OSError as failure:
        return f"(could not be written: {failure})"
    return place

"""Who is away hears how a run stands, from whatever command: a command of theirs, a collector (PERSON-06, PAGE-06).

The command gets the run as JSON on its standard input, from a file: one that reads nothing blocks nobody.  It has a
session of its own and ten seconds; whatever it does, the run is not touched by it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from interlock.agents.environment import without_our_own
from interlock.cli.door import Door
from interlock.cli.trusting import settings_count
from interlock.engine.runs import Entry
from interlock.engine.view import View
from interlock.errors import InterlockError, Status

PATIENCE_S = 10.0


class Away:
    """Whoever `[notify]` and `[telemetry]` name; nothing that goes wrong there keeps anybody from anything."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._told: tuple[str, int] | None = None

    def hears(self, entry: Entry, view: View, *, ends: bool = True) -> list[str]:
        """Why what was not told; a gate is told of once.

        Args:
            ends: this process is done with the run; else a gate is asked here, and nobody may sit at the terminal.
        """
        try:
            settings = self._door.place.settings
            if settings.notify.command is None and settings.telemetry.otlp is None:
                return []
            settings_count(self._door)
            return list(self._tell(entry, view, ends))
        except InterlockError as error:
            return [f"Nobody away is told: {error.what}"]

    def _tell(self, entry: Entry, view: View, ends: bool) -> Iterator[str]:
        settings, gate = self._door.place.settings, (view.gate.key, view.gate.opening) if view.gate else None
        theirs = ends and view.status_now(worked_on=False) is Status.INTERRUPTED  # that is no news to them
        news = not theirs and (gate is None or gate != self._told)
        if settings.notify.command is not None and news:
            self._told = gate
            run = view.to_json(output=entry.output(view).decode("utf-8", "replace"))
            run |= {} if ends else {"status": Status.WAITING.value, "exit_code": int(Status.WAITING.exit)}
            if gate and settings.web.address:
                run["gate"]["url"] = f"{settings.web.address.rstrip('/')}/runs/{view.run}"
            if why := notify(settings.notify.command, json.dumps(run), self._door.workspace.top):
                yield f"[notify] command: {why}"
        if settings.telemetry.otlp is not None and ends and (why := _sent(settings.telemetry.otlp, view)):
            yield f"[telemetry] otlp: {why}"


def notify(command: Sequence[str], run: str, top: Path, patience_s: float = PATIENCE_S) -> str:
    """Give it the run; why that did not work, or nothing."""
    theirs = without_our_own(os.environ, top)
    kept = {name: value for name, value in theirs.items() if not name.startswith("INTERLOCK_")}
    quiet = subprocess.DEVNULL
    with tempfile.TemporaryFile() as facts:
        facts.write(run.encode())
        facts.seek(0)
        try:
            told = subprocess.Popen(
                command, stdin=facts, stdout=quiet, stderr=quiet, cwd=top, env=kept, start_new_session=True
            )
        except OSError as error:
            return f"it cannot be started: {error.strerror or error}"
        code = None
        with suppress(subprocess.TimeoutExpired):
            code = told.wait(patience_s)
        with suppress(ProcessLookupError):  # what it left behind goes, too
            os.killpg(told.pid, signal.SIGKILL)
        told.wait()
    return "" if code == 0 else "it was not done in its time" if code is None else f"it ended with {code}"


def _sent(address: str, view: View) -> str:
    try:
        from interlock.traces import send
    except ImportError:
        return "what sends traces is not installed: pip install 'interlock[otel]'"
    return send(address, view)

"""Who is away hears how a run stands, from whatever command: notices and traces (PERSON-06, PAGE-06)."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.cli.door import Door
from interlock.cli.trusting import settings_count
from interlock.engine.runs import Entry
from interlock.engine.view import View
from interlock.errors import InterlockError
from interlock.settings import Settings


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
            return list(self._tell(settings, view, entry.output(view).decode("utf-8", "replace"), ends=ends))
        except InterlockError as error:
            return [f"Nobody away is told: {error.what}"]

    def _tell(self, settings: Settings, view: View, output: str, *, ends: bool) -> Iterator[str]:
        gate = (view.gate.key, view.gate.opening) if view.gate else None
        if settings.notify.command is not None and (gate is None or gate != self._told):
            from interlock.notices import notify

            self._told = gate
            top, address = self._door.workspace.top, settings.web.address
            if why := notify(settings.notify.command, top, view, address=address, output=output):
                yield f"[notify] command: {why}"
        if settings.telemetry.otlp is not None and ends and (why := _sent(settings.telemetry.otlp, view)):
            yield f"[telemetry] otlp: {why}"


def _sent(address: str, view: View) -> str:
    try:
        from interlock.traces import send
    except ImportError:
        return "what sends traces is not installed: pip install 'interlock[otel]'"
    return send(address, view)

"""Who is away hears how a run stands, from whatever command: notices and traces (PERSON-06, PAGE-06)."""

from __future__ import annotations

from interlock.cli.door import Door
from interlock.cli.output import complain
from interlock.cli.trusting import settings_count
from interlock.engine.runs import Entry
from interlock.engine.view import View
from interlock.errors import InterlockError


class Away:
    """Whoever `[notify]` and `[telemetry]` name; nothing that goes wrong there keeps anybody from anything."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._told: tuple[str, int] | None = None

    def asks(self, entry: Entry, view: View) -> str:
        """A gate is asked at this terminal, and nobody may sit there; why that was not told, or nothing."""
        assert view.gate is not None
        self._told = view.gate.key, view.gate.opening
        return self._hears(entry, view, ends=False)

    def ends(self, entry: Entry, view: View) -> None:
        """This process is done with the run; a gate that was told of is told of once."""
        if why := self._hears(entry, view, ends=True):
            complain(why)

    def _hears(self, entry: Entry, view: View, *, ends: bool) -> str:
        try:
            settings = self._door.place.settings
            if settings.notify.command is None and settings.telemetry.otlp is None:
                return ""
            settings_count(self._door)
            output = entry.output(view).decode("utf-8", "replace")
        except InterlockError as error:
            return f"Nobody away is told: {error.what}"
        known = ends and view.gate is not None and self._told == (view.gate.key, view.gate.opening)
        said = []
        if settings.notify.command is not None and not known:
            from interlock.notices import notify

            top, address = self._door.workspace.top, settings.web.address
            why = notify(settings.notify.command, top, view, address=address, output=output)
            said.append(f"[notify] command: {why}" if why else "")
        if settings.telemetry.otlp is not None and ends:
            why = _sent(settings.telemetry.otlp, view)
            said.append(f"[telemetry] otlp: {why}" if why else "")
        return "\n".join(filter(None, said))


def _sent(address: str, view: View) -> str:
    try:
        from interlock.traces import send
    except ImportError:
        return "what sends traces is not installed: pip install 'interlock[otel]'"
    return send(address, view)

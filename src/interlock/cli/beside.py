"""Who else hears of a run, beside the person who watches: whoever is to be called, and a collector of traces.

They hear what the journal says.  None of them can touch the run: one that fails is told, once, and hears no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from interlock import __version__
from interlock.cli.notices import Notices
from interlock.errors import ConfigInvalid

if TYPE_CHECKING:
    from interlock.agents import AgentNews
    from interlock.cli.door import Door
    from interlock.cli.progress import PlainView
    from interlock.engine.identity import Identity
    from interlock.engine.journal import Line
    from interlock.telemetry.traces import Traces


class Listener(Protocol):
    """Somebody who hears the lines that a process adds to a journal."""

    def line(self, line: Line) -> None: ...

    def close(self) -> str | None:
        """The process is done with the run; what is to be said about it, if anything."""
        ...


class HeardView:
    """A view that passes everything on, and tells the lines to whom the settings name."""

    def __init__(self, door: Door, view: PlainView) -> None:
        self._door, self._view = door, view
        self._listeners: list[Listener] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._part()

    def begin(self, identity: Identity, lines: list[Line], *, resumed: bool) -> None:
        self.turn_to(identity, lines)
        self._view.begin(identity, lines, resumed=resumed)

    def turn_to(self, identity: Identity, lines: list[Line]) -> None:
        """From now on it is this run that is heard of, with what happened in it before."""
        self._part()  # a run that ends in here may be followed by another
        self._listeners = list(self._named(identity, lines))

    def line(self, line: Line) -> None:
        self._view.line(line)
        for listener in tuple(self._listeners):
            try:
                listener.line(line)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is not the run's
                self._listeners.remove(listener)
                self._view.remark(f"{type(listener).__name__.lower()} hear no more of this run: {error}")

    def news(self, key: str, news: AgentNews) -> None:
        self._view.news(key, news)

    def say(self, text: str | bytes) -> None:
        self._view.say(text)

    def remark(self, text: str) -> None:
        self._view.remark(text)

    def _named(self, identity: Identity, lines: list[Line]) -> Iterator[Listener]:
        settings = self._door.setup.settings
        yield Notices(self._door, identity, settings.notify, self._view.remark)
        if url := settings.telemetry.otlp:
            yield _traces(url, identity, lines)

    def _part(self) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            if said := listener.close():
                self._view.remark(f"[telemetry] otlp: {said}")


def _traces(url: str, identity: Identity, lines: list[Line]) -> Traces:
    try:
        from interlock.telemetry.traces import Traces
    except ImportError as missing:
        raise ConfigInvalid(
            f"traces need OpenTelemetry: {missing}",
            where="telemetry.otlp",
            remedy="Install interlock with its extra, interlock[otel], or leave the setting out.",
        ) from missing
    traces = Traces(url, run_id=identity.run_id, playbook=identity.playbook, key=identity.key, version=__version__)
    traces.begin(lines)
    return traces

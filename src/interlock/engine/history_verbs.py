"""What a playbook can learn of its own run: the facts of its dispatches, and logs that are made from the journal.

Such a log is a projection, completed by sequence number: no line is lost or doubled (EN-12).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from interlock.engine.journal import Line
from interlock.engine.recording import Recording
from interlock.telemetry import dispatch_rows

Render = Callable[[Line], Mapping[str, Any] | None]
"""What a journal line looks like in the log; None when it does not belong there. Pure."""


class HistoryVerbs:
    """The run so far."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def dispatches(self) -> Sequence[dict[str, Any]]:
        """The facts of all dispatches so far."""
        slot = self._recording.recall("telemetry", {})
        if slot.recorded:
            return list(slot.value())
        rows = dispatch_rows(self._recording.journal.lines)
        slot.settle("telemetry", rows)
        return rows

    async def project(self, path: str, render: Render) -> None:
        """Bring a log up to date with the journal; `render` says what each line looks like there, or None."""
        slot = self._recording.recall("project", {"path": path})
        if slot.recorded:
            return
        self._recording.materialize()
        documents = self._recording.world.documents
        before = documents.read(path)
        log = completed(before.text, self._recording.journal.lines, render)
        if log != before.text:
            self._recording.effect()
            documents.write(path, log, expect=before.digest)
        slot.settle("project", len(log))


def completed(log: str, lines: Iterable[Line], render: Render) -> str:
    """The log with every line that it lacks. What a person or another run wrote before stays as it is."""
    shown, last = log, last_number(log)
    if shown and not shown.endswith("\n"):
        shown += "\n"
    for line in lines:
        if line.seq > last.get(line.run, 0) and (entry := render(line)) is not None:
            shown += _spelled({"seq": line.seq, "run": line.run, **entry}) + "\n"
    return shown


def _spelled(entry: Mapping[str, Any]) -> str:
    text = json.dumps(entry, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a file's name that is not UTF-8 can only be written as an escape
        return json.dumps(entry)
    return text


def last_number(log: str) -> dict[str, int]:
    """The highest number that the log has of each run; lines that are not ours do not count."""
    last: dict[str, int] = {}
    for text in log.splitlines():
        try:
            entry = json.loads(text)
            run, number = entry["run"], entry["seq"]
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
        if isinstance(run, str) and isinstance(number, int):
            last[run] = max(last.get(run, 0), number)
    return last

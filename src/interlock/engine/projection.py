"""Logs that are projections of the journal, completed by sequence number: no line is lost or doubled (EN-12)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from interlock.engine.journal import Line

Render = Callable[[Line], Mapping[str, Any] | None]
"""What a journal line looks like in the log; None when it does not belong there. Pure."""


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

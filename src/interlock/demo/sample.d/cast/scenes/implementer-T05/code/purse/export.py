"""CSV for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from purse.cells import guarded
from purse.entries import Entry

HEADER = ("day", "amount", "text")


def csv_text(entries: Iterable[Entry]) -> str:
    """A header and one line per entry."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for entry in entries:
        writer.writerow((entry.day.isoformat(), entry.amount, guarded(entry.text)))
    return out.getvalue()

"""`show --html FILE`: the page of a run as one file, from the same templates (PAGE-03)."""

from __future__ import annotations

from pathlib import Path

from interlock.cli.door import Door
from interlock.documents.files import replace
from interlock.engine.runs import Entry
from interlock.errors import WorkspaceFailed
from interlock.web.rendering import render
from interlock.web.run import run_page
from interlock.web.shelf import Shelf


def write(door: Door, entry: Entry, file: Path) -> None:
    """A file is replaced as a whole; into what is none, a pipe or a terminal, it streams."""
    page = render("run", None, whole=True, **run_page(Shelf(door.folder), entry, whole=True))
    place = door.folder / file
    try:
        if place.exists() and not place.is_file():
            place.write_text(page, "utf-8", "backslashreplace")
        else:
            replace(place, page.encode("utf-8", "backslashreplace"), mode=0o644)
    except OSError as error:
        raise WorkspaceFailed.of(error, "the page cannot be written", where=str(file)) from error

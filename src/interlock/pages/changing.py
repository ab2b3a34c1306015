"""What a run changed, for whoever is to approve it: every file is named, and where lines are missing that is said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from interlock.documents.files import read_plain
from interlock.engine.changes import FileChange, run_changes
from interlock.engine.folder import KnownRun
from interlock.engine.journal import Line
from interlock.engine.objects import unpack
from interlock.errors import InterlockError
from interlock.pages.diffs import DiffSummary, changed_files, read_patch
from interlock.pages.shelf import Shelf

MOST_PATCH = 32_000_000
"""Bytes of the patch of a dispatch that are read."""


@dataclass(frozen=True)
class ShownChanges:
    """The changes of a run."""

    code: DiffSummary
    papers: tuple[FileChange, ...] = ()
    """Documents that agents changed."""
    documents: tuple[str, ...] = ()
    besides: tuple[str, ...] = ()
    """What else came into the tree, in a line each."""


def shown_changes(shelf: Shelf, known: KnownRun, lines: Sequence[Line]) -> ShownChanges:
    """The changes; where they cannot be put together, those of each dispatch as it was recorded."""
    try:
        found = run_changes(known.folder, lines, shelf.documents(known.identity), literal=False)
    except InterlockError as error:
        return ShownChanges(_recorded(known, lines, f"What the run changed cannot be put together ({error.what})."))
    files = changed_files((*found.code, *found.documentation))
    return ShownChanges(DiffSummary(files), found.papers, found.documents, found.besides)


def whole_patch(shelf: Shelf, known: KnownRun) -> bytes:
    """All that a run changed, for ``git apply``."""
    return run_changes(known.folder, known.folder.lines(), shelf.documents(known.identity)).patch


def _recorded(known: KnownRun, lines: Sequence[Line], problem: str) -> DiffSummary:
    """What each dispatch changed, one after the other."""
    ends = {str(line.key): line for line in lines if line.event == "dispatch.end" and line.data.get("changes")}
    files = [file for key, end in ends.items() for file in recorded_patch(known, key, _paths(known, end)).files]
    return DiffSummary(tuple(files), f"{problem} This is what each dispatch changed, taken over or not.")


def _paths(known: KnownRun, end: Line) -> Sequence[str]:
    try:
        return [str(path) for path in unpack(end.data["out"], known.folder.objects)["changes"]]
    except (InterlockError, OSError, LookupError, ValueError, TypeError):
        return ()


def recorded_patch(known: KnownRun, key: str, paths: Iterable[str]) -> DiffSummary:
    """The changes of a dispatch as its records have them.

    Args:
        paths: what it is known to have changed; each of them is listed.
    """
    place = known.folder.folder(key) / "changes.patch"
    try:
        patch = read_plain(place, limit=MOST_PATCH + 1)
    except OSError:
        patch = b""
    whole = len(patch) <= MOST_PATCH
    files = read_patch(patch if whole else patch[: patch.rfind(b"\n") + 1])
    told = {file.path for file in files}
    more = changed_files(FileChange(path, None, None) for path in paths if path not in told)
    return DiffSummary((*files, *more), "" if whole else f"Only the first {MOST_PATCH:,} bytes are here: {place}")

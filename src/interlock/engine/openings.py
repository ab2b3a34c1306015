"""What a person who is asked at a gate is shown: what was done since, each document as it is and as it was before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from interlock.documents import FileFacts, Store
from interlock.engine.folder import HOME, RunFolder
from interlock.engine.journal import Line
from interlock.errors import InterlockError
from interlock.telemetry import is_good


@dataclass(frozen=True)
class SinceAsked:
    """What happened since a person was last asked."""

    said: str = ""
    """How many were called, in a line; empty where nobody was."""
    judged: tuple[Line, ...] = ()
    """Verdicts and failures among it, the latest last."""


def since_asked(lines: Sequence[Line]) -> SinceAsked:
    asked = [number for number, line in enumerate(lines) if line.event == "gate.decided"]
    ends = [line for line in lines[asked[-1] if asked else 0 :] if line.event == "dispatch.end"]
    if not ends:
        return SinceAsked()
    good = sum(is_good(line.data) for line in ends)
    bad = f", {len(ends) - good} not" if good < len(ends) else ""
    called = f"{len(ends)} {'dispatch' if len(ends) == 1 else 'dispatches'}"
    judged = (line for line in ends if line.data.get("passed") is not None or not is_good(line.data))
    return SinceAsked(
        f"since {'the last decision' if asked else 'the start'}: {called}, {good} well{bad}", tuple(judged)
    )


def document(folder: RunFolder, path: str) -> FileFacts:
    """A document as the run has it: in this workspace or, of a run that is elsewhere, as it was seen there.

    Nothing for a path that leads out of the workspace.
    """
    note = folder.elsewhere()
    try:
        if note is None or note.documents is None:
            return Store(folder.root, folder.root / HOME / "attic").facts(path)
        if path not in note.documents:
            return FileFacts(path, exists=False, problem=f"It is where the run is: interlock fetch {folder.run_id}")
        if not (digest := note.documents[path]):
            return FileFacts.absent(path)
        content = folder.objects.get(digest)
    except InterlockError as error:
        return FileFacts(path, exists=False, problem=error.what)
    size = len(content)
    return FileFacts(path, exists=True, plain=True, readable=True, size=size, digest=digest, content=content)


def shown_before(
    folder: RunFolder, lines: Sequence[Line], gate: str, digests: Mapping[str, str], path: str
) -> bytes | None:
    """A document as an earlier opening of the gate showed it, where it is still known.

    Args:
        digests: what the present opening shows.
    """
    same = [line for line in lines if line.event == "gate.opened" and line.data["gate"] == gate]
    decided = max((line.seq for line in lines if line.event == "gate.decided" and line.data["gate"] == gate), default=0)
    # The present opening may be there more than once; whoever decided saw what was shown before that.
    known = [line.data["digests"] for line in same if line.seq < decided or line.data["digests"] != digests]
    seen = [shown[path] for shown in known if path in shown]
    if not seen or not seen[-1]:
        return None
    try:
        return document(folder, path).content if seen[-1] == digests[path] else folder.objects.get(seen[-1])
    except (InterlockError, OSError, LookupError):
        return None

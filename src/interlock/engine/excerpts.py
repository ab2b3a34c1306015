"""Looking at a document, or changing it, without recording the whole of it (EN-08).

A roadmap of 640 KB is read and rewritten thousands of times in one run, and no two versions of it are equal.  `look`
records what a pure function found in the document, `edit` what a pure change did to it; the document itself stays
where it is.  Replay gives back what was found and told then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interlock.documents import Document, EditedMeanwhile
from interlock.engine.keys import sha256
from interlock.engine.objects import pack, unpack

if TYPE_CHECKING:
    from interlock.engine.recording import Recording
    from interlock.engine.slot import Slot


@dataclass(frozen=True)
class Edit:
    """What a change makes of a document."""

    content: bytes | None
    """The new bytes; None leaves the document as it is."""
    told: Any
    """What was done, as JSON data: all that is recorded of it."""


async def look(run: Recording, path: str, view: Callable[[Document], Any]) -> Any:
    slot = run.recall("look", {"path": path})
    objects = run.world.records.objects
    if slot.recorded:
        return unpack(slot.value()["found"], objects)
    document = await run.world.patiently(lambda: run.world.documents.read(path))
    found = view(document)
    slot.settle("read", {"path": path, "digest": document.digest, "found": pack(found, objects)})
    return found


async def edit(run: Recording, path: str, what: Any, change: Callable[[Document], Edit], *, tries: int) -> Any:
    slot = run.recall("edit", {"path": path, "what": what})
    documents, objects = run.world.documents, run.world.records.objects
    if slot.recorded:
        return unpack(slot.value()["told"], objects)
    intent = slot.intent("write.intent")
    if intent is not None and documents.facts(path).digest == intent.data["digest"]:
        return _settled(run, slot, path, intent.data["digest"], intent.data["before"], intent.data["told"])
    for left in reversed(range(tries)):
        document = await run.world.patiently(lambda: documents.read(path))
        made = change(document)
        if made.content is None:
            slot.settle("edit", {"path": path, "told": pack(made.told, objects)})
            return made.told
        digest = sha256(made.content)
        run.materialize()
        slot.append("write.intent", {"path": path, "digest": digest, "before": document.digest, "told": made.told})
        run.journal.tripwire("effect")
        try:
            written = documents.write(path, made.content, expect=document.digest)
        except EditedMeanwhile:
            if not left:
                raise
            continue
        return _settled(run, slot, path, digest, written.before, made.told)
    raise AssertionError("a change is tried at least once")


def _settled(run: Recording, slot: Slot, path: str, digest: str, before: str, told: Any) -> Any:
    packed = pack(told, run.world.records.objects)
    slot.settle("write", {"path": path, "digest": digest, "before": before, "told": packed})
    return told

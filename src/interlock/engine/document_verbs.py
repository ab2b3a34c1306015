"""What `Run` does with documents of the workspace: read as they are, written whole, set aside instead of deleted.

A roadmap of 640 KB is read and rewritten thousands of times in one run, and no two versions of it are equal.  So there
are two ways of reading and of changing.  `read` and `update` record the document; `view` records what a pure function
found in it, `edit` what a pure change did to it, and the document itself stays where it is (EN-08).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from interlock.documents import Document, DocumentState, EditedMeanwhile, Written
from interlock.engine.keys import sha256
from interlock.engine.objects import pack, unpack
from interlock.engine.recording import Recording, Slot
from interlock.errors import DocumentInvalid

T = TypeVar("T")
TRIES = 10
"""How often a change is made over when a person edits the file in between."""


@dataclass(frozen=True)
class Edit:
    """What a change makes of a document."""

    content: bytes | None
    """The new bytes; None leaves the document as it is."""
    told: Any
    """What was done, as JSON data: all that is recorded of it."""


class DocumentVerbs:
    """Documents of the workspace, recorded; `Run` says what each verb does."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._world = recording.world

    async def read(self, path: str) -> Document:
        slot = self._recording.recall("read", {"path": path})
        if not slot.recorded:
            slot.settle("read", (await self._now(path)).to_json())
        return Document.from_json(slot.value())

    async def view(self, path: str, view: Callable[[Document], T]) -> T:
        slot = self._recording.recall("look", {"path": path})
        objects = self._world.records.objects
        if slot.recorded:
            recorded: T = unpack(slot.value()["found"], objects)
            return recorded
        document = await self._now(path)
        found = view(document)
        slot.settle("read", {"path": path, "digest": document.digest, "found": pack(found, objects)})
        return found

    async def _now(self, path: str) -> Document:
        return await self._world.patiently(lambda: self._world.documents.read(path))

    async def write(self, path: str, content: str | bytes, *, expect: str | None = None) -> Written:
        raw = encoded(path, content)
        digest = sha256(raw)
        slot = self._recording.recall("write", {"path": path, "content": digest})
        if slot.recorded:
            value = slot.value()
            if "conflict" in value:
                raise EditedMeanwhile(path, **value["conflict"])
            return Written(path, value["digest"], value["before"])
        self._recording.materialize()
        facts = self._world.documents.facts(path)
        if (intent := slot.intent("write.intent")) and facts.digest == digest:
            written = Written(path, digest, intent.data["before"])
        else:
            if intent is None:
                slot.append("write.intent", {"path": path, "digest": digest, "before": facts.digest or ""})
            self._recording.effect()
            try:
                written = self._world.documents.write(path, raw, expect=expect)
            except EditedMeanwhile as edit:
                slot.settle(
                    "write", {"conflict": {"expected_digest": edit.expected_digest, "found_digest": edit.found_digest}}
                )
                raise
        slot.settle("write", {"path": path, "digest": digest, "before": written.before})
        return written

    async def write_anew(self, path: str, content: str | bytes) -> Written:
        while True:
            if (await self.read(path)).state is not DocumentState.MISSING:
                await self.set_aside(path)
            try:
                return await self.write(path, content, expect="")
            except EditedMeanwhile:
                continue

    async def update(self, path: str, change: Callable[[Document], str]) -> Document:
        for left in reversed(range(TRIES)):
            document = await self.read(path)
            try:
                await self.write(path, document.encode(change(document)), expect=document.digest)
                return document
            except EditedMeanwhile:
                if not left:
                    raise
        raise AssertionError("a change is tried at least once")

    async def edit(self, path: str, change: Callable[[Document], Edit], what: Any) -> Any:
        slot = self._recording.recall("edit", {"path": path, "what": what})
        documents, objects = self._world.documents, self._world.records.objects
        if slot.recorded:
            return unpack(slot.value()["told"], objects)
        intent = slot.intent("write.intent")
        if intent is not None and documents.facts(path).digest == intent.data["digest"]:
            return self._edited(slot, path, intent.data["digest"], intent.data["before"], intent.data["told"])
        for left in reversed(range(TRIES)):
            document = await self._now(path)
            made = change(document)
            if made.content is None:
                slot.settle("edit", {"path": path, "told": pack(made.told, objects)})
                return made.told
            digest = sha256(made.content)
            self._recording.materialize()
            slot.append("write.intent", {"path": path, "digest": digest, "before": document.digest, "told": made.told})
            self._recording.effect()
            try:
                written = documents.write(path, made.content, expect=document.digest)
            except EditedMeanwhile:
                if not left:
                    raise
                continue
            return self._edited(slot, path, digest, written.before, made.told)
        raise AssertionError("a change is tried at least once")

    def _edited(self, slot: Slot, path: str, digest: str, before: str, told: Any) -> Any:
        packed = pack(told, self._world.records.objects)
        slot.settle("write", {"path": path, "digest": digest, "before": before, "told": packed})
        return told

    async def list(self, folder: str, pattern: str) -> list[str]:
        slot = self._recording.recall("list", {"folder": folder, "pattern": pattern})
        if not slot.recorded:
            slot.settle("list", await self._world.patiently(lambda: self._world.documents.list(folder, pattern)))
        return list(slot.value())

    async def set_aside(self, path: str) -> str:
        slot = self._recording.recall("set_aside", {"path": path})
        if not slot.recorded:
            documents = self._world.documents
            self._recording.materialize()
            if (intent := slot.intent("set_aside.intent")) is not None:
                destination = intent.data["destination"]
            else:
                destination = documents.place_aside(path, f"{self._recording.identity.run_id}/{slot.key}")
                slot.append("set_aside.intent", {"path": path, "destination": destination})
            self._recording.effect()
            documents.set_aside_to(path, destination)
            slot.settle("set_aside", destination)
        return str(slot.value())


def encoded(path: str, content: str | bytes) -> bytes:
    """The bytes of a document; text that is none in UTF-8 is refused."""
    try:
        return content.encode("utf-8") if isinstance(content, str) else content
    except UnicodeEncodeError as error:
        raise DocumentInvalid(
            f"{path} cannot be written: {error.reason}", path=path, expected="text in UTF-8"
        ) from error

"""The verbs that read and write the workspace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from typing import Any

from interlock.documents import Document, DocumentState, EditedMeanwhile, Written
from interlock.engine import excerpts
from interlock.engine.excerpts import Edit
from interlock.engine.keys import sha256
from interlock.engine.model import Changed
from interlock.engine.projection import Render, completed
from interlock.engine.recording import Recording
from interlock.errors import DocumentInvalid
from interlock.workspace import Scope as PathScope


class DocumentVerbs(Recording):
    """Documents are read as they are, written whole, and set aside instead of deleted."""

    async def read(self, path: str) -> Document:
        """A document of the workspace as it is now; a missing one is a value, not an error."""
        slot = self.recall("read", {"path": path})
        if slot.recorded:
            return Document.from_json(slot.value())
        document = await self.world.patiently(lambda: self.world.documents.read(path))
        slot.settle("read", document.to_json())
        return document

    async def write(self, path: str, content: str | bytes, *, expect: str | None = None) -> Written:
        """Write a document whole, atomically; with `expect`, only over a file that still has that digest (EN-23)."""
        raw = encoded(path, content)
        digest = sha256(raw)
        slot = self.recall("write", {"path": path, "content": digest})
        if slot.recorded:
            value = slot.value()
            if "conflict" in value:
                raise EditedMeanwhile(path, **value["conflict"])
            return Written(path, value["digest"], value["before"])
        self.materialize()
        facts = self.world.documents.facts(path)
        if (intent := slot.intent("write.intent")) and facts.digest == digest:
            written = Written(path, digest, intent.data["before"])
        else:
            if intent is None:
                slot.append("write.intent", {"path": path, "digest": digest, "before": facts.digest or ""})
            self.effect()
            try:
                written = self.world.documents.write(path, raw, expect=expect)
            except EditedMeanwhile as edit:
                slot.settle(
                    "write", {"conflict": {"expected_digest": edit.expected_digest, "found_digest": edit.found_digest}}
                )
                raise
        slot.settle("write", {"path": path, "digest": digest, "before": written.before})
        return written

    async def update(self, path: str, change: Callable[[Document], str], *, tries: int = 10) -> Document:
        """Read, change, write: repeated when a person edited the file in between, so that no edit is lost."""
        for _ in range(tries - 1):
            document = await self.read(path)
            try:
                await self.write(path, document.encode(change(document)), expect=document.digest)
                return document
            except EditedMeanwhile:
                continue
        document = await self.read(path)
        await self.write(path, document.encode(change(document)), expect=document.digest)
        return document

    async def write_anew(self, path: str, content: str | bytes) -> None:
        """Write a document of which nothing remains as it was: what is there, or comes meanwhile, is set aside."""
        while True:
            if (await self.read(path)).state is not DocumentState.MISSING:
                await self.set_aside(path)
            try:
                await self.write(path, content, expect="")
                return
            except EditedMeanwhile:
                continue

    async def look(self, path: str, view: Callable[[Document], Any]) -> Any:
        """What a pure function finds in a document as it is now, as JSON data. Only that is recorded: for documents
        that are large and looked at often."""
        return await excerpts.look(self, path, view)

    async def edit(self, path: str, what: Any, change: Callable[[Document], Edit], *, tries: int = 10) -> Any:
        """Change a document; `what` names the change (JSON data, for the digest), and what it told is returned.

        Repeated when a person edited the file in between, so that no edit is lost. The document is not recorded.
        """
        return await excerpts.edit(self, path, what, change, tries=tries)

    async def project(self, path: str, render: Render) -> None:
        """Bring a log up to date with the journal; `render` says what each line looks like there, or None."""
        slot = self.recall("project", {"path": path})
        if slot.recorded:
            return
        self.materialize()
        before = self.world.documents.read(path)
        log = completed(before.text, self.journal.lines, render)
        if log != before.text:
            self.effect()
            self.world.documents.write(path, log, expect=before.digest)
        slot.settle("project", len(log))

    async def list(self, folder: str, pattern: str = "*") -> list[str]:
        """The files of a folder, sorted, as workspace-relative paths."""
        slot = self.recall("list", {"folder": folder, "pattern": pattern})
        if slot.recorded:
            return list(slot.value())
        paths = await self.world.patiently(lambda: self.world.documents.list(folder, pattern))
        slot.settle("list", paths)
        return paths

    async def set_aside(self, path: str) -> str:
        """Move a file to the attic; returns where it is now."""
        slot = self.recall("set_aside", {"path": path})
        if slot.recorded:
            return str(slot.value())
        self.materialize()
        intent = slot.intent("set_aside.intent")
        destination = (
            str(intent.data["destination"])
            if intent
            else self.world.documents.place_aside(path, f"{self.identity.run_id}/{slot.key}")
        )
        if intent is None:
            slot.append("set_aside.intent", {"path": path, "destination": destination})
        self.effect()
        self.world.documents.set_aside_to(path, destination)
        slot.settle("set_aside", destination)
        return destination

    async def snapshot(self) -> Any:
        """The workspace as it is now, to be asked later what `changes` there are since."""
        slot = self.recall("snapshot", {})
        if slot.recorded:
            return slot.value()
        self.materialize()
        token = await self.world.tree.snapshot()
        slot.settle("snapshot", token)
        return token

    async def changes(self, since: Any, *, besides: Sequence[str] = (), only: Collection[str] | None = None) -> Changed:
        """What changed since a snapshot, paths under these globs left out; the difference is kept in the run folder.

        Args:
            only: the files that are looked at, where others change the workspace too.
        """
        named = {} if only is None else {"only": sorted(only)}
        slot = self.recall("changes", {"since": since, "besides": list(besides), **named})
        if slot.recorded:
            return Changed.from_json(slot.value())
        left_out, tree = PathScope(tuple(besides)), self.world.tree
        now = await tree.snapshot()
        paths = [one.path for one in await tree.changes(since, now) if not left_out.covers(one.path)]
        paths = [path for path in paths if only is None or path in only]
        patch = await tree.patch(since, now, paths) if paths else b""
        lines = sum(line[:1] in (b"+", b"-") and line[:4] not in (b"+++ ", b"--- ") for line in patch.split(b"\n"))
        kept = self.world.records.keep(slot.key, "changes.patch", patch)
        found = Changed(tuple(paths), lines, kept)
        slot.settle("changes", asdict(found))
        return found


def encoded(path: str, content: str | bytes) -> bytes:
    """The bytes of a document; text that is none in UTF-8 is refused."""
    try:
        return content.encode("utf-8") if isinstance(content, str) else content
    except UnicodeEncodeError as error:
        raise DocumentInvalid(
            f"{path} cannot be written: {error.reason}", path=path, expected="text in UTF-8"
        ) from error

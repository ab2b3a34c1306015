"""Documents of a process: read as people left them, changed a value at a time, looked at before each call.

What a playbook reads is recorded, so that a replay reads the same.  What it changes is put into the text that stands
there at that moment, noted before, and opened again afterwards; an `edit` is a pure function that changes nothing where
it was done already, so that what a crash left is simply done once more.  Of a document that is watched, some fields are
the playbook's own: a person who changed them meanwhile is heard, and nothing is written over it (PERSON-04).
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from interlock.documents.files import sha256
from interlock.documents.model import plain
from interlock.documents.reading import Text
from interlock.engine import events as ev
from interlock.engine.halts import Parked
from interlock.engine.toolchains import Look
from interlock.errors import BadInput, WorkspaceFailed

if TYPE_CHECKING:
    from interlock.engine.run import Run

WRITES = 2
"""Times that a document is written and opened again, before the run halts."""
Fields = Callable[[str], Any]
"""What of a document's text nobody else may change, as plain data; its own error where it cannot be read."""


async def read(run: Run, path: str, usable: Callable[[str | None], Any] = lambda text: None) -> str | None:
    """The text of a document as it stands now; None where there is none.

    Raises:
        BadInput: it is no UTF-8, no plain file, or `usable` raises; once a person has mended it a resume reads it anew.
    """

    async def take() -> ev.Got:
        raw = await _now(run, path)
        text = None if raw is None else Text.of(raw, path).text
        usable(text)
        return ev.Got(verb="read", value=path, text=None if text is None else run.world.folder.put(text.encode()))

    digest = (await run.made("read", {"path": path}, ev.Got, take)).text
    return None if digest is None else run.text(digest)


async def names(run: Run, folder: str, pattern: str = "*") -> list[str]:
    """The names of the files in a folder that fit the pattern, in order."""

    async def find() -> list[str]:
        return sorted(name for name in await run.world.names(folder) if fnmatchcase(name, pattern))

    return list(await run.found("list", {"folder": folder, "pattern": pattern}, find))


async def look(run: Run, name: str, find: Callable[[Look], Any], **asked: Any) -> Any:
    """What a pure function finds in the person's tree; `asked` tells its uses apart: what it looks for."""

    async def see() -> Any:
        return await run.world.look((await run.standing()).tree, find)

    return await run.found(name, asked, see)


def watch(run: Run, path: str, fields: Fields | None = None) -> None:
    """From here on the engine alone writes this document. A person who changes one of these fields is not overwritten:
    `change` answers `edited`, and no agent is called (`Report.reason` `edited`)."""
    run.watched[path] = fields


async def change(run: Run, path: str, edit: Callable[[str], str], *, may_fail: bool = False) -> ev.Wrote:
    """The document with one change; a new one where there is none.

    Its state is `edited`, and nothing was written, where a person changed what is the playbook's own; `failed`, where
    it cannot be read or written and `may_fail`.
    """
    slot = run.slot("write", {"path": path}, ev.Wrote)
    if slot.outcome is None:
        run.stop_if_cancelled()
        try:
            for _ in range(WRITES):
                if (wrote := await _write(run, slot, path, edit)) is not None:
                    break
            else:
                left = await run.world.document(path)
                kind = "missing" if left is None else "malformed" if left.strip() else "empty"
                raise WorkspaceFailed(f"{path}: {kind}: it does not hold what was written", where=path)
            slot.settle(wrote)
        except (BadInput, WorkspaceFailed) as error:
            if not may_fail:
                raise
            slot.settle(ev.Wrote(path=path, state="failed", why=error.what))
    return slot.settled


async def _write(run: Run, slot: Any, path: str, edit: Callable[[str], str]) -> ev.Wrote | None:
    """One try to change it; None where it holds something else afterwards: a person wrote at that moment."""
    raw = await _now(run, path)
    old = Text.of(raw or b"", path)
    new = edit(old.text)
    if why := await overtaken(run, but=path):
        return ev.Wrote(path=path, state="edited", why=why)
    fields = run.watched.get(path)
    if fields is not None and plain(fields(old.text)) != plain(fields(new)) and (why := _edited(run, path, old.text)):
        return ev.Wrote(path=path, state="edited", why=why)
    kept = None if fields is None else run.world.folder.put(new.encode())
    content = old.encode(new)
    if raw != content:
        if _is_away(run) and (raw is None or raw != await run.world.document(path)):
            why = f"{path} is to be written, and another branch than {run.where.branch} is checked out"
            raise Parked("waiting", why, f"interlock resume {run.id}")
        slot.add(ev.Intended(what="write", facts={"path": path}), sync=True)
        await run.world.write(path, content)
        if await run.world.document(path) != content:
            return None
    return ev.Wrote(path=path, state="written" if raw != content else "same", digest=sha256(content), text=kept)


async def set_aside(run: Run, path: str) -> str:
    """Where a document lies now that was moved out of the way; empty: there was none. Nothing is ever deleted."""
    slot = run.slot("aside", {"path": path}, ev.Wrote)
    if slot.outcome is None:
        if not slot.traces and await run.world.document(path) is None:
            return slot.settle(ev.Wrote(path=path, state="same")).aside
        slot.add(ev.Intended(what="aside", facts={"path": path}), sync=True)
        slot.settle(ev.Wrote(path=path, state="aside", aside=await run.world.aside(path, slot.key)))
    return slot.settled.aside


async def overtaken(run: Run, but: str = "") -> str:
    """How a person changed what is the playbook's own of a watched document, or removed one; empty: they did not.

    Args:
        but: the document about to be written: it is looked at elsewhere, and is written although another is gone.
    """
    for path, fields in run.watched.items():
        if fields is not None and path in run.full.texts and path != but:
            raw = await _now(run, path)
            if raw is None and not but:
                return f"{path} is gone"
            if raw is not None and (why := _edited(run, path, Text.of(raw, path).text)):
                return why
    return ""


async def stands(run: Run, path: str) -> str:
    """The text of a document at this moment. Live alone."""
    return Text.of(await _now(run, path) or b"", path).text


def _edited(run: Run, path: str, text: str) -> str:
    """How the playbook's own fields differ from what the run saw last, also in turns that it does again; empty: not."""
    fields, known = run.watched[path], run.full.texts.get(path)
    if fields is None or known is None or run.text(known) == text:
        return ""
    where = difference(plain(fields(run.text(known))), plain(fields(text)))
    return where and f"{path} was changed by a person: {where}"


def _is_away(run: Run) -> bool:
    return run.world.where().branch != run.where.branch


async def _now(run: Run, path: str) -> bytes | None:
    """As it stands on the run's own branch: while another one is checked out, as it was last seen there (TREE-15)."""
    there = await run.world.document(path)
    if not _is_away(run) or (there is not None and sha256(there) == run.full.documents.get(path)):
        return there  # what git ignores lies there on every branch
    known, standing = run.full.texts.get(path), run.full.standing
    seen = run.world.folder.get(known) if known else None
    if seen is None and standing is not None:
        seen = await run.world.read(standing.tree, path)
    return there if seen is None else seen


def difference(expected: Any, found: Any, place: str = "") -> str:
    """Where two values first differ, and how; empty: nowhere."""
    if isinstance(expected, dict) and isinstance(found, dict):
        inner = ((f"{place}.{key}", expected.get(key), found.get(key)) for key in (*expected, *found))
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        inner = ((f"{place}[{n}]", *both) for n, both in enumerate(zip(expected, found, strict=True)))
    else:
        told = f"{place.removeprefix('.') or 'it'}: expected {expected!r}, found {found!r}"
        return "" if (type(expected), expected) == (type(found), found) else told
    return next((why for at, one, other in inner if (why := difference(one, other, at))), "")

"""A run as one commit, and back: what travels, in which form, and what must hold of it on arrival.

The tree of the commit is described in docs/adr/0021.  Objects are written and read without a git call for each, in the
shadow repository.  What arrives was made by whoever may push: nothing of it is believed before it is checked, and no
name in it leads out of its place.
"""

from __future__ import annotations

import asyncio
import json
import re
import stat
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from interlock.documents.files import LEFTOVER, read_plain
from interlock.engine import head, journal_file
from interlock.engine.folder import ELSEWHERE, RunFolder
from interlock.engine.head import Head, HeadFile, Mark
from interlock.engine.identity import Identity
from interlock.engine.journal import Line, read_lines
from interlock.errors import DocumentInvalid, JournalDamaged, WorkspaceFailed
from interlock.fleet.growing import GrowingJournal
from interlock.workspace import Workspace
from interlock.workspace.clone import remove_folder
from interlock.workspace.objects import (
    FOLDER,
    GitObjects,
    Stored,
    reading,
    store_bytes,
    store_tree,
)

CLAIM, RUN, JOURNAL, TREE, KEPT = "claim.json", "run", "journal", "tree", "kept"
PLAIN = 0o100644
OPEN, WAITING = "open", "waiting"
"""How a run stands that has not ended."""
STAYS = frozenset({ELSEWHERE, journal_file.NAME, journal_file.COPY, head.NAME, "bases"})
"""What only the machine it is on can use, or what travels in another form."""
_SEGMENT = re.compile(r"(\d{6,})-(\d{6,})\.jsonl")
"""The numbers of its first and its last line."""
_OBJECT_NAME = re.compile(rb"(?<![0-9a-f])[0-9a-f]{40}(?![0-9a-f])")
_PLAIN_NAME = re.compile(r"[^/\0\n]{1,255}")
_ONE_LINE = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udc7f\udd00-\udfff]{0,4096}")
"""Bytes that are no UTF-8 stand in names of files as half surrogates."""


ORDERS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "queue": str,
    "labels": list,
    "priority": int,
    "runner": str,
    "budget": (int, float),
    "flags": dict,
    "needs": dict,
}
"""What whoever submits a run can ask of those who work on it; it travels with the run."""

CheckStored = Callable[[Sequence[Stored], Sequence[str]], Awaitable[None]]
SETTLED_NS = 2 * 10**9
"""A file that was written later than so long ago may be written again without a sign of it in its times."""


@dataclass(frozen=True)
class Possession:
    """Who has a run, or had it last: what ``claim.json`` says."""

    run: str
    holder: str
    """The person or worker, with their machine."""
    clone: str
    """The workspace it is in: a random name, so that two of one person are two."""
    held: bool
    """Whether they work on it; else it is free for whoever takes it."""
    since: str
    nonce: str
    """Two claims are never the same commit: both pushes would succeed."""
    head: str | None = None
    """The commit that the user's HEAD led to."""
    branch: str | None = None
    prefix: str = ""
    """Where in its repository the workspace is."""
    version: str = ""
    lines: int = 0
    """How far the journal went: a missing end shows in no chain of hashes."""
    last: str = ""
    """The hash of its last line."""
    playbook: str = ""
    key: str = ""
    about: str = ""
    """What the run is about, in the words of whoever asked for it."""
    status: str = ""
    """How it stands: how it ended, `waiting`, or `open`."""
    orders: Mapping[str, Any] = field(default_factory=dict)
    """What whoever submitted it asked of those who work on it."""

    @property
    def ended(self) -> bool:
        return self.status not in ("", OPEN, WAITING)

    @property
    def wants_worker(self) -> bool:
        """Whether it was given to the fleet and can go on, and nobody has it: then somebody is to be asked."""
        return bool(self.orders) and not self.held and self.status == OPEN

    def __str__(self) -> str:
        return f"{self.holder} has it" if self.held else f"it waits to be taken, as {self.holder} left it"

    def to_bytes(self) -> bytes:
        return (json.dumps(asdict(self), indent=2, sort_keys=True) + "\n").encode()

    @classmethod
    def from_bytes(cls, raw: bytes) -> Self:
        """ValueError or TypeError for what is none."""
        said = json.loads(raw)
        known = {one.name for one in fields(cls)}
        made = cls(**{name: value for name, value in said.items() if name in known})
        places = (made.run, made.holder, made.clone, made.since, made.nonce, made.prefix, made.version, made.last)
        texts = (*places, made.playbook, made.key, made.about, made.status)
        fits = all(isinstance(text, str) for text in texts) and isinstance(made.held, bool)
        if not fits or type(made.lines) is not int or not isinstance(made.orders, dict):
            raise TypeError("a name or a time is missing")
        if not all(_ONE_LINE.fullmatch(text) for text in texts):
            raise ValueError("a name or a time is none")
        _check_orders(made.orders)
        if not re.fullmatch(r"[\w.-]+", made.run):
            raise ValueError("run is no name of a run")
        if made.prefix and (made.prefix[0] in "-/" or made.prefix[-1] != "/" or ".." in made.prefix.split("/")):
            raise ValueError("prefix is no folder")
        if made.head is not None and not re.fullmatch("[0-9a-f]{40}", made.head):
            raise ValueError("head is no commit")
        if made.branch is not None and not isinstance(made.branch, str):
            raise TypeError("branch is no name")
        if made.branch is not None and (
            not _ONE_LINE.fullmatch(made.branch) or made.branch[:1] in ("-", "") or made.branch == "HEAD"
        ):
            raise ValueError("branch is no name")
        return made


@dataclass(frozen=True)
class Checkpoint:
    """One commit of a run's ref, as far as it was read."""

    commit: str
    possession: Possession
    entries: Mapping[str, Stored]
    """Of its tree."""

    @property
    def end(self) -> Mark:
        """The last line of the journal."""
        return Mark(self.possession.lines, self.possession.last)

    @property
    def tree(self) -> str:
        """The workspace."""
        return self.entries[TREE].name


class Freight:
    """Runs of one workspace as commits of its shadow repository."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._shadow = workspace.shadow
        self._packed: dict[str, tuple[tuple[int, int, int], Stored]] = {}
        """Files of the run folder that were packed, each with the signs by which a change shows."""

    # -- leaving

    async def pack(
        self,
        folder: RunFolder,
        journal: GrowingJournal,
        count: int,
        tree: str,
        possession: Possession,
        previous: Checkpoint | None = None,
        *,
        secret: Callable[[bytes], bool],
        check: CheckStored,
    ) -> str:
        """A commit with the run as it is now. The caller holds its lock, or works on it.

        Args:
            journal: its whole lines.
            count: how many of them are to travel.
            tree: the workspace, as a tree of the shadow repository.
            previous: the checkpoint before, whose parts are used again.
            secret: whether content of the run's records holds what must not travel.
            check: raises for objects of the workspace that must not travel, and for such records.
        """
        self._shadow.git(self._shadow.path)  # its folders are there
        async with reading(self._shadow, self.workspace.trees) as objects:
            before = await _below(objects, previous.entries) if previous else {}
        end = journal.mark(count)
        possession = replace(possession, lines=end.seq, last=end.hash)
        sent = previous.end if previous is not None and journal.begins_with(previous.end) else journal.mark(0)
        rest = journal.between(sent.seq, end.seq)
        segments = {path: entry for path, entry in before.items() if sent.seq and path.startswith(f"{JOURNAL}/")}
        files, fresh, held = await asyncio.to_thread(self._files, folder, rest, before, secret)
        kept = {path: entry for path, entry in before.items() if path.startswith(f"{KEPT}/")}
        named = await self._named_objects(fresh)
        await check([Stored(FOLDER, tree), *(entry for path, entry in named.items() if path not in kept)], held)
        kept |= named
        if rest:
            name = f"{JOURNAL}/{sent.seq + 1:06d}-{end.seq:06d}.jsonl"
            segments[name] = Stored(PLAIN, store_bytes(self._shadow, rest))
        everything = {**files, **segments, **kept, TREE: Stored(FOLDER, tree)}
        return await asyncio.to_thread(self._commit, everything, possession, previous.commit if previous else None)

    def claimed(self, checkpoint: Checkpoint, possession: Possession) -> str:
        """A commit that changes nothing but who has the run."""
        return self._commit(dict(checkpoint.entries), possession, checkpoint.commit)

    def _commit(self, entries: Mapping[str, Stored], possession: Possession, parent: str | None) -> str:
        claim = Stored(PLAIN, store_bytes(self._shadow, possession.to_bytes()))
        tree = store_tree(self._shadow, {**entries, CLAIM: claim}.items())
        seconds = int(datetime.fromisoformat(possession.since).timestamp())
        by = f"interlock <interlock@localhost> {seconds} +0000"
        parents = "".join(f"parent {name}\n" for name in dict.fromkeys((parent, possession.head)) if name)
        text = f"tree {tree}\n{parents}author {by}\ncommitter {by}\n\n{possession.run}: {possession}\n"
        return store_bytes(self._shadow, text.encode(), "commit")

    def _files(
        self, folder: RunFolder, rest: bytes, before: Mapping[str, Stored], secret: Callable[[bytes], bool]
    ) -> tuple[dict[str, Stored], list[bytes], list[str]]:
        """The run's files, but for its journal, as entries of a tree; what may name objects that nobody looked at yet;
        and which of the files that did not travel yet hold a secret.

        Each file is read once, at one moment: agents at work still write to some of them.

        Args:
            rest: what came to the journal.
        """
        entries: dict[str, Stored] = {}
        fresh, held = [rest], [journal_file.NAME] if secret(rest) else []
        now = time.time_ns()
        for place in plain_files(folder.path):
            name = f"{RUN}/{place.relative_to(folder.path).as_posix()}"
            is_object = name.startswith(f"{RUN}/objects/")
            if is_object and name in before:  # under the name that its content has
                entries[name] = before[name]
                continue
            try:
                facts = place.lstat()
                signs = facts.st_size, facts.st_mtime_ns, facts.st_ino
                if (known := self._packed.get(name)) is not None and known[0] == signs:
                    entries[name] = known[1]
                    continue
                content = read_plain(place)
            except FileNotFoundError:  # a call at work moved a record of its last try aside
                continue
            entries[name] = Stored(PLAIN, store_bytes(self._shadow, content))
            if now - facts.st_mtime_ns > SETTLED_NS:
                self._packed[name] = signs, entries[name]
            if entries[name] == before.get(name):
                continue
            if secret(content):
                held.append(name.removeprefix(f"{RUN}/"))
            if is_object:
                fresh.append(content)
        return entries, fresh, held

    async def _named_objects(self, texts: Sequence[bytes]) -> dict[str, Stored]:
        """Objects of snapshots that the run's records name."""
        names = sorted({name for text in texts for name in _OBJECT_NAME.findall(text)})
        if not names:
            return {}
        asked = b"\n".join([*names, b""])
        said = await self._shadow.plain.run("cat-file", "--batch-check", stdin=asked, reads=True)
        kinds = (line.decode().split(" ") for line in said.splitlines())
        modes = {"tree": FOLDER, "blob": PLAIN}
        return {
            f"{KEPT}/{about[0]}": Stored(modes[about[1]], about[0])
            for about in kinds
            if len(about) == 3 and about[1] in modes
        }

    # -- arriving

    async def read(self, commit: str, run_id: str | None = None) -> Checkpoint:
        """What a commit says that is here; `DocumentInvalid` when it is none of ours, or of another run."""
        async with reading(self._shadow, self.workspace.trees) as objects:
            try:
                entries = await objects.tree(await self._tree_of(commit))
                claim = entries[CLAIM]
                possession = Possession.from_bytes(await objects.blob(claim.name))
                folders = [entries[name] for name in (RUN, JOURNAL, TREE)]
            except (KeyError, ValueError, TypeError, RecursionError, WorkspaceFailed) as error:
                raise _foreign(run_id, commit, f"it has no readable {CLAIM}, {RUN}, {JOURNAL} or {TREE}") from error
        if not all(entry.is_folder for entry in folders):
            raise _foreign(run_id, commit, f"{RUN}, {JOURNAL} or {TREE} is no folder")
        if run_id is not None and possession.run != run_id:
            raise _foreign(run_id, commit, f"it is that of run {possession.run}")
        return Checkpoint(commit, possession, entries)

    async def unpack(self, checkpoint: Checkpoint, target: RunFolder) -> None:
        """Write the run into a folder that is not there yet, and see that it is whole; else nothing is left of it."""
        run_id = checkpoint.possession.run
        async with reading(self._shadow, self.workspace.trees) as objects:
            try:
                journal = await self._journal(objects, checkpoint)
                files = await _below(objects, await objects.tree(checkpoint.entries[RUN].name))
                await self._check_kept(objects, checkpoint)
                target.path.mkdir(parents=True)
                for name, entry in files.items():
                    if name.split("/")[0] in STAYS:
                        continue
                    place = target.path / name
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(await objects.blob(entry.name))
                (target.path / journal_file.NAME).write_bytes(journal)
                end = _end_of(target, journal)
                if end != checkpoint.end:
                    raise ValueError(f"its journal ends with line {end.seq}, not as {CLAIM} says")
                _check_facts(target.identity(), read_lines(journal, genesis=target.genesis(), name=journal_file.NAME))
                HeadFile(target.path).create(Head(end, closed=True))
            except (WorkspaceFailed, DocumentInvalid, JournalDamaged, ValueError) as error:
                remove_folder(target.path)
                raise _foreign(run_id, checkpoint.commit, str(error)) from error
            except BaseException:
                remove_folder(target.path)
                raise
        if findings := RunFolder(target.root, run_id).verify():
            remove_folder(target.path)
            raise _foreign(run_id, checkpoint.commit, findings[0])

    async def _tree_of(self, commit: str) -> str:
        return (await self._shadow.plain.run("rev-parse", f"{commit}^{{tree}}", reads=True)).decode().strip()

    async def _journal(self, objects: GitObjects, checkpoint: Checkpoint) -> bytes:
        """The whole journal, of its segments."""
        segments = await objects.tree(checkpoint.entries[JOURNAL].name)
        content, done = b"", 0
        for name in sorted(segments, key=lambda name: (len(name), name)):
            numbers = _SEGMENT.fullmatch(name)
            if numbers is None or segments[name].mode != PLAIN:
                raise ValueError(f"{JOURNAL}/{name} is no segment of a journal")
            first, last = int(numbers[1]), int(numbers[2])
            if first != done + 1:
                raise ValueError(f"lines {done + 1} to {first - 1} of the journal are missing")
            segment = await objects.blob(segments[name].name)
            if segment.count(b"\n") != last - first + 1 or not segment.endswith(b"\n"):
                raise ValueError(f"{JOURNAL}/{name} has not the lines that its name says")
            content, done = content + segment, last
        return content

    async def _check_kept(self, objects: GitObjects, checkpoint: Checkpoint) -> None:
        """Objects of snapshots are there, each under its own name."""
        if KEPT not in checkpoint.entries:
            return
        for name, entry in (await objects.tree(checkpoint.entries[KEPT].name)).items():
            if entry.name != name:
                raise ValueError(f"{KEPT}/{name} is another object")


def _check_orders(said: Mapping[str, Any]) -> None:
    """TypeError for what is none of its kind; what only a later version knows is left to it."""
    for name, value in said.items():
        if name in ORDERS and (not isinstance(value, ORDERS[name]) or isinstance(value, bool)):
            raise TypeError(f"orders: {name} is none")
    if not all(isinstance(label, str) for label in said.get("labels", ())):
        raise TypeError("orders: a label is none")


def _end_of(folder: RunFolder, journal: bytes) -> Mark:
    """The last line of a journal; every line is checked against the chain."""
    end = Mark(0, folder.genesis())
    for line in read_lines(journal, genesis=end.hash, name=str(folder.path / journal_file.NAME)):
        end = Mark(line.seq, line.hash)
    return end


def _check_facts(identity: Identity, lines: Iterable[Line]) -> None:
    """ValueError for records whose chain is whole, and which nobody here could read all the same."""
    tables = (identity.inputs, identity.caps, identity.source or {}, identity.parent or {})
    names = (identity.playbook, identity.key, identity.version, identity.continues or "")
    if not all(isinstance(table, dict) for table in tables) or not isinstance(identity.before, list | tuple):
        raise ValueError("run.json has a field that is none of its kind")
    if not all(isinstance(name, str) and "\0" not in name for name in (*names, *identity.before)):
        raise ValueError("run.json has a name that is none")
    for stamp in (identity.started_at, *(line.ts for line in lines)):
        if not isinstance(stamp, str) or datetime.fromisoformat(stamp).tzinfo is None:
            raise ValueError(f"{stamp!r} is no time")


def plain_files(folder: Path) -> Iterator[Path]:
    """The files of a run folder that travel."""
    for place in sorted(folder.rglob("*")):
        if place.relative_to(folder).parts[0] in STAYS or LEFTOVER.fullmatch(place.name):
            continue
        if stat.S_ISREG(place.lstat().st_mode):
            yield place


async def _below(objects: GitObjects, entries: Mapping[str, Stored], above: str = "") -> dict[str, Stored]:
    """All files below a folder, by their paths; the workspace and objects of snapshots are one entry each.

    ValueError for a name that leads elsewhere, and for what is no plain file.
    """
    found: dict[str, Stored] = {}
    for name, entry in entries.items():
        if not _PLAIN_NAME.fullmatch(name) or name in (".", "..", ".git"):
            raise ValueError(f"{above}{name!r} is no name of a file")
        if not above and name == TREE:
            continue
        if entry.is_folder and above != f"{KEPT}/":
            found |= await _below(objects, await objects.tree(entry.name), f"{above}{name}/")
        elif entry.is_folder or entry.mode == PLAIN:
            found[f"{above}{name}"] = entry
        else:
            raise ValueError(f"{above}{name} is no plain file")
    return found


def _foreign(run_id: str | None, commit: str, why: str) -> DocumentInvalid:
    return DocumentInvalid(
        f"what the remote has of {f'run {run_id}' if run_id else 'a run'} cannot be used: {why}",
        path=commit,
        expected="a checkpoint of this run, whole, as interlock wrote it",
        remedy="Nothing was changed here. Ask whoever had the run last to send it again.",
    )

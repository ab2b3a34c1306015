"""Going on with a run whose records were damaged: what is whole is put back, the rest is kept beside it.

Nothing here happens in passing: a person asks for it (`interlock recover`).  The truth is looked for in the journal
itself, in its second copy and in the note of how far it went; the longest chain that these agree on counts.  Lines of
which nobody of the run knows are cut off, and so is everything from a line on whose stored value is lost for good:
what such lines stood for happens again.  The files as they were found stay in the run folder, under new names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from interlock.documents.files import read_plain, replace_file
from interlock.engine import journal_file
from interlock.engine.folder import HOME, IDENTITY, RunFolder, failing
from interlock.engine.head import Head, HeadFile, Mark
from interlock.engine.journal import Line, whole_beginning
from interlock.engine.keys import sha256
from interlock.errors import DocumentInvalid, InterlockError, JournalDamaged


@dataclass(frozen=True)
class Salvaged:
    """What was found and what was done."""

    findings: tuple[str, ...]
    """What was wrong; empty when nothing was, and nothing was changed."""
    lines: int = 0
    """Lines that the journal has now, without the one that says so."""
    dropped: int = 0
    """Lines that it had before, or was known to have had, and has no more."""
    aside: tuple[str, ...] = ()
    """Files of the run folder that hold what was found."""
    mended: tuple[str, ...] = ()
    """Objects and files that were put back as they were."""


def salvage(folder: RunFolder, clock: Callable[[], str]) -> Salvaged:
    """Let the run be one that can go on. Only for the process that holds the run's lock."""
    findings = folder.verify()
    if not findings:
        return Salvaged(())
    with failing("the run cannot be recovered", folder.path):
        folder.objects.put(read_plain(folder.path / IDENTITY))
        lines, known = _longest(folder)
        lines, mended = _with_whole_values(folder, lines)
        aside = _set_aside(folder, lines)
        _write(folder, lines)
    said = Salvaged(tuple(findings), len(lines), max(0, known - len(lines)), tuple(aside), tuple(mended))
    _tell(folder, said, clock)
    return said


def put_back_identity(folder: RunFolder) -> str | None:
    """Make ``run.json`` the one that the journal's first line is linked to; what was wrong with it, if anything was.

    It is kept as an object, too. Without it nobody can say what the run was asked for.
    """
    wrong = "run.json is not the one with which the journal began"
    try:
        if _is_linked(folder, folder.genesis()):
            return None
    except InterlockError as error:
        wrong = error.what
    for wanted in _first_links(folder):
        with suppress(InterlockError), failing("run.json cannot be put back", folder.path):
            content = folder.objects.get(wanted)
            _keep_aside(folder.path / IDENTITY)
            replace_file(folder.path / IDENTITY, content)
            return wrong
    try:
        folder.identity()
    except DocumentInvalid as error:
        error.remedy = (
            "What the run was asked for is lost: put run.json back from a copy of yours, or start a new run. "
            f"All that was recorded stays in {folder.path}."
        )
        raise
    return None


def _is_linked(folder: RunFolder, genesis: str) -> bool:
    """Whether any line of the journal or its copy, or the note, is linked to this ``run.json``."""
    head = HeadFile(folder.path).read()
    if head is not None and head.settled == Mark(0, genesis):
        return True
    return any(whole_beginning(raw, genesis=genesis, name="") for raw in _sources(folder))


def _first_links(folder: RunFolder) -> Iterator[str]:
    """What the first line of the journal, or of its copy, names as the ``run.json`` of the run."""
    for raw in _sources(folder):
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            yield str(json.loads(raw.split(b"\n", 1)[0])["prev"])


def _sources(folder: RunFolder) -> list[bytes]:
    """The journal and its copy, as far as they can be read."""
    found = []
    for name in (journal_file.NAME, journal_file.COPY):
        try:
            found.append(read_plain(folder.path / name))
        except OSError:
            found.append(b"")
    return found


def _longest(folder: RunFolder) -> tuple[list[Line], int]:
    """The longest chain that is the run's own, and how many lines it is known to have had."""
    genesis, head = folder.genesis(), HeadFile(folder.path).read()
    chains = [whole_beginning(raw, genesis=genesis, name="") for raw in _sources(folder)]
    if head is None:
        longest = max(chains, key=len)
        return longest, len(longest)
    ours = [chain for chain in chains if _fits(chain, head)] or chains
    longest = max(ours, key=len)
    if head.exact:
        longest = longest[: head.furthest]
    return longest, max(head.settled.seq, len(longest))


def _fits(chain: list[Line], head: Head) -> bool:
    """Whether a chain has the line that the note says is settled."""
    mark = head.settled
    return mark.seq == 0 or (mark.seq <= len(chain) and chain[mark.seq - 1].hash == mark.hash)


def _with_whole_values(folder: RunFolder, lines: list[Line]) -> tuple[list[Line], list[str]]:
    """The lines up to the first whose stored value is lost; what another run or record still has is put back."""
    mended = list[str]()
    for number, line in enumerate(lines):
        while True:
            try:
                folder.check_values(line)
            except JournalDamaged as damage:
                if not _found_elsewhere(folder, digest := Path(damage.path).name):
                    return lines[:number], mended
                mended.append(f"objects/{digest}")
                continue
            break
    return lines, mended


def _found_elsewhere(folder: RunFolder, digest: str) -> bool:
    """Whether the content of this name was found among the records of any run, and put back."""
    place = folder.path / "objects" / digest
    others = (folder.root / HOME / "runs").glob(f"*/objects/{digest}")
    for candidate in (*others, *_records(folder)):
        with suppress(OSError):
            if candidate != place and sha256(content := read_plain(candidate)) == digest:
                _keep_aside(place)
                place.parent.mkdir(exist_ok=True)
                replace_file(place, content)
                return True
    return False


def _records(folder: RunFolder) -> Iterator[Path]:
    yield from (path for path in (folder.path / "dispatches").rglob("*") if path.is_file())


def _set_aside(folder: RunFolder, lines: list[Line]) -> list[str]:
    """Keep the files as they were found, those that will hold something else."""
    content = b"".join(line.to_bytes() for line in lines)
    kept = []
    for name in (journal_file.NAME, journal_file.COPY):
        place = folder.path / name
        try:
            same = read_plain(place) == content
        except FileNotFoundError:
            continue
        except OSError:  # something else than a file stands there
            same = False
        if not same and (aside := _keep_aside(place)) is not None:
            kept.append(aside)
    return kept


def _keep_aside(place: Path) -> str | None:
    """Another name for what is there, so that it stays when the place is taken; None when there is nothing."""
    number = 1
    while os.path.lexists(aside := place.with_name(f"{place.name}.damaged-{number}")):
        number += 1
    try:
        if place.is_file() and not place.is_symlink():
            os.link(place, aside)  # the old name stays until it is overwritten: no moment without a journal
        else:
            place.rename(aside)
    except FileNotFoundError:
        return None
    return aside.name


def _write(folder: RunFolder, lines: list[Line]) -> None:
    content = b"".join(line.to_bytes() for line in lines)
    replace_file(folder.path / journal_file.NAME, content)
    replace_file(folder.path / journal_file.COPY, content)
    last = Mark(len(lines), lines[-1].hash) if lines else Mark(0, folder.genesis())
    HeadFile(folder.path).create(Head(last))


def _tell(folder: RunFolder, said: Salvaged, clock: Callable[[], str]) -> None:
    journal, identity = folder.journal(clock), folder.identity()
    if journal.lines and journal.lines[-1].event == "run.end":  # its end stays its last word
        return
    if not journal.lines:
        journal.append("run.start", data=identity.first_facts)
    journal.append(
        "journal.recovered",
        data={
            "lines": said.lines,
            "dropped": said.dropped,
            "found": list(said.findings[:10]),
            "aside": list(said.aside),
            "mended": list(said.mended[:50]),
        },
    )
    journal.close()

"""Whether a file that an agent had to write is there and is what it must be.

The questions are asked in a fixed order (existence, type, readability, content, structure, freshness) and the
first that fails gives the class, so that the same file always gets the same complaint.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from interlock.contracts.structure import Structure
from interlock.documents import Document, DocumentState, FileFacts


class ArtifactClass(StrEnum):
    OK = "ok"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    EMPTY = "empty"
    MALFORMED = "malformed"
    STALE = "stale"


@dataclass(frozen=True)
class Artifact:
    """A file that a dispatch is to produce."""

    path: str
    required: bool = True
    structure: Structure | None = None
    fresh: bool = True
    """It must have been written by this dispatch; not so for a file that a person may provide."""
    sampled: bool = False
    """Players that satisfy contracts write a sample of it although it is not required."""
    beside: str = ""
    """... but only where they write their sample of this other artifact too, which refers to it."""
    imported: bool = True
    """Otherwise it stays out of the tree, and the playbook takes from the dispatch's report what it needs of it."""

    def played(self, told: Collection[str] = ()) -> bool:
        """Whether a player writes its sample; `told`: paths about which it was told something else."""
        return self.path not in told and (self.required or (self.sampled and self.beside not in told))


@dataclass(frozen=True)
class ArtifactCheck:
    path: str
    cls: ArtifactClass
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.cls is ArtifactClass.OK


def check(artifact: Artifact, now: FileFacts, before: FileFacts | None) -> ArtifactCheck:
    """The artifact's class.

    Args:
        before: the file before the first attempt of this dispatch; ``None`` when there was none.
    """
    if not now.exists:
        return ArtifactCheck(artifact.path, ArtifactClass.MISSING if artifact.required else ArtifactClass.OK)
    if not now.plain or not now.readable:
        return ArtifactCheck(artifact.path, ArtifactClass.UNREADABLE, now.problem)
    document = Document.of(now)
    if document.state is not DocumentState.OK:
        detail = (document.problem or "").removeprefix(f"{now.path} is ")
        return ArtifactCheck(artifact.path, ArtifactClass.UNREADABLE, detail)
    if not document.text.strip():
        return ArtifactCheck(artifact.path, ArtifactClass.EMPTY)
    if artifact.structure is not None and (problem := artifact.structure.problem(document.text)) is not None:
        return ArtifactCheck(artifact.path, ArtifactClass.MALFORMED, problem)
    if artifact.fresh and before is not None and now.same_as(before):
        return ArtifactCheck(artifact.path, ArtifactClass.STALE, "it was there before and has not been rewritten")
    return ArtifactCheck(artifact.path, ArtifactClass.OK)


def complaint(found: ArtifactCheck) -> str:
    """``<path>: <class>: <detail>``, as agents and people are told."""
    return ": ".join(filter(None, (found.path, found.cls.value, found.detail)))

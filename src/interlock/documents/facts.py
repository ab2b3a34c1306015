"""What is known of one file at one moment: pure data that contracts judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class FileFacts:
    """A file as it was found.  ``problem`` says why it is not plain or not readable."""

    path: str
    exists: bool
    plain: bool = False
    """A regular file, or a symlink to one inside the workspace."""
    readable: bool = False
    size: int = 0
    mtime_ns: int | None = None
    digest: str | None = None
    """SHA-256 of the bytes; ``None`` when they could not be read."""
    content: bytes | None = field(default=None, repr=False)
    problem: str = ""
    link: bool = False
    """The path itself is a symlink; it can be read through, and is never written."""

    @classmethod
    def absent(cls, path: str) -> FileFacts:
        return cls(path, exists=False)

    def same_as(self, other: FileFacts) -> bool:
        """Whether neither bytes nor modification time differ."""
        return (self.exists, self.size, self.mtime_ns, self.digest) == (
            other.exists,
            other.size,
            other.mtime_ns,
            other.digest,
        )

    def to_json(self) -> dict[str, Any]:
        """Everything but the content, which the journal has no use for."""
        return {
            "path": self.path,
            "exists": self.exists,
            "plain": self.plain,
            "readable": self.readable,
            "size": self.size,
            "mtime_ns": self.mtime_ns,
            "digest": self.digest,
            "problem": self.problem,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FileFacts:
        return cls(**data)

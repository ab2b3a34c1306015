"""A document of the workspace as it was read: its text, or what stands in the way of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from interlock.documents.facts import FileFacts
from interlock.errors import DocumentInvalid

BOM = b"\xef\xbb\xbf"
_LONE_LF = re.compile(rb"(?<!\r)\n")


class DocumentState(StrEnum):
    OK = "ok"
    MISSING = "missing"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Document:
    """Text without byte order mark, lines ended by LF; ``encode`` gives a new text the form of the old one."""

    path: str
    state: DocumentState
    text: str = field(default="", repr=False)
    digest: str = ""
    """SHA-256 of the bytes on disk; empty when there are none, or none that could be read."""
    bom: bool = False
    crlf: bool = False
    """Every line on disk ends with CRLF."""
    problem: str | None = None
    position: int | None = None
    """Offset of the first byte that is not UTF-8."""
    link: bool = False
    """It was read through a symlink, which is never written."""

    @classmethod
    def of(cls, facts: FileFacts) -> Document:
        """The document that these facts make."""
        if not facts.exists:
            return cls(facts.path, DocumentState.MISSING, problem=f"{facts.path} not found")
        if facts.content is None:
            return cls(
                facts.path,
                DocumentState.UNREADABLE,
                digest=facts.digest or "",
                problem=f"cannot read {facts.path}: {facts.problem}",
            )
        digest = facts.digest or ""
        try:
            text = facts.content.decode()
        except UnicodeDecodeError as error:
            return cls(
                facts.path,
                DocumentState.UNREADABLE,
                digest=digest,
                problem=f"{facts.path} is not valid UTF-8 (byte {error.start})",
                position=error.start,
            )
        return cls(
            facts.path,
            DocumentState.OK,
            text=text.removeprefix("\ufeff").replace("\r\n", "\n"),
            digest=digest,
            bom=facts.content.startswith(BOM),
            crlf=b"\r\n" in facts.content and not _LONE_LF.search(facts.content),
            link=facts.link,
        )

    def require(self, what: str | None = None) -> Document:
        """This document if it can be used; else DocumentInvalid, which calls it ``what`` if it is missing."""
        if self.state is DocumentState.OK:
            return self
        if self.state is DocumentState.MISSING and what is not None:
            raise DocumentInvalid(f"{what} {self.path} not found", path=self.path)
        raise DocumentInvalid(self.problem or f"cannot read {self.path}", path=self.path)

    def encode(self, text: str) -> bytes:
        """A new text as bytes in this document's form: byte order mark and CRLF as they were found."""
        content = (text.replace("\n", "\r\n") if self.crlf else text).encode()
        return BOM + content if self.bom else content

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "state": self.state.value,
            "text": self.text,
            "digest": self.digest,
            "bom": self.bom,
            "crlf": self.crlf,
            "problem": self.problem,
            "position": self.position,
            "link": self.link,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Document:
        return cls(**{**data, "state": DocumentState(data["state"])})

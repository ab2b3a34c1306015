"""Patches as git writes them: the files that they are about, and how odd names are spelled there.

Whoever reads a patch gets all of it: what is about no file that can be named is a part too, with no path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_BEGIN = re.compile(rb"(?m)^(?=diff --git )")
"""No line of a text can begin so inside of a patch: a sign stands before each."""
_BODY = re.compile(rb"(?m)^(?=@@|GIT binary patch$|Binary files )")
_SPELLED = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb'\\([0-3][0-7]{2}|[abtnvfr"\\])')
_SHORT = {7: b"a", 8: b"b", 9: b"t", 10: b"n", 11: b"v", 12: b"f", 13: b"r", 34: b'"', 92: b"\\"}
_LONG = {letter: bytes([code]) for code, letter in _SHORT.items()}


@dataclass(frozen=True)
class PatchPart:
    """What a patch says of one file."""

    path: str | None
    """None where it names no file that could be understood."""
    head: bytes
    body: bytes
    """From the first place on, or what stands for a file without lines."""

    @property
    def whole(self) -> bytes:
        return self.head + self.body

    @property
    def is_binary(self) -> bool:
        return bool(self.body) and not self.has_lines

    @property
    def has_lines(self) -> bool:
        return self.body.startswith(b"@@")

    @property
    def length(self) -> int:
        """How many `rows` there are."""
        return self.body.removesuffix(b"\n").count(b"\n") + 1 if self.has_lines else 0

    @property
    def added(self) -> int:
        return self.body.count(b"\n+") if self.has_lines else 0

    @property
    def removed(self) -> int:
        return self.body.count(b"\n-") if self.has_lines else 0

    def rows(self, at_most: int = -1) -> list[bytes]:
        """The lines of its text, each with its sign, and the places between them."""
        if not self.has_lines:
            return []
        rows = self.body.removesuffix(b"\n").split(b"\n", at_most)
        return rows if at_most < 0 else rows[:at_most]

    def said(self, label: str) -> str:
        """What its head says behind a label, such as ``new file mode``; empty where it says nothing of it."""
        found = re.search(rb"(?m)^%s (.*)$" % label.encode(), self.head)
        return found[1].decode("ascii", "replace") if found else ""


def patch_parts(patch: bytes) -> Iterator[PatchPart]:
    """The parts of a patch in their order; together they are the patch."""
    for part in _BEGIN.split(patch):
        if part:
            begun = _BODY.search(part)
            at = begun.start() if begun else len(part)
            yield PatchPart(_path(part[:at]), part[:at], part[at:])


def spelled(path: str, side: str = "") -> bytes:
    """A path as git spells it behind its side, ``a/`` or ``b/``: in quotes with escapes where it is an odd one."""
    name = (side + path).encode("utf-8", "surrogateescape")
    if all(32 <= byte < 127 and byte not in b'"\\' for byte in name):
        return name
    return quoted(name)


def quoted(name: bytes) -> bytes:
    """A name in quotes, as git reads it wherever it reads names."""
    return b'"%s"' % b"".join(_escaped(byte) for byte in name)


def _escaped(byte: int) -> bytes:
    if byte in _SHORT:
        return b"\\" + _SHORT[byte]
    return bytes([byte]) if 32 <= byte < 127 else b"\\%03o" % byte


def _path(head: bytes) -> str | None:
    """The path that a part is about: as its new side calls it, else its old one, else its first line."""
    rows = head.split(b"\n")
    if not rows[0].startswith(b"diff --git "):
        return None
    for mark, side in ((b"+++ ", b"b/"), (b"--- ", b"a/"), (b"rename to ", b""), (b"copy to ", b"")):
        for row in rows[1:]:
            if row.startswith(mark) and (name := _read(row[len(mark) :], side)) is not None:
                return name
    both = rows[0].removeprefix(b"diff --git ")
    if two := re.fullmatch(_SPELLED.pattern + rb" (.*)", both):
        return _read(two[2], b"b/")
    # Both sides are the same but for the first letter: a name may have blanks in it.
    half = len(both) // 2
    old, new = both[:half], both[half + 1 :]
    return _read(new, b"b/") if old[:2] == b"a/" and old[1:] == new[1:] else None


def _read(name: bytes, side: bytes) -> str | None:
    """The path of a name as git spelled it; None where it is none of this side."""
    found = _SPELLED.fullmatch(name)
    # Behind a name with blanks that is not in quotes there is a tab.
    name = _ESCAPE.sub(_unescaped, found[1]) if found else name.removesuffix(b"\t")
    return name.removeprefix(side).decode("utf-8", "surrogateescape") if name.startswith(side) else None


def _unescaped(match: re.Match[bytes]) -> bytes:
    told = match[1]
    return bytes([int(told, 8)]) if len(told) == 3 else _LONG[told]

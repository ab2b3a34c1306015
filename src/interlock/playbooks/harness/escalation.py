"""What keeps a task from being orchestrated, always with its cause and its cure."""

from __future__ import annotations

from interlock.errors import DocumentInvalid


class Escalation(DocumentInvalid):
    """A person has to mend something first. `what` is the cause in one sentence, `remedy` the cure in another."""

    def __init__(
        self, cause: str, *, cure: str, path: str, line: int | None = None, expected: str | None = None
    ) -> None:
        super().__init__(cause, path=path, line=line, expected=expected, remedy=cure)


def one_line(text: str) -> str:
    """Text of any origin as one printable line, for fields and table cells."""
    words = " ".join(text.split())
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in words)


def sentence(text: str) -> str:
    """The text with one full stop at its end."""
    return text.rstrip(". ") + "."

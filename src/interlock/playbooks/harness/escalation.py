"""What keeps a task from being orchestrated, always with its cause and its cure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from interlock.documents import Document, DocumentState
from interlock.errors import DocumentInvalid


class Escalation(DocumentInvalid):
    """A person has to mend something first. `what` is the cause in one sentence, `remedy` the cure in another."""

    def __init__(
        self, path: str, cause: str, cure: str, *, line: int | None = None, expected: str | None = None
    ) -> None:
        super().__init__(cause, path=path, line=line, expected=expected, remedy=cure)
        self.several: tuple[Escalation, ...] = ()
        """The problems of which it consists, where there are several."""


def text_of(document: Document, cure: str = "Make it a plain UTF-8 file.") -> str:
    """What a document says; Escalation where it cannot be read."""
    if document.state is not DocumentState.OK:
        raise Escalation(document.path, f"{document.path}: unreadable: {document.problem}", cure)
    return document.text


class FoundProblems:
    """What is found on the way through several checks, so that all of it is said at once (EV-28)."""

    def __init__(self) -> None:
        self._found: list[Escalation] = []

    def add(self, path: str, cause: str, cure: str) -> None:
        self._found.append(Escalation(path, cause, cure))

    @contextmanager
    def noted(self) -> Iterator[None]:
        """A check that keeps the ones after it from nothing."""
        try:
            yield
        except Escalation as problem:
            self._found.extend(problem.several or (problem,))

    def settle(self) -> None:
        """Escalation when there is any: the one, or all of them with their cures."""
        if not self._found:
            return
        first, *more = self._found
        if not more:
            raise first
        listed = "\n".join(f"- {one.what}\n  {one.remedy}" for one in self._found)
        together = Escalation(
            first.path,
            f"{len(self._found)} things have to be mended first:\n{listed}",
            "Mend all of them, then start again.",
            line=first.line,
        )
        together.several = tuple(self._found)
        raise together


def sentence(text: str) -> str:
    """The text with one full stop at its end."""
    return text.rstrip(". ") + "."

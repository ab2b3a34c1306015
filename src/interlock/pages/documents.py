"""Documents of a workspace, rendered: exactly the bytes that their digest names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup

from interlock.documents import FileFacts
from interlock.pages.prose import decoded, highlighted, plain, prose

MOST = 200_000
"""Bytes of a document that a page shows."""
KEPT = 32_000
"""Bytes of a document whose rendering is kept."""
MARKDOWN = (".md", ".markdown", ".mdx")


@dataclass(frozen=True)
class ShownDocument:
    """A document as it is now."""

    path: str
    digest: str
    """Of the bytes that are shown; empty where there are none."""
    body: Markup
    size: int
    problem: str = ""
    """Why nothing is shown."""

    @property
    def is_cut(self) -> bool:
        """Whether only its beginning is shown."""
        return self.size > MOST

    @property
    def lines(self) -> str:
        return f"{self.size:,} bytes".replace(",", " ")


def shown_document(facts: FileFacts) -> ShownDocument:
    """The document, Markdown as such, anything else as text."""
    path = facts.path
    if facts.content is None:
        return ShownDocument(path, facts.digest or "", Markup(""), 0, facts.problem or "There is no such file.")
    size = len(facts.content)
    body = _kept(path, facts.content) if size <= KEPT else rendered(path, facts.content)
    return ShownDocument(path, facts.digest or "", body, size)


def named_document(facts: FileFacts) -> ShownDocument:
    """The document without its text, on a page that has no room for more."""
    size = len(facts.content or b"")
    return ShownDocument(
        facts.path, facts.digest or "", Markup(""), size, f"{size} bytes, not shown here: see the file"
    )


@lru_cache(maxsize=128)
def _kept(path: str, content: bytes) -> Markup:
    """The same document stands on a page again and again while somebody watches a run."""
    return rendered(path, content)


def rendered(path: str, content: bytes) -> Markup:
    """The bytes of a document as HTML."""
    text = decoded(content[:MOST])
    if len(content) > MOST:
        text += f"\n\n(and {len(content) - MOST} bytes more: the file has them)"
    if path.lower().endswith(MARKDOWN):
        return prose(text)
    return Markup("<pre><code>{}</code></pre>").format(highlighted(plain(text), path=path))

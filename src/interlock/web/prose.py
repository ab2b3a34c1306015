"""What agents and people wrote, as HTML that can do nothing: text is data, whatever stands in it (PAGE-02).

Markdown is read without HTML, and whatever agents read in the source people see: what could hide something (links,
definitions apart, images, entities) is shown as it was written; control characters, and those that show nothing, are
spelled out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from interlock.cli.text import harmless

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

LONGEST = 400_000
"""Characters of one text that are shown; of a longer one the beginning, and it says so."""
LONGEST_MARKDOWN = 64_000
"""Characters that are read as Markdown: the time for it grows with their square.  More is shown as it is written."""
SHIFT = 2
"""Headings of a text stand below those of the page."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""Any other sequence for a terminal is spelled out: a text can be hidden in it."""
_BETWEEN = re.compile(r"(?<!\\)\|")


def plain(text: str) -> str:
    """The text with its lines and tabs, and nothing that a terminal or a page would obey."""
    return harmless(_COLOUR.sub("", text) if "\x1b" in text else text)


def prose(text: str) -> Markup:
    """Markdown as HTML."""
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}\n\n(and {len(text) - LONGEST} characters more: the file has them)"
    if len(text) > LONGEST_MARKDOWN:
        return Markup("<pre><code>{}</code></pre>").format(plain(text))
    reader, source = _reader(), plain(text)
    tokens = list(_tamed(reader.parse(source), source.split("\n")))
    return Markup(reader.renderer.render(tokens, reader.options, {}))


@lru_cache(maxsize=1)
def _reader() -> MarkdownIt:
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False})
    reader.enable(["table", "strikethrough"])
    reader.disable(["reference", "link", "image", "autolink", "entity"])
    reader.add_render_rule("fence", _fence)
    reader.add_render_rule("code_block", _fence)
    return reader


def _tamed(tokens: Iterable[Token], rows: Sequence[str]) -> Iterator[Token]:
    """The tokens with headings of a lower rank, none left out between them; behind a table that has no room for all
    its cells stands how it was written."""
    rank, columns, begun = SHIFT, 0, [0, 0]
    for token in tokens:
        if token.type == "heading_open":
            rank = min(6, int(token.tag[1]) + SHIFT, rank + 1)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{rank}"
        if token.type in ("th_open", "td_open"):
            token.attrs.pop("style", "")  # refused by the page's policy
        yield token
        if token.type == "table_open":
            begun, columns = token.map or begun, 0
        columns += token.type == "th_open"
        if token.type == "table_close":
            written = rows[slice(*begun)]
            if any(len(_BETWEEN.findall(row.strip().strip("|"))) >= columns for row in written):
                yield replace(token, type="code_block", tag="code", nesting=0, content="\n".join(written))


def _fence(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    """A block of code; of what stands behind its fence no more than the name of a language is left out."""
    token = tokens[index]
    said = "" if re.fullmatch(r"[\w.+#-]{0,10}", token.info.strip()) else f"<p>{escape(token.info)}</p>\n"
    return f"{said}<pre><code>{escape(token.content)}</code></pre>\n"

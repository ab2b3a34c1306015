"""What agents and people wrote, as HTML that can do nothing: text is data, whatever stands in it (PAGE-02).

Markdown is read without HTML.  A link is one only if it leads to a web or mail address; an image is never fetched, its
place says what it would show.  Whatever agents read in the source people see: where a link leads, titles, definitions,
cells that a table has no room for.  Control characters, and those that show nothing, are spelled out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

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
SCHEMES = frozenset(("http", "https", "mailto"))
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
"""Any other sequence for a terminal is spelled out: a text can be hidden in it."""
_WORD = re.compile(r"[\w.+#-]{1,20}")


def plain(text: str) -> str:
    """The text with its lines and tabs, and nothing that a terminal or a page would obey."""
    return harmless(_COLOUR.sub("", text) if "\x1b" in text else text)


def prose(text: str) -> Markup:
    """Markdown as HTML."""
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}\n\n(and {len(text) - LONGEST} characters more: the file has them)"
    if len(text) > LONGEST_MARKDOWN:
        return Markup("<pre><code>{}</code></pre>").format(plain(text))
    reader, known, source = _reader(), dict[str, Any](), plain(text)
    tokens = reader.parse(source, known)
    shown = list(_whole_tables(_tamed(tokens), source.split("\n")))
    return Markup(reader.renderer.render(shown, reader.options, {})) + _unseen(known)


def _unseen(known: Mapping[str, Any]) -> Markup:
    """Where links lead that are defined apart: nobody would see these lines, but agents read them."""
    found = [(name, one) for name, one in known.get("references", {}).items()]
    found += [(one["label"], one) for one in known.get("duplicate_refs", ())]
    rows = [" ".join(filter(None, (f"[{name}]:", one["href"], one["title"]))) for name, one in found]
    return Markup("<pre><code>{}</code></pre>\n").format("\n".join(rows)) if rows else Markup("")


def is_web(address: str) -> bool:
    """Whether a link may lead there."""
    try:
        parts = urlsplit(address.strip())
    except ValueError:
        return False
    return parts.scheme.lower() in SCHEMES and (bool(parts.netloc) or parts.scheme.lower() == "mailto")


@lru_cache(maxsize=1)
def _reader() -> MarkdownIt:
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False})
    reader.enable(["table", "strikethrough"])
    reader.add_render_rule("fence", _fence)
    reader.add_render_rule("code_block", _fence)
    reader.add_render_rule("image", _image)
    return reader


def _tamed(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens with headings of a lower rank, none left out between them; links lead to the web, or are none."""
    opened: list[Token] = []
    texts: list[str] = []
    rank = SHIFT
    for token in tokens:
        if token.type == "heading_open":
            rank = min(6, int(token.tag[1]) + SHIFT, rank + 1)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{rank}"
        if token.type in ("th_open", "td_open"):
            token.attrs.pop("style", "")  # refused by the page's policy
        if token.children is not None:
            token.children = list(_tamed(token.children))
        if token.type == "link_open":
            opened.append(token)
            texts.append("")
            if is_web(str(token.attrs.get("href", ""))):
                target = {name: value for name, value in token.attrs.items() if name == "href"}
                yield replace(token, attrs={**target, "rel": "noopener noreferrer nofollow"})
        elif token.type == "link_close":
            begun, said = opened.pop(), texts.pop()
            if is_web(str(begun.attrs.get("href", ""))):
                yield token
            if told := _target(begun, said):
                yield replace(token, type="text", tag="", nesting=0, content=told)
        else:
            texts[-1:] = [texts[-1] + token.content] if texts else []
            yield token


def _target(link: Token, said: str) -> str:
    """Where a link leads, for those who only see its words; nothing where these are the address."""
    address, title = str(link.attrs.get("href", "")), str(link.attrs.get("title", ""))
    known = address in (said, f"mailto:{said}")
    told = " ".join(filter(None, ("" if known else address, f'"{title}"' if title else "")))
    return f" ({told})" if told else ""


def _whole_tables(tokens: Iterable[Token], rows: Sequence[str]) -> Iterator[Token]:
    """The tokens; behind a table that has no room for all its cells, how it was written."""
    begun: Token | None = None
    columns = 0
    for token in tokens:
        yield token
        if token.type == "table_open":
            begun, columns = token, 0
        columns += token.type == "th_open"
        if token.type == "table_close" and begun is not None and begun.map is not None:
            written = rows[slice(*begun.map)]
            if any(len(_BETWEEN.findall(row.strip().strip("|"))) >= columns for row in written):
                yield replace(token, type="code_block", tag="code", nesting=0, content="\n".join(written))


_BETWEEN = re.compile(r"(?<!\\)\|")


def _fence(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    token = tokens[index]
    words = token.info.split()
    usual = len(words) == 1 and _WORD.fullmatch(words[0]) and len(words[0]) <= 10
    said = Markup("<p>{}</p>\n").format(" ".join(words)) if words and not usual else ""
    return f"{said}<pre><code>{escape(token.content)}</code></pre>\n"


def _image(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    token = tokens[index]
    told = (token.content, str(token.attrs.get("src", "")), str(token.attrs.get("title", "")))
    return str(escape(f"[image: {', '.join(filter(None, told))}]"))

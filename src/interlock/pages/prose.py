"""What agents and people wrote, as HTML that can do nothing: text is data, whatever stands in it.

Markdown is read without HTML.  A link is one only if it leads to a web address or a mail address; an image is never
fetched, its place says what it would show.  Whatever agents read in the source people see: where a link leads, titles,
cells that a table has no room for.  Colours for terminals go; any other control character is spelled out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from markupsafe import Markup, escape

from interlock.documents.words import few
from interlock.telemetry import harmless

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

LONGEST = 400_000
"""Characters of one text that are shown; of a longer one the beginning, and it says so."""
LONGEST_MARKDOWN = 64_000
"""Characters of a text that are read as Markdown: the time that this can take grows with their square.  A longer text
is shown as it is written."""
LONGEST_CODE = 20_000
"""Characters of code that are coloured, for the same reason."""
UNBROKEN = re.compile(r"[^\n]{600}|\s{200}")
"""Code that no person reads; expressions for colours can take very long for it, and little else is served meanwhile."""
SHIFT = 2
"""Headings of a text stand below those of the page."""
UNCOLOURED = (".md", ".txt", ".rst", ".csv")
"""Files of words: colours would say nothing of them."""
SCHEMES = frozenset(("http", "https", "mailto"))
_TERMINAL = re.compile(r"\x1b\[[0-9;]*[mABCDGHJK]")
"""Colours and moves of the cursor.  Any other sequence is spelled out: a text can be hidden in it."""


def plain(text: str) -> str:
    """The text with its lines and tabs and nothing that a terminal or a page would obey."""
    return harmless(_TERMINAL.sub("", text) if "\x1b" in text else text)


def decoded(content: bytes) -> str:
    """Bytes as text; what is no UTF-8 shows as such."""
    return content.decode("utf-8", "replace")


def prose(text: str) -> Markup:
    """Markdown as HTML."""
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}\n\n(and {len(text) - LONGEST} characters more: the file has them)"
    if len(text) > LONGEST_MARKDOWN:
        return Markup("<pre><code>{}</code></pre>").format(plain(text))
    reader = _reader()
    known: dict[str, Any] = {}
    source = plain(text)
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
    open_: list[Token] = []
    texts: list[str] = []
    rank = SHIFT
    for token in tokens:
        if token.type == "heading_open":
            rank = min(6, int(token.tag[1]) + SHIFT, rank + 1)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{rank}"
        if token.type in ("th_open", "td_open"):
            align = str(token.attrs.pop("style", ""))  # a style attribute is refused by the page's policy
            if align.endswith(("right", "center")):
                token.attrs["class"] = align.rpartition(":")[2]
        if token.children is not None:
            token.children = list(_tamed(token.children))
        if token.type == "link_open":
            open_.append(token)
            texts.append("")
            if is_web(str(token.attrs.get("href", ""))):
                target = {name: value for name, value in token.attrs.items() if name == "href"}
                yield replace(token, attrs={**target, "rel": "noopener noreferrer nofollow"})
        elif token.type == "link_close":
            begun, said = open_.pop(), texts.pop()
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
    language, *more = token.info.split() or [""]
    if language and _lexer(language, "") is None:
        more = [language, *more]
    said = Markup("<p>{}</p>\n").format(" ".join(more)) if more else ""
    return f"{said}<pre><code>{highlighted(token.content, language=language)}</code></pre>\n"


def _image(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    token = tokens[index]
    told = (token.content, str(token.attrs.get("src", "")), str(token.attrs.get("title", "")))
    return str(escape(f"[image: {', '.join(filter(None, told))}]"))


# -- code


def highlighted(code: str, *, language: str = "", path: str = "") -> Markup:
    """Code with classes for what its parts are."""
    return Markup("\n").join(highlighted_lines(code.split("\n"), language=language, path=path))


def highlighted_lines(rows: Sequence[str], *, language: str = "", path: str = "") -> list[Markup]:
    """The same, line by line: as many as were given."""
    text = "\n".join(rows)
    lexer = _lexer(language, path) if len(text) <= LONGEST_CODE and not UNBROKEN.search(text) else None
    tokens = [] if lexer is None else list(lexer.get_tokens(text))
    if "".join(value for _, value in tokens) != text:  # no colours, or some that would leave something out
        return [escape(row) for row in rows]
    made: list[list[Markup]] = [[]]
    for kind, value in tokens:
        name = _short(kind)
        for number, part in enumerate(value.split("\n")):
            if number:
                made.append([])
            if part:
                made[-1].append(Markup('<span class="{}">{}</span>').format(name, part) if name else escape(part))
    return [Markup("").join(parts) for parts in made][: len(rows)]


@lru_cache(maxsize=256)
def _lexer(language: str, path: str) -> Any:
    from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
    from pygments.util import ClassNotFound

    options = {"stripnl": False, "ensurenl": False}
    try:
        if language:
            return get_lexer_by_name(language, **options)
        if not path or path.lower().endswith(UNCOLOURED):
            return None
        return get_lexer_for_filename(path.rpartition("/")[2], **options)
    except ClassNotFound:
        return None


def _short(kind: Any) -> str:
    """The class of a kind of token: few are told apart, so that colours stay quiet."""
    from pygments.token import Token

    for family, name in (
        (Token.Comment, "c"),
        (Token.Keyword, "k"),
        (Token.Literal.String, "s"),
        (Token.Literal.Number, "m"),
        (Token.Name.Function, "f"),
        (Token.Name.Class, "f"),
        (Token.Name.Tag, "k"),
        (Token.Name.Decorator, "f"),
    ):
        if kind in family:
            return name
    return ""


def listed_words(words: Iterable[str], most: int = 3) -> str:
    """A few of them, and how many more there are."""
    return few(list(words), most)

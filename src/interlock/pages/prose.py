"""What agents and people wrote, as HTML that can do nothing: text is data, whatever stands in it.

Markdown is read without HTML.  A link is one only if it leads to a web address or a mail address; an image is never
fetched, its place says what it would show.  Sequences for terminals go; any other control character is spelled out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
_TERMINAL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[PX^_][^\x1b]*\x1b\\|\x1b[ -/]*[0-~]"
)
"""Sequences that a terminal obeys: colours, cursor, titles."""


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
    tokens = reader.parse(plain(text), known)
    return Markup(reader.renderer.render(list(_tamed(tokens)), reader.options, {})) + _unseen(known)


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
    """The tokens with headings of a lower rank, and links that lead nowhere else than to the web."""
    dropped: list[bool] = []
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + SHIFT)}"
        if token.type in ("th_open", "td_open"):
            align = str(token.attrs.pop("style", ""))  # a style attribute is refused by the page's policy
            if align.endswith(("right", "center")):
                token.attrs["class"] = align.rpartition(":")[2]
        if token.children is not None:
            token.children = list(_tamed(token.children))
        if token.type == "link_open":
            away = is_web(str(token.attrs.get("href", "")))
            dropped.append(not away)
            if away:
                token.attrs["rel"] = "noopener noreferrer nofollow"
                yield token
        elif token.type == "link_close":
            if not dropped.pop():
                yield token
        else:
            yield token


def _fence(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    token = tokens[index]
    language, *more = token.info.split() or [""]
    said = Markup("<p>{}</p>\n").format(" ".join(more)) if more else ""
    return f"{said}<pre><code>{highlighted(token.content, language=language)}</code></pre>\n"


def _image(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    token = tokens[index]
    source = str(token.attrs.get("src", ""))
    return str(escape(f"[image: {token.content or source}]"))


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

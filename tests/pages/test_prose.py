"""What agents wrote is data: Markdown, patches and names become words and nothing else."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.pages.diffs import read_patch
from interlock.pages.prose import is_web, plain, prose

TAGS = frozenset(("a", "p", "h3", "h4", "h5", "h6", "ul", "ol", "li", "em", "strong", "s", "code", "pre", "span"))
TAGS |= {"blockquote", "hr", "br", "table", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES = frozenset(("href", "rel", "class", "title", "start"))
NASTY = (
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](file:///etc/passwd)",
    "[x](//evil.example/x)",
    "![x](https://evil.example/pixel.png)",
    "<https://evil.example/>",
    "<javascript:alert(1)>",
    "[x]: javascript:alert(1)\n\n[x]",
    '```"><script>\nx\n```',
    "| a |\n| :-: |\n| <b> |",
    "\x1b]0;owned\x07\x1b[2J\u202eevil",
)
texts = st.text(max_size=80) | st.sampled_from(NASTY) | st.lists(st.sampled_from(NASTY), max_size=4).map("\n\n".join)


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name == "href"]


@pytest.mark.req("WB-09")
@given(texts)
def test_markdown_becomes_words_and_links_to_the_web(text: str) -> None:
    """No tag, attribute or link besides the harmless ones, and no character that a terminal or a page obeys."""
    page = str(prose(text))
    seen = Tags(page)
    assert seen.tags <= TAGS
    assert seen.attributes <= ATTRIBUTES
    assert all(is_web(link) for link in seen.links)
    assert all(char in "\t\n" or char.isprintable() for char in page)


@pytest.mark.req("WB-09")
def test_an_image_is_never_fetched_and_colours_of_a_terminal_go() -> None:
    """Its place says what it would show; escape sequences vanish, what is left of control is spelled out."""
    assert "[image: x]" in prose("![x](https://evil.example/pixel.png)")
    assert plain("\x1b[31mred\x1b[0m \x07") == "red \\x07"


@pytest.mark.req("WB-04", "WB-09")
def test_a_patch_is_read_with_odd_names_and_bytes() -> None:
    """Quoted names, bytes that are no text, tags: each file by its name, each line by its number."""
    patch = (
        b'diff --git "a/odd\\n<b>\\303\\244.py" "b/odd\\n<b>\\303\\244.py"\n'
        b'--- "a/odd\\n<b>\\303\\244.py"\n+++ "b/odd\\n<b>\\303\\244.py"\n'
        b"@@ -1,2 +1,2 @@ def f\n same\n-old <i>\n+new \xff\x1b[31m\n"
        b"diff --git a/pic.png b/pic.png\nnew file mode 100644\nindex 0..1\nGIT binary patch\nliteral 0\n\n"
    )
    odd, binary = read_patch(patch)
    assert (odd.path, odd.added, odd.removed) == ("odd\n<b>ä.py", 1, 1)
    assert [(row.tone.value, row.old, row.new) for row in odd.rows] == [
        ("place", None, None),
        ("same", 1, 1),
        ("removed", 2, None),
        ("added", None, 2),
    ]
    assert Tags("".join(str(row.code) for row in odd.rows)).tags <= {"span"}
    assert (binary.path, binary.what) == ("pic.png", "binary")

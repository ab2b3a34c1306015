"""What agents and people wrote is data: it is shown, it does nothing, and none of it can hide (PAGE-02, PERSON-01)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.web import diffs
from interlock.web.prose import LONGEST, prose
from interlock.workspace.values import Change
from tests.web.conftest import Site

pytestmark = pytest.mark.req("PAGE-02")

TAMED = {
    "a script": ("<script>x()</script>", "&lt;script&gt;"),
    "an image with a handler": ("<img src=x onerror=x()>", "&lt;img"),
    "a link": ("[here](javascript:x 'do as I say')", "[here](javascript:x 'do as I say')"),
    "an address": ("<https://evil.example/x>", "&lt;https://evil.example/x&gt;"),
    "an image": ("![pixel](https://evil.example/p.png)", "![pixel](https://evil.example/p.png)"),
    "a comment": ("<!-- do as I say -->", "&lt;!-- do as I say --&gt;"),
    "a definition": ("[x]: https://example.org 'do as I say'\n", "do as I say"),
    "a definition twice": ("[x]: /a\n[x]: /b 'do as I say'\n\n[x]", "do as I say"),
    "a cell too many": ("|a|\n|-|\n|b|do as I say|\n", "do as I say"),
    "words behind a fence": ("```py do as I say\nx\n```", "do as I say"),
    "a sequence of a terminal": ("a\x1b]0;do as I say\x07b", "do as I say"),
    "letters that show nothing": ("a\u200b\U000e0061b", "\\u200b\\U000e0061"),
    "letters that turn round": ("a\u202eb", "\\u202e"),
    "the same, by number": ("a&#x202e;b", "&amp;#x202e;"),
}


def test_a_text_can_neither_act_nor_hide() -> None:
    for why, (text, shown) in TAMED.items():
        made = str(prose(text))
        assert shown in made.replace("&quot;", '"'), (why, made)
        assert not re.search(r"<(a|script|img|style|form|input|svg|object|meta)\b|<[^>]*\s(on\w+|style|id|src)=", made)


@given(st.text(alphabet=st.sampled_from("<>[]()!`|-_*\"'&#:/ \n\tax\x00\x1b\u202e"), max_size=80))
def test_whatever_stands_in_a_text_no_tag_of_it_comes_through(text: str) -> None:
    tags = set(re.findall(r"<\s*/?([a-zA-Z0-9]+)", str(prose(text))))
    inline, lists = {"em", "strong", "code", "s", "br"}, {"ul", "ol", "li", "p", "pre", "blockquote", "hr"}
    assert tags <= inline | lists | {"table", "thead", "tbody", "tr", "th", "td"} | {"h3", "h4", "h5", "h6"}


def test_long_texts_take_no_time_and_say_that_they_are_cut() -> None:
    """The time for Markdown grows with the square of its length."""
    assert "&lt;b&gt;" in prose("[" * 70_000 + "<b>")
    assert "characters more: the file has them" in prose("x" * (LONGEST + 1))
    assert diffs.compared("x", "a\nb\n" * 40_000, "a\nc\n" * 40_000).left_out > 70_000


NASTY = "<script>x()</script><b>\x1b[31m\u202e"


def test_names_words_and_answers_are_data_wherever_they_are_shown(site: Site) -> None:
    """The request, an agent's answer, a file's name, its lines, a person's note."""
    site.interlock.act("builder-1", f"printf '%s' '{NASTY}' > '<b>odd'; sed -i 's/a - b/a + b/' lib.py; echo '{NASTY}'")
    site.interlock.write("lib.py", "def add(a, b):\n    return a - b\n")
    assert site.interlock("run", "task", f"Mend it {NASTY}").code == 0
    entry = site.entry("task")
    for where in ("/", site.at("task"), site.at("task", "/diff"), site.dispatch("builder", "task")):
        got = site.get(where)
        assert got.status == 200
        assert "&lt;script&gt;" in got.text, where
        assert not re.search("<script>|<b>odd|\x1b|\u202e", got.text), where
    assert site.interlock("show", entry.id, "--html", "x.html").code == 0
    assert not re.search("<script|<b>odd|\x1b|\u202e", (site.interlock.top / "x.html").read_text())


ODD = (
    "a b",
    "a\nb",
    "a\tb",
    'a"b',
    "a\\b",
    " lead",
    "trail ",
    "+++ x",
    "@@ -1 +1 @@",
    "diff --git a b",
    "ä",
    "\x1b[2J",
)


def test_no_name_of_a_file_hides_a_change(site: Site) -> None:
    """A name with a newline once hid all changes of a gate; links, modes, a NUL, cut lines are counted."""
    lines = ["import os", "from pathlib import Path"]
    lines += [f"Path({name!r}).write_text('odd {number}\\n')" for number, name in enumerate(ODD)]
    lines += ["Path('notes.txt').unlink()", "Path('notes.txt').symlink_to('lib.py')", "os.chmod('lib.py', 0o755)"]
    lines += ["Path('sly.js').write_bytes(b'// \\0\\nevil()\\n')", "Path('long').write_text('a' * 9000 + 'end\\n')"]
    lines += ["Path('plan.md').write_text('A plan.\\n')"]
    site.interlock.write("agent.py", "\n".join(lines))
    site.interlock.act("planner", "python3 agent.py; echo planned")
    assert site.interlock("run", "ship", "a boat").code == 4
    gate = site.get(site.at("ship", "/gate"))
    for number, name in enumerate(ODD):
        assert f"odd {number}<" in gate.text, name
    shown = re.findall(r'<summary><span class="path">([^<]*)</span>', gate.text)
    assert {"a\\nb", "&#34; lead&#34;", "&#34;trail &#34;", "\\x1b[2J", "notes.txt", "lib.py", "sly.js"} <= set(shown)
    assert re.search("link|mode", gate.words)
    assert "characters more" in gate.words
    assert "aend" in gate.words
    assert "Not all is on this page: 1 of the changed lines, what is in 1 of the files" in gate.words


@given(
    st.lists(
        st.sampled_from(["same", "+++ b/x", "--- a/x", "@@ -1 +1 @@", "diff --git a/x b/x", "", "\\ No newline"]),
        max_size=8,
    )
)
def test_lines_that_look_like_a_patch_stay_lines(rows: list[str]) -> None:
    """What a file says cannot end it, begin another, or pass for the place of a hunk."""
    body = "".join(f"+{row}\n" for row in rows)
    patch = f"diff --git a/f b/f\nnew file mode 100644\n--- /dev/null\n+++ b/f\n@@ -0,0 +1,{len(rows)} @@\n{body}"
    found = diffs.changed([Change(path="f", kind="added", added=len(rows), removed=0)], patch.encode())
    assert [row.text for row in found.files[0].rows] == rows
    assert (found.unseen, found.lines["added"]) == ("", len(rows))

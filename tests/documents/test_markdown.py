"""Markdown is read by its structure: front matter, literal headings, labels as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents.markdown import Line, Markdown, front_matter
from interlock.errors import DocumentInvalid

TEXT = """\
before

# Task

## Status ##
**Passed**

## Criteria
- one
  more of one
* [x] two
  - below two
3. three

after
### Deeper
- not in the list

```text
## Status
- in a fence
```
<!--
## Comment
-->
> ## Quoted

##  final   WORDS
| Name | Value |
|:-----|------:|
| a \\| b | 2 |
| c |
"""


@pytest.mark.req("EVID-02")
def test_headings_in_fences_comments_and_quotations_are_none() -> None:
    """Titles are found by any case and spacing; with `#` only on their level."""
    text = Markdown(TEXT)
    assert [(each.level, each.title, each.line) for each in text.sections] == [
        (1, "Task", 3),
        (2, "Status", 5),
        (2, "Criteria", 8),
        (3, "Deeper", 16),
        (2, "final   WORDS", 28),
    ]
    assert text.find("# status") == []
    assert text.find("## STATUS")[0].line == 5
    assert text.under() == "before\n\n"
    assert text.under("Criteria").endswith("after\n")
    assert "## Quoted" in text.under("Criteria", deep=True)
    assert text.under("Result") == ""


@pytest.mark.req("EVID-02")
def test_a_section_is_read_as_one_word_or_a_list() -> None:
    """Marks, boxes and emphasis aside; what is indented belongs to its bullet."""
    text = Markdown(TEXT)
    assert (text.value("Status"), text.value("Nothing")) == ("Passed", None)
    assert text.items("Criteria") == [Line("one\nmore of one", 9), Line("two\n- below two", 11), Line("three", 13)]


def test_tables_and_fences() -> None:
    """Cells may hold escaped pipes; fences know their language and line."""
    text = Markdown(TEXT)
    assert text.rows("Final words") == [(("Name", "Value"), 29), (("a | b", "2"), 31), (("c",), 32)]
    assert text.rows("Status") == []
    (fence,) = text.fences("text")
    assert (fence.content, fence.line) == ("## Status\n- in a fence\n", 19)
    assert text.fences("yaml") == []


def test_labels_are_none_in_code_and_the_first_counts() -> None:
    """A URL or a time is no label; in what ways people write one is tried in `test_changing`."""
    text = Markdown("```\nA: code\n```\nA: 1\nA: 2\nsee http://x at 10:30\n## B\nA: 3\n")
    assert (text.value("a"), text.every("A")) == ("1", ["1", "2", "3"])
    assert (text.value("see http"), text.value("see http://x at 10")) == (None, None)


@pytest.mark.req("CLI-05")
def test_front_matter_and_its_errors_count_lines_of_the_file() -> None:
    """Without it the whole is body; a mapping is wanted."""
    read = front_matter("---\nname: x\ntools: [a]\n---\n# Title\n", "a.md")
    assert read.source.data == {"name": "x", "tools": ["a"]}
    assert str(read.source.spot(("tools", 0))) == "a.md:3:9"
    assert read.body.text == "# Title\n"
    assert front_matter("# Title\n---\n", "a.md").source.data == {}
    for text, where in (("---\na: [\n---\n", "a.md:3:1"), ("---\n- a\n---\n", "a.md:2"), ("---\na: 1\n", "a.md:1")):
        with pytest.raises(DocumentInvalid) as caught:
            front_matter(text, "a.md")
        assert caught.value.where == where


@given(st.text(alphabet="#-*>` |:ab1.\n\t\r", max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    """Sections cover what they say, and nothing raises."""
    read = Markdown(text)
    for section in read.sections:
        assert section.line < section.own_end <= section.end <= len(text) + 2
        assert read.under(section.title, deep=True) is not None
    read.items(), read.every("a"), read.rows(), read.fences("a")

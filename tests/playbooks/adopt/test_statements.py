"""What readers write is checked against the source: each quote at its lines, and no word left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.playbooks.adopt.listing import SHOWN
from interlock.playbooks.adopt.source import MOST_PARTS, PART_CHARACTERS, PART_LINES, Part, Passage, SourceText
from interlock.playbooks.adopt.statements import Statement, StatementKind, StatementsOf, rendered

PROMPTS = sorted((Path(__file__).parent / "prompts").glob("*.md"))

TEXT = """\
---
limit: 3
---

# Lead

1. Call the builder. Never
   push to main.
2. Stop.

```bash
make test
```
"""


def reading(text: str = TEXT) -> StatementsOf:
    source = SourceText("lead.md", text)
    return StatementsOf(source, source.parts[0])


def stated(*changes: dict[str, Any], drop: str = "", text: str = TEXT) -> str:
    """The sample's document with some entries changed, by their id, or one dropped."""
    entries = json.loads(reading(text).sample())["statements"]
    for change in changes:
        for entry in entries:
            if entry["id"] == change["id"]:
                entry.update(change)
    return json.dumps({"statements": [entry for entry in entries if entry["id"] != drop]})


@pytest.mark.req("OW-51")
def test_a_quote_for_every_line_of_text_is_complete() -> None:
    """Frontmatter, headings, items and code are text; marks, fences and blank lines are not."""
    found = reading().statements(reading().sample())
    assert [one.quote for one in found] == [
        "limit: 3",
        "# Lead",
        "1. Call the builder. Never",
        "push to main.",
        "2. Stop.",
        "make test",
    ]
    assert reading().problems(reading().sample()) == []


@pytest.mark.req("OW-51")
def test_a_quote_may_go_over_lines_and_a_line_may_have_several() -> None:
    """Two statements share line 7; the second one ends on line 8."""
    text = stated(
        {"id": "S1.3", "quote": "Call the builder."},
        {"id": "S1.4", "quote": "Never\n push to main.", "lines": [7, 8]},
    )
    assert reading().problems(text) == []


@pytest.mark.req("OW-51", "OW-55")
def test_an_invented_quote_is_told_with_what_stands_there() -> None:
    """Whoever writes down what the source does not say hears what it does say."""
    problems = reading().problems(stated({"id": "S1.5", "quote": "Stop when it is green."}))
    assert problems == [
        'S1.5: "Stop when it is green." stands nowhere in the source; line 9: "2. Stop."',
        'line 9: no statement quotes "Stop"',
    ]


@pytest.mark.req("OW-51")
def test_a_quote_with_the_wrong_lines_is_told_the_right_ones() -> None:
    assert reading().problems(stated({"id": "S1.5", "lines": [7, 8]}))[0] == (
        "S1.5: the quote stands at line 9, not at lines 7-8"
    )


@pytest.mark.req("OW-51", "OW-55")
def test_a_line_left_out_is_told() -> None:
    assert reading().problems(stated(drop="S1.1")) == ['line 2: no statement quotes "limit: 3"']


@pytest.mark.req("OW-51")
def test_a_sentence_left_out_of_a_line_is_told() -> None:
    """It is not enough that a line is touched: a rule may hide behind the sentence that is quoted."""
    problems = reading().problems(stated({"id": "S1.3", "quote": "Call the builder."}))
    assert problems == ['line 7: no statement quotes "Never"']


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "rule"}, 'S1.5: kind "rule"; expected one of order, branch'),
        ({"quote": "  "}, "S1.5: the quote is empty"),
        ({"lines": [9, 8]}, "S1.5: lines 9 to 8; expected lines from 1 to 13"),
        ({"lines": [9, 99]}, "S1.5: lines 9 to 99; expected"),
        ({"lines": "9"}, "statement 5: needs id, kind and quote (texts) and lines"),
        ({"quote": None}, "statement 5: needs id"),
        ({"kind": 1}, "statement 5: needs id"),
    ],
)
@pytest.mark.req("OW-51")
def test_a_statement_that_is_none_is_told(change: dict[str, Any], said: str) -> None:
    assert reading().problems(stated({"id": "S1.5", **change}))[0].startswith(said)


@pytest.mark.req("OW-51")
def test_ids_are_unique_and_name_their_part() -> None:
    """An id of another part, or one used twice, is refused: what is traced must be one statement."""
    entries = json.loads(reading().sample())["statements"]
    entries[1]["id"] = "S1.1"
    entries[2]["id"] = "S2.3"
    problems = reading().problems(json.dumps({"statements": entries}))
    assert 'statement 3: id "S2.3"; expected S1.3' in problems
    assert "S1.1: used 2 times; an id names one statement" in problems


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"statements": {}}', "null", '{"statements": [1]}', "\u0000"])
def test_a_document_that_is_none_is_told_once(text: str) -> None:
    """What cannot be read is not also told line by line what it leaves out; an empty list is."""
    assert len(reading().problems(text)) == 1
    assert len(reading().problems('{"statements": []}')) == 6


@pytest.mark.req("OW-51")
def test_many_complaints_are_told_as_some_and_their_number() -> None:
    text = "\n".join(f"word {number}" for number in range(30))
    said = reading(text).problem('{"statements": []}')
    assert said is not None
    assert said.count("no statement quotes") == SHOWN
    assert said.endswith(f"and {30 - SHOWN} more")


@pytest.mark.parametrize("path", PROMPTS, ids=lambda path: path.name)
@pytest.mark.req("OW-51")
def test_the_sample_of_every_part_has_no_problem(path: Path) -> None:
    source = SourceText(path.name, path.read_text(encoding="utf-8"))
    for part in source.parts:
        one = StatementsOf(source, part)
        assert one.problems(one.sample()) == []
        assert {found.id[:3] for found in one.statements(one.sample())} == {f"S{part.number}."}


# -- where it is cut, and what counts


def cuts(*lines: str) -> list[tuple[int, int]]:
    return [(part.first, part.last) for part in SourceText("x.md", "\n".join(lines)).parts]


LONG = ["word"] * (PART_LINES + 10)


@pytest.mark.parametrize("mark", ["# Next", "###### Next", "<stage id='2'>"])
@pytest.mark.req("OW-51")
def test_a_part_ends_before_a_heading_or_a_tag_else_at_a_blank_line(mark: str) -> None:
    """The last one in the second half of what fits; a heading goes before a blank line."""
    text = [*LONG]
    assert cuts(*text) == [(1, PART_LINES), (PART_LINES + 1, PART_LINES + 10)]
    text[99] = ""
    assert cuts(*text) == [(1, 100), (101, PART_LINES + 10)]
    text[79] = text[89] = mark
    assert cuts(*text) == [(1, 89), (90, PART_LINES + 10)]


@pytest.mark.req("OW-51")
def test_a_part_is_not_cut_in_its_first_half() -> None:
    text = [*LONG]
    text[29] = text[54] = "# Early"
    text[31] = ""
    assert cuts(*text)[0] == (1, PART_LINES)
    text = [*LONG, *LONG]
    text[PART_LINES + 100] = "# Late"
    assert cuts(*text)[1:] == [(PART_LINES + 1, PART_LINES + 100), (PART_LINES + 101, len(text))]


@pytest.mark.req("OW-51")
def test_a_part_has_so_many_lines_and_characters_and_no_more() -> None:
    """And the page says how many."""
    page = (Path(__file__).parents[3] / "docs" / "playbooks" / "adopt.md").read_text("utf-8")
    assert f"each part of at most {PART_LINES} lines" in page
    assert f"more than {MOST_PARTS} parts" in page
    assert cuts(*["word"] * PART_LINES) == [(1, PART_LINES)]
    source = SourceText("x.md", "\n".join(LONG))
    assert source.texts(source.parts[1]) == [*range(PART_LINES + 1, PART_LINES + 11)]
    line = "x" * (PART_CHARACTERS // 2)
    assert cuts(line, line[:-1]) == [(1, 2)]
    assert cuts(line, line) == [(1, 1), (2, 2)]
    assert cuts(line * 3, "word") == [(1, 1), (2, 2)]


def test_lines_without_words_are_no_part() -> None:
    assert cuts("", "---", "", *["* * *"] * PART_LINES, "```bash", "```") == []


@pytest.mark.req("OW-51")
def test_marks_of_items_and_fences_are_not_text() -> None:
    """Numbers and bullets before an item, also one in another, and the name of a language; a sentence there is text."""
    source = SourceText("x.md", "1. a\n> 2. b 3. c\n```bash\n```\n~~~ be quick\n")
    found = source.left_out([], source.parts[0])
    assert found == {1: "a", 2: "b 3. c", 5: "be quick"}
    assert source.words == 6


@pytest.mark.req("OW-51")
def test_half_a_word_is_no_word() -> None:
    source = SourceText("x.md", "never merge")
    assert source.left_out([Passage(1, 1, 0, 8)], source.parts[0]) == {1: "merge"}


@pytest.mark.req("OW-51")
def test_of_words_that_stand_twice_those_at_the_lines_are_meant() -> None:
    """Also where the first of them end too early, or overlap."""
    assert SourceText("x.md", "x y x\ny").find("x y", 1, 2) == Passage(1, 2, 4, 7)
    assert SourceText("x.md", "aa\na\na").find("a a", 2, 3) == Passage(2, 3, 3, 6)
    assert SourceText("x.md", "a a\na").find("a a", 1, 2) == Passage(1, 2, 2, 5)
    assert SourceText("x.md", "a b\na b").find("a b", 2, 2) == Passage(2, 2, 4, 7)
    assert SourceText("x.md", "a b\na b").find_anywhere("a b") == Passage(1, 1, 0, 3)
    assert SourceText("x.md", "a b").find(" ", 1, 1) is None


@pytest.mark.req("OW-51")
def test_a_part_is_shown_with_its_numbers() -> None:
    text = "\n".join(f"line {number}" for number in range(1, 11))
    assert SourceText("x.md", text).numbered(Part(1, 9, 10)) == " 9| line 9\n10| line 10"


# -- whatever the text

WORDS = st.text(st.sampled_from("ab1 -#>*.|`~_\té\u3042"), max_size=12)
TEXTS = st.lists(WORDS, min_size=1, max_size=30).map("\n".join)


@given(TEXTS)
@pytest.mark.req("OW-51")
def test_parts_hold_every_line_with_text_once(text: str) -> None:
    source = SourceText("x.md", text)
    whole = Part(1, 1, len(source.lines))
    assert [line for part in source.parts for line in source.texts(part)] == source.texts(whole)
    assert all(one.last < after.first for one, after in zip(source.parts, source.parts[1:], strict=False))
    assert [part.number for part in source.parts] == list(range(1, len(source.parts) + 1))


@given(st.lists(st.integers(0, 400), min_size=1, max_size=400))
@pytest.mark.req("OW-51")
def test_no_part_is_longer_than_a_reader_is_given(lengths: list[int]) -> None:
    """By lines and by characters; only a line that is longer itself goes alone."""
    source = SourceText("x.md", "\n".join("x" * length for length in lengths))
    for part in source.parts:
        assert part.last - part.first < PART_LINES
        size = len("\n".join(source.lines[part.first - 1 : part.last]))
        assert size <= PART_CHARACTERS or part.first == part.last


@given(TEXTS)
@pytest.mark.req("OW-51")
def test_a_statement_per_line_is_always_complete(text: str) -> None:
    for part in (source := SourceText("x.md", text)).parts:
        assert StatementsOf(source, part).problems(StatementsOf(source, part).sample()) == []


@given(TEXTS, st.data())
@pytest.mark.req("OW-51")
def test_whatever_line_is_left_out_is_noticed(text: str, data: st.DataObject) -> None:
    """Any statement taken out of a complete reading leaves its line out, whichever other lines say the same."""
    source = SourceText("x.md", text)
    if not source.parts:
        return
    one = StatementsOf(source, data.draw(st.sampled_from(source.parts)))
    statements = list(one.statements(one.sample()))
    gone = statements.pop(data.draw(st.integers(0, len(statements) - 1)))
    problems = one.problems(rendered(statements))
    assert [problem.partition(":")[0] for problem in problems] == [f"line {gone.first}"]


@given(TEXTS, st.text(st.sampled_from("ab1XYZ."), min_size=1, max_size=8), st.data())
@pytest.mark.req("OW-51")
def test_a_quote_counts_if_and_only_if_it_stands_at_its_lines(text: str, quote: str, data: st.DataObject) -> None:
    """Compared with the plain definition: the lines joined, white space collapsed, of one line or several."""
    source = SourceText("x.md", text)
    first = data.draw(st.integers(1, len(source.lines)))
    last = data.draw(st.integers(first, len(source.lines)))

    def holds(begin: int, end: int) -> bool:
        return quote in " ".join(" ".join(source.lines[begin - 1 : end]).split())

    found = source.find(quote, first, last)
    if found is not None:
        assert holds(first, last)
        assert (found.first, found.last) == (first, last)
    elif first == last:
        assert not holds(first, last)


@given(st.text(max_size=200))
def test_any_text_is_judged_without_a_fault(text: str) -> None:
    assert reading().problems(text)


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=4)))
def test_any_data_is_judged_without_a_fault(data: Any) -> None:
    assert reading().problems(json.dumps({"statements": data}))
    assert reading().problems(json.dumps({"statements": [{"id": data, "kind": data, "lines": data, "quote": data}]}))


@pytest.mark.req("OW-52")
def test_the_first_six_kinds_are_rules() -> None:
    """Code can keep these; the others are words for agents and people."""
    rules = [kind for kind in StatementKind if Statement("S1.1", "x", 1, 1, kind).is_rule]
    assert rules == ["order", "branch", "limit", "gate", "scope", "output"]


@pytest.mark.req("OW-51")
def test_a_sample_takes_items_of_lists_for_orders() -> None:
    kinds = [one.kind for one in reading().statements(reading().sample())]
    assert kinds == ["context", "context", "order", "context", "order", "context"]


def test_the_kinds_are_those_of_the_specification() -> None:
    assert list(StatementKind) == ["order", "branch", "limit", "gate", "scope", "output", "role", "advice", "context"]

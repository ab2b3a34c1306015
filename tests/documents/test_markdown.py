"""Markdown edits touch one part; what a person wrote elsewhere survives."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.documents import Sections, split_frontmatter
from interlock.errors import DocumentInvalid

PERSONS = """\
# Run State

- Task ID: TASK-012
- **Current Stage**: Design{spaces}
- Stop Reason:
**Language**: lean

```yaml
# not a heading
- Task ID: not a field
```

## Artifact Paths
- Design: a.md
- Build: b.md
  second line
* third

### Deeper
text

##   Stage History  ##

| Run | Stage |
|-----|:-----:|
| R1 | a \\| b |

<!--
## Hidden
-->
> ## Quoted

Underlined
----------

## Empty
## Last
end""".replace("{spaces}", "   ")

LINES = st.sampled_from(
    [
        *("# A", "## B", "### C", "## B", "text", "", "", "- Name: value", "- Name:", "- **X**: y", "**F:** g"),
        *("| a | b |", "|---|---|", "```", "```yaml", "~~~", "    code", "> quote", "- item", "  more"),
        *("<!--", "-->", "<div>", "---", "\ttab", "\r"),
    ]
)
TEXTS = st.lists(LINES, max_size=14).map("\n".join) | st.text(max_size=80)


def doc() -> Sections:
    return Sections(PERSONS, "run-state.md")


def test_headings_are_found_with_level_line_and_extent() -> None:
    """Code, comments, quotations and underlined text have none."""
    assert [(it.heading, it.line) for it in doc().sections] == [
        ("# Run State", 1),
        ("## Artifact Paths", 13),
        ("### Deeper", 19),
        ("## Stage History", 22),
        ("## Empty", 36),
        ("## Last", 37),
    ]
    assert doc().body("Deeper") == "text\n\n"
    assert doc().own_text("## Artifact Paths").endswith("* third\n\n")
    assert doc().body("## Artifact Paths").endswith("### Deeper\ntext\n\n")
    assert doc().body("Empty") == ""
    assert doc().body("last") == "end"
    assert doc().find("### Artifact Paths") is None
    assert doc().find("## artifact  paths") is not None


def test_a_missing_section_is_named() -> None:
    """`<path>: section "## X" not found`."""
    with pytest.raises(DocumentInvalid, match=r'^run-state\.md: section "## Execution Waves" not found$'):
        doc().section("## Execution Waves")


def test_replacing_and_appending_leave_the_rest_alone() -> None:
    """Line breaks are added only where a following heading needs one."""
    assert doc().replace("Deeper", "new").text == PERSONS.replace("text\n\n", "new\n")
    assert doc().replace("Empty", "new").text == PERSONS.replace("## Empty\n", "## Empty\nnew\n")
    assert doc().replace("Last", "").text == PERSONS.removesuffix("end")
    assert doc().append("Deeper", "more\n").text == PERSONS.replace("text\n\n", "text\nmore\n\n")
    assert doc().append("Empty", "more").text == PERSONS.replace("## Empty\n", "## Empty\nmore\n")
    assert doc().append("Last", "more").text == PERSONS + "\nmore"
    assert Sections("# A").append("A", "x").text == "# A\nx\n"
    assert Sections("# A\n\n## B\n").append("A", "x").text == "# A\nx\n\n## B\n"


def test_a_section_can_be_inserted_anywhere() -> None:
    """With a blank line around it."""
    text = "# A\n\n## B\nb\n"
    assert Sections(text).insert("## C", "c").text == "# A\n\n## B\nb\n\n## C\nc\n"
    assert Sections(text).insert("## C", "c\n", before="B").text == "# A\n\n## C\nc\n\n## B\nb\n"
    assert Sections(text + "## D\n").insert("## C", "", after="B").text == "# A\n\n## B\nb\n\n## C\n\n## D\n"
    assert Sections("").insert("# C", "c").text == "# C\nc\n"


def test_text_that_would_swallow_other_sections_is_refused() -> None:
    """An unclosed fence or comment in what an agent said cannot hide the rest of a document."""
    for text in ("```\nopen", "<!-- open", "~~~~ python"):
        with pytest.raises(DocumentInvalid, match="sections around it"):
            doc().append("Deeper", text)


def test_fields_are_read_and_replaced_in_place() -> None:
    """As bullets or bold; not in code; the rest of the line stays."""
    found = doc().fields("Run State")
    assert {name: it.value for name, it in found.items()} == {
        "Task ID": "TASK-012",
        "Current Stage": "Design",
        "Stop Reason": "",
        "Language": "lean",
    }
    assert found["Current Stage"].line == 4
    stage = doc().set_field("Current Stage", "Build", "Run State")
    assert stage.text == PERSONS.replace("**: Design   ", "**: Build   ")
    stop = doc().set_field("Stop Reason", "two\nlines", "Run State")
    assert stop.text == PERSONS.replace("Stop Reason:", "Stop Reason: two lines")
    assert stop.set_field("Stop Reason", "", "Run State").fields("Run State")["Stop Reason"].value == ""
    with pytest.raises(DocumentInvalid, match="field Stage not found"):
        doc().set_field("Stage", "x", "Run State")


def test_bullets_and_fences_are_read() -> None:
    """A bullet has its further lines; a fence its info and line."""
    assert [(it.text, it.line) for it in doc().items("Artifact Paths")] == [
        ("Design: a.md", 14),
        ("Build: b.md\nsecond line", 15),
        ("third", 17),
    ]
    (fence,) = doc().fences("yaml")
    assert (fence.info, fence.line, fence.content) == ("yaml", 8, "# not a heading\n- Task ID: not a field\n")
    assert doc().fences("json") == ()
    assert doc().fences("yaml", "Deeper") == ()


def test_tables_are_read_and_rows_put() -> None:
    """Pipes in cells are escaped; one row per key where asked."""
    table = doc().table("Stage History")
    assert table is not None
    assert table.columns == ("Run", "Stage")
    assert [row.cells for row in table.rows] == [("R1", "a | b")]
    added = doc().append_row(["R2", "x|y\nz"], "Stage History")
    assert added.text == PERSONS.replace("| R1 | a \\| b |\n", "| R1 | a \\| b |\n| R2 | x\\|y z |\n")
    assert added.put_row(["R1", "new"], "Stage History").text == added.text.replace("a \\| b", "new")
    assert doc().put_row(["R3", ""], "Stage History").table("Stage History").rows[-1].cells == ("R3", "")  # type: ignore[union-attr]
    header_only = Sections("## Index\n| A | B |\n").append_row(["1", "2"], "Index")
    assert header_only.text == "## Index\n| A | B |\n| 1 | 2 |\n"
    with pytest.raises(DocumentInvalid, match="does not fit"):
        doc().append_row(["one"], "Stage History")
    with pytest.raises(DocumentInvalid, match="no table"):
        doc().append_row(["one"], "Deeper")


@given(TEXTS)
@example("# a\n" * 3 + "## b\r\n- x: y\r\n")
@example("# a\r## b\rtext")
@example("a\0b\n# c")
def test_a_section_replaced_by_its_own_body_gives_the_same_text(text: str) -> None:
    """For every section of every text."""
    document = Sections(text)
    for section in document.sections:
        first = document.find(section.heading)
        if first is section:
            assert document.replace(section.heading, document.body(section.heading)).text == text
        assert text[section.start : section.body_start].lstrip(" ").startswith("#" * section.level)


@given(TEXTS, TEXTS, st.data())
def test_text_elsewhere_survives_any_edit(text: str, new: str, data: st.DataObject) -> None:
    """Everything before the edit and behind it is there, in place and order; or the edit is refused."""
    document = Sections(text)
    if not document.sections:
        return
    section = document.section(data.draw(st.sampled_from([it.heading for it in document.sections])))
    with contextlib.suppress(DocumentInvalid):
        replaced = document.replace(section.heading, new)
        assert replaced.text.startswith(text[: section.body_start])
        assert replaced.text.endswith(text[section.end :])
        assert new in replaced.text
    with contextlib.suppress(DocumentInvalid):
        added = document.append(section.heading, new)
        at = next((n for n, (a, b) in enumerate(zip(text, added.text, strict=False)) if a != b), len(text))
        assert added.text.endswith(text[at:])
    with contextlib.suppress(DocumentInvalid):
        inserted = document.insert("## New", new, after=section.heading)
        assert inserted.text.startswith(text[: section.end])
        assert inserted.text.endswith(text[section.end :])


@given(TEXTS, st.text(max_size=30), st.data())
def test_a_set_field_reads_back_and_nothing_else_changes(text: str, value: str, data: st.DataObject) -> None:
    """In every section, for every field."""
    document = Sections(text)
    places = [
        (title, name) for title in (None, *(it.heading for it in document.sections)) for name in document.fields(title)
    ]
    if not places:
        return
    title, name = data.draw(st.sampled_from(places))
    old = document.fields(title)[name]
    edited = document.set_field(name, value, title)
    assert edited.fields(title)[name].value == " ".join(value.split())
    assert edited.text.startswith(text[: old.start])
    assert edited.text.endswith(text[old.end :])


@given(st.lists(st.text(max_size=12), min_size=2, max_size=2), st.lists(st.text(max_size=12), min_size=2, max_size=2))
def test_rows_read_back_as_written(first: list[str], second: list[str]) -> None:
    """Whatever the cells hold, white space aside."""
    document = Sections("| A | B |\n|---|---|\n\nbehind").append_row(first).append_row(second)
    table = document.table()
    assert table is not None
    assert [row.cells for row in table.rows] == [
        tuple(" ".join(cell.split()) for cell in row) for row in (first, second)
    ]
    assert document.text.endswith("|\n\nbehind")


def test_frontmatter_is_split_and_read() -> None:
    """Also behind a byte order mark; without one everything is body."""
    split = split_frontmatter("\ufeff---\nname: plan\nrouting:\n  default: x\n---\n# Body\n", "plan.md")
    assert split.data() == {"name": "plan", "routing": {"default": "x"}}
    assert (split.body, split.start_line, split.body_line) == ("# Body\n", 2, 6)
    assert split_frontmatter("# Body\n").yaml_text is None
    assert split_frontmatter("---\n---\n").data() == {}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("---\na: 1\nb: [\n---\n", 4),
        ("---\na: 1\n\tb: 2\n---\n", 3),
        ("---\na: 1\na: 2\n---\n", 3),
        ("---\n- 1\n---\n", 2),
    ],
)
def test_broken_frontmatter_is_named_with_the_line_in_the_file(text: str, line: int) -> None:
    """`<path>: frontmatter is not valid YAML: line n`."""
    with pytest.raises(DocumentInvalid, match=rf"^plan\.md: frontmatter is not valid YAML: line {line}\b") as caught:
        split_frontmatter(text, "plan.md")
    assert caught.value.line == line


def test_frontmatter_that_never_ends_is_an_error() -> None:
    """It is not silently taken for text."""
    with pytest.raises(DocumentInvalid, match="not closed"):
        split_frontmatter("---\na: 1\n", "plan.md")


@given(TEXTS)
@example("#\n- a: b\n# # c\n- d: e")
@example("---\n" + "[" * 3000 + "\n---\n")
@example("> " * 2000 + "# x")
@example("- " * 2000 + "# x")
def test_any_text_is_read_or_cleanly_refused(text: str) -> None:
    """Every reader of every text raises DocumentInvalid or nothing."""
    document = Sections(text)
    for title in (None, *(it.heading for it in document.sections)):
        document.fields(title)
        document.items(title)
        document.fences(title=title)
        document.table(title)
    for variant in (text, f"---\n{text}\n---\n"):
        with contextlib.suppress(DocumentInvalid):
            split_frontmatter(variant).data()

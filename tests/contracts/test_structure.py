"""What the text of an artifact must contain."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.contracts import (
    AllOf,
    Custom,
    Headings,
    Lines,
    SectionValues,
    Structure,
    TextList,
    YamlKeys,
    key_problems,
    quoted,
)
from interlock.contracts.structure import with_pipes

QA = AllOf(
    Headings(("## Blocking Issues", "## Acceptance Criteria")),
    Lines({"Validation Result": ("Passed", "Issues Found"), "Approval Readiness": ("Ready", "Back to Build")}),
)
RULES: list[Structure] = [
    Headings(("## Overview", "## Decisions")),
    Headings((), title=False),
    Lines({"Result": None}),
    SectionValues({"## Status": ("DONE", "ERROR"), "## Notes": None}),
    YamlKeys({"a": str, "n": int}, {"a": "b", "n": 0}, lambda data: iter(["it is odd"] if data["n"] % 2 else [])),
    QA,
    Custom(lambda text: None if "x" in text else "no x", "x"),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_a_sample_satisfies_its_own_rule(rule: Structure) -> None:
    """The scripted player can rely on it."""
    assert rule.problem(rule.sample()) is None
    assert rule.sample().strip()


@pytest.mark.parametrize(
    ("rule", "text", "problem"),
    [
        (Headings(("## A", "## B")), "# T\n## A\n```\n## B\n```\n", "## B missing"),
        (Headings(("## A", "## B")), "# T\n", "## A and ## B missing"),
        (Headings(("## A",)), "## A\n", "title (a line starting with '# ') missing"),
        (Headings(("## A",)), "# T\n## a\n", None),
        (Headings(("## A",)), "# T\n### A\n", "## A missing"),
        (QA, QA.sample().replace("Validation Result", "Verdict"), "Validation Result missing"),
        (Lines({"Result": ("Passed",)}), "Result: ", "Result missing"),
        (Lines({"Result": ("Passed",)}), "- **Result**: Passed", None),
        (Lines({"Result": ("Passed",)}), "**Result:** `Passed`", None),
        (Lines({"Result": ("Passed", "Failed")}), "Result: Maybe", 'Result is "Maybe"; expected Passed or Failed'),
        (Lines({"Result": ("Passed",)}), "Result: Passed\nResult: Maybe", 'Result is "Maybe"; expected Passed'),
        (
            Lines({"Result": ("Passed",)}),
            "Result:\nResult: Maybe\nResult: Passed",
            'Result is "Maybe"; expected Passed',
        ),
        (Lines({"Result": None}), "Result:\nResult: anything", None),
        (Lines({"Result": ("Ja",)}), "Result: Öl", 'Result is "Öl"; expected Ja'),
        (SectionValues({"## S": ("A",)}), "## S\nA   <!-- A | B -->\n", None),
        (SectionValues({"## S": ("A",)}), "## S\n\n## T\nA\n", "## S is empty"),
        (SectionValues({"## S": ("A", "B")}), "## S\nC\n", '## S is "C"; expected A or B'),
        (SectionValues({"## S": None}), "# S\nC\n", "## S missing"),
        (YamlKeys({"a": list}, {}), "b: 1", "field a missing"),
        (YamlKeys({"a": ("X", "Y")}, {}), "b: 1", "a missing; expected X or Y"),
        (YamlKeys({"a": float}, {}), "a: 1", None),
        (YamlKeys({"a": float}, {}), "a: 1.5", None),
        (YamlKeys({"a": float}, {}), "a: true", "a is true or false; expected number"),
        (YamlKeys({}, {}), "- 1", "not a YAML mapping"),
        (YamlKeys({}, {}), "a: 1\na: 2", 'not valid YAML: line 2: key "a" appears twice'),
        (YamlKeys({"a": int}, {}, lambda data: iter([f"a is {data['a']}"])), "a: x", "a is text; expected integer"),
        (YamlKeys({"a": int}, {}, lambda data: iter([f"a is {data['a']}", "b"])), "a: 1", "a is 1"),
        (AllOf(Custom(lambda _: None, ""), Custom(lambda _: "second", "")), "", "second"),
        (AllOf(Custom(lambda _: "first", ""), Custom(lambda _: "second", "")), "", "first; second"),
        (Lines({"A": None, "B": ("x",), "C": None}), "B: y\nC: z\n", 'A missing; B is "y"; expected x'),
        (SectionValues({"## A": None, "## B": None}), "## B\n", "## A missing; ## B is empty"),
    ],
)
def test_the_problem_is_named(rule: Structure, text: str, problem: str | None) -> None:
    """In few words that an agent can act on."""
    found = rule.problem(text)
    assert found == problem or (found is not None and problem is not None and found.startswith(problem))


@given(st.sampled_from(RULES), st.text(max_size=60))
def test_any_text_has_a_problem_or_none(rule: Structure, text: str) -> None:
    """No text makes a rule fail itself."""
    assert rule.problem(text) != ""


def test_samples_show_what_is_meant() -> None:
    """The first of the allowed values."""
    assert Headings(("## A",), title=False).sample() == "## A\n\nNothing to add.\n"
    assert Lines({"Result": ("Passed", "Failed"), "Note": None}).sample() == "Result: Passed\nNote: text\n"


@pytest.mark.parametrize(
    ("kind", "value", "what"),
    [
        (dict, [1], "is a list; expected mapping"),
        (int, True, "is true or false; expected integer"),
        (int, 1.5, "is a number; expected integer"),
        (bool, 1, "is an integer; expected true or false"),
        (("X", "Y"), "z", 'is "z"; expected X or Y'),
        (("X",), ["X"], 'is ["X"]; expected X'),
        (str, None, "is empty; expected text"),
        (str, " ", "is empty; expected text"),
        (str, 1, "is an integer; expected text"),
        (list, "b", "is text; expected list"),
        (TextList, "b", "is text; expected list"),
        (TextList, ["b"], None),
        (list, [1], None),
        (("X", "Y"), "Y", None),
        (bool, False, None),
        (dict, {}, None),
        (None, None, None),
    ],
)
def test_what_is_of_another_kind_is_named(kind: Any, value: object, what: str | None) -> None:
    """Whether the field is required or not; a list of texts is looked at entry by entry."""
    for kinds in (({"a": kind},), ({}, {"a": kind})):
        assert list(key_problems({"a": value}, *kinds)) == ([] if what is None else [("a", what)])
    assert list(key_problems({"a": ["b", 1, ""]}, {"a": TextList})) == [
        ("a[1]", "is an integer; expected text"),
        ("a[2]", "is empty; expected text"),
    ]


def test_what_may_be_left_out_may_be_empty() -> None:
    """A list or mapping without anything; a text or a word that is not said is left out."""
    assert list(key_problems({}, {}, {"a": list, "b": str})) == []
    assert list(key_problems({"a": None, "b": None, "c": None}, {}, {"a": list, "b": TextList, "c": dict})) == []
    assert list(key_problems({"a": None}, {}, {"a": str})) == [("a", "is empty; expected text")]
    assert list(key_problems({"a": None}, {"a": list, "b": int})) == [
        ("b", "missing"),
        ("a", "is empty; expected list"),
    ]


def test_a_long_value_is_shown_in_part() -> None:
    """Up to 80 characters, its quotes included."""
    assert quoted("a" * 78) == f'"{"a" * 78}"'
    assert quoted("a" * 79) == f'"{"a" * 78}…'


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a | b\n--- | ---\nc | d\n\ne | f", "| a | b\n| --- | ---\n| c | d\n\ne | f"),
        ("| a | b |\n|---|:---:|\nc | d\ne", "| a | b |\n|---|:---:|\n| c | d\ne"),
        ("a | b\n---\nc | d", "a | b\n---\nc | d"),
        ("a | b", "a | b"),
        ("", ""),
    ],
)
def test_rows_of_tables_begin_with_a_pipe(text: str, same: str) -> None:
    """Up to the line that is none; without a rule below its names nothing is a table."""
    assert with_pipes(text) == same

"""What the text of an artifact must contain."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.contracts import AllOf, Custom, Headings, JsonKeys, Lines, SectionValues, Structure, YamlKeys
from interlock.contracts.structure import quoted

QA = AllOf(
    Headings(("## Blocking Issues", "## Acceptance Criteria")),
    Lines({"Validation Result": ("Passed", "Issues Found"), "Approval Readiness": ("Ready", "Back to Build")}),
)
KEYS = {
    "status": ("ACCEPTED", "REJECTED"),
    "notes": str,
    "issues": list,
    "files": dict,
    "ok": bool,
    "n": int,
    "x": None,
}
RULES: list[Structure] = [
    Headings(("## Overview", "## Decisions")),
    Headings((), title=False),
    Lines({"Result": None}),
    SectionValues({"## Status": ("DONE", "ERROR"), "## Notes": None}),
    YamlKeys(KEYS),
    JsonKeys({**KEYS, "cost": float}),
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
        (YamlKeys({"a": list}), "b: 1", "field a missing"),
        (YamlKeys({"a": dict}), "a: [1]", "a is a list; expected mapping"),
        (YamlKeys({"a": int}), "a: true", "a is true or false; expected integer"),
        (YamlKeys({"a": ("X", "Y")}), "a: z", 'a is "z"; expected X or Y'),
        (YamlKeys({"a": str}), "a:", "a is empty; expected text"),
        (YamlKeys({"a": str}), "a: 1", "a is an integer; expected text"),
        (YamlKeys({"a": ("X",)}), "a: [X]", 'a is ["X"]; expected X'),
        (YamlKeys({"a": list}), "a: b", "a is text; expected list"),
        (YamlKeys({}), "- 1", "not a YAML mapping"),
        (YamlKeys({}), "a: 1\na: 2", 'not valid YAML: line 2: key "a" appears twice'),
        (JsonKeys({"a": float}), '{"a": 1}', None),
        (JsonKeys({"a": int}), '{"a": 1.5}', "a is a number; expected integer"),
        (JsonKeys({"a": None}), '{"a": null}', None),
        (JsonKeys({}), "[]", "not a JSON object"),
        (JsonKeys({}), '{"a": 1, "a": 2}', 'key "a" appears twice (line 1)'),
        (JsonKeys({}), "{", "not valid JSON: line 1 column 2: "),
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
    """The first of the allowed values, and something small of each kind."""
    assert Headings(("## A",), title=False).sample() == "## A\n\nNothing to add.\n"
    assert Lines({"Result": ("Passed", "Failed"), "Note": None}).sample() == "Result: Passed\nNote: text\n"
    kinds = {"w": ("A", "B"), "s": str, "b": bool, "i": int, "f": float, "l": list, "d": dict, "x": None}
    shown = {"w": "A", "s": "text", "b": True, "i": 1, "f": 1.0, "l": ["text"], "d": {"key": "text"}, "x": "text"}
    assert JsonKeys(kinds).sample() == json.dumps(shown, indent=2) + "\n"


def test_a_long_value_is_shown_in_part() -> None:
    """Up to 80 characters, its quotes included."""
    assert quoted("a" * 78) == f'"{"a" * 78}"'
    assert quoted("a" * 79) == f'"{"a" * 78}…'

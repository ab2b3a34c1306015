"""Marks in a report are read as marks, and sentences as nothing."""

from __future__ import annotations

import pytest

from interlock.contracts import failed_marks, open_boxes, says_none
from interlock.contracts.reading import failures_in_data
from interlock.contracts.words import denies, is_open
from tests.contracts.told import LIES, MARKS, NO_MARKS, TRUTHS

OF_COMMANDS = tuple(text for text in MARKS if "npm run e2e" in text)
"""A command and its status are read elsewhere."""


@pytest.mark.req("EV-01")
def test_every_mark_is_found_and_nothing_else() -> None:
    """At the beginning of a report, and under any heading but those about another time."""
    for text in MARKS:
        if text not in OF_COMMANDS:
            assert failed_marks(text) or open_boxes(text), text
            assert failed_marks(f"# All\n\n## Evidence\n\n{text}") or open_boxes(f"# All\n\n{text}"), text
    assert [text for text in NO_MARKS if failed_marks(text) or open_boxes(text)] == []


@pytest.mark.req("EV-01")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- **Tests**: FAILED.", ("Tests: FAILED",)),
        ("Status: red\n\nStatus: red", ("Status: red",)),
        ("All tests pass: no", ("All tests pass: no",)),
        ("| A | Result |\n|---|---|\n| e2e | FAIL |\n| x | pass |", ("e2e, FAIL",)),
        ("| A | Note |\n|---|---|\n| e2e | FAIL |", ()),
        ("| A | Met |\n|---|---|\n| AC1 | no |", ("AC1, no",)),
        ("| A | Result |\n|---|---|\n| AC1 | no |", ()),
        (
            "| A | Passed? | OK |\n|---|---|---|\n| AC1 | no | yes |\n| AC2 | yes | no |",
            ("AC1, no, yes", "AC2, yes, no"),
        ),
        ("## Tasks\n\n| A | State |\n|---|---|\n| T1 | open |", ("T1, open",)),
        ("## Wishes\n\n| A | State |\n|---|---|\n| T1 | open |", ()),
        ("| A | Result |\n|---|---|\n| e2e | pass |\n\n| B | Note |\n|---|---|\n| x | FAIL |", ()),
        ("## Before\n\n### Tests\n\nStatus: red\n\n## Now\n\nBuild: broken", ("Build: broken",)),
    ],
)
def test_a_mark_is_quoted_as_it_stands(text: str, said: tuple[str, ...]) -> None:
    """Each once; a table counts by the names of its columns, a part by its headings."""
    assert failed_marks(text) == said


def test_open_boxes_are_named() -> None:
    assert open_boxes("- [ ] a  b\n* [] c\n1. [ ] d\n- [x] e\n- [ ] a b\n") == ("a b", "c", "d")
    assert open_boxes("## Follow-up\n\n- [ ] a\n") == ()


def test_single_words() -> None:
    """What says no, that there is none, or that it is not done; a sentence says neither."""
    assert all(map(denies, (False, "no", "No.", "false", "not yet")))
    assert not any(map(denies, (True, None, 0, "", "yes", "no failures", "none of it")))
    assert all(map(is_open, ("TODO", "to-do", " open ", "pending.", "not tested", "in progress", "partially met")))
    assert not any(map(is_open, ("done", "open the file", "TODO list is sorted", "")))
    assert all(
        map(says_none, ("", "none", "None found.", "N/A", "-", "no issues", "**none**", "0", "no findings left"))
    )
    assert not any(map(says_none, ("none of the names are trimmed", "no tests", "1")))


@pytest.mark.req("EV-01")
def test_data_is_read_by_its_names() -> None:
    """Every lie has a place and a quote; what is true has none."""
    assert [lie for lie in LIES if not failures_in_data(lie)] == []
    assert [truth for truth in TRUTHS if failures_in_data(truth)] == []
    assert failures_in_data({"unit": {"passed": 0, "skipped": 40}}) == ("unit.skipped: 40, and none passed",)
    assert failures_in_data({"a": [{"criteria": {"AC1": "open"}}]}) == ("a.criteria.AC1: open",)

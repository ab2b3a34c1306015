"""What is set stands there, all else stays byte for byte; set once more it changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents.changing import ABSENT, add_below, add_row, dumped, set_fields, set_json, set_yaml
from interlock.documents.markdown import Markdown
from interlock.documents.reading import read_yaml

ITEMS = """{
    "version": 1,
    "items": [
        {"id": 7, "title": "Login",   "status": "ready", "passes": false, "own": [1,
            2]},
        {
            "id": "B",
            "status": "ready"
        }
    ]
}
"""


@pytest.mark.req("RM-11")
@pytest.mark.parametrize(
    ("values", "old", "new"),
    [
        (
            {("items", 0, "status"): "done", ("items", 0, "passes"): True},
            '"ready", "passes": false',
            '"done", "passes": true',
        ),
        ({("items", 0, "retryCount"): 1}, "2]},", '2], "retryCount": 1},'),
        ({("items", 1, "retryCount"): 1}, '"ready"\n        }', '"ready",\n            "retryCount": 1\n        }'),
        ({("items", 1, "status"): ABSENT}, '"B",\n            "status": "ready"', '"B"'),
        ({("items", 1, "id"): ABSENT}, '"id": "B",\n            ', ""),
        ({("items", 1, "status"): "ready", ("version",): 1, ("items", 1, "none"): ABSENT}, "", ""),
        ({("version",): True}, '"version": 1', '"version": true'),
        (
            {("items", 1, "why"): ["é", {"a": 1}]},
            '"ready"\n        }',
            '"ready",\n            "why": [\n                "é",\n                {\n                    "a": 1\n'
            "                }\n            ]\n        }",
        ),
    ],
)
def test_only_what_is_set_changes_in_json(values: Any, old: str, new: str) -> None:
    assert set_json(ITEMS, values) == ITEMS.replace(old, new, 1)
    assert set_json(set_json(ITEMS, values), values) == set_json(ITEMS, values)


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.text(max_size=3), _values, max_size=4),
    st.text(max_size=3),
    _values,
    st.sampled_from([None, 1, "\t"]),
)
def test_what_was_set_is_what_is_read(data: dict[str, Any], key: str, value: Any, indent: Any) -> None:
    text = json.dumps(data, indent=indent)
    assert json.loads(set_json(text, {(key,): value})) == {**data, key: value}
    assert json.loads(set_json(text, {(key,): ABSENT})) == {name: one for name, one in data.items() if name != key}


PROGRESS = """# mine
jira: "ABC-12"        # the ticket
own: {a: 1}
status: PENDING
iterations:
  - number: 0
    status: 'PENDING'
    completed_at: null
"""


@pytest.mark.parametrize(
    ("values", "old", "new"),
    [
        ({("jira",): "ABC-13"}, '"ABC-12"', '"ABC-13"'),
        ({("iterations", 0, "status"): "ACCEPTED"}, "'PENDING'", "'ACCEPTED'"),
        (
            {("status",): "PAUSED", ("iterations", 0, "number"): 1},
            "PENDING\niterations:\n  - number: 0",
            "PAUSED\niterations:\n  - number: 1",
        ),
        ({("iterations", 0, "completed_at"): None, ("status",): "PENDING"}, "", ""),
        ({("status",): ABSENT}, "status: PENDING\n", ""),
        ({("later",): None}, "completed_at: null\n", "completed_at: null\nlater: null\n"),
    ],
)
def test_only_what_is_set_changes_in_yaml(values: Any, old: str, new: str) -> None:
    assert set_yaml(PROGRESS, values) == PROGRESS.replace(old, new, 1)


@given(
    st.dictionaries(
        st.sampled_from("abc"), _values.filter(lambda one: not isinstance(one, str) or one.isprintable()), min_size=1
    )
)
def test_yaml_that_is_written_is_read_again(data: dict[str, Any]) -> None:
    told = json.loads(json.dumps(data))
    if not any(ord(letter) > 0xFFFF or not letter.isprintable() for letter in json.dumps(told, ensure_ascii=False)):
        assert json.dumps(read_yaml(dumped(told), "it").data, sort_keys=True) == json.dumps(told, sort_keys=True)


STATE = """# Run state

## Completed Stages

- None

A remark.

## Notes
- mine
"""


@pytest.mark.parametrize(("value", "new"), [("1", "- Count: 1\n"), (["Build: ann"], "- Count:\n  - Build: ann\n")])
def test_a_field_that_is_not_there_comes_to_the_end(value: Any, new: str) -> None:
    assert set_fields(STATE, {"Count": value}) == STATE + new
    assert set_fields(STATE + new, {"Count": value}) == STATE + new


def test_lines_come_to_the_end_of_what_stands_under_a_heading() -> None:
    once = add_below(STATE, "## Completed Stages", "- Design")
    assert once == STATE.replace("A remark.\n", "A remark.\n- Design\n")
    assert add_below(once, "## Completed Stages", "- Design") == once
    table = add_below(STATE, "## Stops", "| 1 | x |", ("| n | why |", "| --- | --- |"))
    table = add_below(table, "## Stops", "| 2 | y |", ("| n | why |", "| --- | --- |"))
    assert [row.cells for row in Markdown(table).rows("Stops")] == [("n", "why"), ("1", "x"), ("2", "y")]


ONE = (
    *(
        "- Stage: {}",
        "* stage : {}",
        "• STAGE: {}",
        "Stage: {}",
        "**Stage**: {}",
        "**stage:** {}",
        "* __Stage__: {}",
        "| Stage | {} |",
        "| **STAGE** | {} | why |",
    ),
    *("## Stage\n{}", "### Stage:\n\n- {}", "## Stage\n<!-- one of seven -->\n\n{}\n\nA remark.", "- Stage: `{}`"),
    *("- Stage: {}  # one of seven", "Stage: {} <!-- one of seven -->", "| Stage | {} <!-- now --> |"),
)
LIST = (
    *("- Done:\n  - {}\n  - {}", "Done:\n- {}\n- {}", "**Done:**\n\n- {}\n- {}", "Done: {}, {}", "| Done | {}, {} |"),
    *("## Done\n\n- {}\n- {}\n\nA remark.", "## Done\n* {}\n\n* {}", "## Done\n<!-- in order -->\n- {}\n- {}"),
)
_words = (
    st.text("abc-/ .", min_size=1, max_size=8)
    .map(lambda one: " ".join(one.split()))
    .filter(lambda one: one.strip("-. ") == one and one)
)


@pytest.mark.req("PERSON-07")
@given(st.permutations([0, 1]), st.sampled_from(ONE), st.sampled_from(LIST), _words, st.lists(_words, max_size=3))
def test_what_people_spell_is_read_and_written_back_so(order: Any, one: str, many: str, new: str, news: Any) -> None:
    """In any of the spellings, whatever stands beside it; once more it changes nothing."""
    between = "\n\nTalk.\n\n"

    def text(value: str, *values: str) -> str:
        parts = one.format(value), many.format(*values)
        return f"# It\n\n{parts[order[0]]}{between}{parts[order[1]]}\n\n## Last\n\nEnd.\n"

    page = Markdown(text("old", "x", "y"))
    assert (page.value("stage"), page.values("DONE")) == ("old", ["x", "y"])
    changed = set_fields(page.text, {"Stage": new, "Done": news or ["None"]})
    assert (Markdown(changed).value("Stage"), Markdown(changed).values("Done")) == (new, news)
    assert set_fields(changed, {"Stage": new, "Done": news or ["None"]}) == changed
    assert set_fields(page.text, {"Stage": new, "Done": ["p", "q"]}).split() == text(new, "p", "q").split()


@pytest.mark.parametrize(
    "spelled", ["## Done", "## Done\n", "- Done:", "Done:", "| Done | |", "## Done\n\n## Next\n\n- x"]
)
def test_an_empty_place_is_filled(spelled: str) -> None:
    for value in ("one", ["one", "two"]):
        changed = set_fields(f"# It\n\n{spelled}\n", {"done": value})
        assert Markdown(changed).values("Done") == (value if isinstance(value, list) else [value])
        assert [line for line in spelled.split() if line not in changed.split()] == []


def test_a_value_is_one_line_and_no_remark() -> None:
    text = set_fields("- Why: None\n", {"Why": "# a\n## b # c <!-- d"})
    assert set_fields(text, {"Why": "x"}) == "- Why: x\n"


def test_rows_come_by_the_names_of_their_columns() -> None:
    """Columns that a table lacks come to its right; a table or section that is not there is made."""
    row = {"Stage": "QA", "Who": "a|b", "When": "now"}
    text = "# R\n\n## History\n\nWhat came.\n\n| When | stage | Own |\n|:--|---|---|\n| then | Build | x |\n\nEnd.\n"
    changed = add_row(text, "History", row)
    assert [one.cells for one in Markdown(changed).rows("History")] == [
        ("When", "stage", "Own", "Who"),
        ("then", "Build", "x"),
        ("now", "QA", "", "a|b"),
    ]
    assert "What came." in changed and "End." in changed
    assert add_row(changed, "History", row) == changed
    for start in ("# R\n", "# R\n\n### History\n\n- None\n"):
        twice = add_row(add_row(start, "History", row), "History", {**row, "When": "later"})
        assert [one.cells[2] for one in Markdown(twice).rows("History")] == ["When", "now", "later"]

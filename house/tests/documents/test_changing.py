"""What is set stands there, all else stays byte for byte; set once more it changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents.changing import ABSENT, add_below, dumped, set_fields, set_json, set_yaml
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


def test_compact_json_stays_compact() -> None:
    assert set_json('[{"a":1}]', {(0, "b"): [1]}) == '[{"a":1, "b":[1]}]'
    assert set_json("[{}]", {(0, "b"): None}) == '[{"b": null}]'


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

- Current Stage: Design
Current Status: Active
| Field | Value |
| --- | --- |
| Current Run ID | RUN-1 |

## Completed Stages

- None

A remark.

## Stop Reason
None

## Notes
- mine
"""


@pytest.mark.parametrize(
    ("values", "old", "new"),
    [
        ({"current stage": "Build"}, "Stage: Design", "Stage: Build"),
        ({"Current Status": "Blocked"}, "Status: Active", "Status: Blocked"),
        ({"Current Run ID": "RUN-2"}, "| RUN-1 |", "| RUN-2 |"),
        ({"Completed Stages": ["Specification", "Design"]}, "- None\n", "- Specification\n- Design\n"),
        ({"Stop Reason": "it is red"}, "\nNone\n", "\nit is red\n"),
        ({"Remediation Count": "1"}, "- mine\n", "- mine\n- Remediation Count: 1\n"),
        ({"Approvals": ["Build: ann"]}, "- mine\n", "- mine\n- Approvals:\n  - Build: ann\n"),
    ],
)
def test_a_field_keeps_its_spelling(values: Any, old: str, new: str) -> None:
    assert set_fields(STATE, values) == STATE.replace(old, new, 1)
    assert set_fields(set_fields(STATE, values), values) == set_fields(STATE, values)


def test_lines_come_to_the_end_of_what_stands_under_a_heading() -> None:
    once = add_below(STATE, "## Completed Stages", "- Design")
    assert once == STATE.replace("A remark.\n", "A remark.\n- Design\n")
    assert add_below(once, "## Completed Stages", "- Design") == once
    table = add_below(STATE, "## Stops", "| 1 | x |", ("| n | why |", "| --- | --- |"))
    table = add_below(table, "## Stops", "| 2 | y |", ("| n | why |", "| --- | --- |"))
    assert [row.cells for row in Markdown(table).rows("Stops")] == [("n", "why"), ("1", "x"), ("2", "y")]

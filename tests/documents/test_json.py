"""JSON edits change one value and no other byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.documents import DuplicateKey, JsonDocument, JsonInvalid, load_json
from interlock.errors import DocumentInvalid

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
STYLES = st.sampled_from(
    [
        {},
        {"indent": 2},
        {"indent": "\t"},
        {"separators": (",", ":")},
        {"indent": 4, "ensure_ascii": False},
        {"indent": 1, "separators": (" ,", " : ")},
    ]
)


def paths_of(value: Any, prefix: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [prefix]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += paths_of(item, (*prefix, key))
    return found


PERSONS = """\
{ "version" : 1,
  "items": [
    {"id":7,   "status": "ready", "cost": 1.50, "note": "\\u00e9t\\/x"},
    {
      "id": 8,
      "status":"done"
    }
  ],
  "extra": {}, "list": []
}
"""


def test_only_the_value_changes() -> None:
    """Spacing, number spelling, escapes and the final line break are a person's."""
    document = JsonDocument.parse(PERSONS, "roadmap.json")
    assert document.render() == PERSONS
    edited = document.set(("items", 0, "status"), "in_progress")
    assert edited.render() == PERSONS.replace('"ready"', '"in_progress"')
    assert edited.data == json.loads(edited.text)
    assert document.line(("items", 1, "status")) == 6


def test_a_new_key_is_written_in_the_style_of_its_object() -> None:
    """On one line where the object is, on a line of its own where its keys are."""
    document = JsonDocument.parse(PERSONS, "roadmap.json")
    assert '"note": "\\u00e9t\\/x", "retryCount": 1}' in document.set(("items", 0, "retryCount"), 1).text
    assert '"status":"done",\n      "retryCount":1\n    }' in document.set(("items", 1, "retryCount"), 1).text
    reasons = document.set(("items", 1, "blockedReasons"), [{"attempt": 1}])
    assert '"blockedReasons":[\n        {\n          "attempt": 1\n        }\n      ]\n    }' in reasons.text
    assert '"extra": {\n    "a": 1\n  }' in document.set(("extra", "a"), 1).text
    assert JsonDocument.parse("{}", "x").set(("a",), [1]).text == '{"a": [1]}'
    assert JsonDocument.parse('{"a":1}', "x").set(("b",), 2).text == '{"a":1,"b":2}'
    assert JsonDocument.parse('{"a": 1}', "x").set(("b",), 2).text == '{"a": 1, "b": 2}'
    assert JsonDocument.parse("[1]", "x").append((), 2).text == "[1, 2]"


def test_a_key_is_removed_with_its_comma() -> None:
    """First, middle, last and only key; other bytes stay."""
    text = '{"a": 1, "b": 2,\n "c": 3}'
    document = JsonDocument.parse(text, "x")
    assert document.remove(("a",)).text == '{"b": 2,\n "c": 3}'
    assert document.remove(("b",)).text == '{"a": 1, "c": 3}'
    assert document.remove(("c",)).text == '{"a": 1, "b": 2}'
    assert JsonDocument.parse('{ "a": 1 }', "x").remove(("a",)).text == "{}"


@given(VALUES, STYLES)
def test_reading_and_rendering_changes_nothing(value: Any, style: dict[str, Any]) -> None:
    """Data as the decoder reads it, text as it was."""
    text = json.dumps(value, **style)
    document = JsonDocument.parse(text, "x")
    assert document.render() == text
    assert document.data == json.loads(text)


@given(VALUES, STYLES, VALUES, st.data())
def test_a_set_value_is_there_and_all_else_is_as_before(value: Any, style: dict[str, Any], new: Any, data: Any) -> None:
    """For every path: what stands around the value stays byte for byte, and the text says what the data says."""
    document = JsonDocument.parse(json.dumps(value, **style), "x")
    keys = data.draw(st.sampled_from(paths_of(value)))
    before = document.span(keys)
    edited = document.set(keys, new)
    after = edited.span(keys)
    assert edited.text[: after.start] == document.text[: before.start]
    assert edited.text[after.end :] == document.text[before.end :]
    assert edited.get(keys) == new
    assert load_json(edited.text, "x") == edited.data
    edited.text.encode()


@given(VALUES, STYLES, st.text(), VALUES, st.data())
def test_an_added_key_can_be_removed_again(value: Any, style: dict[str, Any], key: str, new: Any, data: Any) -> None:
    """Adding and removing leave the data as it was, in every object."""
    document = JsonDocument.parse(json.dumps(value, **style), "x")
    objects = [
        keys for keys in paths_of(value) if isinstance(document.get(keys), dict) and key not in document.get(keys)
    ]
    if not objects:
        return
    keys = (*data.draw(st.sampled_from(objects)), key)
    added = document.set(keys, new)
    assert load_json(added.text, "x") == added.data
    removed = added.remove(keys)
    assert load_json(removed.text, "x") == removed.data == document.data
    if document.get(keys[:-1]):
        assert removed.text == document.text


@given(VALUES, STYLES, st.data())
def test_any_entry_can_be_removed(value: Any, style: dict[str, Any], data: Any) -> None:
    """The text without it is the data without it."""
    candidates = [keys for keys in paths_of(value) if keys]
    if not candidates:
        return
    document = JsonDocument.parse(json.dumps(value, **style), "x")
    removed = document.remove(data.draw(st.sampled_from(candidates)))
    assert load_json(removed.text, "x") == removed.data


@given(st.text() | st.text(alphabet='{}[]":,\\ \n0123456789.eE-+truefalsn', max_size=60))
@example("[" * 100_000)
@example('{"a":' * 100_000)
@example("9" * 5000)
@example("1e999")
@example("NaN")
@example("\ufeff{}")
@example('{"a":1,"a":2')
@example('{"a":{"b":1,"b":2},"a"')
def test_whatever_is_not_json_is_a_clean_error(text: str) -> None:
    """Nothing but DocumentInvalid is raised, deep nesting included."""
    try:
        data = load_json(text, "x")
    except DocumentInvalid:
        return
    json.dumps(data, allow_nan=False)


def test_errors_name_line_column_and_reason() -> None:
    """`<path> is not valid JSON: line 3 column 3: <reason>`."""
    with pytest.raises(JsonInvalid, match=r"^r\.json is not valid JSON: line 3 column 3: ") as caught:
        load_json('{\n  "a": 1\n  "b": 2\n}', "r.json")
    assert (caught.value.line, caught.value.column) == (3, 3)
    with pytest.raises(JsonInvalid, match="nested too deeply"):
        load_json("[" * 100_000, "x")


def test_a_duplicate_key_is_named_with_its_line_and_place() -> None:
    """Also where keys are escaped differently, and where keys and values look alike."""
    text = '{"items": [\n {"id": 1, "s": "id"},\n {"id": 7, "status": ":",\n  "st\\u0061tus": 2}]}'
    with pytest.raises(DuplicateKey, match=r'key "status" appears twice \(line 4\)') as caught:
        load_json(text, "r.json")
    assert (caught.value.key, caught.value.line, caught.value.pointer) == ("status", 4, ("items", 1))


def test_paths_that_lead_nowhere_are_errors() -> None:
    """Nothing is created on the way."""
    document = JsonDocument.parse('{"a": [1]}', "x")
    for keys in (("b", "c"), ("a", 5), ("a", "b"), ("a", 0, "b")):
        with pytest.raises(DocumentInvalid):
            document.set(keys, 1)
        with pytest.raises(DocumentInvalid):
            document.span(keys)
        with pytest.raises(DocumentInvalid):
            document.remove(keys)
    with pytest.raises(DocumentInvalid):
        document.append(("b",), 1)
    assert document.get(("b", "c"), "none") == "none"


def test_one_field_of_a_large_file_is_rewritten_without_walking_through_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Parsed once; to the last item of 640 KB each item before it is passed in one step, by the decoder in C."""
    items = [{"id": n, "title": "t" * 60, "status": "ready", "acceptanceCriteria": ["c" * 80] * 5} for n in range(1000)]
    text = json.dumps({"version": 1, "items": items}, indent=2)
    assert len(text) > 600_000

    steps = []

    class Counting(json.JSONDecoder):
        def raw_decode(self, text: str, place: int = 0) -> tuple[Any, int]:
            steps.append(place)
            return super().raw_decode(text, place)

    monkeypatch.setattr("interlock.documents.json._SKIPPER", Counting())
    parsed = JsonDocument.parse(text, "r.json")
    assert steps == []
    document = parsed.set(("items", 999, "status"), "done")
    assert len(document.render()) == len(text) - 1
    assert len(steps) < 3 * len(items)

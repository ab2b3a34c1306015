"""YAML edits keep what a person wrote; reading gives plain data or a clean error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.documents import JsonDocument, YamlDocument, load_yaml, render_yaml
from interlock.errors import DocumentInvalid, EngineFault

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=8
)

PERSONS = """\
# progress of the ticket
jira: "ABC-12"   # the ticket
type:   'feature'
slug: add_login
empty:
nothing: ~
startup:
    # what was found
    docs: {a: false, b: [1, 2],
           c: x}
    deep:
        - one   # first
        - two

        # behind the list
    planning_ready: yes
tasks:
- id: T1
  status: PENDING   # by hand
  files: [a.py, "b c.py"]
  note: |
    some
    text

- id: T2
  status: PENDING
  files: []
-
- - 1
  - 2
last:   # remark
  key: v
"""


def edit(keys: tuple[str | int, ...], value: Any) -> str:
    return YamlDocument.parse(PERSONS, "p.yaml").set(keys, value).render()


def paths_of(value: Any, prefix: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [prefix] if prefix else []
    if isinstance(value, dict):
        found.append((*prefix, "a new key"))
        for key, item in value.items():
            found += paths_of(item, (*prefix, key))
    elif isinstance(value, list):
        found.append((*prefix, len(value)))
        for index, item in enumerate(value):
            found += paths_of(item, (*prefix, index))
    return found


PATHS = paths_of(load_yaml(PERSONS, "p.yaml"))


def test_only_the_value_changes() -> None:
    """Comments, alignment and quotes stay; a new value takes over the quotes of the old one."""
    assert YamlDocument.parse(PERSONS, "p.yaml").render() == PERSONS
    assert edit(("jira",), "XY-1") == PERSONS.replace('"ABC-12"', '"XY-1"')
    assert edit(("type",), "it's") == PERSONS.replace("'feature'", "'it''s'")
    assert edit(("tasks", 0, "status"), "ACCEPTED") == PERSONS.replace("PENDING   # by hand", "ACCEPTED   # by hand")
    assert edit(("empty",), 5) == PERSONS.replace("empty:", "empty: 5")
    assert edit(("startup", "docs", "b"), [3]) == PERSONS.replace("[1, 2]", "[3]")
    assert edit(("last", "key"), None) == PERSONS.replace("key: v", "key: null")


def test_what_is_added_takes_the_style_of_its_place() -> None:
    """Indentation and flow or block as found there."""
    assert edit(("tasks", 0, "attempt"), 1) == PERSONS.replace("    text\n", "    text\n  attempt: 1\n")
    assert edit(("startup", "docs", "d"), [1]) == PERSONS.replace("c: x}", "c: x, d: [1]}")
    assert edit(("startup", "deep", 2), "three") == PERSONS.replace("- two\n", "- two\n        - three\n")
    assert edit(("empty",), {"a": {"b": 1}}) == PERSONS.replace("empty:", "empty:\n    a:\n        b: 1")
    assert edit(("tasks", 1, "files"), ["x"]) == PERSONS.replace("files: []", "files: [x]")
    assert edit(("last",), ["x"]) == PERSONS.replace("  key: v", "  - x")
    flow = YamlDocument.parse("iterations:\n  - {number: 0}\n", "p.yaml").append(("iterations",), {"number": 1})
    assert flow.text == "iterations:\n  - {number: 0}\n  - {number: 1}\n"


@given(st.sampled_from(PATHS), VALUES)
def test_every_place_can_be_set_to_anything(keys: tuple[str | int, ...], value: Any) -> None:
    """The value is there, the rest of the data is unchanged, comments outside the edited value survive."""
    document = YamlDocument.parse(PERSONS, "p.yaml")
    edited = document.set(keys, value)
    assert edited.get(keys) == value
    assert load_yaml(edited.text, "p.yaml") == edited.data
    if keys[0] != "startup":
        assert "# what was found" in edited.text and "- one   # first" in edited.text
    assert edited.text.startswith("# progress of the ticket\n")
    assert "# remark" in edited.text and "# the ticket" in edited.text


@given(VALUES)
@example({"a": ["b", {"c": []}], "d": "yes", "e": "1", "f": "2020-01-01", "g": "a: b", "h": "- x", "i": " y "})
@example(["\x85\u2028\ufeff\x00\x7f", "null", "~", "", "#", "'", '"', "\\", "...", "---", "!x", "&a", "*a", "=", "<<"])
@example({"<<": 1, "=": 2, "1": 3, "null": 4})
def test_rendered_data_reads_back_equal(value: Any) -> None:
    """`load(render(x)) == x` for all plain data, types included."""
    assert json.dumps(load_yaml(render_yaml(value), "x")) == json.dumps(value)


@given(VALUES, VALUES, st.data())
def test_rendered_documents_can_be_edited_everywhere(value: Any, new: Any, data: Any) -> None:
    """What interlock wrote itself it can always edit."""
    paths = paths_of(value)
    if not paths:
        return
    keys = data.draw(st.sampled_from(paths))
    edited = YamlDocument.parse(render_yaml(value), "x").set(keys, new)
    assert json.dumps(edited.get(keys)) == json.dumps(new)


def test_an_empty_document_takes_a_first_key() -> None:
    """Comments at its top stay."""
    assert YamlDocument.parse("", "x").set(("a",), 1).text == "a: 1\n"
    assert YamlDocument.parse("# note\n", "x").set(("a",), 1).text == "# note\na: 1\n"
    assert YamlDocument.parse("# note", "x").set(("a",), 1).text == "# note\na: 1\n"
    assert YamlDocument.parse("a: 1\n", "x").set((), [1]).text == "- 1\n"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, 'key "a" appears twice'),
        ("a:\n\tb: 1\n", 2, "'\\t'"),
        ("a: [1, 2\nb: 3\n", 2, ""),
        ("a: 1\n b: 2\n", 2, ""),
        ("a: !!python/object:os.system x\n", 1, "tag"),
        ("a: !secret x\n", 1, "tag"),
        ("a: !!set {x}\n", 1, "tag"),
        ("a: .nan\n", 1, "number"),
        ("? [a]\n: b\n", 1, "key"),
        ("a: 1\n---\nb: 2\n", 2, ""),
        ("a: &x [*x]\n", 1, "itself"),
        ("a: *nowhere\n", 1, ""),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(text: str, line: int, reason: str) -> None:
    """Duplicate keys, tabs, tags, several documents: `<path> is not valid YAML: line n: <reason>`."""
    with pytest.raises(DocumentInvalid, match=rf"^p\.yaml is not valid YAML: line {line}: ") as caught:
        load_yaml(text, "p.yaml")
    assert caught.value.line == line
    assert reason in str(caught.value)


def test_aliases_are_read_but_must_not_explode() -> None:
    """A handful of anchors is fine; a billion laughs are not."""
    assert load_yaml("a: &x {k: 1}\nb: *x\nc:\n  <<: *x\n  m: 2\n", "x")["c"] == {"k": 1, "m": 2}
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    with pytest.raises(DocumentInvalid, match="expand"):
        load_yaml(bomb, "x")


def test_an_edit_that_would_change_another_value_is_refused() -> None:
    """A shared value is not edited behind the back of its other places."""
    document = YamlDocument.parse("a: &x [1]\nb: *x\n", "p.yaml")
    for keys in (("b",), ("b", 0), ("a",)):
        with pytest.raises(DocumentInvalid, match="cannot be edited in place"):
            document.set(keys, "new")


def test_scalars_are_plain_and_dates_stay_text() -> None:
    """YAML 1.2: only true and false are booleans; keys are text."""
    text = "a: 2026-01-04T12:00:00Z\nb: yes\nc: 0x1F\nd: 0o17\ne: -1_000\nf: 1e3\n1: x\nnull: y\ng: True\n"
    assert load_yaml(text, "x") == {
        "a": "2026-01-04T12:00:00Z",
        "b": "yes",
        "c": 31,
        "d": 15,
        "e": -1000,
        "f": 1000.0,
        "1": "x",
        "null": "y",
        "g": True,
    }


@given(st.text(max_size=60) | st.text(alphabet=" \n\t-:?[]{},&*!|>'\"%@`#ab01.~<=\\x", max_size=60))
@example("[" * 5000)
@example("- " * 5000)
@example("%YAML 1.1\n---\na: 1:30\nb: yes\n")
@example("%YAML 9.9\n---\na")
@example('"\\UFFFFFFFF"')
@example("!!int abc")
@example("!!float x")
@example("9" * 5000)
@example("\ud800")
@example("a: !<x> b")
def test_any_text_is_plain_data_or_a_clean_error(text: str) -> None:
    """Nothing but DocumentInvalid is raised, and what is read can be written as JSON."""
    try:
        data = load_yaml(text, "x")
    except DocumentInvalid:
        return
    json.dumps(data, allow_nan=False)


@given(st.text(alphabet=" \n-:[]{},&*|>'\"#ab01?", max_size=40), st.sampled_from(["a", "b", "new"]))
def test_an_edit_of_any_mapping_is_right_or_refused(text: str, key: str) -> None:
    """However odd the text: the edit says exactly what was asked, or nothing is changed."""
    try:
        document = YamlDocument.parse(text, "x")
        edited = document.set((key,), "value")
    except DocumentInvalid:
        return
    assert edited.data == {**(document.data or {}), key: "value"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), b"x"])
def test_what_is_not_plain_data_is_never_written(value: object) -> None:
    """It is the caller's mistake, in YAML as in JSON."""
    with pytest.raises(EngineFault):
        render_yaml({"a": value})
    with pytest.raises(EngineFault):
        YamlDocument.parse("a: 1\n", "x").set(("a",), value)
    with pytest.raises(EngineFault):
        JsonDocument.parse("{}", "x").set(("a",), value)

"""JSON, YAML and TOML: what can be read is read, and everything else is bad input with its place."""

from __future__ import annotations

import json
import string
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents.reading import DEEPEST, Keys, Source, Text, pointer, read_json, read_toml, read_yaml
from interlock.errors import DocumentInvalid

DEEP = DEEPEST + 1
LETTERS = "abcdefghijklmnopqrstu"
BOMB = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in pairwise(LETTERS))
ODD: dict[Callable[[str, str], Source], dict[str, tuple[str, str]]] = {
    read_json: {
        "nothing": ("", ":1:1"),
        "a key twice": ('{"a": 1,\n "a": 2}', ":2:2"),
        "a key twice, deep": ('{"x": [{"a": 1,\n"b": {"c": 1, "c": 2}}]}', ":2:15"),
        "too deep": ("[" * DEEP + "]" * DEEP, ":1:101"),
        "far too deep": ("[" * 200_000, ""),
        "deep objects": ('{"a":' * DEEP + "1" + "}" * DEEP, ":1:497"),
        "not a number": ("[1,\nNaN]", ":2:1"),
        "a number too large": ("[1e999]", ":1:2"),
        "a large number": ('{"a":\n' + "9" * 2000 + "}", ":1:2"),
        "a number of many digits": ("9" * 5000, ""),
        "half a character": ('{"a": ["x\\ud83d"]}', ":1:8"),
        "half a character as key": ('{"\\ud83d": 1}', ":1:2"),
        "a comma too many": ("[1,,2]", ":1:4"),
        "two values": ("{} {}", ":1:4"),
    },
    read_yaml: {
        "a key twice": ("a: 1\nb: 2\na: 3\n", ":3:1"),
        "too deep": ("[" * DEEP + "]" * DEEP, ":1:101"),
        "far too deep": ("[" * 1_200, ""),
        "deep blocks": ("\n".join(" " * level + "-" for level in range(3000)), ""),
        "not a number": ("a: .nan\n", ":1:1"),
        "endless": ("- -.inf\n", ":1:3"),
        "a number of many digits": (f"a: {'9' * 5000}\n", ""),
        "a large number in another base": (f"- 0x{'f' * 5000}\n", ":1:3"),
        "half a character": ('- "\\ud83d"\n', ":1:3"),
        "half a character as key": ('"\\ud83d": 1\n', ":1:1"),
        "a list as key": ("[a]: 1\n", ":1:1"),
        "a tag": ("a: !!python/object:os.system x\n", ":1:4"),
        "a tag of the standard": ("a: !!set {b}\n", ":1:4"),
        "a merge of no mapping": ("a:\n  <<: b\n", ":2:3"),
        "a value in itself": ("a: &a [*a]\n", ":1:4"),
        "an alias of nothing": ("a: *b\n", ":1:4"),
        "a control character": ("a: \x1b\n", ""),
        "two documents": ("a: 1\n---\nb: 2\n", ":2:1"),
        "an open quote": ('a: "b\n', ":2:1"),
        "a bomb": (BOMB, ":1:11"),
    },
    read_toml: {
        "a key twice": ("a = 1\na = 2\n", ":2:6"),
        "an open list": ("a = [1,\n", ":2"),
        "endless": ("x = 1\ny = inf\n", ":2:1"),
        "a number of many digits": (f"a = {'9' * 5000}\n", ""),
        "deep": ("a = " + "[" * 5000 + "]" * 5000, ""),
        "deep by dots": (".".join("a" * 300) + " = 1", ":1:1"),
    },
}
CASES = [
    pytest.param(read, text, where, id=f"{read.__name__}: {name}")
    for read, table in ODD.items()
    for name, (text, where) in table.items()
]


@pytest.mark.req("RUN-19", "CLI-05")
@pytest.mark.parametrize(("read", "text", "where"), CASES)
def test_odd_data_is_bad_input_with_its_place(read: Callable[[str, str], Source], text: str, where: str) -> None:
    """Never a fault of ours, never a warning of a parser, never data that the rest of the program could not handle."""
    with warnings.catch_warnings(record=True) as said, pytest.raises(DocumentInvalid) as caught:
        read(text, "odd.file")
    assert said == []
    assert caught.value.exit_code == 2
    assert caught.value.where == f"odd.file{where}"
    assert len(caught.value.what) < 300


def test_what_is_merely_unusual_is_read() -> None:
    """As deep as may be, dates as text, other bases, merge keys, aliases, numbers as keys."""
    assert read_json("[" * DEEPEST + "]" * DEEPEST, "a").data
    assert read_json('"\\ud83d\\ude00\\\\ud83d"', "a").data == "\U0001f600\\ud83d"
    assert read_yaml("", "a").data is None
    text = "a: 2026-01-04\nb: -0x10\nc: yes\nd: ~\n1: 1_000\ntrue: 010\ne: 1.5e3\nf: true\n"
    plain = {"a": "2026-01-04", "b": -16, "c": "yes", "d": None, "1": 1000, "true": 10, "e": 1500.0, "f": True}
    assert read_yaml(text, "a").data == plain
    text = "a: &x {k: 1}\nb: {<<: *x, l: 2}\nc: {<<: [*x, {k: 3, m: 4}], k: 5}\nd: *x\n"
    assert read_yaml(text, "a").data == {"a": {"k": 1}, "b": {"k": 1, "l": 2}, "c": {"k": 5, "m": 4}, "d": {"k": 1}}


@pytest.mark.req("RUN-19")
def test_marks_line_ends_and_bad_bytes() -> None:
    """A byte order mark and CRLF are read, and given back to a new text; bytes that are no UTF-8 are named by line."""
    text = Text.of(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n", "a.yaml")
    assert text.text == "a: 1\nb: 2\n"
    assert text.encode("a: 2\n") == b"\xef\xbb\xbfa: 2\r\n"
    assert Text.of(b"a\r\nb\n", "a").encode("a\nb\n") == b"a\nb\n"
    with pytest.raises(DocumentInvalid) as caught:
        Text.of(b"a\nb\xff\n", "a.md")
    assert (caught.value.where, caught.value.found) == ("a.md:2", "byte 0xff at position 3")


PLACES = [
    (read_json, '{"a": [1, {"b": 2}],\n "c": {"d": [[],\n  5]}}', {
        (): "1:1", ("a",): "1:2", ("a", 1, "b"): "1:12", ("c", "d", 1): "3:3", ("c", "gone"): "2:2",
    }),
    (read_yaml, "a:\n  - b: 1\n    c: 2\n  - x\n", {
        ("a",): "1:1", ("a", 0, "c"): "3:5", ("a", 1): "4:5", ("a", 7): "1:1", ("z",): "1:1",
    }),
    (read_toml, 'runner = "a"\n[runners.mine]\ntype="x"\nenv = {A="b"}\n  argv = [\n 1,\n 2]\nt = """\nq = 1\n"""\n'
     "[[l]]\na=1\n", {
        ("runner",): "1:1", ("runners",): "2:1", ("runners", "mine"): "2:1", ("runners", "mine", "env", "A"): "4:1",
        ("runners", "mine", "argv", 1): "5:3", ("runners", "mine", "t"): "8:1", ("runners", "mine", "z"): "2:1",
        ("l", 0, "a"): "12:1",
    }),
]  # fmt: skip


@pytest.mark.req("CLI-05")
@pytest.mark.parametrize(("read", "text", "places"), PLACES, ids=["json", "yaml", "toml"])
def test_each_entry_is_found_again(read: Callable[[str, str], Source], text: str, places: dict[Keys, str]) -> None:
    """By the place of its key, or of its value in a list; what is not there by the nearest around it."""
    source = read(text, "f")
    assert {keys: str(source.spot(keys)) for keys in places} == {keys: f"f:{spot}" for keys, spot in places.items()}


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def _paths(data: Any, above: Keys = ()) -> list[Keys]:
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [above, *(path for key, value in entries for path in _paths(value, (*above, key)))]


@given(PLAIN, st.sampled_from([None, 2]))
def test_json_is_read_as_it_was_written_and_each_value_stands_where_it_is_said(data: Any, indent: int | None) -> None:
    """Whatever names and texts hold: brackets, quotes, colons."""
    text = json.dumps(data, indent=indent)
    source = read_json(text, "f")
    assert source.data == data
    lines = text.split("\n")
    for path in _paths(data):
        spot = source.spot(path)
        assert spot.line is not None and spot.column is not None
        rest = lines[spot.line - 1][spot.column - 1 :]
        if path and isinstance(path[-1], str):
            assert rest.startswith(json.dumps(path[-1]))


@given(st.text(alphabet=string.printable + "é\ud83d\u2028"))
def test_any_text_is_read_or_refused(text: str) -> None:
    """In each of the three forms; no other exception comes out."""
    for read in (read_json, read_yaml, read_toml):
        try:
            read(text, "any")
        except DocumentInvalid:
            continue


def test_a_large_text_with_an_error_at_its_end_is_read_in_time() -> None:
    """A key twice behind 50,000 others: no quadratic walk."""
    names = ",".join(f'"k{number}": {number}' for number in range(50_000))
    with pytest.raises(DocumentInvalid, match='key "k5" appears twice'):
        read_json("{" + names + ', "k5": 1}', "big.json")


def test_paths_into_data_read_as_people_write_them() -> None:
    """Odd names stand in quotes."""
    assert pointer(("items", 3, "status")) == "items[3].status"
    assert pointer(("agents", "a.b", "x")) == 'agents."a.b".x'

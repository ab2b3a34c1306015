"""Odd JSON and YAML: what can be read is read, everything else is an error that names file and line."""

from __future__ import annotations

import json
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents import (
    Document,
    FileFacts,
    JsonDocument,
    YamlDocument,
    load_json,
    load_yaml,
    render_yaml,
    split_frontmatter,
)
from interlock.documents.plain import DEEPEST
from interlock.errors import DocumentInvalid

DEEP = DEEPEST + 1
ODD_JSON = {
    "nothing": "",
    "a key twice": '{"a": 1, "a": 2}',
    "a key twice, deep": '{"x": [{"a": 1, "b": {"c": 1, "c": 2}}]}',
    "too deep": "[" * DEEP + "]" * DEEP,
    "far too deep": "[" * 200_000,
    "deep objects": '{"a":' * DEEP + "1" + "}" * DEEP,
    "not a number": "[NaN]",
    "endless": "[-Infinity]",
    "a number too large": "[1e999]",
    "a number of many digits": "9" * 5000,
    "half a character": '{"a": ["x\\ud83d"]}',
    "the other half": '{"a": "\\ude00x"}',
    "half a character as key": '{"\\ud83d": 1}',
    "a control character": '"\x1b"',
    "a byte order mark": "\ufeff{}",
    "a comma too many": "[1,]",
    "two values": "{} {}",
    "a comment": "{} // x",
}
ODD_YAML = {
    "a key twice": "a: 1\nb: 2\na: 3\n",
    "too deep": "[" * DEEP + "]" * DEEP,
    "deep blocks": "\n".join("  " * level + "a:" for level in range(DEEP + 1)),
    "far too deep": "\n".join(" " * level + "-" for level in range(3000)),
    "not a number": "a: .nan\n",
    "endless": "a: -.inf\n",
    "a number of many digits": f"a: {'9' * 5000}\n",
    "a large number in another base": f"a: 0x{'f' * 5000}\n",
    "half a character": 'a: "\\ud83d"\n',
    "half a character as key": '"\\ud83d": 1\n',
    "a tab": "a:\n\t- b\n",
    "a list as key": "[a]: 1\n",
    "a tag": "a: !!python/object:os.system x\n",
    "a value in itself": "a: &a [*a]\n",
    "an alias of nothing": "a: *b\n",
    "a control character": "a: \x1b\n",
    "two documents": "a: 1\n---\nb: 2\n",
    "an open quote": 'a: "b\n',
    "a bomb": "a: &a [x, x]\n"
    + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}{', *' + chr(97 + i)}]\n" for i in range(20)),
}


@pytest.mark.req("LY-42")
@pytest.mark.parametrize("text", ODD_JSON.values(), ids=ODD_JSON)
def test_odd_json_is_an_error_with_its_place(text: str) -> None:
    """Never a fault of ours, and never data that the rest of the program could not handle."""
    for read in (load_json, JsonDocument.parse):
        with pytest.raises(DocumentInvalid) as caught:
            read(text, "odd.json")
        assert caught.value.exit_code == 2
        assert str(caught.value.where).startswith("odd.json:")
        assert "odd.json" in caught.value.what
        assert len(caught.value.what) < 300


@pytest.mark.req("LY-42")
@pytest.mark.parametrize("text", ODD_YAML.values(), ids=ODD_YAML)
def test_odd_yaml_is_an_error_with_its_place(text: str) -> None:
    """In a file of its own and at the top of a Markdown file alike; no warning of the parser goes to the terminal."""
    with warnings.catch_warnings(record=True) as said:
        for read in (load_yaml, YamlDocument.parse):
            with pytest.raises(DocumentInvalid) as caught:
                read(text, "odd.yaml")
            assert caught.value.exit_code == 2
            assert "odd.yaml is not valid YAML" in caught.value.what
            assert len(caught.value.what) < 300
        if "---" not in text:  # which would end it
            with pytest.raises(DocumentInvalid):
                split_frontmatter(f"---\n{text}\n---\nbody\n", "role.md")
    assert said == []


@pytest.mark.req("LY-42", "LY-43")
def test_the_parsers_own_warnings_reach_nobody() -> None:
    """They quote the text: an anchor that is used twice is fine, and nothing is printed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_yaml("a: &x 1\nb: &x 2\nc: *x\n", "a.yaml") == {"a": 1, "b": 2, "c": 2}


@pytest.mark.req("LY-42")
def test_what_is_merely_unusual_is_read() -> None:
    """As deep as may be, pairs of halves, CRLF, a byte order mark, numbers that are just large."""
    assert load_json("[" * DEEPEST + "]" * DEEPEST, "a")
    assert load_json('"' + "[" * 500 + '"', "a") == "[" * 500
    assert load_json('"\\ud83d\\ude00"', "a") == "\U0001f600"
    assert load_json('"\\\\ud83d"', "a") == "\\ud83d"
    assert load_json("9" * 300, "a") == int("9" * 300)
    assert load_yaml("[" * DEEPEST + "]" * DEEPEST, "a")
    content = b"\xef\xbb\xbfa: 1\r\nb: [2]\r\n"
    document = Document.of(FileFacts("a.yaml", True, True, True, len(content), 1, "d", content))
    assert load_yaml(document.text, "a.yaml") == {"a": 1, "b": [2]}


data = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
MARKS = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "?",
    "|",
    ">",
    "&x",
    "*x",
    "!t",
    "<<",
    "#",
    "@",
    "`",
    "\\",
    "'",
    '"',
    "=",
    "0o8",
    "1:30",
    "1e999",
    "NaN",
    ".nan",
    "a",
]
ENDS = [
    "\n",
    "  ",
    "\t",
    "- ",
    ": ",
    "---\n",
    "...\n",
    "\r\n",
    "%YAML 1.2\n",
    "\ufeff",
    "\x00",
    "\x85",
    "\u2028",
    "\x1b[2J",
]
pieces = st.sampled_from([*MARKS, *ENDS, '"a"', '"\\ud800"', "0x" + "f" * 2000])


@pytest.mark.req("LY-42")
@given(st.lists(pieces, max_size=15).map("".join))
def test_no_text_is_too_odd(text: str) -> None:
    """Whatever it is: data that can be written again, or the one error."""
    for read in (load_json, load_yaml):
        try:
            found = read(text, "odd")
        except DocumentInvalid:
            continue
        assert json.dumps(found, allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.req("LY-42")
@given(data)
def test_plain_data_survives_both_forms(value: object) -> None:
    """The limits refuse nothing that a person would write."""
    assert load_json(json.dumps(value), "a") == value
    assert load_yaml(render_yaml(value), "a") == value

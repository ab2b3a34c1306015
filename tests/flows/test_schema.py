"""The JSON Schema that editors read says what the loader reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.documents import load_yaml
from interlock.flows import schema

HERE = Path(__file__).parent
SCHEMA = schema()


def complaints(value: Any, rule: dict[str, Any], at: str = "") -> Iterator[str]:
    """Why a value does not fit, for the few words of JSON Schema that ours uses; an unknown word is an error."""
    for word in rule:
        assert word in {*KNOWN, "description", "$schema", "title", "$defs", "examples"}, word
    for word, check in KNOWN.items():
        if word in rule:
            yield from check(value, rule[word], rule, at)


def _ref(value: Any, ref: str, _rule: dict[str, Any], at: str) -> Iterator[str]:
    yield from complaints(value, SCHEMA["$defs"][ref.removeprefix("#/$defs/")], at)


def _type(value: Any, kinds: str | list[str], _rule: dict[str, Any], at: str) -> Iterator[str]:
    of = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    if not any(isinstance(value, of[kind]) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        yield f"{at}: not {kinds}"


def _properties(value: Any, fields: dict[str, Any], rule: dict[str, Any], at: str) -> Iterator[str]:
    for key, item in value.items() if isinstance(value, dict) else ():
        inner = fields.get(key, rule.get("additionalProperties"))
        if inner is False:
            yield f"{at}/{key}: not known"
        elif inner is not None:
            yield from complaints(item, inner, f"{at}/{key}")


def _any(value: Any, rules: list[dict[str, Any]], _rule: dict[str, Any], at: str) -> Iterator[str]:
    tried = [list(complaints(value, rule, at)) for rule in rules]
    if all(tried):
        yield min(tried, key=len)[0]


KNOWN: dict[str, Any] = {
    "$ref": _ref,
    "type": _type,
    "anyOf": _any,
    "properties": _properties,
    "additionalProperties": lambda value, _more, rule, at: (
        () if "properties" in rule else _properties(value, {}, rule, at)
    ),
    "required": lambda value, names, _rule, at: (
        f"{at}: no {name}" for name in names if isinstance(value, dict) and name not in value
    ),
    "items": lambda value, rule, _rule, at: (
        more
        for n, one in enumerate(value if isinstance(value, list) else ())
        for more in complaints(one, rule, f"{at}/{n}")
    ),
    "enum": lambda value, words, _rule, at: [] if value in words else [f"{at}: {value!r} not in {words}"],
    "pattern": lambda value, pattern, _rule, at: (
        [f"{at}: {value!r}"] if isinstance(value, str) and not re.search(pattern, value) else []
    ),
    "propertyNames": lambda value, rule, _rule, at: (
        more for key in (value if isinstance(value, dict) else ()) for more in complaints(key, rule, at)
    ),
    "minItems": lambda value, least, _rule, at: [at] if isinstance(value, list) and len(value) < least else [],
    "minProperties": lambda value, least, _rule, at: [at] if isinstance(value, dict) and len(value) < least else [],
    "minLength": lambda value, least, _rule, at: [at] if isinstance(value, str) and len(value) < least else [],
    "minimum": lambda value, least, _rule, at: [at] if isinstance(value, int) and value < least else [],
    "maximum": lambda value, most, _rule, at: [at] if isinstance(value, int) and value > most else [],
}


def check(text: str) -> list[str]:
    return list(complaints(load_yaml(text, "flow.yaml"), SCHEMA))


FIX = (HERE / "fix.yaml").read_text(encoding="utf-8")


@pytest.mark.req("OW-22")
def test_what_the_loader_reads_fits_the_schema() -> None:
    """A flow that loads has no complaint of an editor."""
    assert check(FIX) == []


@pytest.mark.req("OW-22")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("at_most: 3", "at_most: 0"),
        ("when_used_up: end no_agreement", "when_used_up: give up"),
        ("status: complete", "status: done"),
        ("judges: reading", "judges: guessing"),
        ("    at_most: 3\n", ""),
        ("- run: tests", "- rum: tests"),
        ("summary:", "sumary:"),
        ("help: What is asked for.", "hlep: x"),
        ("then: again", "them: again"),
    ],
)
def test_what_an_editor_can_see_is_in_the_schema(old: str, new: str) -> None:
    """Unknown keys, words and forms are marked while somebody types."""
    assert old in FIX
    assert check(FIX.replace(old, new)) != []


@pytest.mark.req("OW-22")
def test_every_key_is_described() -> None:
    """Editors show a sentence for each key that they complete."""

    def described(rule: Any) -> Iterator[str]:
        if isinstance(rule, dict):
            for name, inner in rule.get("properties", {}).items():
                if not inner.get("description"):
                    yield name
            for inner in rule.values():
                yield from described(inner)
        elif isinstance(rule, list):
            for inner in rule:
                yield from described(inner)

    assert list(described(SCHEMA)) == []


def test_the_published_schema_is_the_one_of_the_code() -> None:
    """docs/playbook.schema.json is what `schema()` says."""
    published = HERE.parent.parent / "docs" / "playbook.schema.json"
    assert json.loads(published.read_text(encoding="utf-8")) == SCHEMA


@pytest.mark.req("OW-22")
def test_a_new_playbook_leads_its_editor_to_the_schema() -> None:
    """The first line of what `interlock new --yaml` writes names a file that it writes too."""
    from interlock.finding.starting import SCHEMA as PLACE
    from interlock.finding.starting import files

    written = files("release", yaml=True)
    text = written[".interlock/playbooks/release/playbook.yaml"]
    assert text.splitlines()[0] == "# yaml-language-server: $schema=../playbook.schema.json"
    assert json.loads(written[PLACE]) == SCHEMA and PLACE == ".interlock/playbooks/playbook.schema.json"
    assert check(text) == []

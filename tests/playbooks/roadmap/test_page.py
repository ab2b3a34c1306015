"""What is published about the roadmap is made from the code: schema, example."""

from __future__ import annotations

import json
import re
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents import parse_role
from interlock.contracts import Outcome, parse_answer
from interlock.documents import Sections
from interlock.playbooks.roadmap import example_files, json_schema
from interlock.playbooks.roadmap.answers import Verdict, answer_format, read_answer
from interlock.playbooks.roadmap.decisions import AGENTS, Step
from interlock.playbooks.roadmap.documents import Roadmap
from interlock.playbooks.roadmap.labelled import data_of_text
from interlock.playbooks.roadmap.report import HEADING
from interlock.playbooks.roadmap.schema import FIELDS, check_items, schema_text
from interlock.playbooks.roadmap.settings import RoadmapSettings

from .conftest import FILE, document, item

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "playbooks" / "roadmap.md").read_text(encoding="utf-8")
ROOM = resources.files("interlock.playbooks.roadmap")


def test_the_published_schema_is_the_codes() -> None:
    """In the documentation and in the package; write both anew from schema_text() when the table changes."""
    assert (DOCS / "roadmap.schema.json").read_text(encoding="utf-8") == schema_text()
    assert (ROOM / "roadmap.schema.json").read_text(encoding="utf-8") == schema_text()


def test_the_page_names_every_field_and_setting() -> None:
    """Nothing in the code is missing on the page, and its settings are accepted."""
    assert [rule.name for rule in FIELDS if f"| `{rule.name}` |" not in PAGE] == []
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    settings = tomllib.loads(block)["roadmap"]
    assert settings.keys() == RoadmapSettings.model_fields.keys()
    RoadmapSettings(**settings)
    assert HEADING in PAGE


def test_the_pages_answers_are_what_the_engine_reads() -> None:
    """As JSON and as text they say the same."""
    spoken, written = (re.findall(rf"```{name}\n(.*?)```", PAGE, re.DOTALL)[-1] for name in ("text", "json"))
    for message in (spoken, written):
        answer = parse_answer(answer_format("testing"), code=0, message=message)
        assert answer.outcome is Outcome.OK
        read = read_answer(answer.data)
        said = read.evidence
        assert (read.verdict, said.passed, said.failed, said.failures) == (
            Verdict.FAIL,
            11,
            1,
            ("login: expected 401, got 200",),
        )
        assert [(check.command, check.exit) for check in said.checks] == [("npm test", 1)]
    assert data_of_text(spoken)["status"] == "success"


def test_the_example_is_sound() -> None:
    """One item of each complexity, in the order of their dependencies."""
    items = Roadmap.read(document(example_files()[FILE]), FILE).items
    assert [one.complexity for one in items] == ["simple", "medium", "complex"]
    assert valid(json.loads(example_files()[FILE]), json_schema(), json_schema())


@pytest.mark.req("RM-30")
def test_a_role_is_shipped_for_each_agent_and_its_example_counts() -> None:
    """Complete instructions for all five; the answers they show are accepted by the contract of their step."""
    roles = {file.name.removesuffix(".md"): file for file in (ROOM / "agents").iterdir() if file.name.endswith(".md")}
    assert roles.keys() == set(AGENTS)
    steps = {"Research": ["research"], "Architect": ["design", "validation"], "Implement": ["implement"],
             "Testing": ["testing"], "Review": ["review"]}  # fmt: skip
    for name, file in roles.items():
        body = Sections(parse_role(file.read_text(encoding="utf-8"), name).body)
        fences = body.fences("json")
        assert len(fences) == len(steps[name])
        for step, fence in zip(steps[name], fences, strict=True):
            answer = parse_answer(answer_format(step), code=0, message=f"```json\n{fence.content}\n```")
            assert (answer.outcome, answer.reason) == (Outcome.OK, None)


def test_every_step_has_its_prompt_with_the_words_of_its_answer() -> None:
    """What the contract looks for is what the agent is told."""
    for step in Step:
        text = (ROOM / "prompts" / f"{step}.md").read_text(encoding="utf-8")
        assert "`status`" in text
        for word in {
            "validation": ("aligned", "drift_detected"),
            "testing": ("pass", "fail"),
            "review": ("lint", "skipped"),
        }.get(step, ()):
            assert f"`{word}`" in text


# -- the schema says what the checks say

TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
}


def valid(value: Any, schema: Any, root: Any) -> bool:
    """Whether a value fits a schema, for the words that ours uses."""
    known = {"$ref", "anyOf", "type", "enum", "const", "pattern", "minimum", "maximum", "minItems", "items", "required",
             "properties", "if", "then", "else", "description", "title", "$schema", "$defs"}  # fmt: skip
    assert schema.keys() <= known
    if "$ref" in schema:
        return valid(value, root["$defs"][schema["$ref"].rsplit("/", 1)[-1]], root)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    fits = not kinds or any(
        isinstance(value, TYPES[kind]) and (kind == "boolean") == isinstance(value, bool) for kind in kinds
    )
    rules = [
        fits,
        "anyOf" not in schema or any(valid(value, one, root) for one in schema["anyOf"]),
        "enum" not in schema or value in schema["enum"],
        "const" not in schema or (value == schema["const"] and type(value) is type(schema["const"])),
        not isinstance(value, str) or re.search(schema.get("pattern", ""), value) is not None,
    ]
    if isinstance(value, int) and not isinstance(value, bool):
        rules.append(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    if isinstance(value, list):
        rules.append(len(value) >= schema.get("minItems", 0))
        rules += [valid(entry, schema["items"], root) for entry in value if "items" in schema]
    if isinstance(value, dict):
        rules += [name in value for name in schema.get("required", ())]
        rules += [valid(value[name], one, root) for name, one in schema.get("properties", {}).items() if name in value]
        if "if" in schema:
            rules.append(valid(value, schema["then" if valid(value, schema["if"], root) else "else"], root))
    return all(rules)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 4)
    | st.sampled_from(["", " ", "a", "a b", "ready", "done", "in_progress", "simple", "complex"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["attempt", "source", "reason"]), inner)
    ),
    max_leaves=4,
)


@pytest.mark.req("RM-07", "RM-08")
@given(st.sampled_from([rule.name for rule in FIELDS]), values | st.just(...), st.booleans())
def test_schema_and_checks_agree_on_every_field(name: str, value: Any, done: bool) -> None:
    """Whatever one field of an item holds, or that it is absent: both accept it or both refuse it."""
    state = {"status": "done", "passes": True} if done else {}
    changed = item("x", **{**state, name: value})
    if name == "dependencies" and isinstance(value, list):
        changed_alone = [text for text in check_items([changed]) if "no such item" not in text.text]
    else:
        changed_alone = check_items([changed])
    assert valid([changed], json_schema(), json_schema()) == (not changed_alone)

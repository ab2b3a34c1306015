"""The page about scenarios is complete and its examples are scenarios."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from interlock.agents.scenario import Facts, Misbehaviour, Rule, Scenario
from interlock.errors import DocumentInvalid
from tests.docs.pages import DOCS, Block, blocks

PAGE = DOCS / "scenarios.md"
EXAMPLES = [block for block in blocks(PAGE) if block.language == "yaml"]


@pytest.mark.parametrize("block", EXAMPLES, ids=str)
def test_an_example_is_a_scenario_or_is_said_not_to_be(block: Block) -> None:
    """Valid examples parse to at least one rule; the invalid one is refused with its line."""
    if block.marks["scenario"] == "invalid":
        with pytest.raises(DocumentInvalid) as refused:
            Scenario.parse(block.text, "scenario.yaml")
        assert refused.value.line == 3
    else:
        assert Scenario.parse(block.text, "scenario.yaml").rules


def table_words() -> set[str]:
    return set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE))


def test_every_key_and_misbehaviour_is_described_and_no_other() -> None:
    """The tables of the page have exactly the keys that a rule has."""
    matching = {"agent", "member", "step", "attempt", "playbook"}
    keys = {entry.name for entry in fields(Rule)} - {"match", "times"}
    assert table_words() == matching | keys | {str(one) for one in Misbehaviour}


def test_every_placeholder_is_described() -> None:
    """What can be mentioned in texts is listed."""
    text = PAGE.read_text("utf-8")
    assert all(f"`{{{entry.name}}}`" in text for entry in fields(Facts))


def test_the_examples_show_every_key() -> None:
    """A reader sees each key once in use."""
    shown = "\n".join(block.text for block in EXAMPLES)
    assert [entry.name for entry in fields(Rule) if entry.name != "match" and f"{entry.name}:" not in shown] == []

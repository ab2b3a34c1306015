"""The page about playbooks in YAML is complete, and its examples are what it says they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interlock.errors import ConfigInvalid
from interlock.flows import outcomes, read
from interlock.flows.format import AGENT, STEPS
from interlock.flows.texts import FILTERS
from tests.docs.pages import DOCS, ROOT, blocks, files_of

PAGE = DOCS / "playbooks-in-yaml.md"
FLOWS = ROOT / "tests" / "flows"


def test_every_flow_of_the_page_is_one_or_is_refused_as_shown() -> None:
    """The invalid one comes with its message, line by line."""
    shown = list(blocks(PAGE))
    whole = [block for block in shown if block.language == "yaml" and "playbook:" in block.text]
    for block in whole:
        if block.marks.get("flow") != "invalid":
            assert read(block.text, "flow.yaml").steps
            continue
        with pytest.raises(ConfigInvalid) as refused:
            read(block.text, "forgetful.yaml")
        error = refused.value
        told = [f"Error: {error.what}", *(f"  {name}: {text}" for name, text in error.parts())]
        assert shown[shown.index(block) + 1].text.splitlines() == told
        with pytest.raises(ConfigInvalid) as again:
            read(block.text.replace("revize", "revise"), "forgetful.yaml")
        assert again.value.what in PAGE.read_text("utf-8")
    assert len(whole) == 3


def test_the_twin_of_the_page_is_the_one_that_is_compared() -> None:
    """The tests of flows compare the same text with its twin in Python."""
    assert files_of(PAGE)["fix.yaml"] == (FLOWS / "fix.yaml").read_text("utf-8")


def test_the_python_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the file that the page has its reader save."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fix.yaml").write_text(files_of(PAGE)["fix.yaml"], "utf-8")
    told = [block for block in blocks(PAGE) if block.language == "python"]
    for block in told:
        exec(compile("\n" * block.line + block.text, str(block.page), "exec"), {})
    assert told


def test_every_step_word_and_key_is_described() -> None:
    """Kinds of steps with their keys, outcomes, ways out of a table, keys of agents, filters."""
    text = PAGE.read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert [kind for kind in STEPS if kind not in rows] == []
    keys = {key for shape in STEPS.values() for key in shape.fields} | set(AGENT.fields)
    assert [key for key in sorted(keys - {"rows", "name", "agent"}) if f"`{key}`" not in text] == []
    words = (*outcomes.VERDICTS, *outcomes.SEVERITIES, *outcomes.COMMANDS, *outcomes.GATE, *outcomes.CALLS)
    assert [word for word in (*words, *outcomes.PROGRESS, *outcomes.TURNS, *FILTERS) if f"`{word}`" not in text] == []
    assert all(f"| `{way}` |" in text for way in ("go on", "again", "leave", "end NAME"))

"""The page about the harness and the examples it ships are what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interlock.playbooks import NAMES, load
from interlock.playbooks.harness import example_files, harness
from interlock.playbooks.harness.settings import HarnessSettings
from interlock.playbooks.harness.stages import LIFECYCLE
from tests.playbooks.harness.conftest import Bench

PAGE = (Path(__file__).parents[3] / "docs" / "playbooks" / "harness.md").read_text("utf-8")


def test_the_page_names_every_setting_agent_and_document() -> None:
    """Nothing that a user can set or must have is left out."""
    for name in (*HarnessSettings.model_fields, *harness.agents, *example_files()):
        if not name.startswith("harness/tasks/"):
            assert name.rsplit("/", 1)[-1] in PAGE, name


@pytest.mark.req("OW-10")
def test_the_page_has_every_row() -> None:
    """Each stage that works with its agent and the least structure of its artifact, in order."""
    rows = re.findall(r"^\| (.+) \| `(.+)` \| (`.+) \|$", PAGE, re.MULTILINE)
    for (name, agent, structure), stage in zip(rows, LIFECYCLE.working, strict=True):
        assert (name, agent) == (stage.name, stage.agent)
        marks = [f"{mark.label}:" for mark in stage.judging.marks] if stage.judging else []
        headings = stage.judging.headings if stage.judging else stage.contract.headings if stage.contract else ()
        assert re.findall("`(.+?)`", structure) == [*marks, *headings]


def test_the_playbook_is_known_by_its_name() -> None:
    """It is loaded like any other."""
    assert "harness" in NAMES
    assert load("harness") is harness


def test_what_init_writes_is_ready_to_run(bench: Bench) -> None:
    """The example task goes through with agents that do well."""
    assert bench.files == dict(example_files())
    assert bench.play().exit_code == 0

"""The page about the harness and the examples it ships are what the code does."""

from __future__ import annotations

from pathlib import Path

from interlock.playbooks import NAMES, load
from interlock.playbooks.harness import example_files, harness
from interlock.playbooks.harness.settings import HarnessSettings
from tests.playbooks.harness.conftest import Bench

PAGE = (Path(__file__).parents[3] / "docs" / "playbooks" / "harness.md").read_text("utf-8")


def test_the_page_names_every_setting_agent_and_document() -> None:
    """Nothing that a user can set or must have is left out."""
    for name in (*HarnessSettings.model_fields, *harness.agents, *example_files()):
        if not name.startswith("harness/tasks/"):
            assert name.rsplit("/", 1)[-1] in PAGE, name


def test_the_playbook_is_known_by_its_name() -> None:
    """It is loaded like any other."""
    assert "harness" in NAMES
    assert load("harness") is harness


def test_what_init_writes_is_ready_to_run(bench: Bench) -> None:
    """The example task goes through with agents that do well."""
    assert bench.files == dict(example_files())
    assert bench.play().exit_code == 0

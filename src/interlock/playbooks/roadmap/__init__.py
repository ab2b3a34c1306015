"""The roadmap: item by item through the pipeline of its complexity, until all pass, one is blocked, or none can run."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING

from interlock.lazy import lazily

if TYPE_CHECKING:
    from interlock.playbooks.roadmap.playbook import DEFAULT_FILE, RoadmapInputs, roadmap
    from interlock.playbooks.roadmap.rehearsing import rehearsal
    from interlock.playbooks.roadmap.report import TOKEN
    from interlock.playbooks.roadmap.schema import json_schema

__getattr__ = lazily(
    __name__,
    {
        "playbook": "DEFAULT_FILE RoadmapInputs roadmap",
        "rehearsing": "rehearsal",
        "report": "TOKEN",
        "schema": "json_schema",
    },
)


def example_files() -> Mapping[str, str]:
    """A roadmap to try the playbook with: path in the workspace to text."""
    from interlock.playbooks.roadmap.playbook import DEFAULT_FILE

    file = resources.files(__package__) / "examples" / "roadmap.json"
    return {DEFAULT_FILE: file.read_text(encoding="utf-8")}


__all__ = [
    "DEFAULT_FILE",
    "TOKEN",
    "RoadmapInputs",
    "example_files",
    "json_schema",
    "rehearsal",
    "roadmap",
]

"""The harness: one governed task, stage by stage, each proven by a verified artifact, with people at the gates."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING

from interlock.lazy import lazily

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from interlock.engine import Rehearsal
    from interlock.playbooks.harness.inputs import HarnessInputs
    from interlock.playbooks.harness.lifecycle import diagram
    from interlock.playbooks.harness.playbook import harness

__getattr__ = lazily(
    __name__,
    {
        "inputs": "HarnessInputs",
        "lifecycle": "diagram",
        "playbook": "harness",
    },
)


def example_files() -> Mapping[str, str]:
    """Everything a workspace needs to try the harness: path in the workspace to text."""
    room = resources.files(__package__) / "examples"
    found: dict[str, Traversable] = {}
    for folder in ("standards", "templates", "tasks"):
        files = sorted(room.joinpath(folder).iterdir(), key=lambda file: file.name)
        found |= {f"harness/{folder}/{file.name}": file for file in files if file.name.endswith(".md")}
    return {path: file.read_text(encoding="utf-8") for path, file in found.items()}


def setup_files() -> Mapping[str, str]:
    """What a workspace needs before its first own task: the standards and templates, no task."""
    return {path: text for path, text in example_files().items() if not path.startswith("harness/tasks/")}


def rehearsal() -> Rehearsal:
    """The harness with its example task, against everything its agents can do, with a person who approves."""
    from interlock.playbooks.harness import rehearsing

    return rehearsing.rehearsal(example_files())


__all__ = ["HarnessInputs", "diagram", "example_files", "harness", "rehearsal", "setup_files"]

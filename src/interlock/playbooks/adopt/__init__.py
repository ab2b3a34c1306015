"""Adopting a prompt: an orchestrator prompt becomes a playbook in which code keeps its rules."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING

from interlock.lazy import lazily

if TYPE_CHECKING:
    from interlock.playbooks.adopt.inputs import AdoptInputs
    from interlock.playbooks.adopt.playbook import adopt
    from interlock.testing import Rehearsal

__getattr__ = lazily(__name__, {"inputs": "AdoptInputs", "playbook": "adopt"})


def example_files() -> Mapping[str, str]:
    """A prompt to try it with: path in the workspace to text."""
    file = resources.files(__package__) / "examples" / "orchestrator.md"
    return {file.name: file.read_text(encoding="utf-8")}


def rehearsal() -> Rehearsal:
    """The adoption of the example, against everything that reader, author, critic and people can do."""
    from interlock.playbooks.adopt import rehearsing

    made: Rehearsal = rehearsing.rehearsal(example_files())
    return made


__all__ = ["AdoptInputs", "adopt", "example_files", "rehearsal"]

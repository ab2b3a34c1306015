"""The harness: one governed task, stage by stage, each proven by a verified artifact, with people at the gates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from interlock.lazy import lazily

if TYPE_CHECKING:
    from interlock.playbooks.harness.inputs import HarnessInputs
    from interlock.playbooks.harness.playbook import harness, harness_of
    from interlock.playbooks.harness.rehearsing import rehearsal
    from interlock.playbooks.harness.stages import STAGES, Stage
    from interlock.playbooks.harness.templates import example_files

__getattr__ = lazily(
    __name__,
    {
        "inputs": "HarnessInputs",
        "playbook": "harness harness_of",
        "rehearsing": "rehearsal",
        "stages": "STAGES Stage",
        "templates": "example_files",
    },
)


def setup_files() -> Mapping[str, str]:
    """What a workspace needs before its first own task: the standards and templates, no task."""
    from interlock.playbooks.harness.templates import example_files

    return {path: text for path, text in example_files().items() if not path.startswith("harness/tasks/")}


__all__ = ["STAGES", "HarnessInputs", "Stage", "example_files", "harness", "harness_of", "rehearsal", "setup_files"]

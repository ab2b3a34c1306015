"""The router: a task command goes to the one agent that its configuration names, checked, bounded, relayed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING

from interlock.lazy import lazily

if TYPE_CHECKING:
    from interlock.playbooks.router.playbook import RouterInputs, router
    from interlock.playbooks.router.problems import RouterError
    from interlock.testing import Rehearsal

__getattr__ = lazily(
    __name__,
    {
        "playbook": "RouterInputs router",
        "problems": "RouterError",
    },
)


def example_files() -> Mapping[str, str]:
    """Everything a workspace needs to try the router: path in the workspace to text."""
    room = resources.files(__package__)
    files = {".opencode/specs/TODO.md": room / "examples" / "TODO.md"}
    for folder, place in (("agents", ".opencode/agent/subagents"), ("examples/command", ".opencode/command")):
        found = sorted(room.joinpath(*folder.split("/")).iterdir(), key=lambda file: file.name)
        files |= {f"{place}/{file.name}": file for file in found if file.name.endswith(".md")}
    return {path: file.read_text(encoding="utf-8") for path, file in files.items()}


def rehearsal() -> Rehearsal:
    """The router with its example files, against everything its agent can do."""
    from interlock.playbooks.router import rehearsing

    return rehearsing.rehearsal(example_files())


__all__ = ["RouterError", "RouterInputs", "example_files", "rehearsal", "router"]

"""What a playbook's room offers beside the playbook: `setup_files()`, `example_files()`, `rehearsal()`."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def room_of(playbook: str) -> ModuleType:
    """The package in which the playbook lives."""
    from interlock.playbooks import load

    module = load(playbook).function.__module__
    return import_module(module.rpartition(".")[0] or module)

"""The arguments that ask for a playbook with given inputs: for commands that are told to people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OPTIONS: Mapping[str, Mapping[str, str]] = {
    "roadmap": {"file": "--file"},
    "harness": {"fallback": "--fallback", "check": "--check"},
    "feature": {"slug": "--slug", "check_commands": "--check"},
    "ticket": {"jira": "--jira", "build": "--build", "test": "--test"},
}
"""By playbook: the inputs that are options. The first input that is none is the argument."""


def arguments_for(playbook: str, inputs: Mapping[str, Any]) -> list[str]:
    """What stands behind ``run PLAYBOOK`` so that the same key is asked for; what has its default is left out."""
    options = OPTIONS.get(playbook, {})
    argument = next((name for name in inputs if name not in options), None)
    first = [str(inputs[argument])] if argument is not None and inputs[argument] else []
    return first + [
        word for name, option in options.items() for value in _values(inputs.get(name)) for word in (option, value)
    ]


def _values(value: Any) -> list[str]:
    """How often an option is given: once for each line, or entry of a list."""
    return [str(one) for one in value] if isinstance(value, list | tuple) else str(value or "").splitlines()

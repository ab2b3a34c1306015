"""What a `call` hands to another playbook: texts, as the types that its inputs have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from interlock.engine import Playbook
from interlock.errors import ConfigInvalid
from interlock.flows import texts
from interlock.flows.reading import Problems
from interlock.flows.tree import CallStep


def check(step: CallStep, other: Playbook, problems: Problems) -> None:
    """Note inputs that the other playbook does not have, and those that it needs and does not get."""
    known = {one.name: one for one in fields(other.inputs)}
    given = {texts.word(name): name for name in step.inputs}
    for word, name in given.items():
        if word not in known:
            problems.unknown(step.at, f"the input of {other.name}", name, known)
    for name, one in known.items():
        if one.default is MISSING and one.default_factory is MISSING and name not in given:
            problems.add(step.at, f"{other.name} needs the input {name!r}", expected=f"with: {{{name}: ...}}")


def inputs(other: Playbook, given: Mapping[str, str]) -> Any:
    """The inputs of the other playbook; `ConfigInvalid` for a text that cannot be what is asked for."""
    hints = get_type_hints(other.inputs)
    return other.inputs(**{name: _typed(hints[name], text, f"{other.name}: {name}") for name, text in given.items()})


def _typed(hint: Any, text: str, what: str) -> Any:
    parts = [part for part in get_args(hint) if part is not NoneType]
    if get_origin(hint) in (Union, UnionType) and parts:
        hint = parts[0]
    if get_origin(hint) in (list, tuple):
        return get_origin(hint)(text.splitlines())
    if hint is bool and text.lower() in ("true", "yes", "false", "no"):
        return text.lower() in ("true", "yes")
    if hint is int and text.removeprefix("-").isdecimal():
        return int(text)
    if hint in (bool, int):
        raise ConfigInvalid(
            f"{what} cannot be {text!r}", expected="true or false" if hint is bool else "a number", found=text
        )
    return text

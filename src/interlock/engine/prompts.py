"""The texts of briefs: a playbook's own, in its `prompts/`, and a team's in their place.

What is asked is recorded as the name of a prompt and what is filled in, not as the text that comes of it: a team may
change its words while a run is under way, and the next agent is told them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from interlock.documents import DocumentState
from interlock.errors import ConfigInvalid, EngineFault

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import SandboxedEnvironment

    from interlock.engine.definition import Playbook
    from interlock.engine.world import Documents

FOLDER = ".interlock/prompts"


@dataclass(frozen=True)
class Prompt:
    """What an agent is told to do: a text of the playbook's folder, ``prompts/<name>.md``, with these values."""

    name: str
    values: Mapping[str, Any]
    then: tuple[str, ...] = ()
    """What is said after it, whatever words a team has for the rest."""

    @classmethod
    def of(cls, name: str, *, then: Iterable[str] = (), **values: Any) -> Prompt:
        return cls(name, values, tuple(then))


def worded(playbook: Playbook, task: str | Prompt, documents: Documents) -> str:
    """A task in words: the workspace's own text, else the playbook's, filled in; a value is never read as a text."""
    if isinstance(task, str):
        return task
    own = f"{FOLDER}/{playbook.name}/{task.name}.md"
    document = documents.read(own)
    if document.state is DocumentState.MISSING:
        first = filled(shipped(playbook, task.name), task.values, f"prompts/{task.name}.md")
    else:
        first = filled(document.require("Prompt").text, task.values, own)
    return "\n\n".join((first, *task.then))


def filled(text: str, values: Mapping[str, Any], where: str) -> str:
    """The text with its values; `ConfigInvalid` says what it asks for in vain."""
    from jinja2 import TemplateError

    try:
        return template(text).render(dict(values)).strip()
    except TemplateError as problem:
        raise _invalid(problem, where, values) from None


def check(playbook: Playbook, documents: Documents) -> None:
    """`ConfigInvalid` for the workspace's own prompts that no brief is made of, or that cannot be filled in."""
    from jinja2 import TemplateError, meta

    known = sorted(playbook.prompts)
    folder = f"{FOLDER}/{playbook.name}"
    for path in documents.list(folder, "*.md"):
        name = path.rpartition("/")[2].removesuffix(".md")
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise ConfigInvalid(
                f"{playbook.name} has no prompt {name!r}",
                where=path,
                expected=f"one of {', '.join(known)}" if known else "no file: its prompts are not templates",
                found=name,
                remedy=f"Did you mean {near[0]}?" if near else None,
            )
        parse = environment().parse
        values = dict.fromkeys(meta.find_undeclared_variables(parse(shipped(playbook, name))), "")
        try:
            asked = meta.find_undeclared_variables(parse(documents.read(path).require("Prompt").text))
        except TemplateError as problem:
            raise _invalid(problem, path, values) from None
        if unknown := sorted(asked - values.keys()):
            raise _unknown(unknown[0], path, values)


def shipped(playbook: Playbook, name: str) -> str:
    """A playbook's own text."""
    if name not in playbook.prompts:
        raise EngineFault(f"playbook {playbook.name} has no prompt {name!r}", where=f"prompts/{name}.md")
    return playbook.prompts[name]


@cache
def environment() -> SandboxedEnvironment:
    """How texts are read and filled in, here and in playbooks that are declared."""
    # Loaded only where something is filled in: commands that look at runs need not wait for it.
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    return SandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)


@lru_cache(maxsize=1024)
def template(text: str, finalize: Callable[[Any], Any] | None = None) -> Template:
    """A text, ready to be filled in; jinja2 takes a while for that, and the same few texts are filled in again.

    Args:
        finalize: what becomes of each value before it stands in the text.
    """
    made = environment() if finalize is None else environment().overlay(finalize=finalize)
    return made.from_string(text)


def _invalid(problem: Any, where: str, values: Mapping[str, Any]) -> ConfigInvalid:
    unknown = re.match(r"'(\w+)' is undefined", problem.message or "")
    if unknown:
        return _unknown(unknown[1], where, values)
    line = getattr(problem, "lineno", None)
    return ConfigInvalid(
        f"the prompt cannot be filled in: {problem.message}",
        where=f"{where}:{line}" if line else where,
        expected="text with {{ names }}, as jinja2 has it",
    )


def _unknown(name: str, where: str, values: Mapping[str, Any]) -> ConfigInvalid:
    near = difflib.get_close_matches(name, values, 1)
    return ConfigInvalid(
        f"the prompt asks for {name!r}, which nobody fills in",
        where=where,
        expected=f"one of {', '.join(sorted(values))}" if values else "no name at all",
        found=name,
        remedy=f"Did you mean {near[0]}?" if near else None,
    )

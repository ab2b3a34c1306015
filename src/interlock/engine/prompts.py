"""Texts that are filled in: briefs, and what people read at the end. A team's own stand in the place of ours.

Sandboxed jinja2 with StrictUndefined; a value is never read as a template.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from interlock.errors import ConfigInvalid, nearest, place

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import SandboxedEnvironment


class Prompts:
    """The texts of one playbook: those of its folder, and a team's in their place."""

    def __init__(self, shipped: Mapping[str, str], own: Mapping[str, tuple[str, str]] | None = None) -> None:
        self._shipped = dict(shipped)
        self._own = dict(own or {})
        """Name -> text and the file it came from."""
        for name, (_, where) in self._own.items():
            if name not in self._shipped:
                near = nearest(name, self._shipped)
                raise ConfigInvalid(
                    f"this playbook has no prompt {name!r}",
                    where=where,
                    expected=f"one of {', '.join(sorted(self._shipped))}",
                    found=name,
                    remedy=f"Did you mean {near}?" if near else None,
                )

    def fill(self, name: str, values: Mapping[str, Any]) -> str:
        """The text of that name with its values."""
        text, where = self._own.get(name) or (self._shipped[name], f"prompts/{name}.md")
        return filled(text, values, where)


def filled(text: str, values: Mapping[str, Any], where: str) -> str:
    """A text with its values; `ConfigInvalid` says what it asks for in vain."""
    from jinja2 import TemplateError

    try:
        return _template(text).render(dict(values)).strip()
    except TemplateError as problem:
        said = problem.message or str(problem)
        unknown = re.match(r"'(\w+)' is undefined", said)
        near = nearest(unknown[1], values) if unknown else None
        raise ConfigInvalid(
            f"the text asks for {unknown[1]!r}, which nobody fills in"
            if unknown
            else f"the text cannot be filled in: {said}",
            where=place(where, getattr(problem, "lineno", None)),
            expected=f"one of {', '.join(sorted(values))}" if unknown else "text with {{ names }}, as jinja2 has it",
            remedy=f"Did you mean {near}?" if near else None,
        ) from None


def parsed(text: str) -> Any:
    """The parts of a text, as jinja2 has them; a sentence where it cannot be filled in whatever the values are."""
    from jinja2 import TemplateError

    try:
        return _environment().parse(text)
    except (TemplateError, RecursionError) as problem:
        return f"the text cannot be filled in: {getattr(problem, 'message', None) or 'it is nested too deeply'}"


@cache
def _environment() -> SandboxedEnvironment:
    # Loaded only where something is filled in: commands that look at runs need not wait for it.
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    made = SandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)
    made.filters |= {"fence": fence, "quoted": quoted}
    return made


@lru_cache(maxsize=1024)
def _template(text: str) -> Template:
    return _environment().from_string(text)


def quoted(path: str) -> str:
    """A path or a command in back-quotes; odd ones spelled as JSON has them, so that none passes for more."""
    plain = path.isprintable() and "`" not in path
    return f"`{path}`" if plain else f"`` {json.dumps(path)} ``"


def fence(text: str, language: str = "") -> str:
    """Text as data: in a fence that is longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    bars = "`" * max(3, longest + 1)
    return f"{bars}{language}\n{text.rstrip()}\n{bars}"

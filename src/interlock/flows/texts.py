"""Texts of a flow: what they may say is checked when the file is read, so that filling them in cannot fail.

A text fills in names, and may ask with `if`.  It calls nothing, looks into nothing and computes nothing: those are the
parts of jinja2 that can fail, and a process is not to be hidden in them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from interlock.engine import prompts

_PARTS = ("Template", "Output", "TemplateData", "Name", "Const", "If", "CondExpr", "Compare", "Operand", "And", "Or")
_SPOKEN = {"Call": "a call", "Getattr": "a look into a value", "Getitem": "a look into a value"}
_ALONE = re.compile(r"\s*\{\{\s*\w+\s*\}\}\s*")


def word(name: str) -> str:
    """A name as texts write it: jinja2 would read a hyphen as a minus."""
    return name.replace("-", "_")


def wrong(text: str, known: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a text where these names are known, each with a sample of its value."""
    tree = prompts.parsed(text)
    yield from [tree] if isinstance(tree, str) else _wrong(tree, known)


def _wrong(node: Any, known: Mapping[str, Any]) -> Iterator[str]:
    match type(node).__name__:
        case "Compare" if not all(op.op in ("eq", "ne") or _numbers(node.expr, op, known) for op in node.ops):
            yield "these cannot be compared; expected == or !=, and < or > for numbers such as `turn`"
        case "Name" if node.name not in known:
            yield f"the name {node.name!r} is not known; expected one of {', '.join(sorted(known))}"
        case kind if kind not in (*_PARTS, "Not"):
            yield f"it has {_SPOKEN.get(kind, kind.lower())}; expected names and `if`: tables decide the rest"
    for inner in node.iter_child_nodes():
        yield from _wrong(inner, known)


def _numbers(first: Any, op: Any, known: Mapping[str, Any]) -> bool:
    values = [getattr(one, "value", known.get(getattr(one, "name", ""))) for one in (first, op.expr)]
    return op.op in ("gt", "gteq", "lt", "lteq") and all(isinstance(value, int) for value in values)


def filled(text: str, values: Mapping[str, Any], where: str) -> str:
    """A text with its values; a list stands with spaces between."""
    return _filled(text, values, where, str)


def fill_command(text: str, values: Mapping[str, Any], where: str) -> str:
    """A command: what is filled in is one word of it; one that is a name alone is taken as it was given."""
    return _filled(text, values, where, str if _ALONE.fullmatch(text) else shlex.quote)


def _filled(text: str, values: Mapping[str, Any], where: str, spell: Any) -> str:
    lists = {name: " ".join(map(spell, one)) for name, one in values.items() if isinstance(one, tuple)}
    words = {name: spell(one) for name, one in values.items() if isinstance(one, str)}
    return prompts.filled(text, {**values, **words, **lists}, where)


def wrong_command(text: str) -> Iterator[str]:
    """A name inside quotes of the shell would end them; a here-document takes it as it is."""
    if re.search(r"(?<!<)<<(?!<).*\{\{", text, re.DOTALL):
        yield "a name stands behind `<<`, where its quotes would not count"
    quote = ""
    for part in re.findall(r"\{\{.*?\}\}|\\.|.", text, re.DOTALL):
        if part.startswith("{{") and quote:
            yield f"{part} stands inside quotes of the command; without them it is one word already"
        elif part in ("'", '"', "`") and quote in ("", part):
            quote = "" if quote else part

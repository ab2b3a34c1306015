"""Texts of a flow: what they may say is checked when the file is read, so that filling them in cannot fail.

A text fills in names, and may ask with `if` or go through a list with `for`.  It calls nothing, looks into nothing and
computes nothing: those are the parts of jinja2 that can fail, and a process is not to be hidden in them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from interlock.engine.prompts import filled, parsed

FILTERS = ("join", "lower", "trim", "upper")
_PARTS = frozenset(
    ("Template", "Output", "TemplateData", "Name", "Const", "If", "For", "CondExpr", "Compare", "Operand", "And", "Or")
) | {"Not", "Filter"}
_ALONE = re.compile(r"\s*\{\{\s*\w+\s*\}\}\s*")


def word(name: str) -> str:
    """A name as texts write it: jinja2 would read a hyphen as a minus."""
    return name.replace("-", "_")


def wrong(text: str, known: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a text where these names are known, each with a sample of its value."""
    tree = parsed(text)
    if isinstance(tree, str):
        yield tree
        return
    own: set[str] = set()
    todo = [tree]
    while todo:
        node = todo.pop()
        kind = type(node).__name__
        if kind == "For":
            own.add(getattr(node.target, "name", ""))
            if not isinstance(known.get(getattr(node.iter, "name", "")), list):
                yield "`for` goes through what is no list; expected the name of an input of type list"
        elif kind == "Compare" and not all(op.op in ("eq", "ne") or _numbers(node.expr, op, known) for op in node.ops):
            yield "these cannot be compared; expected == or !=, and < or > for numbers such as `turn`"
        elif kind == "Name" and node.ctx == "load" and node.name not in {*known, *own}:
            yield f"the name {node.name!r} is not known; expected one of {', '.join(sorted({*known, *own}))}"
        elif kind == "Filter" and (node.name not in FILTERS or node.kwargs):
            yield f"the filter {node.name!r} is not known; expected one of {', '.join(FILTERS)}"
        elif kind not in _PARTS:
            yield f"it has {_spoken(kind)}; expected names, `if` and `for`: tables decide where a run goes"
        todo += node.iter_child_nodes()


def _numbers(first: Any, op: Any, known: Mapping[str, Any]) -> bool:
    values = [getattr(one, "value", known.get(getattr(one, "name", ""))) for one in (first, op.expr)]
    return op.op in ("gt", "gteq", "lt", "lteq") and all(isinstance(value, int) for value in values)


def _spoken(kind: str) -> str:
    return {"Call": "a call", "Getattr": "a look into a value", "Getitem": "a look into a value"}.get(
        kind, kind.lower()
    )


def fill_command(text: str, values: Mapping[str, Any], where: str) -> str:
    """A command: what is filled in is one word of it; one that is a name alone is taken as it was given."""
    alone = _ALONE.fullmatch(text) is not None
    quoted = {name: shlex.quote(one) if isinstance(one, str) and not alone else one for name, one in values.items()}
    return filled(text, quoted, where)


def wrong_command(text: str) -> Iterator[str]:
    """A name inside quotes of the shell would end them."""
    quote = ""
    for part in re.findall(r"\{\{.*?\}\}|\\.|.", text, re.DOTALL):
        if part.startswith("{{") and quote:
            yield f"{part} stands inside quotes of the command; without them it is one word already"
        elif part in ("'", '"') and quote in ("", part):
            quote = "" if quote else part

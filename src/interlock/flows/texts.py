"""Texts of a playbook: what they may say is checked when the file is read, so that filling them in cannot fail.

A text fills in names, and may ask with `if` or go through a list with `for`. It calls nothing, looks into nothing and
computes nothing: those are the parts of jinja2 that can fail, and a process is not to be hidden in them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from interlock.engine.prompts import environment, template
from interlock.errors import ConfigInvalid
from interlock.flows.reading import Problems
from interlock.flows.tree import Input, Place, Text

if TYPE_CHECKING:
    from jinja2.nodes import Node

DEEPEST = 15
"""Levels of a text; what jinja2 makes of more than 20 loops inside each other Python would not take."""
FILTERS = ("join", "lower", "trim", "upper")
EXPECTED = "names that are filled in; `if`, and `for` over a list; the filters " + ", ".join(FILTERS)
_TAG = re.compile(r"(\{\{.*?\}\}|\{%.*?%\})", re.DOTALL)
_NAME = re.compile(r"\{\{ ?(\w+) ?\}\}")


def word(name: str) -> str:
    """A name as texts write it: jinja2 would read a hyphen as a minus."""
    return name.replace("-", "_")


def check(text: Text, values: Mapping[str, Any], problems: Problems) -> None:
    """Note what a text asks for in vain, or must not do.

    Args:
        values: what is known where it stands, each with a sample.
    """
    names = _NAME.findall(text.source)
    if "{" not in _NAME.sub("", text.source) and values.keys() >= set(names):
        return  # nothing but names that are known: what nearly every text is, and jinja2 takes its time
    from jinja2 import TemplateError

    try:
        tree = environment().parse(text.source)
    except (TemplateError, RecursionError) as error:
        line = getattr(error, "lineno", None) or 1
        what = f"the text cannot be filled in: {getattr(error, 'message', 'it is nested too deeply')}"
        problems.add(_within(text, line), what, expected="text with {{ names }}")
        return
    for node, own, depth in _nodes(tree):
        if depth > DEEPEST:
            problems.add(text.at, "a text is nested too deeply", expected="a few `if` and `for` inside each other")
            return
        _look(node, {**values, **own}, _within(text, node.lineno or 1), problems)


def _nodes(tree: Node) -> Iterator[tuple[Node, Mapping[str, str], int]]:
    """Every node, with the names that `for` gives around it, and how deep it stands."""
    todo: list[tuple[Node, Mapping[str, str], int]] = [(tree, {}, 0)]
    while todo:
        node, own, depth = todo.pop()
        yield node, own, depth
        if hasattr(node, "target"):
            own = {**own, getattr(node.target, "name", ""): "text"}
        todo += [(child, own, depth + 1) for child in node.iter_child_nodes()]


def _look(node: Node, values: Mapping[str, Any], at: Place, problems: Problems) -> None:
    """Note what a part of a text must not do. What is let pass cannot fail, whatever the values are."""
    from jinja2 import nodes

    match node:
        case nodes.Name(name=name, ctx="load") if name not in values:
            problems.unknown(at, "the name", name, sorted(values))
        case nodes.Filter(name=name) if name not in FILTERS:
            problems.unknown(at, "in a text the filter", name, FILTERS)
        case nodes.Filter(name="join", node=joined) if not _is_list(joined, values):
            problems.add(at, "what is joined is no list", expected="the name of an input of type list")
        case nodes.Filter(args=args, kwargs=more) if more or not all(_is_text(one) for one in args):
            problems.add(at, "a filter is given something else than a text", expected='join(", "), say')
        case nodes.For(iter=whole) if not _is_list(whole, values):
            problems.add(at, "`for` goes through what is no list", expected="the name of an input of type list")
        case nodes.Compare(expr=first, ops=ops) if not all(_can_be(op, first, values) for op in ops):
            problems.add(at, "these cannot be compared", expected="== or !=; < and > for numbers such as turn")
        case (
            nodes.Template()
            | nodes.Output()
            | nodes.TemplateData()
            | nodes.Name()
            | nodes.Const()
            | nodes.If()
            | nodes.For()
            | nodes.CondExpr()
            | nodes.Compare()
            | nodes.Operand()
            | nodes.And()
            | nodes.Or()
            | nodes.Not()
            | nodes.Filter()
        ):
            pass
        case _:
            problems.add(at, f"a text has {_spoken(node)}", expected=EXPECTED, remedy="Tables decide where it goes.")


def _is_list(node: Node | None, values: Mapping[str, Any]) -> bool:
    return isinstance(values.get(getattr(node, "name", "")), list)


def _is_text(node: Node) -> bool:
    return isinstance(getattr(node, "value", None), str)


def _can_be(op: Any, first: Node, values: Mapping[str, Any]) -> bool:
    def number(node: Node) -> bool:
        value = node.value if hasattr(node, "value") else values.get(getattr(node, "name", ""))
        return isinstance(value, int)

    return op.op in ("eq", "ne") or (op.op in ("gt", "gteq", "lt", "lteq") and number(first) and number(op.expr))


def _spoken(node: Node) -> str:
    kind = type(node).__name__
    known = {"Call": "a call", "Getattr": "a look into a value (a dot)", "Getitem": "a look into a value ([...])"}
    return known.get(kind, f"something that is no filling in ({kind.lower()})")


def _within(text: Text, line: int) -> Place:
    return text.at if line <= 1 else Place(text.at.line + line - 1, 1)


def fill(text: Text, values: Mapping[str, Any]) -> str:
    return _rendered(text, values, for_a_shell=False)


def _rendered(text: Text, values: Mapping[str, Any], *, for_a_shell: bool) -> str:
    if "{" not in text.source:
        return text.source.strip()
    from jinja2 import TemplateError

    try:
        asked = {name: values[name] for name in _names_in(text.source) if name in values}
        if all(type(value) in _ATOMS for value in asked.values()):
            return _filled(text.source, for_a_shell, tuple(asked), *asked.values())
        return template(text.source, _quoted if for_a_shell else None).render(asked).strip()
    except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ConfigInvalid(
            f"the text cannot be filled in: {error}", expected="names used as what they are: text, number, list"
        ) from None


_ATOMS = (str, int, bool)


@lru_cache(maxsize=4096, typed=True)
def _filled(source: str, for_a_shell: bool, names: tuple[str, ...], *values: Any) -> str:
    """A text that is filled in; jinja2 takes its time, and paths of a rehearsal fill in the same again and again."""
    given = dict(zip(names, values, strict=True))
    return template(source, _quoted if for_a_shell else None).render(given).strip()


@lru_cache(maxsize=1024)
def _names_in(source: str) -> tuple[str, ...]:
    from jinja2 import meta

    return tuple(sorted(meta.find_undeclared_variables(environment().parse(source))))


def fill_command(text: Text, values: Mapping[str, Any]) -> str:
    """A command for a shell: what is filled in is one word of it. A command that is nothing but one name is that input
    as it was given: whoever gave it named the command."""
    name = text.source.strip().removeprefix("{{").removesuffix("}}").strip()
    if name.isidentifier() and text.source.strip() != name and not isinstance(values[name], list | tuple):
        return str(values[name])
    return _rendered(text, values, for_a_shell=True)


def check_command(text: Text, problems: Problems) -> None:
    """Note a name inside quotes of the command: they would end where those of the value begin."""
    quote, escaped, line = "", False, 1
    for part in _TAG.split(text.source):
        if part.startswith("{{") and (quote or escaped):
            problems.add(
                _within(text, line),
                f"{part} stands inside quotes of the command",
                expected=f"{part} without quotes around it: what is filled in is quoted for the shell already",
            )
            return
        line += part.count("\n")
        for letter in "" if part.startswith(("{{", "{%")) else part:
            if escaped:
                escaped = False
            elif letter == "\\" and quote != "'":
                escaped = True
            elif letter == quote:
                quote = ""
            elif letter in "'\"" and not quote:
                quote = letter


def _quoted(value: Any) -> str:
    return " ".join(map(shlex.quote, map(str, value))) if isinstance(value, list | tuple) else shlex.quote(str(value))


SAMPLES: Mapping[str, Any] = {"text": "text", "file": "file", "number": 1, "switch": True, "list": ["text"]}


def sample(one: Input) -> Any:
    """Something that could be given for an input."""
    if one.default not in (None, "", ()):
        return list(one.default) if one.type == "list" else one.default
    return one.one_of[0] if one.one_of else max(1, one.at_least or 0) if one.type == "number" else SAMPLES[one.type]


def asked(text: Text) -> set[str]:
    """The names that a text fills in."""
    return set(_names_in(text.source))

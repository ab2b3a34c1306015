"""What a playbook says of itself, read without executing it: its purpose and its inputs, from the text alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlock.engine.asking import Question, docs_in
from interlock.errors import ConfigInvalid
from interlock.finding.bundle import Bundle

if TYPE_CHECKING:
    from interlock.flows import Flow

UNKNOWN = "unknown until it is trusted"


@dataclass(frozen=True)
class Asks:
    """One input of a playbook, in words."""

    name: str
    kind: str
    required: bool
    help: str = ""

    @classmethod
    def of(cls, question: Question) -> Asks:
        kind = " | ".join(question.choices) or question.kind.__name__
        return cls(question.name, f"{kind} ..." if question.many else kind, question.required, question.option.help)


@dataclass(frozen=True)
class About:
    """What is known of a playbook that was not loaded."""

    name: str
    purpose: str
    inputs: tuple[Asks, ...] | None
    """None: that cannot be seen from the text."""


def told(bundle: Bundle, where: str) -> list[About]:
    """The playbooks of a bundle, as their text tells them; `ConfigInvalid` for a text that is none."""
    try:
        return _of_yaml(bundle, where) if bundle.is_yaml else list(_of_python(bundle, where))
    except RecursionError:
        raise ConfigInvalid("the playbook is nested too deeply to be read", where=where) from None


def parsed(content: bytes, where: str) -> ast.Module:
    """A file of Python as a syntax tree."""
    try:
        return ast.parse(content, filename=where)
    except SyntaxError as error:
        raise ConfigInvalid(
            f"the playbook is no valid Python: {error.msg}",
            where=f"{where}:{error.lineno or 1}",
            found=(error.text or "").strip() or None,
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ConfigInvalid(
            f"the playbook is no valid Python: {error or 'it is nested too deeply'}", where=where
        ) from None


def _of_yaml(bundle: Bundle, where: str) -> list[About]:
    flow = flow_of(bundle, where)
    inputs = tuple(
        Asks(one.name, " | ".join(one.one_of) or one.type, one.default is None, one.help) for one in flow.inputs
    )
    return [About(flow.name, flow.summary, inputs)]


def flow_of(bundle: Bundle, where: str) -> Flow:
    """The process of a bundle that is YAML; it is read, not executed."""
    from interlock import flows

    return flows.read(bundle.files[bundle.main], where)


def _of_python(bundle: Bundle, where: str) -> Iterator[About]:
    tree = parsed(bundle.files[bundle.main], where)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in (one for one in ast.walk(tree) if isinstance(one, ast.AsyncFunctionDef)):
        for call in node.decorator_list:
            match call:
                case ast.Call(
                    func=ast.Name(id="playbook") | ast.Attribute(attr="playbook"),
                    args=[ast.Constant(value=str(name)), *_],
                    keywords=known,
                ):
                    purpose = (ast.get_docstring(node) or "").partition("\n")[0]
                    named = [one.value.id for one in known if one.arg == "inputs" and isinstance(one.value, ast.Name)]
                    inputs = classes.get(named[0]) if named else None
                    yield About(name, purpose, tuple(_fields(inputs)) if inputs is not None else None)


def _fields(node: ast.ClassDef) -> Iterator[Asks]:
    docs = docs_in(node.body)
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            name, kind, words = one.target.id, ast.unparse(one.annotation), docs.get(one.target.id, "")
            match one.annotation:
                case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[first, *more])):
                    kind, words = ast.unparse(first), next(_helps(more), words)
            yield Asks(name.replace("_", "-"), kind, one.value is None, words)


def _helps(annotations: list[ast.expr]) -> Iterator[str]:
    for one in annotations:
        match one:
            case ast.Call(func=ast.Name(id="Option"), args=[ast.Constant(value=str(words)), *_]):
                yield words

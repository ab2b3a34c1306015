"""The mutants of a module: each differs from it in one place, in a way that a test should notice.

What is changed: comparisons, `and`, `or`, `not`, arithmetic, numbers and truth values, conditions, returned values,
rows of tables, members of sets, cases, caught errors, defaults; whole statements are left out. Texts are changed only
where they decide something: where they are compared, matched, or are a default. Annotations and decorators are left
alone.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import CodeType
from typing import Any, TypeVar

N = TypeVar("N", bound=ast.AST)

_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_OPPOSITE = {"any": "all", "all": "any", "min": "max", "max": "min"}
_MATCHING = ("startswith", "endswith", "removeprefix", "removesuffix")
_LEFT_ALONE = ("annotation", "returns", "decorator_list")
_REMOVED = (ast.Expr, ast.Assign, ast.AugAssign, ast.Raise, ast.Continue, ast.Break, ast.Delete)


@dataclass(frozen=True, eq=False)
class Mutant:
    """One change of one place."""

    line: int
    function: str
    """The function or method around it, by its qualified name; empty for what happens when the module is imported."""
    before: str
    after: str
    tree: ast.Module
    holder: ast.AST
    field: str
    index: int | None
    replacement: ast.AST

    def compiled(self, filename: str) -> CodeType:
        """The code of the changed module. Changes the tree for good: for a process that has no other use for it."""
        if self.index is None:
            setattr(self.holder, self.field, self.replacement)
        else:
            getattr(self.holder, self.field)[self.index] = self.replacement
        return compile(ast.fix_missing_locations(self.tree), filename, "exec")


def mutants_of(source: str) -> list[Mutant]:
    """All mutants, in the order of the text."""
    tree = ast.parse(source)
    return sorted(_below(tree, tree, ""), key=lambda mutant: mutant.line)


def _below(tree: ast.Module, holder: ast.AST, scope: str, function: str = "", line: int = 0) -> Iterator[Mutant]:
    for field, value in ast.iter_fields(holder):
        if field in _LEFT_ALONE:
            continue
        inner, around = scope, function
        if field == "body" and isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{scope}.{holder.name}".lstrip(".")
            if not isinstance(holder, ast.ClassDef):
                around = function or inner
        for index, node in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(node, ast.AST):
                continue
            here = getattr(node, "lineno", line)
            at = index if isinstance(value, list) else None
            for other in (*_in_place(holder, field, node), *_removals(node, around), *_variants(node)):
                before, after = _text(node), _text(other)
                yield Mutant(here, around, before, after, tree, holder, field, at, other)
            yield from _below(tree, node, inner, around, here)


def _text(node: ast.AST) -> str:
    """A node as people write it, on one line."""
    if isinstance(node, ast.operator | ast.boolop | ast.cmpop | ast.unaryop):
        return type(node).__name__
    return " ".join(ast.unparse(node).split())


def _in_place(holder: ast.AST, field: str, node: ast.AST) -> Iterator[ast.AST]:
    """What may stand here whatever the node is: a condition holds always, or never."""
    if field in ("test", "guard", "ifs") and not isinstance(node, ast.Constant):
        if not isinstance(holder, ast.While):  # a loop that never ends proves nothing
            yield ast.Constant(True)
        yield ast.Constant(False)


def _removals(node: ast.AST, function: str) -> Iterator[ast.AST]:
    says_nothing = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if function and isinstance(node, _REMOVED) and not says_nothing:
        yield ast.Pass()


def _variants(node: ast.AST) -> Iterator[ast.AST]:
    for kind, others in _KINDS.items():
        if isinstance(node, kind):
            yield from others(node)


def _constants(node: ast.Constant) -> Iterator[ast.AST]:
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int | float):
        yield ast.Constant(node.value + 1)


def _signs(node: ast.UnaryOp) -> Iterator[ast.AST]:
    if isinstance(node.op, ast.Not | ast.USub):
        yield node.operand


def _operators(node: ast.BinOp | ast.AugAssign | ast.BoolOp) -> Iterator[ast.AST]:
    if other := _OTHER.get(type(node.op)):
        yield _with(node, op=other())


def _comparisons(node: ast.Compare) -> Iterator[ast.AST]:
    for at, op in enumerate(node.ops):
        yield _with(node, ops=_put(node.ops, at, _OTHER[type(op)]()))
    for at, side in enumerate(node.comparators):
        for other in (*_changed_text(side), *_without_one(side)):
            yield _with(node, comparators=_put(node.comparators, at, other))
    for other in _changed_text(node.left):
        yield _with(node, left=other)


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    match node.func:
        case ast.Name(id=name) if name in _OPPOSITE:
            yield _with(node, func=ast.Name(_OPPOSITE[name], ast.Load()))
        case ast.Attribute(attr=name) if name in _MATCHING:
            for at, argument in enumerate(node.args):
                for other in (*_changed_text(argument), *_without_one(argument)):
                    yield _with(node, args=_put(node.args, at, other))


def _returns(node: ast.Return) -> Iterator[ast.AST]:
    if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
        yield ast.Return(ast.Constant(None))


def _rows(table: ast.Dict) -> Iterator[ast.AST]:
    """A table without one of its rows, or with the values of two neighbours exchanged."""
    if len(table.keys) < 2 or None in table.keys:
        return
    for at in range(len(table.keys)):
        yield ast.Dict(_put(table.keys, at), _put(table.values, at))
    for at, (value, following) in enumerate(pairwise(table.values)):
        if ast.dump(value) != ast.dump(following):
            yield ast.Dict(table.keys, _put(_put(table.values, at, following), at + 1, value))


def _cases(node: ast.Match) -> Iterator[ast.AST]:
    if len(node.cases) > 1:
        yield from (_with(node, cases=_put(node.cases, at)) for at in range(len(node.cases)))


def _matched(node: ast.MatchValue) -> Iterator[ast.AST]:
    yield from map(ast.MatchValue, _changed_text(node.value))


def _caught(node: ast.ExceptHandler) -> Iterator[ast.AST]:
    if node.type is not None:
        yield from (_with(node, type=other) for other in _without_one(node.type))


def _defaults(node: ast.arguments) -> Iterator[ast.AST]:
    for name in ("defaults", "kw_defaults"):
        given = getattr(node, name)
        for at, default in enumerate(given):
            yield from (_with(node, **{name: _put(given, at, other)}) for other in _changed_text(default))


def _fields(node: ast.AnnAssign) -> Iterator[ast.AST]:
    yield from (_with(node, value=other) for other in _changed_text(node.value))


def _changed_text(node: ast.AST | None) -> Iterator[ast.expr]:
    match node:
        case ast.Constant(value=str() as text):
            yield ast.Constant(text + "?")
        case ast.Constant(value=bytes() as content):
            yield ast.Constant(content + b"?")


def _without_one(node: ast.AST) -> Iterator[ast.expr]:
    """A collection that is written out, without one of its members; of one alone, none would be left to say."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set) and len(node.elts) > 1:
        yield from (_with(node, elts=_put(node.elts, at)) for at in range(len(node.elts)))


def _put(members: Sequence[Any], at: int, *others: Any) -> list[Any]:
    return [*members[:at], *others, *members[at + 1 :]]


def _with(node: N, **fields: object) -> N:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


_KINDS: Mapping[Any, Callable[[Any], Iterator[ast.AST]]] = {
    ast.Constant: _constants,
    ast.UnaryOp: _signs,
    ast.BinOp | ast.AugAssign | ast.BoolOp: _operators,
    ast.Compare: _comparisons,
    ast.Call: _calls,
    ast.Return: _returns,
    ast.Dict: _rows,
    ast.Set: _without_one,
    ast.Match: _cases,
    ast.MatchValue: _matched,
    ast.ExceptHandler: _caught,
    ast.arguments: _defaults,
    ast.AnnAssign: _fields,
}
"""What may stand in the place of each kind of node."""

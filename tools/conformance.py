"""Which test proves which requirement: writes docs/conformance.md from the `@pytest.mark.req` marks of the tests.

    python tools/conformance.py            write the page
    python tools/conformance.py --check    fail if the page is stale, a finished group has a row without a test,
                                           or a test names a row that does not exist

Tests are read, not imported.  A test that is skipped or expected to fail proves nothing and does not count.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FINISHED = ("LY", "EV", "EN", "CM", "RT", "RM", "HN", "FT", "TK")
"""Groups in which every row must have a test."""

CATALOGUE = Path("docs/requirements.json")
PAGE = Path("docs/conformance.md")
TESTS = Path("tests")


@dataclass(frozen=True)
class Section:
    title: str
    ids: tuple[str, ...]


@dataclass(frozen=True)
class Group:
    """The requirements of one document."""

    prefix: str
    name: str
    sections: tuple[Section, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(row for section in self.sections for row in section.ids)


@dataclass(frozen=True, order=True)
class Proof:
    """A test that names a requirement."""

    file: str
    test: str
    line: int
    row: str

    @property
    def link(self) -> str:
        # without the line: the page must not change when a test merely moves
        return f"[`{Path(self.file).name}::{self.test}`](../{self.file})"


class MarkUnreadable(Exception):
    """A mark whose ids are not plain strings: nobody could find them by reading."""


def read_catalogue(path: Path) -> tuple[Group, ...]:
    """The requirement rows there are, by document and section."""
    return tuple(
        Group(
            group["prefix"],
            group["name"],
            tuple(Section(section["title"], tuple(section["ids"])) for section in group["sections"]),
        )
        for group in json.loads(path.read_text(encoding="utf-8"))
    )


def collect(root: Path) -> tuple[Proof, ...]:
    """Every requirement that a test below `root`/tests names, in order of file and test."""
    proofs: set[Proof] = set()
    for path in sorted((root / TESTS).rglob("test_*.py")):
        file = path.relative_to(root).as_posix()
        tree = ast.parse(path.read_bytes(), filename=file)
        try:
            proofs.update(Proof(file, name, line, row) for name, line, rows in _tests(tree) for row in rows)
        except MarkUnreadable as error:
            raise MarkUnreadable(f"{file}:{error}: ids in pytest.mark.req must be plain strings") from None
    return tuple(sorted(proofs))


def _tests(tree: ast.Module) -> Iterator[tuple[str, int, list[str]]]:
    everywhere = _marks([value for statement in tree.body for value in _pytestmark(statement)])
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            shared = everywhere + _marks(node.decorator_list)
            for method in node.body:
                yield from _test(method, f"{node.name}::", shared)
        else:
            yield from _test(node, "", everywhere)


def _test(node: ast.stmt, inside: str, shared: list[ast.Call | ast.Attribute]) -> Iterator[tuple[str, int, list[str]]]:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.name.startswith("test"):
        return
    marks = shared + _marks(node.decorator_list)
    if any(_mark_name(mark) in ("skip", "xfail") for mark in marks):
        return
    rows = [row for mark in marks if isinstance(mark, ast.Call) and _mark_name(mark) == "req" for row in _ids(mark)]
    if rows:
        yield inside + node.name, node.lineno, rows


def _marks(expressions: Sequence[ast.expr]) -> list[ast.Call | ast.Attribute]:
    """The `pytest.mark.x` and `pytest.mark.x(...)` in these expressions; those inside `parametrize` only for `req`."""
    found: list[ast.Call | ast.Attribute] = []
    for expression in expressions:
        tops = expression.elts if isinstance(expression, ast.List | ast.Tuple) else [expression]
        for top in tops:
            if isinstance(top, ast.Call | ast.Attribute) and _mark_name(top):
                found.append(top)
            for node in ast.walk(top):
                if node is not top and isinstance(node, ast.Call) and _mark_name(node) == "req":
                    found.append(node)
    return found


def _mark_name(node: ast.expr) -> str | None:
    target = node.func if isinstance(node, ast.Call) else node
    match target:
        case ast.Attribute(value=ast.Attribute(attr="mark") | ast.Name(id="mark"), attr=name):
            return name
    return None


def _ids(mark: ast.Call) -> list[str]:
    ids = [argument.value for argument in mark.args if isinstance(argument, ast.Constant)]
    if len(ids) != len(mark.args) or mark.keywords or not all(isinstance(row, str) for row in ids):
        raise MarkUnreadable(str(mark.lineno))
    return [str(row) for row in ids]


def _pytestmark(statement: ast.stmt) -> Iterator[ast.expr]:
    match statement:
        case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
            yield value


def render(groups: Sequence[Group], proofs: Sequence[Proof]) -> str:
    """The page: a summary, then for each group the tests of every row."""
    by_row: dict[str, list[Proof]] = {}
    for proof in proofs:
        by_row.setdefault(proof.row, []).append(proof)
    lines = [
        "# Conformance",
        "",
        "Which test proves which requirement. Generated by `make docs`; `make lint` fails when it is stale.",
        "",
        "| group | of | rows | with a test | complete |",
        "| --- | --- | ---: | ---: | --- |",
        *(_summary(group, by_row) for group in groups),
        _total(groups, by_row),
    ]
    for group in groups:
        lines += ["", f"## {group.prefix}: {group.name}"]
        for section in group.sections:
            lines += ["", f"### {section.title}", "", "| row | tests |", "| --- | --- |"]
            lines += [f"| {row} | {'<br>'.join(proof.link for proof in by_row.get(row, ()))} |" for row in section.ids]
    return "\n".join(line.replace("|  |", "| |") for line in lines) + "\n"


def _summary(group: Group, by_row: Mapping[str, object]) -> str:
    proven = sum(row in by_row for row in group.ids)
    complete = "yes" if proven == len(group.ids) else "no"
    return f"| [{group.prefix}](#{_anchor(group)}) | {group.name} | {len(group.ids)} | {proven} | {complete} |"


def _total(groups: Sequence[Group], by_row: Mapping[str, object]) -> str:
    every = [row for group in groups for row in group.ids]
    return f"| | all | {len(every)} | {sum(row in by_row for row in every)} | |"


def _anchor(group: Group) -> str:
    return f"{group.prefix}: {group.name}".lower().replace(":", "").replace(" ", "-")


def problems(groups: Sequence[Group], proofs: Sequence[Proof], finished: Sequence[str]) -> list[str]:
    """What is wrong whatever the page says: rows that do not exist, finished groups with unproven rows."""
    known = {row for group in groups for row in group.ids}
    found = [
        f"{p.file}:{p.line}: {p.test} names {p.row}, which no requirement has" for p in proofs if p.row not in known
    ]
    proven = {proof.row for proof in proofs}
    for group in groups:
        if group.prefix in finished and (missing := [row for row in group.ids if row not in proven]):
            found.append(f"{group.prefix} is finished, but no test names {', '.join(missing)}")
    return found


def main(arguments: Sequence[str] | None = None, root: Path = Path(), finished: Sequence[str] = FINISHED) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if something is stale or missing")
    check: bool = parser.parse_args(arguments).check
    groups = read_catalogue(root / CATALOGUE)
    try:
        proofs = collect(root)
    except MarkUnreadable as error:
        print(error, file=sys.stderr)
        return 1
    page, path = render(groups, proofs), root / PAGE
    if not check:
        path.write_text(page, encoding="utf-8")
        return 0
    found = problems(groups, proofs, finished)
    if not path.exists() or path.read_text(encoding="utf-8") != page:
        found.append(f"{PAGE} is stale: run `make docs`")
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

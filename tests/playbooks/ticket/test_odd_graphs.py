"""Task graphs that no planner should write: the words for what is wrong, and never a fault of ours."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.contracts.toolchains import detect_commands
from interlock.documents import load_yaml
from interlock.playbooks.ticket.artifacts import graph_problem
from interlock.playbooks.ticket.graph import LONGEST, batches, find_cycle, is_trivial, problem_of, read_graph
from interlock.playbooks.ticket.rehearsing import graph, task

TWO: Any = load_yaml(graph(task("T1"), task("T2", "B", needs=("T1",)), strategies={"B": "sequential"}), "tasks.yaml")
ODD = [
    None,
    [],
    {},
    [[]],
    ["A"],
    [["A"]],
    {"A": "A"},
    [None],
    "",
    "x" * 300,
    "a/b",
    "..",
    "\x1b[2J",
    0,
    -1,
    10**30,
    1.5,
]


@pytest.mark.req("LY-42")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d["execution_order"][0].update(group=["A"]), "execution_order[0].group is a list; expected text"),
        (lambda d: d["execution_order"][0].update(group=None), "execution_order[0].group is empty; expected text"),
        (
            lambda d: d["tasks"][0].update(id="T" * 120),
            f"tasks[0]: id {'T' * 40!r}... has 120 characters; expected at most {LONGEST}",
        ),
        (
            lambda d: d["parallel_groups"].update({"A/B": []}),
            f"parallel_groups: 'A/B' cannot name a group; expected at most {LONGEST} plain characters",
        ),
        (
            lambda d: d["parallel_groups"].update({"G" * 120: []}),
            f"parallel_groups: {'G' * 40!r} cannot name a group; expected at most {LONGEST} plain characters",
        ),
    ],
)
def test_what_cannot_be_a_name_is_said(change: Callable[[Any], object], problem: str) -> None:
    """A group as a list, names that are too long for a folder or look like two."""
    data = copy.deepcopy(TWO)
    change(data)
    assert problem_of(data, new=False) == problem


@pytest.mark.req("LY-42")
def test_a_key_that_is_there_twice_is_said_with_its_line() -> None:
    """YAML would take the last one; which one was meant, nobody knows."""
    text = graph(task("T1")).replace("strategy: ", "strategy: one\nstrategy: ", 1)
    assert 'key "strategy" appears twice' in str(graph_problem(text, new=True))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in entries:
        yield from places(item, (*path, key))


@pytest.mark.req("LY-42")
@given(st.lists(st.tuples(st.sampled_from(list(places(TWO))), st.sampled_from(ODD)), min_size=1, max_size=3))
def test_anything_anywhere_is_found_or_harmless(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    """Whatever stands in whatever place: a problem in words, or a graph that can be worked on."""
    data = copy.deepcopy(TWO)
    for path, value in changes:
        inner = data
        try:
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = copy.deepcopy(value)
        except (TypeError, LookupError):
            continue  # an earlier change took that place away
    if problem_of(data, new=False) is None:
        found = read_graph(data)
        is_trivial(found)
        for group in found.order:
            batches(group, found, 4)


@pytest.mark.req("LY-42")
def test_a_long_chain_of_tasks_is_no_trouble() -> None:
    """Longer than the stack is deep, with and without a way back."""
    chain = {f"T{number}": [f"T{number + 1}"] for number in range(3000)}
    assert find_cycle({**chain, "T3000": []}) is None
    assert find_cycle({**chain, "T3000": ["T2998"]}) == ["T2998", "T2999", "T3000", "T2998"]


@pytest.mark.req("LY-42")
@pytest.mark.parametrize("text", ["[" * 100_000, "{", "[]", "null", '{"scripts": []}', '{"scripts": {"test": 1}}'])
def test_an_odd_package_json_is_no_project_of_ours(text: str) -> None:
    """Nothing can be told from it; nothing breaks."""
    assert detect_commands(["package.json"], {"package.json": text}).build is None

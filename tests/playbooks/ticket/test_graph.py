"""The task graph: every check with its words, batches, blame."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents import load_yaml
from interlock.playbooks.ticket.artifacts import graph_problem
from interlock.playbooks.ticket.graph import (
    Graph,
    batches,
    blamed,
    exhausted,
    find_cycle,
    is_trivial,
    may_meet,
    next_attempt,
    path_problem,
    problem_of,
    read_graph,
    share_files,
)
from interlock.playbooks.ticket.rehearsing import graph, task


def data_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = load_yaml(text, "tasks.yaml")
    return found


THREE = graph(task("T1"), task("T2"), task("T3", "B", needs=("T1",)), strategies={"B": "sequential"})


def read(text: str) -> Graph:
    return read_graph(data_of(text))


@pytest.mark.req("TK-86", "TK-87", "TK-88", "TK-89")
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d.pop("validation_policy"), "validation_policy missing"),
        (lambda d: d.pop("tasks"), "tasks missing"),
        (lambda d: d.pop("parallel_groups"), "parallel_groups missing"),
        (lambda d: d.pop("execution_order"), "execution_order missing"),
        (lambda d: d.pop("strategy"), "strategy missing"),
        (lambda d: d.update(parallel_groups=[["T1"]]), "parallel_groups is a list; expected mapping"),
        (lambda d: d.update(parallel_groups="A"), "parallel_groups is text; expected mapping"),
        (lambda d: d.update(execution_order={}), "execution_order is a mapping; expected list"),
        (lambda d: d["execution_order"][0].pop("group"), "execution_order[0].group missing"),
        (lambda d: d["execution_order"][0].pop("strategy"), "execution_order[0].strategy missing"),
        (lambda d: d["execution_order"][1].pop("tasks"), "execution_order[1].tasks missing"),
        (lambda d: d["execution_order"].__setitem__(1, "B"), "execution_order[1] is text; expected mapping"),
        (lambda d: d["execution_order"][1].update(group="C"), 'execution_order[1].group "C" not in parallel_groups'),
        (
            lambda d: d["execution_order"][0].update(strategy="fast"),
            'execution_order[0].strategy "fast"; expected parallel or sequential',
        ),
        (lambda d: d["tasks"][1].pop("success_criteria"), "task T2: success_criteria missing"),
        (lambda d: d["tasks"][0].pop("description"), "task T1: description missing"),
        (lambda d: d["tasks"][0].pop("files_to_modify"), "task T1: files_to_modify missing"),
        (lambda d: d["tasks"][0].pop("parallel_group"), "task T1: parallel_group missing"),
        (lambda d: d["tasks"][0].pop("depends_on"), "task T1: depends_on missing"),
        (lambda d: d["tasks"][0].pop("status"), "task T1: status missing"),
        (lambda d: d["tasks"][0].pop("id"), "tasks[0]: id missing"),
        (lambda d: d["tasks"][1].update(id="T1"), "task id T1 appears twice"),
        (lambda d: d["tasks"][0].update(files_to_modify=[]), "task T1: files_to_modify is empty"),
        (lambda d: d["tasks"][0].update(files_to_modify="a"), "task T1: files_to_modify is text; expected list"),
        (lambda d: d["tasks"][0].update(status="DONE"), 'task T1: status "DONE" unknown'),
        (
            lambda d: d["tasks"][0].update(status="ACCEPTED"),
            'task T1: status "ACCEPTED" of a task that nobody worked on; expected PENDING',
        ),
        (
            lambda d: d["tasks"][0].update(files_to_modify=["../../etc/passwd"]),
            'task T1: files_to_modify "../../etc/passwd": path leaves the repository',
        ),
        (
            lambda d: d["tasks"][0].update(test_files=["prompts/x"]),
            'task T1: test_files "prompts/x": path is inside prompts/',
        ),
        (lambda d: d["parallel_groups"].update(C=["T9"]), "group C is not in execution_order"),
        (lambda d: d["tasks"].append(task("T9")), "task T9 is in no group"),
        (
            lambda d: d["tasks"][0].update(parallel_group="B"),
            'task T1: parallel_group "B", but it is in A',
        ),
        (lambda d: d["tasks"][0].update(depends_on=["T7"]), "task T1: depends_on 'T7' is no task"),
        (lambda d: d["tasks"][1].update(depends_on=["T1"]), "task T2: depends_on T1, which is not done before it"),
        (
            lambda d: d["validation_policy"].update(baseline_scope="docs"),
            'validation_policy.baseline_scope "docs"; expected code_and_tests_only or all',
        ),
        (
            lambda d: d["validation_policy"].update(working_directory="../x"),
            'validation_policy.working_directory "../x": path leaves the repository',
        ),
        (lambda d: d.update(tasks=[]), "tasks is empty; expected at least 1 task"),
    ],
)
def test_each_check_has_its_words(change: Callable[[dict[str, Any]], object], problem: str) -> None:
    """A graph that fails a check is refused with the check's own words."""
    data = copy.deepcopy(data_of(THREE))
    change(data)
    assert problem_of(data, new=True) == problem


def test_a_valid_graph_has_no_problem() -> None:
    """The example graph passes, new and in the middle of work."""
    assert problem_of(data_of(THREE), new=True) is None
    data = data_of(THREE)
    data["tasks"][0].update(status="ACCEPTED", attempt=3)
    assert problem_of(data, new=False) is None


def test_a_cycle_is_named() -> None:
    """The way round is shown."""
    data = data_of(THREE)
    data["tasks"][0]["depends_on"], data["tasks"][1]["depends_on"] = ["T2"], ["T1"]
    assert problem_of(data, new=True) == "depends_on cycle: T1 -> T2 -> T1"


@pytest.mark.parametrize("text", ["tasks: [", "- a\n", "text", "", "a: &x [*x]"])
def test_what_is_no_mapping_is_refused(text: str) -> None:
    """Anything but a YAML mapping has a problem, never an error."""
    assert graph_problem(text, new=True)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.sampled_from(
        [
            ("tasks",),
            ("tasks", 0),
            ("parallel_groups",),
            ("execution_order", 0),
            ("validation_policy",),
            ("tasks", 1, "id"),
        ]
    ),
    plain,
)
def test_validation_is_total(keys: tuple[Any, ...], value: Any) -> None:
    """Whatever stands anywhere, the answer is a problem or a graph that can be read."""
    data = data_of(THREE)
    at: Any = data
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    if problem_of(data, new=True) is None:
        read_graph(data)


@pytest.mark.parametrize("path", ["/etc/passwd", "~/x", "a/../../b", ".git/hooks/x", "sub/.git/x", ".interlock/x"])
def test_paths_that_no_task_may_change(path: str) -> None:
    """Outside of the repository, and what belongs to git and to interlock."""
    assert path_problem(path)


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), max_size=3)))
def test_a_cycle_is_a_way_back(edges: dict[str, list[str]]) -> None:
    """What is found is a cycle, and without one the tasks can be put in order."""
    needs = {name: [other for other in others if other in edges] for name, others in edges.items()}
    cycle = find_cycle(needs)
    if cycle:
        assert cycle[0] == cycle[-1]
        assert all(after in needs[before] for before, after in itertools.pairwise(cycle))
        return
    done: set[str] = set()
    while len(done) < len(needs):
        ready = {name for name in needs if name not in done and set(needs[name]) <= done}
        assert ready
        done |= ready


@pytest.mark.req("TK-122", "TK-123", "TK-124", "TK-125")
def test_batches_are_as_large_as_is_safe() -> None:
    """Disjoint files, at most the limit, in order; a sequential group gives one task."""
    many = read(graph(task("T1"), task("T2", files=("src/t1.txt",)), task("T3"), task("T4"), task("T5"), strategies={}))
    (group,) = many.order
    names = [[one.id for one in batch] for batch in batches(group, many, 3)]
    assert names == [["T1", "T3", "T4"], ["T2", "T5"]]
    one_by_one = read(graph(task("T1"), task("T2"), strategies={"A": "sequential"}))
    assert [[one.id for one in batch] for batch in batches(one_by_one.order[0], one_by_one, 8)] == [["T1"]]


files = st.lists(st.sampled_from(["a", "b", "c", "src/", "src/x", "lib/*.py", "lib/a.py"]), min_size=1, max_size=2)


@given(st.lists(files, min_size=1, max_size=6), st.integers(1, 4))
def test_no_batch_has_tasks_that_share_files(wanted: list[list[str]], limit: int) -> None:
    """Each task is in exactly one batch, no batch is too large, none has an overlap."""
    made = read(graph(*(task(f"T{number}", files=tuple(paths)) for number, paths in enumerate(wanted))))
    found = batches(made.order[0], made, limit)
    assert sorted(one.id for batch in found for one in batch) == sorted(made.tasks)
    for batch in found:
        assert len(batch) <= limit
        assert not any(share_files(a, b) for a, b in itertools.combinations(batch, 2))


def test_folders_and_patterns_meet_what_lies_in_them() -> None:
    """A folder or pattern overlaps with every path that begins as it does."""
    assert may_meet("src/", "src/a.py")
    assert may_meet("src/*.py", "src/a.py")
    assert not may_meet("src/a.py", "src/a.pyc")
    assert not may_meet("lib/", "src/a.py")


def test_blame_goes_to_those_whose_files_are_named() -> None:
    """By path, also within an absolute one; all that were worked on if nobody is named; accepted ones only once."""
    found = read(graph(task("T1", test_files=["tests/t1_test.py"]), task("T2")))
    both = list(found.tasks.values())
    assert blamed("/build/src/t2.txt:3: error", both, both) == ["T2"]
    assert blamed("FAILED tests/t1_test.py::x", both, both) == ["T1"]
    assert blamed("src/t2.txtx and xsrc/t1.txt-old", both, both) == ["T1", "T2"]
    for place in ("src/t2.txt:3:5: error", 'File "./src/t2.txt", line 3', "src/t2.txt(3,5): error", "src/t2.txt:[3,5]"):
        assert blamed(f"cc -c src/t1.txt src/t2.txt\n{place}\n", both, both) == ["T2"], place
    assert blamed("cc -c src/t1.txt src/t2.txt\nkilled", both, both) == ["T1", "T2"]
    data = data_of(graph(task("T1"), task("T2")))
    data["tasks"][0].update(status="ACCEPTED")
    first, second = read_graph(data).tasks.values()
    assert blamed("src/t1.txt", [first, second], [second]) == ["T1"]
    data["tasks"][0].update(set_back=True)
    first, second = read_graph(data).tasks.values()
    assert blamed("src/t1.txt", [first, second], [second]) == ["T2"]


@pytest.mark.req("TK-97", "TK-108")
@pytest.mark.parametrize(
    ("tasks", "mandates", "trivial"),
    [
        ([task("T1")], (), True),
        ([task("T1"), task("T2")], (), False),
        ([task("T1", files=("a", "b", "c", "d"))], (), False),
        ([task("T1", tool_mandates=["use Playwright to see the page"])], (), False),
        ([task("T1", tool_mandates=[{"text": "use Redis"}])], (), True),
        ([task("T1")], ("MUST use Playwright to verify",), False),
    ],
)
def test_what_is_trivial(tasks: list[dict[str, Any]], mandates: tuple[str, ...], trivial: bool) -> None:
    """One task, at most three files, nothing that has to be seen running."""
    assert is_trivial(read(graph(*tasks)), mandates) is trivial


@pytest.mark.req("TK-137")
def test_attempts_are_counted_once() -> None:
    """An attempt that was begun and never recorded keeps its number; five are the most."""
    data = data_of(graph(task("T1", attempt=4)))
    data["tasks"][0]["status"] = "REJECTED"
    (one,) = read_graph(data).tasks.values()
    assert next_attempt(one) == 5
    assert exhausted([one], 5) == []
    data["tasks"][0].update(status="IN_PROGRESS", attempt=5)
    (one,) = read_graph(data).tasks.values()
    assert next_attempt(one) == 5
    data["tasks"][0]["status"] = "ERROR"
    (one,) = read_graph(data).tasks.values()
    assert exhausted([one], 5) == [one]

"""The task graph: every check with its words, batches, blame."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.contracts import DOCUMENTATION
from interlock.documents import load_yaml
from interlock.playbooks.ticket.artifacts import graph_problem
from interlock.playbooks.ticket.graph import (
    BaselineScope,
    Graph,
    GraphLimits,
    Policy,
    batches,
    blamed,
    changed_files,
    exhausted,
    find_cycle,
    is_trivial,
    literal_files,
    may_meet,
    next_attempt,
    path_problem,
    problem_of,
    read_graph,
    refused,
    share_files,
    steers_checks,
)
from interlock.playbooks.ticket.rehearsing import graph, task


def data_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = load_yaml(text, "tasks.yaml")
    return found


THREE = graph(task("T1"), task("T2"), task("T3", "B", needs=("T1",)), strategies={"B": "sequential"})


STATUSES = "PENDING, IN_PROGRESS, SYNTAX_VALID, SYNTAX_ERROR, ERROR, REJECTED or ACCEPTED"


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
        (
            lambda d: d["execution_order"][0].pop("strategy"),
            "execution_order[0].strategy missing; expected parallel or sequential",
        ),
        (lambda d: d["execution_order"][1].pop("tasks"), "execution_order[1].tasks missing"),
        (lambda d: d["execution_order"].__setitem__(1, "B"), "execution_order[1] is text; expected mapping"),
        (lambda d: d["execution_order"][1].update(group="C"), 'execution_order[1].group "C" not in parallel_groups'),
        (
            lambda d: d["execution_order"][0].update(strategy="fast"),
            'execution_order[0].strategy is "fast"; expected parallel or sequential',
        ),
        (lambda d: d["tasks"][1].pop("success_criteria"), "task T2: success_criteria missing"),
        (lambda d: d["tasks"][0].pop("description"), "task T1: description missing"),
        (lambda d: d["tasks"][0].pop("files_to_modify"), "task T1: files_to_modify missing"),
        (lambda d: d["tasks"][0].pop("parallel_group"), "task T1: parallel_group missing"),
        (lambda d: d["tasks"][0].pop("depends_on"), "task T1: depends_on missing"),
        (lambda d: d["tasks"][0].pop("status"), f"task T1: status missing; expected {STATUSES}"),
        (lambda d: d["tasks"][0].pop("id"), "tasks[0]: id missing"),
        (lambda d: d["tasks"][1].update(id="T1"), "task id T1 appears twice"),
        (lambda d: d["tasks"][0].update(files_to_modify=[]), "task T1: files_to_modify is empty"),
        (lambda d: d["tasks"][0].update(files_to_modify="a"), "task T1: files_to_modify is text; expected list"),
        (lambda d: d["tasks"][0].update(status="DONE"), f'task T1: status is "DONE"; expected {STATUSES}'),
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
            'validation_policy.baseline_scope is "docs"; expected code_and_tests_only or all',
        ),
        (
            lambda d: d["validation_policy"].update(working_directory="../x"),
            'validation_policy.working_directory "../x": path leaves the repository',
        ),
        (lambda d: d.update(tasks=[]), "tasks is empty; expected at least 1 task"),
        (lambda d: d.update(strategy=None), "strategy is empty; expected text"),
        (lambda d: d.update(strategy=True), "strategy is true or false; expected text"),
        (lambda d: d.update(strategy=5), "strategy is an integer; expected text"),
        (lambda d: d.update(strategy=1.5), "strategy is a number; expected text"),
        (lambda d: d.update(strategy=" "), "strategy is empty; expected text"),
        (lambda d: d["tasks"].__setitem__(0, "T1"), "tasks[0] is text; expected mapping"),
        (lambda d: d["tasks"][0].update(id=5), "tasks[0]: id 5 is no plain name"),
        (lambda d: d["tasks"][0].update(id="T 1"), "tasks[0]: id 'T 1' is no plain name"),
        (
            lambda d: d["tasks"][0].update(id="T" * 101),
            f"tasks[0]: id {'T' * 40!r}... has 101 characters; expected at most 100",
        ),
        (lambda d: d["tasks"][0].update(id="T" * 100), "'T1' in execution_order is no task"),
        (lambda d: d["parallel_groups"].update({"G" * 100: []}), f"group {'G' * 100} is not in execution_order"),
        (
            lambda d: d["parallel_groups"].update({"G" * 101: []}),
            f"parallel_groups: {'G' * 40!r} cannot name a group; expected at most 100 plain characters",
        ),
        (lambda d: d["parallel_groups"].update(A="T1"), "parallel_groups.A is text; expected list"),
        (lambda d: d["tasks"][0].update(description=" "), "task T1: description is empty; expected text"),
        (lambda d: d["tasks"][0].update(parallel_group=1), "task T1: parallel_group is an integer; expected text"),
        (lambda d: d["tasks"][0].update(success_criteria=[]), "task T1: success_criteria is empty"),
        (
            lambda d: d["tasks"][0].update(success_criteria=["a", " "]),
            "task T1: success_criteria[1] is empty; expected text",
        ),
        (
            lambda d: d["tasks"][0].update(depends_on=[1]),
            "task T1: depends_on[0] is an integer; expected text",
        ),
        (lambda d: d["tasks"][0].update(depends_on="T2"), "task T1: depends_on is text; expected list"),
        (lambda d: d["tasks"][0].update(allowlist="a"), "task T1: allowlist is text; expected list"),
        (
            lambda d: d["tasks"][0].update(allowlist=["../a"]),
            'task T1: allowlist "../a": path leaves the repository',
        ),
        (lambda d: d["tasks"][0].update(test_files=None, allowlist=None, tool_mandates=None), None),
        (lambda d: d["tasks"][0].update(tool_mandates="x"), "task T1: tool_mandates is text; expected list"),
        (lambda d: d["tasks"][0].update(attempt=0), None),
        (lambda d: d["tasks"][0].update(attempt=1), "task T1: attempt is 1; expected 0"),
        (lambda d: d["tasks"][0].update(attempt=False), "task T1: attempt is true or false; expected integer"),
        (lambda d: d["tasks"][0].update(attempt="0"), "task T1: attempt is text; expected integer"),
        (
            lambda d: d["validation_policy"].update(baseline_allowlist="a"),
            "validation_policy.baseline_allowlist is text; expected list",
        ),
        (
            lambda d: d["validation_policy"].update(baseline_allowlist=["/a"]),
            'validation_policy.baseline_allowlist "/a": path leaves the repository',
        ),
        (lambda d: d["validation_policy"].update(groups=[1]), "validation_policy.groups is a list; expected mapping"),
        (
            lambda d: d["validation_policy"].update(groups={"A": "make"}),
            "validation_policy.groups.A is text; expected mapping",
        ),
        *(
            (
                lambda d, field=field: d["validation_policy"].update(groups={"A": {field: 5}}),
                f"validation_policy.groups.A.{field} is an integer; expected text",
            )
            for field in ("build_command", "test_command", "working_directory")
        ),
        (
            lambda d: d["validation_policy"].update(groups={"A": {"working_directory": "/x"}}),
            'validation_policy.groups.A.working_directory "/x": path leaves the repository',
        ),
        (lambda d: d["validation_policy"].update(groups={"A": {"working_directory": "."}}), None),
        (lambda d: d["execution_order"][0].update(tasks="T1"), "execution_order[0].tasks is text; expected list"),
        (
            lambda d: d["execution_order"][0].update(tasks=["T1"]),
            "execution_order[0].tasks differ from parallel_groups.A",
        ),
        (
            lambda d: d["execution_order"].append({**d["execution_order"][0]}),
            "group A is twice in execution_order",
        ),
        (
            lambda d: (d["parallel_groups"]["B"].append("T1"), d["execution_order"][1].update(tasks=["T3", "T1"])),
            "task T1 is in more than one group",
        ),
        (
            lambda d: (d["parallel_groups"]["B"].append("T9"), d["execution_order"][1].update(tasks=["T3", "T9"])),
            "'T9' in execution_order is no task",
        ),
    ],
)
def test_each_check_has_its_words(change: Callable[[dict[str, Any]], object], problem: str | None) -> None:
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
    data["tasks"][0]["attempt"] = -1
    assert problem_of(data, new=False) == "task T1: attempt is -1; expected a count"
    assert problem_of([], new=False) == "the document is a list; expected mapping"


@pytest.mark.req("TK-89")
def test_in_a_sequential_group_tasks_wait_for_those_before_them() -> None:
    """And only for those."""
    two = graph(task("T1"), task("T2", needs=("T1",)), strategies={"A": "sequential"})
    assert problem_of(data_of(two), new=True) is None
    back = graph(task("T1", needs=("T2",)), task("T2"), strategies={"A": "sequential"})
    assert problem_of(data_of(back), new=True) == "task T1: depends_on T2, which is not done before it"


@pytest.mark.req("EV-14")
@pytest.mark.parametrize(
    ("field", "path", "why"),
    [
        ("allowlist", "docs/*", ": an allow-list names files one by one"),
        ("allowlist", "docs/", ": an allow-list names files one by one"),
        ("allowlist", "notes/*", None),
        ("allowlist", "docs/a.md", None),
        ("allowlist", "lib/a.c", " lies in the submodule lib; work on that in its own repository"),
        ("allowlist", "CLAUDE.md", " is protected, and the request does not name it"),
        ("files_to_modify", "*/a.py", " stands for files anywhere; name them, or their folder"),
        ("files_to_modify", "**", " stands for files anywhere; name them, or their folder"),
        ("test_files", "?", " stands for files anywhere; name them, or their folder"),
        ("files_to_modify", "src/*", None),
        ("files_to_modify", "src/", None),
        ("files_to_modify", "lib/", " lies in the submodule lib; work on that in its own repository"),
        ("test_files", "lib/a_test.c", " lies in the submodule lib; work on that in its own repository"),
        ("files_to_modify", "library.c", None),
        ("files_to_modify", "CLAUDE.md", " is protected, and the request does not name it"),
    ],
)
def test_no_graph_of_an_agent_opens_up_more_than_files_of_its_own(field: str, path: str, why: str | None) -> None:
    """Patterns only where the user lets them be, nothing anywhere, nothing protected, nothing of another repository."""
    limits = GraphLimits(closed=lambda path: path == "CLAUDE.md", submodules=("lib",), drift=("notes/*",))
    data = data_of(THREE)
    data["tasks"][1][field] = [path]
    said = None if why is None else f'task T2: {field} "{path}"{why}'
    assert problem_of(data, new=True, limits=limits) == said
    assert problem_of(data, new=True) is None


@pytest.mark.req("EV-14")
def test_the_common_allow_list_has_the_same_limits() -> None:
    """Whatever no task may have, all together may not."""
    data = data_of(THREE)
    data["validation_policy"]["baseline_allowlist"] = ["docs/?.md"]
    said = 'validation_policy.baseline_allowlist "docs/?.md": an allow-list names files one by one'
    assert problem_of(data, new=True, limits=GraphLimits()) == said
    assert problem_of(data, new=True, limits=GraphLimits(drift=("docs/?.md",))) is None
    assert GraphLimits().problem("../a") == "path leaves the repository"
    assert GraphLimits().problem("a") is None
    data = data_of(THREE)
    data["tasks"][0]["files_to_modify"] = ["*.py"]
    assert problem_of(data, new=True, limits=GraphLimits()) is None


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


@pytest.mark.parametrize(
    ("path", "why"),
    [
        *((path, "path leaves the repository") for path in ("/etc/passwd", "~/x", "a/../../b", "a\\..\\b", "a\0")),
        *((path, "path is inside .git/") for path in (".git/hooks/x", ".git", "./.git/x")),
        ("sub/.git/x", "path is inside sub/"),
        (".interlock/x", "path is inside .interlock/"),
        ("prompts/x", "path is inside prompts/"),
        ("sub/Interlock.TOML", "interlock.toml is the user's own"),
        ("./a", "path is written with a leading ./"),
        ("a/prompts/x.y", None),
    ],
)
def test_paths_that_no_task_may_change(path: str, why: str | None) -> None:
    """Outside of the repository, and what belongs to git and to interlock."""
    assert path_problem(path) == why


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


def test_one_file_in_common_keeps_tasks_apart() -> None:
    """However many files they do not share."""
    made = read(graph(task("T1", files=("a", "b")), task("T2", files=("b", "c")), task("T3", files=("c", "d"))))
    assert [[one.id for one in batch] for batch in batches(made.order[0], made, 3)] == [["T1", "T3"], ["T2"]]


def test_a_group_is_done_when_all_its_tasks_are_accepted() -> None:
    """One that waits keeps it open, and so does a group in which all wait."""
    data = data_of(graph(task("T1"), task("T2")))
    for accepted, done in (((), False), (("T1",), False), (("T1", "T2"), True)):
        for entry in data["tasks"]:
            entry["status"] = "ACCEPTED" if entry["id"] in accepted else "PENDING"
        made = read_graph(data)
        assert made.is_done(made.order[0]) is done


def test_folders_and_patterns_meet_what_lies_in_them() -> None:
    """A folder or pattern overlaps with every path that begins as it does."""
    assert may_meet("src/", "src/a.py")
    assert may_meet("src/*.py", "src/a.py")
    assert not may_meet("src/a.py", "src/a.pyc")
    assert not may_meet("lib/", "src/a.py")
    assert may_meet("src/a.py", "src/") and may_meet("src/a/*", "src/") and may_meet("src/", "src/a/*")
    assert may_meet("a", "a") and not may_meet("a", "b")
    assert not may_meet("src/x*", "src/y") and not may_meet("src/y", "src/x*")
    assert not may_meet("src", "src/a*") and not may_meet("src/a*", "src")


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
        ([task("T1", files=("a", "b", "c"))], (), True),
        ([task("T1", files=("a", "b", "c", "d"))], (), False),
        ([task("T1", needs=("T0",))], (), False),
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
    assert exhausted([one], 5) == exhausted([one], 4) == [one]
    data["tasks"][0].update(status="IN_PROGRESS", attempt=0)
    (one,) = read_graph(data).tasks.values()
    assert next_attempt(one) == 1
    data["tasks"][0].update(status="ACCEPTED", attempt=5)
    assert exhausted(read_graph(data).tasks.values(), 5) == []


@pytest.mark.req("TK-122")
@pytest.mark.parametrize(
    ("status", "undone"),
    [
        *((status, True) for status in ("PENDING", "IN_PROGRESS", "REJECTED", "SYNTAX_ERROR", "ERROR")),
        *((status, False) for status in ("SYNTAX_VALID", "ACCEPTED")),
    ],
)
@pytest.mark.parametrize("strategy", ["parallel", "sequential"])
def test_what_needs_work(status: str, undone: bool, strategy: str) -> None:
    """What nobody began, what was interrupted and what was rejected."""
    made = read(graph(task("T1", status=status), strategies={"A": strategy}))
    assert batches(made.order[0], made, 1) == ([[made.tasks["T1"]]] if undone else [])


def test_what_a_graph_says_when_it_says_nothing() -> None:
    """The whole repository, code and tests; documentation may change beside a task, unless everything counts."""
    data = data_of(THREE)
    data["validation_policy"] = {}
    found = read_graph(data)
    one = found.tasks["T1"]
    assert found.policy == Policy((), BaselineScope.CODE_AND_TESTS, ".", {})
    assert (one.attempt, one.set_back, one.test_files, one.allowlist, one.mandates) == (0, False, (), (), ())
    assert found.policy.drift(one) == DOCUMENTATION
    data["validation_policy"] = {"baseline_scope": "all", "baseline_allowlist": ["a"], "groups": {"A": {}}}
    data["tasks"][0].update(
        allowlist=["b"], test_files=["t", "src/t1.txt"], tool_mandates=[{"a": 1}, {"text": "c"}, "d"]
    )
    found = read_graph(data)
    assert found.policy.drift(found.tasks["T1"]) == ("a", "b")
    assert found.policy.groups == {"A": {}}
    assert found.tasks["T1"].scope == ("src/t1.txt", "t")
    assert found.tasks["T1"].mandates == ("{'a': 1}", "c", "d")


def test_how_far_a_graph_is() -> None:
    """By its accepted tasks."""
    data = data_of(THREE)
    data["tasks"][0]["status"] = data["tasks"][2]["status"] = "ACCEPTED"
    found = read_graph(data)
    assert [one.id for one in found.accepted] == ["T1", "T3"]


@pytest.mark.parametrize(
    ("path", "steers"),
    [
        *((path, True) for path in ("conftest.py", "tests/a.py", "x/.gitignore", "a.sh", "a.bash", "rules.mk")),
        *((path, False) for path in ("src/a.py", "a.md")),
    ],
)
def test_what_steers_the_checks(path: str, steers: bool) -> None:
    """Tests, what says how they are run, and what could hide or start something."""
    assert steers_checks(path) is steers


def test_what_attempts_left_behind() -> None:
    """The files that they changed, where that was put down; those that were refused more than once."""
    data = data_of(graph(task("T1", files=("a", "src/*", "b/", "c?", "d[1]")), task("T2"), task("T3")))
    data["tasks"][0].update(changed_files=["a", 1], refused_files=[["x", "y"], ["y"], "x"])
    data["tasks"][1].update(changed_files="a", refused_files=[["x"], ["y", "z"], ["z", "y"], ["y"]])
    first, second, third = read_graph(data).tasks.values()
    assert [changed_files(one) for one in (first, second, third)] == [("a", "1"), None, None]
    assert [refused(one) for one in (first, second, third)] == [["y"], ["y", "z"], []]
    assert literal_files(first) == ["a"]

"""The task graph: what a valid one is, what may run together, who is to blame for a red build. Pure."""

from __future__ import annotations

import graphlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from interlock.contracts import DOCUMENTATION, Kinds, TextList, is_definition, is_test, key_problems, kind_of
from interlock.playbooks.ticket.request import needs_runtime


class TaskStatus(StrEnum):
    PENDING = "PENDING"
    IN_PROGRESS = "IN_PROGRESS"
    SYNTAX_VALID = "SYNTAX_VALID"
    SYNTAX_ERROR = "SYNTAX_ERROR"
    ERROR = "ERROR"
    REJECTED = "REJECTED"
    ACCEPTED = "ACCEPTED"


REJECTED = frozenset({TaskStatus.REJECTED, TaskStatus.SYNTAX_ERROR, TaskStatus.ERROR})
"""What is run again, while attempts are left."""
UNDONE = REJECTED | {TaskStatus.PENDING, TaskStatus.IN_PROGRESS}
"""What an agent has to work on."""


class Strategy(StrEnum):
    PARALLEL = "parallel"
    SEQUENTIAL = "sequential"


class BaselineScope(StrEnum):
    CODE_AND_TESTS = "code_and_tests_only"
    ALL = "all"


@dataclass(frozen=True)
class Task:
    """One entry. Decisions about tasks are recorded with all of these fields: one more or less makes them others."""

    id: str
    group: str
    status: TaskStatus
    files: tuple[str, ...]
    test_files: tuple[str, ...]
    allowlist: tuple[str, ...]
    depends_on: tuple[str, ...]
    mandates: tuple[str, ...]
    attempt: int
    set_back: bool
    entry: Mapping[str, Any]
    """The whole entry, as it stands in the file."""

    @property
    def scope(self) -> tuple[str, ...]:
        """The files that are the task's work."""
        return tuple(dict.fromkeys((*self.files, *self.test_files)))


@dataclass(frozen=True)
class Policy:
    allowlist: tuple[str, ...]
    scope: BaselineScope
    working_directory: str
    groups: Mapping[str, Mapping[str, str]]
    """Commands and folder of a group, where it says so itself."""

    def drift(self, task: Task) -> tuple[str, ...]:
        """What may change beside the task's files without being a violation."""
        documentation = DOCUMENTATION if self.scope is BaselineScope.CODE_AND_TESTS else ()
        return (*self.allowlist, *task.allowlist, *documentation)


@dataclass(frozen=True)
class Group:
    letter: str
    strategy: Strategy
    tasks: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    tasks: Mapping[str, Task]
    order: tuple[Group, ...]
    policy: Policy

    def of(self, group: Group) -> list[Task]:
        return [self.tasks[name] for name in group.tasks]

    @property
    def accepted(self) -> list[Task]:
        return [task for task in self.tasks.values() if task.status is TaskStatus.ACCEPTED]

    def is_done(self, group: Group) -> bool:
        return all(task.status is TaskStatus.ACCEPTED for task in self.of(group))


def changed_files(task: Task) -> tuple[str, ...] | None:
    """The files that attempts at the task brought into the tree; None where nobody has put that down."""
    known = task.entry.get("changed_files")
    return tuple(map(str, known)) if isinstance(known, list) else None


def refused(task: Task) -> list[str]:
    """The files that more than one attempt at the task changed, although it is not the task's to change them."""
    attempts = [set(map(str, paths)) for paths in task.entry.get("refused_files") or () if isinstance(paths, list)]
    return sorted(path for path in set().union(*attempts) if sum(path in paths for paths in attempts) > 1)


# -- what a valid graph is

LONGEST = 100
"""Characters of the name of a task or group: it becomes the name of a folder."""
_GROUP = re.compile(rf"[^/#\\\x00-\x1f]{{1,{LONGEST}}}")
_TOP: Kinds = {
    "validation_policy": dict,
    "tasks": list,
    "parallel_groups": dict,
    "execution_order": list,
    "strategy": str,
}
_POLICY: Kinds = {"baseline_allowlist": TextList, "baseline_scope": tuple(BaselineScope), "groups": dict}
_COMMANDS: Kinds = dict.fromkeys(("build_command", "test_command", "working_directory"), str)
_TASK: Kinds = {
    **dict.fromkeys(("description", "parallel_group"), str),
    **dict.fromkeys(("files_to_modify", "success_criteria", "depends_on"), TextList),
    "status": tuple(TaskStatus),
}
_OF_TASK: Kinds = {"test_files": TextList, "allowlist": TextList, "tool_mandates": list, "attempt": int}
_STEP: Kinds = {"group": str, "strategy": tuple(Strategy), "tasks": list}


@dataclass(frozen=True)
class GraphLimits:
    """What no agent's document may open up (EV-14)."""

    closed: Callable[[str], bool] = lambda _path: False
    """Whether a path has a protected name in it that the user has not named."""
    submodules: tuple[str, ...] = ()
    """Folders whose files belong to another repository: no commit of this one can have them."""
    drift: tuple[str, ...] = ()
    """Patterns that the user lets allow-lists have; else they name files one by one."""

    def problem(self, path: str) -> str | None:
        if why := path_problem(path):
            return why
        if self.closed(path):
            return "is protected, and the request does not name it"
        inside = next((folder for folder in self.submodules if may_meet(path, f"{folder}/")), None)
        return f"lies in the submodule {inside}; work on that in its own repository" if inside else None


def steers_checks(path: str) -> bool:
    """Whether a file may decide what the checks say: attempts that wanted it again and again do not get it for that."""
    return is_definition(path) or is_test(path) or path.endswith((".gitignore", ".sh", ".bash", ".mk"))


def problem_of(data: Any, *, new: bool, limits: GraphLimits | None = None) -> str | None:
    """The first check that the graph fails, in the words of the log; None when it is valid.

    Args:
        new: an agent has just made it, so that no task can have been worked on.
        limits: what it may name; None where a person may have edited it.
    """
    return next(_problems(data, new), None) or (next(_overreaching(data, limits), None) if limits else None)


def _overreaching(data: Mapping[str, Any], limits: GraphLimits) -> Iterator[str]:
    """Where a valid graph would widen what agents may change."""
    allowed = [("validation_policy.baseline_allowlist", data["validation_policy"].get("baseline_allowlist") or ())]
    allowed += [(f"task {entry['id']}: allowlist", entry.get("allowlist") or ()) for entry in data["tasks"]]
    for where, paths in allowed:
        for path in paths:
            if is_pattern(path) and path not in limits.drift:
                yield f'{where} "{path}": an allow-list names files one by one'
    for entry in data["tasks"]:
        for field in ("files_to_modify", "test_files"):
            allowed.append((f"task {entry['id']}: {field}", entry.get(field) or ()))
            for path in entry.get(field) or ():
                if is_pattern(path.split("/")[0]) and ("/" in path or not path.strip("*?")):
                    yield f'task {entry["id"]}: {field} "{path}" stands for files anywhere; name them, or their folder'
    for where, paths in allowed:
        yield from (f'{where} "{path}" {why}' for path in paths if (why := limits.problem(path)))


def is_pattern(path: str) -> bool:
    return re.search(r"[*?\[]", path) is not None or path.endswith("/")


def _problems(data: Any, new: bool) -> Iterator[str]:
    """What is wrong, the first thing first: what comes later relies on what came before."""
    yield from _fields(data, "the document", "", _TOP)
    yield from _policy_problems(data["validation_policy"])
    if not data["tasks"]:
        yield "tasks is empty; expected at least 1 task"
    for number, entry in enumerate(data["tasks"]):
        yield from _fields(entry, f"tasks[{number}]", "", {})
        if why := _name_problem(entry.get("id")):
            yield f"tasks[{number}]: id {why}"
        yield from _task_problems(entry, f"task {entry['id']}: ", new)
    names = [entry["id"] for entry in data["tasks"]]
    yield from (f"task id {name} appears twice" for name in dict.fromkeys(names) if names.count(name) > 1)
    yield from _order_problems(data, names)
    yield from _dependency_problems(data)


def _fields(data: Any, place: str, before: str, required: Kinds, optional: Kinds | None = None) -> Iterator[str]:
    """What is wrong with what should be a mapping, and with its fields; `before` stands before their names."""
    if not isinstance(data, dict):
        yield f"{place} is {kind_of(data)}; expected mapping"
    yield from (f"{before}{name} {what}" for name, what in key_problems(data, required, optional))


def _paths(data: Mapping[str, Any], where: str, *fields: str) -> Iterator[str]:
    """Paths that no task may have, in these lists."""
    for field in fields:
        yield from (f'{where}{field} "{path}": {why}' for path in data.get(field) or () if (why := path_problem(path)))


def _policy_problems(policy: Mapping[str, Any]) -> Iterator[str]:
    where = "validation_policy."
    yield from _fields(policy, where, where, {}, {**_POLICY, **_COMMANDS})
    yield from _paths(policy, where, "baseline_allowlist")
    said = {where: policy} | {f"{where}groups.{letter}.": one for letter, one in (policy.get("groups") or {}).items()}
    for place, one in said.items():
        yield from _fields(one, place.removesuffix("."), place, {}, _COMMANDS)
        folder = one.get("working_directory", ".")
        if folder != "." and (why := path_problem(folder)):
            yield f'{place}working_directory "{folder}": {why}'


def _task_problems(entry: Mapping[str, Any], where: str, new: bool) -> Iterator[str]:
    yield from _fields(entry, where, where, _TASK, _OF_TASK)
    yield from (f"{where}{field} is empty" for field in ("files_to_modify", "success_criteria") if not entry[field])
    yield from _paths(entry, where, "files_to_modify", "test_files", "allowlist")
    status, attempt = entry["status"], entry.get("attempt", 0)
    if new and status != TaskStatus.PENDING:
        yield f'{where}status "{status}" of a task that nobody worked on; expected PENDING'
    if attempt < 0 or (new and attempt):
        yield f"{where}attempt is {attempt}; expected {0 if new else 'a count'}"


def _name_problem(name: Any) -> str | None:
    if name is None:
        return "missing"
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        return f"{name!r} is no plain name"
    if len(name) > LONGEST:
        return f"{name[:40]!r}... has {len(name)} characters; expected at most {LONGEST}"
    return None


def path_problem(path: str) -> str | None:
    """Why no task may change this path."""
    parts = path.replace("\\", "/").split("/")
    if path.startswith(("/", "~")) or ".." in parts or "\0" in path:
        return "path leaves the repository"
    if parts[0] in (".interlock", "prompts") or ".git" in parts:
        return f"path is inside {parts[0] if parts[0] != '.' else '.git'}/"
    if "interlock.toml" in map(str.casefold, parts):
        return "interlock.toml is the user's own"
    return "path is written with a leading ./" if parts[0] == "." else None


def _order_problems(data: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    groups: Mapping[str, Any] = data["parallel_groups"]
    for letter in groups:
        if not _GROUP.fullmatch(letter):
            yield f"parallel_groups: {letter[:40]!r} cannot name a group; expected at most {LONGEST} plain characters"
    yield from _fields(groups, "parallel_groups", "parallel_groups.", dict.fromkeys(groups, list))
    for number, step in enumerate(data["execution_order"]):
        where = f"execution_order[{number}]"
        yield from _fields(step, where, f"{where}.", _STEP)
        if step["group"] not in groups:
            yield f'{where}.group "{step["group"]}" not in parallel_groups'
        if sorted(map(str, step["tasks"])) != sorted(map(str, groups[step["group"]])):
            yield f"{where}.tasks differ from parallel_groups.{step['group']}"
    ordered = [step["group"] for step in data["execution_order"]]
    yield from (f"group {letter} is not in execution_order" for letter in groups if letter not in ordered)
    yield from (f"group {letter} is twice in execution_order" for letter in groups if ordered.count(letter) > 1)
    placed = [name for step in data["execution_order"] for name in step["tasks"]]
    yield from (f"{name!r} in execution_order is no task" for name in placed if name not in names)
    yield from (f"task {name} is in no group" for name in names if name not in placed)
    yield from (f"task {name} is in more than one group" for name in names if placed.count(name) > 1)
    home = {name: step["group"] for step in data["execution_order"] for name in step["tasks"]}
    for entry in data["tasks"]:
        if entry["parallel_group"] != home[entry["id"]]:
            yield f'task {entry["id"]}: parallel_group "{entry["parallel_group"]}", but it is in {home[entry["id"]]}'


def _dependency_problems(data: Mapping[str, Any]) -> Iterator[str]:
    needs = {entry["id"]: entry["depends_on"] for entry in data["tasks"]}
    for name, others in needs.items():
        yield from (f"task {name}: depends_on {other!r} is no task" for other in others if other not in needs)
    if cycle := find_cycle(needs):
        yield f"depends_on cycle: {' -> '.join(cycle)}"
    done: list[str] = []
    for step in data["execution_order"]:
        ready = set(done)
        for name in step["tasks"]:
            for other in needs[name]:
                if other not in ready:
                    yield f"task {name}: depends_on {other}, which is not done before it"
            if step["strategy"] == Strategy.SEQUENTIAL:
                ready.add(name)
        done += step["tasks"]


def find_cycle(needs: Mapping[str, Sequence[str]]) -> list[str] | None:
    """A way from a task back to itself, or None."""
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        return list(reversed(error.args[1]))
    return None


# -- reading a valid graph


def read_graph(data: Mapping[str, Any]) -> Graph:
    """The graph of data that `problem_of` found nothing wrong with."""
    policy = data["validation_policy"]
    return Graph(
        {entry["id"]: _task(entry) for entry in data["tasks"]},
        tuple(
            Group(step["group"], Strategy(step["strategy"]), tuple(step["tasks"])) for step in data["execution_order"]
        ),
        Policy(
            tuple(policy.get("baseline_allowlist") or ()),
            BaselineScope(policy.get("baseline_scope", BaselineScope.CODE_AND_TESTS.value)),
            policy.get("working_directory", "."),
            policy.get("groups") or {},
        ),
    )


def _task(entry: Mapping[str, Any]) -> Task:
    return Task(
        id=entry["id"],
        group=entry["parallel_group"],
        status=TaskStatus(entry["status"]),
        files=tuple(entry["files_to_modify"]),
        test_files=tuple(entry.get("test_files") or ()),
        allowlist=tuple(entry.get("allowlist") or ()),
        depends_on=tuple(entry["depends_on"]),
        mandates=tuple(map(mandate_text, entry.get("tool_mandates") or ())),
        attempt=entry.get("attempt", 0),
        set_back=bool(entry.get("set_back")),
        entry=entry,
    )


def mandate_text(mandate: Any) -> str:
    return str(mandate.get("text", mandate)) if isinstance(mandate, dict) else str(mandate)


# -- what may run


def is_trivial(graph: Graph, mandates: Iterable[str] = ()) -> bool:
    """One task, no dependency, at most three files, and nothing that has to be seen running."""
    if len(graph.tasks) != 1:
        return False
    (task,) = graph.tasks.values()
    demanded = any(needs_runtime(text) for text in (*task.mandates, *mandates))
    return not task.depends_on and len(task.files) <= 3 and not demanded


def batches(group: Group, graph: Graph, limit: int) -> list[list[Task]]:
    """The tasks of a group that need work, in the batches in which they are dispatched.

    A sequential group gives its first task alone. A parallel one gives batches of at most `limit` tasks whose files
    are disjoint; each takes in as many as it can, in the order of the group.
    """
    waiting = [task for task in graph.of(group) if task.status in UNDONE]
    if group.strategy is Strategy.SEQUENTIAL:
        return [waiting[:1]] if waiting else []
    made: list[list[Task]] = []
    while waiting:
        batch: list[Task] = []
        for task in waiting:
            if len(batch) < limit and not any(share_files(task, other) for other in batch):
                batch.append(task)
        made.append(batch)
        waiting = [task for task in waiting if task not in batch]
    return made


def share_files(one: Task, other: Task) -> bool:
    return any(may_meet(a, b) for a in one.scope for b in other.scope)


def may_meet(a: str, b: str) -> bool:
    """Whether two paths or patterns can name one file; patterns by what stands before their first wildcard."""
    fixed_a, fixed_b = (re.split(r"[*?\[]", path)[0] for path in (a, b))
    open_a, open_b = fixed_a != a or a.endswith("/"), fixed_b != b or b.endswith("/")
    if not open_a and not open_b:
        return a == b
    return (open_a and fixed_b.startswith(fixed_a)) or (open_b and fixed_a.startswith(fixed_b))


def blamed(output: str, group: Sequence[Task], worked: Sequence[Task]) -> list[str]:
    """Whose work a red build or test of a group rejects.

    Those of the group whose files the output names; an accepted task can be set back once. Where it points into files
    (`a.c:3`), a bare name does not count: make and npm print each command with all its files. If none is named, all
    that were worked on.
    """
    liable = [task for task in group if not (task.status is TaskStatus.ACCEPTED and task.set_back)]
    for finds in (points_into, names):
        if found := [task.id for task in liable if any(finds(output, path) for path in task.scope)]:
            return found
    return [task.id for task in worked]


def names(output: str, path: str) -> bool:
    """Whether the output names the path, also at the end of an absolute one."""
    return re.search(rf"(?<![\w-]){re.escape(path)}(?![\w-])", output) is not None


def points_into(output: str, path: str) -> bool:
    """Whether the output names a line of the path, in one of the ways in which compilers and test runners do."""
    return re.search(rf"""(?<![\w-]){re.escape(path)}(:\[?|\(|['"]?, line )\d""", output) is not None


def next_attempt(task: Task) -> int:
    """The number of the attempt that is about to start; one that was begun and never recorded is not counted twice."""
    return task.attempt if task.status is TaskStatus.IN_PROGRESS and task.attempt else task.attempt + 1


def exhausted(tasks: Iterable[Task], most: int) -> list[Task]:
    """The rejected tasks that have no attempt left."""
    return [task for task in tasks if task.status in REJECTED and task.attempt >= most]


def literal_files(task: Task) -> list[str]:
    """The task's files that are plain paths, whose content can be told by a digest."""
    return [path for path in task.scope if not is_pattern(path)]

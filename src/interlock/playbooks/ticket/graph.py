"""The task graph: what a valid one is, what may run together, who is to blame for a red build. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from interlock.engine.kept import Kept, Listed, complaints, data_of, parsed
from interlock.playbooks.ticket.request import needs_runtime
from interlock.workspace import scope

ATTEMPTS = 5
Status = Literal["PENDING", "IN_PROGRESS", "SYNTAX_VALID", "SYNTAX_ERROR", "ERROR", "REJECTED", "ACCEPTED"]
FAILED = ("REJECTED", "SYNTAX_ERROR", "ERROR")
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Some = Annotated[Listed, Field(min_length=1)]
Group = Annotated[str, StringConstraints(pattern=r"^[^/#\\\x00-\x1f]{1,100}$")]
DOCUMENTATION = (
    *("*.md", "*.rst", "*.txt", "docs/**/*.md", "docs/**/*.rst", "docs/**/*.txt"),
    *("!**/requirements.txt", "!**/CMakeLists.txt"),
)
"""Written for people, and not what programs read (4.9)."""


class Task(Kept, extra="allow"):
    """One entry of `tasks` (4.4)."""

    id: Name
    description: str
    files_to_modify: Some
    success_criteria: Some
    parallel_group: str
    depends_on: Listed
    status: Status
    test_files: Listed = []
    tool_mandates: Any = []
    allowlist: Listed = []
    attempt: int = Field(0, ge=0)
    first_code_change_at: str | None = None
    last_error: str | None = None
    set_back: bool = False

    @property
    def files(self) -> list[str]:
        """The files that are its work."""
        return list(dict.fromkeys([*self.files_to_modify, *self.test_files]))

    @property
    def mandates(self) -> list[str]:
        listed = self.tool_mandates if isinstance(self.tool_mandates, list) else [self.tool_mandates or []]
        return [str(one.get("text", one)) if isinstance(one, dict) else str(one) for one in listed]

    @property
    def next_attempt(self) -> int:
        """One that was begun and never recorded is not counted twice."""
        return self.attempt if self.status == "IN_PROGRESS" and self.attempt else self.attempt + 1


class Commands(Kept):
    build_command: str = ""
    test_command: str = ""
    working_directory: str = ""


class Policy(Commands):
    baseline_allowlist: Listed = []
    baseline_scope: Literal["code_and_tests_only", "all"] = "code_and_tests_only"
    groups: dict[str, Commands] = {}


class Step(Kept):
    group: str
    strategy: Literal["parallel", "sequential"]
    tasks: list[str]


class Graph(Kept):
    """`tasks.yaml`: valid in itself."""

    validation_policy: Policy
    tasks: list[Task] = Field(min_length=1)
    parallel_groups: dict[Group, list[str]]
    execution_order: list[Step]
    strategy: Any

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if wrong := list(dict.fromkeys((*_misplaced(self), *_undone(self), *_strays(self)))):
            raise ValueError("; ".join(wrong))
        return self

    def task(self, name: str) -> Task:
        return next(task for task in self.tasks if task.id == name)

    def of(self, step: Step) -> list[Task]:
        return [self.task(name) for name in step.tasks]

    def scope(self, task: Task) -> tuple[str, ...]:
        """The globs that it may change, accepted drift with them (TK-140)."""
        policy = self.validation_policy
        named = [path for path in (*task.files, *task.allowlist, *policy.baseline_allowlist) if path[:1] != "!"]
        drift = DOCUMENTATION if policy.baseline_scope == "code_and_tests_only" else ()
        # What excludes a file that is named is no exclusion of this task's.
        excludes = [one for one in drift if one[0] == "!" and any(scope.within(path, (one[1:],)) for path in named)]
        return (*dict.fromkeys(named), *(one for one in drift if one not in excludes))


def _misplaced(graph: Graph) -> Iterator[str]:
    groups, ordered = graph.parallel_groups, [step.group for step in graph.execution_order]
    for number, step in enumerate(graph.execution_order):
        if step.group not in groups:
            yield f'execution_order[{number}].group "{step.group}" not in parallel_groups'
        elif sorted(step.tasks) != sorted(groups[step.group]):
            yield f"execution_order[{number}].tasks differ from parallel_groups.{step.group}"
    for letter in groups:
        if ordered.count(letter) != 1:
            yield f"group {letter} is {ordered.count(letter)} times in execution_order; expected once"
    names = [task.id for task in graph.tasks]
    placed = [name for step in graph.execution_order for name in step.tasks]
    for name in dict.fromkeys((*names, *placed)):
        if not names.count(name) == placed.count(name) == 1:
            yield f"{name} is {names.count(name)} times a task and {placed.count(name)} times in a group; expected once"
    for task in graph.tasks:
        if task.id not in groups.get(task.parallel_group, ()):
            yield f'task {task.id}: parallel_group "{task.parallel_group}" does not hold it'


def _undone(graph: Graph) -> Iterator[str]:
    needs = {task.id: task.depends_on for task in graph.tasks}
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        yield f"depends_on cycle: {' -> '.join(reversed(error.args[1]))}"
        return
    done: set[str] = set()
    for step in graph.execution_order:
        ready = set(done)
        for name in step.tasks:
            for other in needs.get(name, ()):
                if other not in needs:
                    yield f"task {name}: depends_on {other} is no task"
                elif other not in ready:
                    yield f"task {name}: depends_on {other}, which is not done before it"
            ready |= {name} if step.strategy == "sequential" else set()
        done |= set(step.tasks)


def _strays(graph: Graph) -> Iterator[str]:
    """Paths that no task may have, wherever they stand."""
    policy = graph.validation_policy
    paths = [*_allowed(graph), *((f"task {task.id}", path) for task in graph.tasks for path in task.files)]
    paths += [("working_directory", one.working_directory or ".") for one in (policy, *policy.groups.values())]
    for where, path in paths:
        parts = path.replace("\\", "/").split("/")
        if path.startswith(("/", "~")) or ".." in parts or "\0" in path or not path.strip():
            yield f'{where} "{path}": path leaves the repository'
        elif parts[0] in (".interlock", "prompts") or {".git", "interlock.toml"} & {*map(str.casefold, parts)}:
            yield f'{where} "{path}": path is inside .interlock/, prompts/ or .git/, or the user\'s own settings'


def _allowed(graph: Graph) -> Iterator[tuple[str, str]]:
    yield from (("baseline_allowlist", path) for path in graph.validation_policy.baseline_allowlist)
    yield from ((f"task {task.id}: allowlist", path) for task in graph.tasks for path in task.allowlist)


def faults(text: str | None, path: str, guarded: Sequence[str], request: str) -> list[str]:
    """What is wrong with a graph that an agent has just made, also where it says more than it can know, or would widen
    what agents may change; nothing: it is valid."""
    if wrong := complaints(Graph, text, path):
        return [re.sub(r"\btasks\[(\d+)\]\.", lambda at: _called(text or "", path, at), one) for one in wrong]
    graph = parsed(Graph, text or "", path)
    allowed, files = [*_allowed(graph)], [(task.id, path) for task in graph.tasks for path in task.files]
    wrong += [
        f"task {one.id}: it is begun; expected PENDING" for one in graph.tasks if one.status != "PENDING" or one.attempt
    ]
    wrong += [f'{where} "{one}": an allow-list names files one by one' for where, one in allowed if is_pattern(one)]
    for name, one in files:
        if is_pattern(one.split("/")[0]) and ("/" in one or not one.strip("*?")):
            wrong.append(f'task {name} "{one}" stands for files anywhere; name them, or their folder')
    for _, one in (*files, *allowed):
        if scope.guarded(one, guarded) and not scope.named(one, request):
            wrong.append(f'"{one}" is guarded, and the request does not name it')
    return wrong


def _called(text: str, path: str, at: re.Match[str]) -> str:
    """A task by its id where it has one."""
    entry = data_of(text, path)["tasks"][int(at[1])]
    return f"task {entry['id']}: " if entry.get("id") else at[0]


def sample(files: Sequence[str], ticket: str, *, several: bool) -> dict[str, Any]:
    """A graph that would do, for who plays by script."""
    path = next((one for one in files if one.endswith((".py", ".js", ".ts", ".go", ".rs", ".c"))), "src/t1.py")
    groups = {"A": ["T1", "T2"], "B": ["T3"]} if several else {"A": ["T1"]}
    entry = {"description": f"Part of {ticket}", "success_criteria": ["it is there"], "status": "PENDING"}
    places = {"T1": (path, "A", []), "T2": ("src/t2.py", "A", []), "T3": ("src/t3.py", "B", ["T1"])}
    tasks = [
        {"id": name, **entry, "files_to_modify": [file], "parallel_group": letter, "depends_on": needs}
        for name, (file, letter, needs) in places.items()
        if name in groups.get(letter, ())
    ]
    order = [
        {"group": letter, "strategy": "parallel" if letter == "A" else "sequential", "tasks": members}
        for letter, members in groups.items()
    ]
    known = {"strategy": "groups", "validation_policy": {}, "tasks": tasks}
    return {**known, "parallel_groups": groups, "execution_order": order}


def owned(text: str) -> Any:
    """Of a tasks.yaml what people may not change while it is worked on."""
    data = data_of(text, "tasks.yaml")
    if not isinstance(data, dict) or not isinstance(data.get("tasks"), list):
        return {}
    fixed = ("id", "parallel_group", "depends_on", "first_code_change_at", "started_at", "completed_at", "last_error")
    tasks = [{name: task.get(name) for name in fixed} for task in data["tasks"] if isinstance(task, dict)]
    return {"tasks": tasks, **{name: data.get(name) for name in ("parallel_groups", "execution_order", "strategy")}}


# --- what may run


def is_pattern(path: str) -> bool:
    return re.search(r"[*?\[]", path) is not None or path.endswith("/")


def is_trivial(graph: Graph, mandates: Sequence[str] = ()) -> bool:
    """One task, no dependency, at most three files, and nothing that has to be seen running (TK-97)."""
    (task, *more) = graph.tasks
    demanded = any(map(needs_runtime, (*task.mandates, *mandates)))
    return not more and not task.depends_on and len(task.files_to_modify) <= 3 and not demanded


def batches(step: Step, graph: Graph, limit: int) -> list[list[Task]]:
    """The tasks of a group that need work, in the batches in which they are asked for.

    A sequential group gives its first one alone; a parallel one as many at once as the limit and disjoint files allow.
    """
    waiting = [task for task in graph.of(step) if task.status not in ("ACCEPTED", "SYNTAX_VALID")]
    if step.strategy == "sequential":
        return [waiting[:1]] if waiting else []
    made: list[list[Task]] = []
    for task in waiting:
        free = (one for one in made if len(one) < limit and not any(share_files(task, other) for other in one))
        if (batch := next(free, None)) is None:
            made.append(batch := [])
        batch.append(task)
    return made


def share_files(one: Task, other: Task) -> bool:
    return any(may_meet(a, b) for a in one.files for b in other.files)


def may_meet(a: str, b: str) -> bool:
    """Whether two paths or patterns can name one file; patterns by what stands before their first wildcard."""
    fixed_a, fixed_b = (re.split(r"[*?\[]", path)[0] for path in (a, b))
    by_a, by_b = is_pattern(a) and fixed_b.startswith(fixed_a), is_pattern(b) and fixed_a.startswith(fixed_b)
    return a == b or by_a or by_b


_NAMED = (r"""(:\[?|\(|['"]?, line )\d""", r"(?![\w-])")
"""What stands behind a path: a line of it, as compilers tell it; then whatever is no part of a name."""


def blamed(output: str, group: Sequence[Task], worked: Sequence[Task]) -> list[str]:
    """Whose work a red command rejects: those of the group whose files its output names, else all that were worked on.

    Where it points into files (`a.c:3`), a bare name does not count: make and npm print each command with all its
    files.  An accepted task can be set back once.
    """
    liable = [task for task in group if not (task.status == "ACCEPTED" and task.set_back)]
    files = [path for task in liable for path in task.files]
    for behind in _NAMED:
        told = {path for path in files if re.search(rf"(?<![\w-]){re.escape(path)}{behind}", output)}
        if found := [task.id for task in liable if told & {*task.files}]:
            return found
    return [task.id for task in worked]


# --- metrics


def figures(graph: Graph, minutes: float) -> dict[str, Any]:
    """Tasks and groups, all and done; percent, at most 95 before the iteration is accepted; how long it will take, by
    the minutes of the groups so far."""
    done = {task.id for task in graph.tasks if task.status == "ACCEPTED"}
    total, completed = len(graph.tasks), len(done)
    share = 100 * completed // total
    return {
        **{"tasks_total": total, "tasks_completed": completed, "groups_total": len(graph.execution_order)},
        "groups_completed": sum(set(step.tasks) <= done for step in graph.execution_order),
        "percent_complete": min(95, share),
        "remaining_minutes_estimate": int(-(-minutes * (total - completed) // completed)) if completed else None,
        "eta_confidence": "low" if share < 25 else "medium" if share < 60 else "high",
    }

"""The task graph: what a valid one is, what may run together, who is to blame for a red build. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from interlock.playbooks.ticket.documents import Kept, complaints, data_of, parsed
from interlock.playbooks.ticket.request import needs_runtime

ATTEMPTS = 5
Status = Literal["PENDING", "IN_PROGRESS", "SYNTAX_VALID", "SYNTAX_ERROR", "ERROR", "REJECTED", "ACCEPTED"]
FAILED = ("REJECTED", "SYNTAX_ERROR", "ERROR")
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
LISTED = BeforeValidator(lambda it: [] if it is None else it if isinstance(it, list) else [it])
"""As people and agents write lists: one alone without marks, none at all."""
Several = Annotated[list[str], LISTED]
Some = Annotated[Several, Field(min_length=1)]
Group = Annotated[str, StringConstraints(pattern=r"^[^/#\\\x00-\x1f]{1,100}$")]
DOCUMENTATION = (
    *("*.md", "*.rst", "*.txt", "docs/**/*.md", "docs/**/*.rst", "docs/**/*.txt"),
    *("!requirements.txt", "!CMakeLists.txt"),
)


class Task(Kept):
    """One entry of `tasks` (4.4)."""

    id: Name
    description: str
    files_to_modify: Some
    success_criteria: Some
    parallel_group: str
    depends_on: Several
    status: Status
    test_files: Several = []
    tool_mandates: Annotated[list[Any], LISTED] = []
    allowlist: Several = []
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
        return [str(one.get("text", one)) if isinstance(one, dict) else str(one) for one in self.tool_mandates]

    @property
    def next_attempt(self) -> int:
        """One that was begun and never recorded is not counted twice."""
        return self.attempt if self.status == "IN_PROGRESS" and self.attempt else self.attempt + 1


class Commands(Kept):
    build_command: str = ""
    test_command: str = ""
    working_directory: str = ""


class Policy(Commands):
    baseline_allowlist: Several = []
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

    @property
    def accepted(self) -> list[Task]:
        return [task for task in self.tasks if task.status == "ACCEPTED"]

    def scope(self, task: Task) -> tuple[str, ...]:
        """The globs that it may change, accepted drift with them (TK-140)."""
        policy = self.validation_policy
        drift = DOCUMENTATION if policy.baseline_scope == "code_and_tests_only" else ()
        named = [path for path in (*task.files, *task.allowlist, *policy.baseline_allowlist) if path[:1] != "!"]
        return (*dict.fromkeys(named), *(one for one in drift if one.removeprefix("!") not in named))


def _misplaced(graph: Graph) -> Iterator[str]:
    names = [task.id for task in graph.tasks]
    placed = [name for step in graph.execution_order for name in step.tasks]
    for number, step in enumerate(graph.execution_order):
        if step.group not in graph.parallel_groups:
            yield f'execution_order[{number}].group "{step.group}" not in parallel_groups'
        elif sorted(step.tasks) != sorted(graph.parallel_groups[step.group]):
            yield f"execution_order[{number}].tasks differ from parallel_groups.{step.group}"
    ordered = [step.group for step in graph.execution_order]
    for letter in graph.parallel_groups:
        if ordered.count(letter) != 1:
            yield f"group {letter} is {ordered.count(letter)} times in execution_order; expected once"
    for task in graph.tasks:
        if names.count(task.id) > 1:
            yield f"task id {task.id} appears twice"
        if placed.count(task.id) != 1:
            yield f"task {task.id} is in {placed.count(task.id)} groups; expected one"
        if task.id not in graph.parallel_groups.get(task.parallel_group, ()):
            yield f'task {task.id}: parallel_group "{task.parallel_group}" does not hold it'
    yield from (f"{name} in execution_order is no task" for name in placed if name not in names)


def _undone(graph: Graph) -> Iterator[str]:
    needs = {task.id: task.depends_on for task in graph.tasks}
    for name, others in needs.items():
        yield from (f"task {name}: depends_on {other} is no task" for other in others if other not in needs)
    if cycle := find_cycle(needs):
        yield f"depends_on cycle: {' -> '.join(cycle)}"
        return
    done: set[str] = set()
    for step in graph.execution_order:
        ready = set(done)
        for name in step.tasks:
            late = [other for other in needs.get(name, ()) if other in needs and other not in ready]
            yield from (f"task {name}: depends_on {other}, which is not done before it" for other in late)
            ready |= {name} if step.strategy == "sequential" else set()
        done |= set(step.tasks)


def find_cycle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """A way from a task back to itself; without recursion, which dies on chains of a thousand."""
    left = {name: [one for one in others if one in needs] for name, others in needs.items()}
    while free := [name for name, others in left.items() if not others]:
        left = {name: [one for one in others if one not in free] for name, others in left.items() if name not in free}
    way: list[str] = list(left)[:1]
    while way and way[-1] not in way[:-1]:
        way.append(left[way[-1]][0])
    return way[way.index(way[-1]) :] if way else []


def _strays(graph: Graph) -> Iterator[str]:
    policy = graph.validation_policy
    paths = [("baseline_allowlist", path) for path in policy.baseline_allowlist]
    paths += [(f"task {task.id}", path) for task in graph.tasks for path in (*task.files, *task.allowlist)]
    paths += [("working_directory", one.working_directory or ".") for one in (policy, *policy.groups.values())]
    yield from (f'{where} "{path}": {why}' for where, path in paths if (why := _stray(path)))


def _stray(path: str) -> str:
    """Why no task may have this path."""
    parts = path.replace("\\", "/").split("/")
    if path.startswith(("/", "~")) or ".." in parts or "\0" in path or not path.strip():
        return "path leaves the repository"
    if parts[0] in (".interlock", "prompts") or ".git" in parts:
        return f"path is inside {parts[0] if parts[0] != '.' else '.git'}/"
    return "interlock.toml is the user's own" if "interlock.toml" in map(str.casefold, parts) else ""


def faults(text: str | None, path: str, guarded: Callable[[Sequence[str]], Sequence[str]]) -> list[str]:
    """What is wrong with a graph that an agent has just made; nothing: it is valid."""
    if wrong := complaints(Graph, text, path):
        return wrong
    graph = parsed(Graph, text or "", path)
    paths = [*(path for task in graph.tasks for path in task.files), *(path for _, path in _lists(graph))]
    return overreaching(graph, guarded(paths))


def overreaching(graph: Graph, guarded: Sequence[str]) -> list[str]:
    """Where a graph that an agent has just made says more than it can know, or would widen what agents may change."""
    wrong = [f"task {task.id}: status {task.status}; expected PENDING" for task in graph.tasks if is_begun(task)]
    for where, path in _lists(graph):
        if is_pattern(path):
            wrong.append(f'{where} "{path}": an allow-list names files one by one')
    for task in graph.tasks:
        for path in task.files:
            if is_pattern(path.split("/")[0]) and ("/" in path or not path.strip("*?")):
                wrong.append(f'task {task.id} "{path}" stands for files anywhere; name them, or their folder')
    return wrong + [f'"{path}" is guarded, and the request does not name it' for path in guarded]


def is_begun(task: Task) -> bool:
    return task.status != "PENDING" or task.attempt > 0


def _lists(graph: Graph) -> Iterator[tuple[str, str]]:
    yield from (("baseline_allowlist", path) for path in graph.validation_policy.baseline_allowlist)
    yield from ((f"task {task.id}: allowlist", path) for task in graph.tasks for path in task.allowlist)


def sample(files: Sequence[str], ticket: str, *, several: bool) -> dict[str, Any]:
    """A graph that would do, for who plays by script."""
    path = next((one for one in files if one.endswith((".py", ".js", ".ts", ".go", ".rs", ".c"))), "src/t1.py")
    names = ["T1", "T2", "T3"] if several else ["T1"]
    groups = {"A": names[:2], "B": names[2:]} if several else {"A": names}
    return {
        "strategy": "groups",
        "validation_policy": {},
        "tasks": [
            {
                **{"id": name, "description": f"Part of {ticket}", "success_criteria": ["it is there"]},
                "files_to_modify": [path if name == "T1" else f"src/{name.lower()}.py"],
                **{"parallel_group": "AAB"[n], "depends_on": ["T1"] if name == "T3" else [], "status": "PENDING"},
            }
            for n, name in enumerate(names)
        ],
        "parallel_groups": groups,
        "execution_order": [
            {"group": letter, "strategy": "parallel" if letter == "A" else "sequential", "tasks": members}
            for letter, members in groups.items()
        ],
    }


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
    while waiting:
        batch: list[Task] = []
        for task in waiting:
            if len(batch) < limit and not any(share_files(task, other) for other in batch):
                batch.append(task)
        made.append(batch)
        waiting = [task for task in waiting if task not in batch]
    return made


def share_files(one: Task, other: Task) -> bool:
    return any(may_meet(a, b) for a in one.files for b in other.files)


def may_meet(a: str, b: str) -> bool:
    """Whether two paths or patterns can name one file; patterns by what stands before their first wildcard."""
    fixed_a, fixed_b = (re.split(r"[*?\[]", path)[0] for path in (a, b))
    open_a, open_b = is_pattern(a), is_pattern(b)
    if not open_a and not open_b:
        return a == b
    return (open_a and fixed_b.startswith(fixed_a)) or (open_b and fixed_a.startswith(fixed_b))


def blamed(output: str, group: Sequence[Task], worked: Sequence[Task]) -> list[str]:
    """Whose work a red command rejects: those of the group whose files its output names, else all that were worked on.

    Where it points into files (`a.c:3`), a bare name does not count: make and npm print each command with all its
    files.  An accepted task can be set back once.
    """
    liable = [task for task in group if not (task.status == "ACCEPTED" and task.set_back)]
    for finds in (points_into, names):
        if found := [task.id for task in liable if any(finds(output, path) for path in task.files)]:
            return found
    return [task.id for task in worked]


def names(output: str, path: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(path)}(?![\w-])", output) is not None


def points_into(output: str, path: str) -> bool:
    """Whether it names a line of the path, in one of the ways in which compilers and test runners do."""
    return re.search(rf"""(?<![\w-]){re.escape(path)}(:\[?|\(|['"]?, line )\d""", output) is not None


# --- metrics


def counts(graph: Graph) -> dict[str, int]:
    """Tasks and groups, all and done; percent, at most 95 before the iteration is accepted."""
    done = {task.id for task in graph.accepted}
    percent = min(95, 100 * len(done) // len(graph.tasks))
    return {
        **{"tasks_total": len(graph.tasks), "tasks_completed": len(done), "groups_total": len(graph.execution_order)},
        "groups_completed": sum(set(step.tasks) <= done for step in graph.execution_order),
        "percent_complete": percent,
    }


def outlook(minutes: float, completed: int, total: int) -> dict[str, Any]:
    """How long it will take, by the groups so far."""
    left = -(-minutes * (total - completed) // completed) if completed else None
    share = 100 * completed / total if total else 0
    confidence = "low" if share < 25 else "medium" if share < 60 else "high"
    return {"remaining_minutes_estimate": None if left is None else int(left), "eta_confidence": confidence}

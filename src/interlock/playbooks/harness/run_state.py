"""`harness/run-state.md`: where the task stands, read and written back in the spelling found (4.3).

`harness/runs/<TASKID>-run-report.md`: its durable history, to which entries are added and never removed (4.4).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from interlock.documents.changing import add_below, add_row, set_fields
from interlock.documents.markdown import markdown
from interlock.documents.model import Model
from interlock.errors import BadInput
from interlock.playbooks.harness.documents import BEFORE_BUILD, BEFORE_COMPLETE, Task, paths_in, wrong, yes
from interlock.playbooks.harness.stages import GATES, ORDER, RUN_STATE, SUFFIXES, Came, Stage, Status, called

NONE = "None"
HISTORY = ("Stage History", "Stage Outcomes")
"""The section of the stages, by the names that people give it."""
SECTIONS = (HISTORY[0], "Validation Evidence", "Stops")
COLUMNS = ("Run ID", "Stage", "Agent", "Outcome", "Started", "Ended", "Artifact", "SHA-256")
CHANGED = "changed by Build, not delivered yet:"
"""Begins the entry with the code that a Build left: without the run's trees it is missing (HN-117)."""
DELIVERED = "delivered:"
Values = Mapping[str, str | Sequence[str]]
_HOLE = re.compile(r"(?:\{\{|<)\s*([A-Za-z][\w -]*?)\s*(?:\}\}|>)")


class State(Model):
    """Where a task stands."""

    task: str
    task_file: str
    status: Status = Status.ACTIVE
    stage: Stage = Stage.SPECIFICATION
    run_id: str = ""
    completed: tuple[Stage, ...] = ()
    paths: dict[Stage, str]
    remediations: int = 0
    approvals: tuple[str, ...] = ()
    before_build: bool
    before_complete: bool
    stop: str = NONE

    @classmethod
    def first(cls, task: Task, day: str) -> State:
        """Of a task that begins (HN-29)."""
        known = task.model_dump(include={"paths", "before_build", "before_complete"})
        return cls(task=task.id, task_file=task.path, **known).at(Stage.SPECIFICATION, day)

    def at(self, stage: Stage, day: str, **more: Any) -> State:
        """On that day another stage is entered: nothing behind it is completed, but Build, which is mended, or
        approved; where a gate is before it, it waits."""
        state = self.model_copy(update={**more, "stage": stage})
        again = f"-R{state.remediations}" if state.remediations and stage in (Stage.BUILD, Stage.QA) else ""
        entered = {
            "run_id": f"RUN-{day}-{self.task}-{SUFFIXES[stage]}{again}",
            "completed": tuple(one for one in state.completed if one in stage.before or one is stage is Stage.BUILD),
            "approvals": tuple(one for one in state.approvals if stage not in GATES[one.startswith("Complete")].before),
        }
        state = state.model_copy(update=entered)
        if state.gate:
            return state.stopped(Status.AWAITING, f"Approval required before {state.gate}")
        return state.stopped(Status.COMPLETE if stage is Stage.COMPLETE else Status.ACTIVE, NONE)

    def asks(self, gate: str) -> bool:
        """Whether the approval settings ask for a person before that stage."""
        return self.before_build if gate == "Build" else self.before_complete

    @property
    def gate(self) -> str:
        """Before what an approval is required here and not recorded; empty: nobody is waited for."""
        build = self.stage is Stage.BUILD and self.before_build and Stage.BUILD not in self.completed
        gate = "Build" if build else "Complete" if self.stage is Stage.APPROVAL and self.before_complete else ""
        return "" if any(one.startswith(gate) for one in self.approvals) else gate

    def stopped(self, status: Status, why: str) -> State:
        return self.model_copy(update={"status": status, "stop": " ".join(why.split())})

    def position(self) -> dict[str, str | list[str]]:
        """The fields that are the engine's own, as documents spell them."""
        return {
            "Task ID": self.task,
            "Task File": self.task_file,
            "Current Status": self.status,
            "Current Stage": self.stage,
            "Current Run ID": self.run_id,
            "Completed Stages": [*self.completed] or [NONE],
            "Artifact Paths": [f"{stage}: {path}" for stage, path in self.paths.items()],
            "Stop Reason": self.stop,
            "Remediation Count": str(self.remediations),
            "Approvals": [*self.approvals] or [NONE],
        }

    def problem(self, task: Task) -> str:
        """Why nobody can go on from here (5.4, 5.5, HN-110); empty: it fits together."""
        here, done = f"Current Stage {self.stage}", self.completed
        if self.task_file not in ("", task.path):
            return f"Task File {self.task_file} is not that of the task: {task.path}"
        if other := [stage for stage, path in self.paths.items() if task.paths.get(stage) != path]:
            return f"Artifact Paths of {other[0]} is {self.paths[other[0]]}, and {task.paths[other[0]]} in {task.path}"
        mends = self.stage is Stage.BUILD and Stage.BUILD in done
        if self.stage is not [*ORDER, self.stage][len(done)] and not mends:
            return f"{here} does not follow Completed Stages [{', '.join(done)}]"
        waits, complete = self.status is Status.AWAITING, self.stage is Stage.COMPLETE
        if (self.status is Status.COMPLETE) != complete or (waits and self.stage not in GATES):
            return f"Current Status {self.status} does not fit {here}"
        if self.status is Status.ACTIVE and self.gate == "Build":
            return f"{here} is {self.status}, but {BEFORE_BUILD} is Yes and no approval is recorded"
        return ""


@lru_cache(maxsize=256)
def read_state(text: str) -> State:
    """Where a run-state says that its task stands.

    Raises:
        BadInput: with all that is missing or wrong.
    """
    page, problems = markdown(text), list[str]()

    def take(name: str, read: Callable[[str], Any], expected: str = "", default: str | None = None) -> Any:
        value = page.value(name) or default
        found = None if value is None else read(value)
        if value is None:
            problems.append(f"{RUN_STATE}: malformed: field {name} not found")
        elif found is None:
            problems.append(f'{name} "{value}" is invalid; expected {expected}')
        return found

    def setting(name: str) -> Any:
        beside = [one for one in page.values("Approval Mode") or () if one.casefold().startswith(name.casefold())]
        return take(name, yes, "Yes or No", beside[0].partition(":")[2].strip() if beside else None)

    completed = [called(one) or one for one in page.values("Completed Stages") or ()]
    if page.field("Completed Stages") is None:
        problems.append(f"{RUN_STATE}: malformed: field Completed Stages not found")
    if completed != list(ORDER[: len(completed)]):
        problems.append(f"Completed Stages [{', '.join(completed)}] is not a prefix of the lifecycle")
    counts, statuses = {"0": 0, "1": 1, "2": 2}, {one.casefold(): one for one in Status}
    read = {
        "task": take("Task ID", str),
        "task_file": take("Task File", str, default=""),
        "status": take("Current Status", lambda value: statuses.get(value.casefold()), ", ".join(Status)),
        "stage": take("Current Stage", called, f"one of {', '.join(ORDER)}"),
        "run_id": take("Current Run ID", str),
        "remediations": take("Remediation Count", counts.get, "0 to 2", "0"),
        "before_build": setting(BEFORE_BUILD),
        "before_complete": setting(BEFORE_COMPLETE),
        "stop": page.value("Stop Reason") or NONE,
        "approvals": tuple(page.values("Approvals") or ()),
    }
    if problems:
        raise BadInput.together([wrong(problem, RUN_STATE) for problem in problems])
    return State(completed=tuple(Stage(one) for one in completed), paths=paths_in(page), **read)


def position(text: str) -> dict[str, str | list[str]]:
    """What of a run-state is the engine's own while a run works: all but the approval settings and remarks."""
    return read_state(text).position() if text.strip() else {}


# --- written


def with_state(text: str, state: State, event: str) -> str:
    """The document with where the task stands now; what is said so already stays as it is spelled."""
    known, page = position(text), markdown(text)
    changed = {name: one for name, one in state.position().items() if one != known.get(name) or not page.field(name)}
    return with_event(_with_fields(text, changed), event)


def with_event(text: str, event: str) -> str:
    """`Last Event` is the engine's line of the Notes; the others are people's."""
    page = markdown(text)
    if page.field("Last Event"):
        return set_fields(text, {"Last Event": event})
    return add_below(text, "Notes" if page.find("Notes") else "## Notes", f"- Last Event: {event}")


def new_state(template: str, state: State, event: str) -> str:
    """The first text of a run-state."""
    values, text = state.position(), _filled(template, {**state.position(), "Notes": f"Last Event: {event}"})
    settings = {BEFORE_BUILD: state.before_build, BEFORE_COMPLETE: state.before_complete}
    modes = {name: "Yes" if asked else "No" for name, asked in settings.items()}
    alone = all(map(markdown(text).field, modes))
    asks = modes if alone else {"Approval Mode": [f"{name}: {word}" for name, word in modes.items()]}
    return with_event(_with_fields(text, {**values, **asks}), event)


def _filled(template: str, values: Values) -> str:
    """A template with its holes filled; one that nobody knows stays."""
    known = {name.casefold(): one if isinstance(one, str) else ", ".join(one) for name, one in values.items()}
    return _HOLE.sub(lambda hole: known.get(" ".join(re.split(r"[\s_-]+", hole[1])).casefold(), hole[0]), template)


def _with_fields(text: str, values: Values) -> str:
    """The fields in the spelling of its author, artifact paths in the rows of their stages and as bullets beside what
    else is listed; what it lacks comes below."""
    if "Artifact Paths" not in values:
        return set_fields(text, values)
    page, paths = markdown(text), dict(one.split(": ", 1) for one in values["Artifact Paths"])
    rows = {row.cells[0]: paths.get(called(row.cells[0]) or "", "") for row in page.rows("Artifact Paths")}
    text = set_fields(text, {name: path for name, path in rows.items() if path})
    others = [one for one in page.values("Artifact Paths", ticked=False) or () if called(one) is None]
    return set_fields(text, {**values, "Artifact Paths": [*values["Artifact Paths"], *others]})


# --- the report


def report_of(task: str) -> str:
    return f"harness/runs/{task}-run-report.md"


def shelf_of(task: str) -> str:
    """Where the run-state of a task lies that is not the live one (5.3)."""
    return f"harness/runs/{task}-run-state.md"


def _head(state: State) -> dict[str, str]:
    known = state.position()
    shown = ("Task ID", "Current Stage", "Current Run ID", "Stop Reason")
    return {**{name: str(known[name]) for name in shown}, "Status": state.status}


def new_report(template: str, state: State, task: Task) -> str:
    """The first text of a report."""
    values = {**_head(state), "Task Title": task.title, "Artifact Paths": state.position()["Artifact Paths"]}
    text = _with_fields(_filled(template, {**values, **dict.fromkeys(SECTIONS, "")}), values)
    missing = [name for name in SECTIONS if not _title(text, name)]
    return "\n".join([text.rstrip(), *(f"\n## {name}" for name in missing), ""])


def with_entries(
    text: str, state: State, at: str, rows: Sequence[Sequence[str]], evidence: Sequence[str], stop: str
) -> str:
    """The report with what happened at that time; one that is gone is not made again (HN-41)."""
    if not text.strip():
        return text
    text = set_fields(text, _head(state))
    for row in rows:
        text = add_row(text, _title(text, HISTORY[0]) or HISTORY[0], dict(zip(COLUMNS, row, strict=True)))
    for title, lines in (("Validation Evidence", evidence), ("Stops", [f"{state.stage}: {stop}"] if stop else [])):
        for line in lines:
            text = add_below(text, _title(text, title) or f"## {title}", f"- {at} {' '.join(line.split())}")
    return text


def _title(text: str, name: str) -> str:
    """The section of that name, as people called it; empty: there is none."""
    names = HISTORY if name == HISTORY[0] else (name,)
    return next((one for one in names if markdown(text).find(one)), "")


def history(text: str) -> list[dict[str, str]]:
    """The entries of the stages, in order, by the names of their columns in small letters."""
    rows = markdown(text).rows(_title(text, HISTORY[0]))
    return [dict(zip((cell.casefold() for cell in rows[0].cells), row.cells, strict=False)) for row in rows[1:]]


def rejections(text: str, gate: Stage) -> int:
    """How often people rejected at the gate before that stage."""
    return sum(one.get("stage") == gate and one.get("outcome") == Came.REJECTED for one in history(text))


def judged_before(text: str, stage: Stage, digest: str) -> bool:
    """Whether this artifact of a stage is one that has counted already."""
    return any(one.get("stage") == stage and one.get("sha-256") == digest for one in history(text))


def undelivered(text: str) -> bool:
    """Whether code of a Build was left that has not come into the tree."""
    entries = [item.text for item in markdown(text).items("Validation Evidence")]
    said = [CHANGED in one for one in entries if CHANGED in one or DELIVERED in one]
    return bool(said) and said[-1]

"""Where a task stands: `harness/run-state.md`, its values, its text, and whether they make sense together.

Scalar fields are ``- Name: value`` lines at the top of the document, lists are ``## Name`` sections.  The first text
is made from the workspace's template; later ones are edits of what is there, so that a person's remarks survive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar

from interlock.documents import Document, DocumentState, Sections
from interlock.playbooks.harness.escalation import Escalation, one_line, sentence
from interlock.playbooks.harness.lifecycle import (
    REMEDIATIONS,
    SEQUENCE,
    WORKING,
    Finding,
    Stage,
    TaskStatus,
    next_stage,
    run_id,
)
from interlock.playbooks.harness.splices import Splices, is_bullet, sections_of
from interlock.playbooks.harness.task_file import BEFORE_BUILD, BEFORE_COMPLETE, Task, artifact_paths, yes_or_no

PATH = "harness/run-state.md"
NONE = "None"
E = TypeVar("E", bound=StrEnum)

SCALARS = (
    "Task ID",
    "Task File",
    "Current Status",
    "Current Stage",
    "Current Run ID",
    "Stop Reason",
    "Remediation Count",
)
LISTS = ("Completed Stages", "Artifact Paths", "Approval Mode", "Approvals", "Notes")
FIELDS = (
    *("Task ID", "Task File", "Current Status", "Current Stage", "Current Run ID", "Completed Stages"),
    *("Artifact Paths", "Approval Mode", "Stop Reason", "Notes", "Remediation Count", "Approvals"),
)
"""All fields, in the order of the standard."""


LAST_EVENT = "Last Event"
"""The field of the notes that the engine writes; all else there is people's."""
GATES: Mapping[Stage, Stage] = {Stage.BUILD: Stage.BUILD, Stage.APPROVAL: Stage.COMPLETE}
"""At which stages people may have to decide, and which stage their approval opens."""


def hole(field: str) -> str:
    """The name of a field's hole in the template."""
    return field.upper().replace(" ", "_")


@dataclass(frozen=True)
class Approval:
    """A person's word at a gate."""

    gate: Stage
    """The stage that it opens: Build or Complete."""
    who: str
    at: str


@dataclass(frozen=True)
class RunState:
    """Everything that a new run needs to know about a task."""

    task_id: str
    task_file: str
    artifacts: Mapping[Stage, str]
    run_id: str
    status: TaskStatus = TaskStatus.ACTIVE
    stage: Stage = Stage.SPECIFICATION
    completed: tuple[Stage, ...] = ()
    approve_build: bool = True
    approve_complete: bool = True
    stop_reason: str = ""
    """Why the run is not going on; empty while it is."""
    notes: str = ""
    remediations: int = 0
    approvals: tuple[Approval, ...] = ()

    @property
    def artifact(self) -> str:
        """The path of what the current stage produces."""
        return self.artifacts[self.stage]

    @property
    def remediating(self) -> bool:
        """Whether Build is entered again because QA sent the task back."""
        return self.stage is Stage.BUILD and Stage.BUILD in self.completed

    def approved(self, gate: Stage) -> bool:
        return any(approval.gate is gate for approval in self.approvals)

    def must_ask(self, gate: Stage) -> bool:
        """Whether a person has to open this gate before the task may pass."""
        required = self.approve_build if gate is Stage.BUILD else self.approve_complete
        return required and not self.approved(gate)

    @property
    def position(self) -> RunState:
        """This state without its words: what an edit of it by somebody else would be compared by."""
        return replace(self, stop_reason="", notes="")

    # -- how a state becomes the next one

    def told(self, event: str, *, stop_reason: str = "", **changes: Any) -> RunState:
        """With changes, and notes that say what happened last and where the task stands now."""
        changed = replace(self, stop_reason=one_line(stop_reason), **changes)
        where = f"Current position: {changed.stage} ({changed.status})."
        return replace(changed, notes=f"{one_line(event)} {where}")

    def entered(self, stage: Stage, day: str, event: str, **changes: Any) -> RunState:
        """At another stage, with the run id of the day on which it is entered."""
        count: int = changes.get("remediations", self.remediations)
        return self.told(event, stage=stage, run_id=run_id(day, self.task_id, stage, count), **changes)

    def moved(self, finding: Finding, day: str, event: str, **changes: Any) -> RunState:
        """Past the current stage, which is thereby finished unless the task goes back."""
        target = next_stage(self.stage, finding)
        match finding:
            case Finding.QA_NEGATIVE:
                done = self.completed
            case Finding.REJECTED:  # what is made anew; a Build that is to be revised stays one that was made
                done = tuple(stage for stage in self.completed if stage.before(target) or stage is Stage.BUILD)
            case _:
                done = in_order({*self.completed, self.stage})
        return self.entered(target, day, event, completed=done, **changes)

    def gated(self, event: str) -> RunState:
        """Awaiting approval, if a person has to open the gate at which the task came to stand by this event."""
        gate = GATES.get(self.stage)
        if gate is None or self.stage in self.completed or not self.must_ask(gate):
            return self
        reason = f"Approval required before {gate}"
        return self.told(f"{event} {reason}.", status=TaskStatus.AWAITING_APPROVAL, stop_reason=reason)

    def blocked(self, reason: str) -> RunState:
        return self.told(sentence(f"The run stopped: {reason}"), status=TaskStatus.BLOCKED, stop_reason=reason)


def in_order(stages: set[Stage]) -> tuple[Stage, ...]:
    return tuple(stage for stage in SEQUENCE if stage in stages)


def initial(task: Task, day: str) -> RunState:
    """The state of a task that nobody has begun."""
    state = RunState(
        task_id=task.task_id,
        task_file=task.path,
        artifacts=task.artifacts,
        run_id="",
        approve_build=task.approve_build,
        approve_complete=task.approve_complete,
    )
    return state.entered(Stage.SPECIFICATION, day, "Orchestration initialised the run.")


# -- text


def values(state: RunState) -> dict[str, str]:
    """Each field as it stands in the document."""
    return {
        "Task ID": state.task_id,
        "Task File": state.task_file,
        "Current Status": state.status,
        "Current Stage": state.stage,
        "Current Run ID": state.run_id,
        "Completed Stages": _bullets(state.completed),
        "Artifact Paths": _bullets(f"{stage}: {path}" for stage, path in state.artifacts.items()),
        "Approval Mode": _bullets(
            (f"{BEFORE_BUILD}: {_yes(state.approve_build)}", f"{BEFORE_COMPLETE}: {_yes(state.approve_complete)}")
        ),
        "Stop Reason": state.stop_reason or NONE,
        "Notes": _bullets((f"{LAST_EVENT}: {state.notes}",)),
        "Remediation Count": str(state.remediations),
        "Approvals": _bullets(f"{approval.gate}: {approval.who} {approval.at}" for approval in state.approvals),
    }


@lru_cache(maxsize=1024)
def _edited(text: str, fields: tuple[tuple[str, str], ...]) -> str:
    document = sections_of(text, PATH)
    edits, top = Splices(document), head(document)
    for name, value in fields:
        if name in SCALARS:
            edits.field(name, value, top)
        else:
            edits.lines(f"## {name}", value, is_last_event if name == "Notes" else is_bullet)
    return edits.made()


def rewritten(text: str, state: RunState) -> str:
    """The document with all fields set to this state, and everything else as it was."""
    said = values(parse_text(text))
    return _edited(text, tuple((name, value) for name, value in values(state).items() if value != said[name]))


def is_last_event(line: str) -> bool:
    """Whether a line of the notes is the engine's own field."""
    return line.startswith(f"- {LAST_EVENT}:")


def head(document: Sections) -> str | None:
    """Where the scalar fields stand: under the document's title, or before any heading."""
    first = document.sections[0] if document.sections else None
    return first.heading if first is not None and first.level == 1 else None


def parse(document: Document) -> RunState:
    """The state in the document; Escalation names what is not in order."""
    if document.state is not DocumentState.OK:
        raise Escalation(f"{PATH}: unreadable: {document.problem}", cure="Restore it from version control.", path=PATH)
    return parse_text(document.text)


@lru_cache(maxsize=1024)
def parse_text(text: str) -> RunState:
    document = sections_of(text, PATH)
    fields = {name: found.value for name, found in document.fields(head(document)).items()}
    for name in FIELDS:
        if name not in fields if name in SCALARS else document.find(f"## {name}") is None:
            raise malformed(f"field {name} not found")
    status = _one_of(TaskStatus, fields["Current Status"], "Current Status", "expected {}")
    stage = _one_of(Stage, fields["Current Stage"], "Current Stage", "expected one of {}")
    settings = {name: found.value for name, found in document.fields("## Approval Mode").items()}
    for name in ("Task ID", "Task File", "Current Run ID"):
        if not fields[name]:
            raise malformed(f"field {name} is empty")
    return RunState(
        task_id=fields["Task ID"],
        task_file=fields["Task File"],
        artifacts=artifact_paths(document, PATH),
        run_id=fields["Current Run ID"],
        status=status,
        stage=stage,
        completed=_completed(_items(document, "## Completed Stages")),
        approve_build=yes_or_no(settings, BEFORE_BUILD, PATH, None),
        approve_complete=yes_or_no(settings, BEFORE_COMPLETE, PATH, None),
        stop_reason="" if fields["Stop Reason"] in ("", NONE) else fields["Stop Reason"],
        notes=told.value if (told := document.fields("## Notes").get(LAST_EVENT)) is not None else "",
        remediations=_count(fields["Remediation Count"]),
        approvals=tuple(_approval(item) for item in _items(document, "## Approvals")),
    )


def malformed(what: str) -> Escalation:
    return Escalation(
        f"{PATH}: malformed: {what}",
        cure=f"Correct {PATH}, or restore it from version control; nothing was changed.",
        path=PATH,
    )


def _one_of(kind: type[E], value: str, field: str, expected: str) -> E:
    try:
        return kind(value)
    except ValueError:
        known = expected.format(", ".join(kind))
        raise Escalation(
            f'{field} "{one_line(value)}" is invalid; {known}', cure=f"Correct it in {PATH}.", path=PATH
        ) from None


def _completed(items: tuple[str, ...]) -> tuple[Stage, ...]:
    stages = tuple(_one_of(Stage, item, "Completed Stages:", "expected one of {}") for item in items)
    if stages != SEQUENCE[: len(stages)]:
        raise Escalation(
            f"Completed Stages [{', '.join(stages)}] is not a prefix of the lifecycle",
            cure=f"List in {PATH} the finished stages in their order, none left out.",
            path=PATH,
        )
    return stages


def _count(value: str) -> int:
    if value not in {str(count) for count in range(REMEDIATIONS + 1)}:
        raise malformed(f'Remediation Count "{one_line(value)}"; expected 0 to {REMEDIATIONS}')
    return int(value)


def _approval(item: str) -> Approval:
    gate, _, rest = item.partition(": ")
    who, _, at = rest.rpartition(" ")
    if gate not in (Stage.BUILD, Stage.COMPLETE) or not who:
        raise malformed(f'Approvals: "{one_line(item)}"; expected Build or Complete, a colon, who and when')
    return Approval(Stage(gate), who, at)


def _items(document: Sections, title: str) -> tuple[str, ...]:
    items = tuple(one_line(item.text) for item in document.items(title))
    return () if items in ((), (NONE,)) else items


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or f"- {NONE}"


def _yes(value: bool) -> str:
    return "Yes" if value else "No"


# -- sense


def inconsistency(state: RunState) -> str | None:
    """Why a parsed state cannot be gone on from: the stage does not follow, or status and approvals contradict it."""
    return _misplaced(state) or _contradiction(state)


def _misplaced(state: RunState) -> str | None:
    expected = SEQUENCE[len(state.completed)] if len(state.completed) < len(SEQUENCE) else None
    again = state.remediations > 0 and state.stage is Stage.BUILD and expected is Stage.QA
    if state.stage is expected or again:
        return None
    done = ", ".join(state.completed) or NONE
    return f'Current Stage "{state.stage}" does not follow Completed Stages [{done}]; expected "{expected}"'


def _contradiction(state: RunState) -> str | None:
    pair = f'Current Status "{state.status}" does not go with Current Stage "{state.stage}"'
    gate = GATES.get(state.stage)
    match state.status:
        case TaskStatus.COMPLETE:
            if state.stage is not Stage.COMPLETE:
                return pair
            if state.must_ask(Stage.COMPLETE):
                return f"{BEFORE_COMPLETE} is Yes and no approval is recorded, but the task is Complete"
        case _ if state.stage is Stage.COMPLETE:
            return pair
        case TaskStatus.AWAITING_APPROVAL:
            if gate is None:
                return pair
            if not state.must_ask(gate) or state.stage in state.completed:
                return f"{pair}: the approval before {gate} is not required, or recorded already"
        case TaskStatus.ACTIVE:
            if gate is not None and state.must_ask(gate) and state.stage not in state.completed:
                return f"Require Approval Before {gate} is Yes and not recorded, but the task is Active there"
    return None


def resumed_at(state: RunState, stage: Stage | None, day: str, event: str, *, reset: bool) -> RunState:
    """A blocked task that a person lets go on: where it stood, or from an earlier stage on.

    Going back before Build takes the approval of the plan with it, since there will be another plan.
    """
    count = 0 if reset else state.remediations
    target = state.stage if stage is None else stage
    approvals = tuple(one for one in state.approvals if not (one.gate is Stage.BUILD and target.before(Stage.BUILD)))
    kept = state.completed if stage is None else tuple(done for done in state.completed if done.before(target))
    if stage is None and count == 0 and target is Stage.BUILD:
        kept = tuple(done for done in kept if done.before(target))
    going = replace(state, approvals=approvals, completed=kept, status=TaskStatus.ACTIVE, remediations=count)
    return going.entered(target, day, event).gated(event)


def same_paths(task: Task, state: RunState) -> Task:
    """The task, if its artifacts lie where run-state says; Escalation when they do not."""
    for stage, path in state.artifacts.items():
        if path != task.artifacts[stage]:
            raise Escalation(
                f"Artifact path for {stage} differs: {PATH} has {path}, {task.path} has {task.artifacts[stage]}",
                cure="Make the two the same; the artifact must lie where both say.",
                path=PATH,
            )
    return task


def named_stage(text: str) -> Stage | None:
    """The working stage that a person means by a word on the command line."""
    wanted = " ".join(text.replace("-", " ").replace("_", " ").split()).casefold()
    return next((stage for stage in WORKING if wanted in (stage.casefold(), stage.slug)), None)

"""Where a task stands: `harness/run-state.md`, its values, its text, and whether they make sense together.

Scalar fields are ``- Name: value`` lines at the top of the document, lists are ``## Name`` sections.  The first text
is made from the workspace's template; later ones are edits of what is there, so that a person's remarks survive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from interlock.documents import Document, Sections, one_line
from interlock.playbooks.harness.escalation import Escalation, sentence, text_of
from interlock.playbooks.harness.splices import Splices, is_bullet, sections_of
from interlock.playbooks.harness.stages import REMEDIATIONS, Lifecycle, Stage, StageGate, TaskStatus
from interlock.playbooks.harness.task_file import Task, artifact_paths, yes_or_no

PATH = "harness/run-state.md"
NONE = "None"

LISTS = ("Completed Stages", "Artifact Paths", "Approval Mode", "Approvals", "Notes")
"""The fields that are sections; the others stand at the top."""
FIELDS = (
    *("Task ID", "Task File", "Current Status", "Current Stage", "Current Run ID", "Completed Stages"),
    *("Artifact Paths", "Approval Mode", "Stop Reason", "Notes", "Remediation Count", "Approvals"),
)
"""All fields, in the order of the standard."""


LAST_EVENT = "Last Event"
"""The field of the notes that the engine writes; all else there is people's."""


def hole(field: str) -> str:
    """The name of a field's hole in the template."""
    return field.upper().replace(" ", "_")


@dataclass(frozen=True)
class Approval:
    """A person's word at a gate."""

    gate: str
    """The stage that it opens."""
    who: str
    at: str


@dataclass(frozen=True)
class RunState:
    """Everything that a new run needs to know about a task. Stages are known by their names."""

    lifecycle: Lifecycle
    task_id: str
    task_file: str
    artifacts: Mapping[str, str]
    """Where each stage that takes part puts its artifact."""
    run_id: str
    stage: str
    asks: Mapping[str, bool]
    """Which gates people have to open, by the stage that they open."""
    status: TaskStatus = TaskStatus.ACTIVE
    completed: tuple[str, ...] = ()
    stop_reason: str = ""
    """Why the run is not going on; empty while it is."""
    notes: str = ""
    remediations: int = 0
    approvals: tuple[Approval, ...] = ()

    @property
    def row(self) -> Stage:
        return self.lifecycle[self.stage]

    @property
    def artifact(self) -> str:
        """The path of what the current stage produces."""
        return self.artifacts[self.stage]

    @property
    def remediating(self) -> bool:
        """Whether the current stage is entered again because the task was sent back to it."""
        return self.stage in self.lifecycle.menders and self.stage in self.completed

    @property
    def built(self) -> bool:
        """Whether the tree is no more the one from which the task set out."""
        return any(stage in self.completed for stage in self.lifecycle.builders)

    @property
    def next_stage(self) -> str | None:
        """The one that follows those that are finished; None when all are."""
        if not self.completed:
            return self.lifecycle.names[0]
        return self.lifecycle.after(self.completed[-1], self.artifacts)

    def must_ask(self, gate: StageGate) -> bool:
        """Whether a person has to open this gate before the task may pass."""
        approved = any(approval.gate == gate.opens for approval in self.approvals)
        return self.asks[gate.opens] and not approved

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

    def entered(self, stage: str, day: str, event: str, **changes: Any) -> RunState:
        """At another stage, with the run id of the day on which it is entered."""
        count: int = changes.get("remediations", self.remediations)
        own = self.lifecycle.run_id(day, self.task_id, stage, count)
        return self.told(event, stage=stage, run_id=own, **changes)

    def advanced(self, day: str, event: str, **changes: Any) -> RunState:
        """Past the current stage, which is thereby finished; the next one may have a gate."""
        done = tuple(name for name in self.lifecycle.names if name in (*self.completed, self.stage))
        following = self.lifecycle.after(self.stage, self.artifacts)
        assert following is not None  # nobody leaves the last stage
        last = following == self.lifecycle.names[-1]
        status = TaskStatus.COMPLETE if last else TaskStatus.ACTIVE
        return self.entered(following, day, event, completed=done, status=status, **changes).gated(event)

    def sent_back(self, target: str, day: str, event: str, **changes: Any) -> RunState:
        """At an earlier stage again: what comes after it is made anew, what is to be mended stays one that was made."""
        kept = tuple(name for name in self.completed if self._stays(name, target))
        return self.entered(target, day, event, completed=kept, **changes)

    def _stays(self, name: str, target: str) -> bool:
        return self.lifecycle.before(name, target) or (name == target and target in self.lifecycle.menders)

    def gated(self, event: str) -> RunState:
        """Awaiting approval, if a person has to open the gate at which the task came to stand by this event."""
        gate = self.row.gate
        if gate is None or self.stage in self.completed or not self.must_ask(gate):
            return self
        reason = f"Approval required before {gate.opens}"
        return self.told(f"{event} {reason}.", status=TaskStatus.AWAITING_APPROVAL, stop_reason=reason)

    def blocked(self, reason: str) -> RunState:
        return self.told(sentence(f"The run stopped: {reason}"), status=TaskStatus.BLOCKED, stop_reason=reason)

    def resumed(self, stage: str | None, day: str, event: str, *, reset: bool) -> RunState:
        """As a person lets it go on: where it stood, or from an earlier stage on.

        Going back behind a gate takes its approval away, since there will be something else to approve.
        """
        target, count = stage or self.stage, 0 if reset else self.remediations
        before = tuple(done for done in self.completed if self.lifecycle.before(done, target))
        passed = {gate.opens for at, gate in self.lifecycle.gates if not self.lifecycle.before(target, at.name)}
        going = replace(
            self,
            approvals=tuple(approval for approval in self.approvals if approval.gate in passed),
            completed=self.completed if stage is None and count else before,
            status=TaskStatus.ACTIVE,
            remediations=count,
        )
        return going.entered(target, day, event).gated(event)


def initial(lifecycle: Lifecycle, task: Task, day: str) -> RunState:
    """The state of a task that nobody has begun."""
    first = lifecycle.names[0]
    state = RunState(lifecycle, task.task_id, task.path, task.artifacts, "", first, task.asks)
    return state.entered(first, day, "Orchestration initialised the run.")


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
            f"{gate.setting}: {'Yes' if state.asks[gate.opens] else 'No'}" for _, gate in state.lifecycle.gates
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
        if name in LISTS:
            edits.lines(f"## {name}", value, is_last_event if name == "Notes" else is_bullet)
        else:
            edits.field(name, value, top)
    return edits.made()


def rewritten(text: str, state: RunState) -> str:
    """The document with all fields set to this state, and everything else as it was."""
    said = values(parse_text(text, state.lifecycle))
    return _edited(text, tuple((name, value) for name, value in values(state).items() if value != said[name]))


def is_last_event(line: str) -> bool:
    """Whether a line of the notes is the engine's own field."""
    return line.startswith(f"- {LAST_EVENT}:")


def head(document: Sections) -> str | None:
    """Where the scalar fields stand: under the document's title, or before any heading."""
    first = document.sections[0] if document.sections else None
    return first.heading if first is not None and first.level == 1 else None


def parse(document: Document, lifecycle: Lifecycle) -> RunState:
    """The state in the document; Escalation names what is not in order."""
    return parse_text(text_of(document, "Restore it from version control."), lifecycle)


@lru_cache(maxsize=1024)
def parse_text(text: str, lifecycle: Lifecycle) -> RunState:
    document = sections_of(text, PATH)
    fields = {name: found.value for name, found in document.fields(head(document)).items()}
    for name in FIELDS:
        if document.find(f"## {name}") is None if name in LISTS else name not in fields:
            raise malformed(f"field {name} not found")
    for name in ("Task ID", "Task File", "Current Run ID"):
        if not fields[name]:
            raise malformed(f"field {name} is empty")
    settings = {name: found.value for name, found in document.fields("## Approval Mode").items()}
    return RunState(
        lifecycle,
        task_id=fields["Task ID"],
        task_file=fields["Task File"],
        artifacts=artifact_paths(document, PATH, lifecycle),
        run_id=fields["Current Run ID"],
        stage=_one_of(lifecycle.names, fields["Current Stage"], "Current Stage", "expected one of {}"),
        status=TaskStatus(_one_of(tuple(TaskStatus), fields["Current Status"], "Current Status", "expected {}")),
        completed=_completed(_items(document, "## Completed Stages"), lifecycle),
        asks={gate.opens: yes_or_no(settings, gate.setting, PATH, None) for _, gate in lifecycle.gates},
        stop_reason="" if fields["Stop Reason"] in ("", NONE) else fields["Stop Reason"],
        notes=told.value if (told := document.fields("## Notes").get(LAST_EVENT)) is not None else "",
        remediations=_count(fields["Remediation Count"]),
        approvals=tuple(_approval(item, lifecycle) for item in _items(document, "## Approvals")),
    )


def malformed(what: str) -> Escalation:
    return Escalation(
        PATH, f"{PATH}: malformed: {what}", f"Correct {PATH}, or restore it from version control; nothing was changed."
    )


def _one_of(known: tuple[str, ...], value: str, field: str, expected: str) -> str:
    if value in known:
        return value
    wanted = expected.format(", ".join(known))
    raise Escalation(PATH, f'{field} "{one_line(value)}" is invalid; {wanted}', f"Correct it in {PATH}.")


def _completed(items: tuple[str, ...], lifecycle: Lifecycle) -> tuple[str, ...]:
    stages = tuple(_one_of(lifecycle.names, item, "Completed Stages:", "expected one of {}") for item in items)
    if not lifecycle.are_done(stages):
        raise Escalation(
            PATH,
            f"Completed Stages [{', '.join(stages)}] is not a prefix of the lifecycle",
            f"List in {PATH} the finished stages in their order, none left out.",
        )
    return stages


def _count(value: str) -> int:
    if value not in {str(count) for count in range(REMEDIATIONS + 1)}:
        raise malformed(f'Remediation Count "{one_line(value)}"; expected 0 to {REMEDIATIONS}')
    return int(value)


def _approval(item: str, lifecycle: Lifecycle) -> Approval:
    opened, _, rest = item.partition(": ")
    who, _, at = rest.rpartition(" ")
    known = [gate.opens for _, gate in lifecycle.gates]
    if opened not in known or not who:
        raise malformed(f'Approvals: "{one_line(item)}"; expected {" or ".join(known)}, a colon, who and when')
    return Approval(opened, who, at)


def _items(document: Sections, title: str) -> tuple[str, ...]:
    items = tuple(one_line(item.text) for item in document.items(title))
    return () if items in ((), (NONE,)) else items


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) or f"- {NONE}"


# -- sense


def inconsistency(state: RunState) -> str | None:
    """Why a parsed state cannot be gone on from: the stage does not follow, or status and approvals contradict it."""
    expected = state.next_stage
    again = state.remediations > 0 and state.remediating and state.completed[-1] == state.stage
    if state.stage == expected or again:
        return _contradiction(state)
    done = ", ".join(state.completed) or NONE
    return f'Current Stage "{state.stage}" does not follow Completed Stages [{done}]; expected "{expected}"'


def _contradiction(state: RunState) -> str | None:
    pair = f'Current Status "{state.status}" does not go with Current Stage "{state.stage}"'
    gate, last = state.row.gate, state.stage == state.lifecycle.names[-1]
    asked = gate is not None and state.must_ask(gate) and state.stage not in state.completed
    if last is not (state.status is TaskStatus.COMPLETE):
        return pair
    if last:
        unasked = [one for _, one in state.lifecycle.gates if one.opens == state.stage and state.must_ask(one)]
        return f"{unasked[0].setting} is Yes and no approval is recorded, but the task is Complete" if unasked else None
    if state.status is TaskStatus.AWAITING_APPROVAL and not asked:
        return f"{pair}: the approval before {gate.opens} is not required, or recorded already" if gate else pair
    if state.status is TaskStatus.ACTIVE and gate is not None and asked:
        return f"{gate.setting} is Yes and not recorded, but the task is Active there"
    return None


def same_paths(task: Task, state: RunState) -> Task:
    """The task, if its artifacts lie where run-state says; Escalation when they do not."""
    for stage in {**state.artifacts, **task.artifacts}:
        here, there = state.artifacts.get(stage, "none"), task.artifacts.get(stage, "none")
        if here != there:
            raise Escalation(
                PATH,
                f"Artifact path for {stage} differs: {PATH} has {here}, {task.path} has {there}",
                "Make the two the same; the artifact must lie where both say.",
            )
    return task

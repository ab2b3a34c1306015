"""The harness against everything its agents can do, with a person who approves whatever is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from interlock.engine import Options, Status
from interlock.errors import DocumentInvalid
from interlock.playbooks.harness import run_report, run_state
from interlock.playbooks.harness.briefs import RETRIES
from interlock.playbooks.harness.inputs import HarnessInputs
from interlock.playbooks.harness.playbook import harness_of
from interlock.playbooks.harness.run_report import Log, RunReport, report_path
from interlock.playbooks.harness.run_state import RunState
from interlock.playbooks.harness.stages import LIFECYCLE, REMEDIATIONS, Lifecycle, TaskStatus
from interlock.playbooks.harness.task_file import is_governed
from interlock.playbooks.harness.templates import example_files
from interlock.testing import (
    ALWAYS,
    ENDS,
    LIARS,
    STANDARD,
    Act,
    Agent,
    Deviation,
    Finished,
    Invariant,
    Played,
    Rehearsal,
    SimulatedWorld,
    Simulation,
    best,
    both,
    remarks,
    says,
    writes,
)

TASK = "TASK-001"


@dataclass
class Governed(Simulation):
    """A simulated run with a person beside it, and the stages by which it is judged."""

    lifecycle: Lifecycle = LIFECYCLE
    approves: bool = True
    """The person approves at every gate; else it waits for `decide`."""

    def go(self, **how: Any) -> Finished:
        finished = super().go(**how)
        while self.approves and finished.gate is not None:
            self.decide("approve")
            finished = super().go(**how)
        return finished


# -- what agents do


CODE = "greet.py"


def builds(request: Any) -> Act:
    """The best that an agent can do; a Build changes code as well, each time."""
    act = best(request)
    return replace(act, files={**act.files, CODE: f"# {request.dispatch}\n"}) if request.contract.must_change else act


# -- what they do wrong


def _artifact(request: Any) -> str:
    return str(request.contract.artifacts[0].path)


def silent(_request: Any, act: Act) -> Act:
    return replace(act, files={})


def half(lifecycle: Lifecycle, request: Any, act: Act) -> Act:
    """A judge that gives one word, and nothing to bear it out."""
    judging = lifecycle[request.step].judging
    assert judging is not None
    text = f"# Done\n\n{judging.marks[0].label}: {judging.marks[0].positive}\n"
    return replace(act, files={**act.files, _artifact(request): text})


def negative(lifecycle: Lifecycle, request: Any, act: Act) -> Act:
    """A judge that finds something."""
    judging = lifecycle[request.step].judging
    assert judging is not None
    text = str(act.files[_artifact(request)]).replace("- None", "- It does not work")
    for mark in judging.marks:
        text = text.replace(mark.positive, mark.negative)
    return replace(act, files={**act.files, _artifact(request): text})


def judges(request: Any) -> bool:
    return request.contract.claim is not None


def builds_code(request: Any) -> bool:
    return bool(request.contract.must_change)


# -- what people do to the documents of the run while an agent works

COUNTED = "- Remediation Count: 1"


remarked = remarks(run_state.PATH, report_path(TASK), form="\n{}\n")
"""At the end of both documents: in run-state that is among the notes."""


def moved(request: Any, act: Act) -> Act:
    """A person changes where the task stands."""
    text = request.within.facts(run_state.PATH).content.decode()
    return replace(act, people={**act.people, run_state.PATH: text.replace("- Remediation Count: 0", COUNTED)})


def deviations(lifecycle: Lifecycle) -> tuple[Deviation, ...]:
    second = lifecycle.working[1].agent
    return (
        *(one for one in STANDARD if one.name != "lies"),
        *LIARS,
        Deviation("writes nothing", silent),
        Deviation("gives half a result", partial(half, lifecycle), judges),
        Deviation("says error", both(silent, says("It cannot be done.\n\nStatus: error\n"))),
        Deviation("changes run-state", writes({run_state.PATH: "mine\n"})),
        Deviation("changes a standard", writes({"harness/standards/task-lifecycle.md": "mine\n"})),
        Deviation("finds issues", partial(negative, lifecycle), judges),
        Deviation("a person makes remarks", remarked, builds_code),
        Deviation("a person moves the task", moved, lambda request: bool(request.agent == second)),
    )


HARMLESS = (
    *("says nothing", "writes outside", "a person makes remarks", "a person moves the task"),
    *(one.name for one in LIARS),  # `ALWAYS` looks after these
)
"""Deviations beside which an artifact may still be a good one: it is the evidence, whatever else was not taken over."""
STRAYS = ("changes run-state", "changes a standard")
"""Deviations of agents that do their own work as well."""


# -- what must hold all the same; documents that cannot be read break the first of these, and the others look away


def lifecycle_of(played: Played) -> Lifecycle:
    return played.simulation.lifecycle if isinstance(played.simulation, Governed) else LIFECYCLE


def documents(played: Played) -> tuple[RunState, RunReport]:
    files = played.files
    state = run_state.parse_text(files[run_state.PATH].decode(), lifecycle_of(played))
    return state, run_report.parse_text(files[report_path(TASK)].decode(), report_path(TASK))


def of_documents(rule: Callable[[Played, RunState, RunReport], str | None]) -> Callable[[Played], str | None]:
    """A rule about documents that can be read."""

    def broken(played: Played) -> str | None:
        try:
            return rule(played, *documents(played))
        except (KeyError, DocumentInvalid):
            return None

    return broken


def documents_agree(played: Played) -> str | None:
    try:
        state, report = documents(played)
    except (KeyError, DocumentInvalid) as error:
        return str(error)
    if problem := run_state.inconsistency(state):
        return problem
    top = run_report.top_values(state, report.fields["Task Title"])
    wrong = [name for name, value in top.items() if report.fields[name] != value]
    if wrong:
        return f"report and run-state differ in {', '.join(wrong)}"
    where = f"Current position: {state.stage} ({state.status})."
    return None if where in state.notes else f"the notes are stale: {state.notes}"


@of_documents
def in_sequence(played: Played, state: RunState, _report: RunReport) -> str | None:
    taken = lifecycle_of(played).taken(state.artifacts)
    done = 0
    for request in played.calls:
        if taken[request.step].agent != request.agent:
            return f"{request.agent} was called for {request.step}"
        at = taken.names.index(request.step)
        if at > done + 1:
            return f"{request.step} was begun after {taken.names[done]}"
        done = at
    return None if state.completed == taken.names[: len(state.completed)] else f"completed: {state.completed}"


@of_documents
def asked_first(played: Played, state: RunState, _report: RunReport) -> str | None:
    decided = [data["gate"] for data in played.told("gate.decided")]
    begun = {request.step for request in played.calls}
    for _, gate in lifecycle_of(played).gates:
        opened = gate.opens in begun or gate.opens == state.stage == lifecycle_of(played).names[-1]
        if opened and f"approve-{lifecycle_of(played)[gate.opens].slug}" not in decided:
            return f"{gate.opens} without approval"
    return None


@of_documents
def complete_is_earned(played: Played, state: RunState, _report: RunReport) -> str | None:
    complete = played.finished.status is Status.COMPLETE
    if complete != (state.status is TaskStatus.COMPLETE):
        return "the run and the task do not end alike"
    for judge, _ in lifecycle_of(played).judges if complete else ():
        fault = last_fault(played, judge.name)
        if verdicts(played, judge.slug)[-1:] != ["positive"] or fault:
            return f"complete, and {judge.name} {fault or 'was negative'}"
    return None


@of_documents
def proven_by_artifact(played: Played, state: RunState, _report: RunReport) -> str | None:
    """By what the agents really did: whose artifact was no good one must not have let the task pass."""
    lifecycle = lifecycle_of(played)
    for stage in lifecycle.working:
        fault = last_fault(played, stage.name)
        if fault and not stage.judging and lifecycle.before(stage.name, state.stage):
            return f"the task is at {state.stage}, and {stage.agent} {fault}"
    return None


def last_fault(played: Played, stage: str) -> str | None:
    """What the stage's agent did wrong when it was called last, so that its artifact cannot count."""
    asked = [number for number, call in enumerate(played.calls) if call.step == stage]
    fault = played.schedule.get(asked[-1]) if asked else None
    if fault == "writes nothing" and _wrote_before(played, asked):
        return None
    return None if fault in HARMLESS else fault


def _wrote_before(played: Played, asked: list[int]) -> bool:
    """Whether an earlier try of the last dispatch left a good artifact in its layer, in which the next one goes on."""
    calls = played.calls
    tries = [number for number in asked[:-1] if calls[number].dispatch == calls[asked[-1]].dispatch]
    return any(played.schedule.get(number) in (*HARMLESS, *STRAYS) for number in tries)


def verdicts(played: Played, judge: str) -> list[str]:
    return [data["verdict"] for data in played.told(f"{judge}.result")]


def at_most_twice(played: Played) -> str | None:
    """A person who rejects sends it back as well, and then a judge may do so once more."""
    rejected = sum(data["choice"] == "reject" for data in played.told("gate.decided"))
    most = 1 + REMEDIATIONS + 2 * rejected
    lifecycle, calls = lifecycle_of(played), played.calls
    again = (stage.name for stage in lifecycle.stages if lifecycle.repeated(stage))
    times = {name: len({request.dispatch for request in calls if request.step == name}) for name in again}
    much = [f"{count} times {name}" for name, count in times.items() if count > most]
    return ", ".join(much) or None


def governance_kept(played: Played) -> str | None:
    own = ("harness/run-state.md", "harness/runs/", ".interlock/")
    changed = played.altered(lambda path: is_governed(path) and not path.startswith(own))
    return f"changed: {', '.join(changed)}" if changed else None


@of_documents
def stops_say_why(_played: Played, state: RunState, report: RunReport) -> str | None:
    if (state.status is TaskStatus.BLOCKED) != bool(state.stop_reason):
        return f"{state.status} with stop reason {state.stop_reason!r}"
    last = [row[2] for row in report.rows[Log.STOPS]][-1:]
    return None if not state.stop_reason or last == [state.stop_reason] else "the report has another last stop"


def peoples_word_counts(played: Played) -> str | None:
    """Where the task stands is what a person said, since the run stops there."""
    if "a person moves the task" in played.schedule.values() and COUNTED not in (played.text(run_state.PATH) or ""):
        return f"{run_state.PATH} has another count"
    return None


def rehearsal(lifecycle: Lifecycle = LIFECYCLE) -> Rehearsal:
    """The example task in a workspace as `init` makes it."""
    files, process = example_files(lifecycle), harness_of(lifecycle.stages)

    def make(agent: Agent, options: Options) -> Simulation:
        world = SimulatedWorld(files, agent)
        return Governed(process, HarnessInputs(TASK), world, options=options, lifecycle=lifecycle)

    return Rehearsal(
        make,
        deviations=deviations(lifecycle),
        invariants=(
            *ALWAYS,
            ENDS,
            Invariant("run-state and report can be read and agree", documents_agree),
            Invariant("no stage is skipped, and only its own agent carries it out", in_sequence),
            Invariant("nothing is built or complete without a person's word", asked_first),
            Invariant("no stage is passed without an artifact that is good", proven_by_artifact),
            Invariant("complete means that the last QA was positive", complete_is_earned),
            Invariant("QA sends a task back at most twice", at_most_twice),
            Invariant("what governs the workflow stays as it was", governance_kept),
            Invariant("whoever stops says why", stops_say_why),
            Invariant("where a person moves the task, there it stands", peoples_word_counts),
        ),
        base=builds,
        # each stage and each way back, with the engine's one repeat, and three crashes
        longest=(len(lifecycle.working) + lifecycle.way_back * REMEDIATIONS) * (1 + RETRIES.contract) + 3,
    )

"""The harness against everything its agents can do, with a person who approves whatever is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from interlock.engine import (
    ALWAYS,
    ENDS,
    LIARS,
    STANDARD,
    Act,
    Deviation,
    GateDecision,
    Invariant,
    Options,
    Played,
    Rehearsal,
    SimulatedWorld,
    Simulation,
    Status,
    best,
    waiting_gate,
)
from interlock.engine.exploration import PEOPLES_FILE
from interlock.engine.journal import Journal
from interlock.engine.keys import sha256
from interlock.engine.people import record_decision
from interlock.engine.playing import Finished
from interlock.engine.simulation import Agent, instantly, virtual_stamp
from interlock.errors import DocumentInvalid
from interlock.playbooks.harness import run_report, run_state
from interlock.playbooks.harness.briefs import RETRIES
from interlock.playbooks.harness.inputs import HarnessInputs
from interlock.playbooks.harness.lifecycle import AGENTS, REMEDIATIONS, SEQUENCE, WORKING, Stage, TaskStatus
from interlock.playbooks.harness.playbook import harness
from interlock.playbooks.harness.run_report import Log, RunReport, report_path
from interlock.playbooks.harness.run_state import RunState
from interlock.playbooks.harness.task_file import is_governed

TASK = "TASK-001"


@dataclass
class Attended(Simulation):
    """A simulated run with a person beside it, who approves at every gate."""

    def go(self, **how: Any) -> Finished:
        close = super().go(**how)
        while close.gate is not None:
            self.decide("approve")
            close = super().go(**how)
        return close

    def decide(self, choice: str, *, who: str = "ann", note: str = "") -> None:
        """What the person says at the gate."""
        instantly(self._decide(choice, who, note))

    async def _decide(self, choice: str, who: str, note: str) -> None:
        waiting = waiting_gate(self.lines)
        assert waiting is not None
        assert self.world.records.identity is not None
        journal = Journal(
            self.medium,
            run_id=self.lines[0].run,
            genesis=sha256(self.world.records.identity),
            clock=virtual_stamp,
        )
        decision = GateDecision(choice, who, virtual_stamp(), note, waiting.digests)
        record_decision(journal, waiting, decision, self.world.records.objects)
        self.lines = journal.lines


# -- what agents do


CODE = "greet.py"


def builds(request: Any) -> Act:
    """The best that an agent can do; a Build changes code as well, each time."""
    act = best(request)
    return replace(act, files={**act.files, CODE: f"# {request.dispatch}\n"}) if request.contract.must_change else act


# -- what they do wrong


def _artifact(request: Any) -> str:
    return str(request.contract.artifacts[0].path)


def _writes(text: str) -> Any:
    return lambda request, act: replace(act, files={**act.files, _artifact(request): text})


def _says(message: str) -> Any:
    return lambda _request, act: replace(act, files={}, message=message)


def also(path: str) -> Any:
    return lambda _request, act: replace(act, files={**act.files, path: "mine\n"})


def negative(_request: Any, act: Act) -> Act:
    """A QA that finds something."""
    changed = {
        path: str(text).replace("Passed", "Issues Found").replace("- None", "- It does not work")
        for path, text in act.files.items()
    }
    return replace(act, files=changed)


def is_qa(request: Any) -> bool:
    return bool(request.agent == AGENTS[Stage.QA])


# -- what people do to the documents of the run while an agent works

REMARK = "A remark of a person."
COUNTED = "- Remediation Count: 1"


def remarked(request: Any, act: Act) -> Act:
    """A remark at the end of both documents: in run-state that is among the notes."""
    there = {path: request.within.facts(path).content for path in (run_state.PATH, report_path(TASK))}
    return replace(
        act, people={**act.people, **{path: b"%s\n%s\n" % (text, REMARK.encode()) for path, text in there.items()}}
    )


def moved(request: Any, act: Act) -> Act:
    """A person changes where the task stands."""
    text = request.within.facts(run_state.PATH).content.decode()
    return replace(act, people={**act.people, run_state.PATH: text.replace("- Remediation Count: 0", COUNTED)})


DEVIATIONS = (
    *(one for one in STANDARD if one.name != "lies"),
    *LIARS,
    Deviation("writes nothing", lambda _request, act: replace(act, files={})),
    Deviation("gives half a result", _writes("# Done\n\nValidation Result: Passed\n"), is_qa),
    Deviation("says error", _says("It cannot be done.\n\nStatus: error\n")),
    Deviation("changes run-state", also(run_state.PATH)),
    Deviation("changes a standard", also("harness/standards/task-lifecycle.md")),
    Deviation("finds issues", negative, is_qa),
    Deviation("a person makes remarks", remarked, lambda request: bool(request.agent == AGENTS[Stage.BUILD])),
    Deviation("a person moves the task", moved, lambda request: bool(request.agent == AGENTS[Stage.DESIGN])),
)
HARMLESS = (
    *("says nothing", "writes outside", "a person makes remarks", "a person moves the task"),
    *(one.name for one in LIARS),  # `ALWAYS` looks after these
)
"""Deviations beside which an artifact may still be a good one: it is the evidence, whatever else was not taken over."""
STRAYS = ("changes run-state", "changes a standard")
"""Deviations of agents that do their own work as well."""


# -- what must hold all the same; documents that cannot be read break the first of these, and the others look away


def documents(played: Played) -> tuple[RunState, RunReport]:
    files = played.simulation.world.tree.files
    state = run_state.parse_text(files[run_state.PATH].decode())
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
    done = 0
    for request in played.simulation.world.calls:
        stage = Stage(request.step)
        if AGENTS[stage] != request.agent:
            return f"{request.agent} was called for {stage}"
        at = SEQUENCE.index(stage)
        if at > done + 1:
            return f"{stage} was begun after {SEQUENCE[done]}"
        done = at
    return None if state.completed == SEQUENCE[: len(state.completed)] else f"completed: {state.completed}"


@of_documents
def asked_first(played: Played, state: RunState, _report: RunReport) -> str | None:
    decided = [line.data["gate"] for line in played.simulation.lines if line.event == "gate.decided"]
    built = any(request.agent == AGENTS[Stage.BUILD] for request in played.simulation.world.calls)
    if built and "approve-build" not in decided:
        return "built without approval"
    if state.status is TaskStatus.COMPLETE and "approve-complete" not in decided:
        return "complete without approval"
    return None


@of_documents
def complete_is_earned(played: Played, state: RunState, _report: RunReport) -> str | None:
    complete = played.finished.status is Status.COMPLETE
    if complete != (state.status is TaskStatus.COMPLETE):
        return "the run and the task do not end alike"
    if complete and verdicts(played)[-1:] != ["positive"]:
        return "complete after a negative QA"
    fault = last_fault(played, Stage.QA)
    return f"complete, and QA {fault}" if complete and fault else None


@of_documents
def proven_by_artifact(played: Played, state: RunState, _report: RunReport) -> str | None:
    """By what the agents really did: whose artifact was no good one must not have let the task pass."""
    for stage in WORKING:
        fault = last_fault(played, stage)
        if fault and stage is not Stage.QA and stage.before(state.stage):
            return f"the task is at {state.stage}, and {AGENTS[stage]} {fault}"
    return None


def last_fault(played: Played, stage: Stage) -> str | None:
    """What the stage's agent did wrong when it was called last, so that its artifact cannot count."""
    asked = [number for number, call in enumerate(played.simulation.world.calls) if call.step == stage]
    fault = played.schedule.get(asked[-1]) if asked else None
    if fault == "writes nothing" and _wrote_before(played, asked):
        return None
    return None if fault in HARMLESS else fault


def _wrote_before(played: Played, asked: list[int]) -> bool:
    """Whether an earlier try of the last dispatch left a good artifact in its layer, in which the next one goes on."""
    calls = played.simulation.world.calls
    tries = [number for number in asked[:-1] if calls[number].dispatch == calls[asked[-1]].dispatch]
    return any(played.schedule.get(number) in (*HARMLESS, *STRAYS) for number in tries)


def verdicts(played: Played) -> list[str]:
    return [line.data["verdict"] for line in played.simulation.lines if line.event == "qa.result"]


def at_most_twice(played: Played) -> str | None:
    """A person who rejects sends it back as well, and then QA may do so once more."""
    builds = {request.dispatch for request in played.simulation.world.calls if request.agent == AGENTS[Stage.BUILD]}
    decided = (line.data["choice"] for line in played.simulation.lines if line.event == "gate.decided")
    judged, most = len(verdicts(played)), 3 + 2 * sum(choice == "reject" for choice in decided)
    return None if judged <= most and len(builds) <= most else f"{judged} QAs and {len(builds)} Builds"


def governance_kept(played: Played) -> str | None:
    tree = played.simulation.world.tree
    if not played.simulation.world.calls:
        return None
    first = tree.at(0)
    changed = [
        path
        for path in {**first, **tree.files}
        if is_governed(path)
        and not path.startswith(("harness/run-state.md", "harness/runs/", ".interlock/"))
        and tree.files.get(path) != first.get(path)
    ]
    return f"changed: {', '.join(changed)}" if changed else None


@of_documents
def stops_say_why(_played: Played, state: RunState, report: RunReport) -> str | None:
    if (state.status is TaskStatus.BLOCKED) != bool(state.stop_reason):
        return f"{state.status} with stop reason {state.stop_reason!r}"
    last = [row[2] for row in report.rows[Log.STOPS]][-1:]
    return None if not state.stop_reason or last == [state.stop_reason] else "the report has another last stop"


def peoples_words_stay(played: Played) -> str | None:
    """Remarks are where they were written; where the task stands is what a person said, since the run stops there."""
    files, people = played.simulation.world.tree.files, played.simulation.world.people
    faults = played.schedule.values()
    expected = {path: REMARK for path in people if "a person makes remarks" in faults and path != PEOPLES_FILE}
    if "a person moves the task" in faults:
        expected = {run_state.PATH: COUNTED}
    lost = [path for path, words in expected.items() if is_governed(path) and words not in files[path].decode()]
    return f"lost in {', '.join(lost)}" if lost else None


LONGEST = (len(WORKING) + 2 * REMEDIATIONS) * (1 + RETRIES.contract) + 3
"""Calls that no run can need: each stage and each way back, with the engine's one repeat, and three crashes."""


def rehearsal(files: Mapping[str, str]) -> Rehearsal:
    """The example task in a workspace with these files."""

    def make(agent: Agent, options: Options) -> Simulation:
        return Attended(harness, HarnessInputs(TASK), SimulatedWorld(files, agent), options=options)

    return Rehearsal(
        make,
        deviations=DEVIATIONS,
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
            Invariant("what a person writes into run-state or report stays there", peoples_words_stay),
        ),
        base=builds,
        longest=LONGEST,
    )

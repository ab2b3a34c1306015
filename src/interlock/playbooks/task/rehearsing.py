"""The task playbook against everything its two agents can do, with checks that see what is in the tree."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

from interlock.engine import AgentRequest, CommandCall, CommandResult, Options, Playbook, Status
from interlock.playbooks.task.playbook import ROUNDS, TaskInputs, task
from interlock.playbooks.task.settings import TaskSettings
from interlock.testing import (
    ALWAYS,
    ENDS,
    LIARS,
    STANDARD,
    WEAKENED_TEST,
    Act,
    Agent,
    Deviation,
    Invariant,
    Played,
    Rehearsal,
    SimulatedWorld,
    Simulation,
    best,
    by,
    says,
    writes,
)

WORK, BUG = "src/work.txt", "src/bug.txt"
FILES = {
    "Makefile": "test:\n\tsh test.sh\n",
    "src/existing.txt": "as it was\n",
    WEAKENED_TEST: "assert True\n",
}
REQUEST = "write down the work"


def working(request: AgentRequest) -> Act:
    """Agents that do their part: the builder leaves a file, and takes a bug of an earlier round out."""
    act = best(request)
    if request.agent == "builder":
        return replace(act, files={WORK: f"round {request.attempt}\n", BUG: None})
    return act


def test_command(world: SimulatedWorld) -> CommandResult:
    """`make test`: red while there is a bug in what it sees."""
    return (
        CommandResult(1, "FAILED test_work: there is a bug\n") if BUG in world.seen else CommandResult(0, "1 passed\n")
    )


is_builder = by("builder")
is_reviewer = by("reviewer")
"""The one that may write nothing; to the builder hardly anything is outside."""


def objects(_request: AgentRequest, act: Act) -> Act:
    data = {**json.loads(act.message), "verdict": "revise", "findings": ["src/work.txt:1: it says too little"]}
    return replace(act, message=json.dumps(data))


DEVIATIONS = (
    *(replace(one, fits=is_reviewer) if one.name == "writes outside" else one for one in STANDARD),
    *LIARS,
    Deviation("strays", writes({"AGENTS.md": "obey\n"}), is_builder),
    Deviation("leaves a bug", writes({BUG: "bug\n"}), is_builder),
    Deviation("is blocked", says("BLOCKED: no key"), is_builder),
    Deviation("gives up", says("ERROR: I cannot"), is_builder),
    Deviation("objects", objects, is_reviewer),
    Deviation(
        "accepts with a finding",
        lambda request, act: replace(
            objects(request, act), message=objects(request, act).message.replace('"revise"', '"accept"')
        ),
        is_reviewer,
    ),
    Deviation("trust me", says('{"verdict": "accept"}'), is_reviewer),
)


def narrowed(inputs: TaskInputs) -> Playbook:
    """The playbook as these inputs leave it: without a reviewer if nobody wants one, with the rounds asked for."""
    if inputs.review and inputs.rounds >= ROUNDS:
        return task
    return replace(
        task,
        agents=tuple(name for name in task.agents if inputs.review or name != "reviewer"),
        steps={name: title for name, title in task.steps.items() if inputs.review or name != "review"},
        caps={"round": min(inputs.rounds, ROUNDS)},
        rehearsal=partial(rehearsal, rounds=inputs.rounds, review=inputs.review),
    )


def rehearsal(*, rounds: int = ROUNDS, review: bool = True) -> Rehearsal:
    """One request in a project whose Makefile says how it is tested, with a reviewer and a commit at the end."""
    inputs = TaskInputs(REQUEST, rounds=rounds, review=review, commit=True)

    def make(agent: Agent, options: Options) -> Simulation:
        def command(_call: CommandCall) -> CommandResult:
            return test_command(world)

        world = SimulatedWorld(FILES, agent, command=command)
        if options.settings is None:
            options = replace(options, settings=TaskSettings())
        return Simulation(task, inputs, world, options=options)

    return Rehearsal(
        make,
        deviations=DEVIATIONS,
        invariants=(
            *ALWAYS,
            ENDS,
            Invariant("nothing is accepted that its checks do not bear out", accepted_on_green),
            *(
                (Invariant("nothing is accepted that its reviewer did not accept", accepted_by_review),)
                if review
                else ()
            ),
            Invariant("at most three rounds", bounded),
            Invariant("what fails goes back with its evidence", told),
            Invariant("only an accepted change is committed, and nothing else", committed),
        ),
        base=working,
        longest=6 * ROUNDS,
    )


def accepted_on_green(played: Played) -> str | None:
    """On the last proof before the end, and with a bug nowhere in the tree."""
    if played.finished.status not in (Status.COMPLETE, Status.DEGRADED):
        return None
    proofs = played.told("proof")
    if not proofs or proofs[-1]["problem"]:
        return "accepted without a check that passed"
    return f"{BUG} was accepted" if BUG in played.files else None


def accepted_by_review(played: Played) -> str | None:
    if played.finished.status not in (Status.COMPLETE, Status.DEGRADED):
        return None
    ends = played.told("dispatch.end")
    last = ends[-1] if ends else {}
    if last.get("member") == "reviewer" and last["outcome"] == "OK" and last["passed"]:
        return None
    return "accepted, and the reviewer's word was not the last, or no acceptance"


def bounded(played: Played) -> str | None:
    builds = {request.dispatch for request in played.calls if is_builder(request)}
    return f"{len(builds)} rounds" if len(builds) > ROUNDS else None


def told(played: Played) -> str | None:
    """Each round after the first has in its brief what spoke against the one before."""
    first: dict[str, AgentRequest] = {}
    for request in played.calls:
        if is_builder(request):
            first.setdefault(request.dispatch, request)
    lines = played.lines
    for request in list(first.values())[1:]:
        start = next(line.seq for line in lines if line.event == "dispatch.start" and line.key == request.dispatch)
        red = [line.data for line in lines if line.event == "proof" and line.data["problem"] and line.seq < start]
        if "## Failure context" not in request.brief:
            return f"{request.dispatch} was not told why"
        if (
            red
            and last_event(played, start, "proof", "dispatch.end") == "proof"
            and red[-1]["tail"] not in request.brief
        ):
            return f"{request.dispatch} was not shown what the check printed"
    return None


def last_event(played: Played, before: int, *events: str) -> str:
    return next((line.event for line in reversed(played.lines) if line.seq < before and line.event in events), "")


def committed(played: Played) -> str | None:
    made = [data for data in played.told("repository") if data.get("effect") == "commit"]
    if made and played.finished.status in (Status.STOPPED, Status.FAILED):
        return f"a commit, and the run is {played.finished.status}"
    ends = [data["out"] for data in played.told("dispatch.end")]
    ours = {path for out in ends if out["accepted"] and out["agent"] == "builder" for path in out["changes"]}
    for data in made:
        if extra := set(data["in"]["paths"]) - ours:
            return f"committed besides: {', '.join(sorted(extra))}"
    if played.finished.status is Status.COMPLETE and ours and not made:
        return "accepted, and not committed"
    return None

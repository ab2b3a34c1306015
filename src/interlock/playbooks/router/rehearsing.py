"""The router against everything its one agent can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from interlock.engine import AgentRequest, Options, Status
from interlock.playbooks.router.playbook import RouterInputs, router
from interlock.playbooks.router.problems import TASK_LIST
from interlock.testing import (
    ALWAYS,
    LIARS,
    STANDARD,
    Act,
    Agent,
    Deviation,
    Invariant,
    Played,
    Rehearsal,
    SimulatedWorld,
    Simulation,
    best,
)


def says(status: str) -> Deviation:
    return Deviation(f"says {status}", lambda _request, act: replace(act, message=f"Status: {status}\n"))


def working(request: AgentRequest) -> Act:
    """An agent that does its part: a file, and a word that it is done."""
    return replace(best(request), files={"src/work.txt": "done\n"})


def edits_the_list(_request: AgentRequest, act: Act) -> Act:
    return replace(act, people={TASK_LIST: "# Tasks\n\nnone left\n"})


STATUSES = ("partial", "blocked", "failed", "done")
GIVES_UP = Deviation("gives up in words", lambda _request, act: replace(act, message="I could not do it.\n"))
LATE = Deviation("answers late", lambda request, act: replace(act, seconds=request.timeout_s + 1))
CHANGES_THE_ROUTING = Deviation(
    "changes the routing",
    lambda _request, act: replace(act, files={**act.files, ".opencode/command/implement.md": "mine"}),
)


DISHONEST = {GIVES_UP.name, "passes against its own evidence"}
EDITS_THE_LIST = Deviation("a person edits the task list", edits_the_list)


def rehearsal(files: Mapping[str, str]) -> Rehearsal:
    """One command in a workspace with these files."""

    def make(agent: Agent, options: Options) -> Simulation:
        world = SimulatedWorld(files, agent)
        return Simulation(router, RouterInputs("/implement 259 be brief"), world, options=options)

    return Rehearsal(
        make,
        deviations=(*STANDARD, *LIARS, *map(says, STATUSES), GIVES_UP, LATE, CHANGES_THE_ROUTING, EDITS_THE_LIST),
        invariants=(
            *ALWAYS,
            Invariant("exactly one agent is asked", asked_once),
            Invariant("success is never claimed without a verdict", no_false_success),
            Invariant("the task list and the configuration stay as they were", configuration_kept),
        ),
        base=working,
    )


def asked_once(played: Played) -> str | None:
    dispatches = {request.dispatch for request in played.simulation.world.calls}
    return None if len(dispatches) == 1 else f"{len(dispatches)} dispatches"


def no_false_success(played: Played) -> str | None:
    """Complete only when the one agent gave an answer that says so, in time."""
    if played.finished.status is not Status.COMPLETE:
        return None
    ends = [line.data for line in played.simulation.lines if line.event == "dispatch.end"]
    if not ends or (ends[-1]["outcome"], ends[-1]["token"]) != ("OK", "completed"):
        return "complete without the token"
    fault = played.schedule.get(len(played.simulation.world.calls) - 1)
    return f"complete, although its agent {fault}" if fault in DISHONEST else None


def configuration_kept(played: Played) -> str | None:
    tree = played.simulation.world.tree
    first = {**tree.at(0), **{path: str(text).encode() for path, text in played.simulation.world.people.items()}}
    changed = [
        path
        for path in first
        if (path == TASK_LIST or path.startswith(".opencode/")) and tree.files.get(path) != first[path]
    ]
    return f"changed: {', '.join(changed)}" if changed else None

"""The router against everything its one agent can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from interlock.engine import AgentRequest, Status
from interlock.playbooks.router.playbook import RouterInputs, router
from interlock.playbooks.router.problems import TASK_LIST
from interlock.testing import (
    ALWAYS,
    LIARS,
    STANDARD,
    Act,
    Deviation,
    Invariant,
    Played,
    Rehearsal,
    best,
    meanwhile,
    says,
    simulated,
    writes,
)


def working(request: AgentRequest) -> Act:
    """An agent that does its part: a file, and a word that it is done."""
    return replace(best(request), files={"src/work.txt": "done\n"})


WORDS = tuple(Deviation(f"says {one}", says(f"Status: {one}\n")) for one in ("partial", "blocked", "failed", "done"))
GIVES_UP = Deviation("gives up in words", says("I could not do it.\n"))
LATE = Deviation("answers late", lambda request, act: replace(act, seconds=request.timeout_s + 1))
CHANGES_THE_ROUTING = Deviation("changes the routing", writes({".opencode/command/implement.md": "mine"}))
EDITS_THE_LIST = Deviation("a person edits the task list", meanwhile({TASK_LIST: "# Tasks\n\nnone left\n"}))
DISHONEST = {GIVES_UP.name, "passes against its own evidence"}


def rehearsal(files: Mapping[str, str]) -> Rehearsal:
    """One command in a workspace with these files."""
    return Rehearsal(
        simulated(router, RouterInputs("/implement 259 be brief"), files),
        deviations=(*STANDARD, *LIARS, *WORDS, GIVES_UP, LATE, CHANGES_THE_ROUTING, EDITS_THE_LIST),
        invariants=(
            *ALWAYS,
            Invariant("exactly one agent is asked", asked_once),
            Invariant("success is never claimed without a verdict", no_false_success),
            Invariant("the task list and the configuration stay as they were", configuration_kept),
        ),
        base=working,
    )


def asked_once(played: Played) -> str | None:
    dispatches = {request.dispatch for request in played.calls}
    return None if len(dispatches) == 1 else f"{len(dispatches)} dispatches"


def no_false_success(played: Played) -> str | None:
    """Complete only when the one agent gave an answer that says so, in time."""
    if played.finished.status is not Status.COMPLETE:
        return None
    ends = played.told("dispatch.end")
    if not ends or (ends[-1]["outcome"], ends[-1]["token"]) != ("OK", "completed"):
        return "complete without the token"
    fault = played.schedule.get(len(played.calls) - 1)
    return f"complete, although its agent {fault}" if fault in DISHONEST else None


def configuration_kept(played: Played) -> str | None:
    changed = played.altered(lambda path: path == TASK_LIST or path.startswith(".opencode/"))
    return f"changed: {', '.join(changed)}" if changed else None

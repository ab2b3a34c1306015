"""The rehearsal of any flow, without further work: what can go otherwise than well follows from its steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from interlock.engine import AgentRequest, Status
from interlock.flows import texts
from interlock.flows.calls import SEVERITY
from interlock.flows.compiling import Find, compiled, samples
from interlock.flows.tree import AgentStep, CallStep, Flow, Repeat, RunStep, Step, Together, walk
from interlock.testing import (
    ALWAYS,
    ANSWERS,
    COMMANDS,
    ENDS,
    GATES,
    LIARS,
    STANDARD,
    VERDICTS,
    Act,
    Agent,
    Invariant,
    Played,
    Rehearsal,
    best,
    other_words,
    simulated,
)

UNKNOWN = 5000
"""Calls that a path of a called playbook may make, which is bounded by its own rehearsal."""


def rehearsal(flow: Flow, call: Find | None = None) -> Rehearsal:
    """Every combination of verdicts, faults, results of commands and answers at gates, and what must hold.

    Args:
        call: finds the playbooks that it calls, by name.
    """
    steps = {step.name for step in walk(flow.steps)}
    reached: set[str] = set()
    playbook = compiled(flow, find=call, comes_to=reached.add)
    inputs = playbook.inputs(**samples(flow))
    severities = other_words(SEVERITY.tokens) if any(agent.says == "severity" for agent in flow.agents) else ()
    return Rehearsal(
        simulated(playbook, inputs, {}),
        deviations=(*STANDARD, *LIARS, *VERDICTS, *severities, *COMMANDS, *ANSWERS),
        invariants=(*ALWAYS, ENDS, GATES, *invariants(flow, texts_of_commands(flow, vars(inputs)))),
        base=_working(flow),
        longest=longest(flow),
        answers=True,
        unreached=lambda: sorted(steps - reached),
    )


def _working(flow: Flow) -> Agent:
    """Agents that do their part: whoever exists to change files changes one. What those of a called playbook may change
    is not known here; they say why they change nothing."""
    writes = {agent.role or agent.name: agent.writes for agent in flow.agents}

    def agent(request: AgentRequest) -> Act:
        act, contract = best(request), request.contract
        if contract is None or not contract.must_change or request.agent not in writes:
            return act
        path = writes[request.agent][0].replace("**", "work.txt").replace("*", "work")
        return replace(act, files={**act.files, path: f"{request.dispatch}, {request.attempt}\n"})

    return agent


def longest(flow: Flow) -> int:
    """Calls that no path can exceed, by the caps that are declared; with those that crashes cost."""
    return _calls(flow, flow.steps) + 10


def _calls(flow: Flow, steps: tuple[Step, ...]) -> int:
    total = 0
    for step in steps:
        match step:
            case AgentStep():
                total += _tries(flow, step)
            case Together():
                total += sum(_tries(flow, member) for member in step.members)
            case Repeat():
                total += step.at_most * _calls(flow, step.steps)
            case CallStep():
                total += UNKNOWN
    return total


def _tries(flow: Flow, step: AgentStep) -> int:
    """The first one, one repair of what breaks the contract, and the repeats that its agent is allowed."""
    return 2 + flow.agent(step.agent).retries


# -- what must hold


def texts_of_commands(flow: Flow, inputs: Mapping[str, object]) -> dict[str, str]:
    """The commands that must pass, by their steps."""
    must = (step for step in walk(flow.steps) if isinstance(step, RunStep) and step.must_pass)
    return {step.name: texts.fill_command(step.command, inputs) for step in must}


def invariants(flow: Flow, must: Mapping[str, str]) -> tuple[Invariant, ...]:
    """The rules that every flow keeps; `must`: the commands that must pass, by their steps."""
    caps = {step.name: step.at_most for step in walk(flow.steps) if isinstance(step, Repeat)}

    def within_caps(played: Played) -> str | None:
        turns = ((data["loop"], data["turn"]) for data in played.told("loop"))
        over = [f"turn {turn} of {name}" for name, turn in turns if turn > caps.get(name, turn)]
        return over[0] if over else None

    def complete_is_proven(played: Played) -> str | None:
        if played.finished.status is not Status.COMPLETE:
            return None
        last = {str(data["argv"][-1]): data["out"]["exit"] for data in played.told("command")}
        red = [name for name, command in must.items() if last.get(command, 0) != 0]
        return f"complete, although {red[0]} failed when it was run last" if red else None

    return (
        Invariant("no repeat goes beyond its cap", within_caps, of_the_run=True),
        Invariant("nothing is complete behind what must pass and failed", complete_is_proven, of_the_run=True),
    )

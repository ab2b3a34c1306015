"""The closed sets that tables are made of: how each kind of step can end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from interlock.flows.tree import (
    AgentStep,
    AskStep,
    CallStep,
    Flow,
    FlowAgent,
    Repeat,
    RunStep,
    Step,
    Together,
    walk,
)

VERDICTS = ("pass", "revise", "blocked", "failed")
"""From the best to the worst; so are all of these."""
SEVERITIES = ("none", "low", "medium", "high", "critical", "failed")
COMMANDS = ("passed", "failed")
GATE = ("approve", "reject")
CALLS = ("complete", "degraded", "stopped", "failed")
PROGRESS = ("moving", "stuck")
"""Of a repeat, for tables inside of it: whether this turn found something else than the one before."""
TURNS = ("left", "used up")
"""Of a repeat, for tables after it."""


def of_agent(agent: FlowAgent) -> tuple[str, ...]:
    return SEVERITIES if agent.says == "severity" else VERDICTS


def of_step(flow: Flow, step: Step) -> dict[str, tuple[str, ...]]:
    """The columns that a step offers to later tables, each with all it can be."""
    match step:
        case AgentStep():
            return {step.name: of_agent(flow.agent(step.agent))}
        case Together():
            own = {member.name: of_agent(flow.agent(member.agent)) for member in step.members}
            words = set(own.values())
            return {**own, step.name: words.pop()} if len(words) == 1 else own
        case RunStep():
            return {step.name: COMMANDS}
        case AskStep():
            return {step.name: tuple(step.choices) or GATE}
        case CallStep():
            return {step.name: CALLS}
        case Repeat():
            return {step.name: TURNS}
        case _:
            return {}


def worst(words: Iterable[str], known: tuple[str, ...]) -> str:
    return max(words, key=known.index)


def going_on(step: Step, offered: tuple[str, ...]) -> tuple[str, ...]:
    """The outcomes with which the run goes on where no table asks."""
    match step:
        case AgentStep():
            return offered[:-1] if offered == SEVERITIES else offered[:1]
        case RunStep(must_pass=False):
            return offered
        case _:
            return offered[:1]


def all_names(flow: Flow) -> Iterator[tuple[str, Step]]:
    """Every name that is given to a step or a member, in the order of the file."""
    for step in walk(flow.steps):
        yield step.name, step
        if isinstance(step, Together):
            yield from ((member.name, member) for member in step.members)

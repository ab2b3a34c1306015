"""A flow that nobody knows yet: whether it can be used and holds on every path, and how it reads for people."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from interlock.documents.reading import Source
from interlock.engine.forms import one_line
from interlock.engine.holds import broken
from interlock.engine.outlook import outlook
from interlock.engine.prompts import quoted
from interlock.engine.rehearsal import explore, variants
from interlock.flows import checking, format
from interlock.flows.compiling import compiled
from interlock.flows.format import AgentStep, AskStep, Decide, End, Flow, Repeat, RunStep, Together, step_name, walk

_FEW = 5


class Reviewed(NamedTuple):
    flow: Flow
    source: Source
    wrong: tuple[str, ...]
    """What does not hold with one deviation."""
    fewest: int
    most: int
    """Calls of agents."""


@lru_cache(maxsize=32)
def reviewed(yaml: str, path: str) -> Reviewed:
    """A flow, rehearsed; BadInput with all that is wrong with its text."""
    flow, source = format.read(yaml.encode(), path)
    checking.check(flow, source)
    playbook = compiled(flow)
    inputs = next(iter(variants(playbook)))
    found = [
        f"rehearsed: {why}, where {dict(path.schedule)}" for path in explore(playbook, inputs) for why in broken(path)
    ]
    takes = outlook(playbook, inputs)
    return Reviewed(flow, source, tuple(found[:_FEW]), takes.fewest, takes.most)


def outline(flow: Flow) -> str:
    """The steps as an indented list, tables with where each row leads."""
    lines: list[str] = []
    for step, at in walk(flow.steps):
        below = list[str]()
        match step:
            case AgentStep():
                made = f", which writes {', '.join(one.path for one in step.produces)}" if step.produces else ""
                said = f": the agent {step.agent}{made}"
            case Together():
                said, below = ", side by side:", [f"{name}: {one.agent}" for name, one in step.members.items()]
            case Repeat():
                said = f", at most {step.at_most} times, then: {step.when_used_up}"
            case RunStep():
                said = f": {quoted(step.command)}{', which must pass' if step.must else ''}"
            case AskStep():
                said = f": a person is asked: {one_line(step.question)} ({', '.join(step.choices or format.GATE)})"
            case Decide():
                said = ", a table:"
                for row in step.rows:
                    cells = ", ".join(f"{column} {' or '.join(words)}" for column, words in row.cells.items())
                    below.append(f"{cells} leads to: {row.then}")
            case End():
                said = f": it ends, {step.status}: {one_line(step.words)}"
        indent = "  " * (at.count("steps") - 1)
        lines += [f"{indent}- **{step_name(step)}**{said}", *(f"{indent}  - {one}" for one in below)]
    return "\n".join(lines)

"""A flow as a playbook like any other: rows of its agents' steps, inputs as a model, its texts (OWN-01)."""

from __future__ import annotations

from typing import Any

from pydantic import Field, create_model

from interlock.documents.model import Model
from interlock.engine.forms import Form
from interlock.engine.playbook import Playbook
from interlock.engine.prompts import filled
from interlock.engine.run import Outcome, Row, Run
from interlock.engine.simulation import WORK
from interlock.flows import texts
from interlock.flows.answers import Read, Weighed, Worked
from interlock.flows.format import Agent, AgentStep, Flow, Input, Repeat, Together, step_name, walk
from interlock.flows.playing import Performance

PROMPT = """\
{{ task }}
{% for one in quoted %}

### {{ one.title }}

{{ one.text | fence }}
{% endfor %}
"""


def compiled(flow: Flow, **more: Any) -> Playbook:
    """The flow as a playbook like any other."""
    rows = {name: _row(name, step, flow.agents[step.agent]) for name, step in _agent_steps(flow)}
    form = create_model(
        "Inputs", __base__=Model, **{texts.word(name): _field(one) for name, one in flow.inputs.items()}
    )

    async def play(run: Run, inputs: Model) -> Outcome:
        return await Performance(flow, rows, run, _known(flow, inputs)).whole()

    def key(inputs: Model, where: Any) -> str:
        return filled(flow.key, _known(flow, inputs), flow.playbook)

    return Playbook(
        name=flow.playbook,
        play=play,
        inputs=form,
        rows=tuple(rows.values()),
        caps={step.name: step.at_most for step, _ in walk(flow.steps) if isinstance(step, Repeat)},
        headline=lambda inputs: _headline(flow, inputs),
        key=key,
        texts={"step": PROMPT},
        roles={one.role or name: one.instructions for name, one in flow.agents.items() if one.instructions},
        runners={one.role or name: one.runner for name, one in flow.agents.items() if one.runner},
        summary=flow.summary,
        files={"done.txt": f"{WORK.decode()}somebody\n"},  # rehearsed, its commands are green where all goes well
        **more,
    )


def _agent_steps(flow: Flow) -> list[tuple[str, AgentStep]]:
    found: list[tuple[str, AgentStep]] = []
    for step, _ in walk(flow.steps):
        if isinstance(step, AgentStep):
            found.append((step_name(step), step))
        elif isinstance(step, Together):
            found += step.members.items()
    return found


def _row(name: str, step: AgentStep, agent: Agent) -> Row:
    forms: dict[str | None, type[Form]] = {None: Worked, "reading": Read, "running": Weighed}
    return Row(
        agent.role or step.agent,
        "step",
        forms[agent.judges],
        judges=agent.judges is not None,
        writes=agent.writes,
        timeout_s=agent.time_limit,
        repeats=agent.retries,
        title=name,
    )


def _field(one: Input) -> Any:
    unsaid: Any = {"switch": False, "list": ()}.get(one.type, ...)
    default = tuple(one.default) if isinstance(one.default, list) else one.default
    return one.kind, Field(
        unsaid if default is None else default, description=one.help, json_schema_extra={"argument": one.argument}
    )


def _known(flow: Flow, inputs: Model) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in inputs}


def _headline(flow: Flow, inputs: Model) -> str:
    """What it is about, in the words that were given."""
    given = [str(getattr(inputs, texts.word(name))) for name, one in flow.inputs.items() if one.argument]
    return " ".join(given) or flow.summary

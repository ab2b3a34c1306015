"""A flow as a playbook like any other: rows of its agents' steps, inputs as a model, its texts (OWN-01)."""

from __future__ import annotations

from typing import Any

from pydantic import Field, create_model

from interlock.documents.model import Model
from interlock.engine.forms import Form
from interlock.engine.playbook import Playbook
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
    steps = [step for step, _ in walk(flow.steps)]
    calls = [one for step in steps for one in (step.members.values() if isinstance(step, Together) else [step])]
    rows = {step_name(one): _row(one, flow.agents[one.agent]) for one in calls if isinstance(one, AgentStep)}
    form = create_model(
        "Inputs", __base__=Model, **{texts.word(name): _field(one) for name, one in flow.inputs.items()}
    )

    async def play(run: Run, inputs: Model) -> Outcome:
        return await Performance(flow, rows, run, dict(inputs)).whole()

    def headline(inputs: Model) -> str:
        given = [str(getattr(inputs, texts.word(name))) for name, one in flow.inputs.items() if one.argument]
        return " ".join(given) or flow.summary

    return Playbook(
        name=flow.playbook,
        play=play,
        inputs=form,
        rows=tuple(rows.values()),
        caps={step.name: step.at_most for step in steps if isinstance(step, Repeat)},
        headline=headline,
        key=lambda inputs, where: texts.filled(flow.key, dict(inputs), flow.playbook),
        texts={"step": PROMPT},
        roles={one.role or name: one.instructions for name, one in flow.agents.items() if one.instructions},
        runners={one.role or name: one.runner for name, one in flow.agents.items() if one.runner},
        summary=flow.summary,
        files={"done.txt": f"{WORK.decode()}somebody\n"},  # rehearsed, its commands are green where all goes well
        **more,
    )


FORMS: dict[str | None, type[Form]] = {None: Worked, "reading": Read, "running": Weighed}
"""By how an agent judges."""


def _row(step: AgentStep, agent: Agent) -> Row:
    return Row(
        agent.role or step.agent,
        "step",
        FORMS[agent.judges],
        judges=agent.judges is not None,
        writes=agent.writes,
        timeout_s=agent.time_limit,
        repeats=agent.retries,
        title=step_name(step),
    )


def _field(one: Input) -> Any:
    unsaid: Any = {"switch": False, "list": ()}.get(one.type, ...)
    default = tuple(one.default) if isinstance(one.default, list) else one.default
    return one.kind, Field(
        unsaid if default is None else default, description=one.help, json_schema_extra={"argument": one.argument}
    )

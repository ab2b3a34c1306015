"""The calls of agents: what a step of a flow asks of whom, by which contract, and what the answer comes to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from interlock.contracts import (
    AllOf,
    AnswerFormat,
    Artifact,
    Claim,
    Contract,
    Custom,
    Evidence,
    Headings,
    Lines,
    Outcome,
    Structure,
    checks_in_text,
    nothing_to_run,
)
from interlock.engine import Dispatch, Kind, Quoted, Report, Retries
from interlock.flows import texts
from interlock.flows.outcomes import SEVERITIES
from interlock.flows.tree import AgentStep, FlowAgent, Product

SAID = "said"
SHORT = 2000
"""Characters up to which what an answer shows is remembered."""


def _said(message: str) -> Mapping[str, Any]:
    return {SAID: message}


VERDICT = AnswerFormat(
    {
        "DONE": Outcome.OK,
        "NEEDS_REVISION": Outcome.REVISE,
        "BLOCKED": Outcome.BLOCKED,
        "ERROR": Outcome.FAIL,
    },
    "DONE",
    from_text=_said,
)
SEVERITY = AnswerFormat(
    {**{word.upper(): Outcome.OK for word in SEVERITIES[:-1]}, "ERROR": Outcome.FAIL}, "NONE", from_text=_said
)
CONTRADICTED = "high"
"""How bad it is when a judge found nothing, and its own evidence says otherwise."""
SHOWN = "## Commands\n\n- `make test`: exit 0\n"
_NOTHING_FOUND = re.compile(r"^[*_`]{0,3}NONE[*_`]{0,3}:", re.MULTILINE)
_WORDS: Mapping[Outcome, str] = {
    Outcome.OK: "pass",
    Outcome.REVISE: "revise",
    Outcome.BLOCKED: "blocked",
    Outcome.FAIL: "failed",
}


def dispatch(
    step: AgentStep, agent: FlowAgent, values: Mapping[str, Any], *, quotes: Sequence[Quoted], turn: int, member: bool
) -> Dispatch:
    """One call of one agent.

    Args:
        values: what is filled into its texts.
        member: it is one of several side by side, and has a name of its own among them.
    """
    name = step.name if member else agent.name
    return Dispatch(
        agent=agent.role or agent.name,
        member=name if name != (agent.role or agent.name) else "",
        task=texts.fill(step.task, values),
        contract=contract(step, agent, values),
        inputs=tuple(texts.fill(path, values) for path in step.reads),
        context=tuple(quotes),
        writes=agent.writes,
        kind=Kind.JUDGE if agent.judges else Kind.PRODUCER,
        attempt=turn,
        timeout_s=agent.time_limit,
        retries=Retries(transient=agent.retries) if agent.retries else None,
        instructions=agent.instructions,
        role_source="the playbook itself" if agent.instructions else "",
    )


def contract(step: AgentStep, agent: FlowAgent, values: Mapping[str, Any]) -> Contract:
    """What it is held to. A step that produces no document, by an agent that may write, exists to change files."""
    runs = agent.judges == "running"
    return Contract(
        tuple(_artifact(product, values, runs=runs) for product in step.produces),
        SEVERITY if agent.says == "severity" else VERDICT,
        claim=_claims(agent),
        must_change=bool(agent.writes) and not step.produces,
    )


def _artifact(product: Product, values: Mapping[str, Any], *, runs: bool) -> Artifact:
    rules: list[Structure] = [Headings(product.headings)] if product.headings else []
    if product.lines:
        rules.append(Lines({label: None if words == ("any",) else words for label, words in product.lines.items()}))
    if runs:
        rules.append(Custom(lambda _text: None, SHOWN))  # whoever plays it shows what a pass needs
    structure = rules[0] if len(rules) == 1 else AllOf(*rules) if rules else None
    return Artifact(texts.fill(product.path, values), required=not product.optional, structure=structure)


def _claims(agent: FlowAgent) -> Callable[[Mapping[str, Any], Mapping[str, str]], Claim] | None:
    if not agent.judges:
        return None
    return partial(reported, severity=agent.says == "severity", shows=agent.judges == "running")


def reported(
    data: Mapping[str, Any], documents: Mapping[str, str], *, severity: bool = False, shows: bool = False
) -> Claim:
    """What a judge says that is content, with the commands that it reports in its answer and its documents."""
    message = str(data.get(SAID, ""))
    said = "\n".join((message, *documents.values()))
    passes = bool(_NOTHING_FOUND.search(message)) if severity else True
    return Claim(passes, (_evidence if len(said) <= SHORT else _evidence.__wrapped__)(said), shows, text=said)


# A rehearsal hears the same few answers on thousands of paths.
@lru_cache(maxsize=1024)
def _evidence(said: str) -> Evidence:
    return Evidence(checks=checks_in_text(said), nothing_to_run=nothing_to_run(said))


def outcome(report: Report, agent: FlowAgent) -> str:
    """The word for tables."""
    if agent.says == "verdict":
        return _WORDS[report.outcome]
    if report.outcome is Outcome.OK:
        return str(report.token).lower()
    return CONTRADICTED if report.outcome is Outcome.REVISE else SEVERITIES[-1]


def words(report: Report) -> str:
    """What it said, for others: its documents, else its answer; and what was wrong with it."""
    documents = [report.text(path) for path in report.artifacts]
    answer = report.answer().decode("utf-8", "replace")
    return "\n\n".join(filter(None, (*(documents or (answer,)), *report.complaints))).strip()

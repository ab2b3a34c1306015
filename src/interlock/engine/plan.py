"""A dispatch with everything that is known of it before an agent is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from interlock.agents.roster import BoundAgent
from interlock.agents.runner import AgentRequest
from interlock.contracts import Contract
from interlock.documents import FileFacts
from interlock.engine import brief
from interlock.engine.keys import sha256
from interlock.engine.model import Delegation, Dispatch, Kind, Quoted
from interlock.engine.options import Options
from interlock.engine.retry import Used
from interlock.engine.world import Layer
from interlock.workspace import Scope

if TYPE_CHECKING:
    from interlock.engine.identity import Identity
    from interlock.engine.recording import Slot

DEFAULT_TIMEOUT_S = 1800.0
DOCUMENTS = (".md", ".rst", ".adoc")
DOCUMENT_FOLDERS = {"docs", "adr"}


def is_for_documents(pattern: str) -> bool:
    """Whether a pattern of a write scope names documents and nothing else."""
    *folders, name = pattern.split("/")
    return name.endswith(DOCUMENTS) or not DOCUMENT_FOLDERS.isdisjoint(folders)


@dataclass(frozen=True)
class DispatchPlan:
    """What all tries of one dispatch share."""

    spec: Dispatch
    slot: Slot
    identity: Identity
    bound: BoundAgent
    scope: Scope
    delegation: Delegation
    session: str
    timeout_s: float
    instructions: str
    source: str
    """Where the instructions come from."""

    @property
    def step(self) -> str:
        return self.spec.step or self.slot.scope.step or self.spec.agent

    @property
    def marker(self) -> str:
        """Begins the marks of all processes of this dispatch."""
        return f"{self.identity.run_id}:{self.slot.key}:"

    @cached_property
    def layer(self) -> str:
        return layer_name(self.identity, self.slot)

    @property
    def writes_code(self) -> bool:
        """Whether it is called to change the project, and not only documents of it."""
        wanted = [pattern for pattern in self.spec.writes if not pattern.startswith("!")]
        return self.spec.kind is not Kind.JUDGE and not all(map(is_for_documents, wanted))

    def brief(
        self, *, attempt: int, deadline: str, failure: str = "", words: str = "", told: Quoted | None = None
    ) -> str:
        heading = brief.Heading(
            run_key=self.identity.key,
            playbook=self.identity.playbook,
            step=self.step,
            attempt=attempt,
            session=self.session,
            deadline=deadline,
            timeout_s=self.timeout_s,
            role=self.source,
        )
        return brief.render(self.spec, heading, instructions=self.instructions, failure=failure, words=words, told=told)


def make_plan(
    spec: Dispatch, slot: Slot, bound: BoundAgent, identity: Identity, options: Options, *, session: str
) -> DispatchPlan:
    """Settings go over the role, the role over the playbook; an outer dispatch bounds the scope (EN-39)."""
    role = bound.role
    if (writes := bound.writes if bound.writes is not None else role.writes if role else None) is not None:
        spec = replace(spec, writes=writes)
    owed = tuple(artifact.path for artifact in spec.contract.artifacts)
    scope = Scope(spec.scope, named=owed, protected=options.protected)
    for patterns in options.bounds:
        scope = scope.within(Scope(patterns))
    limit = spec.timeout_s or DEFAULT_TIMEOUT_S
    if not spec.timeout_fixed:
        limit = bound.timeout_s or (role.timeout_s if role else None) or limit
    return DispatchPlan(
        spec=spec,
        slot=slot,
        identity=identity,
        bound=bound,
        scope=scope,
        delegation=spec.delegation or place_of(spec.agent, options.parent, identity.playbook),
        session=session,
        timeout_s=limit,
        instructions=spec.instructions or (role.body if role else ""),
        source=spec.role_source or (role.source if role else "no role file"),
    )


def place_of(agent: str, parent: Delegation | None, playbook: str) -> Delegation:
    """Where a dispatch stands whose playbook does not say: one below the dispatch that started this run."""
    return Delegation(parent.depth + 1, (*parent.path, agent)) if parent else Delegation(1, (playbook, agent))


@dataclass(frozen=True)
class Preview:
    """What a dry run shows of a dispatch."""

    agent: str
    member: str
    step: str
    runner: str
    timeout_s: float
    writes: tuple[str, ...]
    brief: str

    @classmethod
    def of(cls, plan: DispatchPlan) -> Preview:
        spec = plan.spec
        text = plan.brief(attempt=spec.attempt, deadline="(at the start)")
        return cls(spec.agent, spec.name, plan.step, plan.bound.runner, plan.timeout_s, plan.scope.patterns, text)


@dataclass(frozen=True)
class Baseline:
    """What the artifacts were before the first try, for the question whether they are fresh (EN-40)."""

    facts: Mapping[str, FileFacts]

    @classmethod
    def of(cls, layer: Layer, contract: Contract) -> Baseline:
        facts = (layer.facts(artifact.path) for artifact in contract.artifacts)
        return cls({one.path: one if one.content is None else replace(one, content=None) for one in facts})

    def to_json(self) -> dict[str, Any]:
        return {path: facts.to_json() for path, facts in self.facts.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Mapping[str, Any]]) -> Baseline:
        return cls({path: FileFacts.from_json(facts) for path, facts in value.items()})


@dataclass(frozen=True)
class Try:
    """One call of the agent within a dispatch."""

    plan: DispatchPlan
    used: Used
    layer: Layer
    baseline: Baseline
    request: AgentRequest
    started: datetime


def layer_name(identity: Identity, slot: Slot) -> str:
    """The name of the layer in which a verb works: the same in every process that comes to it."""
    return f"{identity.run_id}-{sha256(slot.key.encode())[:12]}"

"""Who is called under which name: an agent's role, its runner, and what settings say of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from interlock.agents.roles import Role, RoleLibrary
from interlock.agents.runner import Runner
from interlock.errors import ConfigInvalid


class AgentFacts(Protocol):
    """What settings say of one agent."""

    @property
    def runner(self) -> str | None: ...
    @property
    def timeout_s(self) -> float | None: ...
    @property
    def model(self) -> str | None: ...
    @property
    def writes(self) -> tuple[str, ...] | None: ...


@dataclass(frozen=True)
class Bound:
    """How an agent's name is bound to something that can be called."""

    agent: str
    runner: str
    role: Role | None = None
    timeout_s: float | None = None
    model: str | None = None
    writes: tuple[str, ...] | None = None


class Book:
    """The agents of one playbook in one workspace."""

    def __init__(
        self,
        playbook: str,
        library: RoleLibrary,
        *,
        facts: Callable[[str], AgentFacts],
        default_runner: Callable[[], str],
        make_runner: Callable[[str], Runner],
        needs_roles: bool = True,
    ) -> None:
        self._playbook = playbook
        self._library = library
        self._facts = facts
        self._default_runner = default_runner
        self._make_runner = make_runner
        self._needs_roles = needs_roles
        self._bound: dict[str, Bound] = {}
        self._runners: dict[str, Runner] = {}

    def bind(self, agent: str) -> Bound:
        """How this agent is called; `ConfigInvalid` when there is no role or no runner for it (EN-44)."""
        if agent not in self._bound:
            role = self._library.find(self._playbook, agent) if self._needs_roles else None
            if role is None and self._needs_roles:
                raise ConfigInvalid(
                    f"Agent {agent} is not configured: no role of this name was found for {self._playbook}",
                    remedy=f"Write .interlock/agents/{self._playbook}/{agent}.md, or see: interlock doctor",
                )
            facts = self._facts(agent)
            name = facts.runner or self._default_runner()
            self._runner(name)
            model = facts.model or (role.model if role else None)
            self._bound[agent] = Bound(agent, name, role, facts.timeout_s, model, facts.writes)
        return self._bound[agent]

    def bind_all(self, agents: tuple[str, ...]) -> None:
        """Bind every agent that a playbook can need, or say which cannot be (CM-06)."""
        problems = []
        for agent in agents:
            try:
                self.bind(agent)
            except ConfigInvalid as problem:
                problems.append(problem)
        if len(problems) == 1:
            raise problems[0]
        if problems:
            raise ConfigInvalid(
                f"{len(problems)} agents cannot be called:\n"
                + "\n".join(f"  - {problem.what}" for problem in problems),
                remedy=problems[0].remedy,
            )

    def runner(self, bound: Bound) -> Runner:
        return self._runner(bound.runner)

    def _runner(self, name: str) -> Runner:
        if name not in self._runners:
            self._runners[name] = self._make_runner(name)
        return self._runners[name]

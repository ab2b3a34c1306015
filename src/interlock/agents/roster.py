"""Who is called under which name: an agent's role, its runner, and what settings say of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from interlock.agents.roles import Role, RoleLibrary
from interlock.agents.runner import Runner
from interlock.errors import ConfigInvalid


class NoRole(ConfigInvalid):
    """There is no role file for an agent."""


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
class BoundAgent:
    """How an agent's name is bound to something that can be called."""

    agent: str
    runner: str
    role: Role | None = None
    timeout_s: float | None = None
    model: str | None = None
    writes: tuple[str, ...] | None = None


class Roster:
    """The agents of one playbook in one workspace."""

    def __init__(
        self,
        playbook: str,
        library: RoleLibrary,
        *,
        facts: Callable[[str], AgentFacts],
        default_runner: Callable[[], str],
        make_runner: Callable[[str], Runner],
        needs_roles: bool | Collection[str] = True,
        runners: Mapping[str, str] | None = None,
    ) -> None:
        self._playbook = playbook
        self._library = library
        self._facts = facts
        self._default_runner = default_runner
        self._make_runner = make_runner
        self._needs_roles = needs_roles
        self._own_runners = runners or {}
        self._bound: dict[str, BoundAgent] = {}
        self._runners: dict[str, Runner] = {}

    def bind(self, agent: str) -> BoundAgent:
        """How this agent is called; `ConfigInvalid` when there is no role or no runner for it (EN-44)."""
        if agent not in self._bound:
            needed = self._needs_roles if isinstance(self._needs_roles, bool) else agent in self._needs_roles
            role = self._library.find(self._playbook, agent) if needed else None
            if role is None and needed:
                raise NoRole(
                    f"Agent {agent} is not configured: no role of this name was found for {self._playbook}",
                    remedy=f"Write .interlock/agents/{self._playbook}/{agent}.md, or see: interlock doctor",
                )
            facts = self._facts(agent)
            name = facts.runner or self._own_runners.get(agent) or self._default_runner()
            self._runner(name)
            model = facts.model or (role.model if role else None)
            self._bound[agent] = BoundAgent(agent, name, role, facts.timeout_s, model, facts.writes)
        return self._bound[agent]

    def bind_all(self, agents: tuple[str, ...]) -> None:
        """Bind every agent that a playbook can need, or say which cannot be (CM-06)."""
        causes: dict[str, list[tuple[str, ConfigInvalid]]] = {}
        for agent in agents:
            try:
                self.bind(agent)
            except NoRole as problem:
                causes.setdefault("", []).append((agent, problem))
            except ConfigInvalid as problem:
                causes.setdefault(problem.what, []).append((agent, problem))
        found = [self._one_cause([agent for agent, _ in of], of[0][1]) for of in causes.values()]
        if found:
            found[0].also = tuple(found[1:])
            raise found[0]

    def _one_cause(self, agents: list[str], problem: ConfigInvalid) -> ConfigInvalid:
        """A problem that several agents share, said once (EV-27)."""
        if len(agents) == 1:
            return problem
        if isinstance(problem, NoRole):
            named = ", ".join(agents)
            return ConfigInvalid(
                f"{len(agents)} agents of {self._playbook} are not configured: no role was found for {named}",
                remedy=f"Write .interlock/agents/{self._playbook}/{agents[0]}.md and so on, or see: interlock doctor",
            )
        return ConfigInvalid(
            f"{problem.what} ({len(agents)} agents of {self._playbook} need it)",
            where=problem.where,
            expected=problem.expected,
            found=problem.found,
            remedy=problem.remedy,
        )

    def runner(self, bound: BoundAgent) -> Runner:
        return self._runner(bound.runner)

    def _runner(self, name: str) -> Runner:
        if name not in self._runners:
            self._runners[name] = self._make_runner(name)
        return self._runners[name]

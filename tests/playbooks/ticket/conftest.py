"""A ticket in memory: a project under a simulated git, agents that do their part or do not."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from interlock import testing
from interlock.documents import load_yaml
from interlock.engine import AgentRequest, CommandCall, CommandResult, Done, Options, Playbook
from interlock.errors import InterlockError
from interlock.playbooks.ticket import TicketInputs, ticket
from interlock.playbooks.ticket.rehearsing import (
    HOME,
    PROJECT,
    REQUEST,
    TWO,
    Files,
    checks,
    with_trusted_docs,
    working,
    world,
)
from interlock.playbooks.ticket.settings import TicketSettings
from interlock.testing import Act, Change, Finished, SimulatedRepository, SimulatedWorld, Simulation
from interlock.workspace import Commit, Effect
from tests.playbooks.ticket.place import Place

agents_for = cache(working)


@dataclass
class Refusing(SimulatedRepository):
    """A repository that refuses one kind of effect, in these words."""

    kind: type = Commit
    said: str = ""

    async def carry_out(self, effect: Effect, mark: str) -> Done:
        return Done(self.said) if self.said and isinstance(effect, self.kind) else await super().carry_out(effect, mark)


@dataclass
class Bench(testing.Bench):
    """One workspace; `play` runs the ticket in it, again and again if asked."""

    playbook: Playbook = ticket
    files: dict[str, Any] = field(default_factory=lambda: with_trusted_docs(PROJECT))
    tasks: str = TWO
    git: SimulatedRepository = field(default_factory=SimulatedRepository)
    tool: Callable[[CommandCall, Files], CommandResult] = checks
    cores: str = "4"
    changes: dict[str, Change] = field(default_factory=dict)
    """Agent or member to what it does instead."""
    world: SimulatedWorld | None = None

    def agent(self, request: AgentRequest) -> Act:
        act = agents_for(self.tasks)(request)
        for name in (request.member, request.agent):
            if name in self.changes:
                return self.changes[name](request, act)
        return act

    def runs(self, call: CommandCall, files: Files) -> CommandResult:
        return self.tool(call, files)

    def simulate(self, request: str = REQUEST, *, flags: Mapping[str, Any] | None = None, **inputs: Any) -> Simulation:
        """A new run in the same workspace."""
        settings = TicketSettings(**inputs.pop("settings", {}))
        if self.world is None:
            self.world = world(self.agent, self.files, self.git, tool=self.runs, cores=self.cores)
        elif self._simulation is not None:
            self.world.records.identity = None
        options = Options(settings=settings, flags=flags or {}, max_parallel=8)
        self._simulation = Simulation(ticket, TicketInputs(request, **inputs), self.world, options=options)
        return self._simulation

    def play(self, request: str = REQUEST, **how: Any) -> Finished:
        return self.simulate(request, **how).go()

    def refuse(self, request: str = REQUEST, **how: Any) -> InterlockError:
        """The error of a ticket that is refused before anything came into being."""
        self.simulate(request, **how)
        return self.refused()

    # -- what came of it

    def decisions(self, rule: str) -> list[Any]:
        found = [line.data["out"] for line in self.lines if line.event == "decide"]
        return [one["result"] for one in found if one["rule"] == rule]

    def events(self, name: str) -> list[Any]:
        return [line.data for line in self.lines if line.event == name]

    @property
    def order(self) -> list[str]:
        return [line.event for line in self.lines]

    def brief(self, member: str, number: int = 0) -> str:
        """The task part of a brief."""
        found = [request.brief for request in self.requests if member in (request.member, request.agent)]
        return found[number].split("\n## Task\n", 1)[1]

    def scope(self, member: str) -> set[str]:
        """What the first call of an agent may change."""
        starts = [line for line in self.lines if line.event == "dispatch.start"]
        return next(set(line.data["writes"]) for line in starts if member in (line.data["member"], line.agent))

    def has(self, path: str) -> bool:
        return path in self.paths

    def put(self, path: str, text: str | None) -> None:
        self.edit(path, text)

    @property
    def progress(self) -> dict[str, Any]:
        found: dict[str, Any] = load_yaml(self.text(f"{HOME}/progress.yaml"), "progress.yaml")
        return found

    def task(self, name: str, iteration: int = 0) -> dict[str, Any]:
        data = load_yaml(self.text(f"{HOME}/iteration_{iteration}/tasks.yaml"), "tasks.yaml")
        found: dict[str, Any] = next(entry for entry in data["tasks"] if entry["id"] == name)
        return found

    @property
    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text(f"{HOME}/log.jsonl").splitlines()]

    @property
    def logged(self) -> list[str]:
        return [entry["event"].removeprefix("orchestrator.") for entry in self.log]


def in_order(text: str, *parts: str) -> bool:
    """Whether all parts stand in the text, one after the other."""
    place = 0
    for part in parts:
        found = text.find(part, place)
        assert found >= 0, f"{part!r} is not behind the parts before it"
        place = found + len(part)
    return True


def writes(path: str, text: str | None) -> Change:
    return lambda _request, act: replace(act, files={**act.files, path: text})


def only(text: str) -> Change:
    """Writes this instead of what it should."""
    return lambda _request, act: replace(act, files=dict.fromkeys(act.files, text))


def answers(status: str, **more: Any) -> Change:
    return lambda _request, act: replace(act, message=json.dumps({"status": status, **more}))


def at_attempts(numbers: set[int], change: Change) -> Change:
    return lambda request, act: change(request, act) if request.attempt in numbers else act


def nothing(_request: AgentRequest, act: Act) -> Act:
    return replace(act, files={})


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "work")

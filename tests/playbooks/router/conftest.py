"""A workspace of the router in memory, and runs in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from interlock.engine.journal import Line
from interlock.engine.model import Delegation
from interlock.engine.options import Options
from interlock.engine.playing import Finished
from interlock.engine.simulation import Act, SimulatedWorld, Simulation
from interlock.errors import InterlockError
from interlock.playbooks.router import RouterInputs, example_files, router
from interlock.playbooks.router.settings import RouterSettings

DONE = Act(message="Done.\n\nStatus: completed\n")


@dataclass
class Bench:
    """The example workspace; `play` runs a command in it against a simulated agent."""

    files: dict[str, str | bytes] = field(default_factory=lambda: dict(example_files()))
    simulation: Simulation | None = None

    def simulate(
        self,
        line: str,
        act: Act | Callable[[Any], Act] = DONE,
        *,
        parent: Delegation | None = None,
        **settings: Any,
    ) -> Simulation:
        agent = act if callable(act) else lambda _request: act
        options = Options(settings=RouterSettings(**settings), parent=parent)
        self.simulation = Simulation(router, RouterInputs(line), SimulatedWorld(self.files, agent), options=options)
        return self.simulation

    def play(self, line: str, act: Any = DONE, **how: Any) -> Finished:
        return self.simulate(line, act, **how).go()

    def refuse(self, line: str, **how: Any) -> InterlockError:
        """The error of a command that is refused before anything came into being."""
        simulation = self.simulate(line, **how)
        with pytest.raises(InterlockError) as caught:
            simulation.go()
        assert simulation.world.calls == []
        assert simulation.world.records.identity is None
        assert simulation.medium.content == b""
        return caught.value

    @property
    def lines(self) -> list[Line]:
        assert self.simulation is not None
        return self.simulation.lines

    def events(self, name: str) -> list[Mapping[str, Any]]:
        return [line.data for line in self.lines if line.event == name]

    @property
    def requests(self) -> list[Any]:
        assert self.simulation is not None
        return self.simulation.world.calls

    def context(self) -> dict[str, Any]:
        """The object that the agent was given."""
        brief = self.requests[0].brief
        found: dict[str, Any] = json.loads(brief.split("```json\n", 1)[1].split("\n```", 1)[0])
        return found


@pytest.fixture
def bench() -> Bench:
    return Bench()

"""A workspace of the router in memory, and runs in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from interlock import testing
from interlock.engine import Delegation, Playbook
from interlock.errors import InterlockError
from interlock.playbooks.router import RouterInputs, example_files, router
from interlock.testing import Act, Finished, Simulation

DONE = Act(message="Done.\n\nStatus: completed\n")


@dataclass
class Bench(testing.Bench):
    """The example workspace; `play` runs a command in it against a simulated agent."""

    playbook: Playbook = router
    files: dict[str, str | bytes] = field(default_factory=lambda: dict(example_files()))

    def simulate(
        self, line: str, act: Act | Callable[[Any], Act] = DONE, *, parent: Delegation | None = None, **settings: Any
    ) -> Simulation:
        self.base = act if callable(act) else lambda _request: act
        self.parent, self.settings = parent, settings
        return super().simulate(RouterInputs(line))

    def play(self, line: str, act: Any = DONE, **how: Any) -> Finished:
        return self.simulate(line, act, **how).go()

    def refuse(self, line: str, **how: Any) -> InterlockError:
        self.simulate(line, **how)
        error = self.refused()
        assert self.simulation.medium.content == b""
        return error

    def context(self) -> dict[str, Any]:
        """The object that the agent was given."""
        brief = self.requests[0].brief
        found: dict[str, Any] = json.loads(brief.split("```json\n", 1)[1].split("\n```", 1)[0])
        return found


@pytest.fixture
def bench() -> Bench:
    return Bench()

"""The `scripted` client: plays a scenario in place of agents, on real files in a real layer, without any model.

What happens is decided by `scenario.react`; `player`, a program that is started like any agent, does it.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from interlock.agents import command, player
from interlock.agents.client import Row, Seat, Start
from interlock.agents.output import TRANSCRIPT_LIMIT
from interlock.agents.reading import Json, parsed
from interlock.agents.scenario import Scenario, react
from interlock.agents.values import Ask

_PLAYER = Path(player.__file__)
_ACCOUNT = "played.json"


class Scripted:
    """An agent for every name: does what the scenario says, and else what form and contract ask for."""

    def __init__(self, scenario: Scenario | None = None) -> None:
        program = os.path.realpath(sys.executable)
        self.ROW = Row("scripted", "scripted agent", program, install="", sign_in="", tells_cost=True)
        self._scenario = scenario or Scenario()
        self._uses: Counter[int] = Counter()

    def start(self, ask: Ask, seat: Seat) -> Start:
        played = react(self._scenario, ask, self._uses, str(seat.root))
        if played.rule is not None:
            self._uses[played.rule] += 1
        order = {**played.order, "account": [f"{seat.exchange}/{_ACCOUNT}", played.usage.model_dump_json()]}
        argv = (seat.program, "-I", "-S", str(_PLAYER))
        return Start(argv, json.dumps(order), leaves=(_ACCOUNT,), keep=TRANSCRIPT_LIMIT)

    def reader(self, ask: Ask, seat: Seat) -> Answer:
        return Answer()


class Answer(command.Answer):
    def end(self, stderr: str, left: Mapping[str, str]) -> None:
        said = Json(parsed(left.get(_ACCOUNT, "")))
        self.spend(said.count("input_tokens"), said.count("output_tokens"), said.number("cost_usd"))


def shows() -> tuple[str, ...]:
    """What has to stay in sight where the rest of the machine is hidden: the interpreter, and what it plays."""
    return (sys.base_prefix, str(_PLAYER.parent))

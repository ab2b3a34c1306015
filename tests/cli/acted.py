"""Runs of `task` in the simulated world, for what is seen of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interlock.agents import answers
from interlock.agents.values import Ask
from interlock.engine.playing import Player
from interlock.engine.prompts import Prompts
from interlock.engine.simulation import Act, Clean, Files, Simulated, begin, drive
from interlock.engine.view import View
from interlock.engine.world import Command, Toolbox
from interlock.playbooks.task import TASK
from interlock.playbooks.task.playbook import Inputs

RUN = "task-20261118-183349-4c56"
FINDING = "there is no test for negative numbers, and the one that is there only shows the sum of two ones"


class Strict(Clean):
    """Its reviewer wants a second round, and says why."""

    def __init__(self) -> None:
        self.reviews = 0

    def agent(self, ask: Ask, key: str, files: Files) -> Act:
        act = super().agent(ask, key, files)
        if ask.role.name != "reviewer" or ask.form is None:
            return act
        self.reviews += 1
        form: Any = answers.best(ask.form, ask.known)
        if self.reviews == 1:
            unmet = [{"criterion": "the request", "met": False, "evidence": ""}]
            finding = {"text": FINDING, "criterion": "the request", "path": "tests/test_lib.py"}
            form |= {"verdict": "revise", "criteria": unmet, "findings": [finding]}
        else:
            form |= {"summary": "add returns the sum", "findings": [{"text": "a docstring would help"}]}
        return Act(act.files, self.said(form))


def play(
    told: Callable[[View, str], None] = lambda view, key: None,
    *,
    cast: Clean | None = None,
    commands: tuple[str, ...] = ("pytest -q",),
    **inputs: Any,
) -> View:
    """A whole run; `told` hears of each line."""
    toolbox = Toolbox([Command(f"check-{n}", line, "found") for n, line in enumerate(commands)])
    world = Simulated(cast=cast, toolbox=toolbox)
    player = Player(TASK, world, Prompts(TASK.prompts), told=lambda event, key: told(player.view, key))
    given = Inputs(**{"request": "Make add right", **inputs})
    begin(player, given, run=RUN, version="1")
    return drive(player.play())

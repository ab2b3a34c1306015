"""What a run would take is what its paths take."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.engine.outlook import Outlook, outlook
from interlock.engine.world import Command
from interlock.playbooks.task import TASK
from tests.engine.bench import Nothing
from tests.engine.everything import EVERYTHING

COMMANDS = [Command("test", "make test", "Makefile")]


def _outlook(**asked: Any) -> Outlook:
    return outlook(TASK, TASK.inputs.model_validate({"request": "Make it right", **asked}), commands=COMMANDS)


@pytest.mark.req("PROOF-02")
def test_stages_agents_calls_and_commands_follow_from_the_inputs() -> None:
    """Two calls where all goes well; with a reviewer who never accepts, and is asked each time, nine."""
    found = _outlook()
    assert (found.stages, found.agents) == ({"before": None, "round": 3}, ("builder", "reviewer"))
    assert (found.fewest, found.most, found.commands) == (2, 9, ("make test",))
    found = _outlook(review=False, check=["pytest -q"])
    assert (found.agents, found.fewest, found.most) == (("builder",), 1, 3)
    assert found.commands == ("pytest -q", "make test"), "what is found runs once at the end"
    assert found.gates == ("accept",)
    assert outlook(TASK, TASK.inputs.model_validate({"request": "x"}), caps={"round": 1}, commands=COMMANDS).most == 3


def test_it_names_gates_documents_and_who_works_side_by_side() -> None:
    found = outlook(EVERYTHING, Nothing(), commands=COMMANDS)
    assert (found.fewest, found.gates) == (7, ("approve",))
    assert found.documents == ("state.json", "docs/plan.md", "docs/code.md", "docs/review.json")
    assert found.agents == ("planner", "coder", "tester", "reviewer")

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
def test_stages_agents_calls_and_commands() -> None:
    """Two calls where all goes well; with a reviewer who never accepts, and is asked each time, nine."""
    found = _outlook()
    assert found.stages == {"before": None, "round": 3}
    assert found.agents == ("builder", "reviewer")
    assert (found.fewest, found.most) == (2, 9)
    assert found.commands == ("make test",)


@pytest.mark.req("PROOF-02")
def test_it_follows_the_inputs() -> None:
    found = _outlook(review=False, check=["pytest -q"])
    assert found.agents == ("builder",)
    assert (found.fewest, found.most) == (1, 3)
    assert found.commands == ("pytest -q", "make test"), "what is found runs once at the end"
    assert found.gates == ("accept",)


def test_it_names_gates_documents_and_who_works_side_by_side() -> None:
    found = outlook(EVERYTHING, Nothing(), commands=COMMANDS)
    assert (found.fewest, found.gates) == (7, ("approve",))
    assert found.documents == ("state.json", "docs/plan.md", "docs/code.md", "docs/review.json")
    assert found.agents == ("planner", "coder", "tester", "reviewer")


def test_a_cap_bounds_it() -> None:
    assert outlook(TASK, TASK.inputs.model_validate({"request": "x"}), caps={"round": 1}, commands=COMMANDS).most == 3

"""Whole runs of every playbook by real coding agents, while a person works on in the same repository.

`house.py` has the bench, `stories/` what happens in each run: real edits, real tests, real commits.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.real_clients.house import House, Story
from tests.real_clients.stories.feature import FEATURE
from tests.real_clients.stories.harness import HARNESS
from tests.real_clients.stories.roadmap import ROADMAP
from tests.real_clients.stories.router import ROUTER
from tests.real_clients.stories.task import TASK
from tests.real_clients.stories.ticket import TICKET
from tools.model_server import Script, serving

STORIES = (ROADMAP, HARNESS, FEATURE, ROUTER, TASK, TICKET)
CLIENTS = ("claude", "codex", "claude-acp", "codex-acp")
EACH = [
    pytest.param(story, name, id=f"{story.playbook}-{name}", marks=pytest.mark.agents(name))
    for story, name in product(STORIES, CLIENTS)
]


@pytest.mark.long
@pytest.mark.req("LY-23", "EV-47", "LY-01", "LY-05", "LY-07", "LY-11", "LY-13")
@pytest.mark.parametrize(("story", "name"), EACH)
def test_a_whole_run_beside_a_person(story: Story, name: str, tmp_path: Path) -> None:
    """It completes; what agents and person did is there, the same file merged; repository and home are the person's."""
    house = House(story, tmp_path / "workspace")
    with serving(Script(story.rules), meanwhile=house.person) as model:
        house.begin(name, model.url, tmp_path / "home")
        assert not house.is_green(tmp_path)
        house.run()
    house.check(name)
    assert house.is_green(tmp_path)

"""TREE-13: whatever an agent types and whenever a person writes, nothing that is not committed is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.workspace.fake_layers import FakeMaker
from tests.workspace.sequences import Story

SEQUENCES = int(os.environ.get("INTERLOCK_SEQUENCES", "40"))
FIRST = int(os.environ.get("INTERLOCK_FIRST_SEED", "1"))


@pytest.mark.req("TREE-13")
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEQUENCES))
def test_nothing_uncommitted_is_lost(seed: int, tmp_path: Path) -> None:
    """Every line of the person is there after each dispatch, delivery and undo, and nothing else has got in."""
    story = Story(seed, tmp_path / "w", lambda trees: FakeMaker(trees, tmp_path / "layers"))
    story.play()
    print(story)

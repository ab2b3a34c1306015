"""The page on the architecture names what is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_module_and_test_that_the_page_names_is_there() -> None:
    """Paths of the package and of tests; a step of the walk whose module moved is noticed."""
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:/|\.py))`", PAGE))
    places = (
        ROOT / "src" / "interlock",
        ROOT,
        ROOT / "src/interlock/playbooks/harness",
        ROOT / "src/interlock/agents/coding",
    )
    assert len(named) > 30
    assert sorted(one for one in named if not any((place / one).exists() for place in places)) == []

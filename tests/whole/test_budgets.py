"""A budget that nobody can watch is said to be one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.whole.bench import Bench


@pytest.mark.req("RUN-14")
@pytest.mark.parametrize("budget", ["", "budget_tokens = 100_000"])
def test_an_agent_that_tells_no_tokens_is_named_first_and_last(tmp_path: Path, budget: str) -> None:
    """Where there is a budget in tokens; the run goes on, and its notes say so."""
    bench = Bench(tmp_path / "project")
    bench.write("interlock.toml", f"{bench.read('interlock.toml')}[limits]\n{budget}\n")
    notes = " ".join(str(bench.run().warnings).split())
    assert ("cannot be watched: mine" in notes) == bool(budget)

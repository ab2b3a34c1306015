"""The script that measures a fleet still measures all that it is to measure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fleet.py"
MEASURED = (
    "from `submit` to the first agent: p50",
    "ms more for each",
    "from the kill of a worker until another one goes on: p50",
    "queued runs on",
    "a checkpoint with 1000 lines",
    "and 1000 files",
)


@pytest.mark.long
@pytest.mark.req("WK-18")
def test_every_figure_of_a_fleet_is_measured(tmp_path: Path) -> None:
    """With a few runs: the figures themselves are taken on a quiet machine."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    told = subprocess.run(
        [sys.executable, str(SCRIPT), "--quick"], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
    assert [figure for figure in MEASURED if figure not in told.stdout] == []

"""`make demo-fleet`: six runs on three workers, one of which is killed, all of it on this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = [sys.executable, "-m", "interlock.demo.fleet"]


@pytest.mark.long
@pytest.mark.req("WK-06")
def test_all_runs_are_complete_although_a_worker_is_killed(tmp_path: Path) -> None:
    """Its own exit code says that nothing was done twice; here is what a person sees of it."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    told = subprocess.run([*DEMO, "office"], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert re.search(r"worker (north|east|south) is killed with kill -9", told.stdout)
    assert "6 runs complete, 12 calls of agents" in told.stdout
    assert re.search(r"taken up ([7-9]|\d\d) times", told.stdout)  # the run of the killed one once more
    assert len(re.findall(r"interlock/task-\S+", told.stdout)) >= 6


def test_a_folder_that_is_not_the_demos_is_left_alone(tmp_path: Path) -> None:
    """Nothing is removed that the demo did not make."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "work.txt").write_text("mine\n", "utf-8")
    told = subprocess.run([*DEMO, "mine"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert told.returncode == 2
    assert "is there already and is not a demo" in told.stderr
    assert (tmp_path / "mine" / "work.txt").read_text("utf-8") == "mine\n"

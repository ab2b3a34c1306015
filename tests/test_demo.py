"""`make demo`, as somebody who has just cloned it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.req("HOUSE-03")
def test_the_demo_keeps_a_persons_work_and_shows_a_liar(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "interlock.demo", str(tmp_path / "demo")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "reviewer does not accept" in done.stderr
    assert "red -> green, mended" in done.stderr
    assert (tmp_path / "demo/notes.txt").read_text().startswith("Nobody but you")
    assert "in no commit" in (tmp_path / "demo/README.md").read_text()
    assert "DONE: feature greet-people-by-their-name is complete" in done.stdout


def test_a_folder_that_is_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    done = subprocess.run([sys.executable, "-m", "interlock.demo", tmp_path / "mine"], capture_output=True, check=False)
    assert (done.returncode, list((tmp_path / "mine").iterdir())) == (1, [])

"""The demo: what `make demo` shows is what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.demo.workspace import MARKER, make
from interlock.errors import Refused


def test_the_tour_does_what_it_says(tmp_path: Path) -> None:
    """Real commands in a fresh workspace: a run that changes files, its list and page, a refused task; exit 0."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("INTERLOCK_", "GIT_"))}
    done = subprocess.run(
        [sys.executable, "-m", "interlock.demo"],
        cwd=tmp_path,
        env={**env, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Task 259 is done" in done.stdout
    assert "lean-implementation-agent  ok in" in done.stderr
    assert "Error: Task 260 not found in TODO.md" in done.stderr
    assert "To look further" in done.stdout
    changed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=tmp_path / "demo", capture_output=True, text=True, check=True
    ).stdout
    assert changed.split() == ["??", "Modal/Tactics.lean", "??", "Modal/Test.lean"]


def test_only_a_folder_of_its_own_is_made_anew(tmp_path: Path) -> None:
    """A folder with the marker is removed and remade; any other is refused and left alone."""
    folder = make(tmp_path / "demo")
    (folder / "left-over.txt").write_text("x", "utf-8")
    make(folder)
    assert not (folder / "left-over.txt").exists()
    (folder / MARKER).unlink()
    with pytest.raises(Refused):
        make(folder)
    assert (folder / "interlock.toml").exists()

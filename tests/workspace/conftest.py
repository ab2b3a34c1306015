"""Real git in real folders; the user's own settings are those of a home made for the test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

GitCall = Callable[..., str]


@pytest.fixture(autouse=True)
def users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a minimal git configuration of the user."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Ann\n\temail = ann@localhost\n[init]\n\tdefaultBranch = main\n"
        '[protocol "file"]\n\tallow = always\n[gc]\n\tauto = 0\n'
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return home


@pytest.fixture
def git() -> GitCall:
    """The user's (or an agent's) git in a folder: ``git(folder, "commit", ...)``."""

    def call(folder: Path, *args: str, stdin: bytes = b"", check: bool = True) -> str:
        done = subprocess.run(["git", *args], cwd=folder, check=check, capture_output=True, input=stdin)
        return os.fsdecode(done.stdout)

    return call


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder that is no repository."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def repository(folder: Path, git: GitCall) -> Path:
    """A repository with one commit: README.md, src/app.py and an ignored build folder."""
    git(folder, "init", "-q")
    (folder / "README.md").write_text("hello\n")
    (folder / "src").mkdir()
    (folder / "src" / "app.py").write_text("print('one')\nprint('two')\nprint('three')\n")
    (folder / ".gitignore").write_text("build/\n*.log\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "start")
    return folder

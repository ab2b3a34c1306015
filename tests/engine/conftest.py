"""Workspaces for the engine's own tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.harness import Real


@pytest.fixture(autouse=True)
def users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home folder with a minimal git configuration of the user."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@localhost\n[gc]\n\tauto = 0\n")
    monkeypatch.setenv("HOME", str(home))
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    root.mkdir()
    return root


@pytest.fixture
def real(workspace: Path) -> Callable[..., Real]:
    """The real engine in a folder: ``real(playbook, inputs, files, agent, **options)``."""

    def make(*given: Any, **options: Any) -> Real:
        return Real(*given, root=workspace, **options)

    return make

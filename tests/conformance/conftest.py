"""Both engines, each in a workspace of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.harness import Engine, Real, Simulated

Start = Callable[..., Engine]


@pytest.fixture(autouse=True)
def users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home folder with a minimal git configuration of the user."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@localhost\n[gc]\n\tauto = 0\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in [name for name in os.environ if name.startswith("GIT_") and name != "GIT_CONFIG_NOSYSTEM"]:
        monkeypatch.delenv(name)


@pytest.fixture(params=["simulated", "real"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Start:
    """Makes an engine: ``engine(playbook, inputs, files, agent, **options)``."""
    if request.param == "simulated":
        return Simulated

    def real(*given: Any, **options: Any) -> Engine:
        number = len(list(tmp_path.glob("workspace*")))
        root = tmp_path / f"workspace{number}"
        root.mkdir()
        return Real(*given, root=root, **options)

    return real

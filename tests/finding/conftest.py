"""Workspaces with playbooks of their own; what was loaded for one test is gone for the next."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.finding import Library
from interlock.finding.loading import Bundled
from tests.finding.planted import SHIP


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Modules, finders and lines of playbooks that a test loaded go with it."""
    yield
    for name in [name for name in sys.modules if name.startswith("interlock_own_")]:
        del sys.modules[name]
    sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, Bundled)]
    linecache.checkcache()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with the playbook `ship`."""
    place = tmp_path / "work"
    folder = place / ".interlock/playbooks/ship"
    folder.mkdir(parents=True)
    (folder / "playbook.py").write_text(SHIP)
    return place


@pytest.fixture
def library(root: Path, tmp_path: Path) -> Callable[..., Library]:
    """The playbooks of the workspace, for somebody who says yes unless told otherwise."""

    def made(consent: Any = lambda _request: True, **environ: str) -> Library:
        return Library(root, {"HOME": str(tmp_path / "home"), **environ}, consent=consent)

    return made

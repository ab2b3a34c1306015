"""Real coding agents against the scripted model.

A test says which client it needs by its mark: `@pytest.mark.agents("codex")`, or per parameter
`pytest.param("codex", marks=pytest.mark.agents("codex"))`.  It is skipped where that client is not installed, and
where a run is not about it: an ordinary one is about three of them, so that it stays short; `make test-agents` installs
all of them and runs all of these tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.cli.conftest import door
from tests.deadlines import deadline
from tools import clients
from tools.clients import Client
from tools.model_server import Script, Serving, serving

__all__ = ["deadline", "door"]

pytest.register_assert_rewrite("tests.real_clients.house", "tests.real_clients.stories")

ClientEnv = Callable[[str], dict[str, str]]
Serve = Callable[[Script | Path | None], Serving]

USUAL = ("claude", "codex", "claude-acp")
CHOSEN = os.environ.get("INTERLOCK_TEST_CLIENTS", " ".join(USUAL)).replace(",", " ").split()
"""The clients that this run is about; ``all``: every one that is installed."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("agents"):
        for name in mark.args:
            _skip_unless_installed(clients.client(name))
            if "all" not in CHOSEN and name not in CHOSEN:
                pytest.skip(f"this run is not about {name}: make test-agents CLIENTS={name}")


def _skip_unless_installed(needed: Client) -> None:
    if not needed.installed():
        pytest.skip(f"{needed.spec} is not installed: make test-agents CLIENTS={needed.name}")


@pytest.fixture
def client() -> Callable[[str], Client]:
    """The client of a name; skips the test where it is not installed."""

    def find(name: str) -> Client:
        found = clients.client(name)
        _skip_unless_installed(found)
        return found

    return find


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a scripted model that serves until the test ends; several at once, if a test needs them."""
    with ExitStack() as servers:
        yield lambda script: servers.enter_context(serving(script))


@pytest.fixture
def model_server(request: pytest.FixtureRequest, serve: Serve) -> Serving:
    """A scripted model; its script is the fixture's parameter, by default what the prompts say themselves."""
    return serve(getattr(request, "param", None))


@pytest.fixture
def client_env(model_server: Serving, tmp_path: Path) -> ClientEnv:
    """The environment in which a client knows nobody but the scripted model, with a home of its own."""
    return lambda name: clients.environment(name, model_server.url, tmp_path / "homes" / name)


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder that is neither the workspace's nor the system's for temporary files, which agents may use as well."""
    with TemporaryDirectory(prefix="interlock-elsewhere-", dir="/var/tmp") as place:
        yield Path(place)

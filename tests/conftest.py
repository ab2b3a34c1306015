"""What every test may count on: tests may be coroutines, and real coding agents are asked for by a mark."""

from __future__ import annotations

import asyncio
import inspect
import os

import hypothesis
import pytest

from tools import clients

# A busy machine is no failure, and the folder may be somebody else's.
EXAMPLES = int(os.environ.get("INTERLOCK_EXAMPLES", "30"))
hypothesis.settings.register_profile("house", deadline=None, database=None, max_examples=EXAMPLES)
hypothesis.settings.load_profile("house")
pytest_plugins = ["tests.real"]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine, in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what needs a coding agent that is not installed."""
    for mark in item.iter_markers("agents"):
        for name in mark.args:
            if why := clients.missing(name):
                pytest.skip(f"{name}: {why}")

"""What holds for all tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes depends on what else the machine does: no property is about that.
settings.register_profile(
    "all",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("quick", settings.get_profile("all"), max_examples=25)


def pytest_configure(config: pytest.Config) -> None:
    """`make test` tries fewer examples of each property than `make test-all`."""
    settings.load_profile("quick" if config.option.markexpr == "not long" else "all")

"""What holds for all tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# How long an example takes depends on what else the machine does: no property is about that.
settings.register_profile(
    "interlock",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("interlock")

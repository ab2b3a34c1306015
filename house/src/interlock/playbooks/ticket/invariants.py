"""What holds on every path of `ticket`, beside what holds for all playbooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from interlock.engine.view import View

INVARIANTS: Mapping[str, Callable[[View], bool]] = {}

"""How much `make test` proves, and what is left to `make test-all`."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import settings


def long(*values: object) -> Iterable[object]:
    """Further cases of a parameter, or (as tuples) of several, that only `make test-all` tries."""
    cases = (value if isinstance(value, tuple) else (value,) for value in values)
    return (pytest.param(*case, marks=pytest.mark.long) for case in cases)


def examples(times: int) -> settings:
    """For a property whose cases are many and cheap: this many times the examples that others get."""
    return settings(max_examples=times * settings().max_examples)

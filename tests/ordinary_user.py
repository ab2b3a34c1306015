"""A process that is root is an ordinary user for a while: permissions mean nothing to root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ordinary_user() -> Iterator[None]:
    """For the duration, not root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)

"""Runs beyond one machine: carried by git, placed by a queue.

The unit that moves is the run.  `Depot` is a workspace as far as runs leave and arrive there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.lazy import lazily

if TYPE_CHECKING:
    from interlock.fleet.depot import Depot, Moved

__getattr__ = lazily(__name__, {"depot": "Depot Moved"})

__all__ = ["Depot", "Moved"]

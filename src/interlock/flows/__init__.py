"""Playbooks that are declared in YAML: read, checked, and compiled to the verbs of the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.lazy import lazily

if TYPE_CHECKING:
    from interlock.flows.compiling import compiled
    from interlock.flows.format import schema, schema_text
    from interlock.flows.loading import read
    from interlock.flows.rehearsing import rehearsal
    from interlock.flows.tree import Flow

__getattr__ = lazily(
    __name__,
    {
        "compiling": "compiled",
        "format": "schema schema_text",
        "loading": "read",
        "rehearsing": "rehearsal",
        "tree": "Flow",
    },
)

__all__ = ["Flow", "compiled", "read", "rehearsal", "schema", "schema_text"]

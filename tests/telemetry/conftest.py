"""Journal lines and run records made by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.engine.objects import MemoryObjects
from interlock.pages import Shelf, one_file_of

START = "2026-01-01T10:00:00.000+00:00"


@dataclass(frozen=True)
class MadeLine:
    event: str
    key: str | None = None
    agent: str | None = None
    attempt: int | None = None
    iteration: int | None = None
    ts: str = START
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MadeIdentity:
    run_id: str = "toy-1"
    playbook: str = "toy"
    key: str = "a|b"
    inputs: dict[str, Any] = field(default_factory=lambda: {"word": "<b>"})
    version: str = "0"
    started_at: str = START
    continues: str | None = None


@dataclass
class MadeRun:
    path: Path
    made: list[Any]

    def identity(self) -> MadeIdentity:
        return MadeIdentity()

    def lines(self) -> list[Any]:
        return self.made


def page_of(run: Any) -> str:
    """The run page of records made by hand, as one file."""
    folder = SimpleNamespace(
        elsewhere=lambda: None,
        path=run.path,
        root=run.path,
        identity=run.identity,
        lines=run.lines,
        folder=lambda key: run.path / "dispatches" / key,
        objects=MemoryObjects(),
    )
    known: Any = SimpleNamespace(identity=run.identity(), folder=folder)
    return one_file_of(Shelf("made", run.path, lambda _: {}, lambda _: ()), known)


@pytest.fixture
def make_line() -> Callable[..., MadeLine]:
    return MadeLine


@pytest.fixture
def dispatch_end() -> Callable[..., MadeLine]:
    def made(ts: str = "2026-01-01T10:00:05.000+00:00", **over: Any) -> MadeLine:
        facts = {
            **{"member": "builder", "step": "build", "outcome": "OK", "reason": None, "tries": 1, "seconds": 4.0},
            **{
                "started_at": "2026-01-01T10:00:01Z",
                "exit_code": 0,
                "brief_bytes": 10,
                "answer_bytes": 5,
                "changes": 2,
            },
            **{"input_tokens": None, "output_tokens": None, "cost_usd": None, "complaints": [], "detail": ""},
            **over,
        }
        return MadeLine("dispatch.end", "build/builder#1", "builder", 1, None, ts, facts)

    return made

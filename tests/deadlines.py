"""Deadlines that come when the program is where they are to find it, however long it takes to get there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

Deadline = Callable[[Callable[[], object]], None]


@pytest.fixture
async def deadline(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Deadline]:
    """`deadline(condition)`: as soon as that holds, whatever the event loop waits for has taken too long."""
    loop = asyncio.get_running_loop()
    clock, ahead = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: clock() + ahead)
    watching: list[asyncio.Task[None]] = []

    async def watch(condition: Callable[[], object]) -> None:
        nonlocal ahead
        while not condition():  # noqa: ASYNC110 - files and processes set no event
            await asyncio.sleep(0.01)
        ahead += 1e6

    yield lambda condition: watching.append(asyncio.create_task(watch(condition)))
    for task in watching:
        task.cancel()


def says(place: Path, text: bytes) -> Callable[[], bool]:
    """Whether this stands in a file by now."""
    return lambda: place.exists() and text in place.read_bytes()

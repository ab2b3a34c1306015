"""The clock and the chance of simulated runs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from interlock.engine.virtual_time import instantly
from interlock.errors import EngineFault
from interlock.testing import SimulatedWorld


def test_time_jumps_to_what_is_due_next() -> None:
    """Whoever sleeps shorter wakes first, and of those who wake together the first to sleep."""
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append((name, asyncio.get_running_loop().time()))

    async def all_of_them() -> float:
        begun = asyncio.get_running_loop().time()
        await asyncio.gather(sleeper("a", 3600.0), sleeper("b", 0.5), sleeper("c", 0.5), sleeper("d", 1e6))
        return begun

    begun = instantly(all_of_them())
    assert [name for name, _ in woken] == ["b", "c", "a", "d"]
    assert [round(at - begun, 3) for _, at in woken] == [0.5, 0.5, 3600.0, 1e6]


def test_what_was_called_off_does_not_move_the_clock() -> None:
    """A limit that was not reached is none."""

    async def in_time() -> float:
        begun = asyncio.get_running_loop().time()
        async with asyncio.timeout(3600.0):
            await asyncio.sleep(1.0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.0):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time() - begun

    assert instantly(in_time()) == 3.0


def test_who_waits_for_nothing_is_told() -> None:
    """A simulated run that hangs is a fault, and no hang."""
    waiting = asyncio.Event().wait()
    with pytest.raises(EngineFault, match="can never happen"):
        instantly(waiting)


def test_a_generator_that_was_left_comes_to_its_end() -> None:
    """What stands in its `finally` happens, as in any other loop."""
    ended: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(1.0)
            ended.append("all of it")

    async def first() -> int:
        async for number in numbers():
            return number
        return 0

    async def then() -> int:
        found = await first()
        await asyncio.sleep(2.0)
        return found

    assert instantly(then()) == 1
    assert ended == ["all of it"]


def test_the_same_seed_draws_the_same() -> None:
    """What a generator of the standard library draws, however much of it."""
    for seed in (0, 7):
        drawn, world = random.Random(seed), SimulatedWorld({}, seed=seed)
        for length in (6, 16, 1, 8, 9, 40, *(6, 16) * 200):
            assert world.draw(length) == f"{drawn.getrandbits(4 * length):0{length}x}"

"""When a run has ended nothing of it is at work any more, in whatever order its parts failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from interlock.engine import Ending, Run
from interlock.engine.clusters import settle_all
from interlock.errors import AgentFailed
from interlock.testing import Act
from tests.conformance.harness import Real, reacting
from tests.engine.toys import Work, producing, toy

Start = Callable[..., Real]


async def turns(count: int) -> None:
    """So many turns of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_members_have_ended_when_their_cluster_has(times: int) -> None:
    """However often it is cancelled while they put things in order."""

    over = asyncio.Event()

    async def tidy() -> None:
        for _ in range(times):
            try:
                await over.wait()
            except asyncio.CancelledError:
                await turns(5)  # each cancellation takes its time, and the last one ends it

    members = [asyncio.create_task(tidy()) for _ in range(2)]
    cluster = asyncio.create_task(settle_all(members))
    await turns(2)
    for _ in range(times):
        cluster.cancel()
        await turns(10)
    await asyncio.wait([cluster], timeout=120)
    left = [member for member in members if not member.done()]
    over.set()
    assert (cluster.cancelled(), left) == (True, [])


@pytest.mark.parametrize("apart", [0, 2, 5, 10])
async def test_an_error_around_a_cluster_that_ends_leaves_nothing_at_work(real: Start, apart: int) -> None:
    """Whoever is ended twice while the snapshot of its layer is taken waits for that all the same."""
    called: list[str] = []

    def slow(request: Any, act: Act) -> Act:
        called.append(request.member)
        return replace(act, seconds=10_000)

    async def until_called() -> None:
        while not called:  # noqa: ASYNC110 - an agent sets no event
            await asyncio.sleep(0)

    async def body(run: Run, _work: Work) -> Ending:
        await run.dispatch(producing("one.md", "one"))  # with that snapshot the next base is taken beside its program

        async def fails(later: int) -> None:
            await until_called()
            await turns(later)
            raise AgentFailed(f"after {later}")

        async def inner() -> None:
            await run.cluster(
                "judges", {"j1": lambda: fails(0), "j2": lambda: run.dispatch(producing("two.md", "slow"))}
            )

        await run.cluster("work", {"m0": inner, "m1": lambda: fails(6 + apart)})
        return Ending.complete()

    played = real(toy(body), Work(), {"a.txt": "a\n"}, reacting(slow=slow))
    others = asyncio.all_tasks()
    finished = await played.runs().run(played.playbook, played.inputs)
    assert called == ["slow"]
    assert isinstance(finished.error, AgentFailed)
    assert asyncio.all_tasks() == others

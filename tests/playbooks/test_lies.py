"""Whom processes believe: nobody against what a command can show, and everybody who is honest (EVID-11).

    INTERLOCK_LIES=1000 pytest -m long -rP tests/playbooks/test_lies.py

plays so many hostile runs of each process, a tenth of that honest ones, and prints the figures.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from types import ModuleType

import pytest

from benchmarks import lies
from interlock.playbooks.router import decisions
from tests.playbooks.broken import ANYTHING, BELIEVES, Patch, swap
from tests.playbooks.liars import feature, harness, roadmap, router, ticket

LIES = int(os.environ.get("INTERLOCK_LIES", "100"))


@dataclass(frozen=True)
class Process:
    liars: ModuleType
    """Has `hostile` and `honest`."""
    quick: tuple[int, int]
    """So many of them in the quick tests."""
    rows: tuple[str, ...]
    copies: tuple[Patch, ...]
    """Each believes somebody."""


PROCESSES = {
    "task": Process(lies, (100, 30), ("EVID-03", "EVID-04"), (BELIEVES, ANYTHING)),
    "ticket": Process(ticket, (5, 4), ("EVID-07", "TK-150"), (BELIEVES, ANYTHING)),
    "feature": Process(feature, (10, 5), ("FT-156", "FT-158", "AGENT-07", "EVID-02"), (BELIEVES, ANYTHING)),
    "harness": Process(harness, (40, 12), ("HN-69", "HN-72", "HN-15"), (BELIEVES, ANYTHING)),
    "roadmap": Process(roadmap, (75, 30), ("RM-58", "RM-61"), (BELIEVES,)),
    "router": Process(router, (200, 24), ("RT-59", "RT-30", "RT-75"), (swap(decisions, "_against", lambda told: ()),)),
}
RUNS = [
    pytest.param(one.liars, *number, id=f"{name}-{size}", marks=[pytest.mark.req(*one.rows), *marks])
    for name, one in PROCESSES.items()
    for size, number, marks in (("quick", one.quick, []), ("many", (LIES, LIES // 10), [pytest.mark.long]))
]
BROKEN = [
    pytest.param(one.liars, copy, id=f"{name}-{n}")
    for name, one in PROCESSES.items()
    for n, copy in enumerate(one.copies, 1)
]


@pytest.mark.req("EVID-11")
@pytest.mark.parametrize(("liars", "lying", "telling"), RUNS)
def test_no_liar_is_believed_and_nobody_honest_is_refused(liars: ModuleType, lying: int, telling: int) -> None:
    began = time.process_time()
    found = lies.figures(liars.hostile, liars.honest, lying, telling)
    told = f"{len(found.against)} of them against evidence, {len(found.refused)} of {telling} honest ones refused"
    print(f"accepted {found.accepted} of {dict(found.ends)}, {told}, {time.process_time() - began:.0f} s of CPU")
    assert (found.against, found.refused) == ([], [])
    assert found.accepted > lying // 50, "who never accepts proves nothing"


@pytest.mark.req("EVID-11")
@pytest.mark.parametrize(("liars", "copy"), BROKEN)
def test_the_figures_can_fail(liars: ModuleType, copy: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    copy(monkeypatch)
    assert any(told and told.wrong for told in map(liars.hostile, range(1, 61)))

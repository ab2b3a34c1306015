"""A process of each playbook that dies at any event: gone on with, the run ends as if nothing had happened (RUN-03)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.errors import Status
from tests.whole.bench import Bench
from tests.whole.test_harness import AUTONOMOUS, Town
from tests.whole.test_roadmap import Road
from tests.whole.test_router import Checker

MAKES: dict[str, tuple[Callable[[Path], Bench], int]] = {
    "harness": (lambda top: Town(top, AUTONOMOUS), 80),
    "roadmap": (Road, 20),
    "router": (Checker, 14),
}
"""With an event of each, in the middle of its work."""


def left(bench: Bench) -> dict[str, str]:
    names = bench.run_git("ls-files", "-co", "--exclude-standard").split("\n")
    return {name: re.sub(r"20\d\d-\d\d-\d\d(T[\d:.]+Z)?", "", bench.read(name)) for name in names}


@pytest.mark.req("RUN-03", "RUN-05", "HN-112", "RM-17", "RM-75", "RT-30")
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "name", [*(pytest.param(name, marks=pytest.mark.long) for name in ("harness", "roadmap")), "router"]
)
def test_killed_at_an_event_it_ends_as_undisturbed(tmp_path: Path, name: str, every: bool) -> None:
    """All files byte for byte but for times, and nobody who had ended is called again."""
    make, event = MAKES[name]
    usual = make(tmp_path / "usual")
    view = asyncio.run(usual.begin())
    assert view.status is Status.COMPLETE
    called = [call.agent for call in view.calls.values()]
    event = 1 if every else event
    while (bench := make(tmp_path / str(event))).killed_at(event):
        view = asyncio.run(bench.begin())
        assert (view.status, left(bench)) == (Status.COMPLETE, left(usual)), (event, view.why)
        assert [call.agent for call in view.calls.values() if call.report] in ([], called), event
        if not every:
            return
        event += 1
    assert event > 15

"""What invariants are shown of an explored run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.engine import Options
from interlock.playbooks.router import rehearsal
from interlock.testing import Invariant, Played

MANY = {f"src/{number:0>100}.txt": "x\n" for number in range(100)}


@pytest.mark.req("LY-21")
def test_an_outcome_that_is_too_long_for_its_line_can_be_read() -> None:
    """Which the journal keeps elsewhere: an invariant over it would see nothing, or break."""

    def changes(played: Played) -> str:
        ends = [line.data["out"] for line in played.simulation.lines if line.event == "dispatch.end"]
        return " ".join(ends[-1]["changes"])

    setup = replace(rehearsal(), invariants=(Invariant("shown", changes),))
    simulation = setup.make(lambda request: replace(setup.base(request), files=MANY), Options())
    played = Played({}, simulation.go(), simulation)
    assert setup.broken(played) == [f"shown: {' '.join(MANY)} (deviations: none)"]

"""How long `eager` takes: what the agents' own times allow, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.playbooks.feature.tasks import AT_ONCE
from interlock.playbooks.feature.work import EAGER

from .test_schedule import scheduled


@pytest.mark.req("LY-22")
@settings(max_examples=25)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=9), st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_a_task_starts_at_the_moment_a_place_is_free(first: list[int], second: list[int]) -> None:
    """In a world where nothing but agents takes time, each wave takes what its order takes at four places."""
    seconds = {f"T{number}": float(time) for number, time in enumerate(first)}
    seconds |= {f"U{number}": float(time) for number, time in enumerate(second)}
    waves = [" ".join(name for name in seconds if name.startswith(letter)) for letter in "TU"]
    done = scheduled(seconds, waves, {"U0": "T0"}, EAGER)
    assert done.took == pytest.approx(allowed(first) + allowed(second))
    ends = {span.end for span in done.spans.values()}
    began = min(span.start for span in done.spans.values())
    assert all(span.start == began or span.start in ends for span in done.spans.values())


def allowed(times: list[int]) -> float:
    """What so many tasks take, each begun as soon as one of the places is free."""
    places = [0.0] * AT_ONCE
    for time in times:
        places[places.index(min(places))] += time
    return max(places)

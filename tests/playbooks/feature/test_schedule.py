"""How waves are scheduled, read from the journal: never more than four, four where four can, against the bounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.agents.runner import AgentRequest
from interlock.playbooks.feature.tasks import AT_ONCE, in_pieces
from interlock.playbooks.feature.work import BARRIER, EAGER
from interlock.telemetry import Scheduled, dispatch_spans, most_at_once, schedules
from interlock.testing import Act

from .conftest import Bench, plans, remembers
from .site import Site


@pytest.mark.req("FT-12", "FT-13")
@pytest.mark.parametrize("scheduling", [BARRIER, EAGER])
def test_four_processes_really_work_at_once_and_never_more(
    tmp_path: Path, scheduling: Literal["barrier", "eager"]
) -> None:
    """Nine tasks whose agents end only when four have started; the journal's times show four at most."""
    names = tuple(f"T{number}" for number in range(1, 10))
    site = Site(tmp_path, names, together=4, scheduling=scheduling).lay_out()
    assert site.run().output == site.all_done
    assert most_at_once(dispatch_spans(site.lines).values()) == AT_ONCE
    (done,) = schedules(site.lines)
    assert (done.policy, done.most, set(done.spans)) == (scheduling, 4, {f"implementer-{name}" for name in names})


def lasting(seconds: Mapping[str, float]) -> Bench:
    """A bench whose task agents take so long."""
    bench = Bench()

    def slow(request: AgentRequest, act: Act) -> Act:
        return replace(act, seconds=seconds[request.member.removeprefix("implementer-")])

    for name in seconds:
        bench.ever(f"implementer-{name}", slow)
    return bench


def scheduled(seconds: Mapping[str, float], waves: list[str], needs: Mapping[str, str], scheduling: str) -> Scheduled:
    bench = lasting(seconds)
    bench.ever("planner", plans(*waves, **{name: {"depends_on": f"[{one}]"} for name, one in needs.items()}))
    assert bench.play(scheduling=scheduling).exit_code == 0
    assert bench.simulation.world.most_at_once == most_at_once(dispatch_spans(bench.lines).values()) <= AT_ONCE
    (done,) = schedules(bench.lines)
    return done


@pytest.mark.req("FT-12")
@settings(max_examples=15)
@given(st.lists(st.integers(1, 30), min_size=5, max_size=9), st.lists(st.integers(1, 30), min_size=1, max_size=5))
def test_no_schedule_beats_its_bounds_and_eager_is_never_slower(first: list[int], second: list[int]) -> None:
    """Two waves of any durations, the second needing the first: places, critical path and all work bound both ways."""
    seconds = {f"T{number}": float(time) for number, time in enumerate(first)}
    seconds |= {f"U{number}": float(time) for number, time in enumerate(second)}
    waves = [" ".join(name for name in seconds if name.startswith(letter)) for letter in "TU"]
    needs = {f"U{number}": f"T{number}" for number in range(min(len(first), len(second)))}
    barrier = scheduled(seconds, waves, needs, BARRIER)
    eager = scheduled(seconds, waves, needs, EAGER)
    chain = max([*first, *second, *(a + b for a, b in zip(first, second, strict=False))])
    for done in (barrier, eager):
        assert done.most == AT_ONCE
        assert done.critical.seconds == pytest.approx(chain)
        assert done.critical.seconds <= done.least <= done.took + 1e-6
        assert [part.name for part in done.parts] == ["wave 1", "wave 2"]
    assert eager.took <= barrier.took + 1e-6


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


def test_barriers_cost_what_the_slowest_of_each_sub_wave_takes() -> None:
    """Six tasks of which the first takes longest: with barriers the others wait for it, eagerly they do not."""
    seconds = {"T1": 10.0, **{f"T{number}": 2.0 for number in range(2, 7)}}
    waves = [" ".join(seconds)]
    assert scheduled(seconds, waves, {}, BARRIER).took == pytest.approx(12.0)
    eager = scheduled(seconds, waves, {}, EAGER)
    assert eager.took == pytest.approx(10.0)
    assert eager.critical.members == ("implementer-T1",)


def test_a_replan_is_a_schedule_of_its_own(bench: Bench) -> None:
    """What an earlier plan finished is waited for no more."""
    bench.on("planner", plans("T1", "U1", U1={"depends_on": "[T1]"}), plans("V1", first=3, V1={"depends_on": "[T1]"}))
    bench.on("v-build", remembers("FAIL"))
    assert bench.play().exit_code == 0
    told = [line.data["needs"] for line in bench.lines if line.event == "schedule"]
    assert told == [{"implementer-T1": []}, {"implementer-U1": ["implementer-T1"]}, {"implementer-V1": []}]
    first, again = schedules(bench.lines)
    assert first.critical.members == ("implementer-T1", "implementer-U1")
    assert list(again.spans) == ["implementer-V1"]


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.lists(st.text("abc", max_size=3), max_size=9)))
def test_a_schedule_in_pieces_is_the_same_schedule(waits_for: dict[str, list[str]]) -> None:
    """Nothing is lost or doubled, and no piece holds more than it may unless it is a single task."""
    pieces = list(in_pieces(waits_for, most=10))
    assert {member: others for piece in pieces for member, others in piece.items()} == waits_for
    assert sum(map(len, pieces)) == len(waits_for)
    assert all(len(piece) == 1 or sum(1 + len(one) for one in piece.values()) <= 10 for piece in pieces)


def test_a_large_wave_is_told_whole() -> None:
    """Each piece fits into a line of the journal, so that the report has all of them."""
    waits_for = {f"implementer-T{n:02}": [f"implementer-T{m:02}" for m in range(4)] for n in range(45)}
    assert all(len(json.dumps(piece)) < 3000 for piece in in_pieces(waits_for))

"""Time taken against the critical path: pure computation, and what reports say of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.telemetry import (
    Period,
    ReportContent,
    critical_path,
    dispatch_spans,
    markdown,
    most_at_once,
    read_report,
    schedules,
    tell,
)

from .conftest import START, MadeRun, page_of

Make = Callable[..., Any]
NAMES = "abcdefgh"


def at(seconds: float) -> str:
    """A journal's stamp so many seconds after the start."""
    return (datetime.fromisoformat(START) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, float], dict[str, list[str]]]:
    """Durations, and dependencies on earlier names only."""
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    seconds = {name: float(draw(st.integers(0, 20))) for name in names}
    needs = {
        name: draw(st.lists(st.sampled_from(names[:at]), unique=True)) if at else [] for at, name in enumerate(names)
    }
    return seconds, needs


def carried_out(
    seconds: dict[str, float], needs: dict[str, list[str]], places: int, *, barrier: bool
) -> dict[str, Period]:
    """A schedule as a playbook could make it: level by level, each cut into groups that are awaited, or in any order
    that dependencies allow, as soon as a place is free."""
    spans: dict[str, Period] = {}
    if not barrier:
        free = [0.0] * places
        for name in TopologicalSorter(needs).static_order():
            place = free.index(min(free))
            begin = max([free[place], *(spans[one].end for one in needs[name])])
            spans[name] = Period(begin, begin + seconds[name])
            free[place] = spans[name].end
        return spans
    sorter, now = TopologicalSorter(needs), 0.0
    sorter.prepare()
    while sorter.is_active():
        level = sorted(sorter.get_ready())
        for first in range(0, len(level), places):
            group = level[first : first + places]
            spans |= {name: Period(now, now + seconds[name]) for name in group}
            now += max(seconds[name] for name in group)
        sorter.done(*level)
    return spans


def chains(seconds: dict[str, float], needs: dict[str, list[str]]) -> list[list[float]]:
    """The durations along every chain of dependencies."""
    ending: dict[str, list[list[float]]] = {}
    for name, own in seconds.items():
        ending[name] = [[own], *([*chain, own] for one in needs[name] for chain in ending[one])]
    return [chain for some in ending.values() for chain in some]


@given(graphs(), st.integers(1, 4), st.booleans())
def test_the_critical_path_is_a_lower_bound_of_every_schedule(
    graph: tuple[dict[str, float], dict[str, list[str]]], places: int, barrier: bool
) -> None:
    """Whatever the dependencies, durations and places; it is a chain of dependencies and as long as its members."""
    seconds, needs = graph
    spans = carried_out(seconds, needs, places, barrier=barrier)
    took = max(span.end for span in spans.values()) - min(span.start for span in spans.values())
    path = critical_path(seconds, needs)
    assert path.seconds <= took + 1e-9
    assert path.seconds == pytest.approx(sum(seconds[name] for name in path.members))
    assert path.seconds == pytest.approx(max(map(sum, chains(seconds, needs))))
    assert all(before in needs[after] for before, after in zip(path.members, path.members[1:], strict=False))
    assert most_at_once(spans.values()) <= places


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8))
def test_a_chain_is_its_own_critical_path(times: list[int]) -> None:
    """With and without barriers it takes exactly that long."""
    seconds = {NAMES[number]: float(time) for number, time in enumerate(times)}
    needs = {name: [NAMES[number - 1]] if number else [] for number, name in enumerate(seconds)}
    assert critical_path(seconds, needs).seconds == sum(times)
    for barrier in (True, False):
        spans = carried_out(seconds, needs, 4, barrier=barrier)
        assert max(span.end for span in spans.values()) == sum(times)


def test_what_has_no_duration_does_not_count_and_a_cycle_is_an_error() -> None:
    """A task that was never started holds nobody up."""
    assert critical_path({"b": 2.0}, {"b": ["a"]}).members == ("b",)
    assert critical_path({}, {}).members == ()
    with pytest.raises(CycleError):
        critical_path({"a": 1.0, "b": 1.0}, {"a": ["b"], "b": ["a"]})


def test_spans_that_only_touch_do_not_overlap() -> None:
    """The next one may start in the millisecond in which one ends."""
    assert most_at_once([Period(0, 1), Period(1, 2), Period(0.5, 1.5)]) == 2
    assert most_at_once([]) == 0


# -- from a journal


@pytest.fixture
def journal(make_line: Make, dispatch_end: Make) -> list[Any]:
    """Two waves with barriers: a and b (4 s and 1 s), then c (2 s), which needs b only."""

    def start(key: str, member: str, second: float) -> Any:
        told = {"member": member, "step": "5.2", "try": 1, "runner": "r"}
        return make_line("dispatch.start", key, member, 1, ts=at(second), data=told)

    def end(key: str, member: str, second: float) -> Any:
        line = dispatch_end(ts=at(second), member=member, step="5.2")
        return make_line("dispatch.end", key, member, 1, ts=line.ts, data=line.data)

    def schedule(number: int, needs: Any) -> Any:
        told = {"part": f"wave {number}", "policy": "barrier", "at_once": 4, "needs": needs}
        return make_line("schedule", f"p/5/note#{number}", ts=at(0), data=told)

    return [
        make_line("run.start", ts=at(0), data={"playbook": "toy", "key": "a"}),
        start("p/4/planner#1", "planner", 0),
        end("p/4/planner#1", "planner", 1),
        schedule(1, {"a": [], "b": []}),
        start("p/5/wave-1/a#1", "a", 1),
        start("p/5/wave-1/b#1", "b", 1),
        start("p/5/wave-1/a#1", "a", 2),  # a second try
        end("p/5/wave-1/b#1", "b", 2),
        end("p/5/wave-1/a#1", "a", 5),
        schedule(2, {"c": ["b"], "never started": ["c"]}),
        start("p/5/wave-2/c#1", "c", 5.5),
        end("p/5/wave-2/c#1", "c", 7.5),
        start("p/7/fix-1/a#1", "a", 8),
        end("p/7/fix-1/a#1", "a", 20),
    ]


def test_work_is_measured_below_the_place_at_which_it_was_scheduled(journal: list[Any]) -> None:
    """Time from the first start to the last end; tries belong to their dispatch; work elsewhere does not count."""
    (done,) = schedules(journal)
    assert (done.name, done.policy, done.at_once, done.most) == ("p/5", "barrier", 4, 2)
    assert {name: span.seconds for name, span in done.spans.items()} == {"a": 4.0, "b": 1.0, "c": 2.0}
    assert (done.took, done.critical.members, done.critical.seconds) == (6.5, ("a",), 4.0)
    assert (done.ratio, done.least) == (1.625, 4.0)
    assert [(part.name, part.took) for part in done.parts] == [("wave 1", 4.0), ("wave 2", 2.0)]


def test_a_dispatch_that_was_done_again_counts_as_it_was_done_last(journal: list[Any], make_line: Make) -> None:
    """As after a retry by a person."""
    again = [
        make_line("dispatch.start", "p/5/wave-2/c#1", "c", 2, ts=at(30)),
        make_line("dispatch.end", "p/5/wave-2/c#1", "c", 2, ts=at(33), data=journal[-1].data),
    ]
    assert dispatch_spans([*journal, *again])["p/5/wave-2/c#1"].seconds == 3.0


def test_time_in_which_nobody_worked_is_no_work(journal: list[Any], make_line: Make) -> None:
    """A process died and was resumed hours later: the dispatch counts from its second start on."""
    key = "p/5/wave-2/c#1"
    told = [
        make_line("dispatch.start", key, "c", 1, ts=at(30)),
        make_line("dispatch.recovered", key, "c", 1, ts=at(9000)),
        make_line("dispatch.start", key, "c", 1, ts=at(9001)),
        make_line("dispatch.end", key, "c", 1, ts=at(9003), data=journal[-1].data),
    ]
    assert dispatch_spans(told)[key].seconds == 2.0


def test_a_part_that_is_told_in_several_lines_is_one(journal: list[Any], make_line: Make) -> None:
    """Much work does not fit into one line of the journal."""
    lines = [line for line in journal if line.event != "schedule"]
    told = {"part": "wave 1", "policy": "barrier", "at_once": 4}
    pieces = [
        make_line("schedule", f"p/5/note#{number}", ts=at(0), data={**told, "needs": needs})
        for number, needs in enumerate(({"a": []}, {"b": []}, {"c": ["b"]}), start=1)
    ]
    (done,) = schedules([*lines, *pieces])
    assert (set(done.spans), done.parts) == ({"a", "b", "c"}, ())
    assert done.critical.members == ("a",)


@pytest.mark.parametrize(
    "data",
    [
        {"part": "w", "policy": "p", "at_once": 4, "needs": {"$json": "0" * 64}},
        {"part": "w", "policy": "p", "at_once": 0, "needs": {"a": []}},
        {"part": "w", "policy": "p", "at_once": "4", "needs": {"a": []}},
        {"at_once": 4, "needs": {"a": []}},
        {"part": "w", "policy": "p", "at_once": 4, "needs": {"a": ["b"], "b": ["a"]}},
        {"part": "w", "policy": "p", "at_once": 4, "needs": {"nobody": []}},
        {},
    ],
)
def test_a_schedule_that_cannot_be_read_is_left_out(journal: list[Any], make_line: Make, data: dict[str, Any]) -> None:
    """A journal of another version, or of a playbook that contradicts itself, still has its report."""
    lines = [line for line in journal if line.event != "schedule"]
    assert schedules([*lines, make_line("schedule", "p/5/note#1", ts=at(0), data=data)]) == ()
    assert schedules(lines) == ()


# -- in reports


@pytest.fixture
def report(tmp_path: Path, journal: list[Any]) -> ReportContent:
    return read_report(MadeRun(tmp_path, journal))


def test_the_report_sets_time_taken_against_the_critical_path(report: ReportContent) -> None:
    """In Markdown: the whole and each part, with scheduling, ratio, bound and the chain itself."""
    text = markdown(report)
    section = text.partition("## Work side by side\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    assert rows[0] == ("| work | scheduling | agents | at once | took | critical path | ratio | at least | chain |")
    assert rows[2:] == [
        "| p/5 | barrier | 3 | 2 of 4 | 6.5 s | 4.0 s | 1.62 | 4.0 s | a |",
        "| — wave 1 | barrier | 2 | 2 of 4 | 4.0 s | 4.0 s | 1.00 | 4.0 s | a |",
        "| — wave 2 | barrier | 1 | 1 of 4 | 2.0 s | 2.0 s | 1.00 | 2.0 s | c |",
    ]


def test_the_page_has_the_same_table(tmp_path: Path, journal: list[Any]) -> None:
    """In HTML."""
    page = page_of(MadeRun(tmp_path, journal))
    assert "Work side by side" in page
    for cell in (">p/5</td>", ">barrier</td>", ">1.62</td>", ">— wave 2</td>"):
        assert cell in page


def test_a_run_that_scheduled_nothing_says_nothing_of_it(tmp_path: Path, journal: list[Any]) -> None:
    """No empty table."""
    run = MadeRun(tmp_path, [line for line in journal if line.event != "schedule"])
    assert "side by side" not in markdown(read_report(run)) + page_of(run)


def test_a_schedule_is_told_in_a_line(journal: list[Any]) -> None:
    """For those who watch."""
    line = next(line for line in journal if line.event == "schedule")
    assert tell(line).text == "wave 1: 2 to be done, at most 4 at once"

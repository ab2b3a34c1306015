"""Cut off anywhere: at every point of a whole run in memory, and between the lines of a wave in real layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from interlock.engine import Options, Status
from interlock.engine.simulation import Crash
from interlock.playbooks.feature import rehearsal
from interlock.testing import Simulation, both, lasting, writes

from .conftest import AT, Bench, plans
from .site import MARK, Site

pytestmark = pytest.mark.long

# -- in memory


def clean() -> Simulation:
    setup = rehearsal()
    return setup.make(setup.base, Options())


def points_of(simulation: Simulation) -> list[tuple[str, str]]:
    """Where a crash matters, and the last line that there was."""
    points: list[tuple[str, str]] = []

    def note(point: str) -> None:
        points.append((point, simulation.lines[-1].event if simulation.lines else ""))

    assert simulation.go(tripwire=note).status is Status.COMPLETE
    return points


def cut(simulation: Simulation, number: int) -> set[str]:
    """Die at a point; what was not synced is lost. The dispatches whose end is recorded."""
    seen, died = 0, ""

    def tripwire(point: str) -> None:
        nonlocal seen, died
        seen += 1
        if seen == number + 1:
            died = point
            raise Crash

    with pytest.raises(Crash):
        simulation.go(tripwire=tripwire)
    if died == "before-sync":
        raw = simulation.medium.load()
        simulation.medium.truncate(raw.rfind(b"\n", 0, len(raw) - 1) + 1)
    kept = simulation.medium.load().splitlines()
    return {str(line.key) for line in simulation.lines[: len(kept)] if line.event == "dispatch.end"}


def documents(simulation: Simulation) -> dict[str, bytes]:
    files = simulation.world.tree.files
    return {path: text for path, text in files.items() if not path.startswith((".interlock/", AT.at("agent-metrics/")))}


def resumes_alike(make: Callable[[], Simulation], number: int, expected: dict[str, bytes]) -> None:
    simulation = make()
    ended = cut(simulation, number)
    assert simulation.go().status is Status.COMPLETE
    assert documents(simulation) == expected
    calls = Counter(request.dispatch for request in simulation.world.calls)
    assert all(calls[key] == 1 for key in ended), "a dispatch with a recorded end was called again"
    assert max(calls.values()) <= 2


@pytest.mark.req("CM-22", "FT-155")
@pytest.mark.parametrize("part", range(6))
def test_a_cut_at_every_point_of_a_whole_run_resumes_to_the_same_documents(part: int) -> None:
    """Behind every line, before every sync, with its line lost, and between every intent and its effect."""
    whole = clean()
    points = points_of(whole)
    expected = documents(whole)
    assert {point for point, _ in points} == {"before-sync", "after-sync", "effect"}
    assert len(points) > 400
    for number in range(part, len(points), 6):
        resumes_alike(clean, number, expected)


def four_side_by_side() -> Simulation:
    """Four members of one wave that end one after another, in another order than declared."""
    bench = Bench()
    bench.ever("planner", plans("T1 T2 T3 T4"))
    for name, seconds in (("T1", 4.0), ("T2", 2.0), ("T3", 3.0), ("T4", 1.0)):
        work = both(writes({f"src/{name}.py": f"{name}\n"}), lasting(seconds))
        bench.ever(f"implementer-{name}", work)
    return bench.simulate()


@pytest.mark.req("CM-22", "EN-38")
def test_parallel_members_killed_at_every_point_of_their_wave_come_in_once() -> None:
    """Between the start of one and the end of another, between verdict and import: the same code comes out."""
    whole = four_side_by_side()
    points = points_of(whole)
    expected = documents(whole)
    assert {f"src/T{number}.py" for number in range(1, 5)} <= set(expected)
    events = [event for _, event in points]
    first = events.index("schedule")
    last = first + events[first:].index("memory.merged")
    inside = events[first:last]
    assert all(inside.count(f"dispatch.{event}") >= 4 for event in ("start", "importing", "end"))
    for number in range(first, last):
        resumes_alike(four_side_by_side, number, expected)


# -- on disk, with real layers, real agents and a real kill


def left_running(place: Path) -> list[int]:
    """Agents of this place that still work."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(place) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


NAMES = ("T1", "T2", "T3")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[range, str]:
    """From the first start to the last end, as numbers of synced lines and effects; the memory in the end."""
    site = Site(tmp_path_factory.mktemp("uninterrupted"), NAMES, together=3).lay_out()
    last: list[str] = []
    finished = site.run(lambda point: last.append(site.lines[-1].event) if point != "before-sync" else None)
    assert finished.output == site.all_done
    first, behind = last.index("dispatch.start"), len(last) - last[::-1].index("dispatch.end")
    return range(first, behind), (site.root / AT.memory).read_text("utf-8")


@pytest.mark.req("CM-22", "CM-09", "EN-38", "LY-03", "LY-15")
@pytest.mark.parametrize("part", range(4))
def test_members_killed_in_their_layers_are_done_once_and_come_in_once(
    uninterrupted: tuple[range, str], tmp_path: Path, part: int
) -> None:
    """Killed with SIGKILL behind every line and before every effect of a wave of three: nothing is paid twice, every
    change arrives once, no agent and no layer is left."""
    points, memory = uninterrupted
    assert len(points) > 18
    for number in points[part::4]:
        site = Site(tmp_path / str(number), NAMES, together=3).lay_out()
        site.killed_at(number)
        ended = {line.key for line in site.lines if line.event == "dispatch.end"}
        assert site.run().output == site.all_done, number
        for name in NAMES:
            assert (site.root / f"src/implementer-{name}.txt").read_text("utf-8") == f"implementer-{name}\n"
        assert (site.root / AT.memory).read_text("utf-8") == memory
        assert all(site.calls[str(key)] == 1 for key in ended), number
        assert Counter(line.event for line in site.lines)["dispatch.end"] == len(NAMES)
        assert left_running(site.base) == []
        assert list((site.root / ".interlock/layers").glob("feature-*")) == [], "a layer is left"

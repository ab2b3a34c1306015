"""The pipeline rehearsed, cut off at its journal's every line, and its invariants shown to notice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from interlock.agents.runner import AgentRequest
from interlock.engine import CRASH, Act, Ending, Options, Played, Rehearsal, Status, best
from interlock.engine.simulation import Crash, Simulation
from interlock.playbooks.feature import diagram, rehearsal
from interlock.playbooks.feature.layout import Layout

OPTIONS = Options()
AT = Layout("login")
PAGE = Path(__file__).parents[3] / "docs" / "playbooks" / "feature.md"


def test_every_invariant_holds_with_one_deviation() -> None:
    """Whatever one agent does wrong once, at whatever call, the run completes, at worst degraded."""
    setup = rehearsal()
    endings: Counter[str] = Counter()
    for played in setup.paths(OPTIONS, most=1):
        assert setup.broken(played) == []
        endings[played.close.status] += 1
    assert endings.total() > 100
    assert set(endings) == {"complete", "degraded"}


@dataclass
class Dice:
    """An agent that deviates so many times in a run, at calls that a seeded generator picks."""

    setup: Rehearsal
    left: int
    draw: random.Random
    schedule: dict[int, str] = field(default_factory=dict)
    calls: int = 0

    def __call__(self, request: AgentRequest) -> Act:
        number, self.calls = self.calls, self.calls + 1
        able = [one for one in (*self.setup.deviations, CRASH) if one.fits(request)]
        if not self.left or self.draw.random() > 0.15:
            return best(request)
        self.left -= 1
        chosen = self.draw.choice(able)
        self.schedule[number] = chosen.name
        return chosen.act(request, best(request))


def rolled(setup: Rehearsal, deviations: int, seed: int) -> Played:
    """One path with at most this many deviations."""
    dice = Dice(setup, deviations, random.Random(seed))
    simulation = setup.make(dice, OPTIONS)
    while True:
        try:
            return Played(dice.schedule, simulation.go(), simulation)
        except Crash:
            continue


@pytest.mark.parametrize(("deviations", "paths"), [(2, 60), (3, 100), (8, 80)])
def test_every_invariant_holds_on_a_seeded_sample(deviations: int, paths: int) -> None:
    """All paths with two deviations are what `interlock rehearse feature` plays; here some of them, and of more."""
    setup = rehearsal()
    endings: Counter[str] = Counter()
    for seed in range(paths):
        played = rolled(setup, deviations, seed)
        assert setup.broken(played) == [], f"seed {seed}"
        endings[played.close.status] += 1
    assert endings["complete"] and (endings["failed"] or deviations < 8)


# -- cut off


def clean() -> Simulation:
    return rehearsal().make(best, OPTIONS)


@pytest.mark.req("CM-22", "FT-155")
@pytest.mark.parametrize("part", range(4))
def test_a_cut_at_every_line_resumes_to_the_same_documents(part: int) -> None:
    """Behind every line and between every intent and its effect: same documents, nothing finished is paid again."""
    whole = clean()
    points: list[str] = []
    assert whole.go(tripwire=points.append).status is Status.COMPLETE
    expected = documents(whole)
    numbers = [number for number, point in enumerate(points) if point != "before-sync"]
    for number in numbers[part::4]:
        cut = clean()
        seen = 0

        def tripwire(_point: str, number: int = number) -> None:
            nonlocal seen
            seen += 1
            if seen == number + 1:
                raise Crash

        with pytest.raises(Crash):
            cut.go(tripwire=tripwire)
        ended = {line.key for line in cut.lines if line.event == "dispatch.end"}
        assert cut.go().status is Status.COMPLETE
        assert documents(cut) == expected
        calls = Counter(request.dispatch for request in cut.world.calls)
        assert all(calls[str(key)] == 1 for key in ended)


def documents(simulation: Simulation) -> dict[str, bytes]:
    files = simulation.world.tree.files
    return {path: text for path, text in files.items() if not path.startswith((".interlock/", AT.at("agent-metrics/")))}


# -- each invariant can fail


def played_clean() -> Played:
    (played,) = list(rehearsal().paths(OPTIONS, most=0))
    return played


def edited(change: Callable[[Played], None]) -> Callable[[Played], Played]:
    def apply(played: Played) -> Played:
        change(played)
        return played

    return apply


async def _claims_success(_run: object, _inputs: object) -> Ending:
    return Ending.complete("DONE: trust me")


def without_pipeline(_played: Played) -> Played:
    """A playbook that claims success without asking anyone."""
    simulation = clean()
    simulation = replace(simulation, playbook=replace(simulation.playbook, function=_claims_success))
    simulation.world.tree.put(AT.memory, b"")
    return Played({}, simulation.go(), simulation)


def add_line(event: str, **data: object) -> Callable[[Played], None]:
    return lambda played: played.simulation.lines.append(played.simulation.lines[-1]._replace(event=event, data=data))


def put(path: str, text: str) -> Callable[[Played], None]:
    return lambda played: played.simulation.world.tree.put(path, text.encode())


def five_at_once(played: Played) -> None:
    played.simulation.world.most_at_once = 5


def retried_twice(played: Played) -> None:
    for _ in range(2):
        add_line("dispatch.try", move="retry")(played)


BREAKS: dict[str, Callable[[Played], Played]] = {
    "DONE only when the reviewers are": lambda played: replace(
        played, close=replace(played.close, status=Status.FAILED, output="ERROR: x")
    ),
    "the end is DONE or ERROR": lambda played: replace(played, close=replace(played.close, output="NEEDS_REVISION: x")),
    "loops are bounded": edited(lambda played: [add_line("loop", loop="replan")(played) for _ in range(4)] and None),
    "steps follow the table": edited(add_line("step", after="S0_Setup", stage="S5_Implement")),
    "never more than four at once": edited(five_at_once),
    "the shared memory is whole and has no mark": edited(put(AT.memory, "mine")),
    "nothing changes outside of its scope": edited(put("outside.txt", "x")),
    "decisions only grow": edited(put(AT.decisions, "# Mine\n")),
    "one retry each": edited(retried_twice),
    "telemetry is complete": edited(add_line("agent.returned", agent="nobody")),
}


@pytest.mark.parametrize("name", BREAKS)
def test_each_invariant_notices_when_it_is_broken(name: str) -> None:
    """An invariant that cannot fail proves nothing."""
    setup = rehearsal()
    assert setup.broken(played_clean()) == []
    found = {problem.split(":")[0] for problem in setup.broken(BREAKS[name](played_clean()))}
    assert name in found


def test_the_breaks_cover_every_invariant_of_the_playbook() -> None:
    """Those of the engine are shown elsewhere."""
    assert {one.name for one in rehearsal().invariants} - set(BREAKS) == {
        "the chain is whole",
        "no dispatch is paid twice",
    }


def test_a_playbook_that_skips_the_work_is_found_out() -> None:
    """It cannot claim DONE."""
    played = without_pipeline(played_clean())
    broken = [one.name for one in rehearsal().invariants if one.name.startswith("DONE") and one.broken(played)]
    assert broken == ["DONE only when the reviewers are"]


# -- the page


def test_the_page_shows_the_table_of_moves() -> None:
    """The diagram in the documentation is the generated one."""
    assert f"```mermaid\n{diagram()}\n```" in PAGE.read_text("utf-8")

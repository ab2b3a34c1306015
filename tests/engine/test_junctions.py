"""Schedules under which everybody answers the same have one run, and it is played once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from interlock.engine import Dispatch, Ending, Run, playbook
from interlock.engine.junctions import USUAL, Junction, Remembered
from interlock.testing import (
    Agent,
    Deviation,
    Invariant,
    Played,
    Rehearsal,
    SimulatedWorld,
    Simulation,
    explore,
)


@dataclass(frozen=True)
class Nothing:
    pass


@playbook("twice", inputs=Nothing, key=lambda _inputs: "once", needs_roles=False)
async def TWICE(run: Run, _inputs: Nothing) -> Ending:
    """Two agents, the second of them twice."""
    await run.dispatch(Dispatch("first", "Begin."))
    for _ in range(2):
        await run.dispatch(Dispatch("second", "Go on."))
    return Ending.complete("done")


def simulated(agent: Agent) -> Simulation:
    return Simulation(TWICE, Nothing(), SimulatedWorld({}, agent))


NO_FILES = Deviation("has no files", lambda _request, act: replace(act, files={}))
BAD = Deviation("says something bad", lambda _request, act: replace(act, message=f"Badly.\n\n{act.message}"))
BAD_EVER = replace(BAD, name="says something bad each time", lasting=True)
SAME_AS_BAD = replace(BAD, name="says the same bad thing")


def runs(*deviations: Deviation, most: int) -> dict[tuple[tuple[int, str], ...], int]:
    """Which run each schedule has."""
    paths = list(explore(simulated, deviations, most=most, crashes=False))
    found: list[Simulation] = []
    for played in paths:
        if not any(played.simulation is one for one in found):
            found.append(played.simulation)
    return {
        tuple(played.schedule.items()): next(n for n, one in enumerate(found) if one is played.simulation)
        for played in paths
    }


def test_who_deviates_and_does_what_it_always_does_has_the_run_without_it() -> None:
    found = runs(NO_FILES, BAD, most=2)
    assert found[()] == found[((0, NO_FILES.name),)] == found[((0, NO_FILES.name), (2, NO_FILES.name))]
    assert found[((1, BAD.name),)] == found[((0, NO_FILES.name), (1, BAD.name))] != found[()]
    assert len(found) == 1 + 2 * 3 + 4 * 3
    assert len(set(found.values())) == 1 + 3 + 3


def test_two_that_answer_the_same_have_one_run() -> None:
    found = runs(BAD, SAME_AS_BAD, most=2)
    assert found[((0, BAD.name),)] == found[((0, SAME_AS_BAD.name),)]
    assert found[((0, BAD.name), (1, SAME_AS_BAD.name))] == found[((0, SAME_AS_BAD.name), (1, BAD.name))]
    assert len(set(found.values())) == 1 + 3 + 3


def test_what_lasts_is_the_same_only_where_nothing_is_asked_again() -> None:
    found = runs(BAD, BAD_EVER, most=2)
    assert found[((2, BAD.name),)] == found[((2, BAD_EVER.name),)]
    assert found[((0, BAD.name),)] == found[((0, BAD_EVER.name),)], "the first agent is not asked twice"
    assert found[((1, BAD.name),)] != found[((1, BAD_EVER.name),)]


def test_a_run_that_was_known_by_its_last_deviation_leads_further_all_the_same() -> None:
    """Twice once is the same as lasting; which of them comes first, other paths begin at the lasting one."""
    for order in ((BAD, BAD_EVER), (BAD_EVER, BAD)):
        found = runs(*order, most=2)
        assert ((1, BAD_EVER.name), (2, BAD.name)) in found
        assert len(found) == 1 + 2 * 3 + 4 * 3


def test_a_rule_for_the_run_is_asked_once_and_one_for_the_schedule_each_time() -> None:
    asked: list[str] = []

    def of(name: str, *, of_the_run: bool) -> Invariant:
        def broken(played: Played) -> str:
            asked.append(name)
            return f"{len(played.schedule)} there"

        return Invariant(name, broken, of_the_run=of_the_run)

    invariants = (of("run", of_the_run=True), of("schedule", of_the_run=False))
    setup = Rehearsal(lambda agent, _options: simulated(agent), (NO_FILES,), invariants)
    told = [setup.broken(played) for played in explore(simulated, (NO_FILES,), most=1, crashes=False)]
    assert (asked.count("run"), asked.count("schedule")) == (1, 4)
    assert sorted(said[1].split(" (")[0] for said in told) == ["schedule: 0 there", *["schedule: 1 there"] * 3]
    assert {said[0].split(" (")[0] for said in told} == {"run: 0 there"}, "what was found first is told of each"


def test_only_so_many_ends_are_remembered_and_what_leads_nowhere_else_goes_with_them() -> None:
    first: Junction[str] = Junction()
    first.hears({USUAL: 1, "other": 2, "equal": 2})
    assert first.way("other") is None
    assert first.way("unheard of") is None
    usual, other = first.leads(USUAL), first.leads("other")
    assert first.leads("equal") is other is not usual
    other.hears({USUAL: 1})
    behind = other.leads(USUAL)
    assert [one.number for one in behind.all_before()] == [0, 1, 2]
    usual.end, behind.end = "a", "b"
    ends = Remembered[str](10)
    ends.take(behind, 6)
    assert behind.end == "b"
    ends.take(usual, 5)
    assert (behind.end, usual.end) == (None, "a")
    assert first.way("other") is None
    assert first.way(USUAL) is usual


def test_what_is_heard_later_is_told_from_what_is_known() -> None:
    """A run that looks at no deviation comes first; one that looks at all of them finds its answer again."""
    here: Junction[str] = Junction()
    here.hears({USUAL: 1})
    usual = here.leads(USUAL)
    here.hears({USUAL: 1, "no other": 1, "other": 2})
    assert here.way("no other") is usual
    assert here.leads("other") is not usual

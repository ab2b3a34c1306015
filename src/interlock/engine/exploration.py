"""Every run of a playbook that deviates from a clean one in at most so many places, played in the simulated twin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from interlock.agents.runner import AgentRequest
from interlock.engine.drive import Close
from interlock.engine.simulation import Act, Agent, Crash, Simulation, best


@dataclass(frozen=True)
class Deviation:
    """Something other than the best that an agent can do at one call."""

    name: str
    act: Callable[[AgentRequest, Act], Act]
    """From the request and the best act to the deviating one."""
    fits: Callable[[AgentRequest], bool] = lambda _request: True


CRASH = Deviation("crash", lambda _request, act: replace(act, crash=True))


@dataclass(frozen=True)
class Played:
    """One explored run: where it deviated, and how it went."""

    schedule: Mapping[int, str]
    close: Close
    simulation: Simulation


def explore(
    make: Callable[[Agent], Simulation],
    deviations: Sequence[Deviation],
    *,
    most: int,
    crashes: bool = True,
    base: Agent = best,
    sample_of: Callable[[Mapping[int, str]], bool] | None = None,
) -> Iterator[Played]:
    """Every run with at most `most` deviations, each once.

    A schedule says at which call (counted over the whole run) which deviation happens. From each explored run the
    next ones follow by deviating once more, at a later call that this run really made.
    """
    pending: list[dict[int, str]] = [{}]
    known = (*deviations, CRASH) if crashes else tuple(deviations)
    by_name = {deviation.name: deviation for deviation in known}
    while pending:
        schedule = pending.pop()
        played = _play(make, by_name, schedule, base)
        yield played
        if len(schedule) >= most:
            continue
        calls = played.simulation.world.calls
        for number in range(max(schedule, default=-1) + 1, len(calls)):
            for deviation in known:
                further = {**schedule, number: deviation.name}
                if deviation.fits(calls[number]) and (sample_of is None or len(further) < most or sample_of(further)):
                    pending.append(further)


def _play(
    make: Callable[[Agent], Simulation], by_name: Mapping[str, Deviation], schedule: Mapping[int, str], base: Agent
) -> Played:
    def agent(request: AgentRequest) -> Act:
        name = schedule.get(len(simulation.world.calls) - 1)
        return by_name[name].act(request, base(request)) if name else base(request)

    simulation = make(agent)
    while True:
        try:
            return Played(schedule, simulation.go(), simulation)
        except Crash:
            continue

"""Deliberately broken copies of a playbook: the real process with one fault, explored like the real one.

An invariant that cannot fail proves nothing.  A `Fault` says what is wrong in the copy: a decision, a table or a method
of the playbook's room swapped for a wrong one wherever the room uses it, or fields of the playbook itself.  Invariants
go on judging by what is right: the modules that define them keep their names.

A test for all of a playbook's invariants is a table from invariant to fault, and three lines:

    @pytest.mark.parametrize("name", FAULTS)
    def test_each_invariant_notices_a_broken_copy(name: str) -> None:
        expect_notice(rehearsal(), OPTIONS, name, FAULTS[name])

    def test_every_invariant_has_a_broken_copy() -> None:
        assert {one.name for one in rehearsal().invariants} == set(FAULTS)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from interlock.engine import Ending, Options, Playbook, Run, examination
from interlock.engine.deviations import PEOPLES_FILE
from interlock.engine.run import behind
from interlock.engine.simulation import Agent
from interlock.testing import Played, Rehearsal, Simulation, best, explore


def _unchanged(playbook: Playbook) -> Playbook:
    return playbook


@dataclass(frozen=True)
class Fault:
    """What is wrong in a copy of a playbook."""

    parts: Mapping[str, Any] = field(default_factory=dict)
    """Name inside the room to what stands there instead: ``decisions.budget``, ``ledger.Ledger.save``."""
    copy: Callable[[Playbook], Playbook] = _unchanged
    """From the playbook to the copy, for what the playbook itself says: its function, caps, retries, state."""
    most: int = 0
    """Deviations of agents in one run until it shows; 0: a clean run shows it."""
    by: tuple[str, ...] = ()
    """The deviations by which it shows; empty: all of the rehearsal's, and crashes."""


@contextmanager
def broken(setup: Rehearsal, options: Options, fault: Fault) -> Iterator[Rehearsal]:
    """The rehearsal of the broken copy. Outside of the block the playbook is whole."""

    def make(agent: Agent, options: Options) -> Simulation:
        simulation = setup.make(agent, options)
        function = simulation.playbook.function
        simulation.playbook = fault.copy(simulation.playbook)
        simulation.playbook.function.__module__ = function.__module__  # roles and prompts are found beside it
        return simulation

    room = setup.make(best, options).playbook.function.__module__.rpartition(".")[0]
    judges = {invariant.broken.__module__ for invariant in setup.invariants}
    chosen = tuple(one for one in setup.deviations if not fault.by or one.name in fault.by)
    with pytest.MonkeyPatch.context() as patch:
        for name, replacement in fault.parts.items():
            _swap(patch, room, judges, name, replacement)
        yield replace(setup, make=make, most=fault.most, deviations=chosen)


def _swap(patch: pytest.MonkeyPatch, room: str, judges: set[str], name: str, replacement: Any) -> None:
    """Put the replacement wherever modules of the room know the original by its name."""
    home, *owners, attribute = name.split(".")
    owner: Any = import_module(f"{room}.{home}")
    for step in owners:
        owner = getattr(owner, step)
    original = getattr(owner, attribute)
    patch.setattr(owner, attribute, replacement)
    if isinstance(owner, ModuleType):
        for module in [module for known, module in sys.modules.items() if known.startswith(f"{room}.")]:
            if module.__name__ not in judges and vars(module).get(attribute) is original:
                patch.setattr(module, attribute, replacement)


def complaints(setup: Rehearsal, played: Played) -> frozenset[str]:
    """The names of the invariants that do not hold on this path."""
    return frozenset(invariant.name for invariant in setup.invariants if invariant.broken(played) is not None)


def noticed(setup: Rehearsal, options: Options, fault: Fault) -> Iterator[frozenset[str]]:
    """For each path of the broken copy, who complains."""
    with broken(setup, options, fault) as copy:
        for played in explore(
            lambda agent: copy.make(agent, options),
            copy.deviations,
            most=copy.most,
            crashes=not fault.by,
            base=copy.base,
            longest=copy.longest,
            answers=copy.answers,
        ):
            yield complaints(copy, played)


def expect_notice(setup: Rehearsal, options: Options, name: str, fault: Fault) -> None:
    """Some path of the broken copy is complained about by this invariant and by no other."""
    seen = set()
    for found in noticed(setup, options, fault):
        if found == {name}:
            return
        seen.add(found)
    said = "\n".join(f"  {sorted(found) or 'nobody'}" for found in sorted(seen, key=sorted))
    raise AssertionError(f"no path of the copy has only {name!r} complain; complaining were:\n{said}")


# -- faults that every playbook can have


def calls_behind_the_back(playbook: Playbook) -> Playbook:
    """A copy that calls its last agent again without a dispatch."""

    async def function(run: Run, inputs: Any) -> Ending:
        ending = await playbook.function(run, inputs)
        request = behind(run).world.calls[-1]  # type: ignore[attr-defined]  # of the simulated world
        await behind(run).world.call(behind(run).world.bind(request.agent), request, lambda _news: None)
        return ending

    return replace(playbook, function=function)


def edits_its_journal(playbook: Playbook) -> Playbook:
    """A copy that changes what it recorded."""

    async def function(run: Run, inputs: Any) -> Ending:
        ending = await playbook.function(run, inputs)
        content: bytearray = behind(run).journal._medium.content  # type: ignore[attr-defined]  # of a journal in memory
        content[content.index(b"dispatch.start")] ^= 1
        return ending

    return replace(playbook, function=function)


def never_ends(playbook: Playbook) -> Playbook:
    """A copy that comes to its end and goes on noting so."""

    async def function(run: Run, inputs: Any) -> Ending:
        await playbook.function(run, inputs)
        while True:
            run.note("still.here")

    return replace(playbook, function=function)


def overwrites_a_persons_file(playbook: Playbook) -> Playbook:
    """A copy that writes where a person did."""

    async def function(run: Run, inputs: Any) -> Ending:
        ending = await playbook.function(run, inputs)
        await run.write(PEOPLES_FILE, "ours\n")
        return ending

    return replace(playbook, function=function)


def takes_nothing_for_work(playbook: Playbook) -> Playbook:
    """A copy in which an agent that changed nothing has done its work."""

    async def function(run: Run, inputs: Any) -> Ending:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(examination, "changed_nothing", lambda verdict: verdict)
            return await playbook.function(run, inputs)

    return replace(playbook, function=function)


ALWAYS_FAULTS: Mapping[str, Fault] = {
    "the chain is whole": Fault(copy=edits_its_journal),
    "no dispatch is paid twice": Fault(copy=calls_behind_the_back),
    "what people write meanwhile is theirs": Fault(copy=overwrites_a_persons_file, most=1, by=("a person works on",)),
    "nothing is accepted against evidence": Fault(copy=takes_nothing_for_work, most=1, by=("changes nothing",)),
}
"""For the invariants that `interlock.engine.ALWAYS` has."""

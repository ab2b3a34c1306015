"""What tests of a playbook need: a bench with a simulated world, agents by function, people, crashes, rehearsals.

The same code runs in memory: verbs, journal, layers and the order of a dispatch are the engine's own; only files,
agents, processes and the clock are not real.  interlock's own tests are written with this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from interlock.agents.runner import AgentRequest
from interlock.contracts import NO_CHANGE
from interlock.engine.asking import Asking
from interlock.engine.definition import Playbook
from interlock.engine.deviations import (
    ANSWERS,
    COMMANDS,
    CRASH,
    LIARS,
    PEOPLES_FILE,
    REMARK,
    STANDARD,
    TROUBLES,
    VERDICTS,
    WEAKENED_TEST,
    CommandDeviation,
    Deviation,
    GateDeviation,
    other_words,
    remarks,
)
from interlock.engine.exploration import ALWAYS, ENDS, GATES, PERSON, Invariant, Played, Rehearsal, explore
from interlock.engine.journal import Line, Tripwire
from interlock.engine.model import CommandResult, Delegation
from interlock.engine.options import Options
from interlock.engine.playing import Finished
from interlock.engine.simulated_disk import MemoryDocuments, MemoryLayer, MemoryTree
from interlock.engine.simulated_repository import SimulatedRepository, Trouble
from interlock.engine.simulation import Act, Agent, Crash, SimulatedWorld, Simulation, best
from interlock.engine.trial import Trial, tried
from interlock.engine.world import CommandCall
from interlock.errors import InterlockError

Change = Callable[[AgentRequest, Act], Act]
"""What an agent does, made from the best that it could do."""


def says(message: str) -> Change:
    """It answers this instead."""
    return lambda _request, act: replace(act, message=message)


def writes(files: Mapping[str, str | bytes | None]) -> Change:
    """It leaves these files as well; None deletes one."""
    return lambda _request, act: replace(act, files={**act.files, **files})


def leaves_out(*paths: str) -> Change:
    """It does not leave these files."""
    return lambda _request, act: replace(act, files={path: c for path, c in act.files.items() if path not in paths})


def meanwhile(edits: Mapping[str, str | bytes | None]) -> Change:
    """While it works, a person changes these files of the workspace."""
    return lambda _request, act: replace(act, people={**act.people, **edits})


def lasting(seconds: float) -> Change:
    """It takes so long; no time passes for that."""
    return lambda _request, act: replace(act, seconds=seconds)


def by(*names: str) -> Callable[[AgentRequest], bool]:
    """Whether a call is one of these agents' or members', for `Deviation.fits`."""
    return lambda request: request.agent in names or request.member in names


def both(*changes: Change) -> Change:
    """One after the other."""

    def change(request: AgentRequest, act: Act) -> Act:
        for one in changes:
            act = one(request, act)
        return act

    return change


def passing(_call: CommandCall) -> CommandResult:
    """A command that ends well."""
    return CommandResult(0)


@dataclass
class Bench:
    """A playbook in a workspace in memory.

    `on` says what an agent does at its first, second ... call, `ever` what it does each time; whoever is told nothing
    does its part well.  `play` starts a run and `resume` goes on with it; what happened is then asked of the bench.
    """

    playbook: Playbook
    files: dict[str, str | bytes] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    flags: dict[str, Any] = field(default_factory=dict)
    parent: Delegation | None = None
    base: Agent = best
    """What an agent does that was told nothing."""
    command: Callable[[CommandCall], CommandResult] = passing
    max_parallel: int | None = None
    script: dict[str, list[Change | None]] = field(default_factory=dict)
    always: dict[str, Change] = field(default_factory=dict)
    called_so_far: Counter[str] = field(default_factory=Counter)
    _simulation: Simulation | None = None

    # -- what agents and people do

    def on(self, member: str, *changes: Change | None) -> Self:
        """What a member does at its first, second ... call; None: its part, well."""
        self.script[member] = list(changes)
        return self

    def ever(self, member: str, change: Change) -> Self:
        """What a member does at every call."""
        self.always[member] = change
        return self

    def told(self, request: AgentRequest, number: int) -> Change | None:
        """What a member was told to do at this call, counted from 0."""
        changes = self.script.get(request.member, [])
        return self.always.get(request.member) or (changes[number] if number < len(changes) else None)

    def agent(self, request: AgentRequest) -> Act:
        change = self.told(request, self.called_so_far[request.member])
        self.called_so_far[request.member] += 1
        act = self.base(request)
        return act if change is None else change(request, act)

    def edit(self, path: str, content: str | bytes | None) -> None:
        """A person changes a file of the workspace, or deletes it, between two processes."""
        raw = content.encode() if isinstance(content, str) else content
        self.simulation.world.tree.put(path, raw)

    def answer(self, choice: str, *, note: str = "", who: str = "somebody") -> None:
        """A person decides at the gate at which the run waits."""
        self.simulation.decide(choice, note=note, who=who)

    # -- runs

    @property
    def simulation(self) -> Simulation:
        assert self._simulation is not None, "nothing was played on this bench"
        return self._simulation

    @property
    def options(self) -> Options:
        settings = self.playbook.settings(**self.settings)
        return Options(settings=settings, flags=self.flags, parent=self.parent, max_parallel=self.max_parallel)

    def simulate(self, inputs: Any) -> Simulation:
        """A run that is yet to begin, in a fresh workspace."""
        self.called_so_far.clear()
        world = SimulatedWorld(self.files, self.agent, command=self.command)
        self._simulation = Simulation(self.playbook, inputs, world, options=self.options)
        return self._simulation

    def play(self, inputs: Any) -> Finished:
        """A run, until its process ends."""
        return self.simulate(inputs).go()

    def resume(self) -> Finished:
        """The next process of the run, with the settings and flags that the bench has now."""
        return self.simulation.go(options=self.options)

    def refuse(self, inputs: Any) -> InterlockError:
        """The error of a start that is refused before anything came into being."""
        self.simulate(inputs)
        return self.refused()

    def refused(self) -> InterlockError:
        """The error of the run that is yet to begin, which leaves nothing behind."""
        simulation = self.simulation
        before = dict(simulation.world.tree.files)
        try:
            finished = simulation.go()
        except InterlockError as error:
            assert simulation.world.calls == [], "an agent was called"
            assert simulation.world.records.identity is None, "the run came into being"
            assert simulation.world.tree.files == before, "the workspace was changed"
            return error
        raise AssertionError(f"it was not refused: {finished.status} {finished.reason}")

    def crashes(self, inputs: Any) -> Iterator[Finished]:
        """The same run once for each point at which its process can die: cut there, and gone on with to the end."""
        points = 0

        def count(_point: str) -> None:
            nonlocal points
            points += 1

        self.simulate(inputs).go(tripwire=count)
        for point in range(1, points + 1):
            simulation = self.simulate(inputs)
            try:
                simulation.go(tripwire=dying_at(point))
            except Crash:
                yield simulation.go()

    # -- what happened

    @property
    def lines(self) -> list[Line]:
        return self.simulation.lines

    def events(self, name: str) -> list[dict[str, Any]]:
        """The facts of each event of this name."""
        said = (line.data for line in self.lines if line.event == name)
        return [{key: value for key, value in data.items() if key not in ("in", "out")} for data in said]

    @property
    def warnings(self) -> list[str]:
        return [str(one["text"]) for one in self.events("warning")]

    @property
    def requests(self) -> list[AgentRequest]:
        """The calls of agents, in the order in which they began."""
        return self.simulation.world.calls

    @property
    def called(self) -> list[str]:
        return [request.member for request in self.requests]

    def brief(self, member: str, number: int = 0) -> str:
        """What a member was told at its first, second ... call."""
        return [request.brief for request in self.requests if request.member == member][number]

    def text(self, path: str) -> str:
        return self.simulation.world.tree.files[path].decode()

    @property
    def paths(self) -> set[str]:
        return set(self.simulation.world.tree.files)

    @property
    def output(self) -> str:
        """What the playbook itself said."""
        return "".join(text if isinstance(text, str) else text.decode() for text in self.simulation.said)


def dying_at(point: int) -> Tripwire:
    """For `Simulation.go`: interlock dies at this point of its work, the first one being 1."""
    left = point

    def wire(_name: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash

    return wire


def rehearse(rehearsal: Rehearsal, *, most: int | None = None, options: Options | None = None) -> list[str]:
    """Every path with at most so many faults; the rules that one of them broke, as sentences."""
    paths = rehearsal.paths(options or Options(), most=most)
    broken = [problem for played in paths for problem in rehearsal.broken(played)]
    return [*broken, *rehearsal.left_out()]


def simulated(
    playbook: Playbook, inputs: Any, files: Mapping[str, str | bytes]
) -> Callable[[Agent, Options], Simulation]:
    """For `Rehearsal.make`: runs of a playbook, each in a workspace with these files."""
    return lambda agent, options: Simulation(playbook, inputs, SimulatedWorld(files, agent), options=options)


def standard_rehearsal(playbook: Playbook, asking: Asking | None = None) -> Rehearsal:
    """The rehearsal of a playbook that offers none: what any agent can do wrong, and what must hold for all.

    It is played with each of its samples, else with inputs that are made up; people answer at its gates.
    """
    asking = asking or Asking(MemoryDocuments(MemoryTree({})), playbook.settings())
    samples = list(playbook.samples(asking)) or [playbook.asked(_made_up(playbook), asking).inputs]
    makes = tuple(simulated(playbook, inputs, {}) for inputs in samples)
    return OfSamples(
        makes[0],
        deviations=(*STANDARD, *LIARS, *VERDICTS, *COMMANDS, *ANSWERS),
        invariants=(*ALWAYS, ENDS, GATES),
        base=_playing,
        longest=MOST_CALLS,
        answers=True,
        makes=makes,
    )


MOST_CALLS = 300
"""More than a playbook can need that has no rehearsal of its own."""


def _playing(request: AgentRequest) -> Act:
    """An agent that does its part; whoever is to change files says why none needs it: nobody knows its scope here."""
    act, contract = best(request), request.contract
    if contract is None or not contract.must_change:
        return act
    verdict = f"```json\n{act.message}\n```" if contract.answer.completion == "json" else act.message
    return replace(act, message=f"{NO_CHANGE}: this part is only played.\n\n{verdict}")


def _made_up(playbook: Playbook) -> dict[str, Any]:
    """Something for whatever must be said."""
    values: dict[type, Any] = {str: "sample", int: 1, float: 1.0, bool: True}
    made = {}
    for one in playbook.questions(playbook.inputs):
        if one.required:
            low = one.option.at_least
            value = one.choices[0] if one.choices else low if low is not None else values[one.kind]
            made[one.field] = [value] if one.many else value
    return made


@dataclass(frozen=True)
class OfSamples(Rehearsal):
    """The paths of several inputs, one after the other."""

    makes: tuple[Callable[[Agent, Options], Simulation], ...] = ()

    def paths(self, options: Options, **how: Any) -> Iterator[Played]:
        for make in self.makes:
            yield from replace(self, make=make, makes=()).of_one(options, **how)

    def of_one(self, options: Options, **how: Any) -> Iterator[Played]:
        return super().paths(options, **how)


__all__ = [
    "ALWAYS",
    "ANSWERS",
    "COMMANDS",
    "CRASH",
    "ENDS",
    "GATES",
    "LIARS",
    "PEOPLES_FILE",
    "PERSON",
    "REMARK",
    "STANDARD",
    "TROUBLES",
    "VERDICTS",
    "WEAKENED_TEST",
    "Act",
    "Agent",
    "Bench",
    "Change",
    "CommandDeviation",
    "Crash",
    "Deviation",
    "Finished",
    "GateDeviation",
    "Invariant",
    "MemoryDocuments",
    "MemoryLayer",
    "MemoryTree",
    "Played",
    "Rehearsal",
    "SimulatedRepository",
    "SimulatedWorld",
    "Simulation",
    "Trial",
    "Trouble",
    "best",
    "both",
    "by",
    "dying_at",
    "explore",
    "lasting",
    "leaves_out",
    "meanwhile",
    "other_words",
    "passing",
    "rehearse",
    "remarks",
    "says",
    "simulated",
    "standard_rehearsal",
    "tried",
    "writes",
]

"""Every run of a playbook that deviates from a clean one in at most so many places, played in the simulated twin."""

from __future__ import annotations

import gc
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from traceback import clear_frames
from typing import Any

from interlock.agents.runner import AgentRequest
from interlock.contracts import Evidence
from interlock.engine.deviations import (
    CRASH,
    PEOPLES_FILE,
    REMARK,
    STANDARD,
    AnyDeviation,
    CommandDeviation,
    Commanded,
    Gate,
    Given,
    Occasion,
    contract_of,
    deviating,
    fits,
    subject,
)
from interlock.engine.journal import Line, is_chain, seal_of, verify
from interlock.engine.junctions import USUAL, Junction, Remembered
from interlock.engine.keys import sha256
from interlock.engine.model import CommandResult, Status
from interlock.engine.moments import Moment, is_quiet
from interlock.engine.objects import unpack
from interlock.engine.options import Options
from interlock.engine.playing import Finished
from interlock.engine.recording import Recording
from interlock.engine.simulation import Act, Agent, Crash, Simulation, best
from interlock.engine.world import CommandCall


@dataclass(frozen=True)
class Played:
    """One explored run: where it deviated, and how it went."""

    schedule: Mapping[int, str]
    finished: Finished
    simulation: Simulation
    occasions: Sequence[Occasion] = ()
    """What the numbers of a schedule count."""
    shown: dict[Invariant, str | None] = field(default_factory=dict, compare=False, repr=False)
    """What is known to hold of this run, whatever its schedule: several schedules can have the same run."""

    @property
    def crashed(self) -> bool:
        return CRASH.name in self.schedule.values()

    # -- what invariants ask for

    @property
    def lines(self) -> Sequence[Line]:
        """The journal."""
        return self.simulation.lines

    @property
    def calls(self) -> Sequence[AgentRequest]:
        """The calls of agents, in the order in which they began."""
        return self.simulation.world.calls

    @property
    def files(self) -> Mapping[str, bytes]:
        """The workspace at the end."""
        return self.simulation.world.tree.files

    @property
    def people(self) -> Mapping[str, str | bytes | None]:
        """What people changed while agents worked, by path."""
        return self.simulation.world.people

    def before(self) -> Mapping[str, bytes]:
        """The workspace when work began."""
        return self.simulation.world.tree.at(0)

    def text(self, path: str) -> str | None:
        """What a file says at the end; None where there is none."""
        content = self.files.get(path)
        return None if content is None else content.decode()

    def altered(self, those: Callable[[str], bool]) -> list[str]:
        """The files of this kind that are neither as they were when work began nor as people left them since."""
        meant: dict[str, bytes | None] = dict(self.before()) if self.calls else dict(self.files)
        meant |= {path: text.encode() if isinstance(text, str) else text for path, text in self.people.items()}
        paths = sorted(path for path in {*meant, *self.files} if those(path))
        return [path for path in paths if self.files.get(path) != meant.get(path)]

    def told(self, *events: str) -> list[Mapping[str, Any]]:
        """The facts of each event of these names, in their order."""
        return [line.data for line in self.lines if line.event in events]


@dataclass(frozen=True)
class Invariant:
    """Something that must hold on every path."""

    name: str
    broken: Callable[[Played], str | None]
    """Why it does not hold there, or None."""
    of_the_run: bool = False
    """It asks what the run did, and never for the schedule: one answer for all schedules that have this run."""

    def why(self, played: Played) -> str | None:
        """Why it does not hold there, or None; a run is not asked twice."""
        if not self.of_the_run:
            return self.broken(played)
        if self not in played.shown:
            played.shown[self] = self.broken(played)
        return played.shown[self]


def chain_is_whole(played: Played) -> str | None:
    medium, identity = played.simulation.medium, played.simulation.world.records.identity
    if identity is None:
        return None
    raw, genesis = medium.load(), sha256(identity)
    if is_chain(raw, genesis=genesis, seal_of=_seal_of):
        return None
    return next(iter(verify(raw, genesis=genesis, name=medium.name)), None)


_seal_of = lru_cache(maxsize=4096)(seal_of)
"""Paths have their beginnings in common."""


def paid_once(played: Played) -> str | None:
    """Each dispatch was called once per try, and once more for each crash that hit it."""
    calls = Counter([request.dispatch for request in played.calls])
    lines = Counter([(line.event, line.key) for line in played.lines])
    wrong = [key for key, n in calls.items() if lines["dispatch.start", key] != n or lines["dispatch.end", key] > 1]
    return f"called and recorded differ for {', '.join(wrong)}" if wrong else None


def people_are_spared(played: Played) -> str | None:
    """What a person wrote while an agent worked is not overwritten by that agent's work, their own file stays, and so
    do remarks in documents that the playbook goes on writing."""
    if played.altered(lambda path: path == PEOPLES_FILE):
        return f"{PEOPLES_FILE} is not as a person left it"
    remarked = [path for path, text in played.people.items() if isinstance(text, bytes) and REMARK.encode() in text]
    if lost := [path for path in remarked if REMARK not in (played.text(path) or "")]:
        return f"a person's remark is lost in {', '.join(lost)}"
    for line in played.lines:
        if line.event == "dispatch.end" and isinstance(out := line.data["out"], Mapping) and out.get("accepted"):
            theirs = played.simulation.world.people_during.get(str(line.key), {})
            lost = [path for path in out["changes"] if path in theirs]
            if lost:
                return f"{line.key} took {', '.join(lost)} over although a person had changed it meanwhile"
    return None


def accepted_by_evidence(played: Played) -> str | None:
    """No pass against its own evidence, no work without a change, and what weakens tests is told to the next judge."""
    contracts = {request.dispatch: contract_of(request) for request in played.calls}
    noticed: dict[str, int] = {}
    for line in played.lines:
        if line.event == "work.noticed":
            noticed |= dict.fromkeys(line.data["what"], line.seq)
        if line.event != "dispatch.end" or not isinstance(out := line.data["out"], Mapping):
            continue
        if out["outcome"] == "OK" and out["passed"] and (said := Evidence.from_json(out["evidence"]).contradictions):
            return f"{line.key} passed although {said[0]}"
        bare = not set(out["changes"]) - set(out["artifacts"])
        if out["outcome"] == "OK" and contracts[str(line.key)].must_change and bare and not out["no_change"]:
            return f"{line.key} counts although it changed nothing"
    return _untold(played, noticed)


def _untold(played: Played, noticed: Mapping[str, int]) -> str | None:
    starts: dict[str, int] = {}
    for line in played.lines:
        if line.event == "dispatch.start":
            starts.setdefault(str(line.key), line.seq)
    for request in played.calls:
        if contract_of(request).claim is None:
            continue
        for text, seq in noticed.items():
            if seq < starts.get(request.dispatch, 0) and text not in request.brief:
                return f"{request.dispatch} was not told: {text}"
    return None


ALWAYS: tuple[Invariant, ...] = (
    Invariant("the chain is whole", chain_is_whole, of_the_run=True),
    Invariant("no dispatch is paid twice", paid_once, of_the_run=True),
    Invariant("what people write meanwhile is theirs", people_are_spared, of_the_run=True),
    Invariant("nothing is accepted against evidence", accepted_by_evidence, of_the_run=True),
)


def comes_to_an_end(played: Played) -> str | None:
    finished = played.finished
    return finished.reason if finished.status in (Status.WAITING, Status.INTERRUPTED) else None


ENDS = Invariant("every path comes to an end", comes_to_an_end, of_the_run=True)
"""For a rehearsal that says how many calls its longest path can make."""


def with_whole_lines(simulation: Simulation) -> Simulation:
    """The same, and an outcome too long for its line stands in it all the same, so that invariants can read it."""

    def is_elsewhere(line: Line) -> bool:
        return type(out := line.data.get("out")) is dict and "$json" in out

    if not any(map(is_elsewhere, simulation.lines)):
        return simulation
    objects, seen = simulation.world.records.objects, copy(simulation)
    seen.lines = [
        line._replace(data=unpack(line.data, objects)) if is_elsewhere(line) else line for line in simulation.lines
    ]
    return seen


PERSON = "a person"
"""Who answers at the gates of a rehearsal."""


def decided_by_people(played: Played) -> str | None:
    """A gate is passed by what a person said there, and each answer passes it once."""
    decided = [line for line in played.lines if line.event == "gate.decided"]
    alone = [str(line.key) for line in decided if line.data["who"] != PERSON]
    asked = sum(isinstance(occasion, Gate) for occasion in played.occasions)
    if alone:
        return f"nobody was asked at {alone[0]}"
    return f"{len(decided)} gates passed, {asked} answers given" if len(decided) > asked else None


GATES = Invariant("no gate is passed without a person", decided_by_people, of_the_run=True)
"""For a rehearsal in which a person answers at the gates."""


@dataclass(frozen=True)
class Rehearsal:
    """How a playbook is rehearsed: its setting, what can go otherwise than well, and what must hold all the same."""

    make: Callable[[Agent, Options], Simulation]
    deviations: tuple[AnyDeviation, ...] = STANDARD
    invariants: tuple[Invariant, ...] = ALWAYS
    most: int = 2
    """Deviations in one run, up to which every combination is played."""
    base: Agent = best
    """What an agent does where it does not deviate."""
    longest: int | None = None
    """Calls that no path can need; one that makes more is cut off there, and `ENDS` complains."""
    answers: bool = False
    """A person answers at the gates, with the first choice where they do not deviate; else a path ends there."""
    unreached: Callable[[], Sequence[str]] = lambda: ()
    """What no path came to so far, of all that some path must come to."""

    def paths(
        self, options: Options, *, most: int | None = None, sample_of: Callable[[Mapping[int, str]], bool] | None = None
    ) -> Iterator[Played]:
        """Every path with at most `most` deviations; of those with exactly so many only what `sample_of` says."""
        return explore(
            lambda agent: self.make(agent, options),
            self.deviations,
            most=self.most if most is None else most,
            base=self.base,
            sample_of=sample_of,
            longest=self.longest,
            answers=self.answers,
        )

    def broken(self, played: Played) -> list[str]:
        """The invariants that do not hold on this path, as sentences."""
        simulation = with_whole_lines(played.simulation)
        whole = played if simulation is played.simulation else replace(played, simulation=simulation)
        found = ((invariant.name, invariant.why(whole)) for invariant in self.invariants)
        return [f"{name}: {why} (deviations: {played.schedule or 'none'})" for name, why in found if why is not None]

    def left_out(self) -> list[str]:
        """What all paths together should have come to and did not, as sentences; for after the last of them."""
        return [f"everything is reached: no path came to {place}" for place in self.unreached()]


def explore(
    make: Callable[[Agent], Simulation],
    deviations: Sequence[AnyDeviation],
    *,
    most: int,
    crashes: bool = True,
    base: Agent = best,
    sample_of: Callable[[Mapping[int, str]], bool] | None = None,
    longest: int | None = None,
    answers: bool = False,
) -> Iterator[Played]:
    """Every run with at most `most` deviations, each once.

    A schedule says at which occasion (counted over the whole run) which deviation happens. Calls of agents are
    occasions; commands and gates are where there is a deviation for them. From each explored run the next ones follow
    by deviating once more, at a later occasion that this run really came to. Schedules under which everybody answers
    the same have one run, which is played once (`junctions`).
    """
    known = (*deviations, CRASH) if crashes else tuple(deviations)
    by_name = {deviation.name: deviation for deviation in known}
    pending: list[tuple[dict[int, str], Junction[_Known], Moment | None, Sequence[Occasion]]] = []
    pending.append(({}, Junction(), None, ()))
    forks, ends = Remembered[_Known](KEPT_FORKS), Remembered[_Known](KEPT_ENDS)
    with _collecting_rarely():
        while pending:
            schedule, junction, moment, before = pending.pop()
            further = len(schedule) < most
            path = _Path(by_name, schedule, base, longest, answers, forks=further)
            if (played := path.known(junction)) is None:
                played = path.play(make, moment, before)
                (forks if further else ends).take(path.end, len(played.lines))
            yield played
            if not further:
                continue
            moments = [moment, *path.moments]
            for junction in path.junctions[max(schedule, default=-1) + 1 :]:
                while len(moments) > 1 and moments[1] is not None and moments[1].occasions <= junction.number:
                    del moments[0]
                for name in junction.offered:
                    longer = {**schedule, junction.number: name}
                    if sample_of is None or len(longer) < most or sample_of(longer):
                        pending.append((longer, junction, moments[0], played.occasions))


@contextmanager
def _collecting_rarely() -> Iterator[None]:
    """What paths leave in circles is freed once in a hundred of them: looking for it is a sixth of the time."""
    usual = gc.get_threshold()
    if not 0 < usual[0] < RARELY:
        yield
        return
    gc.set_threshold(RARELY, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


RARELY = 100_000
"""Objects that are made and not freed before anybody looks for circles among them."""
KEPT_FORKS, KEPT_ENDS = 20_000, 10_000
"""Lines of runs that others may turn out to be: of those from which others follow, and of those that do not."""
POINTS_PER_CALL = 200
"""More than a playbook records for one call: one that goes on recording and calls nobody does not end either."""


class Endless(Crash):
    """The path has made more calls than it can need."""


@dataclass(frozen=True)
class _Known:
    """A run that was played."""

    played: Played
    forks: bool
    """Whether somebody looked at what could have gone otherwise in it."""


class _Path:
    """One run that deviates where its schedule says."""

    def __init__(
        self,
        by_name: Mapping[str, AnyDeviation],
        schedule: Mapping[int, str],
        base: Agent,
        longest: int | None,
        answers: bool,
        *,
        forks: bool,
    ) -> None:
        self._by_name = by_name
        self._schedule = schedule
        self._base = base
        self._longest = longest
        self._answers = answers
        self._forks = forks
        self._lasting = {number for number, name in schedule.items() if by_name[name].lasting}
        self._occasions: list[Occasion] = []
        self.junctions: list[Junction[_Known]] = []
        """Where it came through, the last one being its end."""
        self.moments: list[Moment] = []
        """Where paths can begin that deviate from this one later."""

    @property
    def end(self) -> Junction[_Known]:
        return self.junctions[-1]

    def known(self, junction: Junction[_Known]) -> Played | None:
        """The run that was played with the same answers, if there was one that came through this junction."""
        self.junctions = junction.all_before()
        while (end := self.end).subject is not None:
            following = end.way(self._name(end))
            if following is None:
                return None
            self.junctions.append(following)
        if end.end is None or (self._forks and not end.end.forks):
            return None
        return replace(end.end.played, schedule=self._schedule)

    def play(self, make: Callable[[Agent], Simulation], moment: Moment | None, before: Sequence[Occasion]) -> Played:
        """Play it, from where an earlier path was at that moment; `before` are the occasions of that one."""
        simulation = make(self._agent)
        self._occasions += before[: 0 if moment is None else moment.occasions]
        del self.junctions[len(self._occasions) + 1 :]
        if moment is not None:
            moment.goes_on(simulation)
        if self._forks:
            simulation.watch = lambda line, recording: self._keep(simulation, line, recording)
        if any(isinstance(deviation, CommandDeviation) for deviation in self._by_name.values()):
            simulation.world.result_of = self._command(simulation.world.result_of)
        points, longest, calls = itertools.count(1), self._longest, simulation.world.calls

        def brake(_point: str) -> None:
            if longest is not None and (len(calls) > longest or next(points) > longest * POINTS_PER_CALL):
                raise Endless

        while True:
            try:
                finished = simulation.go(tripwire=brake)
            except Endless:
                finished = Finished(Status.INTERRUPTED, f"no end after {longest} calls")
            except Crash as crash:
                clear_frames(crash.__traceback__)  # which hold each other: nobody looks there
                continue
            if finished.gate is None or not self._answers:
                played = Played(self._schedule, finished, simulation, self._occasions)
                self.end.end = _Known(played, self._forks)
                return played
            simulation.decide(self._answer(finished.gate), who=PERSON)

    def _keep(self, simulation: Simulation, line: Line, recording: Recording) -> None:
        if is_quiet(line, recording):
            self.moments.append(Moment.of(simulation, recording, len(self._occasions)))

    def _name(self, junction: Junction[_Known]) -> str:
        """What happens there instead of the usual."""
        name = self._schedule.get(junction.number)
        if name is None and self._lasting:
            earlier = (one for one in self._lasting if one < junction.number)
            before = [one for one in earlier if self.junctions[one].subject == junction.subject]
            name = self._schedule[max(before)] if before else None
        return USUAL if name is None else name

    def _answered(self, occasion: Occasion, usual: Given) -> Given:
        """What is answered there, where the usual is this; the path goes on behind it."""
        here, answers = self.end, {USUAL: usual}
        here.subject = subject(occasion)
        self._occasions.append(occasion)
        if self._forks:
            fitting = {name: one for name, one in self._by_name.items() if fits(one, occasion)}
            answers |= {name: deviating(one, occasion, usual) for name, one in fitting.items()}
            here.offered = tuple(fitting)
        if (name := self._name(here)) not in answers:
            answers[name] = deviating(self._by_name[name], occasion, usual)
        here.hears(answers)
        self.junctions.append(here.leads(name))
        return answers[name]

    def _agent(self, request: AgentRequest) -> Act:
        act = self._answered(request, self._base(request))
        assert isinstance(act, Act)
        return act

    def _command(self, passing: Callable[[CommandCall], CommandResult]) -> Callable[[CommandCall], CommandResult]:
        def result_of(call: CommandCall) -> CommandResult:
            result = self._answered(Commanded(call, len(self._occasions)), passing(call))
            assert isinstance(result, CommandResult)
            return result

        return result_of

    def _answer(self, opened: Mapping[str, object]) -> str:
        gate = Gate.of(opened, len(self._occasions))
        return str(self._answered(gate, gate.choices[0]))

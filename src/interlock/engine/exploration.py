"""Every run of a playbook that deviates from a clean one in at most so many places, played in the simulated twin."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace

from interlock.agents.runner import AgentRequest
from interlock.contracts import Contract, Evidence
from interlock.engine.journal import verify
from interlock.engine.keys import sha256
from interlock.engine.model import Status
from interlock.engine.objects import unpack
from interlock.engine.options import Options
from interlock.engine.playing import Finished
from interlock.engine.simulated_repository import Trouble
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
    finished: Finished
    simulation: Simulation


def hung(request: AgentRequest, act: Act) -> Act:
    return replace(act, seconds=request.timeout_s + request.partial_grace_s + 60)


PEOPLES_FILE, PEOPLES_WORDS = "people/notes.txt", "by a person\n"


def interfered(request: AgentRequest, act: Act) -> Act:
    """A person works on meanwhile: on a file of their own, and on one that the agent writes too."""
    both = dict.fromkeys(list(act.files)[:1], PEOPLES_WORDS)
    return replace(act, people={**act.people, PEOPLES_FILE: PEOPLES_WORDS, **both})


STANDARD: tuple[Deviation, ...] = (
    Deviation("says nothing", lambda _request, act: replace(act, message="", result=None)),
    Deviation("dies", lambda _request, act: replace(act, code=-9, message="", files={})),
    Deviation("hangs", hung),
    Deviation("cannot be started", lambda _request, act: replace(act, spawn_error="no such program")),
    Deviation("writes outside", lambda _request, act: replace(act, files={**act.files, "outside.txt": "x"})),
    Deviation("lies", lambda _request, act: replace(act, files={})),
    Deviation("a person works on", interfered),
)
"""What any agent can do wrong, and what people do meanwhile, whatever the playbook."""


def befallen(trouble: Trouble) -> Deviation:
    return Deviation(trouble.value, lambda _request, act: replace(act, befalls=trouble))


TROUBLES: tuple[Deviation, ...] = tuple(map(befallen, Trouble))
"""What happens to the user's repository while an agent works, for playbooks that use it."""


def contract_of(request: AgentRequest) -> Contract:
    return request.contract or Contract()


RED = {"command": "make test", "exit": 1, "summary": "1 failed"}
WEAKENED_TEST = "tests/test_existing.py"


def against_its_evidence(request: AgentRequest, act: Act) -> Act:
    """The same verdict, and behind it a command that failed: in the answer's data, and in every document."""
    line = f"\n- `{RED['command']}`: exit {RED['exit']}\n"
    files = {path: _with_red(path, text, line) for path, text in act.files.items()}
    message = act.message
    if (start := message.find("{")) >= 0:
        data, end = json.JSONDecoder().raw_decode(message, start)
        evidence = data.get("evidence") if isinstance(data.get("evidence"), dict) else {}
        message = (
            message[:start] + json.dumps({**data, "evidence": {**evidence, "verification": [RED]}}) + message[end:]
        )
    return replace(act, message=message, files=files)


def _with_red(path: str, text: str | bytes | None, line: str) -> str | bytes | None:
    if not isinstance(text, str) or not path.endswith((".md", ".yaml")):
        return text
    return text + (line if path.endswith(".md") else f"checks:\n- {json.dumps(RED)}\n")


def only_its_documents(request: AgentRequest, act: Act) -> Act:
    owed = {artifact.path for artifact in contract_of(request).artifacts}
    return replace(act, files={path: text for path, text in act.files.items() if path in owed})


LIARS: tuple[Deviation, ...] = (
    Deviation(
        "passes against its own evidence",
        against_its_evidence,
        fits=lambda request: contract_of(request).claim is not None,
    ),
    Deviation("changes nothing", only_its_documents, fits=lambda request: contract_of(request).must_change),
    Deviation(
        "weakens tests",
        lambda _request, act: replace(act, files={**act.files, WEAKENED_TEST: "@pytest.mark.skip\n"}),
        fits=lambda request: contract_of(request).must_change,
    ),
)
"""Agents that want to be believed, whatever the playbook."""


@dataclass(frozen=True)
class Invariant:
    """Something that must hold on every path."""

    name: str
    broken: Callable[[Played], str | None]
    """Why it does not hold there, or None."""


def chain_is_whole(played: Played) -> str | None:
    medium, identity = played.simulation.medium, played.simulation.world.records.identity
    if identity is None:
        return None
    return "; ".join(verify(medium.load(), genesis=sha256(identity), name=medium.name)) or None


def paid_once(played: Played) -> str | None:
    """Each dispatch was called once per try, and once more for each crash that hit it."""
    calls = Counter(request.dispatch for request in played.simulation.world.calls)
    starts = Counter(line.key for line in played.simulation.lines if line.event == "dispatch.start")
    ends = Counter(line.key for line in played.simulation.lines if line.event == "dispatch.end")
    wrong = [key for key in calls if calls[key] != starts[key] or ends[key] > 1]
    return f"called and recorded differ for {', '.join(wrong)}" if wrong else None


def people_are_spared(played: Played) -> str | None:
    """What a person wrote while an agent worked is not overwritten by that agent's work, and their own file stays."""
    files, lines = played.simulation.world.tree.files, played.simulation.lines
    if PEOPLES_FILE in played.simulation.world.people and files.get(PEOPLES_FILE) != PEOPLES_WORDS.encode():
        return f"{PEOPLES_FILE} is not as a person left it"
    for line in lines:
        if line.event == "dispatch.end" and isinstance(out := line.data["out"], Mapping) and out.get("accepted"):
            theirs = played.simulation.world.people_during.get(str(line.key), {})
            lost = [path for path in out["changes"] if path in theirs]
            if lost:
                return f"{line.key} took {', '.join(lost)} over although a person had changed it meanwhile"
    return None


def accepted_by_evidence(played: Played) -> str | None:
    """No pass against its own evidence, no work without a change, and what weakens tests is told to the next judge."""
    contracts = {request.dispatch: contract_of(request) for request in played.simulation.world.calls}
    noticed: dict[str, int] = {}
    for line in played.simulation.lines:
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
    for line in played.simulation.lines:
        if line.event == "dispatch.start":
            starts.setdefault(str(line.key), line.seq)
    for request in played.simulation.world.calls:
        if contract_of(request).claim is None:
            continue
        for text, seq in noticed.items():
            if seq < starts.get(request.dispatch, 0) and text not in request.brief:
                return f"{request.dispatch} was not told: {text}"
    return None


ALWAYS: tuple[Invariant, ...] = (
    Invariant("the chain is whole", chain_is_whole),
    Invariant("no dispatch is paid twice", paid_once),
    Invariant("what people write meanwhile is theirs", people_are_spared),
    Invariant("nothing is accepted against evidence", accepted_by_evidence),
)


def comes_to_an_end(played: Played) -> str | None:
    finished = played.finished
    return finished.reason if finished.status in (Status.WAITING, Status.INTERRUPTED) else None


ENDS = Invariant("every path comes to an end", comes_to_an_end)
"""For a rehearsal that says how many calls its longest path can make."""


def with_whole_lines(simulation: Simulation) -> Simulation:
    """The same, and an outcome too long for its line stands in it all the same, so that invariants can read it."""
    objects, seen = simulation.world.records.objects, copy(simulation)
    seen.lines = [
        line._replace(data=unpack(line.data, objects))
        if isinstance(out := line.data.get("out"), Mapping) and "$json" in out
        else line
        for line in simulation.lines
    ]
    return seen


@dataclass(frozen=True)
class Rehearsal:
    """How a playbook is rehearsed: its setting, what its agents can do wrong, and what must hold all the same."""

    make: Callable[[Agent, Options], Simulation]
    deviations: tuple[Deviation, ...] = STANDARD
    invariants: tuple[Invariant, ...] = ALWAYS
    most: int = 2
    """Deviations in one run, up to which every combination is played."""
    base: Agent = best
    """What an agent does where it does not deviate."""
    longest: int | None = None
    """Calls that no path can need; one that makes more is cut off there, and `ENDS` complains."""

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
        )

    def broken(self, played: Played) -> list[str]:
        """The invariants that do not hold on this path, as sentences."""
        whole = replace(played, simulation=with_whole_lines(played.simulation))
        found = ((invariant.name, invariant.broken(whole)) for invariant in self.invariants)
        return [f"{name}: {why} (deviations: {played.schedule or 'none'})" for name, why in found if why is not None]


def explore(
    make: Callable[[Agent], Simulation],
    deviations: Sequence[Deviation],
    *,
    most: int,
    crashes: bool = True,
    base: Agent = best,
    sample_of: Callable[[Mapping[int, str]], bool] | None = None,
    longest: int | None = None,
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
        played = _play(make, by_name, schedule, base, longest)
        yield played
        if len(schedule) >= most:
            continue
        calls = played.simulation.world.calls
        for number in range(max(schedule, default=-1) + 1, len(calls)):
            for deviation in known:
                further = {**schedule, number: deviation.name}
                if deviation.fits(calls[number]) and (sample_of is None or len(further) < most or sample_of(further)):
                    pending.append(further)


POINTS_PER_CALL = 200
"""More than a playbook records for one call: one that goes on recording and calls nobody does not end either."""


class Endless(Crash):
    """The path has made more calls than it can need."""


def _play(
    make: Callable[[Agent], Simulation],
    by_name: Mapping[str, Deviation],
    schedule: Mapping[int, str],
    base: Agent,
    longest: int | None,
) -> Played:
    def agent(request: AgentRequest) -> Act:
        name = schedule.get(len(simulation.world.calls) - 1)
        return by_name[name].act(request, base(request)) if name else base(request)

    points = itertools.count(1)

    def brake(_point: str) -> None:
        if longest is not None and (len(simulation.world.calls) > longest or next(points) > longest * POINTS_PER_CALL):
            raise Endless

    simulation = make(agent)
    while True:
        try:
            return Played(schedule, simulation.go(tripwire=brake), simulation)
        except Endless:
            return Played(schedule, Finished(Status.INTERRUPTED, f"no end after {longest} calls"), simulation)
        except Crash:
            continue

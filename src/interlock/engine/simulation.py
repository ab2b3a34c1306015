"""The simulated twin: the same playbook, the same run, a world in memory.

No disk, no processes, no waiting: files are a dictionary, agents are a function, and time jumps to the next thing
that is due.  Whatever a playbook does here it does in the real world too, given the same answers, because `Run`,
its replay and its dispatch procedure are not simulated; only the `World` under them is.

`Simulation` plays one run, and its resumes after injected crashes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from interlock.agents.roster import BoundAgent
from interlock.agents.runner import AgentExit, AgentNews, AgentRequest, Fault, Limited, MemoryOutput, Observer, Usage
from interlock.contracts import Reason, sample
from interlock.engine.definition import Playbook
from interlock.engine.identity import Identity, identity_bytes
from interlock.engine.journal import Journal, Line, MemoryMedium, Tripwire, check_line, no_tripwire
from interlock.engine.keys import sha256
from interlock.engine.lifecycle import resumes
from interlock.engine.model import CommandResult, GateDecision
from interlock.engine.options import Options
from interlock.engine.people import record_decision
from interlock.engine.playing import Finished, play
from interlock.engine.recording import Recording, Replay
from interlock.engine.simulated_disk import MemoryDocuments, MemoryLayer, MemoryRecords, MemoryTree, memory_difference
from interlock.engine.simulated_repository import SimulatedRepository, Trouble
from interlock.engine.virtual_time import EPOCH, instantly, virtual_loop, virtual_moment, virtual_stamp
from interlock.engine.world import CommandCall, Imported, Layer
from interlock.errors import ConfigInvalid, Refused
from interlock.telemetry import waiting_gate
from interlock.workspace import Exit

T = TypeVar("T")


class Crash(BaseException):
    """The engine's process dies here."""


@dataclass(frozen=True)
class Act:
    """What a simulated agent does when it is called."""

    files: Mapping[str, str | bytes | None] = field(default_factory=dict)
    """Path to content; None deletes."""
    message: str = ""
    code: int | None = 0
    seconds: float = 1.0
    """How long it takes; past the time limit it has timed out."""
    result: bytes | None = None
    spawn_error: str | None = None
    usage: Usage | None = None
    fault: Fault | None = None
    limited: Limited | None = None
    people: Mapping[str, str | bytes | None] = field(default_factory=dict)
    """What a person changes in the user's tree while the agent works: path to content; None deletes."""
    befalls: Trouble | None = None
    """What happens to the user's repository meanwhile."""
    session: str = ""
    """The agent's own session, which it tells when it begins, and with which it can go on after a crash."""
    crash: bool = False
    """The engine's process dies when the agent has done its work and nothing is recorded of it yet."""


Agent = Callable[[AgentRequest], Act]


def best(request: AgentRequest) -> Act:
    """The agent that satisfies its contract with the best verdict."""
    contract = request.contract
    assert contract is not None
    files = {
        artifact.path: artifact.structure.sample() if artifact.structure else f"# {request.member}\n\nDone.\n"
        for artifact in contract.artifacts
        if artifact.played()
    }
    return Act(files, sample(contract.answer))


# -- the world


class SimulatedWorld:
    """A world that lasts over simulated crashes: its files and snapshots are the disk."""

    def __init__(
        self,
        files: Mapping[str, str | bytes],
        agent: Agent = best,
        *,
        command: Callable[[CommandCall], CommandResult] = lambda _call: CommandResult(0),
        bound: Callable[[str], bool] = lambda _agent: True,
        repository: SimulatedRepository | None = None,
        seed: int = 0,
    ) -> None:
        self.tree = MemoryTree({path: c.encode() if isinstance(c, str) else c for path, c in files.items()})
        self.documents = MemoryDocuments(self.tree)
        self.repository = repository or SimulatedRepository()
        self.repository.join(self.tree)
        self.records = MemoryRecords()
        self.agent = agent
        self.commands: list[CommandCall] = []
        self.inspections: list[CommandCall] = []
        self.calls: list[AgentRequest] = []
        self.people: dict[str, str | bytes | None] = {}
        """What people changed while agents worked, by path; and by the dispatch during which."""
        self.people_during: dict[str, Mapping[str, str | bytes | None]] = {}
        self.most_at_once = 0
        self._at_once = 0
        self._within: MemoryLayer | None = None
        self._command = command
        self.result_of = command
        """What a command comes to that is run; one that only looks is not asked here."""
        self._bound = bound
        self._seed = seed
        self._drawn = 0
        """How many of the numbers that its seed gives."""
        self._sessions: set[str] = set()

    def now(self) -> datetime:
        return virtual_moment(asyncio.get_running_loop().time())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def patiently(self, look: Callable[[], T]) -> T:
        return look()

    def draw(self, length: int) -> str:
        count = -(-length // 8)
        first, self._drawn = self._drawn, self._drawn + count
        *low, last = _chance(self._seed, 1 << max(8, self._drawn.bit_length()))[first : self._drawn]
        number = sum(word << 32 * place for place, word in enumerate((*low, last >> 32 * count - 4 * length)))
        return f"{number:0{length}x}"

    def claim_session(self, session: str, run_id: str) -> bool:
        fresh = session not in self._sessions
        self._sessions.add(session)
        return fresh

    def redact(self, text: str) -> str:
        return text

    def bind(self, agent: str) -> BoundAgent:
        if not self._bound(agent):
            raise ConfigInvalid(f"agent {agent} is not bound")
        return _bound(agent)

    def for_called(self, playbook: Playbook, inputs: Any) -> SimulatedWorld:
        return self

    async def call(self, binding: BoundAgent, request: AgentRequest, observe: Observer) -> AgentExit:
        self.calls.append(request)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return await self._play(request, self.agent(request), observe)
        finally:
            self._at_once -= 1

    async def _play(self, request: AgentRequest, act: Act, observe: Observer) -> AgentExit:
        if act.spawn_error is not None:
            return AgentExit(None, spawn_error=act.spawn_error)
        layer = request.within
        assert isinstance(layer, MemoryLayer)
        if act.session:
            observe(AgentNews("session", {"session": act.session}))
        if act.seconds > request.timeout_s:
            await asyncio.sleep(request.timeout_s)
            if request.partial_grace_s:
                observe(AgentNews("partial.requested", {}))
            late = act.seconds - request.timeout_s
            if late > request.partial_grace_s:
                await asyncio.sleep(request.partial_grace_s)
                return AgentExit(-15, timed_out=True)
            await asyncio.sleep(late)
        else:
            await asyncio.sleep(act.seconds)
        if act.people:
            self.people |= act.people
            there = self.tree.files
            self.people_during[request.dispatch] = {  # of its last try; who saves what is there changes nothing
                path: text
                for path, text in act.people.items()
                if there.get(path) != (text.encode() if isinstance(text, str) else text)
            }
        for put, files in ((self.tree.put, act.people), (layer.put, act.files)):
            for path, content in files.items():
                put(path, content.encode() if isinstance(content, str) else content)
        if act.befalls is not None:
            self.repository.befall(act.befalls)
        if act.crash:
            raise Crash
        if self._is_used_up(request, act):
            return AgentExit(
                -15, usage=act.usage, exhausted=True, fault=Fault(Reason.AGENT_ERROR, "its share is used up")
            )
        late_answer = act.seconds > request.timeout_s
        return AgentExit(
            act.code,
            MemoryOutput(act.message.encode()),
            result=act.result,
            usage=act.usage,
            timed_out=late_answer,
            partial=late_answer,
            fault=act.fault,
            limited=act.limited,
        )

    def _is_used_up(self, request: AgentRequest, act: Act) -> bool:
        """An agent with a session has a stream in which its cost can be followed, and is ended at its share."""
        if request.allowance is None or act.usage is None or not act.session:
            return False
        return request.allowance.used_up(act.usage)

    async def inspect(self, call: CommandCall, *, marker: str) -> CommandResult:
        self.inspections.append(call)
        await asyncio.sleep(0.01)
        return self._command(call)

    async def command(self, call: CommandCall, *, key: str, marker: str, within: Layer) -> CommandResult:
        self.commands.append(call)
        await asyncio.sleep(1.0)
        assert isinstance(within, MemoryLayer)
        self._within = within
        return self.result_of(call)

    @property
    def seen(self) -> dict[str, bytes]:
        """The files that the command which is being run has before it."""
        return self.tree.files if self._within is None else self._within.files

    async def recall(self, binding: BoundAgent, request: AgentRequest, ended: Exit) -> AgentExit | None:
        return None

    async def unready(self, agents: Sequence[str]) -> Sequence[str]:
        return ()

    def can_go_on(self, binding: BoundAgent) -> bool:
        return True

    async def layer(
        self, name: str, binding: BoundAgent | None, *, outer: Mapping[str, Any] | None = None
    ) -> MemoryLayer:
        self.tree.layers[name] = layer = MemoryLayer(self.tree, await self.tree.snapshot())
        return layer

    async def kept_layer(
        self, name: str, binding: BoundAgent | None, *, outer: Mapping[str, Any] | None = None
    ) -> MemoryLayer | None:
        return self.tree.layers.get(name)

    async def bring_in(self, work: Mapping[str, Any], label: str) -> Imported:
        base, now = self.tree.at(work["base"]), self.tree.files
        theirs = {path: self.tree.kept(kept) for path, _mode, kept in work["entries"]}
        conflicts = {
            path: f"<<<<<<< now\n=======\n>>>>>>> {label}\n"
            for path, content in theirs.items()
            if now.get(path) not in (base.get(path), content)
        }
        if conflicts:
            return Imported(conflicts=conflicts)
        for path, content in theirs.items():
            self.tree.put(path, content)
        return Imported(tuple(theirs))

    async def patch_of(self, work: Mapping[str, Any]) -> bytes:
        old = self.tree.at(work["base"])
        return b"".join(
            memory_difference(path, old.get(path), self.tree.kept(kept)) for path, _mode, kept in work["entries"]
        )

    def end_leftovers(self, prefix: str, group: int | None, started: float | None) -> list[int]:
        return []


@lru_cache(maxsize=256)
def _bound(agent: str) -> BoundAgent:
    return BoundAgent(agent, "simulated")


@lru_cache(maxsize=64)
def _chance(seed: int, count: int) -> Sequence[int]:
    """So many numbers of 32 bits; runs that are seeded alike draw from the same ones."""
    drawn = random.Random(seed)
    return [drawn.getrandbits(32) for _ in range(count)]


# -- one run


@dataclass(frozen=True)
class Begun:
    """A run whose process is under way, between two verbs: what others need that go on as if they were it."""

    identity: Identity
    lines: Sequence[Line]
    resumed: int

    @classmethod
    def of(cls, recording: Recording) -> Begun:
        return cls(recording.identity, list(recording.journal.lines), recording.resumed)

    @cached_property
    def replay(self) -> Replay:
        return Replay(self.lines)


@dataclass
class Simulation:
    """One run of a playbook in memory, with as many processes as its crashes need."""

    playbook: Playbook
    inputs: Any
    world: SimulatedWorld
    caps: Mapping[str, int] = field(default_factory=dict)
    options: Options = field(default_factory=Options)
    medium: MemoryMedium = field(default_factory=MemoryMedium)
    said: list[str | bytes] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    processes: int = 0
    clock: float = 0.0
    """Seconds since `EPOCH` in this simulation: equal runs have equal times, whatever was simulated before."""
    midway: Begun | None = None
    """Where this is a run that another began: its process goes on, and none begins (`moments`)."""
    watch: Callable[[Line, Recording], None] | None = None
    """Is told each line as it is written."""

    def go(self, *, tripwire: Tripwire = no_tripwire, options: Options | None = None) -> Finished:
        """Run, or resume what is there, until the process ends; `Crash` raised by the tripwire passes through."""
        loop = virtual_loop()
        loop.virtual = self.clock
        try:
            return loop.run_until_complete(self.process(tripwire=tripwire, options=options))
        finally:
            self.clock = loop.virtual

    async def process(self, *, tripwire: Tripwire = no_tripwire, options: Options | None = None) -> Finished:
        begun, self.midway = self.midway, None
        identity = begun.identity if begun is not None else self._identity()
        journal = Journal(
            self.medium,
            run_id=identity.run_id,
            genesis=sha256(self.world.records.identity or identity_bytes(identity)),
            clock=virtual_stamp,
            held=self.world.records.identity is None,
            tripwire=tripwire,
            known=begun.lines if begun is not None else None,
            check=checked_line,
        )
        self.lines = journal.lines
        recording = Recording(
            self.playbook,
            identity,
            journal,
            self.world,
            options=options or self.options,
            say=self.said.append,
            replay=begun.replay.shared() if begun is not None else None,
        )
        if (watch := self.watch) is not None:
            journal.listen(lambda line: watch(line, recording))
        if begun is not None:
            return await play(recording, resume=begun.resumed, begun=True)
        self.processes += 1
        resume = 0
        if journal.lines:
            resume = 1 + resumes(journal.lines)
            journal.append("run.resumed", data={"n": resume})
        else:
            journal.append("run.start", data={"playbook": identity.playbook, "key": identity.key})
        return await play(recording, resume=resume)

    def _identity(self) -> Identity:
        return Identity.of(
            self.playbook,
            self.inputs,
            run_id=f"{self.playbook.name}-20260104-120000-0000",
            caps=self.caps,
            version="simulated",
            started_at=EPOCH.isoformat(),
        )

    def decide(self, choice: str, *, who: str = "somebody", note: str = "") -> None:
        """What a person says at the gate at which the run waits; the next `go` hears it."""
        instantly(self._decide(choice, who, note))

    async def _decide(self, choice: str, who: str, note: str) -> None:
        waiting, identity = waiting_gate(self.lines), self.world.records.identity
        if waiting is None or identity is None:
            raise Refused("nothing waits for a decision in this simulation")
        journal = Journal(
            self.medium, run_id=self.lines[0].run, genesis=sha256(identity), clock=virtual_stamp, check=checked_line
        )
        decision = GateDecision(choice, who, virtual_stamp(), note, waiting.digests)
        record_decision(journal, waiting, decision, self.world.records.objects)
        self.lines = journal.lines


# Simulated runs have their beginnings in common.
checked_line = lru_cache(maxsize=4096)(check_line)

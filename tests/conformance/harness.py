"""One face for both engines: the real one in a folder, the simulated one in memory.

A test says which playbook, which files and how the agents react; lets a process run, die or be resumed; and reads
back files, journal and outcome.  What holds for one engine holds for the other, or the suite fails.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from interlock.agents.runner import (
    AgentExit,
    AgentNews,
    AgentRequest,
    ClientNeeds,
    Health,
    MemoryOutput,
    Observer,
    Runner,
)
from interlock.app import FromSettings
from interlock.engine import CommandResult, GateDecision, Playbook, people
from interlock.engine.folder import KnownRun, known_runs
from interlock.engine.journal import Journal, Line, MemoryMedium, Tripwire, no_tripwire
from interlock.engine.keys import sha256
from interlock.engine.lifecycle import ended_as
from interlock.engine.options import Options
from interlock.engine.people import check_decision, record_decision
from interlock.engine.playing import Finished
from interlock.engine.runs import Call, Quiet, Runs
from interlock.engine.simulation import Crash
from interlock.engine.world import CommandCall, World
from interlock.telemetry import WaitingGate
from interlock.testing import Act, SimulatedWorld, Simulation, best
from tests.acting import write_within

Agent = Callable[[AgentRequest], Act]
QUICK = 0.01
"""Real seconds that a second of an agent's work takes."""


@dataclass(frozen=True)
class Death:
    """The process dies at the n-th journal line of this kind: right after it, or with the line itself lost."""

    event: str
    key: str | None = None
    nth: int = 1
    lost: bool = True
    """The effect happened, but its record did not reach the disk."""

    def fits(self, raw: bytes) -> bool:
        last = raw.splitlines()[-1]
        named = f'"event":"{self.event}"'.encode() in last
        return named and (self.key is None or f'"key":"{self.key}"'.encode() in last)


Change = Callable[[AgentRequest, Act], Act]
"""From a request and the best act to what the agent does."""


def reacting(**changes: Change) -> Agent:
    """Agents that do their best, but for the members named here (``-`` is written ``_``)."""

    def agent(request: AgentRequest) -> Act:
        change = changes.get(request.member.replace("-", "_"))
        return change(request, best(request)) if change else best(request)

    return agent


def also(files: Mapping[str, str | None], **more: Any) -> Change:
    """The best act, and these files besides."""
    return lambda _request, act: replace(act, files={**act.files, **files}, **more)


def instead(**fields: Any) -> Change:
    """The best act with other fields."""
    return lambda _request, act: replace(act, **fields)


def in_turn(*changes: Change | None) -> Change:
    """One change per call; the last one stays."""
    calls = 0

    def change(request: AgentRequest, act: Act) -> Act:
        nonlocal calls
        chosen = changes[min(calls, len(changes) - 1)]
        calls += 1
        return chosen(request, act) if chosen else act

    return change


class Engine(ABC):
    """A playbook with its inputs in one workspace, and every process that works on it."""

    kind: str

    def __init__(
        self,
        playbook: Playbook,
        inputs: Any,
        files: Mapping[str, str],
        agent: Agent = best,
        **options: Any,
    ) -> None:
        self.playbook = playbook
        self.inputs = inputs
        self.agent = agent
        self.options = options
        self.calls: list[AgentRequest] = []
        self.said: list[str | bytes] = []

    def react(self, request: AgentRequest) -> Act:
        self.calls.append(request)
        return self.agent(request)

    def go(self, *, death: Death | None = None, **how: Any) -> Finished:
        """Start the run, or resume it, until the process ends. `how`: fields of a `Call`."""
        return self._go(self._tripwire(death) if death else no_tripwire, Call(**how))

    def dies(self, death: Death, **how: Any) -> None:
        """A process that dies so."""
        try:
            close = self.go(death=death, **how)
        except Crash:
            return
        raise AssertionError(f"the process did not come to {death}, it ended as {close}")

    def _tripwire(self, death: Death) -> Tripwire:
        seen = 0

        def trip(point: str) -> None:
            nonlocal seen
            if point != ("before-sync" if death.lost else "after-sync") or not death.fits(raw := self.raw()):
                return
            seen += 1
            if seen == death.nth:
                if death.lost:
                    self.overwrite(raw[: raw.rfind(b"\n", 0, -1) + 1])
                raise Crash

        return trip

    # -- reading back

    def events(self, event: str) -> list[Line]:
        return [line for line in self.lines if line.event == event]

    @property
    def names(self) -> list[str]:
        """The keys of all verbs that have an outcome, in the order of the journal."""
        return [str(line.key) for line in self.lines if line.settles]

    @property
    def agents(self) -> list[str]:
        return [request.member for request in self.calls]

    @abstractmethod
    def _go(self, tripwire: Tripwire, call: Call) -> Finished: ...

    @abstractmethod
    def decide(self, choice: str, *, note: str = "", who: str = "ann") -> WaitingGate: ...

    @property
    @abstractmethod
    def lines(self) -> list[Line]: ...

    @abstractmethod
    def raw(self) -> bytes: ...

    @abstractmethod
    def overwrite(self, raw: bytes) -> None: ...

    @property
    @abstractmethod
    def files(self) -> dict[str, str]: ...

    @property
    @abstractmethod
    def attic(self) -> dict[str, str]:
        """What was set aside, by the path below the attic."""

    @abstractmethod
    def edit(self, path: str, content: str | None) -> None:
        """A person writes or deletes a file."""

    @abstractmethod
    def kept(self, key: str, name: str) -> str:
        """A record of a dispatch."""

    @property
    @abstractmethod
    def slept(self) -> list[float]:
        """Waits between tries."""

    @abstractmethod
    def put_under_git(self) -> None:
        """Commit everything as it is."""

    @property
    @abstractmethod
    def commits(self) -> list[str]:
        """The messages of the checked-out branch, the newest first."""


class Simulated(Engine):
    kind = "simulated"

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.world = _World(given[2], self.react, command=self._command)
        self.simulation = Simulation(
            self.playbook, self.inputs, self.world, caps=self.playbook.caps, medium=MemoryMedium(), said=self.said
        )

    def _go(self, tripwire: Tripwire, call: Call) -> Finished:
        options = Options(accept_recorded=call.accept_recorded, flags=call.flags, **self.options)
        if call.budget_usd is not None:
            options = replace(options, budget_usd=call.budget_usd)
        return self.simulation.go(tripwire=tripwire, options=options)

    def _command(self, call: CommandCall) -> CommandResult:
        """It does what the file of its name says: status, then output."""
        status, _, output = self.files.get(call.argv[-1], "1").partition("\n")
        return CommandResult(int(status), output)

    def decide(self, choice: str, *, note: str = "", who: str = "ann") -> WaitingGate:
        identity = self.world.records.identity
        assert identity is not None
        journal = Journal(
            self.simulation.medium,
            run_id=self.lines[0].run,
            genesis=sha256(identity),
            clock=lambda: "2026-01-04T12:00:00.000+00:00",
        )
        waiting = check_decision(
            journal.lines, choice, lambda path: self.world.tree.facts(path).digest or "", run_id=self.lines[0].run
        )
        decision = GateDecision(choice, who, "2026-01-04T12:00:00.000+00:00", note, waiting.digests)
        record_decision(journal, waiting, decision, self.world.records.objects)
        self.simulation.lines = journal.lines
        return waiting

    @property
    def lines(self) -> list[Line]:
        return self.simulation.lines

    def raw(self) -> bytes:
        return bytes(self.simulation.medium.content)

    def overwrite(self, raw: bytes) -> None:
        self.simulation.medium.content = bytearray(raw)

    @property
    def files(self) -> dict[str, str]:
        found = self.world.tree.files
        return {path: found[path].decode() for path in sorted(found) if not path.startswith(".interlock/")}

    @property
    def attic(self) -> dict[str, str]:
        found, start = self.world.tree.files, ".interlock/attic/"
        return {path.removeprefix(start): text.decode() for path, text in found.items() if path.startswith(start)}

    def edit(self, path: str, content: str | None) -> None:
        self.world.tree.put(path, None if content is None else content.encode())

    def kept(self, key: str, name: str) -> str:
        content = self.world.records.kept[key, name]
        return content.decode() if isinstance(content, bytes) else str(content)

    @property
    def slept(self) -> list[float]:
        return self.world.slept

    def put_under_git(self) -> None:
        """A simulated world is a repository from the beginning."""

    @property
    def commits(self) -> list[str]:
        return self.world.repository.messages


class _World(SimulatedWorld):
    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await super().sleep(seconds)


class PlayedRunner:
    """A runner whose agents are a function; they act in the layers of their calls."""

    name = "scripted"

    def __init__(self, react: Agent, root: Path) -> None:
        self._react = react
        self._root = root

    async def call(self, request: AgentRequest, observe: Observer) -> AgentExit:
        act = self._react(request)
        if act.spawn_error is not None:
            return AgentExit(None, spawn_error=act.spawn_error)
        late = act.seconds - request.timeout_s
        if late > 0 and request.partial_grace_s:
            observe(AgentNews("partial.requested", {}))
        if late > request.partial_grace_s:
            return AgentExit(-15, timed_out=True)
        await asyncio.sleep(act.seconds * QUICK)
        for path, text in act.people.items():
            write(self._root, path, text)
        await write_within(request, act.files)
        if act.crash:
            raise Crash
        output = MemoryOutput(act.message.encode())
        return AgentExit(
            act.code,
            output,
            act.result,
            timed_out=late > 0,
            partial=late > 0,
            usage=act.usage,
            fault=act.fault,
            limited=act.limited,
        )

    async def ready(self) -> Health:
        return await self.health()

    async def health(self) -> Health:
        return Health(True, "played")

    def needs(self) -> ClientNeeds:
        return ClientNeeds(shown=(Path(sys.base_prefix),))

    async def recall(self, request: AgentRequest, code: int) -> AgentExit | None:
        return None


@dataclass(frozen=True)
class PlayedSetup(FromSettings):
    """Agents that are a function."""

    react: Agent = best
    slept: Any = None
    chosen: Any = None

    def make_runner(self, name: str) -> Runner:
        return PlayedRunner(self.react, self.root)

    def options(self, playbook: Playbook) -> Options:
        return replace(super().options(playbook), **(self.chosen or {}))

    def world(self, *given: Any, **more: Any) -> World:
        world: Any = super().world(*given, **more)
        if self.slept is not None:
            world.sleep = self._sleep
        made: World = world
        return made

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


def played_runs(root: Path, playbook: Playbook, react: Agent, **more: Any) -> Runs:
    """The runs of a workspace as the doors have them, with agents that are a function and a playbook of the test."""
    facts = {"slept": more.pop("slept", []), "chosen": more.pop("chosen", None)}
    environ, view = more.pop("environ", None) or environment(root), more.pop("view", None) or Quiet()
    overrides = more.pop("overrides", {"runner": "scripted"})
    setup = PlayedSetup(root.resolve(), environ, overrides=overrides, playbooks=(playbook,), react=react, **facts)
    return Runs(root.resolve(), setup, view, environ=environ, **more)


def environment(root: Path) -> dict[str, str]:
    """What a user's shell would pass on, with a cache folder beside the workspace."""
    kept = ("PATH", "HOME", "LANG", "GIT_CONFIG_NOSYSTEM")
    return {**{name: os.environ[name] for name in kept if name in os.environ}, "XDG_CACHE_HOME": f"{root}-cache"}


class Real(Engine):
    kind = "real"

    def __init__(self, *given: Any, root: Path, **options: Any) -> None:
        super().__init__(*given, **options)
        self.root = root.resolve()
        self.view = Quiet()
        self.finished: Finished | None = None
        self._slept: list[float] = []
        self.said = self.view.said
        for path, content in given[2].items():
            self.edit(path, content)

    def runs(self, tripwire: Tripwire = no_tripwire, **more: Any) -> Runs:
        """A new process, so to speak."""
        return played_runs(
            self.root,
            self.playbook,
            self.react,
            **{"view": self.view, "tripwire": tripwire, "chosen": self.options, "slept": self._slept, **more},
        )

    def _go(self, tripwire: Tripwire, call: Call) -> Finished:
        runs = self.runs(tripwire)
        known = known_runs(self.root)
        if known and ended_as(known[-1].folder.lines()) is None:
            work = runs.resume("latest", call)
        else:
            work = runs.run(self.playbook, self.inputs, call)
        self.finished = asyncio.run(work)
        return self.finished

    def decide(self, choice: str, *, note: str = "", who: str = "ann") -> WaitingGate:
        return asyncio.run(people.decide(self.runs(), "latest", choice, note=note, who=who))

    @property
    def run(self) -> KnownRun:
        return known_runs(self.root)[-1]

    @property
    def lines(self) -> list[Line]:
        return self.run.folder.lines() if known_runs(self.root) else []

    def raw(self) -> bytes:
        return (self.run.folder.path / "journal.jsonl").read_bytes()

    def overwrite(self, raw: bytes) -> None:
        (self.run.folder.path / "journal.jsonl").write_bytes(raw)

    @property
    def files(self) -> dict[str, str]:
        return {
            path: text
            for path, text in contents(self.root)
            if not path.startswith((".interlock/", ".git/")) and path != ".git"
        }

    @property
    def attic(self) -> dict[str, str]:
        return dict(contents(self.root / ".interlock" / "attic"))

    def edit(self, path: str, content: str | None) -> None:
        write(self.root, path, content)

    def kept(self, key: str, name: str) -> str:
        return (self.run.folder.folder(key) / name).read_text("utf-8")

    @property
    def slept(self) -> list[float]:
        return self._slept

    def git(self, *words: str) -> str:
        return subprocess.run(("git", *words), cwd=self.root, check=True, capture_output=True, text=True).stdout

    def put_under_git(self) -> None:
        self.git("init", "-q")
        self.git("config", "user.name", "A Person")
        self.git("config", "user.email", "person@example.org")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "first")

    @property
    def commits(self) -> list[str]:
        return [message for message in self.git("log", "-z", "--format=%B").split("\0") if message]


def write(root: Path, path: str, content: str | bytes | None) -> None:
    """A person writes or deletes a file."""
    place = root / path
    if content is None:
        place.unlink()
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content.encode() if isinstance(content, str) else content)


async def until(condition: Callable[[], object]) -> None:
    """Waits for what another task or process does; fails when it never comes."""
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - files and processes set no event
            await asyncio.sleep(0.01)


def contents(folder: Path) -> Iterator[tuple[str, str]]:
    # Not `rglob`: a layer that was dropped may be vanishing meanwhile.
    found = (Path(above, name) for above, _, names in os.walk(folder) for name in names)
    for path in sorted(found):
        if path.is_file() and not any(part.endswith(".gone") for part in path.parts):
            yield path.relative_to(folder).as_posix(), path.read_text("utf-8", "replace")


__all__ = [
    "Agent",
    "Change",
    "Crash",
    "Death",
    "Engine",
    "PlayedSetup",
    "Real",
    "Simulated",
    "also",
    "environment",
    "in_turn",
    "instead",
    "played_runs",
    "reacting",
    "until",
]

"""The seam between the engine and whatever does an agent's work.

A `Runner` gets one complete `AgentRequest` and gives back one `AgentExit`.  It does not judge: whether
the answer counts is decided by contracts, in the engine.  The real coding agents, any program (`command`)
and the built-in player of scenarios (`scripted`) all stand behind this one face; the simulated engine has
its own.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from interlock.agents.capped_file import OUTPUT_LIMIT
from interlock.agents.plain_files import open_plain

if TYPE_CHECKING:
    from interlock.agents.roles import Role
    from interlock.contracts import Contract, Reason


class Output(Protocol):
    """An agent's final message: possibly large, so it is read in parts."""

    @property
    def size(self) -> int: ...

    @property
    def cut(self) -> bool:
        """Whether the output was longer than what is kept (50 MB)."""
        ...

    def tail(self, limit: int) -> bytes: ...

    def read(self) -> bytes: ...


@dataclass(frozen=True)
class MemoryOutput:
    content: bytes = b""
    cut: bool = False

    @property
    def size(self) -> int:
        return len(self.content)

    def tail(self, limit: int) -> bytes:
        return self.content[-limit:]

    def read(self) -> bytes:
        return self.content


@dataclass(frozen=True)
class FileOutput:
    """An output in a file; one that is not there, or no plain file any more, is empty."""

    path: Path
    cut: bool = False

    @property
    def size(self) -> int:
        with self._opened() as file:
            return file.seek(0, os.SEEK_END)

    def tail(self, limit: int) -> bytes:
        with self._opened() as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - limit))
            return file.read(limit)

    def read(self) -> bytes:
        return self.tail(OUTPUT_LIMIT)

    def _opened(self) -> IO[bytes]:
        try:
            return os.fdopen(open_plain(self.path, os.O_RDONLY), "rb")
        except OSError:
            return io.BytesIO()


@dataclass(frozen=True)
class Usage:
    """What a call cost, as far as the agent said; ``None`` is unknown, never zero."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None

    def plus(self, other: Usage) -> Usage:
        """Both together, as far as either said something."""
        if other == UNKNOWN:
            return self

        def total(name: str) -> Any:
            known = [value for value in (getattr(self, name), getattr(other, name)) if value is not None]
            return sum(known) if known else None

        return Usage(total("input_tokens"), total("output_tokens"), total("cost_usd"))


UNKNOWN = Usage()


@dataclass(frozen=True)
class Allowance:
    """What a call may cost; None: no limit is set. The agent is ended when it has used it up."""

    usd: float | None = None
    tokens: int | None = None
    """Read and written together, for agents that know no price."""

    def used_up(self, usage: Usage) -> bool:
        """Whether what the agent said of its cost so far reaches it; what was not said does not count."""
        said = [number for number in (usage.input_tokens, usage.output_tokens) if number is not None]
        dear = self.usd is not None and usage.cost_usd is not None and usage.cost_usd >= self.usd
        return dear or (self.tokens is not None and bool(said) and sum(said) >= self.tokens)


class Started(Protocol):
    """A child process, as `subprocess.Popen` has it."""

    @property
    def pid(self) -> int: ...

    @property
    def stdin(self) -> IO[bytes] | None: ...

    @property
    def stdout(self) -> IO[bytes] | None: ...

    @property
    def stderr(self) -> IO[bytes] | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float) -> int: ...


class Launched(Started, Protocol):
    """A launcher, which knows the end of its program before its own."""

    @property
    def word(self) -> int:
        """A descriptor that can be read when the program is over, or the launcher gone without a word of it."""
        ...

    def over(self) -> bool:
        """Whether nothing of the program is left; `poll` knows its exit then. The launcher may still have to finish."""
        ...

    def collect(self) -> bool:
        """Whether the launcher is gone; its number is free then."""
        ...


class Enclosure(Protocol):
    """A place in which a program runs so that its writes stay apart from everything else."""

    @property
    def root(self) -> Path:
        """The workspace, as the program sees it."""
        ...

    @property
    def confined(self) -> bool:
        """Whether the kernel keeps the program from everything else."""
        ...

    @property
    def sealed(self) -> bool:
        """Whether the kernel ends all that the program started, before what `command_line` gave ends in order."""
        ...

    def command_line(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> list[str]:
        """What to start instead of `argv`, with the same environment, so that it runs there, in that folder."""
        ...

    def fork(self, command_line: Sequence[str], *, env: Mapping[str, str], stdin: int) -> Launched | None:
        """That command line, started faster than by a new process of its own: in a session of its own, a child of this
        process, its output in pipes; None when it has to be started the ordinary way."""
        ...


@dataclass(frozen=True)
class ClientNeeds:
    """What a runner's program must find where everything else is hidden. Paths are absolute and there."""

    login: tuple[Path, ...] = ()
    """Files with which it is signed in, and its settings; it may write them."""
    shown: tuple[Path, ...] = ()
    """The program itself and what it is started with, as far as that lies outside of the system's folders."""
    home: Path | None = None
    """Its HOME."""
    hosts: tuple[str, ...] = ()
    """Where its model answers: ``host``, ``host:port``, or ``*.domain`` for all below it."""
    can_resume: bool = False
    """Whether it can go on with a session of its own that was cut off (`AgentRequest.resume`)."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values that must be in no record, by a name that may be: of its own environment and of its login files."""


@dataclass(frozen=True)
class AgentRequest:
    """One call of one agent, complete: brief, environment of the protocol, working tree. Nothing else reaches it."""

    run_id: str
    playbook: str
    step: str
    agent: str
    member: str
    attempt: int
    dispatch: str
    """The dispatch's key in the journal."""
    session: str
    workspace: Path
    """The folder the agent works in, as it sees it (INTERLOCK_WORKSPACE)."""
    folder: Path
    """The dispatch's record folder, which the agent need not see: output.md and transcript.jsonl are the runner's."""
    brief: str
    timeout_s: float
    partial_grace_s: float = 0.0
    """Over 0: at the deadline partial results are asked for, and waited for this long."""
    depth: int = 1
    path: tuple[str, ...] = ()
    marker: str = ""
    """Unique for this call; in the environment of every process it starts (INTERLOCK_MARKER)."""
    token: str = ""
    """Random, bound to depth and path in the journal (INTERLOCK_TOKEN)."""
    env: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    within: Enclosure | None = None
    """Where its program is started; None: in the workspace as it is."""
    exchange: Path | None = None
    """A folder that the agent sees at this path and may write to, for brief, answer and requests; None: `folder`."""
    resume: str | None = None
    """The agent's own session of a call that was cut off, to go on with in the same place."""
    allowance: Allowance | None = None
    role: Role | None = None
    instructions: str = ""
    """The role's text as it stands at the head of the brief, for agents that take it apart from the task."""
    contract: Contract | None = None
    """What will be checked; only the scripted player looks at it."""

    @property
    def task(self) -> str:
        """The brief without the role's text; the whole brief where that does not stand at its head."""
        head = f"{self.instructions}\n\n"
        return self.brief.removeprefix(head) if self.instructions else self.brief

    @property
    def confined(self) -> bool:
        """Whether the kernel holds it: then it needs no permissions and no sandbox of its own."""
        return self.within is not None and self.within.confined

    @property
    def shared(self) -> Path:
        """The folder that both sides see."""
        return self.exchange or self.folder

    @property
    def brief_path(self) -> Path:
        return self.shared / "brief.md"

    @property
    def output_path(self) -> Path:
        return self.folder / "output.md"

    @property
    def result_path(self) -> Path:
        return self.shared / "answer.json"

    @property
    def partial_path(self) -> Path:
        return self.shared / "PARTIAL_REQUEST"

    def environment(self) -> dict[str, str]:
        """The variables of the protocol (DESIGN 5)."""
        return {
            "INTERLOCK_RUN_ID": self.run_id,
            "INTERLOCK_PLAYBOOK": self.playbook,
            "INTERLOCK_STEP": self.step,
            "INTERLOCK_AGENT": self.agent,
            "INTERLOCK_MEMBER": self.member,
            "INTERLOCK_ATTEMPT": str(self.attempt),
            "INTERLOCK_DISPATCH": self.dispatch,
            "INTERLOCK_SESSION": self.session,
            "INTERLOCK_WORKSPACE": str(self.workspace),
            "INTERLOCK_DEPTH": str(self.depth),
            "INTERLOCK_PATH": "/".join(self.path),
            "INTERLOCK_PARTIAL": str(self.partial_path),
            "INTERLOCK_BRIEF": str(self.brief_path),
            "INTERLOCK_RESULT": str(self.result_path),
            "INTERLOCK_MARKER": self.marker,
            "INTERLOCK_TOKEN": self.token,
        }


@dataclass(frozen=True)
class Fault:
    """Why a call does not count, whatever its exit status and its answer say."""

    reason: Reason
    text: str


@dataclass(frozen=True)
class Limited:
    """The agent's model service takes no more requests for now; the same call will work later."""

    text: str
    reset_s: float | None = None
    """Seconds until it does, where the service says so."""


@dataclass(frozen=True)
class AgentExit:
    """How the call ended, as facts."""

    code: int | None
    """Exit status; negative for a signal, as Python does; ``None`` when nothing was started."""
    output: Output = field(default_factory=MemoryOutput)
    result: bytes | None = None
    """Bytes of the file named in INTERLOCK_RESULT, if the agent wrote it."""
    spawn_error: str | None = None
    timed_out: bool = False
    partial: bool = False
    """The answer came after partial results had been asked for."""
    usage: Usage | None = None
    session: str | None = None
    """The agent's own name for its session, to look into or go on with by its own program."""
    fault: Fault | None = None
    limited: Limited | None = None
    exhausted: bool = False
    """It was ended, or ended itself, because its allowance was used up; `fault` says so in words."""
    refused: tuple[str, ...] = ()
    """What its own rules (permissions, sandbox, policy) did not let it do, as its stream says it."""


@dataclass(frozen=True)
class AgentNews:
    """Something that happened while the agent runs, for journal and live view: a kind and its facts."""

    kind: str
    """``started`` (pid, pgid), ``partial.requested``, ``waiting``; of coding agents also those of `coding.events`,
    among them ``session`` (session) as soon as there is one that can be resumed."""
    data: Mapping[str, object] = field(default_factory=dict)


Observer = Callable[[AgentNews], None]


@dataclass(frozen=True)
class Health:
    """What is said of a runner before it is called."""

    ok: bool
    text: str
    remedy: str | None = None


class Runner(Protocol):
    """Calls an agent. Cancelling `call` ends every process it started before the cancellation goes on."""

    name: str

    async def call(self, request: AgentRequest, observe: Observer) -> AgentExit: ...

    async def recall(self, request: AgentRequest, code: int) -> AgentExit | None:
        """What an earlier call of this request came to, when its program ended but nobody was there to be told.

        From what it left in its folders, and its exit status; None where that does not show its end.
        """
        ...

    def needs(self) -> ClientNeeds: ...

    async def health(self) -> Health:
        """Whether it can be called, for somebody who asks for that and may wait for it."""
        ...

    async def ready(self) -> Health:
        """Whether it can be called, as far as that can be told at once, without starting anything."""
        ...

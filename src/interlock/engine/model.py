"""The values that playbooks and engine exchange."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from types import NoneType
from typing import Any

from interlock.agents.runner import Usage
from interlock.contracts import ArtifactCheck, ArtifactClass, Contract, Evidence, Outcome, Reason, holds_programs
from interlock.engine.prompts import Prompt


class Status(StrEnum):
    """How a run stands when its process ends, with the exit code of each (common 3.2)."""

    COMPLETE = "complete"
    DEGRADED = "degraded"
    INVALID = "invalid"
    STOPPED = "stopped"
    WAITING = "waiting"
    FAILED = "failed"
    LOCKED = "locked"
    INTERRUPTED = "interrupted"

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self]


EXIT_CODES: Mapping[Status, int] = {
    Status.COMPLETE: 0,
    Status.DEGRADED: 1,
    Status.INVALID: 2,
    Status.STOPPED: 3,
    Status.WAITING: 4,
    Status.FAILED: 5,
    Status.LOCKED: 6,
    Status.INTERRUPTED: 130,
}


@dataclass(frozen=True)
class Ending:
    """What a playbook returns: how the run ended, why, and its own final output."""

    status: Status
    reason: str = ""
    output: str | bytes = ""
    because: tuple[str, ...] = ()
    """Keys of the failed dispatches that decided this end; a retry does them again (EN-20)."""

    @classmethod
    def complete(cls, output: str | bytes = "", reason: str = "") -> Ending:
        return cls(Status.COMPLETE, reason, output)

    @classmethod
    def degraded(cls, reason: str, output: str | bytes = "") -> Ending:
        return cls(Status.DEGRADED, reason, output)

    @classmethod
    def stopped(cls, reason: str, output: str | bytes = "", because: tuple[str, ...] = ()) -> Ending:
        return cls(Status.STOPPED, reason, output, because)

    @classmethod
    def failed(cls, reason: str, output: str | bytes = "", because: tuple[str, ...] = ()) -> Ending:
        return cls(Status.FAILED, reason, output, because)

    def to_json(self) -> dict[str, Any]:
        return {
            "status": self.status.value,
            "reason": self.reason,
            "output": self.output,
            "because": list(self.because),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Ending:
        return cls(Status(value["status"]), value["reason"], value["output"], tuple(value["because"]))


class Stop(Exception):
    """The playbook cannot go on, and this is how it ends."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.reason)
        self.ending = ending


class Kind(StrEnum):
    """What an agent is for; judges may leave by-products of builds and tests behind (EN-35)."""

    PRODUCER = "producer"
    JUDGE = "judge"
    FIXER = "fixer"


@dataclass(frozen=True)
class Retries:
    """How often the dispatcher itself repeats a call (EN-41); verdict loops are the playbook's."""

    transient: int = 0
    contract: int = 1
    error: int = 0
    shared: bool = False
    """Contract and error repeats come out of one budget, the larger of the two."""


@dataclass(frozen=True)
class Quoted:
    """Text of a file or of another agent, handed over as data and said to be data."""

    title: str
    text: str
    language: str = "text"


@dataclass(frozen=True)
class Delegation:
    """Where a dispatch stands in a tree of delegations."""

    depth: int
    path: tuple[str, ...]


@dataclass(frozen=True)
class Dispatch:
    """One call of one agent, as a playbook asks for it.

    `task`, `inputs`, `outputs`, `context`, `rules` and `failure` make the brief and the digest; they name files by
    workspace-relative paths only. Session and deadline are put in by the engine, where the text
    has `SESSION`, `DEADLINE` or `TIMEOUT`.
    """

    agent: str
    task: str | Prompt
    contract: Contract = field(default_factory=Contract)
    inputs: tuple[str, ...] = ()
    context: tuple[Quoted | str, ...] = ()
    rules: tuple[str, ...] = ()
    failure: str = ""
    writes: tuple[str, ...] = ()
    """Paths and globs the agent may change, beside its artifacts."""
    member: str = ""
    """The instance, where a role runs several times; else the agent's name."""
    step: str = ""
    kind: Kind = Kind.PRODUCER
    attempt: int = 1
    iteration: int | None = None
    timeout_s: float | None = None
    timeout_fixed: bool = False
    """The playbook's own time limit stands, whatever settings say."""
    partial_grace_s: float = 0.0
    retries: Retries | None = None
    starts_from: Any = None
    """The work of an earlier attempt (`Report.work`) that this one finds in its tree and goes on with (LY-04)."""
    delegation: Delegation | None = None
    """Where it stands in a tree of delegations; None: one below the dispatch that started this run."""
    instructions: str = ""
    """The role's text, where the playbook finds it itself; else the role library does."""
    role_source: str = ""

    @property
    def name(self) -> str:
        return self.member or self.agent

    @property
    def scope(self) -> tuple[str, ...]:
        return (*(artifact.path for artifact in self.contract.artifacts), *self.writes)

    @property
    def owed(self) -> frozenset[str]:
        """The artifacts that the contract asks for: a state document among them is this agent's to begin."""
        return frozenset(artifact.path for artifact in self.contract.artifacts)

    def parts(self) -> dict[str, Any]:
        """What the digest covers (EN-04)."""
        return {
            "agent": self.agent,
            "member": self.name,
            "task": self.task if isinstance(self.task, str) else plain(self.task),
            "inputs": list(self.inputs),
            "outputs": [artifact.path for artifact in self.contract.artifacts],
            "context": [asdict(item) if isinstance(item, Quoted) else item for item in self.context],
            "rules": list(self.rules),
            "failure": self.failure,
        }


SESSION = "\u27e6session\u27e7"
DEADLINE = "\u27e6deadline\u27e7"
TIMEOUT = "\u27e6timeout\u27e7"
"""The time limit in whole seconds; in quotes it stands for the bare number, so that JSON can hold it."""


@dataclass(frozen=True)
class Report:
    """What is known of a dispatch after it: facts and the verdict, never a claim."""

    key: str
    agent: str
    member: str
    attempt: int
    session: str
    outcome: Outcome
    reason: Reason | None = None
    token: str | None = None
    data: Mapping[str, Any] | None = None
    detail: str = ""
    complaints: tuple[str, ...] = ()
    artifacts: Mapping[str, str] = field(default_factory=dict)
    """Path to digest of each artifact as this dispatch left it."""
    flaws: tuple[ArtifactCheck, ...] = ()
    """The artifacts that did not pass their check."""
    changes: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()
    """Out-of-scope changes; they stayed in its layer and are kept as a patch."""
    foreign: tuple[str, ...] = ()
    """State documents the agent had changed in its layer; that is kept as a patch."""
    dropped: tuple[str, ...] = ()
    """New files that a judge's builds and tests left in its layer; nobody gets them."""
    ignored: Mapping[str, int] = field(default_factory=dict)
    """Folders and files that the project ignores and that came along, with the number of files in each."""
    repository: tuple[str, ...] = ()
    """What the agent did to git in its layer: commits, branches, hooks. None of it reached the repository."""
    evidence: Evidence = field(default_factory=Evidence)
    """What it put behind its verdict, in the one form that all playbooks share."""
    passed: bool | None = None
    """A judge's verdict, as far as it counts; None where it gave none."""
    no_change: str = ""
    """Why nothing needed changing, in its words, where it was called to change files and changed none (EV-06)."""
    weakened: tuple[str, ...] = ()
    """What its changes do to the project's tests and checks."""
    conflicts: Mapping[str, str] = field(default_factory=dict)
    """Path to conflict text, where its work could not be merged with what people or other agents did meanwhile."""
    work: Any = None
    """What it changed in its scope, for `Dispatch.starts_from`."""
    accepted: bool = True
    """Whether its changes came into the tree; otherwise only the artifacts that passed their checks did."""
    patch: str = ""
    """Where the difference that it made lies, relative to the workspace; empty when there is none."""
    unfinished: str = ""
    """The beginning of that difference, where it did not come into the tree: a later attempt is told."""
    outside_patch: str = ""
    partial: bool = False
    tries: int = 1
    exit_code: int | None = None
    seconds: float = 0.0
    usage: Usage | None = None
    agent_session: str = ""
    """The agent's own name for its session, where it has one."""
    answer_digest: str = ""
    answer_path: str = ""
    """Where the answer lies, relative to the workspace."""
    load: Callable[[str], bytes] = field(default=lambda _digest: b"", repr=False, compare=False)

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.OK

    def answer(self) -> bytes:
        """The agent's final message, byte for byte."""
        return self.load(self.answer_digest) if self.answer_digest else b""

    def text(self, path: str) -> str:
        """An artifact as this dispatch left it, whatever later steps did to the file."""
        return self.load(self.artifacts[path]).decode("utf-8", "replace")

    @property
    def noticed(self) -> tuple[str, ...]:
        """What a judge of this work, and whoever watches, is to know beside what its author says."""
        if not (self.no_change or self.weakened or self.ignored or self.repository):
            return ()
        used = ", ".join(self.repository)
        unchanged = (f"changed nothing, because: {self.no_change}",) if self.no_change else ()
        git = (f"used git in its copy, of which nothing reached the repository: {used}",) if used else ()
        programs = tuple(
            f"wrote {files} {'file' if files == 1 else 'files'} in {folder}, where the programs are that run tests"
            for folder, files in sorted(self.ignored.items())
            if holds_programs(folder)
        )
        return tuple(f"{self.member} {text}" for text in (*unchanged, *self.weakened, *programs, *git))

    def to_json(self) -> dict[str, Any]:
        fields = dict(vars(self))
        del fields["load"]
        fields["usage"] = dict(vars(self.usage)) if self.usage else None
        for name in LISTED:
            fields[name] = list(fields[name])
        for name in ("artifacts", "ignored", "conflicts"):
            fields[name] = dict(fields[name])
        fields["flaws"] = [asdict(flaw) for flaw in self.flaws]
        fields["evidence"] = self.evidence.to_json()
        fields["data"] = dict(self.data) if self.data is not None else None
        return fields

    @classmethod
    def from_json(cls, value: Mapping[str, Any], load: Callable[[str], bytes]) -> Report:
        fields = {name: given for name, given in value.items() if name in cls.__dataclass_fields__}  # of older runs too
        fields["outcome"] = Outcome(fields["outcome"])
        fields["reason"] = Reason(fields["reason"]) if fields["reason"] else None
        fields["usage"] = Usage(**fields["usage"]) if fields["usage"] else None
        for name in LISTED:
            fields[name] = tuple(fields.get(name, ()))
        fields["evidence"] = Evidence.from_json(fields.get("evidence") or {})
        found = fields.get("flaws", ())
        fields["flaws"] = tuple(ArtifactCheck(one["path"], ArtifactClass(one["cls"]), one["detail"]) for one in found)
        return cls(**fields, load=load)


LISTED = ("complaints", "changes", "violations", "foreign", "dropped", "repository", "weakened")


@dataclass(frozen=True)
class Choice:
    """One way out of a gate, and what it leads to."""

    name: str
    leads_to: str


APPROVE = Choice("approve", "the run goes on")
REJECT = Choice("reject", "the run stops")


@dataclass(frozen=True)
class GateDecision:
    """A person's recorded answer, bound to the digests of what was shown."""

    choice: str
    who: str
    at: str
    note: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)

    @property
    def approved(self) -> bool:
        return self.choice == APPROVE.name

    def facts(self, gate: str, opening: int) -> dict[str, Any]:
        """What the line says at a glance that records it."""
        return {"gate": gate, "opening": opening, "choice": self.choice, "who": self.who, "note": self.note}


@dataclass(frozen=True)
class CommandResult:
    """How a build, test or git command ended."""

    exit: int | None
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    seconds: float = 0.0
    error: str | None = None
    """Why it could not be started."""
    changed: tuple[str, ...] = ()
    """Files that it changed: brought into the tree where it was declared to write, else dropped."""

    @property
    def ok(self) -> bool:
        return self.exit == 0 and not self.timed_out

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CommandResult:
        return cls(**{**value, "changed": tuple(value.get("changed", ()))})


@dataclass(frozen=True)
class Changed:
    """What changed in the workspace since a snapshot."""

    paths: tuple[str, ...] = ()
    lines: int = 0
    """Added and removed, together."""
    patch: str = ""
    """Where the whole difference lies, relative to the workspace."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Changed:
        return cls(tuple(value["paths"]), value["lines"], value["patch"])


def plain(value: Any) -> Any:
    """A value as JSON data, for digests and records: enums by value, tuples as lists, dataclasses as dicts."""
    if type(value) in _ATOMS:  # what most values are
        return value
    match value:
        case StrEnum():
            return value.value
        case int() | float() | str():
            return value
        case dict() | Mapping():
            return {
                key if type(key) is str else str(plain(key)): item if type(item) in _ATOMS else plain(item)
                for key, item in value.items()
            }
        case list() | tuple() | Sequence() | set() | frozenset():
            items = [item if type(item) in _ATOMS else plain(item) for item in value]
            return sorted(items, key=str) if isinstance(value, (set, frozenset)) else items
        case _ if hasattr(value, "__dataclass_fields__"):
            return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
        case _:
            return repr(value)


_ATOMS = frozenset((str, int, bool, NoneType, float))

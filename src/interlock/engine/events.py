"""What can happen in a run: one event a line of its journal, and nothing else is true of it.

An `Outcome` settles its key: on replay the verb at that key returns it at once.  It carries the digest of what the
verb was asked; asked something else, the run has diverged (RUN-04).  All other events trace the way there; they
belong to the key of their verb, too, or to none.  Values that may be large stand in the run's objects, by digest.
What people are told of an agent's work is a `Remark` inside the outcome that it is about.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, NewType

from pydantic import Field, TypeAdapter

from interlock.agents.values import News, Usage
from interlock.documents.model import Model
from interlock.engine.forms import Ruling
from interlock.workspace.values import Landing, Pending, Remark, Standing, Tree, Where

Digest = NewType("Digest", str)
"""The name of a value in the run's objects."""


class Event(Model):
    e: str


class Outcome(Event):
    asked: dict[str, Any] = {}
    """What the verb was asked: names of trees and documents; what is long, by its digest."""


class Words(Model):
    """What a person said, to be heard by the next dispatch that it concerns."""

    text: str
    who: str
    at: datetime
    gate: str = ""
    """Given with a decision about this gate."""


# --- the run


class RunStarted(Event):
    e: Literal["started"] = "started"
    run: str
    playbook: str
    key: str
    version: str
    order: int
    """Which run of the workspace this is: not the clock tells which is last."""
    inputs: dict[str, Any]
    caps: dict[str, int]
    where: Where
    standing: Standing
    headline: str = ""
    at: datetime
    source: str = ""
    """The file of a playbook of one's own, with its digest."""
    continues: str = ""
    units: dict[str, Pending] = {}
    """Work taken over from the run that this one continues, by the unit that it belongs to."""
    documents: tuple[str, ...] = ()
    """Globs of the process's own documents: in every tree, also where the person ignores them."""
    parent: str = ""
    outer: dict[str, Any] = {}
    """Of a run that an agent began: what the engine laid into that agent's layer."""
    said: Words | None = None
    options: dict[str, Any] = {}
    """`--runner`, `--budget`: they hold until a resume says otherwise."""


class Resumed(Event):
    e: Literal["resumed"] = "resumed"
    version: str
    changed: tuple[str, ...] = ()
    """What a person changed since, in words: settings, a mended command, `--runner`."""
    said: Words | None = None
    accepted: bool = False
    """`--accept-recorded`."""
    options: dict[str, Any] = {}


class Reopened(Event):
    e: Literal["reopened"] = "reopened"
    forgotten: tuple[str, ...]
    """Keys whose outcomes no longer count: what failed is done again."""
    why: str


class Paused(Event):
    """The run stays open, and why: it waits for a person or a limit, or an agent or program failed."""

    e: Literal["paused"] = "paused"
    status: Literal["waiting", "failed"]
    why: str
    remedy: str = ""
    until: datetime | None = None


class Left(Event):
    """This process ended without the run's end."""

    e: Literal["left"] = "left"
    how: Literal["interrupted", "fault", "cut"]
    what: str = ""


class Ended(Event):
    e: Literal["ended"] = "ended"
    status: Literal["complete", "degraded", "stopped", "cancelled"]
    exit: int
    reason: str
    output: Digest | None = None
    next: str = ""
    at_a_verb: bool = False
    """A verb was refused (a setting, a prompt): it is done again, and nothing that is recorded."""
    again: str = ""
    """The scope from which a resume does it again; empty: the last dispatch, with the turn of a loop that it is in."""


class Refused(Event):
    """A message of a person that decided nothing, and why."""

    e: Literal["refused"] = "refused"
    what: str
    who: str
    why: str


class Intended(Event):
    """Synced before an effect on the world, so that it happens once."""

    e: Literal["intended"] = "intended"
    what: Literal["write", "aside", "deliver", "undo", "commit", "branch", "push", "switch", "stash"]
    facts: dict[str, Any]


class Turned(Outcome):
    """From here on pending work belongs to this unit; that of the unit before is put aside under its name (RM-102)."""

    e: Literal["unit"] = "unit"
    unit: str
    put_by: str
    pair: Pending


class Switched(Outcome):
    """The run belongs to this branch now, if it `moved`."""

    e: Literal["switched"] = "switched"
    branch: str
    problem: str = ""
    """Why it is not checked out."""
    moved: bool = True


class Undone(Event):
    """What the run delivered was taken out again, or brought again (`apply`): a person's word about a run."""

    e: Literal["undone"] = "undone"
    how: Literal["undo", "apply"]
    who: str
    pair: Pending
    paths: tuple[str, ...]
    kept: tuple[str, ...] = ()
    """What only a conflict kept."""
    left: dict[str, Pending] = {}
    """What is pending from here on, by unit: what was brought is so no longer."""


# --- outcomes of verbs


class Got(Outcome):
    e: Literal["got"] = "got"
    verb: str
    value: Any = None
    text: Digest | None = None


class Decided(Outcome):
    e: Literal["decided"] = "decided"
    rule: str
    inputs: dict[str, str]
    result: Any


class Turn(Outcome):
    e: Literal["turn"] = "turn"
    loop: str
    n: int
    cap: int


class Joined(Outcome):
    e: Literal["joined"] = "joined"
    members: tuple[str, ...]


class Noted(Outcome):
    e: Literal["noted"] = "noted"
    name: str
    facts: dict[str, Any]


class Warned(Outcome):
    """A warning for people: with a key from the playbook's verb `warn`, without one from the engine."""

    e: Literal["warned"] = "warned"
    text: str


class Said(Outcome):
    e: Literal["said"] = "said"
    text: Digest


class Run1(Model):
    """One run of one command on one tree."""

    tree: Tree
    exit: int | None
    seconds: float
    error: str = ""
    timed_out: bool = False
    out: Digest | None = None
    tests: Digest | None = None
    """Test -> passed, failed, skipped or expected, where a report told."""
    opened: tuple[str, ...] = ()
    """Which of the files that the run changed were opened by it."""

    @property
    def green(self) -> bool:
        return self.exit == 0


class Based(Outcome):
    """A command before the work: on the person's tree alone."""

    e: Literal["based"] = "based"
    name: str
    command: str
    run: Run1


class Weak(Model):
    """Changed files without whose change a green check would be red: told to judge and person (EVID-07)."""

    paths: tuple[str, ...]
    gone: tuple[str, ...] = ()
    """Tests that were green and are gone or skipped."""


class Proved(Outcome):
    e: Literal["proved"] = "proved"
    name: str
    command: str
    tree: Tree
    before: Run1 | None
    after: Run1 | None
    """None: a conflict; nothing was run."""
    word: Literal["mended", "held", "green", "broken", "still red", "conflict", "theirs", "known", "told"]
    """`green`: it was not run before; `theirs`: red on the person's own tree, too, since they changed it; `known`:
    allowed by --accept-baseline; `told`: it was run for what it says, and decides about no work."""
    flaky: bool = False
    tests: tuple[str, ...] = ()
    """Names of the tests that made the word, the first twenty."""
    weak: Weak | None = None

    @property
    def red(self) -> bool:
        """It speaks against the work; no accepted work has a command of which this is the last word."""
        return self.word in ("broken", "still red")

    @property
    def weakened(self) -> tuple[str, ...]:
        """Changed files and lost tests on which its green rests."""
        return (*self.weak.paths, *self.weak.gone) if self.weak else ()


class Wrote(Outcome):
    """A document of the process, changed by the engine."""

    e: Literal["wrote"] = "wrote"
    path: str
    state: Literal["written", "same", "edited", "aside", "failed"]
    """`edited`: a person changed what is the playbook's own; `failed`: it cannot be written: nothing was."""
    digest: str = ""
    text: Digest | None = None
    """Of a watched one: what it holds now."""
    aside: str = ""
    """Where it was moved."""
    why: str = ""
    """What a person changed, or why it failed."""


class GateOpened(Event):
    e: Literal["gate opened"] = "gate opened"
    gate: str
    question: str
    summary: str = ""
    choices: tuple[str, ...]
    shown: dict[str, str]
    """Path or label -> digest of what is shown."""
    opening: int


class GateDecided(Outcome):
    e: Literal["gate decided"] = "gate decided"
    gate: str
    choice: str
    who: str
    note: str = ""
    at: datetime
    shown: dict[str, str]


class Called(Event):
    """One call of an agent begins."""

    e: Literal["call"] = "call"
    agent: str
    member: str
    step: str
    attempt: int
    n: int
    runner: str
    model: str = ""
    role: str = ""
    session: str = ""
    standing: Standing
    pair: Pending
    shown: Tree
    layer: str
    confined: bool = True
    brief: Digest
    heard: tuple[Words, ...] = ()
    timeout_s: float = 0


class Heard(Event):
    """What is kept of a call's news, so that a later process knows it: the session, and what was spent."""

    e: Literal["heard"] = "heard"
    news: News


class Check(Model):
    """A check that a judge names, and what came of running it (EVID-04)."""

    command: str
    told: Literal["green", "red"]
    expected: bool = False
    ran: Run1 | None = None
    word: Literal["agrees", "in its layer only", "refuted", "not run", "told"]
    why: str = ""
    shows: bool = False
    """It is red without the work, where no check of the engine's is (EVID-14)."""


class Report(Model):
    """What a dispatch came to."""

    agent: str
    member: str
    attempt: int
    outcome: Literal["done", "fault"]
    reason: str = ""
    """Of a fault: `no start`, `crash`, `timeout`, `over` (a bound of its layer), `budget` (its share), `limit`,
    `login`, `model`, `refused`, `session`, `busy` (of these six see `TroubleKind`), `unusable`, `scope`, `conflict`,
    `error` (it says itself that it failed), `edited` (a person changed a document that is the playbook's own: nobody
    was called)."""
    complaint: str = ""
    """The fault in words; of a judge what its ruling was asked about."""
    form: Any = None
    text: Digest | None = None
    shown: Tree | None = None
    """The tree that it was shown: what a judge judged."""
    did: Pending | None = None
    """From what it was shown to what counts of its work; None where nothing changed."""
    paths: tuple[str, ...] = ()
    held: Pending | None = None
    """Guarded paths held back: a person's word delivers them."""
    kept: Tree | None = None
    """Where it did not count: what it had left, against `did` or what it was shown."""
    conflicts: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()
    checks: tuple[Check, ...] = ()
    ruling: Ruling | None = None
    calls: int = 1
    usage: Usage = Usage()
    seconds: float = 0
    session: str = ""
    model: str = ""

    @property
    def ok(self) -> bool:
        return self.outcome == "done"


class Tried(Event):
    """A call ended, and its dispatch has not: another call follows, here or after a resume."""

    e: Literal["tried"] = "tried"
    report: Report
    move: Literal["wait", "repeat", "repair", "gave up"]
    """`gave up`: the run stops until a resume, which has all its repeats again; where only its share of the budget was
    used up, it is called again at once."""
    delay_s: float = 0
    until: datetime | None = None


class Done(Outcome):
    """A dispatch's one outcome."""

    e: Literal["done"] = "done"
    report: Report
    pair: Pending
    """The run's pending work, this one's in it."""
    standing: Standing


class Delivered(Outcome):
    e: Literal["delivered"] = "delivered"
    label: str
    state: Literal["done", "nothing", "other", "conflict", "away"]
    """`other`: merged with the tree of this moment it is another tree than the one that was judged."""
    judged: Tree
    merged: Tree | None = None
    before: Tree | None = None
    landing: Landing | None = None
    pair: Pending | None = None
    """What is still pending afterwards."""
    standing: Standing | None = None


class Committed(Outcome):
    e: Literal["committed"] = "committed"
    what: Literal["commit", "branch", "documents", "push", "pr", "hooks", "stash"]
    ref: str = ""
    commit: str = ""
    problem: str = ""
    url: str = ""
    out: Digest | None = None
    remarks: tuple[Remark, ...] = ()


AnyEvent = Annotated[
    RunStarted | Resumed | Reopened | Paused | Left | Ended | Warned | Refused | Intended | Undone | Got
    | Decided | Turn | Joined | Noted | Said | Based | Proved | Wrote | GateOpened | GateDecided | Called | Heard
    | Tried | Done | Delivered | Committed | Turned | Switched,
    Field(discriminator="e"),
]  # fmt: skip
EVENTS: TypeAdapter[Any] = TypeAdapter(AnyEvent)

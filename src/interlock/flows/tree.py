"""A playbook that was declared in YAML, as a typed tree: what the file says, and where it says it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple


class Place(NamedTuple):
    """Where something stands in the file, both counted from 1."""

    line: int
    column: int


NOWHERE = Place(1, 1)


@dataclass(frozen=True)
class Text:
    """A jinja2 text; names are filled in when its step is reached."""

    source: str
    at: Place = field(default=NOWHERE, compare=False)


class Goes(StrEnum):
    """Where a row of a table leads."""

    NOWHERE = ""
    """What stands there could not be read."""
    ON = "go on"
    AGAIN = "again"
    LEAVE = "leave"
    END = "end"


@dataclass(frozen=True)
class Way:
    """`go on`, `again` (the next turn of the repeat), `leave` (the repeat), or `end NAME`."""

    goes: Goes
    ending: str = ""
    at: Place = field(default=NOWHERE, compare=False)

    @property
    def words(self) -> str:
        return f"end {self.ending}" if self.goes is Goes.END else self.goes.value


@dataclass(frozen=True)
class Input:
    """Something that is asked of whoever starts a run."""

    name: str
    help: str
    type: str = "text"
    default: Any = None
    """None: it must be given."""
    one_of: tuple[str, ...] = ()
    argument: bool = False
    at_least: int | None = None
    at_most: int | None = None
    at: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class FlowAgent:
    """Whoever does a piece of work: a role file, or instructions in place; what it may change; how it is called."""

    name: str
    role: str = ""
    instructions: str = ""
    writes: tuple[str, ...] = ()
    runner: str = ""
    judges: str = ""
    """`reading` or `running`: it judges the work of others, and how; empty: it does work itself."""
    says: str = "verdict"
    """`verdict` or `severity`: the words of its answer."""
    time_limit: float | None = None
    retries: int = 0
    at: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Product:
    """A document that an agent has to write, and what must stand in it."""

    path: Text
    headings: tuple[str, ...] = ()
    lines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    optional: bool = False


@dataclass(frozen=True)
class AgentStep:
    """One call of one agent."""

    name: str
    agent: str
    task: Text
    reads: tuple[Text, ...] = ()
    produces: tuple[Product, ...] = ()
    quotes: tuple[str, ...] = ()
    at: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Together:
    """Several calls side by side."""

    name: str
    members: tuple[AgentStep, ...]
    at_once: int | None = None
    at: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Repeat:
    """Steps that come again, a bounded number of times."""

    name: str
    at_most: int
    steps: tuple[Step, ...]
    when_used_up: Way
    at: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class RunStep:
    """A command that interlock runs itself."""

    name: str
    command: Text
    time_limit: float = 1800.0
    must_pass: bool = False
    at: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class AskStep:
    """A question to a person."""

    name: str
    question: Text
    choices: Mapping[str, str] = field(default_factory=dict)
    """Each with what it leads to; empty: approve and reject."""
    shows: tuple[Text, ...] = ()
    at: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Row:
    """One row of a table: the outcomes it is for, and where it leads. A column that it leaves out may be anything."""

    cells: Mapping[str, tuple[str, ...]]
    then: Way
    at: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Decide:
    """A table over the outcomes of earlier steps; the first row that fits counts."""

    name: str
    rows: tuple[Row, ...]
    at: Place = field(default=NOWHERE, compare=False)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for row in self.rows for column in row.cells))


@dataclass(frozen=True)
class CallStep:
    """Another playbook, as a step of this one."""

    name: str
    playbook: str
    inputs: Mapping[str, Text] = field(default_factory=dict)
    at: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class End:
    """An ending: how the run stands then, and what is said."""

    name: str
    status: str
    words: Text
    quotes: tuple[str, ...] = ()
    at: Place = field(default=NOWHERE, compare=False)


Step = AgentStep | Together | Repeat | RunStep | AskStep | Decide | CallStep | End


@dataclass(frozen=True)
class Flow:
    """A whole file."""

    name: str
    summary: str
    key: Text
    steps: tuple[Step, ...]
    inputs: tuple[Input, ...] = ()
    agents: tuple[FlowAgent, ...] = ()
    where: str = field(default="", compare=False)
    at: Place = field(default=NOWHERE, compare=False)

    def agent(self, name: str) -> FlowAgent:
        return self._by_name.get(name) or FlowAgent(name)

    @cached_property
    def _by_name(self) -> Mapping[str, FlowAgent]:
        return {agent.name: agent for agent in self.agents}

    @cached_property
    def all_steps(self) -> tuple[Step, ...]:
        """Every step, those inside of repeats too, in the order of the file; members are no steps of their own."""
        return tuple(walk(self.steps))

    @cached_property
    def asked_about(self) -> frozenset[str]:
        """The steps and members about which some table asks; every other one has to go well."""
        columns = {column for step in self.all_steps if isinstance(step, Decide) for column in step.columns}
        whole = (step for step in self.all_steps if isinstance(step, Together) and step.name in columns)
        return frozenset(columns | {member.name for step in whole for member in step.members})


def walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    for step in steps:
        yield step
        if isinstance(step, Repeat):
            yield from walk(step.steps)

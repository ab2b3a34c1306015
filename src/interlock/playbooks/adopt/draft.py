"""The author's draft: whether the YAML is a playbook that holds, and all statements are bound to something.  Pure.

The YAML is read by the same reader and played by the same rehearsal as when it runs.  What that comes to is a function
of the text alone, so it is worked out once for a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from interlock import flows
from interlock.documents import Document, DocumentState, split_frontmatter
from interlock.errors import ConfigInvalid, DocumentInvalid
from interlock.playbooks.adopt.listing import told
from interlock.playbooks.adopt.statements import Statement
from interlock.playbooks.adopt.trace import Binding, Keeper, TraceOf, YamlPlaces, keeper, places_of, unbound
from interlock.testing import Trial, tried

ROLE_KEYS = frozenset({"name", "description"})
"""What the frontmatter of a role may say: anything else would be a second place for what the YAML says."""


@dataclass(frozen=True)
class Examined:
    """What a YAML text comes to."""

    problems: tuple[str, ...] = ()
    name: str = ""
    roles: tuple[str, ...] = ()
    """The role files that its agents need."""
    trial: Trial | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Examined:
        trial = value["trial"] and Trial(**{**value["trial"], "broken": tuple(value["trial"]["broken"])})
        return cls(tuple(value["problems"]), value["name"], tuple(value["roles"]), trial)


@lru_cache(maxsize=64)
def examined(text: str) -> Examined:
    """Whether a text is a playbook, total and holding on every path that is played, and what it needs."""
    try:
        flow = flows.read(text, "playbook.yaml")
        rehearsal = flows.rehearsal(flow)
    except ConfigInvalid as error:
        return Examined(tuple(map(_said, (error, *error.also))))
    trial = tried(rehearsal)
    roles = tuple(agent.role or agent.name for agent in flow.agents if not agent.instructions)
    return Examined(tuple(f"rehearsal: {one}" for one in trial.broken), flow.name, roles, trial)


def _said(error: Exception) -> str:
    parts = dict(error.parts()) if isinstance(error, ConfigInvalid) else {}
    where, expected, remedy = (parts.get(name, "") for name in ("where", "expected", "to do"))
    return f"{where}: {error}" + (f"; expected {expected}" if expected else "") + (f". {remedy}" if remedy else "")


@dataclass(frozen=True)
class PlaybookCalled:
    """A playbook of this name; the `Structure` of the author's YAML."""

    name: str

    def problem(self, text: str) -> str | None:
        return told(self.problems(examined(text)))

    def problems(self, found: Examined) -> list[str]:
        """What is wrong with a text that comes to this."""
        wrong = [f"playbook: {found.name}; expected {self.name}"] if found.name not in ("", self.name) else []
        return [*found.problems, *wrong]

    def sample(self) -> str:
        return SAMPLE.replace("NAME", self.name)


SAMPLE = """\
playbook: NAME
summary: Do the work and let a person look at it.
inputs:
  request:
    help: What is to be done.
    argument: true
key: "{{ request }}"
agents:
  worker:
    instructions: You do what is asked, and no more.
    writes: src/**
steps:
  - agent: worker
    task: "{{ request }}"
  - decide: after-work
    rows:
      - {worker: pass, then: go on}
      - {worker: [revise, blocked, failed], then: end not-done}
  - ask: accept
    question: Is this what you wanted?
  - decide: after-accept
    rows:
      - {accept: approve, then: end done}
      - {accept: reject, then: end not-done}
  - end: done
    status: complete
    words: Done and accepted.
  - end: not-done
    status: stopped
    words: Not done.
"""


@dataclass(frozen=True)
class Draft:
    """What the author left: the YAML, its roles by name, and the trace."""

    text: str
    roles: Mapping[str, str]
    trace: str
    examined: Examined
    by: str = ""
    """The key of the dispatch that made it."""

    @property
    def places(self) -> YamlPlaces:
        return places_of(self.text)

    def bindings(self, statements: tuple[Statement, ...]) -> dict[str, Binding]:
        return TraceOf(statements).bindings(self.trace)

    def problems(self, name: str, statements: tuple[Statement, ...]) -> list[str]:
        """Everything that is wrong with it, in words for its author; what depends on several files comes last."""
        by_itself = [
            *(f"playbook.yaml: {one}" for one in PlaybookCalled(name).problems(self.examined)),
            *(f"trace.json: {one}" for one in TraceOf(statements).problems(self.trace)),
        ]
        if by_itself:
            return by_itself
        return [*self._roles(), *unbound(statements, self.bindings(statements), self.places, self.roles)]

    def _roles(self) -> Iterator[str]:
        needed = self.examined.roles
        yield from (f"agents/{role}.md: missing; an agent needs it" for role in needed if role not in self.roles)
        for role, text in self.roles.items():
            if role not in needed:
                yield f"agents/{role}.md: no agent has this role"
            try:
                head = split_frontmatter(text, f"agents/{role}.md")
                said = head.data()
            except DocumentInvalid as error:
                yield str(error)
                continue
            if set(said) != ROLE_KEYS or said["name"] != role:
                yield f"agents/{role}.md: its frontmatter has name ({role}) and description, and nothing else"
            if not head.body.strip():
                yield f"agents/{role}.md: it says nothing"

    def kept(self, statements: tuple[Statement, ...], by: Keeper) -> list[Statement]:
        """The statements that somebody keeps, or nobody."""
        bindings = self.bindings(statements)
        return [one for one in statements if keeper(bindings[one.id], self.places) is by]


def look(document: Document) -> dict[str, Any]:
    """A YAML file as it stands in the workspace, with what it comes to."""
    text = document.text if document.state is DocumentState.OK else ""
    return {"text": text, "examined": examined(text).to_json()}

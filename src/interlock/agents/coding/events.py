"""What coding agents report while they work, in one vocabulary for all of them.

Each agent has a stream of its own; its dialect translates it into these events.  They are for people who watch and
for the transcript: nothing that counts is decided by them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from interlock.agents.runner import AgentNews, Usage

SHOWN: Final = 4000
"""Characters of a text that an event carries; the whole stands in the answer and in the raw stream."""


class ToolState(StrEnum):
    BEGAN = "began"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    """The agent's own rules, or we, did not allow it."""


@dataclass(frozen=True)
class SessionBegan:
    """The agent opened a session of its own."""

    session: str
    model: str | None = None

    def news(self) -> AgentNews:
        return AgentNews("session", {"session": self.session, "model": self.model})


@dataclass(frozen=True)
class Spoke:
    """Text of the agent, whole or a part of it."""

    text: str

    def news(self) -> AgentNews:
        return AgentNews("text", {"text": cut(self.text)})


@dataclass(frozen=True)
class Thought:
    """What the agent thinks, where it shows that."""

    text: str

    def news(self) -> AgentNews:
        return AgentNews("thought", {"text": cut(self.text)})


@dataclass(frozen=True)
class ToolUsed:
    """A tool call begins, or ended."""

    call: str
    name: str
    subject: str = ""
    """What it is about, on one line: the path, the command, the query."""
    state: ToolState = ToolState.BEGAN
    why: str = field(default="", compare=False)
    """Why it was refused, in the agent's words."""

    def news(self) -> AgentNews:
        subject = " ".join(self.subject.split())
        facts = {"call": self.call, "name": self.name, "subject": cut(subject, 300), "state": self.state}
        return AgentNews("tool", {**facts, "why": cut(self.why, 300)} if self.state is ToolState.REFUSED else facts)

    @property
    def refusal(self) -> str:
        """What was refused, and why, on one line."""
        what = " ".join(f"{self.name} {self.subject}".split())
        return cut(what, 200) + (f": {cut(' '.join(self.why.split()), 300)}" if self.why.strip() else "")


@dataclass(frozen=True)
class Planned:
    """The agent's list of what it means to do: each entry with how far it is."""

    entries: tuple[tuple[str, str], ...]

    def news(self) -> AgentNews:
        return AgentNews("plan", {"entries": [[cut(text, 300), state] for text, state in self.entries[:50]]})


@dataclass(frozen=True)
class Spent:
    """What the call has cost so far, as far as the agent says."""

    usage: Usage

    def news(self) -> AgentNews:
        said = self.usage
        return AgentNews(
            "usage",
            {"input_tokens": said.input_tokens, "output_tokens": said.output_tokens, "cost_usd": said.cost_usd},
        )


@dataclass(frozen=True)
class Waits:
    """The agent itself waits for its model service and will try again."""

    why: str
    seconds: float | None = None

    def news(self) -> AgentNews:
        return AgentNews("waiting", {"why": cut(self.why, 300), "seconds": self.seconds})


@dataclass(frozen=True)
class Warned:
    """Something worth a person's attention that does not end the call."""

    text: str

    def news(self) -> AgentNews:
        return AgentNews("warning", {"text": cut(self.text)})


Event = SessionBegan | Spoke | Thought | ToolUsed | Planned | Spent | Waits | Warned


def cut(text: str, limit: int = SHOWN) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}\N{HORIZONTAL ELLIPSIS}"

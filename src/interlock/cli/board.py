"""What works right now, kept from journal lines and news; whoever draws it asks for it as plain values."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from interlock.cli.pipeline import Pipeline, Stand
from interlock.telemetry import in_words, printable, spoken_command, who

if TYPE_CHECKING:
    from interlock.agents import AgentNews
    from interlock.engine.journal import Line

Clock = Callable[[], float]
_ENOUGH = 0.3
"""Share of the way from which on the pace so far says something about the rest."""
ENDED = ("dispatch.end", "command", "run.end", "run.interrupted", "run.fault")


@dataclass(frozen=True)
class Working:
    """An agent or command that is running."""

    name: str
    attempt: int | None
    since: float
    doing: str = ""
    tokens: int | None = None
    """Read and written by its model so far, where the agent says it."""


@dataclass(frozen=True)
class Counts:
    ok: int = 0
    failed: int = 0
    against: int = 0
    """Verdicts of judges against the work."""
    cost_usd: float | None = None
    unknown_cost: bool = False
    """Whether the cost of some dispatch is unknown, so that the sum is not the whole."""


@dataclass
class Board:
    """The present state of a run, safe to read from the thread that draws."""

    title: str = ""
    typical_s: float | None = None
    """How long such runs usually take, if any are known."""
    clock: Clock = time.monotonic
    begun: float = 0.0
    pipeline: Pipeline = field(default_factory=Pipeline)
    counts: Counts = field(default_factory=Counts)
    _begun_at: float = 0.0
    """How much of the way was behind the run when this process took it up."""
    _working: dict[str, Working] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(
        self, title: str, lines: list[Line], typical_s: float | None, steps: Mapping[str, str] | None = None
    ) -> None:
        self.title, self.typical_s, self.begun = title, typical_s, self.clock()
        self.pipeline = Pipeline(steps or {})
        for line in lines:
            self.pipeline.pass_by(line.key)
            self._count(line)
        self._begun_at = self.pipeline.share

    def line(self, line: Line, *, about: str = "") -> None:
        """Keep what a journal line means for the picture; `about` is what it works on."""
        key = str(line.key)
        with self._lock:
            self.pipeline.pass_by(line.key)
            match line.event:
                case "dispatch.start":
                    name = who(line) if not about or about in who(line) else f"{about}, {who(line)}"
                    self._working[key] = Working(name, line.attempt, self.clock())
                case "command.intent":
                    self._working[key] = Working(printable(spoken_command(line.data), 60), None, self.clock())
                case "dispatch.try":
                    self._say(key, _again(line.data))
                case "run.end" | "run.interrupted" | "run.fault":
                    self._working.clear()
                case event if event in ENDED:
                    self._working.pop(key, None)
            self._count(line)

    def news(self, key: str, news: AgentNews) -> None:
        with self._lock:
            self._say(key, doing(news.kind, news.data))
            if news.kind == "usage" and key in self._working:
                self._working[key] = replace(self._working[key], tokens=tokens(news.data))

    def working(self) -> list[Working]:
        with self._lock:
            return list(self._working.values())

    @property
    def elapsed_s(self) -> float:
        return self.clock() - self.begun

    @property
    def remaining_s(self) -> float | None:
        """How long it may still take: as such runs usually do, else as its steps so far; None when nobody can know."""
        if self.typical_s is not None:
            return self.typical_s - self.elapsed_s if self.typical_s > self.elapsed_s else None
        gone = self.pipeline.share - self._begun_at
        return self.elapsed_s / gone * (1 - self.pipeline.share) if gone >= _ENOUGH else None

    def steps(self) -> list[tuple[str, Stand]]:
        with self._lock:
            return list(self.pipeline)

    def _say(self, key: str, text: str) -> None:
        if text and key in self._working:
            self._working[key] = replace(self._working[key], doing=text)

    def _count(self, line: Line) -> None:
        if line.event == "dispatch.end":
            failed, against = line.data["outcome"] == "FAIL", line.data.get("passed") is False
            cost, now = line.data["cost_usd"], self.counts
            total = now.cost_usd if cost is None else (now.cost_usd or 0.0) + cost
            self.counts = Counts(
                now.ok + (not failed and not against),
                now.failed + failed,
                now.against + against,
                total,
                now.unknown_cost or cost is None,
            )


def _again(data: Mapping[str, Any]) -> str:
    """What follows a try that did not count."""
    move, delay = data["move"], data["delay_s"]
    if move == "wait":
        what = f"waits {in_words(delay)} for its service" if delay else "its limit lasts longer than may be waited"
        return printable(f"{what}: {data['detail']}", 80)
    return f"{move} in {in_words(delay)}" if delay else str(move)


def doing(kind: str, data: Mapping[str, object]) -> str:
    """The last thing an agent did, in a few words; empty for what changes nothing of that."""
    match kind:
        case "text" | "thought":
            lines = str(data.get("text", "")).strip().splitlines()
            return printable(lines[-1], 80) if lines else ""
        case "tool":
            return _tool(data)
        case "plan":
            return _plan(data.get("entries"))
        case "waiting":
            return printable(f"waits: {data.get('why', '')}", 80)
        case "warning":
            return printable(f"warns: {data.get('text', '')}", 80)
        case "partial.requested":
            return "time is up: asked for partial results"
        case "started" | "ended" | "session" | "usage":
            return ""
    texts = [value for value in data.values() if isinstance(value, str) and value.strip()]
    return printable(" ".join([kind, *texts]), 80)


def _tool(data: Mapping[str, object]) -> str:
    """The tool and what it is about; how it ended only where that is worth a look."""
    if data.get("state") == "done":
        return ""
    ended = f" {data['state']}" if data.get("state") in ("failed", "refused") else ""
    return printable(f"{data.get('name') or 'tool'}{ended} {data.get('subject') or ''}".rstrip(), 80)


def _plan(entries: object) -> str:
    """How far the agent's own plan is, and what it is at."""
    steps = (
        [entry for entry in entries if isinstance(entry, list) and len(entry) == 2] if isinstance(entries, list) else []
    )
    if not steps:
        return ""
    done = sum(state == "completed" for _, state in steps)
    now = next((text for text, state in steps if state == "in_progress"), "")
    return printable(f"plan {done}/{len(steps)}{f': {now}' if now else ''}", 80)


def tokens(data: Mapping[str, object]) -> int | None:
    known = [data.get(name) for name in ("input_tokens", "output_tokens")]
    counts = [count for count in known if isinstance(count, int)]
    return sum(counts) if counts else None

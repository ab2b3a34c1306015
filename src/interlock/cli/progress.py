"""Who watches a run: a plain line per event; and the board of what works right now, for whoever draws it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from interlock.cli.output import complain, write_output
from interlock.telemetry import (
    INDENT,
    Narrator,
    Pipeline,
    StepStand,
    Telling,
    Weight,
    clock,
    doing,
    in_words,
    indented,
    is_against,
    printable,
    spoken_command,
    spoken_news,
    tokens,
    who,
)

if TYPE_CHECKING:
    from interlock.agents import AgentNews
    from interlock.cli.door import Door, Occasion
    from interlock.engine.identity import Identity
    from interlock.engine.journal import Line

FIRST_EFFECTS = frozenset(
    ("dispatch.start", "write.intent", "command.intent", "set_aside.intent", "gate.opened", "run.end")
)
"""With one of these the run has come into being; lines before it are shown only if it does (a typo is no run)."""
SHORT = 60
"""A reason that fits beside the word is told there too."""
LAST = 8
"""Of what happened before somebody joined, so many events are told."""


class PlainView:
    """One line per event on stderr; the playbook's own output goes to stdout, or is kept for ``--json``."""

    def __init__(self, occasion: Occasion, *, keep_output: bool, verbose: bool = False) -> None:
        self.said: list[str | bytes] = []
        self._occasion = occasion
        self._keep = keep_output
        self._verbose = verbose
        self._narrator = Narrator()
        self._held: list[tuple[str, Telling]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(failed=kind is not None)

    def begin(self, identity: Identity, lines: list[Line], *, resumed: bool) -> None:
        occasion = self._occasion
        occasion.playbook, occasion.key = identity.playbook, identity.key
        self._held = None if resumed else []
        self._narrator = Narrator()
        for line in lines:
            self._narrator.tell(line)
        if resumed:
            occasion.run_id, occasion.started_at = identity.run_id, identity.started_at
        self.show(
            clock_now(), Telling(f"{title(identity)}: run {identity.run_id} {'goes on' if resumed else 'starts'}")
        )

    def join(self, identity: Identity, lines: list[Line]) -> None:
        """Begin in the middle of a run that another process executes; the last of what happened so far is told."""
        occasion = self._occasion
        occasion.playbook, occasion.key = identity.playbook, identity.key
        occasion.run_id, occasion.started_at = identity.run_id, identity.started_at
        known = []
        for line in lines:
            counts = self.pass_by(line)
            one = self._narrator.tell(line)
            if counts and (self._verbose or one.weight is not Weight.DETAIL):
                known.append((clock(line.ts), one))
        before = f"; its last {LAST} of {len(known)} events" if len(known) > LAST else ""
        self.show(clock_now(), Telling(f"{title(identity)}: run {identity.run_id}{before}"))
        for at, one in known[-LAST:]:
            self.show(at, one)

    def pass_by(self, line: Line) -> bool:
        """A line of the time before somebody watched; whether it is an event of its own here."""
        return True

    def line(self, line: Line) -> None:
        if self._held is not None and line.event in FIRST_EFFECTS:
            self._occasion.run_id, self._occasion.started_at = line.run, line.ts
            self._release()
        told = self._narrator.tell(line)
        if line.event in ("run.end", "run.paused") and len(told.text) > SHORT:  # the summary, which follows, has it all
            told = replace(told, text=told.text.split("\n", 1)[0].partition(": ")[0])
        if self._verbose or told.weight is not Weight.DETAIL:
            self.show(clock(line.ts), told)

    def news(self, key: str, news: AgentNews) -> None:
        """Too much for a log, unless somebody asks for it: the records of the dispatch have it."""
        if self._verbose:
            self.tell_news(key, news)

    def tell_news(self, key: str, news: AgentNews) -> None:
        if text := spoken_news(news.kind, news.data):
            self.show(clock_now(), Telling(f"{member_of(key)}: {text}", Weight.DETAIL))

    def say(self, text: str | bytes) -> None:
        self.said.append(text)
        if not self._keep:
            write_output(text)

    def remark(self, text: str) -> None:
        self.show(clock_now(), Telling(text, Weight.ATTENTION))

    def close(self, *, failed: bool) -> None:
        """The end: what was held is shown, unless an error says it all."""
        if not failed:
            self._release()
        self._held = None

    def show(self, at: str, told: Telling) -> None:
        if self._held is None:
            self.write(at, told)
        else:
            self._held.append((at, told))

    def write(self, at: str, told: Telling) -> None:
        complain(f"{at}  {indented(told.text, INDENT)}")

    def _release(self) -> None:
        held, self._held = self._held, None
        for at, told in held or ():
            self.write(at, told)


def member_of(key: str) -> str:
    """Who works at a key, as its dispatch is called."""
    return printable(key.rpartition("/")[2].partition("#")[0], 40)


def title(identity: Identity) -> str:
    return printable(f"{identity.playbook} {identity.key}", 100)


def clock_now() -> str:
    from datetime import UTC, datetime

    return clock(datetime.now(UTC).isoformat())


def can_draw() -> bool:
    """Whether stderr is a terminal on which a view can be drawn."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def view_for(door: Door) -> PlainView:
    """The view that fits where stderr goes."""
    if can_draw():
        from interlock.cli.live import LiveView

        return LiveView(door.occasion, keep_output=door.json, verbose=door.verbose, root=door.root)
    return PlainView(door.occasion, keep_output=door.json, verbose=door.verbose)


# -- what works right now, kept from journal lines and news


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
    ago: float = 0.0
    """How long it is since what is told now happened; over 0 only for whoever joins a run in the middle."""
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
                    self._working[key] = Working(name, line.attempt, self._then)
                case "command.intent":
                    self._working[key] = Working(printable(spoken_command(line.data), 60), None, self._then)
                case "dispatch.try":
                    self._say(key, _again(line.data))
                case "run.start" | "run.resumed":  # nothing of the process before works any more
                    self._working.clear()
                    self.begun, self._begun_at = self._then, self.pipeline.share
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
    def _then(self) -> float:
        return self.clock() - self.ago

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

    def steps(self) -> list[tuple[str, StepStand]]:
        with self._lock:
            return list(self.pipeline)

    def _say(self, key: str, text: str) -> None:
        if text and key in self._working:
            self._working[key] = replace(self._working[key], doing=text)

    def _count(self, line: Line) -> None:
        if line.event == "dispatch.end":
            failed, against = line.data["outcome"] == "FAIL", is_against(line.data)
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

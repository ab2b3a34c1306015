"""Who watches a run: a plain line per event; on a terminal, below the lines that stay, what works right now.

Most calls draw nothing: rich is imported where something is drawn.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from interlock.cli.output import complain, write_output
from interlock.engine.journal import stamp_now
from interlock.telemetry import (
    INDENT,
    STEP_MARKS,
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
    seconds_between,
    spent,
    spoken_command,
    spoken_news,
    tokens,
    who,
)
from interlock.telemetry.fitting import fitted

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.live import Live
    from rich.table import Table

    from interlock.agents import AgentNews
    from interlock.cli.door import Door, Errand
    from interlock.engine.identity import Identity
    from interlock.engine.journal import Line

WORK = frozenset(("dispatch.start", "write.intent", "command.intent", "set_aside.intent"))
"""Events with which a run is at work."""
FIRST_EFFECTS = WORK | {"gate.opened", "run.end"}
"""With one of these the run has come into being; lines before it are shown only if it does (a typo is no run)."""
SHORT = 60
"""A reason that fits beside the word is told there too."""
LAST = 8
"""Of what happened before somebody joined, so many events are told."""


class PlainView:
    """One line per event on stderr; the playbook's own output goes to stdout, or is kept for ``--json``."""

    def __init__(self, errand: Errand, *, keep_output: bool, verbose: bool = False) -> None:
        self.said: list[str | bytes] = []
        self._errand = errand
        self._keep = keep_output
        self._verbose = verbose
        self._narrator = Narrator()
        self._held: list[tuple[str, Telling]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(failed=kind is not None)

    def begin(self, identity: Identity, lines: list[Line], *, resumed: bool) -> None:
        self._errand.playbook, self._errand.key = identity.playbook, identity.key
        self._held = None if resumed else []
        self._narrator = Narrator()
        for line in lines:
            self._narrator.tell(line)
        if resumed:
            self._errand.turn_to(identity)
        self.show(
            clock(stamp_now()),
            Telling(f"{title(identity)}: run {identity.run_id} {'goes on' if resumed else 'starts'}"),
        )

    def join(self, identity: Identity, lines: list[Line]) -> None:
        """Begin in the middle of a run that another process executes; the last of what happened so far is told."""
        self._errand.turn_to(identity)
        known = []
        for line in lines:
            counts = self.pass_by(line)
            one = self._narrator.tell(line)
            if counts and (self._verbose or one.weight is not Weight.DETAIL):
                known.append((clock(line.ts), one))
        before = f"; its last {LAST} of {len(known)} events" if len(known) > LAST else ""
        self.show(clock(stamp_now()), Telling(f"{title(identity)}: run {identity.run_id}{before}"))
        for at, one in known[-LAST:]:
            self.show(at, one)

    def pass_by(self, line: Line) -> bool:
        """A line of the time before somebody watched; whether it is an event of its own here."""
        return True

    def line(self, line: Line) -> None:
        if self._held is not None and line.event in FIRST_EFFECTS:
            self._errand.run_id, self._errand.started_at = line.run, line.ts
            self._release()
        told = self._narrator.tell(line)
        if line.event in ("run.end", "run.paused") and len(told.text) > SHORT:  # the summary, which follows, has it all
            told = replace(told, text=f"run {line.data.get('status', 'paused')}")
        if self._verbose or told.weight is not Weight.DETAIL:
            self.show(clock(line.ts), told)

    def news(self, key: str, news: AgentNews) -> None:
        """Too much for a log, unless somebody asks for it: the records of the dispatch have it."""
        if self._verbose:
            self.tell_news(key, news)

    def tell_news(self, key: str, news: AgentNews) -> None:
        if text := spoken_news(news.kind, news.data):
            self.show(clock(stamp_now()), Telling(f"{member_of(key)}: {text}", Weight.DETAIL))

    def say(self, text: str | bytes) -> None:
        self.said.append(text)
        if not self._keep:
            write_output(text)

    def remark(self, text: str) -> None:
        self.show(clock(stamp_now()), Telling(text, Weight.ATTENTION))

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


def can_draw() -> bool:
    """Whether stderr is a terminal on which a view can be drawn."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def view_for(door: Door) -> PlainView:
    """The view that fits where stderr goes."""
    if can_draw():
        return LiveView(door.errand, keep_output=door.json, verbose=door.verbose, root=door.root)
    return PlainView(door.errand, keep_output=door.json, verbose=door.verbose)


# -- what works right now, kept from journal lines and news


Clock = Callable[[], float]
_ENOUGH = 0.3
"""Share of the way from which on the pace so far says something about the rest."""
ENDED = ("dispatch.end", "command", "run.end", "run.interrupted", "run.fault")


@dataclass(frozen=True)
class NowAtWork:
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
    _working: dict[str, NowAtWork] = field(default_factory=dict)
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
                    self._working[key] = NowAtWork(name, line.attempt, self._then)
                case "command.intent":
                    self._working[key] = NowAtWork(printable(spoken_command(line.data), 60), None, self._then)
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

    def working(self) -> list[NowAtWork]:
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


# -- the picture


STYLES = {Weight.GOOD: "green", Weight.BAD: "red", Weight.ATTENTION: "yellow"}
SPINNER, ASCII_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "-\\|/"
STANDS = {StepStand.DONE: "green", StepStand.SKIPPED: "dim", StepStand.NOW: "bold cyan", StepStand.AHEAD: "dim"}
REFRESH = 8
"""Times a second that the view is drawn."""
SHOWN_IN_THE_VIEW = frozenset(("dispatch.start", "command.intent"))
"""Events that need no line of their own: what they begin stands in the view until it ends."""


class LiveView(PlainView):
    def __init__(
        self,
        errand: Errand,
        *,
        keep_output: bool,
        root: Path,
        verbose: bool = False,
        console: Console | None = None,
    ) -> None:
        super().__init__(errand, keep_output=keep_output, verbose=verbose)
        from rich.console import Console

        self._root = root
        self._console = console or Console(stderr=True, highlight=False)
        self._board = Board()
        self._live: Live | None = None

    def begin(self, identity: Identity, lines: list[Line], *, resumed: bool) -> None:
        self._board_of(identity, lines)
        super().begin(identity, lines, resumed=resumed)
        self._draw()

    def join(self, identity: Identity, lines: list[Line]) -> None:
        self._board_of(identity, [])
        super().join(identity, lines)
        self._board.ago = 0.0
        self._draw()

    def _board_of(self, identity: Identity, lines: list[Line]) -> None:
        """The board anew, with what is known of such runs."""
        from interlock.engine.glances import typical_seconds
        from interlock.finding import Library

        steps = Library(self._root, os.environ).steps_of(identity)
        self._board.begin(title(identity), lines, typical_seconds(self._root, identity.playbook), steps)

    def pass_by(self, line: Line) -> bool:
        self._board.ago = max(0.0, seconds_between(line.ts, stamp_now()))
        self._board.line(line, about=self._narrator.about(line))
        return line.event not in SHOWN_IN_THE_VIEW

    def _draw(self) -> None:
        if self._live is None:
            from rich.live import Live

            self._live = Live(
                Picture(self._board),
                console=self._console,
                refresh_per_second=REFRESH,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def line(self, line: Line) -> None:
        self._board.line(line, about=self._narrator.about(line))
        if line.event not in SHOWN_IN_THE_VIEW or line.data.get("try", 1) != 1:
            super().line(line)
        else:
            self._narrator.tell(line)
            self._release()

    def news(self, key: str, news: AgentNews) -> None:
        self._board.news(key, news)
        super().news(key, news)

    def say(self, text: str | bytes) -> None:
        """stdout may be the same terminal: the view steps aside while the output is written."""
        live, aside = self._live, not self._keep and sys.stdout.isatty()
        if live is not None and aside:
            live.stop()
        super().say(text)
        if live is not None and aside:
            live.start()

    def close(self, *, failed: bool) -> None:
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()
            self._live = None
        super().close(failed=failed)

    def write(self, at: str, told: Telling) -> None:
        from rich.text import Text

        text = Text.assemble((f"{at}  ", "dim"), (self._wrapped(told.text), STYLES.get(told.weight, "")))
        with suppress(OSError):
            self._console.print(text, soft_wrap=True)

    def _wrapped(self, text: str) -> str:
        """Reasons may be long: they go on below, under their beginning."""
        told = "\n".join(map(shown, text.split("\n")))
        return indented(fitted(told, self._console.width - len(INDENT), ""), INDENT)


class Picture:
    """The board as rich draws it, anew at every refresh and for every width."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        # No line is padded to the full width: a terminal that gets narrower would wrap it, and rich could not
        # take back what it drew.
        board, now = self._board, self._board.clock()
        head = Text.assemble((shown(board.title), "bold"), ("  " + "  ".join(self._facts()), "dim"))
        head.truncate(options.max_width, overflow="ellipsis")
        yield head
        if steps := board.steps():
            row = Text(" ").join(Text(f"{STEP_MARKS[stand]} {name}", STANDS[stand]) for name, stand in steps)
            row.truncate(options.max_width, overflow="ellipsis")
            yield row
        yield self._rows(board.working(), now, options)

    def _rows(self, working: list[NowAtWork], now: float, options: ConsoleOptions) -> Table:
        """What works now; of all columns only the last is cut, so that the others stay readable."""
        from rich.cells import cell_len
        from rich.table import Table
        from rich.text import Text

        rows = Table.grid(padding=(0, 2))
        frames = ASCII_SPINNER if options.ascii_only else SPINNER
        spin = frames[int(now * REFRESH) % len(frames)]
        cells = [
            (
                spin,
                shown(one.name),
                "" if one.attempt is None else f"attempt {one.attempt}",
                minutes(now - one.since),
                "" if one.tokens is None else f"{amount(one.tokens)} tokens",
                shown(one.doing),
            )
            for one in working
        ]
        widths = [max(map(cell_len, column)) + 2 for column in zip(*cells, strict=True)]
        widest = max(20, options.max_width // 2)
        left = options.max_width - sum(widths[:1] + [min(width, widest) for width in widths[1:2]] + widths[2:5])
        rows.add_column()
        rows.add_column(no_wrap=True, overflow="ellipsis", max_width=widest)
        for _ in ("attempt", "time", "tokens", "doing"):
            rows.add_column(no_wrap=True, overflow="ellipsis")
        for mark, name, attempt, took, read, said in cells:
            cut = Text(said, "dim")
            cut.truncate(max(0, left), overflow="ellipsis")
            # As texts, not as markup: a name may have brackets.
            rows.add_row(Text(mark, "cyan"), Text(name), Text(attempt, "dim"), Text(took), Text(read, "dim"), cut)
        return rows

    def _facts(self) -> Iterator[str]:
        """What the head line says besides the title."""
        counts, left = self._board.counts, self._board.remaining_s
        yield minutes(self._board.elapsed_s)
        yield "eta ~?" if left is None or left < 1 else f"eta ~{minutes(left)}"
        yield f"{counts.ok} ok"
        if counts.failed:
            yield f"{counts.failed} failed"
        if counts.against:
            yield f"{counts.against} against"
        if counts.cost_usd is not None:
            yield f"{spent(counts.cost_usd)} + {spent(None)}" if counts.unknown_cost else spent(counts.cost_usd)


def shown(text: str) -> str:
    """The edge of this view: whatever was told, in one line that the terminal prints as it is."""
    return printable(text, max(2, len(text)))


def minutes(seconds: float) -> str:
    """A running time that does not jump about: 0:07, 12:40, 1:02:03."""
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def amount(number: int) -> str:
    """A count at a glance: 812, 4.1k, 1.2M."""
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"

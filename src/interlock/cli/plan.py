"""`plan`, `rehearse`, `validate` and the dry run: what a run would take, every way that it can go, whether it could
run here, what comes next. Nothing is called, nothing is changed.

A rehearsal plays the real playbook against simulated agents that do everything agents can do wrong.  A playbook takes
part by offering `rehearsal()` in its room; it says what can go wrong, and what must hold all the same.
"""

from __future__ import annotations

import signal
import sys
import time
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self

import typer

from interlock.cli.commands import LOOK, WORKSHOP, PlaybookName, command
from interlock.cli.door import Door, finish
from interlock.cli.failures import BROKEN, INTERRUPTED, told
from interlock.cli.gates import gate_lines
from interlock.cli.output import (
    WIDTH,
    as_text,
    columns,
    complain,
    envelope,
    overwrite,
    print_json,
    print_lines,
    wrapped,
)
from interlock.cli.playbooks import Playbooks, command_for, group, room_of
from interlock.engine.outlook import Figures, Seat, Spread, commands_in, earlier_calls, seats, stages_of
from interlock.engine.tracing import Trace
from interlock.errors import ConfigInvalid, InterlockError
from interlock.finding import Origin
from interlock.telemetry import in_words, printable, spoken_command

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock.engine import Asking, Options, Playbook
    from interlock.engine.exploration import Rehearsal
    from interlock.engine.journal import Line
    from interlock.engine.playing import Finished
    from interlock.finding.purity import Touch


FAULTS = 1
MOST_PATHS = 300
"""Of a rehearsal that is made on the spot: a few seconds."""
UNKNOWN = "unknown"


class Plans(Playbooks):
    """The sub-commands of `plan`: what `run` takes, they take."""

    def command_of(self, playbook: Playbook, word: str) -> Any:
        return command_for(playbook, word, spoken="plan {}", do=show, honours=("runner", "trust"))


plan = group(Plans, "plan", "Show what a run would take: agents, calls, time, cost, commands; change nothing.", LOOK)


@dataclass
class Sighted(Trace):
    """What the paths of a rehearsal went through, and the commands and stages among it."""

    commands: dict[str, None] = field(default_factory=dict)
    stages: dict[str, None] = field(default_factory=dict)

    def take(self, lines: Iterable[Line]) -> None:
        known = list(lines)
        super().take(known)
        ran = [spoken_command(line.data) for line in known if line.event == "command"]
        self.commands |= dict.fromkeys(f"{command}, in its rehearsal" for command in ran)
        self.stages |= dict.fromkeys(stages_of(self.playbook, known))


class Bounded:
    """Ends a rehearsal after so many paths."""

    def __init__(self) -> None:
        self.stop = False

    def __call__(self, paths: int, _broken: int, /) -> None:
        self.stop = paths >= MOST_PATHS


@dataclass(frozen=True)
class Outlook:
    """All that can be said of a run before it is begun."""

    playbook: str
    key: str
    run_id: str | None
    """The open run that would go on."""
    stages: tuple[str, ...]
    agents: tuple[Seat, ...]
    calls: Figures
    caps: Mapping[str, int]
    """What of it is repeated, and how often at most."""
    commands: tuple[str, ...]
    documents: tuple[str, ...]
    next: Mapping[str, Any]


def show(door: Door, playbook: Playbook, said: Mapping[str, Any]) -> int:
    """Print what a run of this playbook would take, for what is said."""
    inputs = playbook.asked(said, door.setup.asking(playbook)).inputs
    door.errand.playbook, door.errand.key = playbook.name, playbook.key(inputs)
    outlook = outlook_of(door, playbook, inputs)
    if door.json:
        coming = {name: value for name, value in outlook.next.items() if name != "brief"}
        print_json({**asdict(outlook), "next": coming, "told": sections(outlook)})
    else:
        print_lines(lines_of(outlook))
    return 0


def outlook_of(door: Door, playbook: Playbook, inputs: Any) -> Outlook:
    found = _dry(door, playbook, inputs)
    playbook = narrowed(playbook, inputs)
    figures, seen = figures_of(door, playbook)
    setup = door.setup
    bound = [
        (roster.bind(agent), setup.model_of(roster.bind(agent).runner))
        for one in (playbook, *playbook.all_called)
        for roster in (setup.roster(one),)
        for agent in one.agents
    ]
    return Outlook(
        playbook=playbook.name,
        key=playbook.key(inputs),
        run_id=found.run_id,
        stages=stages_of(playbook, found.lines) if seen is None else tuple(seen.stages),
        agents=seats(bound, earlier_calls(door.root, playbook.name)),
        calls=figures,
        caps=dict(playbook.caps),
        commands=commands_in(found.lines) or (tuple(seen.commands) if seen else ()),
        documents=tuple(dict.fromkeys((*playbook.documents(inputs), *playbook.state(inputs)))),
        next=following(found),
    )


def _dry(door: Door, playbook: Playbook, inputs: Any) -> Finished:
    """How far a run would come without calling anybody."""
    from interlock.engine.runs import Quiet

    return finish(door.runs(Quiet()).plan(playbook, inputs))


def narrowed(playbook: Playbook, inputs: Any) -> Playbook:
    """The playbook as these inputs leave it, where its room offers that: fewer agents, lower caps, their rehearsal."""
    offered = getattr(room_of(playbook), "narrowed", None)
    return replace(offered(inputs), source=playbook.source) if offered is not None else playbook


def figures_of(door: Door, playbook: Playbook) -> tuple[Figures, Sighted | None]:
    """How often agents are called: as it was counted for a playbook that ships, else counted here and now."""
    ships = playbook.source is not None and playbook.source.origin == Origin.SHIPPED
    if ships and playbook.rehearsal is None and (known := Figures.of(playbook)) is not None:
        return known, None
    rehearsal, seen = find_rehearsal(playbook, door.setup.asking(playbook)), Sighted(playbook)
    result = play(rehearsal, door.setup.options(playbook), FAULTS, progress=Bounded(), trace=seen)
    return Figures(FAULTS, result.paths, result.fewest, result.most_calls, whole=not result.interrupted), seen


# -- for people


def sections(outlook: Outlook) -> list[tuple[str, list[str]]]:
    """All of it in sentences, below headings."""
    parts = {
        "Stages": [" -> ".join(outlook.stages)] if outlook.stages else [],
        "Agents": [
            f"{name}: {runner}, model {model}; time {time}; cost {cost}"
            for name, runner, model, time, cost in _agents(outlook.agents)
        ],
        "Calls of agents": [_calls(outlook.calls), *_caps(outlook.caps)],
        "Commands that interlock runs": outlook.commands,
        "Documents": outlook.documents or ("none of its own",),
        "First": [_next(outlook.next)],
    }
    return [(title, [printable(text) for text in texts] or ["none"]) for title, texts in parts.items()]


def lines_of(outlook: Outlook) -> list[str]:
    where = f"run {outlook.run_id} goes on" if outlook.run_id else "a new run starts"
    lines = wrapped(
        f"{outlook.playbook} {printable(outlook.key)}: {where} (nothing was changed, nobody was called)", ""
    )
    for title, texts in sections(outlook):
        table = _table(outlook.agents) if title == "Agents" else []
        lines += ["", title, *(table or [line for text in texts for line in wrapped(text, "  ")])]
    return lines


def _agents(agents: Sequence[Seat]) -> list[tuple[str, str, str, str, str]]:
    return [
        (one.agent, one.runner, one.model or "its default", _spread(one.seconds, in_words), _cost(one.cost_usd))
        for one in agents
    ]


def _table(agents: Sequence[Seat]) -> list[str]:
    """The agents as a table; nothing where that is too wide."""
    rows = [("AGENT", "RUNNER", "MODEL", "TIME HERE", "COST HERE"), *_agents(agents)]
    lines = [f"  {line}" for line in columns(rows)] if agents else []
    return lines if all(len(line) <= WIDTH for line in lines) else []


def _spread(spread: Spread | None, said: Any) -> str:
    if spread is None:
        return UNKNOWN
    if spread.number == 1:
        return f"{said(spread.median)} once"
    return f"{said(spread.median)} ({said(spread.least)} to {said(spread.most)}, {spread.number} calls)"


def _cost(spread: Spread | None) -> str:
    """The currency once: the median as everywhere, the rest behind it in figures."""
    said = _spread(spread, lambda amount: f"{amount:.2f}")
    return said if spread is None else said.replace(" ", " USD ", 1)


def _calls(figures: Figures) -> str:
    least = f"at least {figures.fewest}" if figures.fewest is not None else "nobody knows how few"
    paths = f"{figures.paths} paths" if figures.paths != 1 else "the one path"
    all_of = "" if figures.whole else "the first "
    faults = "1 fault" if figures.faults == 1 else f"{figures.faults} faults"
    return f"{least}, at most {figures.most}, on {all_of}{paths} of its rehearsal with at most {faults} each"


def _caps(caps: Mapping[str, int]) -> list[str]:
    named = ", ".join(f"{name} {cap}" for name, cap in caps.items())
    return [f"with more faults more of them, up to the caps: {named}"] if named else []


def _next(coming: Mapping[str, Any]) -> str:
    if coming["next"] == "end":
        return f"it ends at once: {coming['status']} {coming['reason']}".rstrip()
    return f"{coming['next']} {coming['key']}"


SHOWN = 10


@dataclass
class Result:
    """What a rehearsal found."""

    most: int
    """Faults up to which every combination was played."""
    sample: int | None = None
    """Of the runs with one fault more, one in so many was played."""
    paths: int = 0
    faults: Counter[int] = field(default_factory=Counter)
    """Paths by their number of faults."""
    crashes: int = 0
    """Crashes of interlock itself that were survived by a resume."""
    fewest: int | None = None
    """Calls of agents on the shortest path that completes; where none does, on the one without faults."""
    most_calls: int = 0
    """Calls of agents on the longest path; those that crashes of interlock cost are left out."""
    seconds: float = 0.0
    interrupted: bool = False
    """Somebody stopped it: what it says holds for the paths that were played."""
    endings: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)


@command("rehearse", example="interlock rehearse router", honours=("trust",), panel=WORKSHOP)
def rehearse(
    door: Door,
    playbook: PlaybookName,
    most: Annotated[
        int | None,
        typer.Option("--most", min=0, metavar="N", help="Faults in one run, at most.", show_default=False),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            min=1,
            metavar="N",
            help="Besides, of the runs with one fault more, one in N, always the same ones.",
            show_default=False,
        ),
    ] = None,
    diagram: Annotated[
        bool, typer.Option("--diagram", help="Print what it went through, as a Mermaid diagram.")
    ] = False,
) -> int:
    """Play a playbook with simulated agents through every combination of verdicts and faults, in memory."""
    from interlock.finding.purity import touches

    known = door.playbook(playbook)
    trace = Trace(known)
    with Progress(playbook) as progress:
        result = play(
            find_rehearsal(known, door.setup.asking(known)), door.setup.options(known), most, sample, progress, trace
        )
    result.broken = [*(f"only the verbs: {touch}" for touch in touches(known)), *result.broken]
    told = trace.mermaid().splitlines() if diagram else _told(playbook, result)
    door.answer({"playbook": playbook, **vars(result), "diagram": trace.mermaid()}, told)
    for problem in result.broken[:SHOWN]:
        complain(f"Broken: {problem}")
    if result.interrupted:
        complain(f"Interrupted after {result.paths} paths: not every combination was played.")
        return INTERRUPTED
    return BROKEN if result.broken else 0


class Brake(Protocol):
    """Who is told how far a rehearsal is, and may want it to stop."""

    stop: bool

    def __call__(self, paths: int, broken: int, /) -> None: ...


class Progress:
    """Says how far a long command is, and hears that somebody wants it to stop.

    The first interrupt lets the path that is being played come to its end, so that there is something to say; the
    second one ends the command at once.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._last = self._began = time.monotonic()
        self._before: Any = None
        self.stop = False

    def __enter__(self) -> Self:
        with suppress(ValueError):  # not in the main thread: then nobody interrupts it this way
            self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if sys.stderr.isatty() and self._last != self._began:
            overwrite("")

    def _interrupt(self, _number: int, _frame: object) -> None:
        if self.stop:
            raise KeyboardInterrupt
        self.stop = True

    def __call__(self, paths: int, broken: int) -> None:
        """Tell it, twice a second on a terminal and every ten seconds in a log."""
        now, terminal = time.monotonic(), sys.stderr.isatty()
        if now - self._last < (0.5 if terminal else 10.0):
            return
        self._last = now
        text = f"{self._what}: {paths} paths in {in_words(now - self._began)}, rules broken: {broken}"
        if terminal:
            overwrite(text)
        else:
            complain(text)


def find_rehearsal(playbook: Playbook, asking: Asking) -> Rehearsal:
    """The rehearsal that a playbook offers; else that of any playbook, with the inputs that it names as samples."""
    from interlock.testing import standard_rehearsal

    offered = playbook.rehearsal or getattr(room_of(playbook), "rehearsal", None)
    found: Rehearsal = offered() if offered is not None else standard_rehearsal(playbook, asking)
    return found


def play(
    setup: Rehearsal,
    options: Options,
    most: int | None,
    sample: int | None = None,
    progress: Brake | None = None,
    trace: Trace | None = None,
) -> Result:
    """Every run with at most so many faults, and one in `sample` of those with one more: how they ended, and where
    something did not hold."""
    from interlock.engine.trial import CallCount

    result = Result(setup.most if most is None else most, sample)
    calls = CallCount()
    began = time.monotonic()

    def drawn(schedule: Mapping[int, str]) -> bool:
        return zlib.crc32(repr(sorted(schedule.items())).encode()) % (sample or 1) == 0

    try:
        for played in setup.paths(
            options, most=result.most + (1 if sample else 0), sample_of=drawn if sample else None
        ):
            result.paths += 1
            result.faults[len(played.schedule)] += 1
            result.crashes += played.simulation.processes - 1
            result.endings[played.finished.status.value] += 1
            result.broken += setup.broken(played)
            calls.take(played)
            result.fewest, result.most_calls = calls.fewest, calls.most
            if trace is not None:
                trace.take(played.simulation.lines)
            if progress is not None:
                progress(result.paths, len(result.broken))
                if progress.stop:
                    result.interrupted = True
                    break
        if not result.interrupted and result.most >= setup.most:
            result.broken += setup.left_out()
    except InterlockError as error:
        result.broken.append(f"a path could not be played to its end: {error.what}")
    result.seconds = round(time.monotonic() - began, 3)
    return result


def _told(name: str, result: Result) -> list[str]:
    held = "every rule held" if not result.broken else f"rules broken: {len(result.broken)}"
    more = f", and one in {result.sample} of those with {result.most + 1}" if result.sample else ""
    return [
        f"{name}: {result.paths} paths with at most {result.most} faults each{more}, "
        f"in {in_words(result.seconds)}; {held}",
        *(f"  with {number} faults: {count}" for number, count in sorted(result.faults.items())),
        *(f"  {status}: {count}" for status, count in sorted(result.endings.items())),
        f"  crashes of interlock itself, each followed by a resume: {result.crashes}",
        f"  calls of agents: at least {result.fewest} to complete, at most {result.most_calls}",
    ]


# -- before a run


def next_of_run(door: Door, name: str) -> int:
    identity = door.find(name).identity
    playbook = door.library.again(identity)
    return show_next(door, playbook, playbook.parse_inputs(identity.inputs))


def show_next(door: Door, playbook: Playbook, inputs: Any) -> int:
    found = _dry(door, playbook, inputs)
    if door.json:
        print_json(
            envelope(
                replace(found, playbook=playbook.name, key=playbook.key(inputs), started_at=None),
                status="complete",
                exit_code=0,
                reason="dry run: nothing was changed",
                gate=found.gate,
                plan=following(found),
            )
        )
    else:
        print_lines(_next_lines(door, playbook, inputs, found))
    return 0


def following(plan: Finished) -> dict[str, Any]:
    """What a dry run found to come next."""
    before = plan.before
    if before is not None:
        from interlock.engine.model import plain

        return {"next": before.verb, "key": before.key, **plain(before.detail)}
    if plan.gate is not None:
        return {"next": "decision", "key": plan.gate["key"]}
    return {"next": "end", "status": plan.status.value, "reason": plan.reason, "output": as_text(plan.output)}


def _next_lines(door: Door, playbook: Playbook, inputs: Any, plan: Finished) -> list[str]:
    what = f"{playbook.name} {playbook.key(inputs)}"
    where = f"run {plan.run_id} goes on" if plan.run_id else "a new run starts"
    lines = [f"{what}: {where} (dry run: nothing was changed)"]
    coming = following(plan)
    brief = coming.pop("brief", None)
    lines += [f"  {name}: {_shown(value)}" for name, value in coming.items() if value not in (None, "", [], {})]
    if plan.gate is not None and plan.run_id is not None:
        lines += gate_lines(door, plan.run_id, plan.gate)
    if brief is not None:
        lines += ["", "The brief that the agent would get:", "", brief.rstrip("\n")]
    return lines


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


@command("validate", example="interlock validate router", honours=("runner", "trust"), panel=WORKSHOP)
def validate(door: Door, playbook: PlaybookName) -> int:
    """Check that a playbook could run here: settings, agents, runners and documents; nothing is started."""
    problems = finish(problems_of(door, door.playbook(playbook)))
    complain(*door.library.namesakes(playbook))
    if door.json:
        listed = [{"what": one.what, **dict(one.parts())} for one in problems]
        print_json({"playbook": playbook, "ok": not problems, "problems": listed})
    elif not problems:
        print_lines([f"{playbook}: ready to run in {door.root}"])
    for one in problems:
        complain(*told(one.what, dict(one.parts())))
    return BROKEN if problems else 0


async def problems_of(door: Door, playbook: Playbook) -> list[InterlockError]:
    """All that would keep the playbook from running here, each once."""
    from interlock.engine import prompts
    from interlock.engine.runs import Quiet
    from interlock.finding.purity import touches

    setup, runs = door.setup, door.runs(Quiet())
    found: dict[str, InterlockError] = {one.what: one for one in map(_beside_the_verbs, touches(playbook))}
    try:
        setup.check_agents(playbook)
        setup.roster(playbook).bind_all(playbook.agents)
        setup.make_runner(setup.default_runner())
        prompts.check(playbook, setup.documents)
    except InterlockError as error:
        return [*found.values(), error]
    try:
        for inputs in playbook.samples(setup.asking(playbook)):
            try:
                await runs.plan(playbook, inputs)
            except InterlockError as error:
                found.setdefault(error.what, error)
    except InterlockError as error:
        found.setdefault(error.what, error)
    return list(found.values())


def _beside_the_verbs(touch: Touch) -> InterlockError:
    return ConfigInvalid(
        f"the playbook {touch.what} at line {touch.line} of {touch.file}",
        where=f"{touch.file}:{touch.line}",
        expected="nothing but the verbs of its run",
        remedy=f"Use what can be replayed: {touch.instead}.",
    )

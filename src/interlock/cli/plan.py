"""`plan`: what a run would take. Nothing is called, nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from interlock.cli.commands import LOOK
from interlock.cli.door import Door, finish
from interlock.cli.output import WIDTH, columns, print_json, print_lines, wrapped
from interlock.cli.rehearse import find_rehearsal, play, room_of
from interlock.cli.run import Playbooks, command_for, following, group
from interlock.engine.outlook import Figures, Seat, Spread, commands_in, earlier_calls, seats, stages_of
from interlock.engine.tracing import Trace
from interlock.finding import Origin
from interlock.telemetry import in_words, printable, spoken_command

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock.engine import Playbook
    from interlock.engine.journal import Line
    from interlock.engine.playing import Finished

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
    door.occasion.playbook, door.occasion.key = playbook.name, playbook.key(inputs)
    outlook = outlook_of(door, playbook, inputs)
    if door.json:
        coming = {name: value for name, value in outlook.next.items() if name != "brief"}
        print_json({**asdict(outlook), "next": coming, "told": told(outlook)})
    else:
        print_lines(lines_of(outlook))
    return 0


def outlook_of(door: Door, playbook: Playbook, inputs: Any) -> Outlook:
    from interlock.engine.runs import Quiet

    async def dry() -> Finished:
        return await door.runs(Quiet()).plan(playbook, inputs)

    found = finish(dry())
    playbook = narrowed(playbook, inputs)
    figures, seen = figures_of(door, playbook)
    setup = door.setup
    bound = [
        (book.bind(agent), setup.model_of(book.bind(agent).runner))
        for one in (playbook, *playbook.all_called)
        for book in (setup.book(one),)
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


def told(outlook: Outlook) -> list[tuple[str, list[str]]]:
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
    for title, texts in told(outlook):
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

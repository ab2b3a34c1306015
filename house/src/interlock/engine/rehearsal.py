"""Every path of a playbook, played by the engine that plays it for real, in the simulated world (PROOF-01).

Theory of operation.  Whatever a run depends on comes to a `Stage`, the cast of the simulated world, as an *occasion*
with a name: a call of an agent (its key and try), a command on a tree, a gate, the moments before and after each
effect, each line of the journal.  A *path* is a schedule: what happens at which occasion in place of the usual.  A path
tells all occasions that it came to and what else could have happened at each; the next paths deviate once more, at a
later one.  Names, not numbers: a crash asks again and would shift all numbers behind it.

Deviations follow by themselves, from forms, samples, choices and exits; no playbook writes any.  What holds on every
path is in `HOLDS`; a playbook adds its own invariants, over the view.
"""

from __future__ import annotations

import contextvars
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from interlock.agents import answers
from interlock.agents.values import Ask, CommandExit, Exit, Trouble, TroubleKind
from interlock.documents.model import Model, canonical
from interlock.engine import events as ev
from interlock.engine.folder import Message
from interlock.engine.forms import schema
from interlock.engine.keys import here
from interlock.engine.playbook import Playbook
from interlock.engine.playing import Player
from interlock.engine.prompts import Prompts
from interlock.engine.run import Limits
from interlock.engine.simulation import WORK, Act, Clean, Files, Simulated, begin, drive
from interlock.engine.view import GateView, View
from interlock.engine.world import Command, Toolbox
from interlock.errors import BadInput, Status
from interlock.workspace.values import Tree

EACH = ", each time"
"""Behind a deviation that lasts: for that agent, command or gate, until the run is parked and a person comes back."""
KILLED = "the process dies"
PERSON = "person"
UNSAVED, NOTES, BREAKS = "unsaved.txt", "people/notes.txt", "people/broken.txt"
GUARDED, OUTSIDE, TEST = "CLAUDE.md", "outside.txt", "tests/test_lib.py"
WRONG, WEAKENED, BROKEN, THEIRS = b"wrong\n", b"skipped\n", b"broken\n", b"written by a person\n"
MOST_CALLS, MOST_PROCESSES = 200, 40
LIMITS = Limits(rate_limit_wait_s=6 * 3600)
_LASTING = (
    "crashes",
    "is told a limit",
    "changes nothing",
    "does it wrong",
    "weakens a test",
    "takes unsaved work back",
)
_EFFECTS = ("call ", "run ", "deliver", "publish", "push", "ask ")
_WEATHER: dict[str, Exit] = {
    "crashes": Exit(finished=False, exit=-9),
    "does not end": Exit(finished=False, timed_out=True),
    "cannot be started": Exit(finished=False, started=False, stderr="no such program"),
    "is told a limit": Exit(finished=False, trouble=Trouble(kind=TroubleKind.LIMIT, text="too many requests")),
    "is told a limit and its end": Exit(finished=False, trouble=Trouble(kind=TroubleKind.LIMIT, text="used up")),
    "is not signed in": Exit(finished=False, trouble=Trouble(kind=TroubleKind.LOGIN, text="not signed in")),
    "has lost its session": Exit(finished=False, trouble=Trouble(kind=TroubleKind.SESSION, text="unknown session")),
    "outgrows its layer": Exit(finished=False, over="1 GB"),
    "uses up the budget": Exit(finished=False, exhausted=True),
}
_ENDS = {
    "red": CommandExit(exit=1, out="1 failed"),
    "green": CommandExit(exit=0),
    "does not end": CommandExit(timed_out=True),
    "is not installed": CommandExit(error="no such program"),
}


class Killed(BaseException):
    """The process died."""


class Endless(BaseException):
    """More calls than any path can need."""


class Stage(Clean):
    """The cast of one path: the usual, but where its schedule says otherwise."""

    def __init__(self, playbook: Playbook, schedule: Mapping[str, str], forms: dict[str, Any] | None = None) -> None:
        self.rows = {row.agent: row for row in playbook.rows}
        self.schedule = schedule
        self.offers: dict[str, tuple[str, ...]] = {}
        """What else could have happened at each occasion, in the order in which they came."""
        self.world: Simulated
        self.player: Player
        self.theirs: dict[str, bytes] = {}
        """The person's files, as they would be without any run."""
        self.edits: list[tuple[str, bytes]] = []
        self.asks: dict[str, Ask] = {}
        self.began: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.answered: Counter[tuple[str, str]] = Counter()
        self.runs: dict[tuple[str, Tree, bool], CommandExit] = {}
        """Command line, tree, in a judge's own layer -> how it ended there, the last time."""
        self.wrong: list[str] = []
        """What the engine did and must not, seen as it happened."""
        self.kills = 0
        self.resumes = False
        """A person takes up a run that stopped."""
        self._lasting: dict[str, str] = {}
        self._tries: Counter[str] = Counter()
        self._paid: set[str] = set()
        self._fired: set[str] = set()
        self._lines: Counter[str] = Counter()
        self._moments: Counter[str] = Counter()
        self._again: Counter[tuple[str, Tree, bool]] = Counter()
        self._places: dict[tuple[str, Tree, bool], str] = {}
        self._forms: dict[str, dict[str, Any]] = {} if forms is None else forms
        """What each form can be answered; the same on all paths."""

    def enters(self) -> None:
        """A process begins."""
        self._moments.clear()
        self._again.clear()

    def comes_back(self, view: View) -> None:
        """A person answers what the run waits for, or mends what stopped it."""
        self._lasting.clear()
        if (gate := view.gate) is not None and not self.world.folder.said:
            self.world.folder.said["1"] = self._decision(gate, gate.choices[0])

    def goes_on(self, view: View) -> bool:
        """Whether a person resumes what stopped; only once, and with what failed mended."""
        if view.status is Status.STOPPED and self._happens("the run has stopped", lambda: ("is resumed",)):
            self.resumes = "the run has stopped" not in self._fired
            self._fired.add("the run has stopped")
            self._lasting.clear()
        return self.resumes

    def _happens(self, occasion: str, others: Callable[[], Iterable[str]], subject: str = "") -> str:
        if occasion not in self.offers:
            self.offers[occasion] = () if subject in self._lasting else tuple(others())
        name = self.schedule.get(occasion, "")
        if name.endswith(EACH) and occasion not in self._fired:
            self._fired.add(occasion)
            self._lasting[subject] = name.removesuffix(EACH)
        return self._lasting.get(subject, "") if not name or name.endswith(EACH) else name

    # --- agents

    def agent(self, ask: Ask, key: str, files: Files) -> Act:
        self.asks[key] = ask
        judges = (row := self.rows.get(ask.role.name)) is not None and row.judges
        works = bool(ask.samples) and not judges
        name = self._happens(
            f"{key}, call {self._tries[key] + 1}",
            lambda: self._agents(ask, works, row is not None and "**" not in row.writes),
            ask.env["INTERLOCK_MEMBER"],
        )
        usual = super().agent(ask, key, {path: text.replace(WRONG, b"") for path, text in files.items()})
        if name in _WEATHER:
            return self._weather(name, usual)
        bare = name.startswith("changes nothing")
        form = self._answers(ask).get(name.removeprefix("changes nothing, "), None)
        done = {} if bare else dict(usual.files)
        if name == "does it wrong" or name == "weakens a test":
            done = {path: (content or b"") + WRONG for path, content in done.items()}
        extra: dict[str, dict[str, bytes | None]] = {
            "weakens a test": {TEST: WEAKENED},
            f"writes {GUARDED}": {GUARDED: b"obey\n"},
            "writes outside": {OUTSIDE: b"outside\n"},
            "takes unsaved work back": {UNSAVED: None},
        }
        return Act({**done, **extra.get(name, {})}, usual.exit if form is None else self.said(form))

    def _agents(self, ask: Ask, works: bool, scoped: bool) -> Iterator[str]:
        forms = list(self._answers(ask))
        does = ["changes nothing", "does it wrong", "weakens a test", f"writes {GUARDED}", "takes unsaved work back"]
        once = [*_WEATHER, *(does if works else ()), *(["writes outside"] if scoped else [])]
        yield from once
        yield from (f"{name}{EACH}" for name in once if name in _LASTING)
        for form in [*forms, *(f"changes nothing, {form}" for form in forms if works)]:
            yield from (form, f"{form}{EACH}")

    def _answers(self, ask: Ask) -> dict[str, Any]:
        if ask.form is None:
            return {}
        spelled = f"{ask.role.name} {ask.form.get('title')} {canonical(ask.known)!r}"
        if spelled not in self._forms:
            self._forms[spelled] = {one.name: one.value for one in answers.deviations(ask.form, ask.known)}
        return self._forms[spelled]

    def _weather(self, name: str, usual: Act) -> Act:
        exit_ = _WEATHER[name]
        if name.endswith("its end") and exit_.trouble is not None:
            until = self.world.clock + timedelta(hours=5)
            exit_ = exit_.model_copy(update={"trouble": exit_.trouble.model_copy(update={"until": until})})
        return Act(usual.files if exit_.started else {}, exit_)

    # --- commands

    def command(self, command: Command, tree: Tree, files: Files, *, own: bool) -> CommandExit:
        run = command.line, tree, own
        if run not in self._places:
            known = sum(line == command.line for line, _, _ in self._places)
            where = f"tree {known + 1}{', in the layer' if own else ''}"
            self._places[run] = f"{here().path}: {command.line} on {where}"
        green = is_green(files)
        self._again[run] += 1
        name = self._happens(self._places[run], lambda: self._commands(green), command.line)
        if name == "red, then green":
            name = "red" if self._again[run] == 1 else "green"
        self.runs[run] = _ENDS[name or ("green" if green else "red")]
        return self.runs[run]

    def _commands(self, green: bool) -> tuple[str, ...]:
        stuck = "does not end", f"does not end{EACH}", "is not installed"
        return ("red", f"red{EACH}", "red, then green", *stuck) if green else ("green", *stuck)

    # --- people, and the process itself

    def person(self, gate: GateView) -> Message | None:
        others = [f"chooses {choice}" for choice in gate.choices[1:]]
        name = self._happens(
            f"{gate.key}, opening {gate.opening}",
            lambda: (*others, *(f"{one}{EACH}" for one in others), "is not there", "rejects without a word", "is late"),
            gate.key.partition("#")[0].rpartition("/")[2],
        )
        if name == "is not there":
            return None
        choice = name.removeprefix("chooses ") if name in others else gate.choices[0]
        if name == "rejects without a word":
            return Message(what="reject", who=PERSON, at=self.world.now())
        if name == "is late":
            return self._decision(gate, choice).model_copy(update={"opening": gate.opening + 1})
        return self._decision(gate, choice)

    def _decision(self, gate: GateView, choice: str) -> Message:
        self.answered[gate.key, choice] += 1
        note = "Do it otherwise." if choice == gate.choices[-1] else ""
        return Message(what="answer", who=PERSON, at=self.world.now(), gate=gate.gate, choice=choice, note=note)

    def moment(self, what: str) -> str:
        if what.startswith("call "):
            self.began[what.removeprefix("call ")] += 1
            if sum(self.began.values()) > MOST_CALLS:
                raise Endless
        if what.startswith("called "):
            key = what.removeprefix("called ")
            self.ended[key] += 1
            if (once := f"{key} {self._tries[key]}") in self._paid:
                self.wrong.append(f"{key} is paid for twice")
            self._paid.add(once)
        if what.startswith(_EFFECTS) and not self.player.recorder.journal.safe:
            self.wrong.append(f"{what}: what led to it is not safe yet")
        self._moments[place := f"{here().path}: {what}"] += 1
        count = self._moments[place]
        occasion = place if count == 1 else f"{place} ({count})"
        fails = what in ("plan commit", "publish", "push")
        name = self._happens(occasion, lambda: (KILLED, *PEOPLE, *(["fails"] if fails else [])))
        if not name or occasion in self._fired:
            return ""
        self._fired.add(occasion)
        if name == KILLED:
            self.dies()
        if name in PEOPLE:
            self._edits(name)
        return "it cannot be done" if name == "fails" else ""

    def _edits(self, name: str) -> None:
        if name == "a person cancels":
            self.world.folder.said["0"] = Message(what="cancel", who=PERSON, at=self.world.now())
        elif name == "a person checks out another branch":
            self.world.away = True
        else:
            shared = next((path for ask in reversed(self.asks.values()) for path in ask.samples), NOTES)
            path = {"a person writes a file": NOTES, "a person breaks the checks": BREAKS}.get(name, shared)
            line = BROKEN if path == BREAKS else THEIRS
            self.edits.append((path, line))
            self.world.files[path] = self.world.files.get(path, b"") + line
            self.theirs[path] = self.theirs.get(path, b"") + line

    def dies(self) -> None:
        self.kills += 1
        raise Killed

    def told(self, event: ev.Event, key: str) -> None:
        """A line was appended: the process may die behind it."""
        if isinstance(event, ev.Tried | ev.Done):
            self._tries[key] += 1
        self._lines[place := f"{key or 'the run'}: line `{event.e}`"] += 1
        count = self._lines[place]
        if self._happens(place if count == 1 else f"{place} ({count})", lambda: (KILLED,)):
            self.dies()


PEOPLE = (
    "a person writes a file",
    "a person writes where agents write",
    "a person breaks the checks",
    "a person checks out another branch",
    "a person cancels",
)


def is_green(files: Files) -> bool:
    """Whether a check is green on these files, where nothing else is scheduled."""
    texts = list(files.values())
    if BROKEN in texts:
        return False
    return files.get(TEST) == WEAKENED or (
        any(WORK in text for text in texts) and not any(WRONG in text for text in texts)
    )


# --- a path


@dataclass
class Path:
    """One path: what happened on it in place of the usual, and how it went."""

    playbook: Playbook
    inputs: Model
    caps: Mapping[str, int]
    stage: Stage
    usual: Path | None = None
    """Where a death of the process is the last of its deviations: the same without it."""
    view: View = field(default_factory=View)
    refused: str = ""
    """Bad input: nothing of the run is left."""
    fault: str = ""

    @property
    def schedule(self) -> Mapping[str, str]:
        return self.stage.schedule

    @property
    def files(self) -> Mapping[str, bytes]:
        return self.stage.world.files

    @property
    def lines(self) -> list[tuple[str, ev.Event]]:
        return [(line.key, line.event) for line in self.stage.player.recorder.journal.lines]

    @property
    def calls(self) -> int:
        return sum(self.stage.began.values())

    def further(self) -> Iterator[tuple[str, str]]:
        """What else could have happened, behind the last thing that did."""
        came = list(self.stage.offers)
        behind = max((came.index(one) for one in self.schedule if one in came), default=-1)
        yield from ((one, name) for one in came[behind + 1 :] for name in self.stage.offers[one])

    def green(self, line: str, tree: Tree | None, *, own: bool = False) -> bool | None:
        """How a command really ended on a tree, the last time; None: nobody knows."""
        came = self.stage.runs.get((line, tree or Tree(""), own))
        return None if came is None or (came.timed_out and line not in self.decides) else came.exit == 0

    @property
    def decides(self) -> set[str]:
        """The commands that the engine ran to decide, before and after."""
        return {event.command for _, event in self.lines if isinstance(event, ev.Based | ev.Proved)}

    def play(self) -> Path:
        """To its end: whoever dies is resumed, whoever waits is answered."""
        for _ in range(MOST_PROCESSES):
            try:
                contextvars.copy_context().run(self._process)
            except Killed:
                continue
            except BadInput as error:
                self.refused = error.what
                return self
            except (Exception, Endless) as error:  # whatever it is, the path is broken, and says so
                self.fault = f"{type(error).__name__}: {error}"
                return self
            if self.view.ended is not None and not self.stage.goes_on(self.view):
                return self
            if self.view.ended is None:
                self.stage.comes_back(self.view)
        return self

    def _process(self) -> None:
        stage, settings = self.stage, self.playbook.settings() if self.playbook.settings else None
        prompts = Prompts(self.playbook.prompts)
        stage.player = player = Player(
            self.playbook, stage.world, prompts, settings=settings, limits=LIMITS, told=stage.told
        )
        stage.enters()
        self.view = player.view
        if self.view.start is None:
            begin(player, self.inputs, self.caps)
        elif self.view.ended is None or stage.resumes:
            stage.resumes = False
            player.resume("simulated")
        else:
            return
        drive(player.play())


Make = Callable[[Stage], Simulated]


def world_of(stage: Stage) -> Simulated:
    """A project with a check, and work that a person has not committed."""
    files = {"lib.py": b"x = 1\n", TEST: b"assert x\n"}
    commands = [Command("test", "make test", "found")]
    return Simulated(
        {**files, UNSAVED: b"not committed\n"}, head=files, cast=stage, toolbox=Toolbox(commands), branch="main"
    )


def explore(
    playbook: Playbook,
    inputs: Model,
    *,
    deviations: int = 1,
    caps: Mapping[str, int] | None = None,
    make: Make = world_of,
    sample: int = 0,
    seed: int = 0,
    only: Callable[[str], bool] = lambda name: True,
) -> Iterator[Path]:
    """Every path with at most so many deviations, each once.

    Args:
        sample: of the paths with that many deviations only so many, drawn by the seed.
        only: which deviations there are, by name.
    """

    def played(schedule: Mapping[str, str], usual: Path | None = None) -> Path:
        stage = Stage(playbook, schedule, forms)
        world = stage.world = make(stage)
        stage.theirs = dict(world.files)
        return Path(playbook, inputs, caps or playbook.caps, stage, usual).play()

    forms: dict[str, Any] = {}
    paths = [played({})]
    yield paths[0]
    for depth in range(1, deviations + 1):
        more = [(path, one, name) for path in paths for one, name in path.further() if only(name)]
        if sample and depth == deviations and len(more) > sample:
            more = random.Random(seed).sample(more, sample)
        paths = []
        for path, one, name in more:
            longer = played({**path.schedule, one: name}, path if name == KILLED else None)
            yield longer
            if depth < deviations:
                paths.append(longer)


def variants(playbook: Playbook) -> Iterator[Model]:
    """The best inputs that the playbook's form of them takes, and each with one field otherwise."""
    form = schema(playbook.inputs)
    for value in [answers.best(form), *(one.value for one in answers.deviations(form))]:
        try:
            inputs = playbook.inputs.model_validate(value)
            if playbook.check is not None:
                playbook.check(inputs, lambda branch: "")
        except (ValidationError, BadInput):
            continue
        yield inputs

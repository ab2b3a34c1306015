"""What can go otherwise than well, and where: the cast of a simulated world that keeps to a schedule (PROOF-01).

Theory of operation.  Whatever a run depends on comes to the stage as an *occasion* with a name: a call of an agent (its
key and its try), a command on a tree, a gate, the moments before and behind each effect, each line of the journal.  A
*schedule* says what happens at which occasion in place of the usual; the stage keeps what else could have happened
there.  Names, not numbers: a death of the process asks again and would shift all numbers behind it.

Deviations follow by themselves, from forms, samples, choices, exits and effects: no playbook writes any.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache, partial
from typing import Any

from interlock.agents import answers
from interlock.agents.values import Ask, CommandExit, Exit, Trouble, TroubleKind
from interlock.documents.model import canonical
from interlock.engine import events as ev
from interlock.engine.folder import Message
from interlock.engine.forms import Form, schema
from interlock.engine.keys import here
from interlock.engine.playing import Player
from interlock.engine.run import Row
from interlock.engine.simulation import BROKEN, FAULT, SKIPPED, TEST, Act, Clean, Files, Simulated, is_green
from interlock.engine.view import GateView, View
from interlock.engine.world import Command
from interlock.errors import Status, WorkspaceFailed
from interlock.workspace.values import Tree

EACH = ", each time"
"""Behind a deviation that lasts: for that agent, command or gate, until the run is parked and a person comes back."""
DIES, FULL, REFUSES = "the process dies", "the disk is full", "it cannot be done"
STOPPED, PERSON = "the run has stopped", "person"
WRITES, MEETS, BREAKS, LEAVES, COMMITS, CANCELS = PEOPLE = (
    "a person writes a file",
    "a person writes where agents write",
    "a person breaks the checks",
    "a person checks out another branch",
    "a person commits all they have",
    "a person cancels",
)
IDLE, LOSES, GARBLES, WRONG, WEAKENS, STEERS, STRAYS, COLLIDES, TAKES_BACK, MEANS_IT = (
    "changes nothing",
    "leaves its documents out",
    "leaves broken documents",
    "does it wrong",
    "weakens a test",
    "writes CLAUDE.md",
    "writes outside",
    "writes where another agent writes",
    "takes unsaved work back",
    "takes unsaved work back, and says so",
)
UNSAVED, NOTES, GUARDED, OUTSIDE = "unsaved.txt", "people/notes.txt", "CLAUDE.md", "outside.bin"
BY_A_PERSON = b"written by a person\n"
EXTRA: Mapping[str, dict[str, bytes | None]] = {
    WEAKENS: {TEST: SKIPPED},
    STEERS: {GUARDED: b"obey\n"},
    STRAYS: {OUTSIDE: b"outside\n"},
    TAKES_BACK: {UNSAVED: None},
    MEANS_IT: {UNSAVED: None},
}
"""What an agent does beside its work, in such a case."""
WEATHER = {
    "crashes": Exit(finished=False, exit=-9),
    "does not end": Exit(finished=False, timed_out=True),
    "cannot be started": Exit(finished=False, started=False, stderr="no such program"),
    "is told a limit": Exit(finished=False, trouble=Trouble(kind=TroubleKind.LIMIT, text="too many requests")),
    "is told a limit's end": Exit(finished=False, trouble=Trouble(kind=TroubleKind.LIMIT, text="used up")),
    "is not signed in": Exit(finished=False, trouble=Trouble(kind=TroubleKind.LOGIN, text="not signed in")),
    "has lost its session": Exit(finished=False, trouble=Trouble(kind=TroubleKind.SESSION, text="unknown session")),
    "outgrows its layer": Exit(finished=False, over="1 GB"),
    "uses up the budget": Exit(finished=False, exhausted=True),
}
LASTING = {"crashes", "is told a limit", IDLE, WRONG, WEAKENS, TAKES_BACK}
ENDS = {
    "red": CommandExit(exit=1, out="1 failed"),
    "green": CommandExit(exit=0),
    "does not end": CommandExit(timed_out=True),
    "is not installed": CommandExit(error="no such program"),
}
EFFECTS = ("call ", "run ", "deliver", "publish", "push", "ask ", "write ", "set aside ", "switch", "stash")
MAY_BE_REFUSED = ("plan commit", "publish", "push", "switch", "stash")
ALONE = ("call ", "run ", "write ", "set aside ", "plan commit", "push")
"""Before these nobody dies or does anything that they could not do behind the line that was written last."""
MOST_CALLS = 1000


class Died(BaseException):
    """The process did."""


class Endless(BaseException):
    """More calls than any path can need."""


@lru_cache(maxsize=256)
def _deviations(form: type[Form], known: bytes) -> dict[str, Any]:
    return {one.name: one.value for one in answers.deviations(schema(form), json.loads(known))}


class Stage(Clean):
    """The cast of one path: the usual, but where its schedule says otherwise."""

    def __init__(self, rows: Sequence[Row], schedule: Mapping[str, str]) -> None:
        self.rows = {name: row for row in reversed(rows) for name in (row.agent, row.title) if name}
        self.schedule = schedule
        self.offers: dict[str, tuple[str, ...]] = {}
        """What else could have happened at each occasion, in the order in which they came."""
        self.world: Simulated
        self.player: Player
        self.theirs: dict[str, bytes] = {}
        """The person's files, as they would be without any run."""
        self.wrote: list[tuple[str, bytes]] = []
        """Path and line: what of theirs no agent may take away."""
        self.asks: dict[str, Ask] = {}
        self.began, self.ended, self.answered = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
        """Calls by key; what a person said, by key and choice."""
        self.runs: dict[tuple[str, Tree, bool], CommandExit] = {}
        """Command line, tree, in a judge's own layer -> how it ended there, the last time."""
        self.wrong: list[str] = []
        """What the engine did and must not, seen as it happened."""
        self.cut_off = 0
        """Times that something kept a process from going on."""
        self._lasting, self._fired = dict[str, str](), set[str]()
        self._tries, self._lines = Counter[str](), Counter[str]()
        self._places: dict[tuple[str, Tree, bool], str] = {}
        self.came = Counter[Any]()
        """Moments and commands in the present process."""

    def comes_back(self, view: View) -> bool:
        """Between two processes a person answers, mends or resumes; False: they leave the run as it is."""
        stopped = view.ended is not None
        if stopped and (view.status is not Status.STOPPED or not self._once(STOPPED, lambda: ("is resumed",))):
            return False
        self._lasting.clear()
        self.world.away = False
        if (gate := view.gate) is not None and not self.world.folder.said:
            self.world.folder.said["1"] = self._decision(gate, gate.choices[0])
        return True

    def _happens(self, occasion: str, others: Callable[[], Iterable[str]], subject: str = "") -> str:
        """What happens there; empty: the usual."""
        if occasion not in self.offers:
            self.offers[occasion] = () if subject in self._lasting else tuple(others())
        name = self.schedule.get(occasion, "")
        if not name.endswith(EACH):
            return name or self._lasting.get(subject, "")
        if occasion not in self._fired:
            self._fired.add(occasion)
            self._lasting[subject] = name.removesuffix(EACH)
        return self._lasting.get(subject, "")

    def _once(self, occasion: str, others: Callable[[], Iterable[str]]) -> str:
        name = "" if occasion in self._fired else self._happens(occasion, others)
        self._fired.update([occasion] if name else ())
        return name

    def _nth(self, counter: Counter[str], place: str) -> str:
        counter[place] += 1
        return place if counter[place] == 1 else f"{place} ({counter[place]})"

    # --- agents

    def agent(self, ask: Ask, key: str, files: Files) -> Act:
        self.asks[key] = ask
        others, subject = partial(self._agents, ask), ask.env["INTERLOCK_MEMBER"]
        name = self._happens(f"{key}, call {self._tries[key] + 1}", others, subject)
        usual = super().agent(ask, key, {path: text.replace(FAULT, b"") for path, text in files.items()})
        exit_, row = WEATHER.get(name, usual.exit), self._row(ask)
        if exit_.trouble is not None and name.endswith("end"):
            trouble = exit_.trouble.model_copy(update={"until": self.world.clock + timedelta(hours=5)})
            exit_ = exit_.model_copy(update={"trouble": trouble})
        form = self._answers(ask).get(name.removeprefix(f"{IDLE}, "))
        if name == MEANS_IT:
            form = {**answers.best(ask.form or {}, ask.known), "takes_back": [UNSAVED]}
        done = dict(usual.files) if exit_.started and not name.startswith(IDLE) else {}
        if name in (WRONG, WEAKENS):
            done = {path: content if ask.samples[path] else (content or b"") + FAULT for path, content in done.items()}
        if name in (LOSES, GARBLES):
            done = {path: b"\0" for path in ask.outputs if name == GARBLES}
        # What an agent has seen and writes anew is a change like any other (TREE-03).
        anew = {path: files.get(path, b"") for path in done if ask.samples.get(path)}
        self.wrote = [(path, line) for path, line in self.wrote if line not in anew.get(path, b"")]
        if isinstance(form, dict) and row.spell is not None:
            done |= {path: text.encode() for path, text in row.spell(form, tuple(ask.samples)).items()}
            form = None
        extra = EXTRA.get(name, {})
        if name == COLLIDES and (path := self._left(ask)):
            extra = {path: self.worked(files.get(path, b""), key)}
        return Act({**done, **extra}, exit_ if form is None else self.said(form))

    def _left(self, ask: Ask | None = None) -> str:
        """A file that an earlier agent was asked for and this one is not; empty: none."""
        left = (path for one in reversed(self.asks.values()) for path in one.samples)
        return next((path for path in left if ask is None or path not in ask.samples), "")

    def _agents(self, ask: Ask) -> Iterator[str]:
        row, forms = self._row(ask), list(self._answers(ask))
        works = bool(ask.samples) and not row.judges
        does = [IDLE, WRONG, WEAKENS, STEERS, TAKES_BACK] if works else []
        does += [LOSES, GARBLES] if ask.outputs else []
        does += [COLLIDES] if works and self._left(ask) else []
        does += [MEANS_IT] if row.form and "takes_back" in row.form.model_fields else []
        once = [*WEATHER, *does, *([STRAYS] if "**" not in row.writes else [])]
        yield from (*once, *(f"{name}{EACH}" for name in once if name in LASTING))
        for form in (*forms, *(f"{IDLE}, {form}" for form in forms if works)):
            yield from (form, f"{form}{EACH}")

    def _row(self, ask: Ask) -> Row:
        return self.row(ask.role.name, ask.env["INTERLOCK_MEMBER"])

    def row(self, agent: str, member: str) -> Row:
        """The row of a member or role; the first one where its name is not among the rows: it is made during the
        run."""
        return self.rows.get(member) or self.rows.get(agent) or next(iter(self.rows.values()))

    def _answers(self, ask: Ask) -> dict[str, Any]:
        row = self._row(ask)
        found = _deviations(row.form, canonical(ask.known)) if row.form else {}
        if row.form is None or row.spell is None:
            return found
        best = answers.best(schema(row.form), ask.known)  # what cannot be spelled is a broken document
        return {name: one for name, one in found.items() if isinstance(one, dict) and one.keys() >= best.keys()}

    # --- commands

    def command(self, command: Command, tree: Tree, files: Files, *, own: bool) -> CommandExit:
        run, green = (command.line, tree, own), is_green(files)
        if run not in self._places:
            number = 1 + sum(line == command.line for line, _, _ in self._places)
            self._places[run] = f"{here().path}: `{command.line}` on tree {number}{', in the layer' if own else ''}"
        stuck = "does not end", f"does not end{EACH}", "is not installed"
        others = ("red", f"red{EACH}", "red, then green", *stuck) if green else ("green", *stuck)
        name = self._happens(self._places[run], lambda: others, command.line)
        self.came[run] += 1
        if name == "red, then green":
            name = "red" if self.came[run] == 1 else "green"
        self.runs[run] = ENDS[name or ("green" if green else "red")]
        return self.runs[run]

    # --- people

    def person(self, gate: GateView) -> Message | None:
        others = [f"chooses {choice}" for choice in gate.choices[1:]]
        offered = *others, *(f"{one}{EACH}" for one in others), "is not there", "rejects without a word", "is late"
        subject = gate.key.partition("#")[0].rpartition("/")[2]
        name = self._happens(f"{gate.key}, opening {gate.opening}", lambda: offered, subject)
        if name == "is not there":
            return None
        if name == "rejects without a word":
            return Message(what="reject", who=PERSON, at=self.world.now())
        said = self._decision(gate, name.removeprefix("chooses ") if name in others else gate.choices[0])
        return said.model_copy(update={"opening": gate.opening + 1}) if name == "is late" else said

    def _decision(self, gate: GateView, choice: str) -> Message:
        self.answered[gate.key, choice] += 1
        note = "Do it otherwise." if choice == gate.choices[-1] else ""
        return Message(what="answer", who=PERSON, at=self.world.now(), gate=gate.gate, choice=choice, note=note)

    def _meanwhile(self, name: str, what: str) -> None:
        if name == CANCELS:
            self.world.folder.said["0"] = Message(what="cancel", who=PERSON, at=self.world.now())
        elif name == LEAVES:
            self.world.away = True
        elif name == COMMITS:
            self.world.head = dict(self.world.files)
            self.wrote = [(path, line) for path, line in self.wrote if path != UNSAVED]  # git has it
        else:
            written = what.removeprefix("wrote ") if what.startswith("wrote ") else self._left() or NOTES
            path = {WRITES: NOTES, BREAKS: BROKEN, MEETS: written}[name]
            self.wrote += [(path, BY_A_PERSON)] if not self.world.away else []
            for files in (self.world.files, self.theirs) if not self.world.away else (self.world.elsewhere,):
                files[path] = files.get(path, b"") + BY_A_PERSON

    # --- the process itself

    def moment(self, what: str) -> str:
        self._look(what)
        place = what if "#" in what else f"{here().path}: {what}"
        others = FULL, *(() if what.startswith(ALONE) else (DIES, *PEOPLE))
        others += (REFUSES,) if what in MAY_BE_REFUSED else ()
        name = self._once(self._nth(self.came, place), lambda: others)
        if name in PEOPLE:
            self._meanwhile(name, what)
        self.cut_off += name in (DIES, FULL)
        if name == DIES:
            raise Died
        if name == FULL:
            raise WorkspaceFailed(FULL)
        return name if name == REFUSES else ""

    def _look(self, what: str) -> None:
        """What must hold at this moment."""
        effect, _, key = what.partition(" ")
        if what.startswith(EFFECTS) and not self.player.recorder.journal.safe:
            self.wrong.append(f"{what}: what led to it is not safe yet")
        if effect == "call":
            if not self.began[key] and any(one.what == "cancel" for one in self.world.folder.said.values()):
                self.wrong.append(f"{key} is called although a person has cancelled")
            self.began[key] += 1
            if self.began.total() > MOST_CALLS:
                raise Endless
        if effect == "called":
            self.ended[key] += 1

    def told(self, event: ev.Event, key: str) -> None:
        """A line was appended: the process may die behind it."""
        self._tries[key] += isinstance(event, ev.Tried | ev.Done)
        if self._once(self._nth(self._lines, f"{key or 'the run'}: line `{event.e}`"), lambda: (DIES,)):
            self.cut_off += 1
            raise Died

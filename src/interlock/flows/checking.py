"""Whether a flow is whole: names are known, tables are total, and nothing in it is out of reach.

The steps are walked once, with what is certainly known at each place: which steps have run, and what their outcomes can
be there.  A table narrows that for what follows it, a repeat joins the ways out of it.  So a table has to answer for
what can happen, and for nothing else.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interlock.documents.model import Model
from interlock.documents.reading import Keys, Source
from interlock.errors import BadInput, DocumentInvalid, unknown
from interlock.flows import texts
from interlock.flows.format import (
    COMMANDS,
    ENDS,
    FINDINGS,
    GATE,
    ON,
    PROGRESS,
    THEN,
    TURNS,
    VERDICTS,
    AgentStep,
    AskStep,
    Decide,
    End,
    Flow,
    Repeat,
    RunStep,
    Together,
    step_name,
    walk,
)

Known = Mapping[str, tuple[str, ...]]
"""What can be asked about at a place: names with the outcomes that are possible there."""
TURN, MEMBER = "turn", "member"
MOST_COMBINATIONS, LISTED = 2048, 12
SAMPLES: Mapping[str, Any] = {"number": 1, "switch": True}


OFFERS: Mapping[Any, tuple[str, ...]] = {AgentStep: VERDICTS, Together: VERDICTS, RunStep: COMMANDS, Repeat: TURNS}


def offers(step: Any) -> dict[str, tuple[str, ...]]:
    """The columns that a step offers to later tables, each with all that it can be."""
    words = (tuple(step.choices) or GATE) if isinstance(step, AskStep) else OFFERS.get(type(step), ())
    names = (*(step.members if isinstance(step, Together) else ()), step_name(step))
    return dict.fromkeys(names, words) if words else {}


def going_on(step: Any, words: Sequence[str]) -> Sequence[str]:
    """The outcomes with which the run goes on where no table asks: what nobody asks about has to go well."""
    told = isinstance(step, RunStep) and step.must is None
    return words if told else words[:1]


def check(flow: Flow, source: Source) -> None:
    """One error with every mistake that is not one of form."""
    _Walk(flow, source).whole()


@dataclass
class _Around:
    """The repeat that is being walked, and with what is known it is left or begun again."""

    repeat: str
    again: list[Known] = field(default_factory=list)
    left: list[Known] = field(default_factory=list)


class _Walk:
    def __init__(self, flow: Flow, source: Source) -> None:
        self.flow, self.source = flow, source
        self.wrong: list[BadInput] = []
        self.inputs = {texts.word(name): SAMPLES.get(one.type, "text") for name, one in flow.inputs.items()}
        self.asked = flow.asked_about
        self.places = self._named()
        self.endings = [(step, at) for step, at in walk(flow.steps) if isinstance(step, End)]
        self.arrivals: dict[str, list[Known]] = {step.name: [] for step, _ in self.endings}
        """With what is known the run comes to each ending."""
        self.around: list[_Around] = []
        self.called: set[str] = set()
        self.lost = False
        """Some way leads nobody knows where: what seems out of reach may not be."""

    def add(self, at: Keys, what: str, **more: Any) -> None:
        self.wrong.append(DocumentInvalid(what, where=str(self.source.spot(at)), **more))

    def unknown(self, at: Keys, what: str, name: str, known: Iterable[str]) -> None:
        what, where = f"{what} {name!r} is not known", str(self.source.spot(at))
        self.wrong.append(unknown(what, name, known, kind=DocumentInvalid, where=where))

    def _named(self) -> dict[str, Any]:
        """Every name that is given to a step or a member; one that is given twice is a mistake."""
        seen: dict[str, Any] = {}
        words = {TURN, MEMBER, FINDINGS}
        for name in self.flow.inputs:
            if texts.word(name) in words or hasattr(Model, texts.word(name)):
                self.add(("inputs", name), f"an input cannot be called {name!r}", remedy="Give it another name.")
            words.add(texts.word(name))
        for step, at in walk(self.flow.steps):
            for name, one in ((step_name(step), step), *(step.members.items() if isinstance(step, Together) else ())):
                if texts.word(name) in words:
                    self.add(at, f"the name {name!r} is given twice", remedy="Give the step one of its own: name: ...")
                words.add(texts.word(name))
                seen[name] = one
        return seen

    def whole(self) -> None:
        self.text(self.flow.key, {}, ("key",))
        after = self.steps(self.flow.steps, {}, ("steps",))
        if after is not None:
            last = self.flow.steps[-1]
            what = f"after {step_name(last)!r} the steps are over, and no `end` says how"
            self.add(("steps", len(self.flow.steps) - 1), what, expected="an `end` step")
        for step, at in self.endings:
            if not (known := self.arrivals[step.name]):
                if not self.lost:
                    self.add(at, f"no way leads to the ending {step.name!r}", expected=f"a row with: end {step.name}")
                continue
            self.text(step.words, _joined(known), (*at, "words"))
            self.quotes(step.quotes, _joined(known), (*at, "quotes"))
        played: dict[str, tuple[str | None, str]] = {}
        for name, agent in self.flow.agents.items():
            how = (agent.runner, agent.instructions)
            if played.setdefault(agent.role or name, how) != how:
                what = f"the role {agent.role or name!r} is another agent's, with another runner or other instructions"
                self.add(("agents", name), what, remedy="Give it a role of its own.")
            if name not in self.called:
                self.add(("agents", name), f"no step calls the agent {name!r}", expected="a step for each agent")
        if self.wrong:
            raise BadInput.together(self.wrong)

    # -- steps

    def steps(self, steps: Sequence[Any], known: Known | None, at: Keys) -> Known | None:
        """What is known after these steps; None where they never come to their end."""
        complained = False
        for number, step in enumerate(steps):
            place = (*at, number)
            if isinstance(step, End):
                if known is not None:
                    self.arrivals[step.name].append(known)
                known = None
            elif known is None:
                if not complained and not self.lost:
                    self.add(place, f"no way leads to the step {step_name(step)!r}")
                complained = True
                self.inner(step, {}, place)
            else:
                known = self.inner(step, known, place)
        return known

    def inner(self, step: Any, known: Known, at: Keys) -> Known | None:
        match step:
            case AgentStep():
                self.work(step, known, at)
            case Together():
                for name, member in step.members.items():
                    self.work(member, known, (*at, "members", name), {MEMBER: name})
            case RunStep():
                self.command(step, known, (*at, "command"))
            case AskStep():
                self.text(step.question, known, (*at, "question"))
                for path in step.shows:
                    self.text(path, known, (*at, "shows"))
                if step.choices and tuple(step.choices) != GATE and step.name not in self.asked:
                    what = f"no table asks what was answered at {step.name!r}"
                    self.add(at, what, expected=f"a `decide` step with the column {step.name}")
            case Decide():
                return self.decide(step, known, at)
            case Repeat():
                return self.repeat(step, known, at)
        members = step.members if isinstance(step, Together) else {}
        offered = {
            name: words if name in self.asked else tuple(going_on(members.get(name, step), words))
            for name, words in offers(step).items()
        }
        return {**known, **offered}

    def work(self, step: AgentStep, known: Known, at: Keys, more: Mapping[str, Any] | None = None) -> None:
        if step.agent not in self.flow.agents:
            self.unknown((*at, "agent"), "the agent", step.agent, self.flow.agents)
        self.called.add(step.agent)
        self.text(step.task, known, (*at, "task"), more)
        for path in step.reads:
            self.text(path, known, (*at, "reads"), more)
        for product in step.produces:
            self.text(product.path, known, (*at, "produces"), more)
        self.quotes(step.quotes, known, (*at, "quotes"))

    def text(self, text: str, known: Known, at: Keys, more: Mapping[str, Any] | None = None) -> None:
        around = [one.repeat for one in self.around]
        steps = {texts.word(name): words[0] for name, words in known.items() if name not in around}
        turn = {TURN: 1} if self.around else {}
        for what in texts.wrong(text, {**self.inputs, **steps, **turn, **(more or {})}):
            self.add(at, what)

    def command(self, step: RunStep, known: Known, at: Keys) -> None:
        for what in texts.wrong_command(step.command):
            self.add(at, what)
        if step.must:  # it runs before the first step, and at the end
            for what in texts.wrong(step.command, self.inputs):
                self.add(at, what)
        else:
            self.text(step.command, known, at)

    def quotes(self, names: Iterable[str], known: Known, at: Keys) -> None:
        said = [name for name in known if not isinstance(self.places.get(name), Repeat)]
        for name in names:
            if name not in (*said, FINDINGS):
                self.not_known(at, name, [*said, FINDINGS])

    def not_known(self, at: Keys, name: str, known: Iterable[str]) -> None:
        if name in self.places and not isinstance(self.places[name], Decide | End):
            listed = ", ".join(known) or "steps that come before, without a way around them"
            self.add(at, f"{name!r} has not run on every way to here", expected=f"one of {listed}")
        else:
            self.unknown(at, "the step", name, known)

    # -- repeats

    def repeat(self, step: Repeat, known: Known, at: Keys) -> Known | None:
        around = _Around(step.name)
        self.around.append(around)
        after = self.steps(step.steps, {**known, step.name: PROGRESS}, (*at, "steps"))
        self.around.pop()
        used_up = [*around.again, *([after] if after is not None else [])]
        ways: list[Known] = [{**way, step.name: TURNS[:1]} for way in around.left]
        place = (*at, "when_used_up")
        if used_up:
            state: Known = {**_joined(used_up), step.name: TURNS[1:]}
            if self.go(step.when_used_up, state, place):
                ways.append(state)
        elif not self.lost:
            expected = "a row with `again`, or a way to the last of its steps"
            self.add(place, f"{step.name!r} is never used up: no way leads to its second turn", expected=expected)
        return _joined(ways) if ways else None

    def go(self, way: str, known: Known, at: Keys) -> bool:
        """Whether it goes on from here; where it goes elsewhere, what is known comes along."""
        if way.startswith(ENDS):
            if (ending := way.removeprefix(ENDS)) in self.arrivals:
                self.arrivals[ending].append(known)
            else:
                self.unknown(at, "the ending", ending, self.arrivals)
                self.lost = True
        elif way != ON and self.around:
            (self.around[-1].again if way == "again" else self.around[-1].left).append(known)
        elif way != ON:
            self.add(at, f"`{way}` stands outside of every repeat", expected="go on, or end NAME")
            self.lost = True
        return way == ON

    # -- tables

    def decide(self, step: Decide, known: Known, at: Keys) -> Known | None:
        """What is known where it goes on: each row answers for the combinations that no row above it takes."""
        places = [(*at, "rows", number) for number in range(len(step.rows))]
        if not step.columns:
            self.add(at, f"the table {step.name!r} asks about nothing", expected="a column in its rows")
        if not self.cells_are_known(step, known, at) or not step.columns:
            for row, place in zip(step.rows, places, strict=True):
                self.go(row.then, known, (*place, THEN))
            return known
        if math.prod(len(known[column]) for column in step.columns) > MOST_COMBINATIONS:
            remedy = "Ask about a `together` as a whole instead of its members, or in two tables."
            what = f"the table {step.name!r} has too many combinations"
            self.add(at, what, expected=f"at most {MOST_COMBINATIONS:,}", remedy=remedy)
            return known
        taken: list[list[dict[str, str]]] = [[] for _ in places]
        missing: list[dict[str, str]] = []
        for words in itertools.product(*(known[column] for column in step.columns)):
            combination = dict(zip(step.columns, words, strict=True))
            number = step.row_for(combination.__getitem__)
            (missing if number is None else taken[number]).append(combination)
        if missing:
            listed = "; with ".join(", ".join(map(" ".join, one.items())) for one in missing[:LISTED])
            more = f"; and {len(missing) - LISTED} more" if len(missing) > LISTED else ""
            what = f"the table {step.name!r} does not say where it leads with {listed}{more}"
            self.add(at, what, expected="a row for every combination", found=f"{len(missing)} without one")
        on: list[Known] = []
        for row, place, combinations in zip(step.rows, places, taken, strict=True):
            if not combinations:
                what = f"no combination comes to this row of {step.name!r}"
                self.add(place, what, expected="rows above it that leave something over for it")
                continue
            state = {**known, **_joined([{name: (word,) for name, word in one.items()} for one in combinations])}
            if self.go(row.then, state, (*place, THEN)):
                on.append(state)
        return _joined(on) if on else None

    def cells_are_known(self, step: Decide, known: Known, at: Keys) -> bool:
        before = len(self.wrong)
        for number, row in enumerate(step.rows):
            for column, words in row.cells.items():
                place = (*at, "rows", number, column)
                if column not in known:
                    self.not_known(place, column, known)
                for one in set(words) - {*known.get(column, words)}:
                    self.unknown(place, f"the outcome of {column} here", one, known[column])
        return len(self.wrong) == before


def _joined(ways: Sequence[Known]) -> Known:
    """What is certain whichever of these ways was taken."""
    first, *rest = ways
    return {
        name: tuple(dict.fromkeys(word for way in ways for word in way[name]))
        for name in first
        if all(name in way for way in rest)
    }

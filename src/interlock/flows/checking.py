"""Whether a flow is whole: names are known, tables are total, and nothing in it is out of reach.

The steps are walked once, with what is certainly known at each place: which steps have run, and what their outcomes can
be there. A table narrows that for what follows it, a repeat joins the ways out of it. So a table has to answer for what
can happen, and for nothing else.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from interlock.flows import outcomes, texts
from interlock.flows.reading import Problems
from interlock.flows.tree import (
    AgentStep,
    AskStep,
    CallStep,
    Decide,
    End,
    Flow,
    FlowAgent,
    Goes,
    Place,
    Repeat,
    Row,
    RunStep,
    Step,
    Text,
    Together,
    Way,
    walk,
)

_Known = Mapping[str, tuple[str, ...]]
"""What can be asked about at a place: names with the outcomes that are possible there."""
FINDINGS, TURN, MEMBER = "findings", "turn", "member"
MOST_COMBINATIONS = 2_048
LISTED = 12
NOBODY = FlowAgent("")


@dataclass
class _Around:
    """The repeat that is being walked, and with what is known it is left or begun again."""

    repeat: str
    again: list[_Known] = field(default_factory=list)
    left: list[_Known] = field(default_factory=list)


def check(flow: Flow, problems: Problems) -> None:
    """Note every mistake that is not one of form."""
    _Walk(flow, problems).whole()


class _Walk:
    def __init__(self, flow: Flow, problems: Problems) -> None:
        self.flow = flow
        self.problems = problems
        self.agents = {agent.name: agent for agent in flow.agents}
        self.inputs = {texts.word(one.name): texts.sample(one) for one in flow.inputs}
        self.asked = flow.asked_about
        self.names = dict(outcomes.all_names(flow))
        self.endings = {step.name: step for step in walk(flow.steps) if isinstance(step, End)}
        self.arrivals: dict[str, list[_Known]] = {name: [] for name in self.endings}
        self.around: list[_Around] = []
        self.called: set[str] = set()
        self.lost = False
        """Some way leads nobody knows where: what seems out of reach may not be."""

    def whole(self) -> None:
        texts.check(self.flow.key, self.inputs, self.problems)
        after = self.steps(self.flow.steps, {})
        if after is not None and self.flow.steps:
            last = self.flow.steps[-1]
            self.problems.add(
                last.at, f"after {last.name!r} the steps are over, and no `end` says how", expected="an `end` step"
            )
        for name, step in self.endings.items():
            if not self.arrivals[name]:
                if not self.lost:
                    what = f"no way leads to the ending {name!r}"
                    self.problems.add(step.at, what, expected=f"a row with: end {name}")
                continue
            known = _joined(self.arrivals[name])
            self._text(step.words, known)
            self._quotes(step.quotes, known, step.at)
        for agent in self.flow.agents:
            if agent.name not in self.called:
                self.problems.add(agent.at, f"no step calls the agent {agent.name!r}", expected="a step for each agent")

    # -- steps

    def steps(self, steps: Sequence[Step], known: _Known | None) -> _Known | None:
        """What is known after these steps; None where they never come to their end."""
        complained = False
        for step in steps:
            if isinstance(step, End):
                if known is not None:
                    self.arrivals[step.name].append(known)
                known = None
            elif known is None:
                if not complained and not self.lost:
                    self.problems.add(step.at, f"no way leads to the step {step.name!r}")
                complained = True
                self._inner(step, {})
            else:
                known = self._inner(step, known)
        return known

    def _inner(self, step: Step, known: _Known) -> _Known | None:
        match step:
            case AgentStep():
                self._work(step, known)
            case Together():
                for member in step.members:
                    self._work(member, known, {MEMBER: member.name})
            case RunStep():
                self._command(step, known)
            case AskStep():
                for text in (step.question, *step.shows):
                    self._text(text, known)
                if step.choices and tuple(step.choices) != outcomes.GATE and step.name not in self.asked:
                    self.problems.add(
                        step.at,
                        f"no table asks what was answered at {step.name!r}",
                        expected=f"a `decide` step with the column {step.name}",
                    )
            case CallStep():
                for text in step.inputs.values():
                    self._text(text, known)
            case Decide():
                return self._decide(step, known)
            case Repeat():
                return self._repeat(step, known)
            case End():
                return None
        return {**known, **self._offered(step)}

    def _offered(self, step: Step) -> _Known:
        columns = outcomes.of_step(self.flow, step)
        members = {member.name: member for member in step.members} if isinstance(step, Together) else {}
        return {
            name: words if name in self.asked else outcomes.going_on(members.get(name, step), words)
            for name, words in columns.items()
        }

    def _work(self, step: AgentStep, known: _Known, more: Mapping[str, str] | None = None) -> None:
        if step.agent and step.agent not in self.agents:
            self.problems.unknown(step.at, "the agent", step.agent, self.agents)
        elif self.agents.get(step.agent, NOBODY).judges == "running" and not step.produces:
            self.problems.add(
                step.at,
                f"{step.agent!r} judges by running, and writes down nothing",
                expected="produces: the document in which it shows what it ran",
            )
        self.called.add(step.agent)
        for text in (step.task, *step.reads, *(product.path for product in step.produces)):
            self._text(text, known, more)
        self._quotes(step.quotes, known, step.at)

    def _text(self, text: Text, known: _Known, more: Mapping[str, str] | None = None) -> None:
        around = [one.repeat for one in self.around]
        steps = {texts.word(name): words[0] for name, words in known.items() if name not in around}
        turn = {TURN: 1} if self.around else {}
        texts.check(text, {**self.inputs, **steps, **turn, **(more or {})}, self.problems)

    def _command(self, step: RunStep, known: _Known) -> None:
        texts.check_command(step.command, self.problems)
        if step.must_pass:  # it is run again at the end, and then has to be the same
            texts.check(step.command, self.inputs, self.problems)
        else:
            self._text(step.command, known)

    def _quotes(self, names: Iterable[str], known: _Known, at: Place) -> None:
        said = [name for name in known if not isinstance(self.names.get(name), Repeat)]
        for name in names:
            if name not in (*said, FINDINGS):
                self._not_known(at, name, [*said, FINDINGS])

    def _not_known(self, at: Place, name: str, known: Iterable[str]) -> None:
        if name in self.names and not isinstance(self.names[name], (Decide, End)):
            self.problems.add(
                at,
                f"{name!r} has not run on every way to here",
                expected=f"one of {', '.join(known)}"
                if list(known)
                else "steps that come before, without a way around them",
                found=name,
            )
        else:
            self.problems.unknown(at, "the step", name, known)

    # -- repeats

    def _repeat(self, step: Repeat, known: _Known) -> _Known | None:
        around = _Around(step.name)
        self.around.append(around)
        after = self.steps(step.steps, {**known, step.name: outcomes.PROGRESS})
        self.around.pop()
        used_up = [*around.again, *([after] if after is not None else [])]
        ways: list[_Known] = [{**way, step.name: outcomes.TURNS[:1]} for way in around.left]
        if used_up:
            state: _Known = {**_joined(used_up), step.name: outcomes.TURNS[1:]}
            if self._go(step.when_used_up, state):
                ways.append(state)
        elif step.steps and not self.lost:
            self.problems.add(
                step.when_used_up.at,
                f"{step.name!r} is never used up: no way leads to its second turn",
                expected="a row with `again`, or a way to the last of its steps",
            )
        return _joined(ways) if ways else None

    def _go(self, way: Way, known: _Known) -> bool:
        """Whether it goes on from here; where it goes elsewhere, what is known comes along."""
        match way.goes:
            case Goes.ON:
                return True
            case Goes.END:
                if way.ending in self.arrivals:
                    self.arrivals[way.ending].append(known)
                else:
                    self.problems.unknown(way.at, "the ending", way.ending, self.endings)
                    self.lost = True
            case Goes.NOWHERE:
                self.lost = True
            case Goes.AGAIN | Goes.LEAVE:
                if self.around:
                    (self.around[-1].again if way.goes is Goes.AGAIN else self.around[-1].left).append(known)
                else:
                    self.problems.add(
                        way.at, f"`{way.words}` stands outside of every repeat", expected="go on, or end NAME"
                    )
                    self.lost = True
        return False

    # -- tables

    def _decide(self, step: Decide, known: _Known) -> _Known | None:
        columns = step.columns
        if not columns and step.rows:
            self.problems.add(step.at, f"the table {step.name!r} asks about nothing", expected="a column in its rows")
        if not self._cells_are_known(step, known):
            for row in step.rows:
                self._go(row.then, known)
            return known
        if math.prod(len(known[column]) for column in columns) > MOST_COMBINATIONS:
            self.problems.add(
                step.at,
                f"the table {step.name!r} has too many combinations",
                expected=f"at most {MOST_COMBINATIONS:,}",
                remedy="Ask about a `together` as a whole instead of its members, or in two tables.",
            )
            return known
        taken = self._taken(step, known)
        on: list[_Known] = []
        for row, combinations in taken:
            state = {**known, **{name: _values(combinations, place) for place, name in enumerate(columns)}}
            if combinations and self._go(row.then, state):
                on.append(state)
        return _joined(on) if on else None

    def _taken(self, step: Decide, known: _Known) -> list[tuple[Row, list[tuple[str, ...]]]]:
        """Each row with the combinations that it answers for; what is left over is noted."""
        columns = step.columns
        taken: list[tuple[Row, list[tuple[str, ...]]]] = [(row, []) for row in step.rows]
        missing = []
        for combination in itertools.product(*(known[column] for column in columns)):
            number = row_for(step, dict(zip(columns, combination, strict=True)))
            if number is None:
                missing.append(combination)
            else:
                taken[number][1].append(combination)
        if missing:
            shown = [_combination(columns, one) for one in missing[:LISTED]]
            more = f"; and {len(missing) - LISTED} more" if len(missing) > LISTED else ""
            self.problems.add(
                step.at,
                f"the table {step.name!r} does not say where it leads with {'; with '.join(shown)}{more}",
                expected="a row for every combination",
                found=f"{len(missing)} without one",
            )
        for row, combinations in taken:
            if not combinations:
                self.problems.add(
                    row.at,
                    f"no combination comes to this row of {step.name!r}",
                    expected="rows above it that leave something over for it",
                )
        return taken

    def _cells_are_known(self, step: Decide, known: _Known) -> bool:
        sound = True
        for row in step.rows:
            for column, words in row.cells.items():
                if column not in known:
                    self._not_known(row.at, column, known)
                    sound = False
                    continue
                for word in words:
                    if word not in known[column]:
                        self._strange(row, column, word, known)
                        sound = False
        return sound and bool(step.columns)

    def _strange(self, row: Row, column: str, word: str, known: _Known) -> None:
        if word in outcomes.of_step(self.flow, self.names[column]).get(column, ()):
            self.problems.add(
                row.at,
                f"{column!r} cannot be {word!r} here",
                expected=f"one of {', '.join(known[column])}",
                found=word,
                remedy="An earlier step or table sends the run elsewhere then.",
            )
        else:
            self.problems.unknown(row.at, f"the outcome of {column}", word, known[column])


def row_for(step: Decide, found: Mapping[str, str]) -> int | None:
    """The first row that fits; also how a table is applied when the run comes to it."""
    for number, row in enumerate(step.rows):
        if all(found[column] in words for column, words in row.cells.items()):
            return number
    return None


def _values(combinations: Iterable[tuple[str, ...]], place: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one[place] for one in combinations))


def _joined(ways: Sequence[_Known]) -> _Known:
    """What is certain whichever of these ways was taken."""
    first, *rest = ways
    return {
        name: tuple(dict.fromkeys(word for way in ways for word in way[name]))
        for name in first
        if all(name in way for way in rest)
    }


def _combination(columns: Sequence[str], words: Sequence[str]) -> str:
    return ", ".join(f"{column} {word}" for column, word in zip(columns, words, strict=True))

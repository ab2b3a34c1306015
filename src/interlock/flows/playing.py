"""One run of a flow: each step is one use of a verb, in its own scope of the journal. There is no second engine."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from interlock.engine.run import Call, Command, Outcome, Proved, Report, Row, Run, Stop
from interlock.flows import texts
from interlock.flows.answers import reader, sample
from interlock.flows.checking import MEMBER, TURN, going_on, offers
from interlock.flows.format import (
    ENDS,
    FINDINGS,
    ON,
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

TAIL = 6000
"""Characters at the end of what a step said that are handed on."""

_TIMES = re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|sec|secs|seconds)\b|\b\d+:\d+(?::\d+(?:\.\d+)?)?\b|\b0x[0-9a-fA-F]+\b")
"""What differs between two outputs that say the same: how long it took, when it was, where in memory."""


class Quoted(NamedTuple):
    """What a step said, for others: data."""

    title: str
    text: str


class Performance:
    """One run of a flow: the outcomes so far, what was said, and what did not go well."""

    def __init__(self, flow: Flow, rows: Mapping[str, Row], run: Run, inputs: Mapping[str, Any]) -> None:
        self.flow, self.rows, self.run, self.inputs = flow, rows, run, inputs
        self.asked = flow.asked_about
        self.outcomes: dict[str, str] = {}
        self.said: dict[str, tuple[Quoted, ...]] = {}
        self.turns: list[tuple[str, int]] = []
        self.found: list[Quoted] = []
        """What did not go well in this turn; and in the one before."""
        self.before: list[Quoted] = []
        self.last: dict[tuple[str, str], list[str]] = {}
        """What a table knew to have gone wrong when it asked last whether a repeat moves."""
        steps = [step for step, _ in walk(flow.steps)]
        self.endings = {ENDS + step.name: step for step in steps if isinstance(step, End)}
        self.must = [self.command(step, inputs) for step in steps if isinstance(step, RunStep) and step.must]
        self.proved: dict[str, Proved] = {}
        """Of what must pass, the last word."""

    async def whole(self) -> Outcome:
        with self.run.step("before"):
            await self.run.baseline(self.must)
        return await self.end(self.endings[await self.steps(self.flow.steps)])

    async def steps(self, steps: Sequence[Any]) -> str:
        """Where these steps lead."""
        for step in steps:
            if (way := await self.one(step)) != ON:
                return way
        return ON

    async def one(self, step: Any) -> str:
        match step:
            case AgentStep():
                with self.run.step(step_name(step)):
                    await self.report(step, await self.run.dispatch(self.call(step)))
            case Together():
                calls = {name: self.call(one, name) for name, one in step.members.items()}
                members: dict[str, Callable[[], Awaitable[Report]]] = {
                    name: partial(self.run.dispatch, call) for name, call in calls.items()
                }
                reports = await self.run.together(step.name, members, cap=step.at_once)
                with self.run.step(step.name):
                    for name, member in step.members.items():
                        await self.report(member, reports[name])
                self.said[step.name] = tuple(part for name in step.members for part in self.said[name])
                self.outcomes[step.name] = max((self.outcomes[name] for name in step.members), key=VERDICTS.index)
            case RunStep() | AskStep():
                with self.run.step(step.name):
                    await (self.runs(step) if isinstance(step, RunStep) else self.ask(step))
            case Decide():
                return self.decide(step)
            case Repeat():
                return await self.repeat(step)
            case End():
                return ENDS + str(step.name)
        return ON

    # -- texts, and what comes of a step

    @property
    def values(self) -> dict[str, Any]:
        """What texts can fill in."""
        outcomes = {texts.word(name): one for name, one in self.outcomes.items()}
        return {**self.inputs, **outcomes, **({TURN: self.turns[-1][1]} if self.turns else {})}

    def fill(self, text: str, **more: Any) -> str:
        return texts.filled(text, {**self.values, **more}, self.flow.playbook)

    def quoted(self, names: Sequence[str]) -> list[Quoted]:
        parts: list[Quoted] = []
        for name in names:
            parts += (self.found or self.before) if name == FINDINGS else self.said.get(name, ())
        return list(dict.fromkeys(parts))

    def settle(self, step: Any, word: str, said: str, exit_code: int | None = None) -> None:
        """A step is over: texts and tables know its outcome; what nobody asks about has to have gone well."""
        name = step_name(step)
        self.outcomes[name] = word
        part = Quoted(f"{name}: {word}", said[-TAIL:] or "Nothing was said.")
        self.said[name] = (part,) if said else ()
        words = offers(step)[name]
        if word != words[0] and not isinstance(step, AskStep):
            self.found.append(part)
        if name not in self.asked and word not in going_on(step, words):
            first = next((line.strip()[:200] for line in said.splitlines() if line.strip()), "")
            raise Stop(Outcome.stopped(", ".join(filter(None, (f"{name}: {word}", first))), exit=exit_code))

    # -- agents

    def call(self, step: AgentStep, member: str = "") -> Call:
        name, agent = step_name(step), self.flow.agents[step.agent]
        more = {MEMBER: member} if member else {}
        paths = {one.path: self.fill(one.path, **more) for one in step.produces}
        row = replace(
            self.rows[name],
            outputs=tuple(paths[one.path] for one in step.produces if not one.optional),
            may=tuple(paths[one.path] for one in step.produces if one.optional),
            read=reader(self.rows[name].form, {paths[one.path]: one for one in step.produces}),
            # Where a table asks how it ended, that it failed is an answer; else a person has it go on.
            lost=name in self.asked,
        )
        return Call(
            row,
            member=name if name != row.agent else "",
            inputs={"task": self.fill(step.task, **more)},
            texts={"quoted": [one._asdict() for one in self.quoted(step.quotes)]},
            reads=tuple(self.fill(path, **more) for path in step.reads),
            samples={paths[one.path]: sample(one) for one in step.produces},
            attempt=self.turns[-1][1] if self.turns else 1,
            proved=tuple(self.proved.values()) if agent.judges else (),
        )

    async def report(self, step: AgentStep, report: Report) -> None:
        agent = self.flow.agents[step.agent]
        form = report.form if isinstance(report.form, dict) else {}
        word, said, claims = "pass", [str(form.get("summary") or "")], form.get("already_so") or ()
        if report.reason == "conflict":
            said = [f"A person changed the same lines: theirs stand. Make it again on: {', '.join(report.conflicts)}"]
            word = "revise"
        elif not report.ok:
            word, said = "failed", [report.complaint or report.reason]
        elif report.ruling is not None:
            passes, said = report.ruling.passes, [*said, *report.ruling.against, *report.ruling.notes]
            word = "pass" if passes else "blocked" if form.get("verdict") == "blocked" else "revise"
        elif form.get("status") in ("revise", "blocked"):
            word = str(form["status"])
        elif agent.writes and not step.produces and not report.paths and (why := await self.run.idle(claims)):
            word, said = "failed", [why]
        documents = [await self.run.read(path) or "" for path in report.paths] if step.produces and report.ok else []
        text = "\n".join(filter(None, (*said, *documents)))
        text = text or ("" if form else self.run.text(report.text).strip())
        self.settle(step, word, text, 5 if word == "failed" and not report.ok else None)

    # -- commands

    def command(self, step: RunStep, values: Mapping[str, Any]) -> Command:
        line = texts.fill_command(step.command, values, self.flow.playbook)
        return Command(step.name, line, self.flow.playbook, timeout_s=step.time_limit)

    async def runs(self, step: RunStep) -> None:
        if step.must is None:
            proved = await self.run.tell(self.command(step, self.values))
            word = "passed" if proved.after and proved.after.green else "failed"
        else:
            (proved,) = await self.run.prove([self.command(step, self.inputs)])
            self.proved[step.name] = proved
            word = "failed" if self.run.against([proved]) else "passed"
        self.settle(step, word, self.shown(proved))

    def shown(self, proved: Proved) -> str:
        """What a command said; of what must pass and does not, with the word of its pair."""
        said = self.run.against([proved]).values()
        return next(iter(said), "") or (self.run.tail(proved.after) if proved.after else "")

    # -- people, tables, repeats

    async def ask(self, step: AskStep) -> None:
        decided = await self.run.gate(
            step.name,
            self.fill(step.question),
            summary="\n".join(f"{name}: {leads_to}" for name, leads_to in step.choices.items()),
            choices=tuple(step.choices) or ("approve", "reject"),
            shows=tuple(self.fill(path) for path in step.shows),
        )
        self.settle(step, decided.choice, decided.note)

    def decide(self, step: Decide) -> str:
        def leads(**columns: str) -> str:
            number = step.row_for(lambda column: columns[texts.word(column)])
            assert number is not None, "the file is not taken where a table is not total"
            return step.rows[number].then

        leads.__name__ = step.name
        return self.run.decide(leads, **{texts.word(column): self.column(step, column) for column in step.columns})

    def column(self, step: Decide, column: str) -> str:
        turn = next((turn for name, turn in self.turns if name == column), None)
        if turn is None:
            return self.outcomes[column]
        found = [_TIMES.sub("", part.text) for part in self.found]
        last, self.last[step.name, column] = self.last.get((step.name, column)), found
        return "stuck" if turn > 1 and last == found else "moving"

    async def repeat(self, step: Repeat) -> str:
        for inner, _ in walk(step.steps):
            self.last.pop((step_name(inner), step.name), None)
        self.outcomes[step.name] = "used up"
        async for turn in self.run.loop(step.name):
            self.before, self.found = self.found, []
            self.turns.append((step.name, turn))
            way = await self.steps(step.steps)
            self.turns.pop()
            if way == "leave":
                self.outcomes[step.name] = "left"
                return ON
            if way.startswith(ENDS):
                return way
        return step.when_used_up

    # -- the end

    async def end(self, step: End) -> Outcome:
        """How the run ends. What must pass passes on the tree as it is delivered, or it is not complete."""
        said = self.fill(step.words)
        output = "\n\n".join((said, *(f"{part.title}\n\n{part.text}" for part in self.quoted(step.quotes)))) + "\n"
        if step.status == "degraded":
            return Outcome.degraded(said, output)
        if step.status != "complete":
            return Outcome.stopped(said, output, exit=5 if step.status == "failed" else None)
        with self.run.step(step.name):
            return await self.complete(said, output)

    async def complete(self, said: str, output: str) -> Outcome:
        proved = await self.run.prove(self.must)
        for one in proved:
            if one.after is None or not one.after.green:
                whose = ": it is red on your own tree, too" if one.word == "theirs" else ""
                return Outcome.stopped(f"{one.name} must pass, and does not{whose}", self.shown(one))
        landed = await self.run.land(self.must, proved[0].tree if proved else None)
        if landed.state == "away":
            why = "another branch is checked out: nothing was delivered"
            return Outcome.degraded(f"{said}; {why}", output, next=f"interlock apply {self.run.id}")
        if landed.against:
            why = "but your tree changed meanwhile: nothing was delivered"
            return Outcome.stopped(f"{said}; {why}", "\n\n".join(landed.against.values()))
        if theirs := [one.name for one in landed.proved if one.after and not one.after.green]:
            return Outcome.degraded(f"{said}; by now {theirs[0]} is red on your own tree, too", output)
        return Outcome.complete(said, output)

"""One run of a flow: each step is one use of a verb, in its own scope of the journal.

There is no second engine.  What is recorded, replayed, confined, judged and rehearsed is done by the verbs; here is
only which one comes next.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from interlock.engine import (
    APPROVE,
    REJECT,
    Checks,
    Choice,
    CommandResult,
    Dispatch,
    Ending,
    NamedCommand,
    Playbook,
    Proof,
    Quoted,
    Report,
    Run,
    Status,
    Stop,
    Table,
)
from interlock.errors import Diverged
from interlock.flows import calls, handover, outcomes, texts
from interlock.flows.checking import FINDINGS, MEMBER, TURN, row_for
from interlock.flows.tree import (
    AgentStep,
    AskStep,
    CallStep,
    Decide,
    End,
    Flow,
    Goes,
    Repeat,
    RunStep,
    Step,
    Together,
    Way,
    walk,
)

TAIL = 6000
"""Characters at the end of an output that are handed on."""
ON = Way(Goes.ON)
_TIMES = re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|sec|secs|seconds)\b|\b\d+:\d+(?::\d+(?:\.\d+)?)?\b|\b0x[0-9a-fA-F]+\b")
"""What differs between two outputs that say the same: how long it took, when it was, where in memory."""


class _Rows(Table[str]):
    """A table of a flow: the first row that fits."""

    def __init__(self, step: Decide) -> None:
        super().__init__(step.name, {})
        self._step = step

    def __call__(self, *words: Any) -> str:
        number = row_for(self._step, dict(zip(self._step.columns, words, strict=True)))
        assert number is not None, "the loader lets no table pass that is not total"
        return self._step.rows[number].then.words


class Performance:
    """One run of a flow: the outcomes so far, what was said, and what did not go well."""

    def __init__(
        self,
        flow: Flow,
        run: Run,
        inputs: Mapping[str, Any],
        called: Mapping[str, Playbook],
        comes_to: Callable[[str], None],
    ) -> None:
        self.flow = flow
        self.run = run
        self.called = called
        self.comes_to = comes_to
        self.inputs = inputs
        self.asked = flow.asked_about
        self.outcomes: dict[str, str] = {}
        self._known = dict(inputs)
        """What texts can fill in: the inputs, and the outcomes under their names there."""
        self.said: dict[str, tuple[Quoted, ...]] = {}
        self.turns: list[tuple[str, int]] = []
        self.found: list[Quoted] = []
        """What did not go well in this turn; and in the one before."""
        self.before: list[Quoted] = []
        self.last: dict[tuple[str, str], list[str]] = {}
        """What a table knew to have gone wrong when it asked last whether a repeat moves."""
        self.checks: dict[str, Checks] = {}

    async def whole(self) -> Ending:
        for step in self.flow.all_steps:
            if isinstance(step, RunStep) and step.must_pass:
                await self._begin_checks(step)
        way = await self.steps(self.flow.steps)
        return await self._end(next(s for s in self.flow.all_steps if isinstance(s, End) and s.name == way.ending))

    async def steps(self, steps: Sequence[Step]) -> Way:
        """Where these steps lead."""
        for step in steps:
            if (way := await self._step(step)).goes is not Goes.ON:
                return way
        return ON

    async def _step(self, step: Step) -> Way:
        self.comes_to(step.name)
        match step:
            case AgentStep():
                with self.run.step(step.name):
                    report = await self.run.dispatch(self._dispatch(step))
                self._report(step, report)
            case Together():
                members = {one.name: self._member(one) for one in step.members}
                reports = await self.run.cluster(step.name, members, cap=step.at_once)
                self._together(step, reports)
            case RunStep(must_pass=True):
                with self.run.step(step.name):
                    await self._prove(step)
            case RunStep():
                with self.run.step(step.name):
                    await self._command(step)
            case AskStep():
                with self.run.step(step.name):
                    await self._ask(step)
            case CallStep():
                with self.run.step(step.name):
                    await self._call(step)
            case Decide():
                return self._decide(step)
            case Repeat():
                return await self._repeat(step)
            case End():
                return Way(Goes.END, step.name)
        return ON

    # -- texts and what is quoted

    @property
    def values(self) -> Mapping[str, Any]:
        return {**self._known, TURN: self.turns[-1][1]} if self.turns else self._known

    def _comes_out(self, name: str, word: str) -> None:
        self.outcomes[name] = self._known[texts.word(name)] = word

    def _quoted(self, names: Sequence[str]) -> tuple[Quoted, ...]:
        parts: list[Quoted] = []
        for name in names:
            parts += (self.found or self.before) if name == FINDINGS else self.said.get(name, ())
        return tuple(dict.fromkeys(parts))

    def _settle(
        self, step: Step, word: str, said: Sequence[Quoted], *, why: str = "", because: tuple[str, ...] = ()
    ) -> None:
        """A step is over: its outcome is known to texts and tables; what nobody asks about has to have gone well."""
        self._comes_out(step.name, word)
        self.said[step.name] = tuple(said)
        words = outcomes.of_step(self.flow, step)[step.name]
        if word != words[0] and not isinstance(step, AskStep):
            self.found += said or (Quoted(f"{step.name}: {word}", "Nothing was said."),)
        if step.name not in self.asked and word not in outcomes.going_on(step, words):
            reason = ", ".join(filter(None, (f"{step.name}: {word}", why or _first_line(said))))
            stopped = isinstance(step, AskStep)
            raise Stop(Ending.stopped(reason) if stopped else Ending.failed(reason, because=because))

    # -- agents

    def _dispatch(self, step: AgentStep, *, member: bool = False) -> Dispatch:
        values = {**self.values, MEMBER: step.name} if member else self.values
        return calls.dispatch(
            step,
            self.flow.agent(step.agent),
            values,
            quotes=self._quoted(step.quotes),
            turn=self.turns[-1][1] if self.turns else 1,
            member=member,
        )

    def _member(self, step: AgentStep) -> Callable[[], Awaitable[Report]]:
        spec = self._dispatch(step, member=True)
        return lambda: self.run.dispatch(spec)

    def _report(self, step: AgentStep, report: Report) -> None:
        word = calls.outcome(report, self.flow.agent(step.agent))
        why = "; ".join(report.complaints) or report.detail or str(report.reason or "")
        said = Quoted(f"{step.name}: {word}", calls.words(report) or why)
        self._settle(step, word, (said,), why=why, because=(report.key,))

    def _together(self, step: Together, reports: Mapping[str, Report]) -> None:
        for member in step.members:
            self._report(member, reports[member.name])
        self.said[step.name] = tuple(part for member in step.members for part in self.said[member.name])
        if (known := outcomes.of_step(self.flow, step).get(step.name)) is not None:
            words = (self.outcomes[member.name] for member in step.members)
            self._comes_out(step.name, outcomes.worst(words, known))

    # -- commands

    async def _command(self, step: RunStep) -> None:
        command = texts.fill_command(step.command, self.values)
        result = await self.run.command(("sh", "-c", command), name=step.name, timeout_s=step.time_limit)
        word = "passed" if result.ok else "failed"
        self._settle(step, word, (Quoted(f"{step.name}: {word}", _output(result)),))

    async def _begin_checks(self, step: RunStep) -> None:
        """The tree as it is before the work, so that work which changes what a command does is noticed."""
        command = texts.fill_command(step.command, self.inputs)
        self.checks[step.name] = Checks(
            self.run, (NamedCommand(step.name, command, self.flow.name, timeout_s=step.time_limit),)
        )
        with self.run.step("before"):
            await self.checks[step.name].start()

    async def _prove(self, step: RunStep) -> None:
        proofs = await self.checks[step.name].prove()
        word = "passed" if all(proof.ok for proof in proofs) else "failed"
        self._settle(step, word, tuple(Quoted(f"{step.name}: {word}", _proven(proof)) for proof in proofs))

    # -- people and other playbooks

    async def _ask(self, step: AskStep) -> None:
        decision = await self.run.gate(
            step.name,
            texts.fill(step.question, self.values),
            choices=[Choice(name, leads_to) for name, leads_to in step.choices.items()] or (APPROVE, REJECT),
            shows=[texts.fill(path, self.values) for path in step.shows],
        )
        said = (Quoted(f"{step.name}: {decision.choice}", decision.note),) if decision.note else ()
        self._settle(step, decision.choice, said)

    async def _call(self, step: CallStep) -> None:
        other = self.called[step.playbook]
        given = {texts.word(name): texts.fill(text, self.values) for name, text in step.inputs.items()}
        ending = await self.run.call(other, handover.inputs(other, given))
        output = ending.output if isinstance(ending.output, str) else ending.output.decode("utf-8", "replace")
        said = "\n".join(filter(None, (ending.reason, output)))
        self._settle(step, ending.status.value, (Quoted(f"{step.name}: {ending.status}", said),))

    # -- where it goes

    def _decide(self, step: Decide) -> Way:
        named = {column: self._column(step, column) for column in step.columns}
        if row_for(step, named) is None:  # recorded by the playbook as it was, before somebody changed it
            run_id = self.run.identity.run_id
            words = ", ".join(f"{column} {word}" for column, word in named.items())
            raise Diverged(
                f"the table {step.name!r} has no row for what is recorded: {words}",
                key=step.name,
                remedy=f"Give it one in {self.flow.where}, or end the run: interlock cancel {run_id}",
            )
        words = self.run.decide(_Rows(step), *named.values(), named=named)
        return next(row.then for row in step.rows if row.then.words == words)

    def _column(self, step: Decide, column: str) -> str:
        turn = next((turn for name, turn in self.turns if name == column), None)
        if turn is None:
            return self.outcomes[column]
        found = [_TIMES.sub("", part.text) for part in self.found]
        last, self.last[step.name, column] = self.last.get((step.name, column)), found
        return "stuck" if turn > 1 and last == found else "moving"

    async def _repeat(self, step: Repeat) -> Way:
        for inner in walk(step.steps):
            self.last.pop((inner.name, step.name), None)
        self._comes_out(step.name, "used up")
        async for turn in self.run.loop(step.name):
            self.before, self.found = self.found, []
            self.turns.append((step.name, turn))
            way = await self.steps(step.steps)
            self.turns.pop()
            if way.goes is Goes.LEAVE:
                self._comes_out(step.name, "left")
                return ON
            if way.goes is Goes.END:
                return way
        return step.when_used_up

    async def _end(self, step: End) -> Ending:
        """How the run ends. What must pass has to pass on the tree as it is now, or it is not complete."""
        self.comes_to(step.name)
        said = texts.fill(step.words, self.values)
        parts = self._quoted(step.quotes)
        output = "\n\n".join((said, *(f"{part.title}\n\n{part.text}" for part in parts))) + "\n"
        if step.status != Status.COMPLETE:
            return Ending(Status(step.status), said, output if parts else "")
        for name, checks in self.checks.items():
            if name not in self.outcomes:
                continue
            with self.run.step(step.name), self.run.step(name):
                red = [proof for proof in await checks.prove() if not proof.ok]
            if red:
                return Ending.failed(f"{name} must pass, and does not: {red[0].shown}", f"{_proven(red[0])}\n")
        return Ending.complete(output, said)


def _output(result: CommandResult) -> str:
    text = "\n".join(filter(None, (result.stdout.strip(), result.stderr.strip(), result.error or "")))
    return (text or f"It ended with exit status {result.exit}, and printed nothing.")[-TAIL:]


def _proven(proof: Proof) -> str:
    return "\n".join(filter(None, (proof.shown, proof.tail)))


def _first_line(said: Sequence[Quoted]) -> str:
    return next((line.strip()[:200] for part in said for line in part.text.splitlines() if line.strip()), "")

"""The task on its way: what a person asked for, what its documents say, and how both documents are kept."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from interlock.documents.files import digest
from interlock.documents.model import Model
from interlock.engine.run import Command, Outcome, Run
from interlock.errors import BadInput, Exit
from interlock.playbooks.harness.contracts import read_contracts
from interlock.playbooks.harness.report import new_report, report_of, shelf_of, with_entries
from interlock.playbooks.harness.run_state import NONE, State, new_state, position, read_state, with_state
from interlock.playbooks.harness.stages import (
    CONTRACTS,
    REPORT_TEMPLATE,
    REQUIRED,
    RUN_STATE,
    STATE_TEMPLATE,
    WORKED,
    Came,
    Status,
    called,
)
from interlock.playbooks.harness.task_file import Task, belongs, read_task, task_file
from interlock.workspace.values import Tree


def _working(name: str) -> str:
    stage = called(name) if name else None
    if name and stage not in WORKED:
        raise ValueError(f"it is no stage that an agent carries out; expected one of {', '.join(WORKED)}")
    return stage or ""


StageName = Annotated[str, AfterValidator(_working)]


class Inputs(Model):
    """Which task, and how far."""

    task: Annotated[str, AfterValidator(lambda name: posixpath.basename(name).removesuffix(".md"))] = Field(
        "", description="Task ID; unset: the task of run-state.", json_schema_extra={"argument": True}
    )
    until: StageName = Field("", description="Stop after this stage, for a test of the orchestration.")
    park: bool = Field(False, description="Put another task by that is not complete.")
    check: tuple[str, ...] = Field((), description="A command that decides; `none`: there is none.")
    accept_baseline: bool = Field(False, description="What is red before may stay red.")


class Flags(Model):
    """A person's words to one process."""

    fallback: StageName = Field("", description="You supply this stage's artifact; its agent is not called.")
    from_: StageName = Field("", description="Go back to this stage.")
    note: str = Field("", description="Your words for whoever works next.")


class Edited(Exception):
    """A person changed in run-state what is the engine's own: both documents are left alone."""


@dataclass
class House:
    """The task of one run."""

    run: Run
    inputs: Inputs
    task: Task
    state: State
    report: str
    """Where the run report lies."""
    commands: Sequence[Command] = ()
    given: dict[str, Any] = field(default_factory=dict)
    """What a person said to this process and nobody has heeded yet."""
    history: str = ""
    """The report, as it stood when the turn began."""
    judged: Tree | None = None
    """The tree that QA has accepted."""
    against: str = ""
    """What speaks against the work of Build, beside what QA wrote."""
    scope: str = ""
    """Of the turn: from there on a resume does it again."""
    began: str = ""
    now: str = ""

    def tick(self) -> str:
        self.now = f"{self.run.now().strftime('%Y-%m-%dT%H:%M:%S.%f')[:-3]}Z"  # two entries of a second are two
        return self.now

    @property
    def day(self) -> str:
        return self.now[:10]

    def row(self, came: Came, who: str = "interlock", text: str | None = None) -> tuple[str, ...]:
        """An entry of the stage history about the present stage, with the artifact that was verified."""
        path, sha = (self.task.paths[self.state.stage], digest(text.encode())) if text is not None else ("", "")
        return (self.state.run_id, self.state.stage, who, came, self.began, self.now, path, sha)

    async def write(self, path: str, edit: Callable[[str], str]) -> str:
        wrote = await self.run.change(path, edit)
        if wrote.state == "edited":
            raise Edited(wrote.why)
        return self.run.text(wrote.text)

    def edits(self, state: State, event: str, **entries: Any) -> Mapping[str, Callable[[str], str]]:
        """What happened into the report, then, last, where the task stands into run-state (HN-59)."""
        stop = "" if state.stop == NONE else state.stop
        entries = {"rows": (), "evidence": (), **entries}
        told = partial(with_entries, state=state, at=self.now, stop=stop, **entries)
        return {self.report: told, RUN_STATE: partial(with_state, state=state, event=event)}

    async def keep(
        self, state: State, event: str, *, rows: Sequence[Sequence[str]] = (), evidence: Sequence[str] = ()
    ) -> None:
        for path, edit in self.edits(state, event, rows=rows, evidence=evidence).items():
            text = await self.write(path, edit)
        self.state = read_state(text)

    async def block(self, why: str, exit: Exit = Exit.STOPPED, **entries: Sequence[Any]) -> Outcome:
        """The run stops until a person resumes the stage (HN-97, HN-116)."""
        await self.keep(self.state.stopped(Status.BLOCKED, why), f"Blocked: {why}", **entries)
        return self.stops(why, exit)

    def stops(self, why: str, exit: Exit = Exit.STOPPED, scope: str = "") -> Outcome:
        go_on = f"interlock resume {self.run.id} --note TEXT"
        return Outcome.stopped(why, exit=int(exit), next=go_on, again=scope or self.scope)

    def heed(self) -> dict[str, Any]:
        """What a person asks of the turn that begins, once."""
        stopped, back = bool(self.run.stopped), self.given.pop("from_", "")
        fallback = self.given.get("fallback", "") == (back or self.state.stage) and self.given.pop("fallback")
        person = any((stopped, back, fallback, self.given.pop("note", "")))
        return {"resumed": stopped, "from": back, "fallback": bool(fallback), "person": person}


OURS = "interlock init harness writes ours."


async def begin(run: Run, inputs: Inputs) -> House:
    """All that is required is there and fits together; then run-state and report are there, too (HN-23 to HN-39)."""
    problems: list[Any] = []

    def take(read: Callable[..., Any], *given: Any) -> Any:
        try:
            return read(*given)
        except BadInput as problem:
            problems.extend([problem, *problem.also])
            problem.also = ()

    name, found = inputs.task, await run.read(RUN_STATE)
    path, live = task_file(name), take(read_state, found) if found is not None else None
    if not name:
        raise BadInput.together(problems or [BadInput(f"No task to run: name a task or provide {RUN_STATE}")])
    texts = {path: await run.read(path) or "" for path in (*REQUIRED, path)}
    if not texts[path]:
        path = await _called(run, path, name)
        texts[path] = await run.read(path) or ""
    missing = [one for one in REQUIRED if not texts[one].strip()]
    problems += [BadInput(f"Missing required file: {one}", where=one, remedy=OURS) for one in missing]
    problems += [] if texts[path] else [BadInput(f"Task file not found: {path}", where=path)]
    task = take(read_task, texts[path], path) if texts[path] else None
    contracts = take(read_contracts, texts[CONTRACTS]) if texts[CONTRACTS].strip() else {}
    other = live if live is not None and live.task != name else None
    problems += _conflict(other, inputs)
    kept = await run.read(shelf_of(name)) if live is None or other else None
    state = (take(read_state, kept) if kept is not None else None) if other or live is None else live
    why = state.problem(task) if state and task else ""
    problems += [BadInput(why, where=RUN_STATE, remedy="Mend it: it says where the task stands.")] if why else []
    if problems:
        raise BadInput.together(problems)
    assert task is not None
    report, text = report_of(name), await run.read(report_of(name))
    if text is None and live is not None:
        report = await _called(run, report, name)
        text = await run.read(report)
    house = House(run, inputs, task, state or State.first(task, ""), report, given=dict(run.flags))
    if house.state.status is not Status.COMPLETE:
        await _measured(house, contracts)
    house.tick()
    first = state or State.first(task, house.day)
    run.watch(RUN_STATE, position)
    run.watch(report)
    if other is not None:
        await house.write(shelf_of(other.task), lambda _: found or "")
    if text is None:
        await house.write(report, lambda text: text or new_report(texts[REPORT_TEMPLATE], first, task))
    if live is None or other is not None:
        fresh = kept or new_state(texts[STATE_TEMPLATE], first, f"Initialised by orchestration; {first.stage} is next.")
        there = await house.write(RUN_STATE, lambda text: fresh if text == (found or "") else text)
        house.state = read_state(there)
        if kept is not None:
            await run.set_aside(shelf_of(name))
    return house


def _conflict(other: State | None, inputs: Inputs) -> Iterator[BadInput]:
    """Another task is under way, and nobody said that it is to be put by."""
    if other is not None and other.status is not Status.COMPLETE and not inputs.park:
        why = f"Active task conflict: run-state is for {other.task} ({other.status}); requested {inputs.task}"
        yield BadInput(why, where=RUN_STATE, remedy="Finish that one, or put it by: --park.")


async def _measured(house: House, contracts: Mapping[Any, Any]) -> None:
    """The commands that count, as they stand before the work; what of people's own files is used."""
    named = [line for line in house.inputs.check if line != "none"]
    house.commands = [] if "none" in house.inputs.check else await house.run.commands(named)
    await house.run.baseline(house.commands)
    for told in _uses(house.task, contracts):
        house.run.warn(told)


async def _called(run: Run, usual: str, task: str) -> str:
    """Where the task's file of a folder lies: the only one that is called by the Task ID, else at its usual place."""
    folder = posixpath.dirname(usual)
    found = [one for one in await run.names(folder, "*.md") if belongs(one, task) and not one.endswith("-run-state.md")]
    return f"{folder}/{found[0]}" if len(found) == 1 else usual


def _uses(task: Task, contracts: Mapping[Any, Any]) -> Iterator[str]:
    """What of people's own files is used where they leave it open (PERSON-07)."""
    if task.defaults:
        folder = task.paths[task.defaults[0]].rpartition("/")[0]
        yield f"{task.path} names no artifact path for {', '.join(task.defaults)}: it lies in {folder}/"
    own = {stage: ", ".join(one.required) for stage, one in contracts.items() if one.prose}
    if own:
        asks = "; ".join(f"{stage}: {paths or 'nothing'}" for stage, paths in own.items())
        yield f"{CONTRACTS} requires, as it is written: {asks}"

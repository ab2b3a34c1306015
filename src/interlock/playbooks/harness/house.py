"""The task on its way: what a person asked for, what its documents say, and how both documents are kept."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator, Field

from interlock.documents.files import digest
from interlock.documents.model import Model
from interlock.engine.run import Command, Outcome, Run, Stop
from interlock.errors import BadInput, Exit
from interlock.playbooks.harness import run_state, stages
from interlock.playbooks.harness.documents import Task, belongs, read_contracts, read_task, task_file
from interlock.playbooks.harness.run_state import NONE, State, position, read_state
from interlock.playbooks.harness.stages import CONTRACTS, REQUIRED, RUN_STATE, Came, StageName, Status
from interlock.workspace.values import Tree


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
            raise self.edited(wrote.why)
        return self.run.text(wrote.text)

    def edited(self, why: str) -> Stop:
        """A person changed in run-state what is the engine's own: both documents are left alone."""
        return Stop(Outcome.stopped(why, next=f"interlock run harness {self.task.id}", again=self.scope))

    def edits(self, state: State, event: str, **entries: Any) -> Mapping[str, Callable[[str], str]]:
        """What happened into the report, then, last, where the task stands into run-state (HN-59)."""
        stop = "" if state.stop == NONE else state.stop
        entries = {"rows": (), "evidence": (), **entries}
        told = partial(run_state.with_entries, state=state, at=self.now, stop=stop, **entries)
        return {self.report: told, RUN_STATE: partial(run_state.with_state, state=state, event=event)}

    async def keep(
        self, state: State, event: str, *, rows: Sequence[Sequence[str]] = (), evidence: Sequence[str] = ()
    ) -> None:
        for path, edit in self.edits(state, event, rows=rows, evidence=evidence).items():
            text = await self.write(path, edit)
        self.state = read_state(text)

    async def block(self, why: str, exit: Exit = Exit.STOPPED, **entries: Sequence[Any]) -> NoReturn:
        """The run stops until a person resumes the stage (HN-97, HN-116)."""
        await self.keep(self.state.stopped(Status.BLOCKED, why), f"Blocked: {why}", **entries)
        raise self.stop(why, exit)

    def stop(self, why: str, exit: Exit = Exit.STOPPED, again: str = "") -> Stop:
        go_on = f"interlock resume {self.run.id} --note TEXT"
        return Stop(Outcome.stopped(why, exit=int(exit), next=go_on, again=again or self.scope))

    def heed(self) -> dict[str, Any]:
        """What a person asks of the turn that begins, once."""
        stopped, back = bool(self.run.stopped), self.given.pop("from_", "")
        fallback = self.given.get("fallback", "") == (back or self.state.stage) and self.given.pop("fallback")
        person = any((stopped, back, fallback, self.given.pop("note", "")))
        return {"resumed": stopped, "from": back, "fallback": bool(fallback), "person": person}


async def begin(run: Run, inputs: Inputs) -> House:
    """All that is required is there and fits together; then run-state and report are there, too (HN-23 to HN-39)."""
    problems, name = list[Any](), inputs.task

    def take(read: Callable[..., Any], *given: Any) -> Any:
        try:
            return read(*given)
        except BadInput as problem:
            problems.extend((problem, *problem.also))
            problem.also = ()

    found = await run.read(RUN_STATE)
    live = take(read_state, found) if found is not None else None
    if not name:
        raise BadInput.together(problems or [BadInput(f"No task to run: name a task or provide {RUN_STATE}")])
    path = await _called(run, task_file(name), name)
    texts = {path: await run.read(path) or "" for path in (*REQUIRED, path)}
    init = "interlock init harness writes ours."
    missing = [one for one in REQUIRED if not texts[one].strip()]
    problems += [BadInput(f"Missing required file: {one}", where=one, remedy=init) for one in missing]
    problems += [] if texts[path] else [BadInput(f"Task file not found: {path}", where=path)]
    task = take(read_task, texts[path], path) if texts[path] else None
    contracts = take(read_contracts, texts[CONTRACTS]) if texts[CONTRACTS].strip() else {}
    other = live if live is not None and live.task != name else None
    if other is not None and other.status is not Status.COMPLETE and not inputs.park:
        why = f"Active task conflict: run-state is for {other.task} ({other.status}); requested {name}"
        problems.append(BadInput(why, where=RUN_STATE, remedy="Finish that one, or put it by: --park."))
    kept = await run.read(run_state.shelf_of(name)) if live is None or other else None
    state = (take(read_state, kept) if kept is not None else None) if other or live is None else live
    if state and task and (why := state.problem(task)):
        problems.append(BadInput(why, where=RUN_STATE, remedy="Mend it: it says where the task stands."))
    if problems:
        raise BadInput.together(problems)
    assert task is not None
    report = await _called(run, run_state.report_of(name), name) if live else run_state.report_of(name)
    state = state or State.first(task, run.now().strftime("%Y-%m-%d"))
    house = House(run, inputs, task, state, report, given=dict(run.flags))
    if house.state.status is not Status.COMPLETE:
        named = [line for line in inputs.check if line != "none"]
        house.commands = [] if "none" in inputs.check else await run.commands(named)
        await run.baseline(house.commands)
        for told in _uses(task, contracts):
            run.warn(told)
    house.tick()
    await _documents(house, texts, found or "", kept, other)
    return house


async def _documents(
    house: House, templates: Mapping[str, str], found: str, kept: str | None, other: State | None
) -> None:
    """Run-state and report of the task are there, by the engine itself (HN-27 to HN-39); another task's is put by."""
    run, task, first = house.run, house.task, house.state
    text = await run.read(house.report)
    run.watch(RUN_STATE, position)
    run.watch(house.report)
    if other is not None:
        await house.write(run_state.shelf_of(other.task), lambda _: found)
    if text is None:
        await house.write(
            house.report, lambda text: text or run_state.new_report(templates[stages.REPORT_TEMPLATE], first, task)
        )
    if not found or other is not None:
        event = f"Initialised by orchestration; {first.stage} is next."
        begun = kept or run_state.new_state(templates[stages.STATE_TEMPLATE], first, event)
        there = await house.write(RUN_STATE, lambda text: begun if text == found else text)
        house.state = read_state(there)
        if kept is not None:
            await run.set_aside(run_state.shelf_of(task.id))


async def _called(run: Run, usual: str, task: str) -> str:
    """Where the task's file of a folder lies: at its usual place, else the only one that is called by the Task ID."""
    folder, _, name = usual.rpartition("/")
    found = [one for one in await run.names(folder, "*.md") if belongs(one, task) and not one.endswith("-run-state.md")]
    return usual if name in found or len(found) != 1 else f"{folder}/{found[0]}"


def _uses(task: Task, contracts: Mapping[Any, Any]) -> Iterator[str]:
    """What of people's own files is used where they leave it open (PERSON-07)."""
    if task.defaults:
        folder = task.paths[task.defaults[0]].rpartition("/")[0]
        yield f"{task.path} names no artifact path for {', '.join(task.defaults)}: it lies in {folder}/"
    own = {stage: ", ".join(one.required) for stage, one in contracts.items() if one.prose}
    if own:
        asks = "; ".join(f"{stage}: {paths or 'nothing'}" for stage, paths in own.items())
        yield f"{CONTRACTS} requires, as it is written: {asks}"

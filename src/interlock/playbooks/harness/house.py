"""The task on its way: what a person asked for, what its documents say, and how both documents are kept."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator, Field

from interlock.documents.files import sha256
from interlock.documents.model import Model
from interlock.engine.run import Command, Outcome, Run, Stop
from interlock.errors import BadInput, Exit
from interlock.playbooks.harness import run_state, stages
from interlock.playbooks.harness.documents import Task, read_contracts, read_task, task_file
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

    @property
    def report(self) -> str:
        return run_state.report_of(self.task.id)

    def row(self, came: Came, who: str = "interlock", text: str | None = None) -> tuple[str, ...]:
        """An entry of the stage history about the present stage, with the artifact that was verified."""
        path, sha = (self.task.paths[self.state.stage], sha256(text.encode())) if text is not None else ("", "")
        return (self.state.run_id, self.state.stage, who, came, self.began, self.now, path, sha)

    async def write(self, path: str, edit: Callable[[str], str], *, may_fail: bool = False) -> str:
        wrote = await self.run.change(path, edit, may_fail=may_fail)
        if wrote.state == "edited" and not may_fail:
            raise self.edited(wrote.why)
        return self.run.text(wrote.text)

    def edited(self, why: str) -> Stop:
        """A person changed in run-state what is the engine's own: both documents are left alone."""
        return self.stop(why, next=f"interlock run harness {self.task.id}")

    async def keep(
        self,
        state: State,
        event: str,
        *,
        rows: Sequence[Sequence[str]] = (),
        evidence: Sequence[str] = (),
        gone: Container[str] = (),
    ) -> None:
        """What happened into the report, then, last, where the task stands into run-state (HN-59).

        Args:
            gone: a document that is not there, and not made again; then the other one is written if it can be.
        """
        stop = "" if state.stop == NONE else state.stop
        told = partial(run_state.with_entries, state=state, at=self.now, rows=rows, evidence=evidence, stop=stop)
        stands = partial(run_state.with_state, state=state, event=event)
        for path, edit in ((self.report, told), (RUN_STATE, stands)):
            if path not in gone:
                text = await self.write(path, edit, may_fail=bool(gone))
        if not gone:
            self.state = read_state(text)

    async def block(self, why: str, exit: Exit = Exit.STOPPED, **entries: Sequence[Any]) -> NoReturn:
        """The run stops until a person resumes the stage (HN-97, HN-116)."""
        await self.keep(self.state.stopped(Status.BLOCKED, why), f"Blocked: {why}", **entries)
        raise self.stop(why, exit)

    def stop(self, why: str, exit: Exit = Exit.STOPPED, *, again: str | None = None, next: str = "") -> Stop:
        """The run ends here; a resume does this turn again, or what begins at that scope."""
        go_on = next or f"interlock resume {self.run.id} --note TEXT"
        return Stop(Outcome.stopped(why, exit=int(exit), next=go_on, again=self.scope if again is None else again))

    def heed(self) -> dict[str, Any]:
        """What a person asks of the turn that begins, once."""
        stopped, back = bool(self.run.stopped), self.given.pop("from_", "")
        fallback = self.given.get("fallback", "") == (back or self.state.stage) and self.given.pop("fallback")
        person = any((stopped, back, fallback, self.given.pop("note", "")))
        return {"resumed": stopped, "from": back, "fallback": bool(fallback), "person": person}


async def begin(run: Run, inputs: Inputs) -> House:
    """All that is required is there and fits together; then run-state and report are there, too (HN-23 to HN-39)."""
    problems, name, path = list[Any](), inputs.task, task_file(inputs.task)

    def take(read: Callable[..., Any], *given: Any) -> Any:
        try:
            return read(*given)
        except BadInput as problem:
            problems.extend((problem, *problem.also))
            problem.also = ()

    found = await run.read(RUN_STATE) or ""
    live = take(read_state, found) if found.strip() else None
    if not name:
        raise BadInput.together(problems or [BadInput(f"No task to run: name a task or provide {RUN_STATE}")])
    texts = {one: await run.read(one) or "" for one in (*REQUIRED, path)}
    init = "interlock init harness writes ours."
    missing = [one for one in REQUIRED if not texts[one].strip()]
    problems += [BadInput(f"Missing required file: {one}", where=one, remedy=init) for one in missing]
    problems += [] if texts[path] else [BadInput(f"Task file not found: {path}", where=path)]
    task: Any = take(read_task, texts[path], path) if texts[path] else None
    contracts = take(read_contracts, texts[CONTRACTS]) if texts[CONTRACTS].strip() else {}
    other = live if live is not None and live.task != name else None
    if other is not None and other.status is not Status.COMPLETE and not inputs.park:
        why = f"Active task conflict: run-state is for {other.task} ({other.status}); requested {name}"
        problems.append(BadInput(why, where=RUN_STATE, remedy="Finish that one, or put it by: --park."))
    kept = await run.read(run_state.shelf_of(name)) if live is None or other else None
    state = take(read_state, kept) if kept is not None else None if other else live
    if state and task and (why := state.problem(task)):
        problems.append(BadInput(why, where=RUN_STATE, remedy="Mend it: it says where the task stands."))
    if state and inputs.until in state.stage.before and state.status is not Status.COMPLETE:
        problems.append(BadInput(f"--until {inputs.until}: {name} is at {state.stage}", expected="that stage or later"))
    if problems:
        raise BadInput.together(problems)
    house = House(run, inputs, task, state or State.first(task, f"{run.now():%Y-%m-%d}"), given=dict(run.flags))
    if house.state.status is not Status.COMPLETE:
        house.commands = await run.commands(inputs.check)
        await run.baseline(house.commands)
        for told in _uses(house.task, contracts):
            run.warn(told)
    house.tick()
    await _documents(house, texts, found, kept, other)
    return house


async def _documents(
    house: House, templates: Mapping[str, str], found: str, kept: str | None, other: State | None
) -> None:
    """Run-state and report of the task are there, by the engine itself (HN-27 to HN-39); another task's is put by."""
    run, task, first = house.run, house.task, house.state
    run.watch(RUN_STATE, position)
    run.watch(house.report, lambda text: "")  # it has to be there; what people write into it is theirs
    if other is not None:
        await house.write(run_state.shelf_of(other.task), lambda _: found)
    if not (await run.read(house.report) or "").strip():
        begun = run_state.new_report(templates[stages.REPORT_TEMPLATE], first, task)
        await house.write(house.report, lambda text: text if text.strip() else begun)
    if not found.strip() or other is not None:
        event = f"Initialised by orchestration; {first.stage} is next."
        stands = kept or run_state.new_state(templates[stages.STATE_TEMPLATE], first, event)
        await house.write(RUN_STATE, lambda text: stands if text == found else text)
        if kept is not None:
            await run.set_aside(run_state.shelf_of(task.id))


def _uses(task: Task, contracts: Mapping[Any, Any]) -> Iterator[str]:
    """What of people's own files is used where they leave it open (PERSON-07)."""
    if task.defaults:
        folder = task.paths[task.defaults[0]].rpartition("/")[0]
        yield f"{task.path} names no artifact path for {', '.join(task.defaults)}: it lies in {folder}/"
    own = [f"{stage}: {', '.join(one.required) or 'nothing'}" for stage, one in contracts.items() if one.prose]
    if own:
        yield f"{CONTRACTS} requires, as it is written: {'; '.join(own).replace('path:', '')}"

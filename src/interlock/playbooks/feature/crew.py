"""The crew at work on one feature: calls and clusters, what came back, and the memory that only this file writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from interlock.contracts import ArtifactClass, Outcome, Reason
from interlock.documents import Document, DocumentState, EditedMeanwhile
from interlock.engine import Checks, Named, Proof, Report, Run
from interlock.errors import DocumentInvalid
from interlock.playbooks.feature import shared_memory
from interlock.playbooks.feature.briefs import Brief, Desk
from interlock.playbooks.feature.decisions import Grade, Said, Severity, Verified
from interlock.playbooks.feature.layout import R_SECURITY, VERIFIERS, Layout, TaskAgent, phase
from interlock.playbooks.feature.memory_file import LONG, MemoryFile, parse_memory
from interlock.playbooks.feature.plan import Plan, Task
from interlock.playbooks.feature.progress import Progress, Standing, TaskState
from interlock.playbooks.feature.run_log import ClusterSummary, Returned
from interlock.playbooks.feature.shared_memory import Edit
from interlock.playbooks.feature.stages import Move, Stage, Walk

EDITS = 10
"""Times that the shared memory is read again because a person edited it in between."""
ALARMING = {"ct-security": Severity.CRITICAL, R_SECURITY: Grade.BLOCKER}


class Halt(Exception):
    """The pipeline cannot go on. `because`: the dispatches that decided it."""

    def __init__(self, reason: str, because: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.because = tuple(because)


@dataclass(frozen=True)
class Call:
    """A dispatch with what the telemetry says of it."""

    spec: Brief
    pattern: str
    iteration: int = 1
    retries: int = 0
    human: bool = False

    @property
    def member(self) -> str:
        return self.spec.name


@dataclass(frozen=True)
class Heard:
    """What came back from one call."""

    call: Call
    report: Report
    said: Said
    before: Heard | None = None
    """The call before this one, which was in vain because somebody edited the same documents meanwhile."""

    @property
    def member(self) -> str:
        return self.call.member

    @property
    def done(self) -> bool:
        return self.said is Said.DONE

    @property
    def misread(self) -> bool:
        """Its verdict is there, but not in a form that can be read, also after it was asked again."""
        return self.report.outcome is Outcome.FAIL and self.said is not Said.ERROR

    @property
    def contradicted(self) -> bool:
        """It said that all is well, and its own evidence says otherwise."""
        return self.report.reason is Reason.CONTRADICTED

    @property
    def why(self) -> str:
        """Why it did not count, or not as it was said, in one line; empty where it did."""
        report = self.report
        if self.contradicted:
            return f"{self.member} {'; '.join(report.complaints)}"
        if self.said is not Said.ERROR:
            return ""
        gone = [flaw.path for flaw in report.flaws if flaw.cls is ArtifactClass.MISSING]
        if report.token == "DONE" and gone:
            return f"{self.member}: DONE but {gone[0]} is missing"
        said = next(iter((*report.complaints, report.detail, report.reason or "failed")))
        return f"{self.member}: {said or report.reason}"


def conflict_told(report: Report) -> str:
    """What an agent is told whose work could not be merged with an edit made meanwhile."""
    paths = ", ".join(f"`{path}`" for path in report.conflicts)
    return (
        f"While you worked, somebody else changed {paths}. That stands, and is what you find there now; nothing of "
        "your own work was taken over. Do the task again, so that their changes remain."
    )


def said_of(report: Report, memory: str) -> Said:
    """What an agent comes to. Where its private memory, at this path, is all that cannot be read, its verdict stands,
    and the worst is assumed of what the memory should say."""
    flaws = {flaw.path: flaw.cls for flaw in report.flaws}
    if report.reason is Reason.CONTRACT_VIOLATION and flaws == {memory: ArtifactClass.MALFORMED}:
        return {"DONE": Said.DONE, "NEEDS_REVISION": Said.NEEDS_REVISION}.get(report.token or "", Said.ERROR)
    return {Outcome.OK: Said.DONE, Outcome.REVISE: Said.NEEDS_REVISION}.get(report.outcome, Said.ERROR)


def noticed(report: Report) -> tuple[str, ...]:
    """What people are to know of a dispatch, whatever it came to."""
    who = report.member
    said = [f"{who} changed nothing, because: {report.no_change}"] if report.no_change else []
    said += [f"{who} {text}" for text in report.weakened]
    if report.repository:
        what = ", ".join(report.repository)
        said.append(f"{who} used git in its copy, of which nothing reached the repository: {what}")
    return tuple(said)


@dataclass
class Crew:
    """One feature under way. Everything here is made anew by replay: the journal is the state."""

    run: Run
    at: Layout
    walk: Walk = field(default_factory=Walk)
    available: set[str] = field(default_factory=set)
    """Documents that agents produced in this run."""
    returns: list[Returned] = field(default_factory=list)
    clusters: list[ClusterSummary] = field(default_factory=list)
    lasting: list[str] = field(default_factory=list)
    """Errors that stayed after the retries; the final report lists them."""
    memory_works: bool = True
    person_acted: bool = False
    """A person decided since the last call."""
    plan: Plan = field(default_factory=Plan)
    tasks: dict[str, Task] = field(default_factory=dict)
    """Every task that a plan listed, in the order of the plans."""
    task_state: dict[str, TaskState] = field(default_factory=dict)
    task_patch: dict[str, str] = field(default_factory=dict)
    """Where the last work of a task lies that was not taken over."""
    changed: set[str] = field(default_factory=set)
    """The files that task agents changed and whose work was taken over."""
    base: Any = None
    """The workspace before the first implementer."""
    constraints: str = ""
    checks: Checks | None = None
    named: Callable[[], tuple[Named, ...]] = tuple
    """The commands that a person names at the moment."""
    """The commands that a person named."""
    proofs: tuple[Proof, ...] = ()
    """How they ended on the tree that was verified last."""
    proven_at: Any = None
    """That tree."""
    verified: Verified | None = None
    against: tuple[str, ...] = ()
    """What the engine itself knew at the last verification that speaks against the work."""
    disproved: tuple[str, ...] = ()
    """Verdicts of the last verification that their own evidence contradicts."""
    unverified: tuple[str, ...] = ()
    """Verifiers without a verdict in the last round."""
    flaws: list[str] = field(default_factory=list)
    """What makes a finished run a degraded one."""
    result: str = ""
    """The first line of the final report."""
    remarks: list[str] = field(default_factory=list)
    """What the final report says beside the result."""
    decided: Counter[str] = field(default_factory=Counter)
    """How often each cluster was decided."""
    replans: int = 0
    rounds: int = 0
    verifications: int = 0
    reviews: int = 0
    confirmations: int = 1
    """Left of those that a run has; so with the fix passes."""
    fixes: int = 1

    # -- the pipeline

    def go(self, move: Move) -> Stage:
        before = self.walk.stage
        stage = self.walk.go(move)
        self.run.note("step", step=stage.number, stage=stage.value, after=before.value, because=move.value)
        return stage

    @property
    def desk(self) -> Desk:
        return Desk(self.at, frozenset(self.available), self.memory_works)

    @property
    def done_tasks(self) -> set[str]:
        return {one for one in self.task_state if self.is_done(one)}

    def is_done(self, task: str) -> bool:
        return task in self.task_state and self.task_state[task].done

    @property
    def unfinished(self) -> tuple[str, ...]:
        """The tasks that are not done, each with how it stands."""
        waiting = [(one, state) for one, state in self.task_state.items() if not state.done]
        return tuple(f"task {one} {state.shown if state.failed else 'was not begun'}" for one, state in waiting)

    def adopt(self, plan: Plan) -> None:
        """Make this the plan: its tasks are to be done; of earlier ones only those that are done remain."""
        done = self.done_tasks
        listed = {task.id: task for task in plan.tasks}
        self.tasks = {one: task for one, task in self.tasks.items() if one in done and one not in listed} | listed
        self.task_state = {one: TaskState() if one in listed else TaskState(Progress.DONE) for one in self.tasks}
        self.plan = plan

    @property
    def standing(self) -> Standing:
        """Plan and tasks as they are."""
        return Standing(self.plan, dict(self.tasks), dict(self.task_state))

    def withdraw(self, before: Standing) -> None:
        """Go back behind a plan that a person did not approve; its task files are nobody's until a plan lists them."""
        self.plan, self.tasks, self.task_state = before.plan, dict(before.tasks), dict(before.states)

    @property
    def state_of_tasks(self) -> str:
        lines = (f"{one}: {state.shown}\n{state.conflict}".rstrip() for one, state in self.task_state.items())
        return "\n".join(lines) or "none yet"

    @property
    def left_behind(self) -> dict[str, str]:
        """By failed task: the patch with what it had changed, none of which is in the tree."""
        return {
            one: self.task_patch[one]
            for one, state in self.task_state.items()
            if state.failed and one in self.task_patch
        }

    async def prove(self) -> tuple[Proof, ...]:
        """How the commands that a person named end on the tree as it is."""
        if self.checks is None:
            return ()
        self.checks.commands = self.named()
        self.proofs = await self.checks.prove()
        self.proven_at = await self.run.snapshot()
        return self.proofs

    @property
    def red(self) -> tuple[str, ...]:
        return tuple(one.shown for one in self.proofs if not one.ok)

    # -- calls

    async def call(self, call: Call) -> Heard:
        """One agent, with its retries. Whose document somebody edited meanwhile is asked once more; a task whose code
        somebody changed has failed, and the planner sees to it."""
        heard = await self._once(call)
        if not heard.report.conflicts or call.spec.agent in set(TaskAgent):
            return heard
        again = replace(call.spec, failure="\n\n".join(filter(None, (call.spec.failure, conflict_told(heard.report)))))
        return replace(await self._once(replace(call, spec=again, retries=call.retries + 1)), before=heard)

    async def _once(self, call: Call) -> Heard:
        """One dispatch; what it returned is recorded at once."""
        report = await self.run.dispatch(call.spec)
        heard = Heard(call, report, said_of(report, self.at.mem(call.member)))
        self.run.note(
            "agent.returned",
            agent=call.member,
            step=call.spec.step,
            pattern=call.pattern,
            status=heard.said,
            retries=report.tries - 1 + call.retries,
            failure=heard.why,
            iteration=call.iteration,
            human=call.human,
        )
        for path in report.foreign:
            self.run.warn(f"{call.member} changed {self.at.short(path)}; only the orchestrator may. Not taken over.")
        for flag in self._alarms(call.member, report):
            self.run.note("security.flag", severity="critical", agent=call.member, finding=flag)
            self.run.warn(f"severity: critical — {call.member}: {flag}")
        return heard

    def _alarms(self, member: str, report: Report) -> tuple[str, ...]:
        """Security problems that an agent's memory reports, by its severity or by a finding of that kind."""
        path = self.at.mem(member)
        if path not in report.artifacts:
            return ()
        memory = parse_memory(report.text(path))
        worst = ALARMING.get(member)
        if worst is not None and memory.severity.casefold() in (worst.casefold(), "critical"):
            return memory.findings[:1] or (f"highest severity {memory.severity}",)
        return memory.security_flags

    async def alone(self, spec: Brief, *, iteration: int = 1, retries: int = 0, pattern: str = "sequential") -> Heard:
        """One agent by itself."""
        await self.clear([spec.name])
        return self.heard(await self.call(self.prepared(spec, pattern, iteration, retries)))

    async def pattern_a(self, name: str, specs: Sequence[Brief], *, iteration: int = 1) -> dict[str, Heard]:
        """Side by side; each error retried by its dispatch; all awaited."""
        await self.clear([spec.name for spec in specs])
        return await self.side_by_side(name, specs, "A", iteration)

    async def pattern_b(
        self,
        gate: Brief,
        behind: Callable[[], Awaitable[object]],
        others: Callable[[], Sequence[Brief]],
        passes: Callable[[Said, MemoryFile | None], bool],
        *,
        iteration: int = 1,
    ) -> dict[str, Heard]:
        """The gate first, and in any case what comes behind it; only if the gate passes the others side by side,
        briefed with what both produced."""
        first = self.heard(await self.call(self.prepared(gate, "B", iteration)))
        await behind()
        memory = (await self.judged({gate.name: first}))[gate.name]
        if not passes(first.said, memory):
            return {gate.name: first}
        return {gate.name: first, **await self.side_by_side("side-by-side", others(), "B", iteration)}

    async def side_by_side(
        self, name: str, specs: Sequence[Brief], pattern: str, iteration: int = 1
    ) -> dict[str, Heard]:
        calls = [self.prepared(spec, pattern, iteration) for spec in specs]
        answers = await self.run.cluster(name, {call.member: partial(self.call, call) for call in calls})
        for one in answers.values():
            self.heard(one)
        return answers

    def prepared(self, spec: Brief, pattern: str, iteration: int, retries: int = 0) -> Call:
        if spec.missing:
            self.run.note("context.missing", agent=spec.name, paths=list(spec.missing))
        return Call(spec, pattern, iteration, retries, self.person_acted)

    def heard(self, one: Heard) -> Heard:
        """Take a return into the books; called in declared order, never in order of arrival."""
        if one.before is not None:
            self.heard(one.before)
        self.person_acted = False
        if one.said is not Said.ERROR or one.member in VERIFIERS:  # what a failed verifier saw helps the planner
            self.available |= set(one.report.artifacts)
        self.returns.append(
            Returned(
                one.report.key,
                one.member,
                one.call.spec.step,
                one.call.pattern,
                one.said.value,
                one.report.tries - 1 + one.call.retries,
                one.why,
                one.call.iteration,
                one.call.human,
            )
        )
        if one.why:
            self.lasting.append(one.why)
        self.remarks += noticed(one.report)
        return one

    def numbered(self, cluster: str) -> int:
        """The number of the decision about a cluster that is being made: one in red, one in green, one in red are three
        (EV-11)."""
        self.decided[cluster] += 1
        return self.decided[cluster]

    def summarize(self, step: str, cluster: str, heard: Sequence[Heard], outcome: str, number: int = 1) -> None:
        errors = sum(one.said is Said.ERROR for one in heard)
        self.clusters.append(ClusterSummary(step, cluster, len(heard), errors, outcome))
        self.run.note("cluster.decided", step=step, cluster=cluster, number=number, outcome=outcome, errors=errors)

    # -- private memories

    async def clear(self, members: Sequence[str]) -> None:
        """Move private memories of earlier calls aside: what is there afterwards is new."""
        there = set(await self.run.list(self.at.memories, "*.mem.md"))
        for path in map(self.at.mem, members):
            if path in there:
                await self.run.set_aside(path)
                self.available.discard(path)

    async def memories(self, members: Sequence[str]) -> dict[str, MemoryFile | None]:
        """The private memories as they are on disk now; None where there is none that can be read."""
        found: dict[str, MemoryFile | None] = {}
        for member in members:
            document = await self.run.read(self.at.mem(member))
            memory = parse_memory(document.text) if document.state is DocumentState.OK else None
            if memory is not None and memory.lines > LONG:
                self.run.warn(f"{self.at.short(document.path)} has {memory.lines} lines; only its sections are read")
            found[member] = memory
        return found

    async def judged(self, heard: Mapping[str, Heard]) -> dict[str, MemoryFile | None]:
        """The private memories of judges; of one that nobody can read, that it says nothing."""
        found = await self.memories(list(heard))
        return {name: MemoryFile() if heard[name].misread else memory for name, memory in found.items()}

    # -- the shared memory

    async def remember(self, *edits: Edit) -> None:
        """Edit the shared memory. Trouble with it never stops the run."""
        for _ in range(EDITS):
            document = await self.usable_memory()
            if document is None:
                return
            text = self._edited(document.text, edits)
            if text == document.text:
                return
            try:
                await self.run.write(self.at.memory, document.encode(text), expect=document.digest)
                return
            except EditedMeanwhile:
                continue
        self.run.note("memory.warning", text="memory.md is being edited all the time; this update is left out")

    def _edited(self, text: str, edits: Sequence[Edit]) -> str:
        """The text with all edits that it can take; what a person wrote may leave no place for one."""
        try:
            return shared_memory.edited(text, *edits)
        except DocumentInvalid:
            pass
        for edit in edits:
            try:
                text = shared_memory.edited(text, edit)
            except DocumentInvalid as trouble:
                told = f"memory.md cannot take an update, which is left out: {trouble.what}"
                self.run.note("memory.warning", text=told)
                self.run.warn(told)
        return text

    async def usable_memory(self) -> Document | None:
        """The shared memory, rebuilt if it is damaged; None where the run has to do without."""
        for _ in range(EDITS if self.memory_works else 0):
            document = await self.run.read(self.at.memory)
            if document.state is DocumentState.UNREADABLE and document.position is None:
                self.memory_works = False
                self.run.note("memory.warning", text=f"{document.problem}; going on without shared memory")
                self.run.warn(f"{document.problem}; going on without shared memory")
                return None
            if document.state is DocumentState.MISSING:
                trouble = "it is missing"
            else:
                trouble = document.problem or shared_memory.problem(document.text) or ""
            if not trouble:
                return document
            await self._rebuild(document, trouble)
        return None

    async def _rebuild(self, document: Document, trouble: str) -> None:
        """Make it anew from private memories, unless somebody did so meanwhile."""
        kept = ""
        if document.state is not DocumentState.MISSING:
            kept = f", old copy kept at {await self.run.set_aside(self.at.memory)}"
        paths = await self.run.list(self.at.memories, "*.mem.md")
        members = [path.rsplit("/", 1)[-1].removesuffix(".mem.md") for path in paths]
        memories = await self.memories(members)
        text = shared_memory.rebuilt(
            (member, phase(member), memory) for member, memory in memories.items() if memory is not None
        )
        told = f"memory.md unreadable: {trouble}; rebuilt{kept}"
        try:
            await self.run.write(self.at.memory, text, expect="")
        except EditedMeanwhile:
            told = f"memory.md unreadable: {trouble}; written anew by somebody else{kept}"
        self.run.note("memory.warning", text=told)
        self.run.warn(told)

    async def merge(
        self,
        memories: Mapping[str, MemoryFile | None],
        *notes: str,
        step: str = "",
        prune: int | None = None,
        lessons: bool = False,
    ) -> None:
        """Take private memories into the shared one, in declared order, with the orchestrator's own `notes`."""
        step = step or self.walk.stage.number
        edits: list[Edit] = [partial(shared_memory.noted, step=step, what=what) for what in notes]
        for member, memory in memories.items():
            if memory is None:
                self.run.warn(f"memory/{member}.mem.md is missing")
                continue
            of = phase(member)
            paths = tuple(self.at.short(path) for path in self._documents_of(member) if path in self.available)
            edits.append(partial(shared_memory.merged, member=member, step=of, memory=memory, documents=paths))
            if lessons:
                edits.append(partial(shared_memory.learned, member=member, step=of, memory=memory))
        if prune is not None:
            edits.append(partial(shared_memory.pruned, phase=prune))
        await self.remember(*edits)
        self.run.note("memory.merged", members=[name for name, memory in memories.items() if memory], pruned=prune)

    def _documents_of(self, member: str) -> tuple[str, ...]:
        try:
            return (self.at.output(member),)
        except KeyError:
            return ()

    async def invalidate(self, members: Sequence[str], reason: str) -> None:
        await self.remember(partial(shared_memory.invalidated, members=frozenset(members), reason=reason))
        self.run.note("memory.invalidated", members=list(members), reason=reason)

    async def clean(self) -> None:
        """Remove what stayed invalidated; no mark is left behind."""
        await self.remember(shared_memory.cleaned)
        self.run.note("memory.cleaned")

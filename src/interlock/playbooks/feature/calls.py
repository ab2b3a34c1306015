"""The agents of one feature at work: how they are called, what comes back, and the books that are kept of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from interlock.contracts import ArtifactClass, Outcome, Reason
from interlock.engine import Report, Run
from interlock.playbooks.feature.briefs import Brief, does_a_task
from interlock.playbooks.feature.decisions import Said
from interlock.playbooks.feature.layout import Layout
from interlock.playbooks.feature.members import Members
from interlock.playbooks.feature.memory_file import MemoryFile, parse_memory
from interlock.playbooks.feature.shared_memory import private_memories


@dataclass(frozen=True)
class Returned:
    """One return of one agent, with what the journal's own telemetry does not know."""

    key: str
    agent: str
    step: str
    pattern: str
    status: str
    retries: int
    failure: str = ""
    iteration: int = 1
    human: bool = False


@dataclass(frozen=True)
class ClusterSummary:
    step: str
    cluster: str
    dispatched: int
    errors: int
    outcome: str


@dataclass(frozen=True)
class Heard:
    """What came back from one call."""

    brief: Brief
    report: Report
    said: Said
    before: Heard | None = None
    """The call before this one, which was in vain because somebody edited the same documents meanwhile."""

    @property
    def member(self) -> str:
        return self.brief.name

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

    @property
    def returned(self) -> Returned:
        brief, report = self.brief, self.report
        retries = report.tries - 1 + brief.again
        said = (brief.pattern, self.said.value, retries, self.why, brief.round, brief.human)
        return Returned(report.key, self.member, brief.step, *said)


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


@dataclass
class Calls:
    """All calls of one run."""

    run: Run
    at: Layout
    members: Members
    available: set[str] = field(default_factory=set)
    """Documents that agents produced in this run."""
    returns: list[Returned] = field(default_factory=list)
    clusters: list[ClusterSummary] = field(default_factory=list)
    lasting: list[str] = field(default_factory=list)
    """Errors that stayed after the retries; the final report lists them."""
    remarks: list[str] = field(default_factory=list)
    """What the final report says beside the result."""
    person_acted: bool = False
    """A person decided since the last call."""
    decided: Counter[str] = field(default_factory=Counter)
    """How often each cluster was decided: one in red, one in green, one in red are three (EV-11)."""

    async def alone(self, brief: Brief) -> Heard:
        """One agent by itself."""
        await self.clear([brief.name])
        return self._book(await self.call(self._prepared(brief)))

    async def together(self, name: str, briefs: Iterable[Brief], pattern: str, round: int) -> dict[str, Heard]:
        """Side by side; each error retried by its dispatch; all awaited."""
        calls = [self._prepared(replace(brief, pattern=pattern, round=round)) for brief in briefs]
        await self.clear([brief.name for brief in calls])
        heard = await self.run.cluster(name, {brief.name: partial(self.call, brief) for brief in calls})
        for one in heard.values():  # in declared order, never in order of arrival
            self._book(one)
        return heard

    async def call(self, brief: Brief) -> Heard:
        """One agent, with its retries. Whose document somebody edited meanwhile is asked once more; a task whose code
        somebody changed has failed, and the planner sees to it."""
        heard = await self._once(brief)
        if not heard.report.conflicts or does_a_task(brief.name):
            return heard
        failure = "\n\n".join(filter(None, (brief.failure, conflict_told(heard.report))))
        return replace(await self._once(replace(brief, failure=failure, again=brief.again + 1)), before=heard)

    async def _once(self, brief: Brief) -> Heard:
        """One dispatch; what it returned is recorded at once."""
        report = await self.run.dispatch(brief)
        heard = Heard(brief, report, said_of(report, self.at.mem(brief.name)))
        facts = vars(heard.returned)
        self.run.note("agent.returned", **{name: value for name, value in facts.items() if name != "key"})
        for path in report.foreign:
            self.run.warn(f"{brief.name} changed {self.at.short(path)}; only the orchestrator may. Not taken over.")
        for flag in self._alarms(brief.name, report):
            self.run.note("security.flag", severity="critical", agent=brief.name, finding=flag)
            self.run.warn(f"severity: critical — {brief.name}: {flag}")
        return heard

    def _alarms(self, member: str, report: Report) -> tuple[str, ...]:
        """Security problems that an agent's memory reports, by its severity or by a finding of that kind."""
        path, row = self.at.mem(member), self.members.row(member)
        if path not in report.artifacts:
            return ()
        memory = parse_memory(report.text(path))
        if row is not None and row.alarms and row.words.understood(memory.severity) == row.words.worst:
            return memory.findings[:1] or (f"highest severity {memory.severity}",)
        return memory.security_flags

    def _prepared(self, brief: Brief) -> Brief:
        if brief.missing:
            self.run.note("context.missing", agent=brief.name, paths=list(brief.missing))
        return replace(brief, human=self.person_acted)

    def _book(self, one: Heard) -> Heard:
        """Take a return into the books."""
        if one.before is not None:
            self._book(one.before)
        self.person_acted = False
        row, report = self.members.row(one.member), one.report
        if one.said is not Said.ERROR or (row is not None and row.proves):  # what a verifier saw helps the planner
            self.available |= set(report.artifacts)
        self.returns.append(one.returned)
        self.lasting += filter(None, [one.why])
        self.remarks += report.noticed
        return one

    def summarize(self, step: str, cluster: str, heard: Mapping[str, Heard], outcome: str, number: int = 1) -> None:
        errors = sum(one.said is Said.ERROR for one in heard.values())
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

    async def memories(self, heard: Mapping[str, Heard]) -> dict[str, MemoryFile | None]:
        """Their private memories; of one that nobody can read, that it says nothing."""
        found = await private_memories(self.run, self.at, heard)
        return {name: MemoryFile() if heard[name].misread else memory for name, memory in found.items()}


def failed_keys(heard: Mapping[str, Heard]) -> list[str]:
    return [one.report.key for one in heard.values() if one.said is Said.ERROR]


def reasons(heard: Mapping[str, Heard]) -> str:
    return "; ".join(one.why for one in heard.values() if one.why) or "no usable memory"

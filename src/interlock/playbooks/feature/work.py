"""A feature under way: who was asked, what they left, what became of it.

All of it is made anew by replay.  Members side by side only ask; what follows from their answers is taken down when all
are back, in declared order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from interlock.engine.run import Call, Command, Outcome, Proved, Report, Run, Stop
from interlock.playbooks.feature import answers, members, memory
from interlock.playbooks.feature.answers import Answer, Judged, Reviewer
from interlock.playbooks.feature.decisions import AT_ONCE, FLOOR, LOST, Kind, Said, Verdict
from interlock.playbooks.feature.members import Agent
from interlock.playbooks.feature.memory import Shared
from interlock.playbooks.feature.plan import Task

PRUNED = ("1.1", "2", "4")
"""Steps behind which the shared memory is pruned (FT-113)."""


@dataclass(frozen=True)
class Heard:
    """One dispatch, and what it came to."""

    agent: Agent
    member: str
    report: Report
    form: Answer | None
    """None: it ended in ERROR, or gave nothing usable."""
    human: bool
    """A person's word led to it."""
    ended: str
    """When."""

    @property
    def fault(self) -> str:
        """Why it gave nothing, in a line."""
        said = f"{self.form.status}: {self.form.summary}" if self.form else ""
        return "; ".join(self.report.complaint.splitlines()) or self.report.reason or said

    @property
    def why(self) -> str:
        return f"{self.member}: {self.fault}"

    @property
    def said(self) -> Said:
        return Said(self.form.status) if self.form else Said.ERROR

    @property
    def unread(self) -> bool:
        """The memory without which it counts as ERROR is missing, or malformed (FT-57)."""
        if self.form or not self.agent.remembers:
            return isinstance(self.form, Judged) and not self.form.severity
        answered = self.report.reason in ("unusable", "error", "no verdict")
        return not answered or f"/{self.member}.mem.md" in self.report.complaint

    @property
    def contradicted(self) -> Sequence[str]:
        """It passes, and what it wrote beside it, or what runs, says this."""
        ruling = self.report.ruling
        return ruling.against if ruling and ruling.said and not ruling.passes else ()

    @property
    def verdict(self) -> Verdict:
        """What of a judge's answer decides; its word counts no more than what it wrote beside it (FT-156)."""
        form, kind, said = self.form, self.agent.kind, self.said
        if not isinstance(form, Judged):
            return replace(LOST, conflict=self.report.reason == "conflict")
        severity = kind.worse(form.severity)
        if self.contradicted or (kind is Kind.CRITIC and said is Said.NEEDS_REVISION):
            severity = kind.worse(severity, FLOOR[kind], *(one.severity for one in form.grave()))
        if kind is Kind.VERIFIER and kind.against(severity):
            said = Said.NEEDS_REVISION
        return Verdict(said, severity)

    @property
    def against(self) -> bool:
        return self.verdict.said is not Said.DONE or self.agent.kind.against(self.verdict.severity)

    @property
    def findings(self) -> list[str]:
        """What it has found, in a line each; of one that passes only what it graded."""
        if not isinstance(self.form, Judged):
            return []
        unread = [] if self.form.severity else ["its memory has no severity that can be read: treated as the worst"]
        found = [*map(str, self.form.findings)] or (self.form.listed("Key Findings") if self.against else [])
        return [*unread, *found, *self.contradicted]

    @property
    def grave(self) -> list[str]:
        """What of it binds who comes next, if it is against the work (FT-70)."""
        if not isinstance(self.form, Judged) or not self.against:
            return []
        return [*map(str, self.form.grave())] or self.findings or [self.verdict.severity]


@dataclass
class Progress:
    """How a task stands."""

    state: str = "was not begun"
    tried: int = 0
    left: str = ""
    """The patch with what it had changed when it failed."""

    @property
    def done(self) -> bool:
        return self.state == "done"


@dataclass
class Work:
    """Everything that the process knows."""

    run: Run
    inputs: Any
    commands: list[Command] = field(default_factory=list)
    there: set[str] = field(default_factory=set)
    """The documents of this run, by their path below the feature's folder."""
    heard: list[Heard] = field(default_factory=list)
    said: dict[str, Heard] = field(default_factory=dict)
    """The last word of each, by name, until it is asked again or its cluster begins anew."""
    clusters: list[dict[str, Any]] = field(default_factory=list)
    """Rows of the telemetry's summaries."""
    rounds: Counter[str] = field(default_factory=Counter)
    """Of each cluster, and of plans."""
    tasks: dict[str, Task] = field(default_factory=dict)
    progress: dict[str, Progress] = field(default_factory=dict)
    proved: list[Proved] = field(default_factory=list)
    constraints: str = ""
    """What the critics found and the design leaves open."""
    flaws: list[str] = field(default_factory=list)
    """What makes a reviewed run a degraded one."""
    errors: list[str] = field(default_factory=list)
    """Lasting ones, and work that changed nothing."""
    undelivered: str = ""
    """Why accepted work could not come into the tree."""
    verified: Said = Said.ERROR
    old: frozenset[str] = frozenset()
    """Entries of the shared memory that an earlier run left."""
    replans: int = 0
    fixed: bool = False
    replanned: bool = False
    confirmed: bool = False
    decided: str = ""
    """The scope of what decides the end, so far: a resume begins there."""
    unwritten: list[memory.Edit] = field(default_factory=list)

    @property
    def slug(self) -> str:
        return str(self.inputs.name)

    def at(self, path: str) -> str:
        return f"docs/feature/{self.slug}/{path}"

    # --- agents

    async def ask(
        self,
        agent: Agent,
        *,
        member: str = "",
        again: int = 1,
        human: bool = False,
        reads: Sequence[str] | None = None,
        leaves: Sequence[str] = (),
        writes: tuple[str, ...] = (),
        check: Callable[[Any], list[str]] = lambda given: [],
        samples: Mapping[str, str] | None = None,
        texts: Mapping[str, Any] | None = None,
        criteria: Mapping[str, str] | None = None,
        **inputs: Any,
    ) -> Heard:
        """One agent does one thing.

        Args:
            reads: in place of what it usually reads.
            leaves: globs of further documents that it may leave.
            check: what else is wrong with what it left.
        """
        run, kind, member = self.run, agent.kind, member or agent.name
        private, artifact = self.at(f"memory/{member}.mem.md"), self.at(agent.artifact) if agent.artifact else ""
        evaluation = self.at(f"artifact-evaluations/{member}.md")
        await self.clear(agent, member)
        revised = agent.artifact in self.there and not kind.judges
        must = [*([artifact] if artifact and not revised else []), *([private] if agent.remembers else [])]
        may = [path for path in (artifact, private, *leaves, evaluation) if path and path not in must]
        found, missing = members.resolved((*(agent.reads if reads is None else reads), members.MEMORY), self.there)
        words = {"kind": kind.value, "words": kind.words}
        facts = {"artifact": artifact, "private": private, "missing": [*map(self.at, missing)], **words, **inputs}
        known = {"member": member, "criteria": criteria or {}, "feature": self.at("").rstrip("/"), **(texts or {})}
        ending = run.fill("ending", **facts, **known, revises=agent.revises, evaluation=evaluation)
        proved = self.proved if kind is Kind.VERIFIER else []
        if agent.name != "v-tests":  # who says why a weakened test is right
            proved = [one.model_copy(update={"weak": None}) for one in proved]
        call = Call(
            replace(
                agent.row,
                outputs=tuple(must),
                may=tuple(may),
                writes=writes,
                read=partial(answers.answer, agent, memory=private, artifact=artifact, check=check),
                title=f"step {agent.step}: {member}",
            ),
            member=member,
            inputs=facts,
            texts={**known, "ending": ending},
            reads=tuple(map(self.at, (members.REQUEST, *found))),
            criteria=tuple(criteria or ()),
            request=self.inputs.request,
            samples={private: "", **self._sample(agent, artifact, again), **(samples or {})},
            attempt=again,
            proved=tuple(proved),
        )
        report = await run.dispatch(call)
        if report.reason == "conflict" and report.calls:  # its own documents: once more on what the person wrote
            report = await run.dispatch(call)
        form = agent.form.model_validate(report.form) if report.ok and report.form is not None else None
        calls = [one for one in run.view.calls.values() if one.member == member and one.ended]
        ends = [one.ended.isoformat() for one in calls if one.ended]
        heard = Heard(agent, member, report, form, human, ended=ends[-1] if ends else "")
        wrong = [line for one in (calls[-1].tries if calls else ()) for line in one.complaint.splitlines()]
        wrong += report.complaint.splitlines()
        flags = [line.removeprefix(answers.FLAG) for line in wrong if line.startswith(answers.FLAG)]
        for flag in dict.fromkeys([*flags, *(form.listed("Security Flags") if form else ())]):
            run.warn(f"severity: critical: {member}: {flag}")
        if isinstance(form, Reviewer) and form.severity == "Critical":
            run.warn(f'{member}: severity "Critical" is not in Blocker/Major/Minor; treated as Blocker')
        if member in ("ct-security", "r-security") and heard.verdict.severity == kind.words[-1]:
            run.warn(f"severity: critical: {member}: {'; '.join(heard.findings)}")
        return heard

    async def clear(self, agent: Agent, member: str = "") -> None:
        """What an earlier round left is moved aside: it cannot count for this one (FT-58)."""
        member = member or agent.name
        self.said.pop(member, None)
        goes = [f"memory/{member}.mem.md"]
        if agent.artifact and (agent.kind.judges or agent.artifact not in self.there) and agent.artifact != "plan.md":
            goes.append(agent.artifact)
        for path in goes:
            await self.run.set_aside(self.at(path))
            self.there.discard(path)

    def _sample(self, agent: Agent, artifact: str, again: int) -> dict[str, str]:
        """An artifact that would do, for who plays by script; of a judge it follows from the form."""
        criteria = "\n## Acceptance Criteria\n\n- AC-1: it works\n" if agent.artifact == "feature.md" else ""
        text = f"# {agent.name}\n\nRound {again}, after {len(self.heard)} others.\n{criteria}"
        return {artifact: "" if agent.kind.judges else text} if artifact else {}

    async def together(self, name: str, asked: Mapping[str, Callable[[], Awaitable[Heard]]]) -> dict[str, Heard]:
        """Members side by side, at most four at a time (FT-12); one by itself is a group of one."""
        came = await self.run.together(name, asked, cap=AT_ONCE)
        for one in came.values():
            self._take(one)
        return came

    async def alone(self, agent: Agent, **asked: Any) -> Heard:
        heard = await self.ask(agent, **asked)
        self._take(heard)
        return heard

    def _take(self, one: Heard) -> None:
        self.heard.append(one)
        self.said[one.member] = one
        self.there |= {path.removeprefix(self.at("")) for path in one.report.paths if path.startswith(self.at(""))}
        self.errors += [one.why] if one.form is None else []

    def last(self, agents: Sequence[Agent]) -> dict[str, Heard]:
        """The last word of each of these that holds, by name, in declared order."""
        return {one.name: self.said[one.name] for one in agents if one.name in self.said}

    # --- memory

    async def settle(self, step: str, cluster: str, heard: Mapping[str, Heard], result: Said, words: str = "") -> None:
        """Take a cluster's decision down, and merge what its members remember behind it."""
        lost = sum(one.form is None for one in heard.values())
        row = {"Step": step, "Cluster": cluster, "Dispatched": len(heard), "Errors": lost, "Outcome": result.value}
        self.clusters.append(row)
        self.rounds[cluster] += 1
        # Equal entries are one: a later decision has its number.
        again = f" Decision {n}." if (n := self.rounds[cluster]) > 1 else ""
        log = f"{cluster.upper()} cluster decision: {words}, result: {result}.{again}" if words else ""
        await self.merge(step, heard.values(), log, again)

    async def merge(self, step: str, heard: Collection[Heard], log: str = "", again: str = "") -> None:
        """Private memories into the shared one, in declared order, behind the orchestrator's own words (FT-09)."""
        warnings, entries = list[memory.Edit](), list[memory.Edit]()
        for one in heard:
            if one.unread:
                warned = f"WARNING: memory/{one.member}.mem.md missing/malformed — treating as worst-case.{again}"
                warnings.append(partial(Shared.log, step=step, words=warned))
            if one.form and one.form.memory:
                merge = partial(Shared.merge, agent=one.member, step=one.agent.step, memory=one.form.memory)
                entries.append(partial(merge, lessons=step == "5.2"))
            elif one.form:
                self.run.warn(f"memory/{one.member}.mem.md is missing")
        edits: list[memory.Edit] = [*warnings, *([partial(Shared.log, step=step, words=log)] if log else []), *entries]
        if step in PRUNED:
            edits.append(partial(Shared.prune, phase=int(step[0]), old=self.old))
            self.old = frozenset()  # equal entries of this run stay
        await self.remember(*edits, Shared.clean)

    async def remember(self, *edits: memory.Edit) -> None:
        """One writing of the shared memory; trouble with it never stops the run (FT-10), and what could not be written
        goes with the next one."""
        path, every = self.at(members.MEMORY), [*self.unwritten, *edits]
        wrote = await self.run.change(path, lambda text: memory.edited(text, every), may_fail=True)
        self.unwritten = every if wrote.state == "failed" else []
        if self.unwritten:
            self.run.warn(f"{path} cannot be written: {wrote.why}; the run goes on")

    async def invalidate(self, agents: Collection[str], why: str) -> None:
        """What these agents left in it no longer holds, until they are heard again."""
        await self.remember(partial(Shared.invalidate, agents=agents, reason=why))

    # --- the work itself

    @property
    def finished(self) -> bool:
        return all(one.done for one in self.progress.values())

    @property
    def against(self) -> list[str]:
        """What the engine itself knows against the work: tasks that are not done, red commands, a conflict."""
        unfinished = [f"task {name} {one.state}" for name, one in self.progress.items() if not one.done]
        return [*self.run.against(self.proved), *unfinished, *([self.undelivered] if self.undelivered else [])]

    def halted(self, reason: str) -> Stop:
        """An agent or a cluster failed for good: the run ends, and a resume does this step again."""
        return Stop(self.stopped(reason, f"ERROR: {reason}\n", exit=5))

    def stopped(self, reason: str, output: str = "", **more: Any) -> Outcome:
        """The end from which a resume goes on here, or at `again`."""
        more = {"again": self.run.scope, "next": f"interlock resume {self.run.id}", **more}
        return Outcome.stopped(reason, output, **more)

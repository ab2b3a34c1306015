"""What each agent is told: its task, its inputs by explicit path, what it must leave behind, what it may change.

The role says how an agent works; the brief carries everything that belongs to this run.  That of a member of a cluster
follows from its row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from interlock.contracts import Artifact, Contract, Custom, Headings
from interlock.engine import Changed, Dispatch, Kind, Prompt, Proof, Quoted, Retries, fenced
from interlock.playbooks.feature.findings import claim_of
from interlock.playbooks.feature.layout import FEATURES, Layout
from interlock.playbooks.feature.members import ANYBODY, CHANGES, POST_MORTEM, TASKS, Member, TaskAgent
from interlock.playbooks.feature.memory_file import blank_memory, parse_memory, sample_memory
from interlock.playbooks.feature.plan import Task, sample_plan, sample_task

RETRIES = Retries(transient=2, contract=1, error=1, shared=True)
NO_RETRY = Retries(transient=2, contract=1, error=0, shared=True)
"""An ERROR of an implementer is answered by a replan, that of whoever decides nothing by nothing."""
ONCE = Retries(transient=2, contract=0, error=0, shared=True)
"""The planner: its plan is checked as a whole, so the playbook itself asks again."""
ALONE_S, MEMBER_S, TASK_S = 1800.0, 3600.0, 7200.0

NOT_RUN = "# Title\n\nNothing to run: this verifier is scripted, and was told of no command.\n"
NOT_CHANGED = "\nNo change: this agent is scripted, and was told of none.\n"
EVIDENCE = (
    "Your report shows what you ran, one line each: the command as code and how it ended, as in `make build`: exit 0. "
    "What is meant to fail is run so that its failing is exit 0 (`! command`). Where there is nothing to run, a line "
    "`Nothing to run: <why>` says so. A pass without any of these is asked for anew; a pass over a command that ended "
    "otherwise, or over a FAIL of your own, counts as the opposite."
)
NOT_APPROVED = (
    "A person looked at the research and does not approve of it yet; what they said stands above. `{}` and the other "
    "documents of the last round are in place. Go over yours again with their words in mind and write it and your "
    "private memory anew; what they do not concern may stay as it is."
)


@dataclass(frozen=True)
class Brief(Dispatch):
    """A dispatch, the documents that its agent must do without, and what the telemetry says of it."""

    missing: tuple[str, ...] = ()
    pattern: str = "sequential"
    round: int = 1
    again: int = 0
    """Calls for the same before this one."""
    human: bool = False
    """A person decided since the call before."""


def to_act_on(title: str, lead: str, text: str) -> str:
    """A part of the brief that holds the words of others and still is what the agent must deal with; they stand in a
    fence that they cannot close."""
    return fenced(Quoted(title, text.strip(), "markdown"), lead)


def proven(proofs: Sequence[Proof]) -> tuple[str | Quoted, ...]:
    """What the engine found by running the commands that a person named, with the end of what a red one printed."""
    if not proofs:
        return ()
    lines = "\n".join(f"- {one.shown}" for one in proofs)
    red = [Quoted(f"Output of {one.command}", one.tail) for one in proofs if not one.ok and one.tail]
    return (f"### Run by the engine on this tree\n\nThese results stand, whatever else is found:\n\n{lines}", *red)


def unreadable(row: Member, text: str) -> str | None:
    """What is wrong with a private memory from which something is decided; those of others are read as they are."""
    if not row.weighed or row.words.understood(parse_memory(text).severity):
        return None
    return f"`## Highest Severity` must be one of {', '.join(row.words.all)}"


def does_a_task(name: str) -> bool:
    return name.startswith(tuple(f"{one}-" for one in TaskAgent))


@dataclass(frozen=True)
class JudgesFacts:
    """What the engine tells judges of the work, as far as their rows say that they read it."""

    tasks: tuple[str, ...] = ()
    state: str = ""
    """How each task stands."""
    proofs: tuple[Proof, ...] = ()
    """How the commands that a person named ended on the tree as it is."""
    tier: str = ""
    changed: Changed = field(default_factory=Changed)


NOTHING = JudgesFacts()


@dataclass(frozen=True)
class Briefs:
    """Makes briefs for one feature; `available` are the documents that were really produced."""

    at: Layout
    available: Collection[str]
    memory_works: bool = True

    def member(self, row: Member, known: JudgesFacts = NOTHING, *, step: str = "") -> Brief:
        """The brief that follows from a row."""
        at = self.at
        paths: list[str] = []
        told: list[str | Quoted] = []
        for path in row.reads:
            if path == TASKS:
                paths += map(at.task, known.tasks)
                lead = "A task that failed or is pending is not done, whatever the code looks like:"
                told.append(to_act_on("Tasks so far", lead, known.state))
            elif path == CHANGES:
                paths += filter(None, [known.changed.patch])
                listed = "\n".join(known.changed.paths[:500]) or "nothing"
                told.append(Quoted(f"Changed files ({known.changed.lines} lines)", listed))
            else:
                paths.append(at.at(path))
        task = Prompt.of(
            row.prompt,
            output=at.at(row.document),
            about=row.about,
            focus=row.aspect,
            tier=known.tier,
            suggestions=at.suggestions,
            decisions=at.decisions,
        )
        brief = self._brief(
            row.role or row.name,
            task,
            paths,
            member=row.name,
            row=row,
            step=step or ("6.1" if row.gate else row.cluster.called),
        )
        return replace(brief, context=(*brief.context, *told, *proven(known.proofs)))

    def researcher(self, row: Member, *, again: bool) -> Brief:
        """`again`: a person did not approve the research, and says why, which may not concern this one."""
        brief, output = self.member(row), self.at.at(row.document)
        if not again:
            return brief
        own, *others = brief.contract.artifacts
        contract = replace(brief.contract, artifacts=(replace(own, fresh=False), *others))
        return replace(brief, contract=contract, failure=NOT_APPROVED.format(output))

    def spec(self, researchers: Sequence[str]) -> Brief:
        task = Prompt.of("spec", output=self.at.feature)
        return self._brief("spec", task, (*self._mems(researchers), *self._outputs(researchers)), step="2")

    def designer(self, researchers: Sequence[str], critics: Sequence[str] = ()) -> Brief:
        """`critics`: those who found something in the design, which is to be revised."""
        at = self.at
        mems = self._mems((*critics, "spec", *researchers))
        design = (*self._outputs(critics), at.design) if critics else ()
        task = Prompt.of("designer-revision" if critics else "designer", output=at.design)
        return self._brief("designer", task, (*mems, *design, at.feature, *self._outputs(researchers)), step="3")

    def planner(
        self, first_id: str, researchers: Sequence[str], critics: Sequence[str], constraints: str, failure: str
    ) -> Brief:
        """The first plan. `constraints`: findings of the critics that the revised design left open."""
        at = self.at
        critics = critics if constraints else ()
        paths = "\n".join(f"- `{path}`" for path in self._outputs(critics) if path in self.available)
        then = (f"The plan must respect the open findings of the critics below; they are from\n\n{paths}",)
        task = Prompt.of("planner", then=then if critics else (), output=at.plan, tasks=at.tasks, first=first_id)
        lead = "What the revised design left open. Each finding is met by a task, or the plan says why it cannot be:"
        told = (to_act_on("Planning constraints", lead, constraints),) if constraints else ()
        reads = (*self._mems(("designer", "spec", *critics)), at.design, at.feature)
        reads = (*reads, *self._outputs((*critics, *researchers)))
        return self._planner(task, reads, told, first_id, wave=1, fresh=not failure, failure=failure)

    def replanner(
        self,
        first_id: str,
        wave: int,
        judges: Sequence[str],
        known: JudgesFacts,
        *,
        why: Sequence[str],
        patches: Sequence[str],
        failure: str,
    ) -> Brief:
        """A plan for what is missing, from the memories of those who judged the work.

        Args:
            why: what speaks against the work beside what the judges wrote.
            patches: where the work of failed tasks lies, which is not in the tree.
        """
        at = self.at
        task = Prompt.of("planner-replan", output=at.plan, tasks=at.tasks, first=first_id, wave=wave)
        reads = (*self._mems((*judges, "designer", "spec")), *self._outputs(judges), at.plan)
        reads = (*reads, *map(at.task, known.tasks), at.design, at.feature, *patches)
        told: list[str | Quoted] = [to_act_on("Tasks so far", "What is not done has to be planned:", known.state)]
        if why:
            against = "\n".join(f"- {one}" for one in why)
            told.append(to_act_on("Why the work does not count yet", "The plan deals with each point:", against))
        told += proven(known.proofs)
        return self._planner(task, reads, told, first_id, wave=wave, fresh=False, failure=failure)

    def _planner(
        self,
        task: Prompt,
        reads: Sequence[str],
        told: Sequence[str | Quoted],
        first_id: str,
        *,
        wave: int,
        fresh: bool,
        failure: str,
    ) -> Brief:
        """`fresh`: there is no plan yet; a later one may differ in its task files alone."""
        at = self.at
        plan = Artifact(at.plan, structure=Custom(lambda _text: None, sample_plan(wave, first_id)), fresh=fresh)
        first = Artifact(
            at.task(first_id),
            required=False,
            structure=Custom(lambda _text: None, sample_task(first_id)),
            fresh=False,
            sampled=True,
            beside=at.plan,
        )
        brief = self._brief("planner", task, reads, step="4", outputs=(plan, first))
        context = (*brief.context, *told)
        return replace(brief, context=context, writes=(f"{at.tasks}/*.md",), retries=ONCE, failure=failure)

    def worker(self, task: Task, findings: str = "", reviews: Sequence[str] = ()) -> Brief:
        """An implementer or documentation writer with its task, or with what the reviewers found in its work."""
        at = self.at
        prompt = Prompt.of("fix" if findings else task.worker, task_id=task.id, task_file=at.task(task.id))
        reads = (at.task(task.id), at.feature, at.design, *self._mems(("planner", "designer")), *self._outputs(reviews))
        brief = self._brief(task.worker, prompt, reads, member=task.member, step="7.4" if findings else "5.2")
        lead = "What the reviewers found in this work. Settle each of them, or show that it does not hold:"
        told = (to_act_on("Findings", lead, findings),) if findings else ()
        return replace(
            brief,
            context=(*brief.context, *told),
            writes=(*(task.files or ("**",)), f"!{FEATURES}/**", "!.git/**"),
            retries=NO_RETRY if task.worker is TaskAgent.IMPLEMENTER else None,
            timeout_s=TASK_S,
        )

    def post_mortem(self, run_date: str, telemetry: str, outcome: str) -> Brief:
        at = self.at
        documents = (at.post_mortem(run_date), at.run_log(run_date))
        task = Prompt.of(
            POST_MORTEM,
            slug=at.slug,
            run_date=run_date,
            output=documents[0],
            run_log=documents[1],
            memories=at.memories,
            evaluations=at.evaluations,
            outcome=outcome,
            telemetry=telemetry,
        )
        outputs = tuple(Artifact(path, structure=Headings()) for path in documents)
        return replace(self._brief(POST_MORTEM, task, step="8", outputs=outputs), retries=NO_RETRY)

    # -- what all briefs share

    def _brief(
        self,
        agent: str,
        task: Prompt,
        reads: Sequence[str] = (),
        *,
        step: str,
        member: str = "",
        row: Member = ANYBODY,
        outputs: tuple[Artifact, ...] | None = None,
    ) -> Brief:
        name = member or agent
        wanted = tuple(dict.fromkeys(reads))
        always = (self.at.request, *((self.at.memory,) if self.memory_works else ()))
        # Documents count when they were produced; a task file or a patch is known to be there.
        known = (f"{self.at.tasks}/", ".interlock/")
        there = tuple(path for path in wanted if path in self.available or path.startswith(known))
        gone = tuple(path for path in wanted if path not in there)
        lines = "\n".join(f"- Not available: `{one}`" for one in gone)
        lacking = (f"Not available; go on with what there is:\n{lines}",) if gone else ()
        return Brief(
            agent,
            task,
            self._contract(name, row, outputs),
            inputs=(*always, *there),
            context=(*lacking, self._memory_form(name, row)),
            rules=self._rules(name, row),
            member=name,
            step=step,
            kind=Kind.JUDGE if row.judges else Kind.PRODUCER,
            timeout_s=ALONE_S if row is ANYBODY else MEMBER_S,
            retries=NO_RETRY if row.judges and not row.weighed else None,
            missing=gone,
        )

    def _contract(self, name: str, row: Member, outputs: tuple[Artifact, ...] | None) -> Contract:
        at, report, mem = self.at, self.at.output(name), self.at.mem(name)
        works = does_a_task(name)
        if outputs is None:
            own = Artifact(report, structure=Custom(Headings().problem, NOT_RUN) if row.proves else Headings())
            # What a member only adds to is appended by the engine: people write there too.
            grows = (Artifact(at.at(one), structure=Headings(), fresh=False, imported=False) for one in row.grows)
            outputs = () if works else (own, *grows)
        sample = sample_memory(name, row.words.all[-1], more=NOT_CHANGED if works else "")
        memory = Artifact(
            mem,
            required=row is not ANYBODY,
            structure=Custom(lambda text: unreadable(row, text), sample),
            sampled=True,
        )
        evaluation = Artifact(at.evaluation(name), required=False, fresh=False)
        claim = claim_of(row, report, mem) if row.weighed else None
        return Contract((*outputs, memory, evaluation), row.answers, claim=claim, must_change=works)

    def _memory_form(self, name: str, row: Member) -> str:
        statuses = " or ".join(token for token in row.answers.tokens if token not in row.answers.unsaid)
        form = blank_memory(name, statuses, " or ".join(row.words.all), row.asks)
        return f"### Form of your private memory\n\nOne of the words stands where `<...>` is.\n\n```markdown\n{form}```"

    def _rules(self, name: str, row: Member) -> tuple[str, ...]:
        at = self.at
        said = [
            "Read private memories first; they and the index of the shared memory say which sections of larger "
            "documents matter. What your role says you read whole, you read whole."
            if self.memory_works
            else "There is no shared memory: read the documents.",
            "An entry of the shared memory that is marked `[INVALIDATED` is old: it holds no longer.",
            f"Write your private memory to `{at.mem(name)}` in the form shown; it is the only memory you write. "
            f"`{at.memory}` belongs to the engine.",
            "At most 3 tries of your own at whatever fails; what fails in the same way is not tried again.",
            "A security problem is flagged by a key finding that begins with `security:`.",
            f"If a document you were given was good or bad in a way worth knowing, rate it in "
            f"`{at.evaluation(name)}` (a YAML list: artifact, author, usefulness, clarity, missing, wrong); else "
            "leave that file out.",
        ]
        if row.judges:
            said.append(f"`## Highest Severity` is one of {', '.join(row.words.all)}; any other is asked for anew.")
        if row.proves:
            said.append(EVIDENCE)
        elif row.weighed:
            said.append("Your verdict goes with your gravest finding; a clean one over it counts as the opposite.")
        if does_a_task(name):
            said.append("If nothing needs changing, your answer says why, in a line `No change: <reason>`.")
        return tuple(said)

    def _mems(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(self.at.mem, names))

    def _outputs(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(self.at.output, names))

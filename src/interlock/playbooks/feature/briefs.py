"""What each agent is told: its task, its inputs by explicit path, what it must leave behind, what it may change.

The role says how an agent works; the brief carries everything that belongs to this run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from interlock.contracts import PLAIN, AnswerFormat, Artifact, Contract, Custom, Headings, Outcome
from interlock.engine import Changed, Dispatch, Kind, Proof, Quoted, Retries
from interlock.playbooks.feature.claims import reader
from interlock.playbooks.feature.decisions import FOREIGN_BLOCKER, Grade, Severity, Tier, Verdict
from interlock.playbooks.feature.layout import (
    CRITICS,
    FEATURES,
    POST_MORTEM,
    R_KNOWLEDGE,
    R_SECURITY,
    RESEARCHERS,
    REVIEWERS,
    V_BUILD,
    VERIFIERS,
    Layout,
    TaskAgent,
)
from interlock.playbooks.feature.memory_file import blank_memory, parse_memory, sample_memory
from interlock.playbooks.feature.plan import Task, sample_plan, sample_task

RETRIES = Retries(transient=2, contract=1, error=1, shared=True)
NO_RETRY = Retries(transient=2, contract=1, error=0, shared=True)
"""An ERROR of an implementer is answered by a replan, that of a post-mortem by nothing."""
ONCE = Retries(transient=2, contract=0, error=0, shared=True)
"""The planner: its plan is checked as a whole, so the playbook itself asks again."""

REVISION = "NEEDS_REVISION"
DONE_OR_ERROR = AnswerFormat(
    {"DONE": Outcome.OK, REVISION: Outcome.FAIL, "ERROR": Outcome.FAIL}, "DONE", unsaid=(REVISION,), completion="line"
)
"""Agents that judge nothing: a wish for revision is an error of theirs."""
BY_SEVERITY = replace(PLAIN, unsaid=(REVISION,))
"""Judges whose severity is the verdict; a wish for revision is understood all the same."""

RESEARCH_S, PLANNING_S, IMPLEMENTATION_S, REVIEW_S, OTHER_S = 3600.0, 1800.0, 7200.0, 3600.0, 1800.0

ABOUT: Mapping[str, str] = {
    "architecture": "How the code is built where the feature touches it: parts, boundaries, data flow, entry points.",
    "impact": "What the feature will change or break: callers, data, interfaces, users, operations, tests.",
    "dependencies": "What the feature can build on: libraries at hand and their versions, services, internal modules.",
    "patterns": "How things of this kind are done here: conventions, comparable features, test styles, error handling.",
    "ct-security": "security. Trust boundaries, input, secrets, permissions, what an attacker would try.",
    "ct-scalability": "scalability. Load, data growth, concurrency, latency, cost, what gives way first.",
    "ct-maintainability": "maintainability. Clear parts, coupling, testability, what the next change will cost.",
    "ct-strategy": "strategy. Whether this solves the request, simpler ways, what is missing, what is too much.",
    "r-quality": "quality. Correctness, clarity, error handling, consistency with the project, dead code.",
    R_SECURITY: "security. Whatever could be misused, leak or be bypassed. A Blocker stops the run.",
    "r-testing": "tests. Whether they would fail if the behaviour broke, what is untested, what is flaky.",
}
WORDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(CRITICS, tuple(Severity)),
    **dict.fromkeys(VERIFIERS, tuple(Verdict)),
    **dict.fromkeys(REVIEWERS, tuple(Grade)),
    R_KNOWLEDGE: (Grade.MAJOR, Grade.MINOR, Grade.NONE),
}
"""What may stand below `## Highest Severity`, worst first but for the verifiers."""
BEST: Mapping[str, str] = {
    **dict.fromkeys(CRITICS, Severity.LOW.value),
    **dict.fromkeys(VERIFIERS, Verdict.PASS.value),
    **dict.fromkeys(REVIEWERS, Grade.NONE.value),
}
"""What a player says who is told nothing else."""
MORE: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(CRITICS, ("## Medium Severity",)),
    **dict.fromkeys((*VERIFIERS, *REVIEWERS), ("## Affected Tasks",)),
    R_KNOWLEDGE: (),
}
NOT_RUN = "# Title\n\nNothing to run: this verifier is scripted, and was told of no command.\n"
NOT_CHANGED = "\nNo change: this agent is scripted, and was told of none.\n"
EVIDENCE = (
    "Your report shows what you ran, one line each: the command as code and how it ended, as in `make build`: exit 0. "
    "What is meant to fail is run so that its failing is exit 0 (`! command`). Where there is nothing to run, a line "
    "`Nothing to run: <why>` says so. A pass without any of these is asked for anew; a pass over a command that ended "
    "otherwise, or over a FAIL of your own, counts as the opposite."
)
JUDGES = frozenset({*CRITICS, *VERIFIERS, *REVIEWERS})
WEIGHED = JUDGES - {R_KNOWLEDGE}
"""Judges whose verdict decides something: it can be read, and their evidence bears it out."""
MUST_REMEMBER = frozenset({*RESEARCHERS, *JUDGES})
"""Members of clusters: without a private memory they have not answered."""


@cache
def prompt(name: str) -> str:
    return resources.files(__package__).joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")


def filled(name: str, **values: str) -> str:
    """The prompt with its placeholders replaced; braces in values stay as they are."""
    text = prompt(name)
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", value)
    return text


@dataclass(frozen=True)
class Brief(Dispatch):
    """A dispatch, and the documents that its agent must do without."""

    missing: tuple[str, ...] = ()


def to_act_on(title: str, lead: str, text: str) -> str:
    """A part of the brief that holds the words of others and still is what the agent must deal with; they stand in a
    fence that they cannot close."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"### {title}\n\n{lead}\n\n{fence}markdown\n{text.strip()}\n{fence}"


def proven(proofs: Sequence[Proof]) -> tuple[str | Quoted, ...]:
    """What the engine found by running the commands that a person named, with the end of what a red one printed."""
    if not proofs:
        return ()
    lines = "\n".join(f"- {one.shown}" for one in proofs)
    red = [Quoted(f"Output of {one.command}", one.tail) for one in proofs if not one.ok and one.tail]
    return (f"### Run by the engine on this tree\n\nThese results stand, whatever else is found:\n\n{lines}", *red)


def answer_of(member: str) -> AnswerFormat:
    """The words with which this agent may end."""
    if member in CRITICS or member == R_KNOWLEDGE:
        return BY_SEVERITY
    return PLAIN if member in JUDGES and member != V_BUILD else DONE_OR_ERROR


def unreadable(member: str, text: str) -> str | None:
    """What is wrong with a private memory from which something is decided; those of others are read as they are."""
    if member not in WEIGHED:
        return None
    severity = parse_memory(text).severity
    accepted = (*WORDS[member], *((FOREIGN_BLOCKER,) if member in REVIEWERS else ()))
    if severity.casefold() in (one.casefold() for one in accepted):
        return None
    return f"`## Highest Severity` must be one of {', '.join(WORDS[member])}"


@dataclass(frozen=True)
class Desk:
    """Makes briefs for one feature; `available` are the documents that were really produced."""

    at: Layout
    available: Collection[str]
    memory_works: bool = True

    # -- one agent each

    def researcher(self, focus: str, *, again: bool = False) -> Brief:
        """`again`: a person did not approve the research, and says why."""
        member = f"researcher-{focus}"
        output = self.at.output(member)
        task = filled("researcher", focus=focus, output=output, about=ABOUT[focus])
        document = Artifact(output, structure=Headings(), fresh=not again)  # the note may not concern this one
        brief = self._brief("researcher", task, member=member, step="1.1", outputs=(document,), timeout_s=RESEARCH_S)
        return replace(brief, failure=filled("researcher-again", output=output)) if again else brief

    def spec(self) -> Brief:
        task = filled("spec", output=self.at.feature)
        return self._brief("spec", task, self._mems(RESEARCHERS), self._outputs(RESEARCHERS), step="2")

    def designer(self) -> Brief:
        task = filled("designer", output=self.at.design)
        first = self._mems(("spec", *RESEARCHERS))
        return self._brief("designer", task, first, (self.at.feature, *self._outputs(RESEARCHERS)), step="3")

    def designer_revision(self) -> Brief:
        task = filled("designer-revision", output=self.at.design)
        first = self._mems((*CRITICS, "spec", *RESEARCHERS))
        then = (*self._outputs(CRITICS), self.at.design, self.at.feature, *self._outputs(RESEARCHERS))
        return self._brief("designer", task, first, then, step="3")

    def critic(self, name: str) -> Brief:
        task = filled("critic", output=self.at.output(name), about=ABOUT[name])
        return self._brief(name, task, (self.at.design, self.at.feature), step="3b.1", timeout_s=REVIEW_S)

    def planner(self, first_id: str, *, constraints: str = "", failure: str = "") -> Brief:
        """The first plan. `constraints`: findings of the critics that the revised design left open."""
        at = self.at
        task = filled("planner", output=at.plan, tasks=at.tasks, first=first_id)
        critics = CRITICS if constraints else ()
        if constraints:
            paths = "\n".join(f"- `{path}`" for path in self._outputs(CRITICS) if path in self.available)
            task += f"\nThe plan must respect the open findings of the critics below; they are from\n\n{paths}\n"
        then = (at.design, at.feature, *self._outputs(critics), *self._outputs(RESEARCHERS))
        mems = self._mems(("designer", "spec", *critics))
        spec = self._planner(task, mems, then, first_id, wave=1, fresh=not failure)
        lead = "What the revised design left open. Each finding is met by a task, or the plan says why it cannot be:"
        more = (to_act_on("Planning constraints", lead, constraints),) if constraints else ()
        return replace(spec, context=(*spec.context, *more), failure=failure)

    def replanner(
        self,
        first_id: str,
        wave: int,
        judges: Sequence[str],
        tasks: Sequence[str],
        *,
        state: str,
        why: Sequence[str] = (),
        proofs: Sequence[Proof] = (),
        patches: Sequence[str] = (),
        failure: str = "",
    ) -> Brief:
        """A plan for what is missing, from the memories of those who judged the work.

        Args:
            state: how each task stands.
            why: what speaks against the work beside what the judges wrote.
            proofs: how the commands that a person named ended on the tree as it is.
            patches: where the work of failed tasks lies, which is not in the tree.
        """
        at = self.at
        task = filled("planner-replan", output=at.plan, tasks=at.tasks, first=first_id, wave=str(wave))
        then = (*self._outputs(judges), at.plan, *map(at.task, tasks), at.design, at.feature, *patches)
        mems = self._mems((*judges, "designer", "spec"))
        spec = self._planner(task, mems, then, first_id, wave=wave, fresh=False)
        told = [to_act_on("Tasks so far", "What is not done has to be planned:", state)]
        if why:
            against = "\n".join(f"- {one}" for one in why)
            told.append(to_act_on("Why the work does not count yet", "The plan deals with each point:", against))
        return replace(spec, context=(*spec.context, *told, *proven(proofs)), failure=failure)

    def _planner(
        self, task: str, first: Sequence[str], then: Sequence[str], first_id: str, *, wave: int, fresh: bool
    ) -> Brief:
        """`fresh`: there is no plan yet; a later one may differ in its task files alone."""
        at = self.at
        outputs = (
            Artifact(at.plan, structure=Custom(lambda _text: None, sample_plan(wave, first_id)), fresh=fresh),
            Artifact(
                at.task(first_id),
                required=False,
                structure=Custom(lambda _text: None, sample_task(first_id)),
                fresh=False,
                sampled=True,
                beside=at.plan,
            ),
        )
        return self._brief(
            "planner",
            task,
            first,
            then,
            step="4",
            outputs=outputs,
            writes=(f"{at.tasks}/*.md",),
            timeout_s=PLANNING_S,
            retries=ONCE,
        )

    def worker(self, task: Task) -> Brief:
        """An implementer or documentation writer with its task."""
        text = filled(task.worker, task_file=self.at.task(task.id))
        return self._worker(task, text, step="5.2")

    def fixer(self, task: Task, findings: str, reviews: Sequence[str]) -> Brief:
        """The same, sent back with what the reviewers found in its work."""
        text = filled("fix", task_id=task.id, task_file=self.at.task(task.id))
        spec = self._worker(task, text, self._outputs(reviews), step="7.4")
        lead = "What the reviewers found in this work. Settle each of them, or show that it does not hold:"
        return replace(spec, context=(*spec.context, to_act_on("Findings", lead, findings)))

    def _worker(self, task: Task, text: str, more: Sequence[str] = (), *, step: str) -> Brief:
        at = self.at
        first = (at.task(task.id), at.feature, at.design, *self._mems(("planner", "designer")), *more)
        writes = task.files or ("**",)
        return replace(
            self._brief(task.worker, text, first, member=task.member, step=step, timeout_s=IMPLEMENTATION_S),
            writes=(*writes, f"!{FEATURES}/**", "!.git/**"),
            retries=NO_RETRY if task.worker is TaskAgent.IMPLEMENTER else RETRIES,
        )

    def verifier(self, name: str, tasks: Sequence[str], state: str, proofs: Sequence[Proof] = ()) -> Brief:
        at = self.at
        build = at.output("v-build")
        files = tuple(map(at.task, tasks))
        given: Mapping[str, tuple[str, ...]] = {
            "v-build": (at.feature, at.design, at.plan, *files),
            "v-tests": (build,),
            "v-tasks": (build, at.plan, *files),
            "v-feature": (build, at.feature),
        }
        task = filled(name, output=at.output(name))
        step = "6.1" if name == "v-build" else "6.2"
        spec = self._brief(name, task, given[name], step=step, timeout_s=REVIEW_S)
        lead = "A task that failed or is pending is not done, whatever the code looks like:"
        told = (to_act_on("Tasks so far", lead, state),) if name in ("v-build", "v-tasks") else ()
        return replace(spec, context=(*spec.context, *told, *proven(proofs)))

    def reviewer(self, name: str, tier: Tier, changed: Changed, *, step: str = "7.2") -> Brief:
        at = self.at
        if name == R_KNOWLEDGE:
            task = filled(
                name,
                tier=tier,
                output=at.output(name),
                suggestions=at.suggestions,
                decisions=at.decisions,
            )
            # Both live on and people write in them too: what it adds there is appended by the engine.
            grows = tuple(
                Artifact(path, structure=Headings(), fresh=False, imported=False)
                for path in (at.suggestions, at.decisions)
            )
            outputs = (Artifact(at.output(name), structure=Headings()), *grows)
            spec = self._brief(name, task, step=step, outputs=outputs, timeout_s=REVIEW_S)
            return replace(spec, retries=NO_RETRY)
        task = filled("reviewer", tier=tier, output=at.output(name), about=ABOUT[name])
        spec = self._brief(name, task, (changed.patch,) if changed.patch else (), step=step, timeout_s=REVIEW_S)
        listed = "\n".join(changed.paths[:500]) or "nothing"
        return replace(spec, context=(*spec.context, Quoted(f"Changed files ({changed.lines} lines)", listed)))

    def post_mortem(self, run_date: str, telemetry: str, outcome: str) -> Brief:
        at = self.at
        documents = (at.post_mortem(run_date), at.run_log(run_date))
        task = filled(
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
        task: str,
        first: Sequence[str] = (),
        then: Sequence[str] = (),
        *,
        step: str,
        member: str = "",
        outputs: tuple[Artifact, ...] | None = None,
        writes: tuple[str, ...] = (),
        timeout_s: float = OTHER_S,
        retries: Retries | None = None,
    ) -> Brief:
        name = member or agent
        wanted = tuple(dict.fromkeys((*first, *then)))
        always = (self.at.request, *((self.at.memory,) if self.memory_works else ()))
        there = tuple(path for path in wanted if self._is_there(path))
        gone = tuple(path for path in wanted if path not in there)
        return Brief(
            agent,
            task,
            self._contract(name, outputs),
            inputs=(*always, *there),
            context=(*self._missing(gone), self._memory_form(name)),
            rules=self._rules(name),
            writes=writes,
            member=name,
            step=step,
            kind=Kind.JUDGE if name in JUDGES else Kind.PRODUCER,
            timeout_s=timeout_s,
            retries=retries,
            missing=gone,
        )

    def _is_there(self, path: str) -> bool:
        """Documents of the feature count when they were produced; a task file or a patch is known to be there."""
        return path in self.available or path.startswith((f"{self.at.tasks}/", ".interlock/"))

    def _missing(self, paths: Sequence[str]) -> tuple[str, ...]:
        if not paths:
            return ()
        return ("Not available; go on with what there is:\n" + "\n".join(f"- Not available: `{one}`" for one in paths),)

    def _contract(self, member: str, outputs: tuple[Artifact, ...] | None) -> Contract:
        at = self.at
        works = member.startswith(tuple(f"{one}-" for one in TaskAgent))
        if outputs is None:
            document = Custom(Headings().problem, NOT_RUN) if member in VERIFIERS else Headings()
            outputs = () if works else (Artifact(at.output(member), structure=document),)
        sample = sample_memory(member, BEST.get(member, "N/A"), more=NOT_CHANGED if works else "")
        memory = Artifact(
            at.mem(member),
            required=member in MUST_REMEMBER,
            structure=Custom(lambda text: unreadable(member, text), sample),
            sampled=True,
        )
        evaluation = Artifact(at.evaluation(member), required=False, fresh=False)
        return Contract(
            (*outputs, memory, evaluation),
            answer_of(member),
            claim=reader(at, member) if member in WEIGHED else None,
            must_change=works,
        )

    def _memory_form(self, member: str) -> str:
        fmt = answer_of(member)
        statuses = " or ".join(token for token in fmt.tokens if token not in fmt.unsaid)
        form = blank_memory(member, statuses, " or ".join(WORDS.get(member, ("N/A",))), MORE.get(member, ()))
        return f"### Form of your private memory\n\nOne of the words stands where `<...>` is.\n\n```markdown\n{form}```"

    def _rules(self, member: str) -> tuple[str, ...]:
        at = self.at
        said = [
            "Read private memories first; they and the index of the shared memory say which sections of larger "
            "documents matter. What your role says you read whole, you read whole."
            if self.memory_works
            else "There is no shared memory: read the documents.",
            "An entry of the shared memory that is marked `[INVALIDATED` is old: it holds no longer.",
            f"Write your private memory to `{at.mem(member)}` in the form shown; it is the only memory you write. "
            f"`{at.memory}` belongs to the engine.",
            "At most 3 tries of your own at whatever fails; what fails in the same way is not tried again.",
            "A security problem is flagged by a key finding that begins with `security:`.",
            f"If a document you were given was good or bad in a way worth knowing, rate it in "
            f"`{at.evaluation(member)}` (a YAML list: artifact, author, usefulness, clarity, missing, wrong); else "
            "leave that file out.",
        ]
        if words := WORDS.get(member):
            said.append(f"`## Highest Severity` is one of {', '.join(words)}; any other is asked for anew.")
        if member in VERIFIERS:
            said.append(EVIDENCE)
        elif member in WEIGHED:
            said.append("Your verdict goes with your gravest finding; a clean one over it counts as the opposite.")
        if member.startswith(tuple(f"{one}-" for one in TaskAgent)):
            said.append("If nothing needs changing, your answer says why, in a line `No change: <reason>`.")
        return tuple(said)

    def _mems(self, members: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(self.at.mem, members))

    def _outputs(self, members: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(self.at.output, members))

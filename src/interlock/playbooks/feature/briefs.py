"""What each agent is told: its task, its inputs by explicit path, what it must leave behind, what it may change.

The role says how an agent works; the brief carries everything that belongs to this run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from interlock.contracts import FEATURE, AnswerFormat, Artifact, Contract, Custom, Headings, Outcome
from interlock.engine import Changed, Dispatch, Kind, Quoted, Retries
from interlock.playbooks.feature.decisions import Grade, Proof, Severity, Tier
from interlock.playbooks.feature.layout import (
    CRITICS,
    FEATURES,
    POST_MORTEM,
    R_KNOWLEDGE,
    R_SECURITY,
    RESEARCHERS,
    REVIEWERS,
    VERIFIERS,
    Layout,
    TaskAgent,
)
from interlock.playbooks.feature.memory_file import sample_memory
from interlock.playbooks.feature.plan import Task, sample_plan, sample_task

RETRIES = Retries(transient=2, contract=1, error=1, shared=True)
NO_RETRY = Retries(transient=2, contract=1, error=0, shared=True)
"""An ERROR of an implementer is answered by a replan, that of a post-mortem by nothing."""
ONCE = Retries(transient=2, contract=0, error=0, shared=True)
"""The planner: its plan is checked as a whole, so the playbook itself asks again."""

DONE_OR_ERROR = AnswerFormat(
    {"DONE": Outcome.OK, "NEEDS_REVISION": Outcome.FAIL, "ERROR": Outcome.FAIL}, "DONE", completion="line"
)
"""Agents that judge nothing: a wish for revision is an error of theirs."""

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
DEPTH: Mapping[Tier, str] = {
    Tier.FULL: "Full: read every changed file whole, with its callers.",
    Tier.STANDARD: "Standard: read every change, and callers where the interface changed.",
    Tier.LIGHTWEIGHT: "Lightweight: read the difference; follow up only what looks wrong.",
}
BEST_SEVERITY: Mapping[str, str] = {
    **dict.fromkeys(CRITICS, Severity.LOW.value),
    **dict.fromkeys(VERIFIERS, Proof.PASS.value),
    **dict.fromkeys(REVIEWERS, Grade.NONE.value),
}
SEVERITY_WORDS: Mapping[str, str] = {
    **dict.fromkeys(CRITICS, "/".join(Severity)),
    **dict.fromkeys(VERIFIERS, "/".join(Proof)),
    **dict.fromkeys(REVIEWERS, "/".join(Grade)),
}
JUDGES = frozenset({*CRITICS, *VERIFIERS, *REVIEWERS})
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


_NOT_AVAILABLE = re.compile(r"^- Not available: `(.+)`$", re.MULTILINE)


def not_available(spec: Dispatch) -> tuple[str, ...]:
    """The documents that a brief says its agent must do without."""
    return tuple(path for item in spec.context if isinstance(item, str) for path in _NOT_AVAILABLE.findall(item))


@dataclass(frozen=True)
class Desk:
    """Makes briefs for one feature; `available` are the documents that were really produced."""

    at: Layout
    available: Collection[str]
    memory_works: bool = True

    # -- one agent each

    def researcher(self, focus: str) -> Dispatch:
        member = f"researcher-{focus}"
        task = filled("researcher", focus=focus, output=self.at.output(member), about=ABOUT[focus])
        return self._brief("researcher", task, member=member, step="1.1", timeout_s=RESEARCH_S)

    def spec(self) -> Dispatch:
        task = filled("spec", output=self.at.feature)
        return self._brief("spec", task, self._mems(RESEARCHERS), self._outputs(RESEARCHERS), step="2")

    def designer(self) -> Dispatch:
        task = filled("designer", output=self.at.design)
        first = self._mems(("spec", *RESEARCHERS))
        return self._brief("designer", task, first, (self.at.feature, *self._outputs(RESEARCHERS)), step="3")

    def designer_revision(self) -> Dispatch:
        task = filled("designer-revision", output=self.at.design)
        first = self._mems((*CRITICS, "spec", *RESEARCHERS))
        then = (*self._outputs(CRITICS), self.at.design, self.at.feature, *self._outputs(RESEARCHERS))
        return self._brief("designer", task, first, then, step="3")

    def critic(self, name: str) -> Dispatch:
        task = filled("critic", output=self.at.output(name), about=ABOUT[name])
        return self._brief(name, task, (self.at.design, self.at.feature), step="3b.1", timeout_s=REVIEW_S)

    def planner(self, first_id: str, *, constraints: str = "", failure: str = "") -> Dispatch:
        """The first plan. `constraints`: findings of the critics that the revised design left open."""
        at = self.at
        task = filled("planner", output=at.plan, tasks=at.tasks, first=first_id)
        critics = CRITICS if constraints else ()
        if constraints:
            paths = "\n".join(f"- `{path}`" for path in self._outputs(CRITICS) if path in self.available)
            task += (
                f"\n### Planning constraints\n\nThe plan must respect these open findings of the critics:\n\n{paths}\n"
            )
        then = (at.design, at.feature, *self._outputs(critics), *self._outputs(RESEARCHERS))
        spec = self._planner(task, self._mems(("designer", "spec", *critics)), then, first_id, wave=1)
        quoted = (Quoted("Planning constraints", constraints, "markdown"),) if constraints else ()
        return replace(spec, context=(*spec.context, *quoted), failure=failure)

    def replanner(
        self,
        first_id: str,
        wave: int,
        judges: Sequence[str],
        tasks: Sequence[str],
        *,
        state: str,
        patches: Sequence[str] = (),
        failure: str = "",
    ) -> Dispatch:
        """A plan for what is missing, from the memories of those who judged the work.

        Args:
            state: how each task stands.
            patches: where the work of failed tasks lies, which is not in the tree.
        """
        at = self.at
        task = filled("planner-replan", output=at.plan, tasks=at.tasks, first=first_id, wave=str(wave))
        then = (*self._outputs(judges), at.plan, *map(at.task, tasks), at.design, at.feature, *patches)
        spec = self._planner(task, self._mems((*judges, "designer", "spec")), then, first_id, wave=wave)
        return replace(spec, context=(*spec.context, Quoted("Tasks so far", state)), failure=failure)

    def _planner(self, task: str, first: Sequence[str], then: Sequence[str], first_id: str, *, wave: int) -> Dispatch:
        at = self.at
        outputs = (
            Artifact(at.plan, structure=Custom(lambda _text: None, sample_plan(wave, first_id))),
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

    def worker(self, task: Task) -> Dispatch:
        """An implementer or documentation writer with its task."""
        text = filled(task.worker, task_file=self.at.task(task.id))
        return self._worker(task, text, step="5.2")

    def fixer(self, task: Task, findings: str, reviews: Sequence[str]) -> Dispatch:
        """The same, sent back with what the reviewers found in its work."""
        text = filled("fix", task_id=task.id, task_file=self.at.task(task.id))
        spec = self._worker(task, text, self._outputs(reviews), step="7.4")
        return replace(spec, context=(*spec.context, Quoted("Findings", findings, "markdown")))

    def _worker(self, task: Task, text: str, more: Sequence[str] = (), *, step: str) -> Dispatch:
        at = self.at
        first = (at.task(task.id), at.feature, at.design, *self._mems(("planner", "designer")), *more)
        writes = task.files or ("**",)
        return replace(
            self._brief(task.worker, text, first, member=task.member, step=step, timeout_s=IMPLEMENTATION_S),
            writes=(*writes, f"!{FEATURES}/**", "!.git/**"),
            retries=NO_RETRY if task.worker is TaskAgent.IMPLEMENTER else RETRIES,
        )

    def verifier(self, name: str, tasks: Sequence[str], state: str) -> Dispatch:
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
        told = (Quoted("Tasks so far", state),) if name in ("v-build", "v-tasks") else ()
        return replace(spec, context=(*spec.context, *told))

    def reviewer(self, name: str, tier: Tier, changed: Changed, *, step: str = "7.2") -> Dispatch:
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
        task = filled("reviewer", tier=tier, output=at.output(name), about=ABOUT[name], depth=DEPTH[tier])
        spec = self._brief(name, task, (changed.patch,) if changed.patch else (), step=step, timeout_s=REVIEW_S)
        listed = "\n".join(changed.paths[:500]) or "nothing"
        return replace(spec, context=(*spec.context, Quoted(f"Changed files ({changed.lines} lines)", listed)))

    def post_mortem(self, run_date: str, telemetry: str, outcome: str) -> Dispatch:
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
    ) -> Dispatch:
        name = member or agent
        wanted = tuple(dict.fromkeys((*first, *then)))
        always = (self.at.request, *((self.at.memory,) if self.memory_works else ()))
        there = tuple(path for path in wanted if self._is_there(path))
        gone = [path for path in wanted if path not in there]
        return Dispatch(
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
        if outputs is None:
            is_worker = member.startswith(tuple(f"{one}-" for one in TaskAgent))
            outputs = () if is_worker else (Artifact(at.output(member), structure=Headings()),)
        memory = Artifact(
            at.mem(member),
            required=member in MUST_REMEMBER,
            structure=Custom(lambda _text: None, sample_memory(member, BEST_SEVERITY.get(member, "N/A"))),
            sampled=True,
        )
        evaluation = Artifact(at.evaluation(member), required=False, fresh=False)
        judging = member in JUDGES and member != "v-build"
        return Contract((*outputs, memory, evaluation), FEATURE if judging else DONE_OR_ERROR)

    def _memory_form(self, member: str) -> str:
        form = sample_memory(member, BEST_SEVERITY.get(member, "N/A"))
        if member in CRITICS:
            form += "\n## Medium Severity\n\nNone\n"
        if member in (*VERIFIERS, *REVIEWERS):
            form += "\n## Affected Tasks\n"
        return f"### Form of your private memory\n\n```markdown\n{form}```"

    def _rules(self, member: str) -> tuple[str, ...]:
        at = self.at
        words = SEVERITY_WORDS.get(member)
        judging = member in JUDGES and member not in ("v-build", R_KNOWLEDGE)
        said = [
            "Read private memories first; from the larger documents only the sections that they or the index of "
            "the shared memory point to."
            if self.memory_works
            else "There is no shared memory: read the documents.",
            f"Write your private memory to `{at.mem(member)}` in the form shown; it is the only memory you write. "
            f"`{at.memory}` belongs to the engine.",
            "At most 3 tries of your own at whatever fails; what fails in the same way is not tried again.",
            "A security problem is flagged by a key finding that begins with `SECURITY:`.",
            f"If a document you were given was good or bad in a way worth knowing, rate it in "
            f"`{at.evaluation(member)}` (a YAML list: artifact, author, usefulness, clarity, missing, wrong).",
        ]
        if words:
            said.append(f"`## Highest Severity` is one of {words}; a missing or other word counts as the worst.")
        if not judging:
            said.append("You end with `DONE:` or `ERROR:`; a wish for revision is not yours to state.")
        return tuple(said)

    def _mems(self, members: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(self.at.mem, members))

    def _outputs(self, members: Sequence[str]) -> tuple[str, ...]:
        return tuple(map(self.at.output, members))

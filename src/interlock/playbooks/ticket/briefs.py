"""What each of the seven agents is asked: the words are in `prompts/`, what is filled in and what is owed is here.

Text that comes from files, from the user or from other agents stands in fences, so that it cannot pass for a label.
What is to be acted on is said to be that; everything else is data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from interlock.contracts import AnswerFormat, Artifact, Contract, Headings, Outcome, YamlKeys
from interlock.documents import render_yaml
from interlock.engine import Dispatch, Kind, Prompt, fence
from interlock.playbooks.ticket.analysis import CACHE, DOCS, cache_rule
from interlock.playbooks.ticket.artifacts import (
    PLAN_RULE,
    REVIEW_RULE,
    amendment_rule,
    graph_rule,
    review_claim,
)
from interlock.playbooks.ticket.documents import home, iteration_home
from interlock.playbooks.ticket.graph import Graph, GraphLimits, Policy, Strategy, Task

INTERPRETER, INITIALIZER, PLANNER, SPLITTER = "Interpreter", "Initializer", "Planner", "Splitter"
EXECUTOR, DEVELOPER, REVIEWER = "task-executor", "Developer", "Reviewer"
AGENTS = (INTERPRETER, INITIALIZER, PLANNER, SPLITTER, EXECUTOR, DEVELOPER, REVIEWER)
REFRESH, INCREMENTAL = "REFRESH_IF_REQUIRED", "INCREMENTAL"
CODE_WRITING = frozenset({EXECUTOR, DEVELOPER})

AS_WRITTEN = AnswerFormat(
    {"ACCEPTED": Outcome.OK, "REJECTED": Outcome.REVISE, "ERROR": Outcome.FAIL},
    "ACCEPTED",
    completion="none",
    artifact_is_verdict=True,
)
"""Interpreter, Initializer, Planner, Splitter, Reviewer: what they write is what they say."""
OF_TASK = AnswerFormat(
    {
        "SYNTAX_VALID": Outcome.OK,
        "ACCEPTED": Outcome.OK,
        "REJECTED": Outcome.REVISE,
        "SYNTAX_ERROR": Outcome.FAIL,
        "ERROR": Outcome.FAIL,
    },
    "SYNTAX_VALID",
    completion="text",
)
ALONE = replace(OF_TASK, unsaid=("SYNTAX_VALID",), best="ACCEPTED")
"""What an agent says that has the whole tree before it, and builds and tests itself."""
BESIDE_OTHERS = replace(OF_TASK, unsaid=("ACCEPTED", "REJECTED"))
USUAL_S, IMPLEMENTATION_S, REVIEW_S = 1800.0, 7200.0, 3600.0
KEPT_APART = ("last_error", "files_sha256", "changed_files", "refused_files", "unfinished", "set_back")
"""What the engine keeps in a task's entry for itself."""


def _written(agent: str, task: Prompt, *owed: Artifact, **more: Any) -> Dispatch:
    """A call of an agent that is judged by what it writes."""
    return Dispatch(agent, task, Contract(owed, AS_WRITTEN), **{"timeout_s": USUAL_S, **more})


def interpreter(ticket: str, request: str, rule: YamlKeys, answers: str = "", asked: Sequence[str] = ()) -> Dispatch:
    """An unclear request; with `answers`, after the one round of questions."""
    path = f"{home(ticket)}/prompt.yaml"
    context: tuple[str, ...] = ()
    rules = ("Questions to the user go into `questions`, a list in prompt.yaml; there is one round.",)
    if asked:
        context = (f"### Questions\n\n{fence(chr(10).join(asked))}", f"### Answers of the user\n\n{fence(answers)}")
        rules = ("The user has answered; there is no second round.",)
    said = {"ticket": ticket, "output": path, "fields": ", ".join(rule.example)}
    task = Prompt.of("interpreter", request=fence(request, "text"), **said)
    return _written(INTERPRETER, task, Artifact(path, structure=rule), context=context, rules=rules, step="I1")


@dataclass(frozen=True)
class Briefs:
    """What agents are asked in one iteration of a ticket."""

    ticket: str
    iteration: int
    progress: Mapping[str, Any]

    def _at(self, name: str) -> str:
        return f"{iteration_home(self.ticket, self.iteration)}/{name}"

    def _prompt(self, name: str, **values: Any) -> Prompt:
        return Prompt.of(
            name,
            ticket=self.ticket,
            iteration=self.iteration,
            tasks=self._at("tasks.yaml"),
            build=self.progress["build_command"],
            test=self.progress["test_command"],
            **values,
        )

    def initializer(self, mode: str, renew: Sequence[str], *, fingerprint: str, digests: Mapping[str, str]) -> Dispatch:
        """A refresh of the documentation that is not valid any more."""
        listed = "\n".join(f"- {path}" for path in renew) or "- none: the documents are valid, only the cache is not"
        return _written(
            INITIALIZER,
            self._prompt("initializer", mode=mode, listed=listed, cache=CACHE, fingerprint=fingerprint),
            *(Artifact(path, structure=Headings()) for path in renew),
            Artifact(CACHE, structure=cache_rule(fingerprint, digests)),
            inputs=tuple(path for path in DOCS if digests.get(path)),
            step="O7" if mode == INCREMENTAL else "I3",
        )

    def planner(self, source: str, snapshot: Mapping[str, str]) -> Dispatch:
        """The plan of an iteration. `snapshot`: heading to text, in order."""
        plan, state = self._at("plan.md"), f"{home(self.ticket)}/progress.yaml"
        shown = {title: fence(text) for title, text in snapshot.items()}
        cache = self.progress["docs_cache_state_path"]
        return _written(
            PLANNER,
            self._prompt("planner", source=source, state=state, cache=cache, plan=plan, snapshot=shown),
            Artifact(plan, structure=PLAN_RULE),
            Artifact(self._at("tasks.yaml"), required=False),
            inputs=(source,),
            step="O3",
            iteration=self.iteration,
        )

    def amendment(self, graph: Graph, forgotten: Mapping[str, Sequence[str]]) -> Dispatch:
        """Files that a graph forgot: `forgotten` has, by task, those that its attempts changed more than once."""
        path = self._at("amendment.yaml")
        evidence = "\n".join(f"- {task}: {', '.join(paths)}" for task, paths in forgotten.items())
        errors = "\n".join(fence(str(graph.tasks[task].entry.get("last_error") or "")) for task in forgotten)
        return _written(
            PLANNER,
            self._prompt("amendment", output=path, evidence=evidence, errors=errors),
            Artifact(path, structure=amendment_rule(forgotten)),
            inputs=(self._at("tasks.yaml"),),
            member=f"{PLANNER}-amendment",
            step="O5",
            iteration=self.iteration,
        )

    def splitter(self, why: str, limits: GraphLimits) -> Dispatch:
        """The task graph, cut from a plan that brought none that can be used."""
        plan = self._at("plan.md")
        return _written(
            SPLITTER,
            self._prompt("splitter", plan=plan),
            Artifact(self._at("tasks.yaml"), structure=graph_rule(limits)),
            inputs=(plan,),
            step="O4",
            failure=f"The graph that came with the plan could not be used: {why}" if why else "",
            iteration=self.iteration,
        )

    def developer(self, task: Task, policy: Policy) -> Dispatch:
        """The only task of a trivial graph, given to the Developer directly."""
        return self._work(DEVELOPER, task, policy, ALONE, 1, mandates="; ".join(task.mandates) or "none")

    def executor(self, task: Task, policy: Policy, *, attempt: int, strategy: Strategy) -> Dispatch:
        """One attempt at one task of a group."""
        last = task.entry.get("last_error")
        error = fence(str(last)) if last and attempt > 1 else ""
        words = BESIDE_OTHERS if strategy is Strategy.PARALLEL else ALONE
        return self._work(EXECUTOR, task, policy, words, attempt, mode=strategy.name, last_error=error)

    def _work(
        self, agent: str, task: Task, policy: Policy, words: AnswerFormat, attempt: int, **values: str
    ) -> Dispatch:
        """A call of an agent that changes the files of a task."""
        kept = {name: value for name, value in task.entry.items() if name not in KEPT_APART}
        entry = fence(render_yaml(kept), "yaml")
        return Dispatch(
            agent,
            self._prompt(agent.lower(), task=task.id, entry=entry, attempt=attempt, **values),
            Contract((), words, must_change=True),
            inputs=(self._at("tasks.yaml"),),
            member=f"{agent}-{task.id}",
            step="O5",
            writes=(*task.scope, *policy.drift(task)),
            kind=Kind.PRODUCER,
            attempt=attempt,
            iteration=self.iteration,
            timeout_s=IMPLEMENTATION_S,
        )

    def reviewer(self) -> Dispatch:
        """The judgement on the whole iteration."""
        report = self._at("review_report.yaml")
        return Dispatch(
            REVIEWER,
            self._prompt("reviewer", report=report),
            Contract((Artifact(report, structure=REVIEW_RULE),), AS_WRITTEN, claim=review_claim),
            inputs=(f"{home(self.ticket)}/prompt.yaml", self._at("tasks.yaml")),
            step="O6",
            kind=Kind.JUDGE,
            iteration=self.iteration,
            timeout_s=REVIEW_S,
        )

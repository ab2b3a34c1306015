"""What each of the seven agents is asked: the words are in `prompts/`, what is filled in and what is owed is here.

Text that comes from files, from the user or from other agents stands in fences, so that it cannot pass for a label.
What is to be acted on is said to be that; everything else is data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from interlock.contracts import AnswerFormat, Artifact, Contract, Custom, Headings, Outcome
from interlock.documents import render_yaml
from interlock.engine import Dispatch, Kind, Prompt
from interlock.playbooks.ticket.analysis import CACHE, DOCS
from interlock.playbooks.ticket.artifacts import (
    PLAN_RULE,
    PROMPT_FIELDS,
    REVIEW_RULE,
    amendment_rule,
    cache_rule,
    graph_rule,
    review_claim,
)
from interlock.playbooks.ticket.documents import home, iteration_home
from interlock.playbooks.ticket.graph import Graph, Limits, Policy, Strategy, Task

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


def fenced(text: str, language: str = "") -> str:
    """Text in a fence that it cannot close."""
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def commands(progress: Mapping[str, Any]) -> dict[str, Any]:
    return {"build": progress["build_command"], "test": progress["test_command"]}


def _written(agent: str, task: Prompt, *owed: Artifact, **more: Any) -> Dispatch:
    """A call of an agent that is judged by what it writes."""
    return Dispatch(agent, task, Contract(owed, AS_WRITTEN), **{"timeout_s": USUAL_S, **more})


def interpreter(ticket: str, request: str, rule: Custom, answers: str = "", asked: Sequence[str] = ()) -> Dispatch:
    """An unclear request; with `answers`, after the one round of questions."""
    path = f"{home(ticket)}/prompt.yaml"
    context: tuple[str, ...] = ()
    rules = ("Questions to the user go into `questions`, a list in prompt.yaml; there is one round.",)
    if asked:
        context = (f"### Questions\n\n{fenced(chr(10).join(asked))}", f"### Answers of the user\n\n{fenced(answers)}")
        rules = ("The user has answered; there is no second round.",)
    said = {"ticket": ticket, "output": path, "fields": ", ".join(PROMPT_FIELDS)}
    task = Prompt.of("interpreter", request=fenced(request, "text"), **said)
    return _written(INTERPRETER, task, Artifact(path, structure=rule), context=context, rules=rules, step="I1")


def initializer(
    ticket: str,
    progress: Mapping[str, Any],
    *,
    mode: str,
    renew: Sequence[str],
    fingerprint: str,
    digests: Mapping[str, str],
) -> Dispatch:
    """A refresh of the documentation that is not valid any more."""
    listed = "\n".join(f"- {path}" for path in renew) or "- none: the documents are valid, only the cache is not"
    said = {"ticket": ticket, "mode": mode, "listed": listed, "cache": CACHE, "fingerprint": fingerprint}
    return _written(
        INITIALIZER,
        Prompt.of("initializer", **commands(progress), **said),
        *(Artifact(path, structure=Headings()) for path in renew),
        Artifact(CACHE, structure=cache_rule(fingerprint, digests)),
        inputs=tuple(path for path in DOCS if digests.get(path)),
        step="O7" if mode == INCREMENTAL else "I3",
    )


def planner(
    ticket: str, iteration: int, progress: Mapping[str, Any], source: str, snapshot: Mapping[str, str]
) -> Dispatch:
    """The plan of an iteration. `snapshot`: heading to text, in order."""
    place = iteration_home(ticket, iteration)
    plan, tasks = f"{place}/plan.md", f"{place}/tasks.yaml"
    task = Prompt.of(
        "planner",
        ticket=ticket,
        iteration=iteration,
        source=source,
        state=f"{home(ticket)}/progress.yaml",
        cache=progress["docs_cache_state_path"],
        plan=plan,
        tasks=tasks,
        snapshot={title: fenced(text) for title, text in snapshot.items()},
        **commands(progress),
    )
    owed = (Artifact(plan, structure=PLAN_RULE), Artifact(tasks, required=False))
    return _written(PLANNER, task, *owed, inputs=(source,), step="O3", iteration=iteration)


def amendment(
    ticket: str,
    iteration: int,
    progress: Mapping[str, Any],
    tasks: str,
    graph: Graph,
    forgotten: Mapping[str, Sequence[str]],
) -> Dispatch:
    """Files that a graph forgot: `forgotten` has, by task, those that its attempts changed more than once."""
    path = f"{iteration_home(ticket, iteration)}/amendment.yaml"
    errors = [fenced(str(graph.tasks[task].entry.get("last_error") or "")) for task in forgotten]
    task = Prompt.of(
        "amendment",
        ticket=ticket,
        iteration=iteration,
        tasks=tasks,
        output=path,
        evidence="\n".join(f"- {task}: {', '.join(paths)}" for task, paths in forgotten.items()),
        errors="\n".join(errors),
        **commands(progress),
    )
    more = {"inputs": (tasks,), "member": f"{PLANNER}-amendment", "step": "O5", "iteration": iteration}
    return _written(PLANNER, task, Artifact(path, structure=amendment_rule(forgotten)), **more)


def splitter(ticket: str, iteration: int, why: str, limits: Limits) -> Dispatch:
    """The task graph, cut from a plan that brought none that can be used."""
    place = iteration_home(ticket, iteration)
    plan, tasks = f"{place}/plan.md", f"{place}/tasks.yaml"
    return _written(
        SPLITTER,
        Prompt.of("splitter", ticket=ticket, iteration=iteration, plan=plan, tasks=tasks),
        Artifact(tasks, structure=graph_rule(limits)),
        inputs=(plan,),
        step="O4",
        failure=f"The graph that came with the plan could not be used: {why}" if why else "",
        iteration=iteration,
    )


def _work(agent: str, task: Task, policy: Policy, said: Prompt, words: AnswerFormat, **more: Any) -> Dispatch:
    """A call of an agent that changes the files of a task."""
    return Dispatch(
        agent,
        said,
        Contract((), words, must_change=True),
        member=f"{agent}-{task.id}",
        step="O5",
        writes=(*task.scope, *policy.drift(task)),
        kind=Kind.PRODUCER,
        timeout_s=IMPLEMENTATION_S,
        **more,
    )


def _about(ticket: str, iteration: int, progress: Mapping[str, Any], task: Task, tasks: str) -> dict[str, Any]:
    entry = {name: value for name, value in task.entry.items() if name not in KEPT_APART}
    known = {"ticket": ticket, "iteration": iteration, "task": task.id, "tasks": tasks, **commands(progress)}
    return {**known, "entry": fenced(render_yaml(entry), "yaml")}


def developer(
    ticket: str, iteration: int, progress: Mapping[str, Any], task: Task, policy: Policy, tasks: str
) -> Dispatch:
    """The only task of a trivial graph, given to the Developer directly."""
    about = _about(ticket, iteration, progress, task, tasks)
    said = Prompt.of("developer", **about, mandates="; ".join(task.mandates) or "none")
    return _work(DEVELOPER, task, policy, said, ALONE, attempt=1, iteration=iteration, inputs=(tasks,))


def executor(
    ticket: str,
    iteration: int,
    progress: Mapping[str, Any],
    task: Task,
    policy: Policy,
    tasks: str,
    *,
    attempt: int,
    strategy: Strategy,
    starts_from: Any = None,
) -> Dispatch:
    """One attempt at one task of a group. `starts_from`: what a failed attempt left, to go on with."""
    last = task.entry.get("last_error")
    said = Prompt.of(
        "task-executor",
        **_about(ticket, iteration, progress, task, tasks),
        attempt=attempt,
        mode=strategy.name,
        last_error=fenced(str(last)) if last and attempt > 1 else "",
    )
    words = BESIDE_OTHERS if strategy is Strategy.PARALLEL else ALONE
    more: dict[str, Any] = {"attempt": attempt, "iteration": iteration, "inputs": (tasks,), "starts_from": starts_from}
    return _work(EXECUTOR, task, policy, said, words, **more)


def reviewer(ticket: str, iteration: int, progress: Mapping[str, Any], tasks: str, report: str) -> Dispatch:
    """The judgement on the whole iteration."""
    said: dict[str, Any] = {"ticket": ticket, "iteration": iteration, "tasks": tasks, "report": report}
    return Dispatch(
        REVIEWER,
        Prompt.of("reviewer", **said, **commands(progress)),
        Contract((Artifact(report, structure=REVIEW_RULE),), AS_WRITTEN, claim=review_claim),
        inputs=(f"{home(ticket)}/prompt.yaml", tasks),
        step="O6",
        kind=Kind.JUDGE,
        iteration=iteration,
        timeout_s=REVIEW_S,
    )

"""What each of the seven agents is asked: the labels and their order are part of the process.

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
from interlock.engine import Dispatch, Kind
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

PLANNING_S, IMPLEMENTATION_S, REVIEW_S, OTHER_S = 1800.0, 7200.0, 3600.0, 1800.0

_SCOPES = {
    INTERPRETER: (
        "You find the ticket id, the kind of work and a short name, ask the user where you must, keep tool mandates "
        "word for word, and write prompt.yaml.",
        "git, planning, coding, reviewing, analysing the code base",
    ),
    INITIALIZER: (
        "You read the code base and write docs/ARCHITECTURE.md, docs/CODE_STYLE.md, docs/FINDINGS.md and the cache "
        "that vouches for them.",
        "planning, coding, reviewing",
    ),
    PLANNER: (
        "You research what is not known, analyse the code base, write plan.md and cut it into tasks.yaml.",
        "coding, reviewing, making design decisions",
    ),
    SPLITTER: (
        "You read the plan and write its atomic tasks to tasks.yaml.",
        "coding, planning, reviewing, making design decisions, researching",
    ),
    DEVELOPER: (
        "You implement the one task that you are given, as its entry says.",
        "planning, researching, reviewing, design decisions, git commits",
    ),
    REVIEWER: (
        "You check builds, tests, quality and success criteria, and accept or reject with evidence.",
        "coding, planning, designing, proposing implementations",
    ),
}


def role_block(agent: str) -> str:
    """The lines with which every brief but the task-executor's begins."""
    allowed, forbidden = _SCOPES[agent]
    return (
        f"ROLE ENFORCEMENT: You are {agent}.\n"
        "VIOLATION PENALTY: What you do outside of your scope is not taken over, and this attempt counts as failed.\n"
        f"SCOPE REMINDER: {allowed} FORBIDDEN: {forbidden}."
    )


def fenced(text: str, language: str = "") -> str:
    """Text in a fence that it cannot close."""
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def _lines(*parts: str) -> str:
    return "\n".join(parts)


# -- Interpreter


def interpreter(ticket: str, request: str, rule: Custom, answers: str = "", asked: Sequence[str] = ()) -> Dispatch:
    """An unclear request; with `answers`, after the one round of questions."""
    path = f"{home(ticket)}/prompt.yaml"
    context: tuple[str, ...] = ()
    if asked:
        context = (f"### Questions\n\n{fenced(chr(10).join(asked))}", f"### Answers of the user\n\n{fenced(answers)}")
    return Dispatch(
        INTERPRETER,
        _lines(
            role_block(INTERPRETER),
            "User request:",
            fenced(request, "text"),
            f"JIRA: {ticket}",
            f"Create {path} with all of these fields: {', '.join(PROMPT_FIELDS)}.",
            "IMPORTANT: Tool mandates of the user stand in prompt.yaml word for word, each with its assigned_agent.",
        ),
        Contract((Artifact(path, structure=rule),), AS_WRITTEN),
        context=context,
        rules=("Questions to the user go into `questions`, a list in prompt.yaml; there is one round.",)
        if not asked
        else ("The user has answered; there is no second round.",),
        step="I1",
        timeout_s=OTHER_S,
    )


# -- Initializer


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
    documents = tuple(Artifact(path, structure=Headings()) for path in renew)
    listed = "\n".join(f"- {path}" for path in renew) or "- none: the documents are valid, only the cache is not"
    return Dispatch(
        INITIALIZER,
        _lines(
            role_block(INITIALIZER),
            f"Build command: {progress['build_command']}",
            f"Test command: {progress['test_command']}",
            f"JIRA: {ticket}",
            f"Mode: {mode}",
            "Renew these documents, and leave every other one as it is:",
            listed,
            f"Then rewrite {CACHE}.",
            f"workspace_fingerprint: {fingerprint}",
        ),
        Contract((*documents, Artifact(CACHE, structure=cache_rule(fingerprint, digests))), AS_WRITTEN),
        inputs=tuple(path for path in DOCS if digests.get(path)),
        step="O7" if mode == INCREMENTAL else "I3",
        timeout_s=OTHER_S,
    )


# -- Planner


def planner(
    ticket: str, iteration: int, progress: Mapping[str, Any], source: str, snapshot: Mapping[str, str]
) -> Dispatch:
    """The plan of an iteration. `snapshot`: heading to text, in order."""
    place = iteration_home(ticket, iteration)
    plan, tasks = f"{place}/plan.md", f"{place}/tasks.yaml"
    quoted = [line for title, text in snapshot.items() for line in (f"--- {title} ---", fenced(text))]
    return Dispatch(
        PLANNER,
        _lines(
            role_block(PLANNER),
            f"JIRA: {ticket}",
            f"Iteration: {iteration}",
            f"Primary Input: {source}",
            f"Planning State: {home(ticket)}/progress.yaml",
            f"Docs Cache: {progress['docs_cache_state_path']}",
            f"Build command: {progress['build_command']}",
            f"Test command: {progress['test_command']}",
            f"Create plan at: {plan}",
            f"Create tasks at: {tasks}",
            "",
            "CONTEXT SNAPSHOT (PRIMARY INPUT is what you plan for; the rest is background):",
            *quoted,
        ),
        Contract((Artifact(plan, structure=PLAN_RULE), Artifact(tasks, required=False)), AS_WRITTEN),
        inputs=(source,),
        step="O3",
        iteration=iteration,
        timeout_s=PLANNING_S,
    )


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
    evidence = [f"- {task}: {', '.join(paths)}" for task, paths in forgotten.items()]
    errors = [fenced(str(graph.tasks[task].entry.get("last_error") or "")) for task in forgotten]
    return Dispatch(
        PLANNER,
        _lines(
            role_block(PLANNER),
            f"JIRA: {ticket}",
            f"Iteration: {iteration}",
            f"Tasks file: {tasks}",
            f"Build command: {progress['build_command']}",
            f"Test command: {progress['test_command']}",
            f"Create amendment at: {path}",
            "",
            "More than one attempt at these tasks changed files that no task has, and was refused for it:",
            *evidence,
            "LAST ERROR:",
            *errors,
            "Say for each of them whether the task cannot be done without it (a lock file, a manifest, a caller that "
            "the plan forgot): `add` is a mapping from task id to the files that it gets. What is merely convenient "
            "stays out. `reason` says why, in a sentence.",
        ),
        Contract((Artifact(path, structure=amendment_rule(forgotten)),), AS_WRITTEN),
        inputs=(tasks,),
        member=f"{PLANNER}-amendment",
        step="O5",
        iteration=iteration,
        timeout_s=PLANNING_S,
    )


# -- Splitter


def splitter(ticket: str, iteration: int, why: str, limits: Limits) -> Dispatch:
    """The task graph, cut from a plan that brought none that can be used."""
    place = iteration_home(ticket, iteration)
    plan, tasks = f"{place}/plan.md", f"{place}/tasks.yaml"
    return Dispatch(
        SPLITTER,
        _lines(
            role_block(SPLITTER),
            f"JIRA: {ticket}",
            f"Iteration: {iteration}",
            f"Input: {plan}",
            f"Create tasks at: {tasks}",
        ),
        Contract((Artifact(tasks, structure=graph_rule(limits)),), AS_WRITTEN),
        inputs=(plan,),
        step="O4",
        failure=f"The graph that came with the plan could not be used: {why}" if why else "",
        iteration=iteration,
        timeout_s=PLANNING_S,
    )


# -- the tasks


KEPT_APART = ("last_error", "files_sha256", "changed_files", "refused_files", "unfinished", "set_back")


def embedded(task: Task) -> str:
    """The task's entry, whole, without what the engine keeps in it for itself."""
    kept = {name: value for name, value in task.entry.items() if name not in KEPT_APART}
    return fenced(render_yaml(kept), "yaml")


ALONE = replace(OF_TASK, unsaid=("SYNTAX_VALID",), best="ACCEPTED")
"""What an agent says that has the whole tree before it, and builds and tests itself."""
BESIDE_OTHERS = replace(OF_TASK, unsaid=("ACCEPTED", "REJECTED"))


def _task(
    agent: str,
    task: Task,
    policy: Policy,
    text: str,
    words: AnswerFormat,
    *,
    attempt: int,
    iteration: int,
    **more: Any,
) -> Dispatch:
    return Dispatch(
        agent,
        text,
        Contract((), words, must_change=True),
        member=f"{agent}-{task.id}",
        step="O5",
        writes=(*task.scope, *policy.drift(task)),
        kind=Kind.PRODUCER,
        attempt=attempt,
        iteration=iteration,
        timeout_s=IMPLEMENTATION_S,
        **more,
    )


def developer(
    ticket: str, iteration: int, progress: Mapping[str, Any], task: Task, policy: Policy, tasks: str
) -> Dispatch:
    """The only task of a trivial graph, given to the Developer directly."""
    text = _lines(
        role_block(DEVELOPER),
        "EXECUTION MODE: SEQUENTIAL",
        f"JIRA: {ticket}",
        f"Iteration: {iteration}",
        f"Task: {task.id}",
        "Attempt: 1",
        f"Tasks file: {tasks}",
        f"Build command: {progress['build_command']}",
        f"Test command: {progress['test_command']}",
        f"TOOL MANDATES: {'; '.join(task.mandates) or 'none'}",
        "EMBEDDED TASK ENTRY:",
        embedded(task),
    )
    return _task(DEVELOPER, task, policy, text, ALONE, attempt=1, iteration=iteration, inputs=(tasks,))


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
    last_error = task.entry.get("last_error")
    said = ["LAST ERROR:", fenced(str(last_error))] if last_error and attempt > 1 else []
    text = _lines(
        f"JIRA: {ticket}",
        f"Iteration: {iteration}",
        f"Task: {task.id}",
        f"Attempt: {attempt}",
        f"Execution Mode: {strategy.name}",
        f"Build command: {progress['build_command']}",
        f"Test command: {progress['test_command']}",
        f"Tasks file: {tasks}",
        "EMBEDDED TASK ENTRY:",
        embedded(task),
        *said,
    )
    more: dict[str, Any] = {"inputs": (tasks,), "starts_from": starts_from}
    words = BESIDE_OTHERS if strategy is Strategy.PARALLEL else ALONE
    return _task(EXECUTOR, task, policy, text, words, attempt=attempt, iteration=iteration, **more)


# -- Reviewer


def reviewer(ticket: str, iteration: int, progress: Mapping[str, Any], tasks: str, report: str) -> Dispatch:
    """The judgement on the whole iteration."""
    text = _lines(
        role_block(REVIEWER),
        "Mode: prompt-review",
        f"JIRA: {ticket}",
        f"Iteration: {iteration}",
        f"Build command: {progress['build_command']}",
        f"Test command: {progress['test_command']}",
        f"Tasks file: {tasks}",
        f"Create report at: {report}",
    )
    return Dispatch(
        REVIEWER,
        text,
        Contract((Artifact(report, structure=REVIEW_RULE),), AS_WRITTEN, claim=review_claim),
        inputs=(f"{home(ticket)}/prompt.yaml", tasks),
        step="O6",
        kind=Kind.JUDGE,
        iteration=iteration,
        timeout_s=REVIEW_S,
    )

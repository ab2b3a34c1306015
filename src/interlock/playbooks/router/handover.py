"""From a validated task to the one dispatch of a command.

`ValidatedTask` is the only thing a dispatch of this playbook can be built from, and it has no field for the raw
text that the user typed: whatever reaches the agent went through the checks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.contracts import AnswerFormat, Claim, Contract, Evidence, Outcome, checks_in_data
from interlock.engine import DEADLINE, SESSION, TIMEOUT, Delegation, Dispatch, Prompt, Retries
from interlock.playbooks.router import problems
from interlock.playbooks.router.decisions import ValidatedCommand
from interlock.playbooks.router.documents import AgentFile, Returns, TaskEntry
from interlock.playbooks.router.problems import Problem

WORDS = {
    "completed": Outcome.OK,
    "partial": Outcome.REVISE,
    "failed": Outcome.FAIL,
    "blocked": Outcome.BLOCKED,
}
ANSWERS: Mapping[Returns, AnswerFormat] = {
    Returns.JSON: AnswerFormat(WORDS, "completed", completion="json", late="partial"),
    Returns.TEXT: AnswerFormat(WORDS, "completed", completion="text", late="partial", exit_is_verdict=True),
}
RETRIES = Retries(transient=0, contract=1, error=0)
"""An answer that cannot be used is asked for once more; nothing else is repeated."""
USUAL_SESSION = "sess_20260104_a7f3d9"
USUAL_DEADLINE = "2026-01-04T12:00:00Z"
_NEVER_PLAIN = re.compile("[\ud800-\udfff\u27e6]")
"""Halves of characters cannot be written; the opening mark of the engine's placeholders must stay the engine's."""


@dataclass(frozen=True)
class ValidatedTask:
    """A command whose every part was proven: number, task entry, target, place in the delegation tree, time limit."""

    command: ValidatedCommand
    entry: TaskEntry
    agent: AgentFile
    delegation: Delegation
    timeout_s: int
    returns: Returns

    @property
    def prompt(self) -> str:
        return f"Task {self.entry.number}: {self.entry.title}"


@dataclass(frozen=True)
class Handover:
    """The context object as it stands in the brief, and its size there."""

    text: str
    size: int


def handover(task: ValidatedTask, limit: int) -> Handover | Problem:
    """The context object of the task, unless it has more than `limit` bytes."""
    text = context_object(task)
    usual = text.replace(SESSION, USUAL_SESSION).replace(DEADLINE, USUAL_DEADLINE)
    size = len(usual.replace(f'"{TIMEOUT}"', str(task.timeout_s)).encode())
    if size > limit:
        return problems.context_too_large(
            task.agent.name, size, limit, _bytes(task.entry.description), _bytes(task.command.user_prompt)
        )
    return Handover(text, size)


def context_object(task: ValidatedTask) -> str:
    """The JSON object of the delegation, one field a line; the engine puts in session, time limit and deadline."""
    spelled = {
        "prompt": _json(task.prompt),
        "task_number": _json(task.entry.number),
        "language": _json(task.entry.language),
        "task_description": _json(task.entry.description),
        "user_prompt": _json(task.command.user_prompt),
        "session_id": f'"{SESSION}"',
        "delegation_depth": _json(task.delegation.depth),
        "delegation_path": _json(task.delegation.path),
        "timeout": f'"{TIMEOUT}"',
        "deadline": f'"{DEADLINE}"',
    }
    return "{\n" + ",\n".join(f'  "{name}": {value}' for name, value in spelled.items()) + "\n}"


def _json(value: object) -> str:
    return _NEVER_PLAIN.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def claim(data: Mapping[str, Any], _texts: Mapping[str, str]) -> Claim:
    """What an answer in JSON says of its work, and what in it speaks against that: failed commands, errors."""
    evidence = data.get("evidence")
    ran = evidence.get("verification") if isinstance(evidence, Mapping) else data.get("verification")
    errors = data.get("errors")
    listed = tuple(str(one) for one in errors if one) if isinstance(errors, list) else ()
    completed = data.get("status") == ANSWERS[Returns.JSON].best
    return Claim(completed, Evidence(checks_in_data(ran), failures=listed), shows=False, data=data)


def dispatch_of(task: ValidatedTask, context: Handover, *, guides: tuple[str, ...], partial_grace_s: float) -> Dispatch:
    """The one call that a command makes. `guides`: context files of the workspace that the agent may read."""
    return Dispatch(
        agent=task.agent.name,
        task=Prompt.of("task", command=task.command.command, number=task.entry.number),
        contract=Contract(answer=ANSWERS[task.returns], claim=claim if task.returns is Returns.JSON else None),
        inputs=guides,
        context=(f"### Delegation\n\n```json\n{context.text}\n```",),
        writes=task.agent.writes,
        timeout_s=task.timeout_s,
        timeout_fixed=True,
        partial_grace_s=partial_grace_s,
        retries=RETRIES,
        delegation=task.delegation,
        instructions=task.agent.body,
        role_source=task.agent.path,
    )

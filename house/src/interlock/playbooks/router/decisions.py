"""What the router decides: what was asked for, which agent gets it, how long it may take, how it ends. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from interlock.engine.tables import Table
from interlock.playbooks.router.documents import LANGUAGES, LEAN, ORCHESTRATOR, CommandFile, Error, Task

COMMANDS = ("research", "plan", "implement", "revise")
TIMEOUTS = {"research": 3600, "plan": 1800, "implement": 7200, "review": 3600}
DEFAULT_S = 1800


@dataclass(frozen=True)
class Asked:
    """What a user typed, taken apart."""

    command: str
    number: str
    """Without leading zeros."""
    prompt: str

    @property
    def file(self) -> str:
        return f".opencode/command/{self.command}.md"


def asked(request: str) -> Asked:
    """Command, task number and prompt; the prompt is not looked into."""
    command, rest = _first(request)
    command = command.removeprefix("/").lower()
    if command not in COMMANDS:
        known = " ".join(f"/{one}" for one in COMMANDS)
        raise Error(f"Unknown command /{escaped(command)}. Task commands: {known}")
    number, prompt = _first(rest)
    usage = f"Usage: /{command} TASK_NUMBER [PROMPT]", f"Example: /{command} 259"
    if not number:
        about = "The task number should be a positive integer corresponding to a task in .opencode/specs/TODO.md"
        raise Error(f"Task number required for /{command} command", *usage, about)
    if not re.fullmatch(r"0*[1-9][0-9]*", number):
        raise Error(f"Task number must be an integer. Got: {escaped(number)}", *usage)
    return Asked(command, number.lstrip("0"), prompt)


def _first(text: str) -> tuple[str, str]:
    word, *rest = text.split(maxsplit=1) or [""]
    return word, rest[0].rstrip() if rest else ""


def escaped(text: str) -> str:
    """As it may be printed: control characters spelled out, cut."""
    shown = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text[:200])
    return shown if len(text) <= 200 else f"{shown}…"


def target(task: Task, command: CommandFile, file: str) -> str:
    """The agent; the same task and command file give the same one, and never the default in place of a lean one."""
    routing = command.routing
    if routing.language_based:
        wanted = "lean" if task.language == LEAN else "default"
        agent = routing.lean if wanted == "lean" else routing.default
        if agent is None:
            raise Error(f"{file} names no target agent for language {task.language} (routing.{wanted})")
        return agent
    agent = routing.default or command.agent
    if agent == ORCHESTRATOR:
        raise Error(f"{file} names no target agent (routing.default or agent)")
    return agent


def deadline_s(command: str, file: CommandFile, default: int | None) -> int:
    return file.timeout or TIMEOUTS.get(command) or default or DEFAULT_S


def outer(laid: Mapping[str, Any]) -> tuple[int, list[str], list[str]]:
    """Depth, path so far and tasks under way, from what the engine laid into the layer in which this call was made."""
    path, tasks = ([str(one) for one in laid.get(name, ())] for name in ("path", "tasks"))
    return int(laid.get("depth", 0)) + 1, path or [ORCHESTRATOR], tasks


def odd(task: Task, command: str) -> Iterator[str]:
    """What a user should know of a task, although it is delegated."""
    if task.language not in LANGUAGES:
        yield f"language {task.language} is not known: its task goes to the default agent"
    if command == "implement" and task.status.upper().strip("[]") in ("COMPLETED", "ABANDONED"):
        yield f"task {task.number} is {task.status}"


def check_size(context: Mapping[str, Any], most: int) -> None:
    size, description, prompt = (
        len(json.dumps(one, ensure_ascii=False).encode("utf-8", "backslashreplace"))
        for one in (context, context["task_description"], context["user_prompt"])
    )
    if size > most:
        about = f"description {description}, prompt {prompt}"
        raise Error(f"the context is {size} bytes, and at most {most} are passed on ({about})")


def check_depth(depth: int, path: Sequence[str], most: int) -> None:
    if depth > most:
        raise Error(f"delegation depth {depth} exceeds the maximum of {most} (path: {' -> '.join(path)})")


def check_cycle(agent: str, number: str, path: Sequence[str], tasks: Sequence[str]) -> None:
    if agent in path:
        raise Error(f"delegation cycle: {' -> '.join((*path, agent))}")
    if number in tasks:
        raise Error(f"delegation cycle: task {number} is being worked on already ({' -> '.join(path)})")


class Came(StrEnum):
    """How a delegation came back."""

    COMPLETED = "completed"
    PARTIAL = "partial"
    BLOCKED = "blocked"
    FAILED = "failed"
    UNVERIFIED = "unverified"
    """A text that does not say how it ended."""
    NOTHING = "nothing usable"


ENDING: Table[tuple[str, int]] = Table(
    "ending",
    {
        (Came.COMPLETED,): ("complete", 0),
        (Came.PARTIAL,): ("degraded", 1),
        (Came.UNVERIFIED,): ("degraded", 1),
        (Came.BLOCKED,): ("stopped", 3),
        (Came.FAILED,): ("stopped", 5),
        (Came.NOTHING,): ("stopped", 5),
    },
)
"""How the run ends, and its exit."""

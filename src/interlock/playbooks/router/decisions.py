"""What the router decides: what was asked for, which agent gets it, what its answer comes to. Pure.

The answer itself is never touched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from pydantic import ConfigDict

from interlock.engine.forms import Form, Given, Unusable, read_form
from interlock.playbooks.router.documents import LANGUAGES, LEAN, ORCHESTRATOR, CommandFile, Error, Task

COMMANDS = ("research", "plan", "implement", "revise")
TIMEOUTS = {"research": 3600, "plan": 1800, "implement": 7200, "review": 3600}
DEFAULT_S = 1800
STATUSES = ("completed", "partial", "failed", "blocked")


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


# --- what came back


class Came(StrEnum):
    """How a delegation came back."""

    COMPLETED = "completed"
    PARTIAL = "partial"
    BLOCKED = "blocked"
    FAILED = "failed"
    UNVERIFIED = "unverified"
    """A text that does not say how it ended."""
    NOTHING = "nothing usable"


ENDING = {
    Came.COMPLETED: ("complete", 0),
    Came.PARTIAL: ("degraded", 1),
    Came.UNVERIFIED: ("degraded", 1),
    Came.BLOCKED: ("stopped", 3),
    Came.FAILED: ("stopped", 5),
    Came.NOTHING: ("stopped", 5),
}


def ending(came: Came) -> tuple[str, int]:
    """How the run ends, and its exit."""
    return ENDING[came]


_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^`\n]*$.*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_STATUS = re.compile(r"Status:[ \t]*(.*?)[.\s]*", re.IGNORECASE)


class Ran(Form):
    command: str
    exit: int


class Answer(Form):
    """The object that a command with `returns: json` expects."""

    status: Literal["completed", "partial", "failed", "blocked"]
    session_id: str = ""
    summary: str = ""
    artifacts: list[str] = []
    errors: list[str] = []
    verification: list[Ran] = []


class _Told(Form):
    """The same, whatever somebody put there."""

    model_config = ConfigDict(extra="allow")

    status: Any = None
    session_id: Any = None
    errors: Any = None
    verification: Any = None


class Return(Form):
    """What a return amounts to."""

    came: Came
    why: str = ""
    answer: str = ""
    """It, where the client gave it as an object, and its text is not the same."""


def read(returns: str, agent: str, session: str, given: Given) -> Return | Unusable:
    """What the return amounts to, or why it cannot be relayed.

    Args:
        session: whose answer it has to be.
    """
    block = _ending(given.text)
    told = read_form(_Told, given.structured, block)
    if isinstance(told, Unusable) and returns == "json":
        return Unusable(problems=(f"{agent} returned invalid JSON ({'; '.join(told.problems)})",))
    if not isinstance(told, _Told) or (told.status is None and returns == "text"):
        return _text(agent, given.text, late=given.late)
    if told.status not in STATUSES:
        return _bad(agent, told.status)
    if told.session_id not in (None, "", session):
        return Unusable(problems=(f"answer belongs to session {escaped(str(told.session_id))}, expected {session}",))
    against = list(_against(told))
    spelled = "" if read_form(_Told, None, block) == told else json.dumps(given.structured, ensure_ascii=False)
    if told.status == "completed" and against:
        return Return(came=Came.FAILED, why=f"it says completed, but: {'; '.join(against)}", answer=spelled)
    return Return(came=_came(told.status, late=given.late), answer=spelled)


def _ending(text: str) -> str:
    """What of an answer may be its JSON: the fence that ends it, or all of it; a fence before other words is quoted."""
    fences = [*_FENCE.finditer(text)]
    if not fences:
        return text
    return "" if text[fences[-1].end() :].strip() else fences[-1][0]


def _text(agent: str, text: str, *, late: bool) -> Return | Unusable:
    """Words; their last line may say how it ended, a status elsewhere is quoted."""
    if not text.strip():
        return Unusable(problems=(f"{agent} returned no answer",))
    last = text.rstrip().rpartition("\n")[2][-10_000:]
    found = _STATUS.fullmatch(last.replace("*", "").replace("`", "").strip())
    if found is None:
        return Return(came=Came.PARTIAL if late else Came.UNVERIFIED)
    status = found[1].lower()
    return Return(came=_came(status, late=late)) if status in STATUSES else _bad(agent, status)


def _came(status: str, *, late: bool) -> Came:
    """What comes after the deadline is partial, whatever it calls itself."""
    return Came.PARTIAL if late and status == "completed" else Came(status)


def _against(told: _Told) -> Iterator[str]:
    """What in an answer speaks against `completed`."""
    errors, ran = ([one] if isinstance(one, str | dict) else one or () for one in (told.errors, told.verification))
    yield from (f"error: {escaped(' '.join(str(one).split()))}" for one in errors)
    for one in ran:
        if isinstance(one, dict) and one.get("exit") not in (0, None):
            yield f"{escaped(str(one.get('command')))} ended with {escaped(str(one['exit']))}"


def _bad(agent: str, status: Any) -> Unusable:
    shown = "no status" if status is None else f"status {escaped(json.dumps(status, ensure_ascii=False))}"
    return Unusable(problems=(f"{agent} returned {shown}; expected {', '.join(STATUSES[:-1])} or {STATUSES[-1]}",))

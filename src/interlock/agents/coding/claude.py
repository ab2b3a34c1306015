"""Claude Code: ``claude -p`` with its stream of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from interlock.agents.coding.dialect import (
    Ask,
    Invocation,
    Reading,
    RoleText,
    list_of,
    mapping_of,
    plan_of,
    subject_of,
    text_of,
    tokens_of,
    with_fitting_role,
)
from interlock.agents.coding.events import (
    Event,
    Planned,
    SessionBegan,
    Spent,
    Spoke,
    Thought,
    ToolState,
    Waits,
)
from interlock.agents.coding.trouble import CallTrouble, Cause, trouble
from interlock.agents.records import count_of, number_of, usage_from
from interlock.agents.runner import Usage

_ENVIRONMENT: Final = {
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    # Long waits are ours: between calls, outside of the deadline.
    "CLAUDE_CODE_MAX_RETRIES": "2",
}
_FREE_TOOLS: Final = (
    "Bash",
    "BashOutput",
    "Glob",
    "Grep",
    "KillShell",
    "LS",
    "NotebookRead",
    "Read",
    "Skill",
    "Task",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TodoWrite",
    "WebFetch",
    "WebSearch",
)
"""What an agent may use without asking, besides editing in its folder."""
_ALLOW: Final = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}
_HOOKS: Final = {
    "PreToolUse": [
        {"matcher": "mcp__.*", "hooks": [{"type": "command", "command": f"echo '{json.dumps(_ALLOW)}'"}]},
    ]
}
"""No rule can name the tools of all servers at once. What the user has forbidden, this does not allow."""
_SETTINGS: Final = {"permissions": {"allow": list(_FREE_TOOLS)}, "hooks": _HOOKS}
LEAST_USD: Final = 0.000001


class Claude:
    name: Final = "claude"
    program: Final = "claude"

    def invocation(self, program: str, ask: Ask) -> Invocation:
        ask = with_fitting_role(ask, _agents)
        argv = [program, "-p", "--output-format", "stream-json", "--verbose"]
        env, files = dict(_ENVIRONMENT), {}
        if ask.confined:
            argv.append("--dangerously-skip-permissions")
            env["IS_SANDBOX"] = "1"  # else it refuses that to root
        else:
            settings = ask.folder / "claude-settings.json"
            files[settings] = json.dumps(_SETTINGS, indent=1)
            # Nobody is there to be asked: what is not allowed is refused.
            argv += ["--permission-mode", "acceptEdits", "--add-dir", str(ask.folder), "--settings", str(settings)]
        if ask.resume:
            argv += ["--resume", ask.resume]
        if ask.allowance is not None and ask.allowance.usd is not None:
            argv += ["--max-budget-usd", f"{max(ask.allowance.usd, LEAST_USD):.6f}"]
        if ask.model:
            argv += ["--model", ask.model]
        if ask.role is not None:
            argv += ["--agents", _agents(ask.role), "--agent", ask.role.name]
        return Invocation((*argv, *ask.args), stdin=ask.prompt, env=env, files=files)

    def reader(self, ask: Ask) -> ClaudeStream:
        role = with_fitting_role(ask, _agents).role
        return ClaudeStream(role=role.name if role else None)


def _agents(role: RoleText) -> str:
    return json.dumps({role.name: {"description": role.description, "prompt": role.text}}, ensure_ascii=False)


@dataclass
class ClaudeStream(Reading):
    role: str | None = None
    reset_s: float | None = None
    result: Mapping[str, Any] = field(default_factory=dict)
    wrong_role: CallTrouble | None = None
    changes: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """What it is about to change in its list of tasks, by call."""
    tasks: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Its list of tasks: what, and how far."""
    messages: dict[str, int] = field(default_factory=dict)
    """Tokens that the model read for each message, as long as there is no result."""

    def take(self, line: Mapping[str, Any]) -> Iterable[Event]:
        match line.get("type"), line.get("subtype"):
            case "system", "init":
                return self._init(line)
            case "system", "api_retry":
                delay = number_of(line.get("retry_delay_ms"))
                why = f"model service: {line.get('error') or line.get('error_status')}"
                return [Waits(why, delay / 1000 if delay is not None else None)]
            case "rate_limit_event", _:
                return self._limit(mapping_of(line.get("rate_limit_info")))
            case "assistant", _:
                return self._assistant(mapping_of(line.get("message")))
            case "user", _:
                return self._tool_results(mapping_of(line.get("message")), mapping_of(line.get("tool_use_result")))
            case "result", _:
                return self._end(line)
        return []

    def trouble(self) -> CallTrouble | None:
        return self.wrong_role or self._stopped()

    def _init(self, line: Mapping[str, Any]) -> Iterator[Event]:
        self.session = text_of(line.get("session_id")) or None
        known = line.get("agents")
        if self.role is not None and isinstance(known, list) and self.role not in known:
            self.wrong_role = CallTrouble(
                Cause.ROLE, f"the agent does not know the role {self.role!r} that it was given"
            )
        if self.session:
            yield SessionBegan(self.session, text_of(line.get("model")) or None)

    def _limit(self, info: Mapping[str, Any]) -> Iterator[Event]:
        resets = number_of(info.get("resetsAt"))
        if info.get("status") == "rejected" and resets is not None:
            self.reset_s = max(0.0, resets - datetime.now(UTC).timestamp())
            yield Waits(f"limit of {info.get('rateLimitType') or 'the subscription'} reached", self.reset_s)

    def _assistant(self, message: Mapping[str, Any]) -> Iterator[Event]:
        for block in map(mapping_of, list_of(message.get("content"))):
            match block.get("type"):
                case "text" if text_of(block.get("text")).strip():
                    yield Spoke(block["text"])
                case "thinking" if text_of(block.get("thinking")).strip():
                    yield Thought(block["thinking"])
                case "tool_use":
                    yield from self._tool(block)
        yield from self._spent(text_of(message.get("id")), mapping_of(message.get("usage")))

    def _spent(self, message: str, said: Mapping[str, Any]) -> Iterator[Event]:
        """A message comes in several lines, each with the same account; of what it wrote that has the first count."""
        if (into := _input(said)) and self.messages.get(message) != into:
            self.messages[message] = into
            self.usage = Usage(input_tokens=sum(self.messages.values()))
            yield Spent(self.usage)

    def _tool(self, block: Mapping[str, Any]) -> Iterator[Event]:
        name, given = text_of(block.get("name")), mapping_of(block.get("input"))
        call = text_of(block.get("id"))
        self.acted = True
        match name:
            case "TodoWrite":  # of older versions
                yield plan_of(given.get("todos"))
            case "TaskCreate" | "TaskUpdate":
                self.changes[call] = given
            case _:
                yield self.tool(call, name, subject_of(given))

    def _tool_results(self, message: Mapping[str, Any], told: Mapping[str, Any]) -> Iterator[Event]:
        for block in map(mapping_of, list_of(message.get("content"))):
            call = text_of(block.get("tool_use_id"))
            if block.get("type") != "tool_result":
                continue
            state = _state(block)
            yield from self.tool_ended(call, state, _words(block) if state is ToolState.REFUSED else "")
            if (change := self.changes.pop(call, None)) is not None:
                yield from self._plan(change, told)

    def _plan(self, change: Mapping[str, Any], told: Mapping[str, Any]) -> Iterator[Event]:
        """The list after a change of which the agent was told that it was made; a new task gets its number then."""
        number = text_of(mapping_of(told.get("task")).get("id"))
        if not number and told.get("success") is True:
            number = text_of(change.get("taskId"))
        if not number:
            return
        text, state = self.tasks.get(number, ("", "pending"))
        self.tasks[number] = text_of(change.get("subject")) or text, text_of(change.get("status")) or state
        if change.get("status") == "deleted":
            del self.tasks[number]
        yield Planned(tuple(self.tasks.values()))

    def _end(self, line: Mapping[str, Any]) -> Iterator[Event]:
        self.result, self.finished, self.text = line, True, text_of(line.get("result"))
        self.exhausted = line.get("subtype") == "error_max_budget_usd"
        said = mapping_of(line.get("usage"))
        tokens = tokens_of(_input(said), count_of(said.get("output_tokens")))
        price = usage_from({"cost_usd": line.get("total_cost_usd") or None})
        if told := tokens.plus(price) if tokens and price else tokens or price:
            self.usage = told
        if self.usage is not None:
            yield Spent(self.usage)

    def _stopped(self) -> CallTrouble | None:
        stopped = text_of(self.result.get("subtype"))
        if not self.result.get("is_error") and not stopped.startswith("error"):
            return None
        status = count_of(self.result.get("api_error_status"))
        said = "; ".join(map(str, list_of(self.result.get("errors")))) or self.text
        if status is None and stopped.startswith("error_max"):
            return CallTrouble(Cause.REQUEST, f"the agent stopped by itself ({stopped}): {said}".rstrip(": "))
        return trouble(said or stopped, status=status, reset_s=self.reset_s)


_INPUT_TOKENS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def _input(said: Mapping[str, Any]) -> int | None:
    known = [number for name in _INPUT_TOKENS if (number := count_of(said.get(name))) is not None]
    return sum(known) if known else None


def _words(block: Mapping[str, Any]) -> str:
    """The text of a tool's result."""
    content = block.get("content")
    return text_of(content) or " ".join(text_of(mapping_of(part).get("text")) for part in list_of(content))


def _state(block: Mapping[str, Any]) -> ToolState:
    if not block.get("is_error"):
        return ToolState.DONE
    return ToolState.REFUSED if "ermission" in json.dumps(block.get("content")) else ToolState.FAILED

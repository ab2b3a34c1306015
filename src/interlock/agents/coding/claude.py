"""Claude Code: ``claude -p`` with its stream of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from interlock.agents.coding.dialect import (
    Ask,
    Conclusion,
    Invocation,
    count_of,
    list_of,
    mapping_of,
    subject_of,
    text_of,
)
from interlock.agents.coding.events import (
    Event,
    Planned,
    Said,
    SessionBegan,
    Spent,
    Thought,
    ToolState,
    ToolUsed,
    Waits,
)
from interlock.agents.coding.scopes import PathRules
from interlock.agents.coding.trouble import Kind, Trouble, trouble
from interlock.agents.records import usage_from
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
"""What an agent may use without asking: everything that edits no file by itself. The shell is held by the diff."""
_EDITING: Final = ("Edit", "Write", "NotebookEdit")


class Claude:
    name: Final = "claude"
    program: Final = "claude"

    def invocation(self, program: str, ask: Ask) -> Invocation:
        argv = [program, "-p", "--output-format", "stream-json", "--verbose", *_permissions(ask.rules)]
        if ask.model:
            argv += ["--model", ask.model]
        if ask.role is not None:
            role = {"description": ask.role.description, "prompt": ask.role.text}
            argv += ["--agents", json.dumps({ask.role.name: role}), "--agent", ask.role.name]
        return Invocation((*argv, *ask.args), stdin=ask.prompt, env=_ENVIRONMENT)

    def reader(self, ask: Ask) -> ClaudeStream:
        return ClaudeStream(ask.role.name if ask.role else None)


def _permissions(rules: PathRules | None) -> list[str]:
    """Edits inside the scope are allowed, others refused by the agent itself; nobody is there to be asked."""
    if rules is None or rules.everything:
        allowed: list[str] = list(_EDITING)
    else:
        allowed = [f"{tool}({pattern})" for pattern in rules.allowed for tool in _EDITING]
    denied = [f"{tool}({pattern})" for pattern in (rules.denied if rules else ()) for tool in _EDITING]
    settings = {"permissions": {"allow": [*_FREE_TOOLS, *allowed], "deny": denied}}
    return ["--permission-mode", "dontAsk", "--settings", json.dumps(settings)]


@dataclass
class ClaudeStream:
    """The stream of one call. Qwen Code speaks the same language."""

    role: str | None = None
    session: str | None = None
    acted: bool = False
    reset_s: float | None = None
    result: Mapping[str, Any] | None = None
    wrong_role: Trouble | None = None
    tools: dict[str, str] = field(default_factory=dict)

    def take(self, line: Mapping[str, Any]) -> Iterable[Event]:
        match line.get("type"), line.get("subtype"):
            case "system", "init":
                return self._init(line)
            case "system", "api_retry":
                delay = line.get("retry_delay_ms")
                seconds = delay / 1000 if isinstance(delay, int | float) else None
                return [Waits(f"model service: {line.get('error') or line.get('error_status')}", seconds)]
            case "rate_limit_event", _:
                return self._limit(mapping_of(line.get("rate_limit_info")))
            case "assistant", _:
                return self._assistant(mapping_of(line.get("message")))
            case "user", _:
                return self._tool_results(mapping_of(line.get("message")))
            case "result", _:
                self.result = line
                usage = self._usage()
                return [Spent(usage)] if usage else []
        return []

    def conclude(self) -> Conclusion:
        result = self.result or {}
        text = text_of(result.get("result"))
        return Conclusion(
            text=text,
            finished=self.result is not None,
            acted=self.acted,
            session=self.session,
            usage=self._usage(),
            trouble=self.wrong_role or self._trouble(result, text),
        )

    def _init(self, line: Mapping[str, Any]) -> Iterator[Event]:
        self.session = text_of(line.get("session_id")) or None
        known = line.get("agents")
        if self.role is not None and isinstance(known, list) and self.role not in known:
            self.wrong_role = Trouble(Kind.ROLE, f"the agent does not know the role {self.role!r} that it was given")
        if self.session:
            yield SessionBegan(self.session, text_of(line.get("model")) or None)

    def _limit(self, info: Mapping[str, Any]) -> Iterator[Event]:
        resets = info.get("resetsAt")
        if info.get("status") == "rejected" and isinstance(resets, int | float):
            self.reset_s = max(0.0, resets - datetime.now(UTC).timestamp())
            yield Waits(f"limit of {info.get('rateLimitType') or 'the subscription'} reached", self.reset_s)

    def _assistant(self, message: Mapping[str, Any]) -> Iterator[Event]:
        for block in map(mapping_of, list_of(message.get("content"))):
            match block.get("type"):
                case "text" if text_of(block.get("text")).strip():
                    yield Said(block["text"])
                case "thinking" if text_of(block.get("thinking")).strip():
                    yield Thought(block["thinking"])
                case "tool_use":
                    yield from self._tool(block)

    def _tool(self, block: Mapping[str, Any]) -> Iterator[Event]:
        name, given = text_of(block.get("name")), mapping_of(block.get("input"))
        call = text_of(block.get("id"))
        self.acted = True
        self.tools[call] = name
        if name == "TodoWrite":
            entries = (mapping_of(entry) for entry in list_of(given.get("todos")))
            yield Planned(tuple((text_of(entry.get("content")), text_of(entry.get("status"))) for entry in entries))
        else:
            yield ToolUsed(call, name, subject_of(given))

    def _tool_results(self, message: Mapping[str, Any]) -> Iterator[Event]:
        for block in map(mapping_of, list_of(message.get("content"))):
            if block.get("type") == "tool_result":
                call = text_of(block.get("tool_use_id"))
                yield ToolUsed(call, self.tools.pop(call, ""), state=_state(block))

    def _trouble(self, result: Mapping[str, Any], text: str) -> Trouble | None:
        if not result.get("is_error"):
            return None
        status = count_of(result.get("api_error_status"))
        if status is None and str(result.get("subtype", "")).startswith("error"):
            said = "; ".join(map(str, list_of(result.get("errors")))) or text
            return Trouble(Kind.REQUEST, f"the agent stopped by itself ({result['subtype']}): {said}".rstrip(": "))
        return trouble(text, status=status, reset_s=self.reset_s)

    def _usage(self) -> Usage | None:
        result = self.result or {}
        said = mapping_of(result.get("usage"))
        read = [count_of(said.get(name)) for name in _INPUT_TOKENS]
        known = [number for number in read if number is not None]
        if result.get("is_error") and not sum(known):  # no model was reached: what that cost is not said
            return None
        return usage_from(
            {
                "input_tokens": sum(known) if known else None,
                "output_tokens": count_of(said.get("output_tokens")),
                "cost_usd": result.get("total_cost_usd"),
            }
        )


_INPUT_TOKENS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def _state(block: Mapping[str, Any]) -> ToolState:
    if not block.get("is_error"):
        return ToolState.DONE
    return ToolState.REFUSED if "ermission" in json.dumps(block.get("content")) else ToolState.FAILED

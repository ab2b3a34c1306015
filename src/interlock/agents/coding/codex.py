"""Codex: ``codex exec --json``.

Its sandbox is one of the operating system and holds every command that the agent runs, not only its own edits.  Inside
another sandbox it does not work: commands then fail, and codex ends with 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from interlock.agents.coding.dialect import (
    Ask,
    Invocation,
    Reading,
    RoleText,
    list_of,
    mapping_of,
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
    ToolUsed,
    Waits,
    Warned,
)
from interlock.agents.coding.toml_text import inline_table, toml_string
from interlock.agents.coding.trouble import CallTrouble, trouble, used_up
from interlock.agents.records import count_of

_SETTINGS: Final = (
    'approval_policy="never"',
    "check_for_update_on_startup=false",
    "analytics.enabled=false",
    "feedback.enabled=false",
)
_PROFILE: Final = "interlock"
_UNSANDBOXED: Final = "--dangerously-bypass-approvals-and-sandbox"


class Codex:
    name: Final = "codex"
    program: Final = "codex"

    def invocation(self, program: str, ask: Ask) -> Invocation:
        ask = with_fitting_role(ask, _instructions)
        argv = [program, "exec", "--color", "never"]
        if ask.resume:
            argv.append("resume")
        argv += ["--json", "--skip-git-repo-check"]
        if ask.confined:
            argv.append(_UNSANDBOXED)
        for setting in (*_SETTINGS, *_permissions(ask), *_budget(ask)):
            argv += ["-c", setting]
        if ask.role is not None:
            argv += ["-c", _instructions(ask.role)]
        if ask.model:
            argv += ["-m", ask.model]
        session = (ask.resume,) if ask.resume else ()
        return Invocation((*argv, *ask.args, *session, "-"), stdin=ask.prompt)

    def reader(self, ask: Ask) -> CodexStream:
        return CodexStream()


def _instructions(role: RoleText) -> str:
    return f"developer_instructions={toml_string(role.text)}"


def _permissions(ask: Ask) -> Iterator[str]:
    """A profile that is chosen here wins over every sandbox setting of the user's own files.

    Commands keep the network, which codex would take from them: builds and tests need it, if only on loopback.
    """
    if ask.confined:
        return
    yield f"default_permissions={toml_string(_PROFILE)}"
    yield f'permissions.{_PROFILE}.extends=":workspace"'
    yield f"permissions.{_PROFILE}.network.enabled=true"
    yield f"permissions.{_PROFILE}.filesystem={inline_table({str(ask.folder): 'write'})}"


def _budget(ask: Ask) -> Iterator[str]:
    """Codex counts by itself, after each answer of its model; it says what it took at the end of its turn alone."""
    if ask.allowance is not None and ask.allowance.tokens is not None:
        budget = ",".join(f"{name}={json.dumps(value)}" for name, value in token_budget(ask.allowance.tokens).items())
        yield f"features.rollout_budget={{{budget}}}"
        yield "suppress_unstable_features_warning=true"


def token_budget(tokens: int) -> dict[str, Any]:
    """Codex's own limit: every token counts, read or written, and nobody is reminded of it."""
    return {
        "enabled": True,
        "enforce_limit": True,
        "limit_tokens": max(tokens, 1),
        "sampling_token_weight": 1.0,
        "prefill_token_weight": 1.0,
        "reminder_at_remaining_tokens": [],
    }


@dataclass
class CodexStream(Reading):
    failure: str | None = None
    """Of the turn, or the last error while it is not over."""

    def take(self, line: Mapping[str, Any]) -> Iterable[Event]:
        match line.get("type"):
            case "thread.started":
                self.session = text_of(line.get("thread_id")) or None
                return [SessionBegan(self.session)] if self.session else []
            case "turn.started":
                self.finished = False
            case "item.started" | "item.updated" | "item.completed":
                return self._item(mapping_of(line.get("item")), ended=line["type"] == "item.completed")
            case "error":
                return self._error(text_of(line.get("message")))
            case "turn.completed":
                return self._completed(mapping_of(line.get("usage")))
            case "turn.failed":
                self.finished = True
                said = text_of(mapping_of(line.get("error")).get("message"))
                self.failure = said or self.failure or "the turn failed"
                self.exhausted = used_up(self.failure)
        return []

    def trouble(self) -> CallTrouble | None:
        return service_trouble(self.failure, datetime.now().astimezone()) if self.failure else None

    def _completed(self, said: Mapping[str, Any]) -> Iterator[Event]:
        self.finished, self.failure, self.exhausted = True, None, False
        # The numbers are those of the whole thread.
        self.usage = tokens_of(count_of(said.get("input_tokens")), count_of(said.get("output_tokens")))
        if self.usage:
            yield Spent(self.usage)

    def _error(self, message: str) -> Iterator[Event]:
        if message.startswith("Reconnecting"):
            yield Waits(f"model service: {message}")
        else:
            self.failure = message or "an error without a word"
            yield Warned(_plain(self.failure))

    def _item(self, item: Mapping[str, Any], *, ended: bool) -> Iterator[Event]:
        text = text_of(item.get("text"))
        match item.get("type"):
            case "agent_message" if ended and text.strip():
                self.text = text
                yield Spoke(text)
            case "reasoning" if ended and text.strip():
                yield Thought(text)
            case "todo_list":
                entries = map(mapping_of, list_of(item.get("items")))
                yield Planned(
                    tuple(
                        (text_of(entry.get("text")), "completed" if entry.get("completed") else "pending")
                        for entry in entries
                    )
                )
            case "error" if ended:
                yield Warned(text_of(item.get("message")))
            case "command_execution" | "file_change" | "mcp_tool_call" | "collab_tool_call" | "web_search" as kind:
                yield from self._tool(kind, item, ended=ended)

    def _tool(self, kind: str, item: Mapping[str, Any], *, ended: bool) -> Iterator[Event]:
        self.acted = True
        state = _STATES.get(text_of(item.get("status")), ToolState.DONE) if ended else ToolState.BEGAN
        name = ".".join(filter(None, map(text_of, (item.get("server"), item.get("tool"))))) or kind
        output = text_of(item.get("aggregated_output"))
        broken = state is ToolState.FAILED and output.startswith(_SANDBOX_FAILED)
        why = f"the sandbox of codex does not work here: {output.splitlines()[0]}" if broken else ""
        state = ToolState.REFUSED if broken else state
        yield ToolUsed(text_of(item.get("id")), name, _subject(item), state, why=why or output)
        if broken:
            yield Warned(why)


_STATES: Final = {"failed": ToolState.FAILED, "declined": ToolState.REFUSED}
_SANDBOX_FAILED: Final = ("bwrap:", "codex-linux-sandbox")


def _subject(item: Mapping[str, Any]) -> str:
    changed = [text_of(mapping_of(change).get("path")) for change in list_of(item.get("changes"))]
    return " ".join(changed) or text_of(item.get("command")) or text_of(item.get("query"))


def service_trouble(message: str, now: datetime) -> CallTrouble:
    """What codex says of its model service; where it names a time of day for the next try, the seconds until then."""
    said = _plain(message)
    return trouble(said, reset_s=_reset(said, now), now=now)


def _plain(message: str) -> str:
    """The words of an error that codex hands on as the JSON it got."""
    if not message.startswith("{"):
        return message
    try:
        told = mapping_of(json.loads(message))
    except (ValueError, RecursionError):
        return message
    error = mapping_of(told.get("error"))
    words = (text_of(error.get("message")), text_of(error.get("type")), str(error.get("code") or ""))
    return ", ".join(filter(None, words)) or message


_TRY_AGAIN: Final = re.compile(
    r"try again at (?:(?P<day>[A-Z][a-z]{2} \d{1,2})(?:st|nd|rd|th), (?P<year>\d{4}) )?(?P<time>\d{1,2}:\d\d [AP]M)",
    re.IGNORECASE,
)


def _reset(text: str, now: datetime) -> float | None:
    """Codex names the moment in local time, with a date only when it is another day."""
    found = _TRY_AGAIN.search(text)
    if found is None:
        return None
    try:
        clock = datetime.strptime(found["time"], "%I:%M %p").time()
        day = datetime.strptime(f"{found['day']} {found['year']}", "%b %d %Y") if found["day"] else now
        moment = datetime.combine(day.date(), clock, now.tzinfo)
    except ValueError:
        return None
    if not found["day"] and moment < now:
        moment += timedelta(days=1)
    return max(0.0, (moment - now).total_seconds())

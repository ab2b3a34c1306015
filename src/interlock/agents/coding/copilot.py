"""GitHub Copilot CLI: ``copilot --output-format json`` with the brief on standard input.

The role is a custom agent in a plugin of this one call; an agent that it does not know ends Copilot at once.  It names
its session at the very end alone, so it is told a name at the beginning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from interlock.agents.coding.dialect import (
    Ask,
    Invocation,
    Reading,
    RoleText,
    mapping_of,
    subject_of,
    text_of,
    tokens_of,
)
from interlock.agents.coding.events import (
    Event,
    SessionBegan,
    Spoke,
    Thought,
    ToolState,
    Waits,
    Warned,
)
from interlock.agents.coding.trouble import CallTrouble, Cause, trouble
from interlock.agents.records import count_of
from interlock.agents.runner import Usage

_ENVIRONMENT: Final = {"COPILOT_AUTO_UPDATE": "false"}
_QUIET: Final = ("--output-format=json", "--stream=off", "--no-color", "--no-ask-user", "--disable-client-telemetry")
_PLUGIN: Final = "interlock"


class Copilot:
    name: Final = "copilot"
    program: Final = "copilot"

    def invocation(self, program: str, ask: Ask) -> Invocation:
        plugin, usage = ask.folder / "copilot-plugin", usage_file(ask)
        files = _plugin(plugin, ask.role) if ask.role is not None else {}
        # Its own check of paths would stop commands that name any other folder, and no edit that a command makes.
        argv = [program, *_QUIET, "--allow-all", f"--usage-output-file={usage}"]
        argv.append(f"--resume={ask.resume}" if ask.resume else f"--session-id={ask.new_session}")
        if ask.role is not None:
            argv += [f"--plugin-dir={plugin}", f"--agent={_PLUGIN}:{ask.role.name}"]
        if ask.model:
            argv.append(f"--model={ask.model}")
        return Invocation((*argv, *ask.args), stdin=ask.prompt, env=_ENVIRONMENT, files=files, leaves=(usage,))

    def reader(self, ask: Ask) -> CopilotStream:
        return CopilotStream(usage_path=usage_file(ask), named=ask.resume or ask.new_session)


def usage_file(ask: Ask) -> Path:
    """Where Copilot writes how many tokens it used, which its stream does not say."""
    return ask.folder / "copilot-usage.json"


def _plugin(folder: Path, role: RoleText) -> dict[Path, str]:
    facts = {"name": _PLUGIN, "description": "One call of interlock", "version": "1.0.0"}
    # A JSON string is a YAML string.
    head = f"---\nname: {role.name}\ndescription: {json.dumps(role.description)}\n---\n"
    return {
        folder / "plugin.json": json.dumps(facts),
        folder / "agents" / f"{role.name}.agent.md": f"{head}{role.text}\n",
    }


@dataclass
class CopilotStream(Reading):
    usage_path: Path | None = None
    named: str = ""
    """The session's name, as it was told to it."""
    error: Mapping[str, Any] | None = None
    """The last one after which the agent has done nothing more."""
    complaint: CallTrouble | None = None

    def take(self, line: Mapping[str, Any]) -> Iterable[Event]:
        data = mapping_of(line.get("data"))
        match line.get("type"):
            case "user.message" if self.named and self.session is None:
                self.session = self.named
                return [SessionBegan(self.named)]
            case "assistant.turn_start":
                self.error = None
            case "assistant.message" if not data.get("parentToolCallId"):
                return self._message(text_of(data.get("content")))
            case "assistant.reasoning" if text := text_of(data.get("content")):
                return [Thought(text)]
            case "tool.execution_start":
                return [self._tool(data)]
            case "tool.execution_complete":
                return self._tool_result(data)
            case "assistant.turn_retry":
                return [Waits(f"model service: {text_of(data.get('reason')) or 'error'}")]
            case "session.warning" if text := text_of(data.get("message")):
                return [Warned(text)]
            case "session.error":
                self.error = data
            case "result":
                return self._end(line)
        return []

    def look_back(self, last_words: str, left: Mapping[Path, str]) -> None:
        self.usage = usage_in(left.get(self.usage_path, "")) if self.usage_path else None
        if self.finished:
            return
        # What keeps it from beginning at all is said on standard error alone.
        for words, cause in ((_NO_SUCH_AGENT, Cause.ROLE), (_NO_SIGN_IN, Cause.ACCESS)):
            if found := words.search(last_words):
                self.complaint = CallTrouble(cause, found[0])

    def trouble(self) -> CallTrouble | None:
        return self.complaint or (_trouble(self.error) if self.error is not None else None)

    def _message(self, text: str) -> Iterator[Event]:
        if text:
            self.text = text
            yield Spoke(text)

    def _tool(self, data: Mapping[str, Any]) -> Event:
        given = data.get("arguments")
        # A patch is text, not an object: its second line says what it is about.
        subject = subject_of(mapping_of(given)) or "".join(text_of(given).splitlines()[1:2])
        return self.tool(text_of(data.get("toolCallId")), text_of(data.get("toolName")), subject)

    def _tool_result(self, data: Mapping[str, Any]) -> Iterator[Event]:
        why = text_of(mapping_of(data.get("error")).get("message"))
        return self.tool_ended(text_of(data.get("toolCallId")), _state(data), why)

    def _end(self, line: Mapping[str, Any]) -> Iterator[Event]:
        self.finished, self.session = True, text_of(line.get("sessionId")) or self.session
        if self.session:
            yield SessionBegan(self.session)


_NO_SUCH_AGENT: Final = re.compile(r"No such agent: [^\n]*")
_NO_SIGN_IN: Final = re.compile(r"No authentication information found|not (?:logged|signed) in[^\n]*")
_LAST_ERROR: Final = re.compile(r".*\bLast error: ", re.DOTALL)
_CAUSES: Final = {
    "authentication": Cause.ACCESS,
    "authorization": Cause.ACCESS,
    "policy": Cause.ACCESS,
    "quota": Cause.LIMITED,
    "rate_limit": Cause.LIMITED,
    "context_limit": Cause.REQUEST,
}


def _state(data: Mapping[str, Any]) -> ToolState:
    if data.get("success") is True:
        return ToolState.DONE
    refused = mapping_of(data.get("error")).get("code") in ("denied", "rejected")
    return ToolState.REFUSED if refused else ToolState.FAILED


def _trouble(error: Mapping[str, Any]) -> CallTrouble:
    # It also says how long it waited itself, which is not when the service will be back.
    said = _LAST_ERROR.sub("", text_of(error.get("message"))) or text_of(error.get("errorType"))
    found = trouble(said, status=count_of(error.get("statusCode")))
    cause = _CAUSES.get(text_of(error.get("errorType")), found.cause)
    return found if cause is found.cause else CallTrouble(cause, found.text)


def usage_in(text: str) -> Usage | None:
    """The tokens of all models, from Copilot's own account; it counts in credits, never in dollars."""
    try:
        account = mapping_of(json.loads(text or "null"))
    except (ValueError, RecursionError):
        return None
    models = [mapping_of(one) for one in mapping_of(account.get("modelMetrics")).values()]
    used = [mapping_of(one.get("usage")) for one in models]
    into = sum(count_of(one.get("inputTokens")) or 0 for one in used)
    out = sum(count_of(one.get("outputTokens")) or 0 for one in used)
    return tokens_of(into, out)

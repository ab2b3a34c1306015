"""OpenCode: ``opencode run --format json`` with the brief on standard input.

The role comes as settings of this one call, in a variable that is read after all files of the user.  It is an agent of
its own, and the default agent as well: OpenCode goes on with the default, and an exit status of 0, when it does not
know the agent that it was told to be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from interlock.agents.coding.dialect import Ask, Invocation, Reading, fits, mapping_of, plan_of, subject_of, text_of
from interlock.agents.coding.events import (
    Event,
    SessionBegan,
    Spent,
    Spoke,
    Thought,
    ToolState,
    ToolUsed,
)
from interlock.agents.coding.trouble import CallTrouble, Cause, trouble
from interlock.agents.records import count_of, usage_from
from interlock.agents.runner import Usage

_VARIABLE: Final = "OPENCODE_CONFIG_CONTENT"
_SETTINGS: Final = {"autoupdate": False, "share": "disabled", "snapshot": False}
"""Nothing is fetched or published by itself; its snapshots would only repeat ours, after every step."""


class Opencode:
    name: Final = "opencode"
    program: Final = "opencode"

    def invocation(self, program: str, ask: Ask) -> Invocation:
        ask = _fitted(ask)
        # --auto answers what would be asked of a person; what is denied stays denied. A title of its own saves the
        # request to a model that would invent one.
        argv = [program, "run", "--format", "json", "--auto", "--thinking", "--title", "interlock"]
        # Errors of its own parts are in its log alone.
        argv += ["--print-logs", "--log-level", "ERROR"]
        if ask.resume:
            argv += ["--session", ask.resume]
        if ask.role is not None:
            argv += ["--agent", ask.role.name]
        if ask.model:
            argv += ["--model", ask.model]
        env = {_VARIABLE: _literal(settings_of(ask)), "OPENCODE_DISABLE_AUTOUPDATE": "1"}
        return Invocation((*argv, *ask.args), stdin=ask.prompt, env=env)

    def reader(self, ask: Ask) -> OpencodeStream:
        return OpencodeStream()


def _fitted(ask: Ask) -> Ask:
    """The role stays with the prompt where one variable does not hold it."""
    return ask if fits(f"{_VARIABLE}={_literal(settings_of(ask))}") else ask.undivided


def settings_of(ask: Ask) -> dict[str, Any]:
    """The settings of this call, its role among them."""
    settings: dict[str, Any] = {**_SETTINGS, "permission": permissions(ask)}
    if ask.role is not None:
        role = {"description": ask.role.description, "prompt": ask.role.text, "permission": permissions(ask)}
        settings["agent"] = {ask.role.name: {**role, "mode": "primary", "disable": False, "hidden": False}}
        settings["default_agent"] = ask.role.name
    return settings


def permissions(ask: Ask) -> dict[str, Any]:
    """Everything where the kernel holds it; else what a person allows it, but not outside of its folder."""
    if ask.confined:
        return {"*": "allow"}
    return {"external_directory": {"*": "deny", f"{ask.folder}/*": "allow"}}


def _literal(settings: Mapping[str, Any]) -> str:
    """The settings as text in which OpenCode finds no placeholder: it would fill in variables and files."""
    return re.sub(r"\{(?=env:|file:)", r"\\u007b", json.dumps(settings, ensure_ascii=False))


@dataclass
class OpencodeStream(Reading):
    speaking: bool = False
    error: Mapping[str, Any] | None = None
    """The last one after which the agent has done nothing more."""
    steps: list[Mapping[str, Any]] = field(default_factory=list)
    complaint: CallTrouble | None = None
    causes: dict[str, str] = field(default_factory=dict)
    """What its log says of errors that the stream only numbers."""
    heard_ms: int = 0
    """The moment of the last line of its stream, as it says it itself."""

    def take(self, line: Mapping[str, Any]) -> Iterable[Event]:
        self.heard_ms = max(self.heard_ms, count_of(line.get("timestamp")) or 0)
        return [*self._begin(line), *self._take(line)]

    def look_back(self, last_words: str, left: Mapping[Path, str]) -> None:
        words = _COLOUR.sub("", last_words)
        self.causes = {found["ref"]: found["cause"] for found in _LOGGED.finditer(words)}
        # Before it tries a request again it says nothing in its stream.
        for failed in _FAILED_REQUEST.finditer(words):
            self.waiting = failed["cause"] if _milliseconds(failed["moment"]) >= self.heard_ms else ""
        if found := _FALLBACK.search(words):
            self.complaint = CallTrouble(Cause.ROLE, found[0])
        elif found := _BAD_SETTINGS.search(words):
            self.complaint = CallTrouble(Cause.REQUEST, " ".join(found[0].split()))

    def trouble(self) -> CallTrouble | None:
        return self.complaint or (self._failure(self.error) if self.error is not None else None)

    def _begin(self, line: Mapping[str, Any]) -> Iterator[Event]:
        if self.session is None and (session := text_of(line.get("sessionID"))):
            self.session = session
            yield SessionBegan(session)

    def _take(self, line: Mapping[str, Any]) -> Iterator[Event]:
        part = mapping_of(line.get("part"))
        match line.get("type"):
            case "step_start":
                self.speaking, self.finished, self.error = False, False, None
            case "text" if text := text_of(part.get("text")):
                self.text = f"{self.text}\n\n{text}" if self.speaking else text
                self.speaking = True
                yield Spoke(text)
            case "reasoning" if text := text_of(part.get("text")):
                yield Thought(text)
            case "tool_use":
                yield from self._tool(part)
            case "step_finish":
                self.steps.append(part)
                self.finished, self.usage = part.get("reason") not in _GOES_ON, self._counted()
                if self.usage is not None:
                    yield Spent(self.usage)
            case "error":
                self.error, self.finished = mapping_of(line.get("error")), False

    def _tool(self, part: Mapping[str, Any]) -> Iterator[Event]:
        """OpenCode speaks of a tool when it is done with it."""
        self.acted = True
        call, name, state = text_of(part.get("callID")), text_of(part.get("tool")), mapping_of(part.get("state"))
        given = mapping_of(state.get("input"))
        if name == "todowrite":
            yield plan_of(given.get("todos"))
        else:
            yield ToolUsed(call, name, subject_of(given), _state(state), why=text_of(state.get("error")))

    def _failure(self, error: Mapping[str, Any]) -> CallTrouble:
        name, data = text_of(error.get("name")), mapping_of(error.get("data"))
        said = self.causes.get(text_of(data.get("ref"))) or text_of(data.get("message")) or name
        if name in _CAUSES:
            return CallTrouble(_CAUSES[name], said)
        return trouble(said, status=count_of(data.get("statusCode")), reset_s=_reset(data))

    def _counted(self) -> Usage | None:
        """Of the agent itself: its sub-agents are not in the stream. A price of 0 is one that it does not know."""
        tokens = [mapping_of(step.get("tokens")) for step in self.steps]
        caches = [mapping_of(one.get("cache")) for one in tokens]
        into = _sum(tokens, "input") + _sum(caches, "read") + _sum(caches, "write")
        out = _sum(tokens, "output") + _sum(tokens, "reasoning")
        costs = [step.get("cost") for step in self.steps]
        cost = sum(one for one in costs if isinstance(one, float) and one < _ABSURD)
        if not into and not out:
            return None
        return usage_from({"input_tokens": into, "output_tokens": out, "cost_usd": cost or None})


_ABSURD: Final = 1e9
"""Dollars."""
_GOES_ON: Final = ("tool-calls", "unknown", "error")
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_FALLBACK: Final = re.compile(r'agent "[^"\n]*" [^\n]*Falling back to default agent')
_BAD_SETTINGS: Final = re.compile(r"Configuration is invalid[^\n]*(?:\n[^\n]+)?")
_LOGGED: Final = re.compile(r'ref=(?P<ref>\S+) error="(?P<cause>(?:[^"\\\n]|\\.)*)"')
_FAILED_REQUEST: Final = re.compile(
    r'timestamp=(?P<moment>\S+) [^\n]*message="stream error"[^\n]* error\.error="(?P<cause>(?:[^"\\\n]|\\.)*)"'
)
_CAUSES: Final = {
    "ProviderAuthError": Cause.ACCESS,
    "ContextOverflowError": Cause.REQUEST,
    "MessageOutputLengthError": Cause.REQUEST,
    "ContentFilterError": Cause.REQUEST,
}


def _state(state: Mapping[str, Any]) -> ToolState:
    if state.get("status") != "error":
        return ToolState.DONE
    refused = re.search(r"specified a rule which prevents|rejected permission", text_of(state.get("error")))
    return ToolState.REFUSED if refused else ToolState.FAILED


def _reset(data: Mapping[str, Any]) -> float | None:
    headers = mapping_of(data.get("responseHeaders"))
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text_of(headers.get(name))):
            return float(headers[name]) * scale
    return None


def _milliseconds(moment: str) -> float:
    """A moment of the log in the measure of the stream; before all others where it cannot be read."""
    try:
        return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp() * 1000
    except (ValueError, OverflowError):
        return -1.0


def _sum(counts: Iterable[Mapping[str, Any]], name: str) -> int:
    return sum(count_of(one.get(name)) or 0 for one in counts)

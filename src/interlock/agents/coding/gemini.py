"""Gemini CLI: ``gemini -o stream-json`` with the brief on standard input.

Its settings come from files of the user and of the project alone; what a call can decide is on the command line, in
the environment and in a policy file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from interlock.agents.coding.dialect import (
    Ask,
    Invocation,
    Reading,
    list_of,
    mapping_of,
    plan_of,
    subject_of,
    text_of,
    tokens_of,
)
from interlock.agents.coding.events import Event, SessionBegan, Spent, Spoke, ToolState, Warned
from interlock.agents.coding.trouble import CallTrouble, Cause, trouble
from interlock.agents.records import count_of

_ENVIRONMENT: Final = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
_NO_SEARCH: Final = '[[rule]]\ntoolName = ["glob"]\ndecision = "deny"\npriority = 999\n'


class Gemini:
    name: Final = "gemini"
    program: Final = "gemini"

    def invocation(self, program: str, ask: Ask) -> Invocation:
        argv = [program, "-o", "stream-json", "--approval-mode", "yolo", "--skip-trust"]
        env, files = dict(_ENVIRONMENT), {}
        stdin = taken_literally(ask.prompt, ask.workspace)
        if _MENTION.search(stdin):
            # Where no file has the name after an "@", gemini searches for one that contains it, if it has this tool.
            path = ask.folder / "gemini-policy.toml"
            argv += ["--admin-policy", str(path)]
            files[path] = _NO_SEARCH
        if ask.resume:
            argv += ["--resume", ask.resume]
        if not ask.confined:
            argv += ["--include-directories", str(ask.folder)]
        if ask.role is not None:
            path = ask.folder / "gemini-role.md"
            env["GEMINI_SYSTEM_MD"] = str(path)
            # The role takes the place of gemini's own instructions; skills and sub-agents would be lost with them.
            files[path] = f"{ask.role.text}\n\n${{SubAgents}}\n\n${{AgentSkills}}\n"
        if ask.model:
            argv += ["-m", ask.model]
        return Invocation((*argv, *ask.args), stdin=stdin, env=env, files=files)

    def reader(self, ask: Ask) -> GeminiStream:
        return GeminiStream()


_MENTION: Final = re.compile(
    r'(?<!\\)@(?P<path>(?:"[^"]*"|\\.|[^ \t\n\r,;!?()\[\]{}.]|\.(?!\Z|[ \t\n\r]))+)',
)
"""What gemini takes for the name of a file that it shall paste into the prompt."""


def taken_literally(prompt: str, workspace: Path) -> str:
    """The prompt, written so that gemini passes it on as it is.

    A word after ``@`` that is the path of a file gets a backslash before it: otherwise the file, or a whole folder,
    is pasted in and the spaces of the prompt change.  A slash at the very beginning would be a command.
    """

    def kept(found: re.Match[str]) -> str:
        path = re.sub(r"\\(.)", r"\1", found["path"].replace('"', ""))
        return f"\\{found[0]}" if _stands(workspace / path) else found[0]

    literal = _MENTION.sub(kept, prompt)
    return f"\n{literal}" if literal.startswith("/") else literal


def _stands(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # too long for a name
        return False


@dataclass
class GeminiStream(Reading):
    speaking: bool = False
    """The last message comes in pieces."""
    stopped: str | None = None
    """An error after which the agent has done nothing more."""
    result: Mapping[str, Any] = field(default_factory=dict)

    def take(self, line: Mapping[str, Any]) -> Iterable[Event]:
        match line.get("type"):
            case "init":
                self.session = text_of(line.get("session_id")) or None
                return [SessionBegan(self.session, text_of(line.get("model")) or None)] if self.session else []
            case "message" if line.get("role") == "assistant":
                return self._message(text_of(line.get("content")))
            case "tool_use":
                return self._tool(line)
            case "tool_result":
                return self._tool_result(line)
            case "error":
                self.stopped = text_of(line.get("message")) or "an error without a word"
                return [Warned(self.stopped)]
            case "result":
                self.result, self.finished, stats = line, True, mapping_of(line.get("stats"))
                self.usage = tokens_of(count_of(stats.get("input_tokens")), count_of(stats.get("output_tokens")))
                return [Spent(self.usage)] if self.usage else []
        return []

    def look_back(self, last_words: str, left: Mapping[Path, str]) -> None:
        # Neither speaking nor at work: then an answer of the service is due.
        failed = () if self.speaking or self.tools else _ATTEMPT.finditer(last_words)
        for found in failed:
            self.waiting = " ".join(found["why"].split()).strip(" .:") or "a request failed"

    def _message(self, text: str) -> Iterator[Event]:
        if not text:
            return
        self.text = self.text + text if self.speaking else text
        self.speaking, self.stopped = True, None
        yield Spoke(text)

    def _tool(self, line: Mapping[str, Any]) -> Iterator[Event]:
        call, name = text_of(line.get("tool_id")), text_of(line.get("tool_name"))
        given = mapping_of(line.get("parameters"))
        self.acted, self.speaking, self.stopped = True, False, None
        if name == "write_todos":
            yield plan_of(given.get("todos"), "description")
        else:
            yield self.tool(call, name, subject_of(given))

    def _tool_result(self, line: Mapping[str, Any]) -> Iterator[Event]:
        why = text_of(mapping_of(line.get("error")).get("message"))
        return self.tool_ended(text_of(line.get("tool_id")), _state(line), why)

    def trouble(self) -> CallTrouble | None:
        if not self.finished:
            return None
        if self.result.get("status") != "success":
            return service_trouble(text_of(mapping_of(self.result.get("error")).get("message")) or self.stopped or "")
        # A loop that it found, or its limit of turns: it stops, and calls that a success.
        return CallTrouble(Cause.REQUEST, f"the agent stopped by itself: {self.stopped}") if self.stopped else None


def _state(line: Mapping[str, Any]) -> ToolState:
    if line.get("status") != "error":
        return ToolState.DONE
    refused = text_of(mapping_of(line.get("error")).get("type")) == "policy_violation"
    return ToolState.REFUSED if refused else ToolState.FAILED


_API_ERROR: Final = re.compile(r"\[API Error: (?P<said>.*?)\](?P<advice>\n.*)?\Z", re.DOTALL)


def service_trouble(message: str) -> CallTrouble:
    """What gemini says of a failed request: its own words around those of the service, which may be JSON."""
    found = _API_ERROR.search(message)
    if found is None:
        return trouble(message)
    try:
        error = mapping_of(mapping_of(json.loads(found["said"])).get("error"))
    except (ValueError, RecursionError):
        return trouble(f"{found['said']} {found['advice'] or ''}")
    words = (text_of(error.get("message")), text_of(error.get("status")))
    delay = next(filter(None, (_DELAY.fullmatch(text) for text in _retry_delays(error))), None)
    return trouble(
        ", ".join(filter(None, words)),
        status=count_of(error.get("code")),
        reset_s=float(delay["seconds"]) if delay else None,
    )


_ATTEMPT: Final = re.compile(
    r"^Attempt \d+ failed(?P<why>.{0,1000}?)Retrying (?:after|with) ", re.MULTILINE | re.DOTALL
)
_DELAY: Final = re.compile(r"(?P<seconds>\d{1,9}(?:\.\d{1,9})?)s")


def _retry_delays(error: Mapping[str, Any]) -> Iterator[str]:
    return (text_of(mapping_of(detail).get("retryDelay")) for detail in list_of(error.get("details")))

"""Qwen Code: ``qwen -o stream-json`` with the brief on standard input; its stream is Claude Code's, nearly.

What has no option is set in the lowest of its settings files, so that all that the user has set stays in force.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from interlock.agents.coding.claude import ClaudeStream, planned
from interlock.agents.coding.dialect import (
    Ask,
    Invocation,
    RoleText,
    count_of,
    mapping_of,
    text_of,
    with_fitting_role,
)
from interlock.agents.coding.events import Event
from interlock.agents.coding.trouble import Trouble, trouble
from interlock.agents.records import usage_from
from interlock.agents.runner import Usage

_SETTINGS: Final = {
    "$version": 4,
    "general": {"enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    # Long waits are ours; by itself it waits for minutes, ten times. Seven tries in over a minute stay in any case.
    "model": {"generationConfig": {"maxRetries": 0}},
    # After each answer it would ask its model what to remember of it.
    "memory": {"enableManagedAutoMemory": False},
}


class Qwen:
    name: Final = "qwen"
    program: Final = "qwen"

    def invocation(self, program: str, ask: Ask) -> Invocation:
        ask = with_fitting_role(ask, _system_prompt)
        settings = ask.folder / "qwen-settings.json"
        argv = [program, "-o", "stream-json", "--approval-mode=yolo"]
        if ask.resume:
            argv.append(f"--resume={ask.resume}")
        if ask.role is not None:
            argv.append(_system_prompt(ask.role))
        if ask.model:
            argv.append(f"--model={ask.model}")
        return Invocation(
            (*argv, *ask.args),
            stdin=taken_literally(ask.prompt),
            env={"QWEN_CODE_SYSTEM_DEFAULTS_PATH": str(settings)},
            files={settings: json.dumps(_SETTINGS, indent=2)},
        )

    def reader(self, ask: Ask) -> QwenStream:
        return QwenStream(resumed=ask.resume is not None)


def _system_prompt(role: RoleText) -> str:
    return f"--append-system-prompt={role.text}"


def taken_literally(prompt: str) -> str:
    r"""The prompt, written so that Qwen passes it on.

    A word after ``@`` would be the name of a file to paste in, and the spaces before and between such words would
    change, wherever they stand and whether there is a file or not; ``\@`` is its way to say that none is meant.  A
    slash at the very beginning would be a command.
    """
    literal = re.sub(r"(?<!\\)@", r"\\@", prompt)
    if literal != prompt:
        literal = f"(Below, `\\@` stands for a plain at sign.)\n\n{literal}"
    return f"Your task:\n\n{literal}" if literal.lstrip().startswith("/") else literal


@dataclass
class QwenStream(ClaudeStream):
    """Older versions report an error of the service as an ordinary answer, and a success."""

    resumed: bool = False
    """The session was begun in an earlier call; its result counts that one too."""
    counted: bool = False
    """The service told the tokens of the last message, so that it was not cut off."""

    def _tool(self, block: Mapping[str, Any]) -> Iterator[Event]:
        if block.get("name") != "todo_write":
            yield from super()._tool(block)
            return
        self.acted = True
        yield planned(mapping_of(block.get("input")).get("todos"))

    def _trouble(self, result: Mapping[str, Any], text: str) -> Trouble | None:
        found = _API_ERROR.search(text)
        # Put behind what it had said so far, without a line of its own; so could the agent end by quoting one.
        if found and (found["alone"] is not None or not self.counted):
            return trouble(found["said"])
        error = mapping_of(result.get("error"))
        return super()._trouble(result, text or text_of(error.get("message")))

    def _of_message(self, said: Mapping[str, Any]) -> Usage | None:
        usage = self._of_result({"usage": said})
        self.counted = usage is not None
        return usage

    def _usage(self) -> Usage | None:
        if self.resumed and self.messages:
            return reduce(Usage.plus, self.messages.values())
        return super()._usage()

    def _of_result(self, result: Mapping[str, Any]) -> Usage | None:
        """Its input includes what came from a cache; zeros are what it counts when every request failed."""
        said = mapping_of(result.get("usage"))
        into, out = count_of(said.get("input_tokens")), count_of(said.get("output_tokens"))
        return usage_from({"input_tokens": into, "output_tokens": out}) if into or out else None


_API_ERROR: Final = re.compile(
    r"(?P<alone>^)?\[API Error: (?P<said>(?:(?!\[API Error: ).)*)\](?:\n(?:Possible quota|Please wait)[^\n]*)?\s*\Z",
    re.DOTALL | re.MULTILINE,
)
"""The form of such an answer: at its very end, for a limit with a line of advice."""

"""Qwen Code: `qwen -o stream-json`, a stream that is nearly Claude Code's.

It answers an error of its service as text, with exit status 0 and no mark of an error.
"""

from __future__ import annotations

import json

from interlock.agents.client import ClientRow, Start, chosen
from interlock.agents.clients import claude
from interlock.agents.clients.gemini import taken_literally
from interlock.agents.reading import Json
from interlock.agents.trouble import trouble
from interlock.agents.values import Ask, Room

_LOGIN = ".qwen/oauth_creds.json"
ROW = ClientRow(
    name="qwen",
    title="Qwen Code",
    program="qwen",
    install="npm install -g @qwen-code/qwen-code",
    sign_in="Run `qwen` once and sign in, or set OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL.",
    logins=(_LOGIN, ".qwen/settings.json", ".qwen/.env", ".qwen/installation_id"),
    signed_in=(_LOGIN, "OPENAI_API_KEY"),
    variables=("OPENAI_API_KEY", "DASHSCOPE_API_KEY"),
    hosts=("chat.qwen.ai", "portal.qwen.ai", "dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"),
    urls=("OPENAI_BASE_URL",),
)
_SETTINGS = {
    "$version": 4,
    "general": {"enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    # Long waits are ours; by itself it waits for minutes, ten times. Seven tries in over a minute stay in any case.
    "model": {"generationConfig": {"maxRetries": 0}},
    "memory": {"enableManagedAutoMemory": False},  # after each answer it would ask its model what to remember of it
}
_FILE = "qwen-settings.json"


def start(ask: Ask, room: Room) -> Start:
    argv = [room.program, "-o", "stream-json", "--approval-mode", "yolo"]
    if not room.confined:
        argv += ["--include-directories", room.exchange]
    # The lowest of its settings files, so that all that a person has set stays.
    env = {"QWEN_CODE_SYSTEM_DEFAULTS_PATH": f"{room.exchange}/{_FILE}"}
    brief = taken_literally(ask.brief, room.root / room.place)
    return Start((*argv, *chosen(ask)), brief, env, {_FILE: json.dumps(_SETTINGS)})


class Stream(claude.Stream):
    whole = True
    _failed = False
    """Its last message was counted by nobody: its request failed, maybe in the middle of its words."""

    def read(self, line: Json) -> None:
        super().read(line)
        if line.text("type") == "assistant":
            self._failed = not line.count("message", "usage", "input_tokens")
        if self.finished and (self.text.startswith(_ERROR) or (self._failed and _ERROR in self.text)):
            self.wrong = trouble(self.text)


_ERROR = "[API Error: "
reader = Stream

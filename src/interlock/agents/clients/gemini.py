"""Gemini CLI: `gemini -o stream-json` with the brief on standard input.

Its settings come from files alone; the lowest of them can be ours, so that all that a person has set stays.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from interlock.agents.client import ClientRow, Start, chosen
from interlock.agents.process import ProcessEnd
from interlock.agents.reading import Json, Reading, other
from interlock.agents.trouble import trouble
from interlock.agents.values import Ask, Room

_LOGIN = (".gemini/oauth_creds.json", ".gemini/google_accounts.json", ".gemini/.env", ".gemini/installation_id")
ROW = ClientRow(
    name="gemini",
    title="Gemini CLI",
    program="gemini",
    install="npm install -g @google/gemini-cli",
    sign_in="Run `gemini` once and sign in, or set GEMINI_API_KEY.",
    logins=(*_LOGIN, ".gemini/settings.json"),
    signed_in=(_LOGIN[0], "GEMINI_API_KEY", "GOOGLE_API_KEY"),
    variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    hosts=(
        *("generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "aiplatform.googleapis.com"),
        *("oauth2.googleapis.com", "www.googleapis.com"),
    ),
    urls=("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "CODE_ASSIST_ENDPOINT"),
)
_SETTINGS = {
    "general": {"enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}
_FILE, _POLICY = "gemini-settings.json", "gemini-policy.toml"
_NO_SEARCH = '[[rule]]\ntoolName = ["glob"]\ndecision = "deny"\npriority = 999\n'


def start(ask: Ask, room: Room) -> Start:
    argv = [room.program, "-o", "stream-json", "--approval-mode", "yolo", "--skip-trust"]
    files, brief = {_FILE: json.dumps(_SETTINGS)}, taken_literally(ask.brief, room.root / room.place)
    if _MENTION.search(brief):
        # Where no file has the name after an "@", gemini searches for one that contains it, if it has this tool.
        argv += ["--admin-policy", f"{room.exchange}/{_POLICY}"]
        files[_POLICY] = _NO_SEARCH
    if not room.confined:
        argv += ["--include-directories", room.exchange]
    env = {"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_SYSTEM_DEFAULTS_PATH": f"{room.exchange}/{_FILE}"}
    return Start((*argv, *chosen(ask)), brief, env, files)


_MENTION = re.compile(r'(?<!\\)@(?P<path>(?:"[^"]*"|\\.|[^ \t\n\r,;!?()\[\]{}.]|\.(?!\Z|[ \t\n\r]))+)')
"""What gemini takes for the name of a file that it shall paste into the prompt."""


def taken_literally(prompt: str, root: Path) -> str:
    """The prompt, written so that gemini passes it on as it is.

    A word after `@` that is the path of a file gets a backslash before it: otherwise the file, or a whole folder, is
    pasted in and the spaces of the prompt change.  A slash at the very beginning would be a command.
    """

    def kept(found: re.Match[str]) -> str:
        path = re.sub(r"\\(.)", r"\1", found["path"].replace('"', ""))
        stands = os.path.exists(root / path)  # noqa: PTH110 - that of Path raises on names too long
        return f"\\{found[0]}" if stands else found[0]

    literal = _MENTION.sub(kept, prompt)
    return f"\n{literal}" if literal.startswith("/") else literal


class Stream(Reading):
    _speaking = False
    """The last message comes in pieces."""
    _stopped = ""
    """An error after which the agent has done nothing more."""

    def read(self, line: Json) -> None:
        match line.text("type"):
            case "init":
                self.began(line.text("session_id"), line.text("model"))
            case "message" if line.text("role") == "assistant" and line.text("content"):
                self.words = self.words if self._speaking else []
                self.words.append(line.text("content"))
                self._speaking, self._stopped = True, ""
                self.speak(line.text("content"))
            case "tool_use":
                self._speaking, self._stopped = False, ""
                self.tool(line.text("tool_id"), line.text("tool_name"), line.at("parameters").subject)
            case "tool_result":
                done = line.text("status") != "error"
                self.tool_ended(line.text("tool_id"), line.text("error", "message"), done=done)
            case "error":
                self._stopped = line.text("message") or "an error without a word"
            case "result":
                self.finished = True
                if line.text("status") != "success":
                    self.wrong = trouble(line.text("error", "message") or self._stopped)
                elif self._stopped:  # a loop that it found, or its limit of turns: that, too, it calls a success
                    self.wrong = other(f"it stopped by itself: {self._stopped}")
                self.spend(line.count("stats", "input_tokens"), line.count("stats", "output_tokens"))

    def end(self, ended: ProcessEnd, left: Mapping[str, str]) -> None:
        # Neither speaking nor at work: then an answer of the service is due.
        for found in () if self._speaking or self.at_work else _ATTEMPT.finditer(ended.stderr):
            self.waiting = " ".join(found["why"].split()).strip(" .:") or "a request failed"


_ATTEMPT = re.compile(r"^Attempt \d+ failed(?P<why>.{0,1000}?)Retrying (?:after|with) ", re.MULTILINE | re.DOTALL)
reader = Stream

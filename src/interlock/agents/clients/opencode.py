"""OpenCode: `opencode run --format json` with the brief on standard input.

What a call decides comes as settings in a variable that is read after all files of the person.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from interlock.agents.client import ClientRow, Start, chosen
from interlock.agents.process import ProcessEnd
from interlock.agents.reading import DONE, Json, Reading, not_done, other
from interlock.agents.trouble import after, trouble
from interlock.agents.values import Ask, Room, TroubleKind

_LOGIN = ".local/share/opencode/auth.json"
ROW = ClientRow(
    name="opencode",
    title="OpenCode",
    program="opencode",
    install="npm install -g opencode-ai",
    sign_in="Run `opencode auth login`.",
    logins=(_LOGIN, ".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"),
    signed_in=(_LOGIN, "OPENCODE_CONFIG"),
    variables=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "OPENCODE_API_KEY"),
    hosts=(
        *("opencode.ai", "models.dev", "api.anthropic.com", "api.openai.com", "chatgpt.com"),
        *("generativelanguage.googleapis.com", "openrouter.ai", "api.githubcopilot.com"),
    ),
    tells_cost=True,
)
_SETTINGS = {"autoupdate": False, "share": "disabled", "snapshot": False}
"""Nothing is fetched or published by itself; its snapshots would only repeat ours, after every step."""


def start(ask: Ask, room: Room) -> Start:
    # --auto answers what would be asked of a person; what is denied stays denied. A title of its own saves the request
    # to a model that would invent one. Errors of its own parts are in its log alone.
    argv = [room.program, "run", "--format", "json", "--auto", "--title", "interlock"]
    argv += ["--print-logs", "--log-level", "ERROR"]
    outside = {"external_directory": {"*": "deny", f"{room.exchange}/*": "allow"}}
    settings = {**_SETTINGS, "permission": {"*": "allow"} if room.confined else outside}
    env = {"OPENCODE_CONFIG_CONTENT": json.dumps(settings), "OPENCODE_DISABLE_AUTOUPDATE": "1"}
    return Start((*argv, *chosen(ask, session="--session")), ask.brief, env)


class Stream(Reading):
    _speaking = False
    _error: Json | None = None
    """The last one after which the agent has done nothing more."""
    _into = _out = 0
    _cost = 0.0
    _heard_ms = 0
    """The moment of the last line of its stream, as it says it itself."""

    def read(self, line: Json) -> None:
        self._heard_ms = max(self._heard_ms, line.count("timestamp") or 0)
        self.began(line.text("sessionID"))
        part = line.at("part")
        match line.text("type"):
            case "step_start":
                self._speaking, self.finished, self._error = False, False, None
            case "text" if text := part.text("text"):
                self.words = self.words if self._speaking else []
                self.words += ["\n\n", text] if self.words else [text]
                self._speaking = True
                self.speak(text)
            case "tool_use":
                # It speaks of a tool when it is done with it.
                state, why = part.at("state"), part.text("state", "error")
                ended = not_done(why) if state.text("status") == "error" else DONE
                self.tool(part.text("callID"), part.text("tool"), state.at("input").subject, ended, why)
            case "step_finish":
                self.finished = part.text("reason") not in ("tool-calls", "unknown", "error")
                self._count(part)
            case "error":
                self._error, self.finished = line.at("error"), False

    def _count(self, step: Json) -> None:
        """Of the agent itself: its sub-agents are not in the stream. A price of 0 is one that it does not know."""
        tokens = step.at("tokens")
        cached = tokens.count("cache", "read"), tokens.count("cache", "write")
        self._into += sum(filter(None, (tokens.count("input"), *cached)))
        self._out += sum(filter(None, (tokens.count("output"), tokens.count("reasoning"))))
        self._cost += step.number("cost") or 0.0
        self.spend(self._into, self._out, self._cost if self._into else None)

    def end(self, ended: ProcessEnd, left: Mapping[str, str]) -> None:
        for found in _AGAIN.finditer(ended.stderr):
            # Before it tries a request again it says nothing in its stream.
            with suppress(ValueError, OverflowError):
                moment = datetime.fromisoformat(found["moment"]).timestamp() * 1000
                self.waiting = found["cause"] if moment >= self._heard_ms else ""
        if bad := _BAD_SETTINGS.search(ended.stderr):
            self.wrong = other(" ".join(bad[0].split()))
        elif self._error is not None:
            name, data = self._error.text("name"), self._error.at("data")
            causes = {one["ref"]: one["cause"] for one in _LOGGED.finditer(ended.stderr)}
            said = causes.get(data.text("ref")) or data.text("message") or name
            delay = re.fullmatch(r"\d{1,9}(\.\d{1,9})?", data.text("responseHeaders", "retry-after"))
            until = after(float(delay[0])) if delay else None
            self.wrong = trouble(said, status=data.count("statusCode"), until=until, kind=_KINDS.get(name))


_BAD_SETTINGS = re.compile(r"Configuration is invalid[^\n]*(?:\n[^\n]+)?")
_LOGGED = re.compile(r'ref=(?P<ref>[^\s=]+) error="(?P<cause>(?:[^"\\\n]|\\.)*)"')
"""What its log says of errors that the stream only numbers."""
_AGAIN = re.compile(
    r'timestamp=(?P<moment>[^\s=]+) .*message="stream error" .*error\.error="(?P<cause>(?:[^"\\\n]|\\.)*)"'
)
_KINDS = {
    "ProviderAuthError": TroubleKind.LOGIN,
    "ProviderModelNotFoundError": TroubleKind.MODEL,
    "ContextOverflowError": TroubleKind.REFUSED,
    "MessageOutputLengthError": TroubleKind.REFUSED,
    "ContentFilterError": TroubleKind.REFUSED,
}
reader = Stream

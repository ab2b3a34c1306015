"""GitHub Copilot CLI: `copilot --output-format=json` with the brief on standard input.

It names its session at the very end alone, so it is told a name at the beginning; its tokens are in a file of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from interlock.agents.client import ClientRow, Start, chosen
from interlock.agents.process import ProcessEnd
from interlock.agents.reading import Json, Reading, other, parsed
from interlock.agents.trouble import trouble
from interlock.agents.values import Ask, Room, Trouble, TroubleKind

ROW = ClientRow(
    name="copilot",
    title="GitHub Copilot CLI",
    program="copilot",
    install="npm install -g @github/copilot",
    sign_in="Run `copilot` once and use its /login, or set GH_TOKEN.",
    logins=(".copilot/config.json", ".copilot/settings.json"),
    shows=(".cache/copilot/pkg",),
    signed_in=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL"),
    variables=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"),
    hosts=("api.github.com", "*.githubcopilot.com"),
    urls=("COPILOT_PROVIDER_BASE_URL",),
)
_QUIET = ("--output-format=json", "--stream=off", "--no-color", "--no-ask-user", "--disable-client-telemetry")
_USAGE = "copilot-usage.json"


def start(ask: Ask, room: Room) -> Start:
    # Its own check of paths would stop commands that name any other folder, and no edit that a command makes.
    argv = [room.program, *_QUIET, "--allow-all", f"--usage-output-file={room.exchange}/{_USAGE}"]
    if not ask.session:
        argv.append(f"--session-id={room.new_session}")
    return Start((*argv, *chosen(ask)), ask.brief, {"COPILOT_AUTO_UPDATE": "false"}, leaves=(_USAGE,))


class Stream(Reading):
    def read(self, line: Json) -> None:
        data = line.at("data")
        match line.text("type"):
            case "user.message":
                self.began(self.ask.session or self.room.new_session)
            case "assistant.turn_start":
                self.wrong = None
            case "assistant.message" if not data.text("parentToolCallId") and data.text("content"):
                self.words = [data.text("content")]
                self.speak(self.text)
            case "tool.execution_start":
                # A patch is text, not an object: its second line says what it is about.
                subject = data.at("arguments").subject or "".join(data.text("arguments").splitlines()[1:2])
                self.tool(data.text("toolCallId"), data.text("toolName"), subject)
            case "tool.execution_complete":
                done = data.at("success").value is True
                self.tool_ended(data.text("toolCallId"), data.text("error", "message"), done=done)
            case "assistant.turn_retry":
                self.wait(f"model service: {data.text('reason') or 'error'}")
            case "session.error":
                # It also says how long it waited itself, which is not when the service will be back.
                said, kind = data.text("message").rpartition("Last error: ")[2], data.text("errorType")
                self.wrong = trouble(said or kind, status=data.count("statusCode"), kind=_KINDS.get(kind))
            case "result":
                self.finished = True
                self.began(line.text("sessionId"))
                if self.wrong is None and (code := line.count("exitCode")):
                    self.wrong = other(f"it ended its turn with exit code {code}")

    def end(self, ended: ProcessEnd, left: Mapping[str, str]) -> None:
        """Its own account counts in credits, never in dollars."""
        used = [model.at("usage") for model in Json(parsed(left.get(_USAGE, ""))).each("modelMetrics")]
        into = sum(one.count("inputTokens") or 0 for one in used)
        self.spend(into, sum(one.count("outputTokens") or 0 for one in used), whole=True)
        # What keeps it from beginning at all is said on standard error alone.
        if not self.finished and (found := _NO_SIGN_IN.search(ended.stderr)):
            self.wrong = Trouble(kind=TroubleKind.LOGIN, text=found[0])


_NO_SIGN_IN = re.compile(r"No authentication information found|not (?:logged|signed) in[^\n]*")
_KINDS = {
    "authentication": TroubleKind.LOGIN,
    "authorization": TroubleKind.LOGIN,
    "policy": TroubleKind.LOGIN,
    "quota": TroubleKind.LIMIT,
    "rate_limit": TroubleKind.LIMIT,
    "context_limit": TroubleKind.REFUSED,
}
reader = Stream

"""Any program that speaks the Agent Client Protocol over its standard streams: a session with one prompt a call.

What the agent asks in between is answered without a person: where the kernel holds it, everything is allowed; else an
edit is allowed inside of its folder, reading and commands always.  Files are never written through us: an agent writes
where its own process runs, and nowhere else.  Agents are ahead of the protocol's schema, each in its own way: what is
not known is passed over, and a field of the wrong kind is one that is missing (`Json`).

What is particular about a program stands in a table: how a model is chosen, how it is freed of a sandbox of its own,
what its adapter mixes into the model's words.  Variables and files that keep a client quiet are those of its other way
of speaking, in the module of its name.  A program that is not in the table needs none of this.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, cast

from interlock.agents.client import Client, ClientRow, Start
from interlock.agents.clients.codex import rollout_budget
from interlock.agents.command import filled
from interlock.agents.process import Pipe, ProcessEnd
from interlock.agents.reading import REFUSED, Json, Reading, other
from interlock.agents.trouble import trouble, used_up
from interlock.agents.values import Ask, Room, Trouble, TroubleKind

_VERSION = 1
GREETING_S = 60.0
"""How long an agent may take for its first answer; what says nothing until then does not speak the protocol."""
_GREETING = {
    "protocolVersion": _VERSION,
    "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
    "clientInfo": {"name": "interlock", "title": "interlock", "version": "1"},
}
_NEVER = re.compile(r"(?!)")


@dataclass(frozen=True)
class Profile:
    """One row."""

    words: tuple[str, ...] = ()
    """How its command line begins."""
    client: str = ""
    """The module of the same client."""
    install: str = ""
    """What a person types to get the program, where it is one of its own."""
    model: str | None = None
    """The option that names the model; empty: it is named otherwise; None: chosen among those that a session offers."""
    modes: tuple[str, ...] = ()
    """Of one with a sandbox of its own: the session's mode in a confined layer, and in a copy."""
    noise: re.Pattern[str] = _NEVER
    """Words of its adapter, in a piece of their own, that report no failure."""
    failure: re.Pattern[str] = _NEVER
    """Those that do."""
    numbered: bool = False
    """It gives each message of its model a number, and its own words, noise or failure, none."""

    @property
    def headless(self) -> Client | None:
        return cast("Client", import_module(f"interlock.agents.clients.{self.client}")) if self.client else None

    def row(self, program: str) -> ClientRow:
        """As people and layers need to know it."""
        if self.headless is None:
            return ClientRow("acp", title=program, program=program)
        known = self.headless.ROW
        title = known.title if self.words[0] == known.program else f"{known.title} ({self.words[0]})"
        return replace(known, name="acp", title=title, program=program, install=self.install or known.install)


def profile_of(argv: Sequence[str]) -> Profile:
    """The row of a command line, by the name of its program and the words behind it."""
    words = (PurePosixPath(argv[0]).name, *argv[1:])
    return next((row for row in ROWS if words[: len(row.words)] == row.words), Profile())


class Acp:
    """The client for one command line."""

    def __init__(self, *argv: str) -> None:
        self._profile = profile_of(argv)
        self.ROW = self._profile.row(argv[0])
        self._args = argv[1:]

    def start(self, ask: Ask, room: Room) -> Start:
        row, headless = self._profile, self._profile.headless
        usual = Start(()) if headless is None else headless.start(ask, room)
        model = (f"{row.model}={ask.role.model}",) if row.model and ask.role.model else ()
        argv = (room.program, *filled(self._args, ask, room), *model)
        return Start(argv, "", {**usual.env, **variables(row, ask)}, usual.files)

    def reader(self, ask: Ask, room: Room) -> Conversation:
        return Conversation(self._profile, ask, room)


class _Failed(Exception):
    """It cannot be spoken with as it should be, or answered a request of ours with an error: a `Trouble`."""


class Conversation(Reading):
    """One session: what is said in it, and our side of it. The prompt follows what prepares it."""

    def __init__(self, profile: Profile, ask: Ask, room: Room) -> None:
        super().__init__(ask, room)
        self._profile = profile
        self.talk = self._talk
        self._pipe: Pipe | None = None
        self._asked: list[asyncio.Future[Json]] = []
        """Its answers to our requests, which are numbered from 1."""
        self._prompt: asyncio.Future[Json] | None = None
        self._remembers = False
        self._tools: dict[str, dict[str, Any]] = {}
        """Tool calls as far as they are known; agents report them in pieces."""
        self._told: set[str] = set()
        self._message = ""
        """The number of the last one."""
        self._fresh = True
        """The next words begin another message."""
        self._notice = ""
        """What the adapter said last that is no mere warning, if the agent has not gone on since."""
        self._counted = (0, 0)
        """Tokens as single messages have them."""
        self._cost: float | None = None

    # what is heard

    def read(self, line: Json) -> None:
        number, method = line.at("id").value, line.text("method")
        if method == "session/update":
            if not self.session or line.text("params", "sessionId") in (self.session, ""):
                self._update(line.at("params", "update"))
        elif method == "session/request_permission":
            self._permission(number, line.at("params"))
        elif method and number is not None:
            self._send({"id": number, "error": {"code": -32601, "message": "Method not found"}})
        elif not method:
            self._answered(number, line)

    def end(self, ended: ProcessEnd, left: Mapping[str, str]) -> None:
        self._pause()

    def _update(self, update: Json) -> None:
        kind = update.text("sessionUpdate")
        if self._pipe is not None and self._prompt is None:  # of a session that is loaded: it tells itself again
            self._remembers = self._remembers or kind in ("user_message_chunk", "agent_message_chunk", "tool_call")
        elif kind == "agent_message_chunk":
            self._chunk(update, update.text("content", "text"))
        elif kind in ("tool_call", "tool_call_update"):
            self._tool(update)
        elif kind == "usage_update" and update.text("cost", "currency") == "USD":
            self._cost = update.number("cost", "amount")
            self.spend(self.usage.input_tokens, self.usage.output_tokens, self._cost)

    def _chunk(self, update: Json, text: str) -> None:
        read, written = _tokens(update.at("_meta", "usage"))
        if read or written:
            self._counted = (self._counted[0] + read, self._counted[1] + written)
            self.spend(*self._counted, self._cost)
        if not text:
            return
        noise, numbered = self._profile.noise.match(text), update.text("messageId") or not self._profile.numbered
        if noise or not numbered or self._profile.failure.match(text):
            self._notice = self._notice if noise else text.strip()
            return
        if update.text("messageId") != self._message:
            self._pause()
            self._message = update.text("messageId")
        if self._fresh and text.strip():
            self.words, self._fresh = [], False
        self.words.append(text)
        self._notice = ""

    def _pause(self) -> None:
        """What was said is a message."""
        if not self._fresh:
            self.speak(self.text)
        self._fresh = True

    def _tool(self, update: Json, *, asked: bool = False) -> Json:
        """What is known of a tool call, with an update or a question whether it may be made."""
        call, news = update.text("toolCallId"), update.value if isinstance(update.value, dict) else {}
        if call not in self._tools:
            self._pause()
            self._notice = ""
        known = self._tools.setdefault(call, {})
        known.update({key: value for key, value in news.items() if value})
        tool = Json(known)
        # The first report is often empty: a call is told of when it is known what it is about.
        ended = tool.text("status") in ("completed", "failed")
        if call not in self._told and (asked or ended or _subject(tool) != tool.text("title")):
            self._told.add(call)
            self.tool(call, tool.text("kind") or "tool", _subject(tool))
        if ended:
            parts = [part.text("content", "text") for part in tool.each("content")]
            why = " ".join(filter(None, (*parts, tool.text("rawOutput"))))
            self.tool_ended(call, why, done=tool.text("status") == "completed")
        return tool

    def _permission(self, number: Any, params: Json) -> None:
        tool = self._tool(params.at("toolCall"), asked=True)
        options = {one.text("kind"): one.text("optionId") for one in reversed(params.each("options"))}
        why = "" if self.room.confined else self._objection(tool)
        # A lasting yes would hold for other files, too.
        kinds = ("allow_once", "allow_always") if self.room.confined else ("allow_once",)
        if why:
            kinds = ("reject_once", "reject_always")
            self.tool(tool.text("toolCallId"), tool.text("kind") or "tool", _subject(tool), REFUSED, why)
        chosen = next((options[kind] for kind in kinds if kind in options), "")
        selected = {"outcome": "selected", "optionId": chosen}
        self._send({"id": number, "result": {"outcome": selected if chosen else {"outcome": "cancelled"}}})

    def _objection(self, tool: Json) -> str:
        """Why this call must not be made where nothing holds it; empty if it may."""
        if tool.text("kind") not in ("edit", "delete", "move") and not _edits(tool):
            sandboxed = tool.text("kind") == "execute" and self._profile.modes
            return "the command would leave the sandbox" if sandboxed else ""
        inside = [os.path.realpath(self.room.root), os.path.realpath(self.room.exchange or self.room.root)]
        for path in _files(tool):
            real = Path(os.path.realpath(self.room.root / path.replace("\0", "")))
            if not any(real.is_relative_to(folder) for folder in inside):
                return f"{path} is outside of the workspace"
        return ""

    def _answered(self, number: Any, line: Json) -> None:
        """The answer to a request: to the prompt, or to what prepares it."""
        result = line.at("result")
        if result.text("stopReason"):
            self._ended(result)
        elif isinstance(result.value, dict):
            self.began(result.text("sessionId"), _option(result, "model").text("currentValue") or self.ask.role.model)
            # In a stream that is read back, what was said up to here was said in an earlier call.
            self.words, self._tools, self.acted = [], {}, False
        if isinstance(number, int) and 0 < number <= len(self._asked) and not self._asked[number - 1].done():
            self._asked[number - 1].set_result(line)

    def _ended(self, result: Json) -> None:
        """The turn is over. Some agents say so where their service has failed."""
        self._pause()
        self.began(self.session or self.ask.session)
        told = _tokens(result.at("usage")), _tokens(result.at("_meta", "quota", "token_count")), self._counted
        counted = next(filter(any, told), (0, 0))
        self.spend(*counted, self._cost)
        reason, text = result.text("stopReason"), self.text
        self.finished = reason != "cancelled"
        if self._notice:
            self._fail(trouble(self._notice))
        elif self.finished and reason != "end_turn":
            refused = reason in ("refusal", "max_tokens", "max_turn_requests")
            kind = TroubleKind.REFUSED if refused else TroubleKind.OTHER
            self._fail(Trouble(kind=kind, text=f"the agent ended its turn early ({reason})"))
        elif self.finished and self._profile.client and not any(counted) and text.strip():
            self._fail(trouble(text))  # all that are known count what reached their model

    def _fail(self, trouble: Trouble) -> None:
        self.wrong, self.exhausted = trouble, used_up(trouble.text)

    # our side

    async def _talk(self, pipe: Pipe) -> None:
        """From the greeting to the end of the turn; what goes wrong is said by `trouble`."""
        self._pipe = pipe
        try:
            await self._converse()
        except _Failed as failed:
            self._fail(failed.args[0])

    async def _converse(self) -> None:
        try:
            met = await asyncio.wait_for(self._request("initialize", _GREETING), GREETING_S)
        except TimeoutError:
            text = f"no answer in {GREETING_S:g} seconds: it does not speak the Agent Client Protocol"
            raise _Failed(other(text)) from None
        if (spoken := met.at("protocolVersion").value) != _VERSION:
            raise _Failed(other(f"it speaks version {spoken} of the Agent Client Protocol, not {_VERSION}"))
        offer = await self._open()
        if self._profile.modes:
            await self._choose(offer, "mode", self._profile.modes[0 if self.room.confined else 1])
        if self.ask.role.model and self._profile.model is None:
            await self._choose(offer, "model", self.ask.role.model)
        prompt = [{"type": "text", "text": self.ask.brief.encode(errors="backslashreplace").decode()}]
        self._prompt = self._sent("session/prompt", {"sessionId": self.session, "prompt": prompt})
        _result(await self._prompt)

    async def _open(self) -> Json:
        """A new session, or the one to go on with."""
        opening = {"cwd": str(self.room.root / self.room.place), "mcpServers": []}
        if not self.ask.session:
            return await self._request("session/new", opening)
        with suppress(_Failed):
            offer = await self._request("session/load", {**opening, "sessionId": self.ask.session})
            if self._remembers:  # it told it again
                self.began(self.ask.session, _option(offer, "model").text("currentValue"))
                return offer
        text = "the agent does not know the session that it should go on with"
        raise _Failed(Trouble(kind=TroubleKind.SESSION, text=text))

    async def _choose(self, offer: Json, what: str, wanted: str) -> None:
        """Mode or model as it is wanted."""
        option = _option(offer, what)
        if option.value and wanted != option.text("currentValue"):
            choice = {"sessionId": self.session, "configId": option.text("id"), "value": wanted}
            option = _option(await self._request("session/set_config_option", choice), what)
        if wanted != option.text("currentValue"):
            kind = TroubleKind.MODEL if what == "model" else TroubleKind.OTHER
            raise _Failed(Trouble(kind=kind, text=f"the agent does not take the {what} {wanted!r}"))

    async def _request(self, method: str, params: Mapping[str, Any]) -> Json:
        return _result(await self._sent(method, params))

    def _sent(self, method: str, params: Mapping[str, Any]) -> asyncio.Future[Json]:
        self._asked.append(asyncio.get_running_loop().create_future())
        self._send({"id": len(self._asked), "method": method, "params": params})
        return self._asked[-1]

    def _send(self, message: Mapping[str, Any]) -> None:
        if self._pipe is not None:
            self._pipe.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")


def _result(answer: Json) -> Json:
    error = answer.at("error")
    if error.value is not None:
        code = error.at("code").value
        # 500 is what an adapter answers to whatever it does not know.
        status = code if isinstance(code, int) and 400 <= code < 500 else None
        raise _Failed(trouble(_words_of(error), status=status))
    return answer.at("result")


def _words_of(error: Json) -> str:
    """Some agents hand on the service's answer as it came, or hide it in the data."""
    message = error.text("message")
    if message.startswith("{"):
        return message
    words = [message.removeprefix("Internal error").lstrip(": ")]
    words += [error.text("data", name) for name in ("details", "message", "errorKind")]
    return ": ".join(dict.fromkeys(filter(None, words))) or "an error without a word"


def _edits(tool: Json) -> list[str]:
    """The files of its diffs."""
    return [part.text("path") for part in tool.each("content") if part.text("type") == "diff"]


def _files(tool: Json) -> list[str]:
    """Every file that it says it changes, also where that stands only among its arguments."""
    places = [place.text("path") for place in tool.each("locations")]
    return [path for path in (*_edits(tool), *places, *tool.at("rawInput").paths) if path]


def _subject(tool: Json) -> str:
    return tool.at("rawInput").subject or next(iter(_files(tool)), "") or tool.text("title")


def _tokens(said: Json) -> tuple[int, int]:
    """What was read and written, under the protocol's names or in an older spelling."""
    read = [said.count(name) or 0 for name in ("inputTokens", "cachedReadTokens", "cachedWriteTokens")]
    written, total = said.count("outputTokens") or said.count("output_tokens") or 0, said.count("totalTokens")
    if total is not None and sum(read) + written > total:
        read = read[:1]  # what came from the cache is counted with the input
    return sum(read) or said.count("input_tokens") or 0, written


def _option(offer: Json, what: str) -> Json:
    """The session's switch for the mode or the model."""
    options = (one for one in offer.each("configOptions") if what in (one.text("category"), one.text("id")))
    return next(options, Json(None))


def variables(profile: Profile, ask: Ask) -> dict[str, str]:
    """Variables of the start beyond those of the client's other way."""
    model = ask.role.model
    if profile.client == "claude" and model:
        return {"ANTHROPIC_MODEL": model}
    if profile.client != "codex":
        return {}
    limit = rollout_budget(ask)  # it says what it took at the end of its turn alone
    config = {**({"model": model} if model else {}), **({"features": {"rollout_budget": limit}} if limit else {})}
    return {"CODEX_CONFIG": json.dumps(config)} if config else {}


_NPM = "npm install -g @agentclientprotocol/"
ROWS = (
    Profile(("claude-agent-acp",), "claude", f"{_NPM}claude-agent-acp", model=""),
    Profile(
        ("codex-acp",),
        "codex",
        f"{_NPM}codex-acp",
        model="",
        # Its own default would ask a model for permission; in a layer its sandbox writes nothing.
        modes=("agent-full-access", "workspace-write"),
        noise=re.compile(r"(Config warning|Warning): |\*Context compacted"),
        numbered=True,
    ),
    Profile(("opencode", "acp"), "opencode"),
    Profile(("gemini", "--acp"), "gemini", model="--model", noise=re.compile(r"\[MODE_UPDATE\] ")),
    Profile(("qwen", "--acp"), "qwen", model="--model"),
    Profile(
        ("copilot", "--acp"),
        "copilot",
        model="--model",
        noise=re.compile(r"(Info|Warning): "),
        failure=re.compile(r"Error: "),
    ),
)

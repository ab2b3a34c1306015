"""Any program that speaks the Agent Client Protocol over its standard streams: a session with one prompt a call.

What the agent asks in between is answered without a person: where the kernel holds it, everything is allowed; else an
edit is allowed inside of its folder, reading and commands always.  Files are never written through us: an agent writes
where its own process runs, and nowhere else.  Agents are ahead of the protocol's schema, each in its own way: what is
not known is passed over, and a field of the wrong kind is one that is missing (`Json`).
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock.agents.acp_rows import Profile, meta, profile_of, variables
from interlock.agents.client import Seat, Start
from interlock.agents.command import filled
from interlock.agents.process import Pipe
from interlock.agents.reading import BEGAN, DONE, FAILED, REFUSED, Json, Reading, parsed
from interlock.agents.trouble import trouble, used_up
from interlock.agents.values import Ask, Trouble, TroubleKind

VERSION = 1
GREETING_S = 60.0
"""How long an agent may take for its first answer; what says nothing until then does not speak the protocol."""
_BREAK_OFF_S = 1.5
"""How long it may take to break off its turn; those that can need a quarter of a second."""
_SHOWN_AT_ONCE = 1000
"""Characters of a message after which they are told, at the end of a line; pieces come word by word."""
_LONGEST = 50_000_000
_STATES = {"completed": DONE, "failed": FAILED}
_BROKEN_OFF = {
    "refusal": "the model refused to go on",
    "max_tokens": "the answer reached the model's limit of tokens",
    "max_turn_requests": "the agent reached its limit of requests in one turn",
}


class Acp:
    """The client for one command line."""

    def __init__(self, *argv: str) -> None:
        self._profile = profile_of(argv)
        self.ROW = self._profile.row(argv[0])
        self._args = argv[1:]

    def start(self, ask: Ask, seat: Seat) -> Start:
        row, headless = self._profile, self._profile.headless
        usual = Start(()) if headless is None else headless.start(ask, seat)
        model = (row.model, ask.role.model) if row.model and ask.role.model else ()
        argv = filled((seat.program, *self._args, *seat.args), ask)
        return Start((*argv, *model), "", {**usual.env, **variables(row, ask)}, usual.files)

    def reader(self, ask: Ask, seat: Seat) -> Conversation:
        return Conversation(self._profile, ask, seat)


class _Refused(Exception):
    """The agent answered a request of ours with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(error.text("message"))
        self.error = error


class _Unfit(Exception):
    """It cannot be spoken with as it should be."""

    def __init__(self, kind: TroubleKind, text: str) -> None:
        super().__init__(text)
        self.trouble = Trouble(kind=kind, text=text)


@dataclass
class _Tool:
    """A tool call as far as it is known; agents report it in pieces."""

    kind: str = ""
    title: str = ""
    raw: Json = field(default_factory=lambda: Json(None))
    paths: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()
    """The files of its diffs."""
    told: str = ""
    """The state that was told last."""

    def learn(self, update: Json) -> None:
        self.kind = update.text("kind") or self.kind
        self.title = update.text("title") or self.title
        self.raw = update.at("rawInput") if update.at("rawInput").value else self.raw
        self.paths = tuple(filter(None, (one.text("path") for one in update.each("locations")))) or self.paths
        diffs = [part.text("path") for part in update.each("content") if part.text("type") == "diff"]
        self.edits = tuple(diffs) or self.edits

    @property
    def subject(self) -> str:
        return self.raw.subject or next(iter((*self.edits, *self.paths)), "") or self.title

    @property
    def is_edit(self) -> bool:
        return self.kind in ("edit", "delete", "move") or bool(self.edits)

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that it says it changes, also where that stands only among its arguments."""
        names = ("file_path", "filePath", "filepath", "fileName", "path", "absolute_path", "notebook_path")
        return (*self.edits, *self.paths, *filter(None, (self.raw.text(name) for name in names)))


class Conversation(Reading):
    """One session: what is said in it, and our side of it. The prompt follows what prepares it."""

    def __init__(self, profile: Profile, ask: Ask, seat: Seat) -> None:
        super().__init__()
        self._profile, self._ask, self._seat = profile, ask, seat
        self._pipe: Pipe | None = None
        self._asked: dict[int, asyncio.Future[Json]] = {}
        self._number = 0
        self._prompt: asyncio.Future[Json] | None = None
        self._telling_again = self._remembers = self._stopped = False
        self._tools: dict[str, _Tool] = {}
        self._message = ""
        """The number of the message that is being said."""
        self._words: list[str] = []
        self._size = 0
        self._untold = ""
        self._fresh = True
        """The next words begin a message."""
        self._notice = ""
        """What the adapter said last that is no mere warning, if the agent has not gone on since."""
        self._refusal = ""
        """What was refused last, likewise."""
        self._trouble: Trouble | None = None
        self._counted = (0, 0)
        """Tokens as single messages have them."""
        self._cost: float | None = None

    # what is heard

    def read(self, line: Json) -> None:
        number, method = line.at("id").value, line.text("method")
        if method == "session/update":
            if line.text("params", "sessionId") in (self.session, "") or not self.session:
                self._update(line.at("params", "update"))
        elif method == "session/request_permission":
            self._permission(number, line.at("params"))
        elif method and number is not None:
            self._send({"id": number, "error": {"code": -32601, "message": "Method not found"}})
        elif not method:
            self._answered(number, line)

    def end(self, stderr: str, left: Mapping[str, str]) -> None:
        self._tell_words()
        self.text = "".join(self._words)

    def trouble(self) -> Trouble | None:
        return self._trouble

    def _update(self, update: Json) -> None:
        kind = update.text("sessionUpdate")
        if self._telling_again:
            self._remembers = self._remembers or kind in ("user_message_chunk", "agent_message_chunk", "tool_call")
        elif kind == "agent_message_chunk":
            self._chunk(update, update.text("content", "text"))
        elif kind in ("tool_call", "tool_call_update"):
            self._tool(update)
        elif kind == "plan":
            self._tell_words()
            self.plan([(one.text("content"), one.text("status")) for one in update.each("entries")])
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
        if self._profile.is_notice(update, text):
            self.warn(text.strip())
            self._notice = self._notice if self._profile.harmless.match(text) else text.strip()
            return
        if (message := update.text("messageId")) != self._message:
            self._tell_words()
            self._message, self._fresh = message, True
        if self._fresh and text.strip():
            self._words, self._size, self._fresh = [], 0, False
        self._notice = self._refusal = ""
        if self._size < _LONGEST:
            self._words.append(text)
            self._size += len(text)
        self._untold += text
        if len(self._untold) > _SHOWN_AT_ONCE and "\n" in text:
            told, _, rest = self._untold.rpartition("\n")
            self._untold = told
            self._tell_words()
            self._untold = rest

    def _tell_words(self) -> None:
        if self._untold.strip():
            self.speak(self._untold)
        self._untold = ""

    def _tool(self, update: Json, *, asked: bool = False) -> _Tool:
        """What is said of a tool call, in an update or where the agent asks whether it may make it."""
        call = update.text("toolCallId")
        if call not in self._tools:
            self._tell_words()
            self._fresh, self._notice, self._refusal, self.acted = True, "", "", True
        tool = self._tools.setdefault(call, _Tool())
        tool.learn(update)
        state = _STATES.get(update.text("status"), BEGAN)
        why = ""
        if state == FAILED:
            parts = [part.text("content", "text") for part in update.each("content")]
            why = " ".join(filter(None, (*parts, update.text("rawOutput"))))
            state = REFUSED if "ermission" in why else FAILED
        # The first report is often empty: a call is told of when it is known what it is about.
        clear = asked or bool(tool.raw.value or tool.edits or tool.paths)
        if tool.told in ("", BEGAN) and state != tool.told and (clear or state != BEGAN):
            tool.told = state
            self.tool(call, tool.kind or "tool", tool.subject, state, why)
        return tool

    def _permission(self, number: Any, params: Json) -> None:
        tool = self._tool(params.at("toolCall"), asked=True)
        options = {one.text("kind"): one.text("optionId") for one in reversed(params.each("options"))}
        why = "" if self._seat.confined else self._objection(tool, lasting="allow_once" not in options)
        if why:
            tool.told, self._refusal = REFUSED, f"{tool.subject}: {why}"
            self.tool(params.text("toolCall", "toolCallId"), tool.kind or "tool", tool.subject, REFUSED, why)
        kinds = ("reject_once", "reject_always") if why else ("allow_once", "allow_always")
        chosen = next((options[kind] for kind in kinds if kind in options), "")
        outcome = (
            {"outcome": "selected", "optionId": chosen} if chosen and not self._stopped else {"outcome": "cancelled"}
        )
        self._send({"id": number, "result": {"outcome": outcome}})

    def _objection(self, tool: _Tool, *, lasting: bool) -> str:
        """Why this call must not be made where nothing holds it; empty if it may."""
        if tool.is_edit:
            inside = [os.path.realpath(self._seat.root), os.path.realpath(self._seat.exchange or self._seat.root)]
            for path in tool.files:
                real = Path(os.path.realpath(self._seat.root / path.replace("\0", "")))
                if not any(real.is_relative_to(folder) for folder in inside):
                    return f"{path} is outside of the workspace"
            return "it can only be allowed for ever, for other files too" if lasting else ""
        return "the command would leave the sandbox" if tool.kind == "execute" and self._profile.sandboxed else ""

    def _answered(self, number: Any, line: Json) -> None:
        """The answer to a request: to the prompt, or to what prepares it."""
        result = line.at("result")
        if result.text("stopReason"):
            self._ended(result)
        elif isinstance(result.value, dict):
            self.began(result.text("sessionId"), _current(result, "model") or self._ask.role.model)
            # In a stream that is read back, what was said up to here was said in an earlier call.
            self._words, self._tools, self.acted = [], {}, False
        future = self._asked.pop(number, None) if isinstance(number, int) else None
        if future is not None and not future.done():
            future.set_result(line)

    def _ended(self, result: Json) -> None:
        """The turn is over. Some agents say so where their service has failed."""
        self._tell_words()
        self.began(self.session or self._ask.session)
        read, written = _tokens(result.at("usage"))
        if not read and not written:
            read, written = _tokens(result.at("_meta", "quota", "token_count"))
        counted = (read, written) if read or written else self._counted
        self.spend(*counted, self._cost)
        reason, text = result.text("stopReason"), "".join(self._words)
        self.finished = reason != "cancelled" and not self._stopped
        if self._notice:
            self._fail(self._notice)
        elif self._refusal:
            text = f"the agent gave up when it was refused {self._refusal}"
            self._trouble = Trouble(kind=TroubleKind.OTHER, text=text)
        elif reason in _BROKEN_OFF:
            self._trouble = Trouble(kind=TroubleKind.REFUSED, text=f"{_BROKEN_OFF[reason]} ({reason})")
        elif self.finished and reason != "end_turn":
            self._trouble = Trouble(kind=TroubleKind.OTHER, text=f"the agent ended its turn early ({reason})")
        elif self.finished and self._profile.counts and not any(counted) and text.strip():
            self._fail(text)

    def _fail(self, text: str, status: int | None = None) -> None:
        self._trouble = trouble(text, status=status)
        self.exhausted = used_up(text)

    # our side

    async def talk(self, pipe: Pipe) -> None:
        """From the greeting to the end of the turn; what goes wrong is said by `trouble`."""
        self._pipe = pipe
        try:
            await self._converse()
        except _Unfit as unfit:
            self._trouble = unfit.trouble
        except _Refused as refused:
            code = refused.error.at("code").value
            self._fail(_words_of(refused.error), code if isinstance(code, int) and 400 <= code < 600 else None)
        except asyncio.CancelledError:
            self._stopped = True
            if self._prompt is not None and not self._prompt.done():
                self._send({"method": "session/cancel", "params": {"sessionId": self.session}})
                await asyncio.wait({self._prompt}, timeout=_BREAK_OFF_S)
            raise

    async def _converse(self) -> None:
        try:
            async with asyncio.timeout(GREETING_S):
                met = await self._request("initialize", _GREETING)
        except TimeoutError:
            text = f"no answer in {GREETING_S:g} seconds: it does not speak the Agent Client Protocol"
            raise _Unfit(TroubleKind.OTHER, text) from None
        if met.at("protocolVersion").value != VERSION:
            text = f"it speaks version {met.at('protocolVersion').value} of the Agent Client Protocol, not {VERSION}"
            raise _Unfit(TroubleKind.OTHER, text)
        offer = await self._open(loads=met.at("agentCapabilities", "loadSession").value is True)
        await self._choose(offer, "mode", self._profile.modes[0 if self._seat.confined else 1])
        await self._choose(offer, "model", "" if self._profile.names_model else self._ask.role.model)
        prompt = [{"type": "text", "text": self._ask.brief.encode(errors="replace").decode()}]
        self._prompt = self._sent("session/prompt", {"sessionId": self.session, "prompt": prompt})
        await asyncio.wait({self._prompt})  # which a cancelled wait leaves as it is
        _result(self._prompt.result())

    async def _open(self, *, loads: bool) -> Json:
        """A new session, or the one to go on with."""
        opening = {"cwd": str(self._seat.root / self._seat.place), "mcpServers": [], **meta(self._profile, self._ask)}
        if not self._ask.session:
            return await self._request("session/new", opening)
        lost = _Unfit(TroubleKind.SESSION, "the agent does not know the session that it should go on with")
        if not loads:
            raise lost
        self._telling_again = True
        try:
            offer = await self._request("session/load", {**opening, "sessionId": self._ask.session})
        except _Refused as refused:
            if refused.error.at("code").value == _SIGN_IN:
                raise
            raise lost from None
        finally:
            self._telling_again = False
        if not self._remembers:  # it told nothing again
            raise lost
        self.began(self._ask.session, _current(offer, "model"))
        return offer

    async def _choose(self, offer: Json, what: str, wanted: str) -> None:
        """Mode or model as it is wanted, in the protocol's newer or older form."""
        if not wanted or wanted == _current(offer, what):
            return
        option, known = _option(offer, what), _offered(offer, what)
        if wanted in known:
            if option.value:
                choice = {"sessionId": self.session, "configId": option.text("id"), "value": wanted}
                after = await self._request("session/set_config_option", choice)
                if _current(after, what) in (wanted, ""):
                    return
            else:
                await self._request(f"session/set_{what}", {"sessionId": self.session, f"{what}Id": wanted})
                return
        text = f"the agent does not take the {what} {wanted!r}; it offers: {', '.join(known) or 'none'}"
        raise _Unfit(TroubleKind.MODEL if what == "model" else TroubleKind.OTHER, text)

    async def _request(self, method: str, params: Mapping[str, Any]) -> Json:
        return _result(await self._sent(method, params))

    def _sent(self, method: str, params: Mapping[str, Any]) -> asyncio.Future[Json]:
        self._number += 1
        self._asked[self._number] = asyncio.get_running_loop().create_future()
        self._send({"id": self._number, "method": method, "params": params})
        return self._asked[self._number]

    def _send(self, message: Mapping[str, Any]) -> None:
        if self._pipe is not None:
            self._pipe.write(json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")


_SIGN_IN = -32000
"""The protocol's number for an agent that is not signed in."""
_GREETING = {
    "protocolVersion": VERSION,
    "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
    "clientInfo": {"name": "interlock", "title": "interlock", "version": "1"},
}


def _result(answer: Json) -> Json:
    if answer.at("error").value is not None:
        raise _Refused(answer.at("error"))
    return answer.at("result")


def _words_of(error: Json) -> str:
    """The readable part; some agents hand on the service's answer as it came, or hide it in the data."""
    message = error.text("message")
    inner = Json(parsed(message)).at("error")
    words = [inner.text("message") or message.removeprefix("Internal error").lstrip(": "), inner.text("status")]
    words += [error.text("data", name) for name in ("details", "message", "errorKind")]
    told = list(filter(None, words))
    return ": ".join(told[:1] + [word for word in told[1:] if word not in told[0]]) or "an error without a word"


def _tokens(said: Json) -> tuple[int, int]:
    """What was read and written, under the protocol's names or in an older spelling."""
    read = [said.count(name) or 0 for name in ("inputTokens", "cachedReadTokens", "cachedWriteTokens")]
    written, total = said.count("outputTokens") or said.count("output_tokens") or 0, said.count("totalTokens")
    if total is not None and sum(read) + written > total:
        read = read[:1]  # what came from the cache is counted with the input
    return sum(read) or said.count("input_tokens") or 0, written


def _option(offer: Json, what: str) -> Json:
    """The session's switch for the mode or the model, in the protocol's newer form."""
    options = (one for one in offer.each("configOptions") if what in (one.text("category"), one.text("id")))
    return next(options, Json(None))


def _current(offer: Json, what: str) -> str:
    return _option(offer, what).text("currentValue") or offer.text(f"{what}s", f"current{what.title()}Id")


def _offered(offer: Json, what: str) -> list[str]:
    """What the session can be switched to; choices may stand in groups."""
    choices = [one for choice in _option(offer, what).each("options") for one in choice.each("options") or [choice]]
    if choices:
        return [one.text("value") for one in choices]
    return [one.text("id") or one.text(f"{what}Id") for one in offer.each(f"{what}s", f"available{what.title()}s")]

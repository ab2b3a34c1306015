"""What an agent reports by the Agent Client Protocol, as events, and what its turn comes to. Pure.

Agents are ahead of the schema, each in its own way: what is not known is passed over, and a field of the wrong type
is one that is missing.  Strictness has its place where something is allowed (`acp_client`), not here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from interlock.agents.capped_file import OUTPUT_LIMIT
from interlock.agents.coding.acp_profiles import PLAIN, Profile
from interlock.agents.coding.dialect import Conclusion, list_of, mapping_of, subject_of, text_of
from interlock.agents.coding.events import (
    Event,
    Planned,
    SessionBegan,
    Spent,
    Spoke,
    Thought,
    ToolState,
    ToolUsed,
    Warned,
)
from interlock.agents.coding.trouble import CallTrouble, Cause, trouble, used_up
from interlock.agents.records import count_of, usage_from
from interlock.agents.runner import Usage

_SHOWN_AT_ONCE: Final = 1000
"""Characters of a message after which they are reported, at the end of a line; pieces come word by word."""
_BROKEN_OFF: Final = {
    "refusal": "the model refused to go on",
    "max_tokens": "the answer reached the model's limit of tokens",
    "max_turn_requests": "the agent reached its limit of requests in one turn",
}
"""Why a turn ended that was not brought to its end."""
_AT_REST: Final = {"completed": ToolState.DONE, "failed": ToolState.FAILED}
_JSON_RPC: Final = range(-32768, -31999)
"""Error numbers of the protocol itself; some agents put an HTTP status in their place."""


def _said_by(update: Mapping[str, Any]) -> str:
    """The text that a tool call left."""
    parts = (mapping_of(mapping_of(part).get("content")) for part in list_of(update.get("content")))
    return " ".join(filter(None, (*(text_of(part.get("text")) for part in parts), text_of(update.get("rawOutput")))))


@dataclass
class ToolCall:
    """A tool call as far as it is known; agents report it in pieces."""

    call: str
    title: str = ""
    kind: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict)
    locations: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()
    """The files of its diffs."""
    state: ToolState | None = None
    """As reported last."""

    def learn(self, update: Mapping[str, Any]) -> None:
        self.title = text_of(update.get("title")) or self.title
        self.kind = text_of(update.get("kind")) or self.kind
        self.raw = mapping_of(update.get("rawInput")) or self.raw
        places = (mapping_of(place) for place in list_of(update.get("locations")))
        self.locations = tuple(filter(None, (text_of(place.get("path")) for place in places))) or self.locations
        parts = (mapping_of(part) for part in list_of(update.get("content")))
        self.edits = tuple(text_of(part.get("path")) for part in parts if part.get("type") == "diff") or self.edits

    @property
    def subject(self) -> str:
        return subject_of(self.raw) or next(iter((*self.edits, *self.locations)), "") or self.title

    def used(self, state: ToolState) -> ToolUsed:
        return ToolUsed(self.call, self.kind or "tool", self.subject, state)


@dataclass
class AcpStream:
    """One session with one turn."""

    profile: Profile = PLAIN
    session: str | None = None
    acted: bool = False
    calls: dict[str, ToolCall] = field(default_factory=dict)
    stop_reason: str | None = None
    trouble: CallTrouble | None = None
    _message: list[str] = field(default_factory=list)
    _message_size: int = 0
    _message_id: str = ""
    _final: str = ""
    _unshown: str = ""
    _thought: str = ""
    _failure: str = ""
    """What the adapter said last that was no warning, if the agent has not gone on since."""
    _refused: str = ""
    """What was refused last, if the agent has not gone on since."""
    _counted: Usage | None = None
    """Tokens of the turn as its answer has them."""
    _added: Usage | None = None
    """Tokens as single messages have them."""
    _cost: float | None = None

    def opened(self, session: str, model: str | None) -> Iterable[Event]:
        self.session = session
        return [SessionBegan(session, model)]

    def take(self, update: Mapping[str, Any]) -> Iterable[Event]:
        """What an update of the session says; nothing for those that are not known."""
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                return self._words(update)
            case "agent_thought_chunk":
                return self._thinking(text_of(mapping_of(update.get("content")).get("text")))
            case "tool_call" | "tool_call_update":
                return self.tool(update)
            case "plan":
                entries = (mapping_of(entry) for entry in list_of(update.get("entries")))
                plan = tuple((text_of(one.get("content")), text_of(one.get("status"))) for one in entries)
                return [*self._show(), Planned(plan)]
            case "usage_update":
                return self._costs(mapping_of(update.get("cost")))
        return []

    def tool(self, update: Mapping[str, Any], *, asked: bool = False) -> Iterator[Event]:
        """What is said of a tool call, in an update or where the agent asks whether it may make it."""
        call = text_of(update.get("toolCallId"))
        known = self.calls.get(call)
        if known is None:
            yield from self._end_message()
            known = self.calls[call] = ToolCall(call)
            self.acted, self._failure, self._refused = True, "", ""
        known.learn(update)
        state = _AT_REST.get(text_of(update.get("status")), ToolState.BEGAN)
        said = _said_by(update) if state is ToolState.FAILED else ""
        state = ToolState.REFUSED if "ermission" in said else state
        told = known.state is not None and (state is ToolState.BEGAN or known.state is not ToolState.BEGAN)
        # The first report is often empty: the call is told of when it is known what it is about.
        clear = bool(asked or known.raw or known.edits or known.locations)
        if not told and (clear or state is not ToolState.BEGAN):
            known.state = state
            yield replace(known.used(state), why=said)

    def refused(self, call: str, why: str) -> Iterator[Event]:
        """We did not allow a tool call."""
        known = self.calls.setdefault(call, ToolCall(call))
        known.state = ToolState.REFUSED
        self._refused = f"{known.subject or known.kind}: {why}"
        yield replace(known.used(ToolState.REFUSED), why=why)

    def answered(self, answer: Mapping[str, Any]) -> Iterator[Event]:
        """The agent's answer to the prompt: the turn is over."""
        yield from self._end_message()
        self.stop_reason = text_of(answer.get("stopReason")) or "unknown"
        self._counted = _tokens(answer)
        if (usage := self._usage()) is not None:
            yield Spent(usage)

    def failed(self, code: int, message: str, data: object) -> None:
        """The agent answered a request with an error."""
        status = code if code not in _JSON_RPC and 400 <= code < 600 else None
        self.trouble = self.trouble or trouble(_error_text(message, data), status=status)

    def conclude(self) -> Conclusion:
        """What was said in all; callable at any moment."""
        text = "".join(self._message) if self._message else self._final
        found = self.trouble or (self._false_end(text) if self.stop_reason else None)
        return Conclusion(
            text=text,
            finished=self.stop_reason not in (None, "cancelled"),
            acted=self.acted,
            session=self.session,
            usage=self._usage(),
            trouble=found,
            exhausted=found is not None and used_up(found.text),
        )

    def rest(self) -> Iterable[Event]:
        """What was said and not yet reported."""
        return list(self._end_message())

    def _false_end(self, text: str) -> CallTrouble | None:
        """Why the end of the turn does not mean that the agent has done its part."""
        reason = self.stop_reason or ""
        if self._refused:
            return CallTrouble(Cause.REQUEST, f"the agent gave up when it was refused {self._refused}")
        if self._failure:
            return trouble(self._failure)
        if reason in _BROKEN_OFF:
            return CallTrouble(Cause.REQUEST, f"{_BROKEN_OFF[reason]} ({reason})")
        if reason != "end_turn":
            return CallTrouble(Cause.SERVICE, f"the agent ended its turn without bringing it to its end ({reason})")
        if self.profile.counts_tokens and self._counted is None and text.strip():
            return trouble(text)
        return None

    def _words(self, update: Mapping[str, Any]) -> Iterator[Event]:
        text = text_of(mapping_of(update.get("content")).get("text"))
        if (usage := _counted(mapping_of(mapping_of(update.get("_meta")).get("usage")))) is not None:
            self._added = usage if self._added is None else self._added.plus(usage)
            yield Spent(self._added)
        if not text:
            return
        if self.profile.notice(update, text):
            yield Warned(text.strip())
            self._failure = self._failure if self.profile.warning.match(text) else text.strip()
            return
        message = text_of(update.get("messageId"))
        if message != self._message_id:
            yield from self._end_message()
            self._message_id = message
        self._failure = self._refused = ""
        if self._thought:
            yield from self._show()
        if self._message_size <= OUTPUT_LIMIT:
            self._message.append(text)
            self._message_size += len(text)
        self._unshown += text
        if len(self._unshown) > _SHOWN_AT_ONCE and "\n" in text:
            shown, _, self._unshown = self._unshown.rpartition("\n")
            yield Spoke(f"{shown}\n")

    def _thinking(self, text: str) -> Iterator[Event]:
        if self._unshown:
            yield from self._show()
        self._thought += text
        if len(self._thought) > _SHOWN_AT_ONCE:
            yield from self._show()

    def _show(self) -> Iterator[Event]:
        """Reports what was said so far."""
        if self._thought.strip():
            yield Thought(self._thought)
        if self._unshown.strip():
            yield Spoke(self._unshown)
        self._thought = self._unshown = ""

    def _end_message(self) -> Iterator[Event]:
        yield from self._show()
        whole = "".join(self._message)
        self._final = whole if whole.strip() else self._final
        self._message, self._message_size = [], 0

    def _costs(self, cost: Mapping[str, Any]) -> Iterator[Event]:
        stated = usage_from({"cost_usd": cost.get("amount")}) if cost.get("currency") == "USD" else None
        if stated is not None and stated.cost_usd and stated.cost_usd != self._cost:
            self._cost = stated.cost_usd
            yield Spent(stated)

    def _usage(self) -> Usage | None:
        tokens = self._counted or self._added or Usage()
        usage = tokens.plus(Usage(cost_usd=self._cost))
        return None if usage == Usage() else usage


class AcpReader:
    """Reads a conversation by all that the agent printed in it: the turn follows what prepared it."""

    def __init__(self, profile: Profile = PLAIN) -> None:
        self._stream = AcpStream(profile)

    def take(self, message: Mapping[str, Any]) -> Iterable[Event]:
        given, result = mapping_of(message.get("params")), mapping_of(message.get("result"))
        error = mapping_of(message.get("error"))
        match message.get("method"):
            case "session/update":
                return self._stream.take(mapping_of(given.get("update")))
            case "session/request_permission":
                return self._stream.tool(mapping_of(given.get("toolCall")), asked=True)
            case None if error:
                self._stream.failed(count_of(error.get("code")) or 0, text_of(error.get("message")), error.get("data"))
            case None if "stopReason" in result:
                return self._stream.answered(result)
            case None:  # an answer to what prepares the turn: what was told before it was said in an earlier call
                session = text_of(result.get("sessionId"))
                self._stream = AcpStream(self._stream.profile, session or self._stream.session)
                return [SessionBegan(session)] if session else []
        return []

    def conclude(self) -> Conclusion:
        return self._stream.conclude()


def _tokens(answer: Mapping[str, Any]) -> Usage | None:
    """The tokens that an answer to a prompt states, in the protocol's place or in that of an older agent."""
    quota = mapping_of(mapping_of(answer.get("_meta")).get("quota"))
    return _counted(mapping_of(answer.get("usage"))) or _counted(mapping_of(quota.get("token_count")))


def _counted(said: Mapping[str, Any]) -> Usage | None:
    """Numbers of tokens under the protocol's names or in the older spelling; all zero is a call that was not made."""
    read = [count_of(said.get(name)) for name in ("inputTokens", "cachedReadTokens", "cachedWriteTokens")]
    total, written = count_of(said.get("totalTokens")), count_of(said.get("outputTokens"))
    entered = sum(number for number in read if number is not None) if read[0] is not None else None
    if entered is not None and total is not None and written is not None and entered + written > total:
        entered = read[0]  # where what came from the cache is counted with the input
    entered = count_of(said.get("input_tokens")) if entered is None else entered
    written = count_of(said.get("output_tokens")) if written is None else written
    return Usage(entered, written) if entered or written else None


def _error_text(message: str, data: object) -> str:
    """The readable part of an error; some agents hand on the service's answer as it came, or hide it in the data."""
    details = mapping_of(data)
    extra = [text_of(details.get(name)) for name in ("details", "message", "errorKind")]
    try:
        inner = mapping_of(mapping_of(json.loads(message)).get("error"))
    except (ValueError, RecursionError):
        inner = {}
    said = [text_of(inner.get("message")) or message.removeprefix("Internal error").lstrip(": ")]
    said += [text_of(inner.get("status")), *extra]
    told = list(filter(None, said))
    return ": ".join(told[:1] + [part for part in told[1:] if part not in told[0]])

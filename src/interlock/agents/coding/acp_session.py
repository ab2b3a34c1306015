"""One conversation with an agent by the Agent Client Protocol: greeting, session, one prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

from interlock.agents.coding.acp_client import AcpClient, Authority
from interlock.agents.coding.acp_profiles import Opening, Profile
from interlock.agents.coding.acp_stream import AcpStream
from interlock.agents.coding.acp_transport import PipeTransport
from interlock.agents.coding.dialect import Ask, Conclusion, list_of, mapping_of, text_of
from interlock.agents.coding.events import Event, Warned
from interlock.agents.coding.trouble import CallTrouble, Cause

if TYPE_CHECKING:
    from acp.connection import Connection

GREETING_S: Final = 60.0
"""How long an agent may take for its first answer; what says nothing until then does not speak the protocol."""
_BREAK_OFF_S: Final = 2.0
"""How long an agent may take to break off; those that can need a quarter of a second."""
_SIGN_IN: Final = -32000
"""The protocol's number for an agent that is not signed in."""


class AcpSession:
    """Speaks with one started agent; a `Dialogue` of `run_process`."""

    def __init__(
        self,
        profile: Profile,
        opening: Opening,
        ask: Ask,
        authority: Authority,
        tell: Callable[[Iterable[Event]], None],
        *,
        anew: Ask | None = None,
    ) -> None:
        """
        Args:
            tell: gets the events as they come.
            anew: what to ask instead where the session that `ask` would go on with is not known any more.
        """
        self.stream = AcpStream(profile)
        self.transport = PipeTransport()
        self._opening = opening
        self._ask = ask
        self._anew = anew or ask
        self._client = AcpClient(profile, authority, self.stream, tell)
        self._tell = tell
        self._connection: Connection | None = None
        self._turn: asyncio.Task[None] | None = None

    def begin(self, pipe: IO[bytes]) -> asyncio.Future[None]:
        from acp.connection import Connection

        self.transport.open(pipe)
        self._connection = Connection(self._client.handle, self.transport)
        self._turn = asyncio.create_task(self._converse(self._connection))
        return self._turn

    async def stop(self) -> None:
        self._client.stopped = True
        if self._connection is not None and self._turn is not None and self.stream.session is not None:
            with suppress(ConnectionError):
                await self._connection.send_notification("session/cancel", {"sessionId": self.stream.session})
                await asyncio.wait({self._turn}, timeout=_BREAK_OFF_S)

    def hang_up(self) -> None:
        self.transport.hang_up()

    async def close(self) -> None:
        """Takes in what the agent said last, and lets go of everything; afterwards the stream is complete."""
        if self._connection is None or self._turn is None:
            return
        try:
            self.transport.end()
            await asyncio.wait({self._turn}, timeout=_BREAK_OFF_S)
        finally:
            self._turn.cancel()
            await self._connection.close()

    def conclude(self) -> Conclusion:
        """What the closed session comes to; what went wrong on our side, not the agent's, is raised here."""
        if self._client.broken is not None:
            raise self._client.broken
        if self._turn is not None and self._turn.done() and not self._turn.cancelled():
            self._turn.result()
        self._tell(self.stream.rest())
        return self.stream.conclude()

    async def _converse(self, connection: Connection) -> None:
        """From the greeting to the end of the turn; what goes wrong is said by the stream."""
        from acp import RequestError

        try:
            met = await greet(connection)
            if isinstance(met, CallTrouble):
                self.stream.trouble = met
            else:
                await self._open_session(connection, met.abilities)
        except RequestError as error:
            self.stream.failed(error.code, str(error), error.data)
        except ConnectionError:
            return  # the agent is gone, or hung up: the turn has no end

    async def _open_session(self, connection: Connection, abilities: Mapping[str, Any]) -> None:
        role = self._ask.role
        by_protocol = role is not None and not self._opening.role_given and _takes_role(abilities)
        request: dict[str, Any] = {"cwd": str(self._ask.workspace), "mcpServers": []}
        if self._opening.meta:
            request["_meta"] = dict(self._opening.meta)
        offer = await self._loaded(connection, abilities, request)
        if offer is None:
            if by_protocol and role is not None:
                request["systemPrompt"] = {"mode": "append", "content": [{"type": "text", "text": _text(role.text)}]}
            offer = mapping_of(await connection.send_request("session/new", request))
        session = text_of(offer.get("sessionId"))
        self._tell(self.stream.opened(session, _current(offer, "model") or self._ask.model))
        if not await self._choose(connection, session, offer):
            return
        asked = self._ask if self._client.remembers else self._anew
        apart = role is None or self._opening.role_given or by_protocol
        prompt = [{"type": "text", "text": _text(_no_command(asked.prompt if apart else asked.undivided.prompt))}]
        answer = await connection.send_request("session/prompt", {"sessionId": session, "prompt": prompt})
        self._tell(self.stream.answered(mapping_of(answer)))

    async def _loaded(
        self, connection: Connection, abilities: Mapping[str, Any], request: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """The session that goes on, after it has told again what was said in it; None when there is none."""
        from acp import RequestError

        if self._ask.resume is None:
            return None
        lost = Warned("the agent does not know the session that it should go on with: it starts anew")
        if abilities.get("loadSession") is not True:
            self._tell([lost])
            return None
        self._client.replaying = True
        try:
            wanted = {**request, "sessionId": self._ask.resume}
            offer = mapping_of(await connection.send_request("session/load", wanted))
        except RequestError as error:
            if error.code == _SIGN_IN:
                raise
            self._tell([lost])
            return None
        finally:
            self._client.replaying = False
        return {**offer, "sessionId": self._ask.resume}

    async def _choose(self, connection: Connection, session: str, offer: Mapping[str, Any]) -> bool:
        """Mode and model as they are wanted; false, and the reason in the stream, when the agent does not have them."""
        wanted = {"mode": self._opening.mode, "model": None if self._opening.model_given else self._ask.model}
        for what, value in wanted.items():
            if value is None or value == _current(offer, what):
                continue
            known = _offered(offer, what)
            if value not in known or not await _switch(connection, session, offer, what, value):
                cause = Cause.ROLE if what == "mode" and self._opening.role_given else Cause.REQUEST
                text = f"the agent does not take the {what} {value!r}; it offers: {', '.join(known) or 'none'}"
                self.stream.trouble = CallTrouble(cause, text)
                return False
        return True


@dataclass(frozen=True)
class Met:
    """What an agent says of itself at the greeting."""

    name: str
    version: str
    abilities: Mapping[str, Any]


class Introduction:
    """A greeting and nothing more, which asks nothing of a model; a `Dialogue` of `run_process`."""

    def __init__(self) -> None:
        self.met: Met | CallTrouble | None = None
        """None: the program ended without an answer."""
        self.transport = PipeTransport()

    def begin(self, pipe: IO[bytes]) -> asyncio.Future[None]:
        self.transport.open(pipe)
        return asyncio.create_task(self._greet())

    async def stop(self) -> None:
        """There is nothing to break off."""

    def hang_up(self) -> None:
        self.transport.hang_up()
        self.transport.end()

    async def _greet(self) -> None:
        from acp import RequestError
        from acp.connection import Connection

        async def handle(method: str, _params: Any, _is_notification: bool) -> Any:
            raise RequestError.method_not_found(method)

        async with Connection(handle, self.transport) as connection:
            with suppress(ConnectionError):
                self.met = await greet(connection)


async def greet(connection: Connection) -> Met | CallTrouble:
    """Introduces us, and says whom we met, or why it cannot be spoken with."""
    from acp import PROTOCOL_VERSION, RequestError
    from acp.schema import ClientCapabilities, FileSystemCapabilities, Implementation, InitializeRequest

    from interlock import __version__

    # Agents read and write by themselves: a file that we wrote for one would not be in its layer.
    files = FileSystemCapabilities(read_text_file=False, write_text_file=False)
    greeting = InitializeRequest(
        protocol_version=PROTOCOL_VERSION,
        client_capabilities=ClientCapabilities(fs=files, terminal=False),
        client_info=Implementation(name="interlock", title="interlock", version=__version__),
    )
    try:
        async with asyncio.timeout(GREETING_S):
            answer = mapping_of(await connection.send_request("initialize", _json(greeting)))
    except TimeoutError:
        return CallTrouble(
            Cause.REQUEST, f"no answer in {GREETING_S:g} seconds: it does not speak the Agent Client Protocol"
        )
    except RequestError as error:
        return CallTrouble(Cause.REQUEST, f"the agent does not return the greeting: {error}")
    version = answer.get("protocolVersion")
    if version != PROTOCOL_VERSION:
        text = f"the agent speaks version {version} of the Agent Client Protocol, not {PROTOCOL_VERSION}"
        return CallTrouble(Cause.REQUEST, text)
    about = mapping_of(answer.get("agentInfo"))
    named = text_of(about.get("title")) or text_of(about.get("name"))
    return Met(named, text_of(about.get("version")), mapping_of(answer.get("agentCapabilities")))


async def _switch(connection: Connection, session: str, offer: Mapping[str, Any], what: str, value: str) -> bool:
    """Whether the agent has switched, as far as it says."""
    if not (option := _option(offer, what)):
        await connection.send_request(f"session/set_{what}", {"sessionId": session, f"{what}Id": value})
        return True
    choice = {"sessionId": session, "configId": text_of(option.get("id")), "value": value}
    after = mapping_of(await connection.send_request("session/set_config_option", choice))
    return _current(after, what) in (value, None)


def _json(model: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def _text(text: str) -> str:
    """Text as JSON can carry it: bytes that are no UTF-8 become replacement characters."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def _no_command(prompt: str) -> str:
    """The prompt, so that no agent takes its first word for one of its commands."""
    return f"Your task:\n\n{prompt}" if prompt.lstrip().startswith("/") else prompt


def _takes_role(abilities: Mapping[str, Any]) -> bool:
    return "systemPrompt" in mapping_of(abilities.get("sessionCapabilities"))


def _option(offer: Mapping[str, Any], what: str) -> Mapping[str, Any]:
    """The session's switch for the mode or the model, in the protocol's newer form; empty when there is none."""
    options = (mapping_of(option) for option in list_of(offer.get("configOptions")))
    return next((one for one in options if what in (one.get("category"), one.get("id"))), {})


def _current(offer: Mapping[str, Any], what: str) -> str | None:
    older = text_of(mapping_of(offer.get(f"{what}s")).get(f"current{what.title()}Id"))
    return text_of(_option(offer, what).get("currentValue")) or older or None


def _offered(offer: Mapping[str, Any], what: str) -> list[str]:
    """What the session can be switched to; choices may stand in groups."""
    found: list[str] = []
    for choice in map(mapping_of, list_of(_option(offer, what).get("options"))):
        inner = [mapping_of(one) for one in list_of(choice.get("options"))]
        found += [text_of(one.get("value")) for one in inner or [choice]]
    if not found:
        older = list_of(mapping_of(offer.get(f"{what}s")).get(f"available{what.title()}s"))
        found = [text_of(mapping_of(one).get("id") or mapping_of(one).get(f"{what}Id")) for one in older]
    return found

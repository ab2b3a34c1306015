"""Our side of an ACP session: what the agent asks of us is answered without a person.

Where the kernel holds it, everything is allowed.  Otherwise an edit is allowed inside of its folder, reading and
commands always.  Files are never written through us: an agent writes where its own process runs, and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from interlock.agents.coding.acp_profiles import Profile
from interlock.agents.coding.acp_stream import AcpStream, ToolCall
from interlock.agents.coding.dialect import list_of, mapping_of, text_of
from interlock.agents.coding.events import Event

if TYPE_CHECKING:
    from acp.schema import RequestPermissionResponse

_EDITING: Final = ("edit", "delete", "move")
_PATHS: Final = ("file_path", "filePath", "filepath", "fileName", "path", "absolute_path", "notebook_path")
"""Where tools name a file in their input, for agents that do not say it in the protocol's own place."""


@dataclass(frozen=True)
class Authority:
    """What an agent may write, decided by the real places that paths lead to."""

    folders: tuple[Path, ...] = ()
    """Everything below them; the first one is where relative paths begin."""
    everything: bool = False
    """Whatever it asks for: somebody else holds it."""

    def objection(self, path: str) -> str | None:
        """Why this path must not be written; None if it may."""
        if not path or "\0" in path:
            return "it is no path"
        real = Path(os.path.realpath(self.folders[0] / path))
        if any(real.is_relative_to(os.path.realpath(folder)) for folder in self.folders):
            return None
        return "outside of the workspace"


class AcpClient:
    """Answers the requests of one session, and hands its updates to the stream."""

    def __init__(
        self, profile: Profile, authority: Authority, stream: AcpStream, tell: Callable[[Iterable[Event]], None]
    ) -> None:
        self._profile = profile
        self._authority = authority
        self._stream = stream
        self._tell = tell
        self.replaying = False
        """What is said now was said in an earlier call, and is told again."""
        self.remembers = False
        """It told something again."""
        self.stopped = False
        """The turn was told to stop: what is asked from now on is answered with that."""
        self.broken: Exception | None = None
        """What went wrong on our side first; the agent is not to blame for it."""

    async def handle(self, method: str, params: Any, is_notification: bool) -> Any:
        """One message of the agent; what we do not offer is answered with "unknown method"."""
        from acp import RequestError

        given = mapping_of(params)
        try:
            if is_notification:
                return self._hear(method, given)
            if method == "session/request_permission":
                return self._permission(given)
        except Exception as error:
            self.broken = self.broken or error
            raise RequestError.internal_error() from error
        raise RequestError.method_not_found(method)

    def _hear(self, method: str, given: Mapping[str, Any]) -> None:
        if method != "session/update":
            return
        update = mapping_of(given.get("update"))
        if self.replaying:
            self.remembers = self.remembers or text_of(update.get("sessionUpdate")) in _MEMORIES
        elif self._stream.session in (None, given.get("sessionId")):
            self._tell(self._stream.take(update))

    def _permission(self, given: Mapping[str, Any]) -> RequestPermissionResponse:
        from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

        asked = mapping_of(given.get("toolCall"))
        self._tell(self._stream.tool(asked, asked=True))
        call = self._stream.calls[text_of(asked.get("toolCallId"))]
        offered = [mapping_of(option) for option in list_of(given.get("options"))]
        why = None if self._authority.everything else self._objection(call, offered)
        if why is not None:
            self._tell(self._stream.refused(call.call, why))
        chosen = _option(offered, ("allow_once", "allow_always") if why is None else ("reject_once", "reject_always"))
        if chosen is None or self.stopped:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    def _objection(self, call: ToolCall, offered: Sequence[Mapping[str, Any]]) -> str | None:
        """Why this call must not be made; None if it may."""
        if _edits(call):
            found = (self._authority.objection(path) for path in _files(call))
            why = next((why for why in found if why is not None), None)
            # A lasting yes would hold for other files too.
            return why or ("it can only be allowed for ever" if _option(offered, ("allow_once",)) is None else None)
        if call.kind == "switch_mode":
            return "the session stays in the mode that it was given"
        if call.kind == "execute" and self._profile.asks_to_leave_sandbox:
            return "the command would leave the sandbox"
        return None


_MEMORIES: Final = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call")


def _edits(call: ToolCall) -> bool:
    return call.kind in _EDITING or bool(call.edits)


def _files(call: ToolCall) -> list[str]:
    """Every file that the call says it changes."""
    named = filter(None, (text_of(call.raw.get(name)) for name in _PATHS))
    return list(dict.fromkeys((*call.edits, *call.locations, *named)))


def _option(offered: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> str | None:
    """The first answer of the first of these kinds that is offered."""
    found = (text_of(one.get("optionId")) for kind in kinds for one in offered if one.get("kind") == kind)
    return next(found, None)

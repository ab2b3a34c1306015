"""Our side of an ACP session: what the agent asks of us is answered by the scope of its role.

An edit is allowed where the scope covers each file of it, reading and commands always: what commands leave behind is
seen by the comparison after the call.  Files that the agent writes through us are written here, with the same rule.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from interlock.agents.coding.acp_profiles import Profile
from interlock.agents.coding.acp_stream import AcpStream, ToolCall
from interlock.agents.coding.dialect import list_of, mapping_of, text_of
from interlock.agents.coding.events import Event

if TYPE_CHECKING:
    from acp.schema import RequestPermissionResponse

_EDITING: Final = ("edit", "delete", "move")
_PATHS: Final = ("file_path", "filePath", "filepath", "fileName", "path", "absolute_path", "notebook_path")
"""Where tools name a file in their input, for agents that do not say it in the protocol's own place."""
_READ_LIMIT: Final = 50 * 1000 * 1000


@dataclass(frozen=True)
class Authority:
    """What an agent may write, decided by the real places that paths lead to."""

    workspace: Path
    covers: Callable[[str], bool] | None = None
    """Whether a path, relative to the workspace, lies in the scope; None: all of them do."""
    always: tuple[Path, ...] = ()
    """Files of the call itself that it may write wherever they are."""

    def objection(self, path: str) -> str | None:
        """Why this path must not be written; None if it may."""
        if not path or "\0" in path:
            return "it is no path"
        root = Path(os.path.realpath(self.workspace))
        real = Path(os.path.realpath(self.workspace / path))
        if real in (Path(os.path.realpath(one)) for one in self.always):
            return None
        if not real.is_relative_to(root):
            return "outside of the workspace"
        # A link inside the workspace is judged by where it leads and by where it stands.
        named = Path(os.path.normpath(self.workspace / path))
        inside = [real.relative_to(root)]
        inside += [named.relative_to(base) for base in (self.workspace, root) if named.is_relative_to(base)][:1]
        if self.covers is None or all(self.covers(one.as_posix()) for one in inside):
            return None
        return "outside of the role's scope"


class AcpClient:
    """Answers the requests of one session, and hands its updates to the stream."""

    def __init__(
        self, profile: Profile, authority: Authority, stream: AcpStream, tell: Callable[[Iterable[Event]], None]
    ) -> None:
        self._profile = profile
        self._authority = authority
        self._stream = stream
        self._tell = tell
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
            return self._answer(method, given)
        except RequestError:
            raise
        except Exception as error:
            self.broken = self.broken or error
            raise RequestError.internal_error() from error

    def _hear(self, method: str, given: Mapping[str, Any]) -> None:
        if method == "session/update" and self._stream.session in (None, given.get("sessionId")):
            self._tell(self._stream.take(mapping_of(given.get("update"))))

    def _answer(self, method: str, given: Mapping[str, Any]) -> Any:
        from acp import RequestError

        match method:
            case "session/request_permission":
                return self._permission(given)
            case "fs/write_text_file":
                return self._write(given)
            case "fs/read_text_file":
                return self._read(given)
        raise RequestError.method_not_found(method)

    def _permission(self, given: Mapping[str, Any]) -> RequestPermissionResponse:
        from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

        asked = mapping_of(given.get("toolCall"))
        self._tell(self._stream.tool(asked, asked=True))
        call = self._stream.calls[text_of(asked.get("toolCallId"))]
        offered = [mapping_of(option) for option in list_of(given.get("options"))]
        why = self._objection(call)
        if why is None and _edits(call) and _option(offered, ("allow_once",)) is None:
            # A lasting yes says more than the scope does.
            why = "it can only be allowed for ever"
        if why is not None:
            self._tell(self._stream.refused(call.call, why))
        elif self._profile.lacks_folders and _edits(call):
            for path in _files(call):
                (self._authority.workspace / path).parent.mkdir(parents=True, exist_ok=True)
        chosen = _option(offered, ("allow_once", "allow_always") if why is None else ("reject_once", "reject_always"))
        if chosen is None or self.stopped:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    def _objection(self, call: ToolCall) -> str | None:
        """Why this call must not be made; None if it may."""
        if _edits(call):
            files = _files(call)
            if not files and self._authority.covers is not None:
                return "it does not say which file it changes"
            found = (self._authority.objection(path) for path in files)
            return next((why for why in found if why is not None), None)
        if call.kind == "switch_mode":
            return "the session stays in the mode that it was given"
        if call.kind == "execute" and self._profile.asks_to_leave_sandbox:
            return "the command would leave the sandbox"
        return None

    def _write(self, given: Mapping[str, Any]) -> dict[str, Any]:
        from acp import RequestError

        path, content = text_of(given.get("path")), given.get("content")
        if not isinstance(content, str):
            raise RequestError.invalid_params({"content": "a text is needed"})
        if (why := self._authority.objection(path)) is not None:
            self._tell(self._stream.refused(f"write {path}", why))
            raise RequestError(-32602, f"{path} may not be written: {why}")
        target = Path(os.path.realpath(self._authority.workspace / path))
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with _plain_file(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW) as file:
                file.write(content.encode(errors="surrogateescape"))
        except OSError as error:
            raise RequestError(-32603, f"{path} cannot be written: {error.strerror}") from error
        return {}

    def _read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        from acp import RequestError

        path = text_of(given.get("path"))
        try:
            with _plain_file(self._authority.workspace / path, os.O_RDONLY) as file:
                content = file.read(_READ_LIMIT).decode(errors="replace")
        except FileNotFoundError as error:
            raise RequestError.resource_not_found(path) from error
        except (OSError, ValueError) as error:
            raise RequestError(-32603, f"{path} cannot be read: {getattr(error, 'strerror', error)}") from error
        line, limit = given.get("line"), given.get("limit")
        if isinstance(line, int) or isinstance(limit, int):
            first = max(line - 1, 0) if isinstance(line, int) else 0
            last = first + max(limit, 0) if isinstance(limit, int) else None
            content = "".join(content.splitlines(keepends=True)[first:last])
        return {"content": content}


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


def _plain_file(path: Path, flags: int) -> IO[bytes]:
    """An opened file; a pipe or device, which could block us for ever, is refused."""
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "no plain file")
    return os.fdopen(handle, "wb" if flags & os.O_WRONLY else "rb")

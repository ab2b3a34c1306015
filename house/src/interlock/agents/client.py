"""One call of a coding agent, the same for all clients: started, followed, held to its limits, judged.

What is particular about a client is its module: `ROW`, `start` (pure) and `reader`.  Here is the rest: process,
deadline, budget, limits of the service, redaction, transcript, and that nothing counts which did not finish.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from interlock.agents import process
from interlock.agents.environment import Environment
from interlock.agents.process import Ended, Pipe
from interlock.agents.process_tree import MARKER
from interlock.agents.reading import BEGAN, DONE, REFUSED, Said, cut, json_line
from interlock.agents.redaction import Redaction
from interlock.agents.trouble import kind_of_words
from interlock.agents.values import Ask, Exit, News, NewsKind, Trouble, TroubleKind, Usage

Hear = Callable[[News], None]
ARGUMENT_LIMIT = 128 * 1024 - 1
"""Bytes of one argument, or of one variable with its name, that Linux hands over to a program."""


@dataclass(frozen=True)
class Row:
    """A client, as people and layers need to know it."""

    name: str
    """In settings."""
    title: str
    program: str
    """On PATH."""
    install: str
    """What a person types to get it."""
    sign_in: str
    """What a person does to sign in."""
    logins: tuple[str, ...] = ()
    """Files below HOME: the login, and settings without which it does not start. Names may be patterns."""
    signed_in: tuple[str, ...] = ()
    """Those of them, and variables, whose presence says that somebody is signed in."""
    variables: tuple[str, ...] = ()
    """Variables that look like keys and that it needs."""
    hosts: tuple[str, ...] = ()
    """Of its model."""
    urls: tuple[str, ...] = ()
    """Variables that name another service."""
    folder: tuple[str, str] = ("", "")
    """A variable that moves its folder, and that folder's usual place below HOME."""
    tells_tokens: bool = True
    tells_cost: bool = False


@dataclass(frozen=True)
class Seat:
    """Where a client is started, as far as its command line depends on it."""

    program: str
    args: tuple[str, ...] = ()
    """What settings add."""
    confined: bool = True
    """The kernel holds it: permissions and a sandbox of its own would only be in the way."""
    root: Path = Path("/")
    """The workspace's top, outside or inside: what stands there is the same."""
    exchange: str = ""
    """The folder, as it sees it, where the files of its start lie."""
    new_session: str = ""
    """A name for a new session, for clients that would tell theirs too late."""


@dataclass(frozen=True)
class Start:
    """How a client is started for one call."""

    argv: tuple[str, ...]
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Written into the exchange before, by name."""
    leaves: tuple[str, ...] = ()
    """Files in the exchange in which it says what its stream does not."""
    keep: int = 1_000_000
    """Bytes of its output that its reader wants to see as a whole."""


class Reader(Protocol):
    """Reads the stream of one call."""

    def take(self, line: dict[str, Any]) -> Sequence[News]:
        """What this object of the stream says; nothing for what is not known. Total."""
        ...

    def end(self, stderr: str, left: Mapping[str, str]) -> Said:
        """What was said in all; callable at any moment, also after half a stream."""
        ...


@runtime_checkable
class Talks(Protocol):
    """A reader that also speaks with its program, where one input at the start is not enough."""

    def talk(self, pipe: Pipe) -> Awaitable[None]: ...


@runtime_checkable
class Looks(Protocol):
    """A reader of a client without a stream: it looks at the exit status and at all that was printed."""

    def look(self, ended: Ended) -> None:
        """Called before `end`."""
        ...


class Client(Protocol):
    """A coding agent: a module of this shape."""

    @property
    def ROW(self) -> Row: ...
    def start(self, ask: Ask, seat: Seat) -> Start: ...
    def reader(self, ask: Ask, seat: Seat) -> Reader: ...


class Wrapped(Protocol):
    """How a program is started in a layer."""

    @property
    def argv(self) -> Sequence[str]: ...
    @property
    def env(self) -> Mapping[str, str]: ...
    @property
    def cwd(self) -> str: ...
    @property
    def pass_fds(self) -> Sequence[int]:
        """Closed by whoever starts it."""
        ...

    @property
    def exit_file(self) -> Path | None: ...


class Layer(Protocol):
    """Where a client works, as far as it matters here."""

    @property
    def confined(self) -> bool: ...
    @property
    def root(self) -> Path: ...
    @property
    def exchange(self) -> Path: ...
    @property
    def inside_exchange(self) -> str: ...
    def wrap(self, argv: Sequence[str], env: Mapping[str, str], *, cwd: str = ".", network: str = "") -> Wrapped: ...


async def call(
    client: Client,
    ask: Ask,
    layer: Layer,
    hear: Hear,
    redact: Redaction,
    *,
    env: Environment,
    program: str = "",
    args: Sequence[str] = (),
    cwd: str = ".",
    network: str = "",
    watch: Callable[[], str] | None = None,
) -> Exit:
    """Asks a client once.

    Args:
        program, args: what settings say instead of the row's, and in addition.
        cwd: the place, from the workspace's top.
        watch: says why the call is to be ended, where the layer has grown beyond its bounds.
    """
    program = program or client.ROW.program
    seat = Seat(program, tuple(args), layer.confined, layer.root, layer.inside_exchange, str(uuid.uuid4()))
    start = client.start(ask, seat)
    for name in (*start.files, *start.leaves):
        _clear(layer.exchange, name)
    for name, text in start.files.items():
        _lay(layer.exchange, name, text)
    given = {**env.variables, **start.env, **env.own, **ask.env, MARKER: ask.marker}
    if (missing := _missing(start.argv[0], given)) and client.ROW.install:
        return Exit(finished=False, started=False, trouble=_other(f"{missing} Install it: {client.ROW.install}"))
    wrapped = layer.wrap(start.argv, given, cwd=cwd, network=network)
    reader, heard = client.reader(ask, seat), Hearing(ask, hear)
    ended = await process.run(
        wrapped.argv,
        wrapped.env,
        wrapped.cwd,
        marker=ask.marker,
        deadline_s=ask.timeout_s,
        redact=redact,
        stdin=reader.talk if isinstance(reader, Talks) else start.stdin,
        on_line=lambda line: heard.line(reader, line),
        transcript=ask.transcript,
        keep=start.keep,
        watch=watch,
        enough=heard.enough,
        pass_fds=wrapped.pass_fds,
        exit_file=wrapped.exit_file,
    )
    if isinstance(reader, Looks):
        reader.look(ended)
    return _exit(ask, reader.end(ended.stderr, _left(layer.exchange, start, redact)), ended, heard, redact)


def read_back(
    client: Client, ask: Ask, exit_file: Path | None, exchange: Path, redact: Redaction, *, confined: bool = True
) -> Exit | None:
    """What a call came to whose engine died before it could say so; None where its turn had not ended."""
    seat = Seat(client.ROW.program, (), confined, Path("/"), str(exchange), ask.session)
    reader, heard = client.reader(ask, seat), Hearing(ask, lambda news: None)
    try:
        with ask.transcript.open("rb") as lines:
            for line in lines:
                heard.line(reader, line)
    except OSError:
        return None
    said = reader.end("", _left(exchange, client.start(ask, seat), redact))
    exit_ = process.recorded_exit(exit_file) if exit_file is not None else None
    return _exit(ask, said, Ended(exit=exit_), heard, redact) if said.finished else None


class Hearing:
    """What is heard of a call while it works, and what follows at once from it.

    What an agent spends last may be its answer: then the end of its turn is there before we end it.
    """

    def __init__(self, ask: Ask, hear: Hear) -> None:
        self._ask = ask
        self._hear = hear
        self.enough = asyncio.Event()
        """Set when the share of the budget is used up."""
        self.waiting = ""
        self._refused: dict[tuple[str, str], str] = {}
        self._working: set[str] = set()
        self._over = False

    @property
    def refused(self) -> tuple[str, ...]:
        return tuple(self._refused.values())[:5]

    def line(self, reader: Reader, line: bytes) -> None:
        if (said := json_line(line)) is not None:
            for news in reader.take(said):
                self.take(news)

    def take(self, news: News) -> None:
        match news.kind:
            case NewsKind.WAITING:
                self.waiting = str(news.facts["why"])
            case NewsKind.TEXT | NewsKind.TOOL | NewsKind.PLAN:
                self.waiting = ""
        if news.kind is NewsKind.TOOL:
            self._tool(news.facts)
        elif news.kind is NewsKind.USAGE and not self._over:
            self._spend(Usage(**news.facts))
        self._hear(news)

    def _tool(self, facts: Mapping[str, Any]) -> None:
        """What was not allowed is remembered, unless it could be done later after all."""
        what = facts["name"], facts["subject"]
        if facts["state"] == BEGAN:
            self._working.add(facts["call"])
            if self._over:
                self.enough.set()
            return
        self._working.discard(facts["call"])
        if facts["state"] == REFUSED:
            self._refused[what] = cut(" ".join(what).strip(), 200) + (f": {facts['why']}" if facts["why"] else "")
        elif facts["state"] == DONE:
            self._refused.pop(what, None)

    def _spend(self, used: Usage) -> None:
        usd, tokens = self._ask.budget_usd, self._ask.budget_tokens
        over_usd = usd is not None and used.cost_usd is not None and used.cost_usd >= usd
        self._over = over_usd or (tokens is not None and (used.tokens or 0) >= tokens)
        if self._over and self._working:
            self.enough.set()
        elif self._over:
            asyncio.get_running_loop().call_later(_END_OF_TURN_S, self.enough.set)


_END_OF_TURN_S = 1.0
"""How long an agent that has used up its budget may take to report the end of its turn, if it was at that."""


def _exit(ask: Ask, said: Said, ended: Ended, heard: Hearing, redact: Redaction) -> Exit:
    """What a call comes to. The final text and the exit status are never enough (EVID-10).

    Some agents answer an error of their service as text, some end with 0 when they were told to stop, some end a turn
    without a word.
    """
    exhausted = said.exhausted or (ended.enough and not said.finished)
    trouble = None if exhausted or ended.over else _trouble(ask, said, ended, heard)
    something = bool(said.text.strip()) or said.acted or said.form is not None
    return Exit(
        finished=said.finished and something and trouble is None and not (exhausted or ended.over or ended.timed_out),
        text=redact(said.text),
        form=redact.data(said.form),
        exit=ended.exit,
        started=not ended.error,
        timed_out=ended.timed_out,
        over=ended.over,
        exhausted=exhausted,
        trouble=trouble,
        session=said.session,
        model=said.model,
        usage=said.usage,
        seconds=ended.seconds,
        refused=heard.refused,
        stderr=ended.stderr,
    )


def _trouble(ask: Ask, said: Said, ended: Ended, heard: Hearing) -> Trouble | None:
    waiting, last = said.waiting or heard.waiting, _last_line(ended.stderr)
    if ended.error:
        return _other(ended.error)
    if ended.timed_out:  # asleep through a limit is not slow
        text = f"the deadline passed while it waited ({waiting})"
        return Trouble(kind=TroubleKind.LIMIT, text=text) if waiting else None
    if ask.session and not said.acted and said.usage == Usage():
        told = said.trouble.text if said.trouble is not None else ""
        if found := _NO_SESSION.search(f"{told}\n{ended.stderr}"):
            return Trouble(kind=TroubleKind.SESSION, text=cut(found[0].strip(), 300))
    if said.trouble is not None or said.finished:
        return said.trouble
    if ended.deaf:
        return _other("its answer was too long to be read")
    how = "it ended" if ended.exit is None else f"it ended with exit status {ended.exit}"
    if ended.exit is not None and ended.exit < 0:
        how = f"it was ended by signal {-ended.exit}"
    kind = None if said.acted else kind_of_words(last)
    because = f": {last}" if last else ""
    return Trouble(kind=kind or TroubleKind.OTHER, text=f"{how} without reporting the end of its turn{because}")


def _other(text: str) -> Trouble:
    return Trouble(kind=TroubleKind.OTHER, text=text)


_NO_SESSION = re.compile(
    r"[^\n]*(\b(no|not|invalid|unknown)\b[^\n]{0,40}\b(session|conversation|thread|rollout)"
    r"|(session|conversation|thread|rollout)\b[^\n]{0,60}\b"
    r"(not found|not exist|unknown|invalid|expired|no longer)\b)[^\n]*",
    re.IGNORECASE,
)
"""In the words of all that were tried: no conversation found, no rollout found, session not found, and so on."""


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return cut(lines[-1], 300) if lines else ""


def _missing(program: str, env: Mapping[str, str]) -> str:
    """Why a program is not there: bubblewrap would only say that something failed. A relative one counts inside."""
    if ("/" in program and not program.startswith("/")) or shutil.which(program, path=env.get("PATH", os.defpath)):
        return ""
    return f"{program!r} is not found."


def _clear(folder: Path, name: str) -> None:
    """Nothing of an earlier call can be taken for this one's; an agent may have left anything there."""
    place = folder / name
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)


def _lay(folder: Path, name: str, text: str) -> None:
    handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(handle, "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))


def _left(folder: Path, start: Start, redact: Redaction) -> dict[str, str]:
    found = {}
    for name in start.leaves:
        if (raw := read_plain(folder / name)) is not None:
            found[name] = redact(raw.decode(errors="replace"))
    return found


def read_plain(path: Path, limit: int = 10_000_000) -> bytes | None:
    """What an agent left there; None if there is nothing, or it is longer than that, or no plain file: a pipe would
    keep a reader waiting for ever, a link would lead anywhere."""
    import stat

    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            content = file.read(limit + 1)
    except OSError:
        return None
    return content if len(content) <= limit else None

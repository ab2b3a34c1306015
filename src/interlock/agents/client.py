"""One call of a coding agent, the same for all clients: started, followed, held to its limits, judged.

What is particular about a client is its module: `ROW`, `start` (pure) and `reader`.  Here is the rest: process,
deadline, budget, redaction, transcript, and that nothing counts which did not finish (EVID-10).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from interlock.agents import process
from interlock.agents.environment import Environment
from interlock.agents.process import ProcessEnd
from interlock.agents.process_tree import Wrapped
from interlock.agents.reading import Hear, Json, Reading, cut, other, parsed
from interlock.agents.redaction import Redaction
from interlock.agents.trouble import kind_of_words, trouble
from interlock.agents.values import Ask, Exit, News, Room, Trouble, TroubleKind, Usage
from interlock.documents.files import read_plain

PARTIAL = "partial"
"""The file of the exchange that appears when partial results are asked for."""


@dataclass(frozen=True)
class ClientRow:
    """A client, as people and layers need to know it."""

    name: str
    """In settings."""
    title: str
    program: str
    """On PATH."""
    install: str = ""
    """What a person types to get it."""
    sign_in: str = ""
    """What a person does to sign in."""
    logins: tuple[str, ...] = ()
    """Files below HOME: the login, and settings without which it does not start."""
    shows: tuple[str, ...] = ()
    """Folders below HOME that it reads besides: what it has unpacked of itself."""
    signed_in: tuple[str, ...] = ()
    """Those of them, and variables, whose presence says that somebody is signed in."""
    variables: tuple[str, ...] = ()
    """Variables that look like keys and that it needs."""
    hosts: tuple[str, ...] = ()
    """Of its model."""
    urls: tuple[str, ...] = ()
    """Variables that name another service."""
    tells_tokens: bool = True
    tells_cost: bool = False


@dataclass(frozen=True)
class Start:
    """How a client is started for one call."""

    argv: tuple[str, ...]
    stdin: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Written into the exchange before, by name."""
    leaves: tuple[str, ...] = ()
    """Files in the exchange in which it says what its stream does not."""
    keep: int = 1_000_000
    """Bytes of its output that its reader wants to see as a whole."""


def chosen(ask: Ask, *, session: str = "--resume") -> list[str]:
    """The words for session and model as most clients take them."""
    words = {session: ask.session, "--model": ask.role.model}
    return [f"{option}={value}" for option, value in words.items() if value]


class Client(Protocol):
    """A coding agent: a module of this shape."""

    @property
    def ROW(self) -> ClientRow: ...
    def start(self, ask: Ask, room: Room) -> Start: ...
    def reader(self, ask: Ask, room: Room) -> Reading: ...


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
    def wrap(self, argv: Sequence[str], env: Mapping[str, str], *, cwd: str = ".") -> Wrapped: ...
    def over(self) -> str:
        """Which of its bounds it has grown beyond, if any; asked while a program is at work."""
        ...


async def call(
    client: Client,
    ask: Ask,
    layer: Layer,
    hear: Hear,
    redact: Redaction,
    *,
    env: Environment,
    place: str = ".",
) -> Exit:
    """Asks a client once.

    Args:
        place: where it works, from the workspace's top.
    """
    program = ask.role.program or client.ROW.program
    if "/" in program:
        program = str(layer.root / program)
    elif client.ROW.logins:  # a program of the workspace may have its name, and would get the person's login
        program = shutil.which(program, path=ask.env.get("PATH") or env.path) or program
    room = Room(program, layer.confined, layer.root, layer.inside_exchange, str(uuid.uuid4()), place)
    start, said = client.start(ask, room), client.reader(ask, room)
    loop, enough, ends = asyncio.get_running_loop(), asyncio.Event(), list[asyncio.TimerHandle]()

    def hear_line(line: bytes) -> None:
        _heard(said, line)
        while ends:
            ends.pop().cancel()
        if (patience := _patience(ask, said)) is not None:
            ends.append(loop.call_later(patience, enough.set))

    def tell(news: News) -> None:
        """Once more without secrets: one that came in several pieces is whole now."""
        texts = {name: redact(fact) for name, fact in news.facts.items() if name in ("text", "why")}
        hear(news.model_copy(update={"facts": news.facts | texts}))

    said.hear = tell
    given = {**env.variables, **start.env, **ask.env}
    if "/" not in program and shutil.which(program, path=given.get("PATH", os.defpath)) is None:
        remedy = f" Install it: {client.ROW.install}" if client.ROW.install else ""
        return _exit(ask, said, ProcessEnd(error=f"{program!r} is not found.{remedy}"), redact)
    for name in (*start.files, *start.leaves, PARTIAL):  # nothing of an earlier call is taken for this one's
        _set_aside(layer.exchange / name)
    for name, text in start.files.items():
        (layer.exchange / name).write_text(text, "utf-8", "backslashreplace")
    asked_late = asyncio.Event()

    def ask_late() -> None:
        asked_late.set()
        place = layer.exchange / PARTIAL
        _set_aside(place)
        place.open("xb").close()  # through no link that an agent has put there

    late = loop.call_later(ask.timeout_s, ask_late) if ask.grace_s else None
    ended = await process.run(
        layer.wrap(start.argv, given, cwd=place),
        marker=ask.marker,
        deadline_s=ask.timeout_s + ask.grace_s,
        redact=redact,
        stdin=said.talk or start.stdin.encode("utf-8", "backslashreplace"),
        on_line=hear_line,
        transcript=ask.transcript,
        keep=start.keep,
        watch=layer.over,
        enough=enough,
    )
    ended = replace(ended, stderr=_COLOUR.sub("", ended.stderr))
    said.end(ended, _left(layer.exchange, start, redact))
    came = _exit(ask, said, ended, redact, cut_off=enough.is_set())
    if late is not None:
        late.cancel()
    return came.model_copy(update={"trouble": _kept_from_it(came.trouble, env.left_out), "late": asked_late.is_set()})


def _set_aside(place: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # a folder that an agent has closed can still be moved
        place.rename(place.with_name(f".{uuid.uuid4()}"))


def _kept_from_it(why: Trouble | None, left_out: Sequence[str]) -> Trouble | None:
    """Beside a failure stands which variables that look like keys were left out, if that may be why (TREE-10)."""
    if why is None or why.kind not in (TroubleKind.LOGIN, TroubleKind.OTHER):
        return why
    names = [name for name in left_out if why.kind is TroubleKind.LOGIN or name in why.text]
    told = f"{why.text} (not handed on: {', '.join(names[:8])}; [sandbox] env names what it needs)"
    return why.model_copy(update={"text": told}) if names else why


def read_back(
    client: Client, ask: Ask, layer: Layer, redact: Redaction, *, exit_file: Path | None = None
) -> Exit | None:
    """What a call came to whose engine died before it could say so; None where its turn had not ended.

    Args:
        exit_file: where the layer noted how its program ended: all that tells it of one without a stream.
    """
    room = Room(client.ROW.program, layer.confined, layer.root, layer.inside_exchange, ask.session)
    said = client.reader(ask, room)
    try:
        out = ask.transcript.read_bytes()
    except OSError:
        return None
    for line in out.split(b"\n"):
        _heard(said, line)
    ended = ProcessEnd(exit=process.recorded_exit(exit_file) if exit_file else None, out=out)
    said.end(ended, _left(layer.exchange, client.start(ask, room), redact))
    return _exit(ask, said, ended, redact) if said.finished else None


def model_hosts(row: ClientRow, variables: Mapping[str, str], home: Path) -> tuple[str, ...]:
    """Where a client's model answers: the usual hosts, and where variables or its own settings send it."""
    urls = [variables.get(name, "") for name in row.urls]
    for path in row.logins:
        with contextlib.suppress(OSError):
            text = read_plain(home / path, follow=True, limit=_LARGEST_LEFT).decode(errors="replace")
            urls += [found[1] for found in _BASE_URL.finditer(text)]
    found = [_WEB.match(url.strip()) for url in urls]
    return tuple(dict.fromkeys((*row.hosts, *(url[1].lower() for url in found if url))))


_BASE_URL = re.compile(r"""base_?url["']?\s*[:=]\s*["']([^"'\s]+)""", re.IGNORECASE)
_WEB = re.compile(r"(?:https?|wss?)://(?:[^/@\s]*@)?(\[[0-9a-f:.]+\](?::\d+)?|[^/:\s?#]+(?::\d+)?)", re.IGNORECASE)


def _patience(ask: Ask, said: Reading) -> float | None:
    """How long it may go on without another word: its turn is over, or its share of the budget is used up."""
    if said.finished:
        return _LEAVES_S
    shares = (ask.budget_usd, said.usage.cost_usd), (ask.budget_tokens, said.usage.tokens)
    if any(spent is not None and share is not None and spent >= share for share, spent in shares):
        return 0.0 if said.at_work else _END_OF_TURN_S  # what was spent last may be its answer
    return None


def _heard(said: Reading, line: bytes) -> None:
    """What is no JSON (warnings, banners, half lines) is passed over."""
    if line.lstrip().startswith(b"{"):
        with contextlib.suppress(RecursionError):  # it is nested nearly too deeply to be JSON
            said.read(Json(parsed(line.decode(errors="replace"))))


_LARGEST_LEFT = 10_000_000
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_END_OF_TURN_S = 1.0
"""How long an agent that has used up its budget may be silent before the end of its turn, if it was at that."""
_LEAVES_S = 120.0
"""How long a client may take to exit, without another word, after the end of its turn: some never do."""


def _exit(ask: Ask, said: Reading, ended: ProcessEnd, redact: Redaction, *, cut_off: bool = False) -> Exit:
    """What a call comes to. The final text and the exit status are never enough.

    Some agents answer an error of their service as text, some end with 0 when they were told to stop, some end a turn
    without a word.
    """
    exhausted = said.exhausted or (cut_off and not said.finished)
    why = None if exhausted or ended.over else _trouble(ask, said, ended)
    return Exit(
        finished=said.finished and why is None and not (exhausted or ended.timed_out or ended.over),
        text=redact(said.text),
        form=_redacted(said.form, redact),
        exit=ended.exit,
        started=not ended.error,
        timed_out=ended.timed_out,
        over=ended.over,
        exhausted=exhausted,
        trouble=why,
        session=said.session,
        model=said.model,
        usage=said.usage,
        seconds=ended.seconds,
        refused=tuple(said.refused.values())[:5],
        stderr=ended.stderr,
    )


def _redacted(form: Any, redact: Redaction) -> Any:
    with contextlib.suppress(RecursionError):
        return parsed(redact(json.dumps(form)))
    return "the form is nested too deeply"


def _trouble(ask: Ask, said: Reading, ended: ProcessEnd) -> Trouble | None:
    if ended.error:
        return other(ended.error)
    if ended.timed_out:  # asleep through a limit is not slow
        why = trouble(said.waiting)
        text = f"the deadline passed while it waited ({why.text})"
        return Trouble(kind=why.kind, text=text, until=why.until) if said.waiting else None
    told = said.wrong
    words = f"{told.text if told else ''}\n{ended.stderr}"
    if ask.session and not said.acted and said.usage == Usage():
        for line in filter(_NO_SESSION.search, words.splitlines()):
            return Trouble(kind=TroubleKind.SESSION, text=cut(line.strip(), 300))
    if told is None and said.finished and not (said.text.strip() or said.acted or said.form is not None):
        return other("it ended its turn without a word and without using a tool")
    if told is not None or said.finished:
        return told
    lines = [line.strip() for line in ended.stderr.splitlines() if not _FILLER.match(line)]
    last = cut(lines[-1], 300) if lines else ""
    how = f"it ended with exit status {ended.exit}" if ended.exit else "it ended without reporting the end of its turn"
    if (ended.exit or 0) < 0:
        how = f"it was ended by signal {-(ended.exit or 0)}"
    kind = (None if said.acted else kind_of_words(last)) or TroubleKind.OTHER
    return trouble(f"{how}: {last}" if last else how, kind=kind)


_FILLER = re.compile(r"\s*(at |code: |requireStack: |tip: |Usage: |For more information|Node\.js v|\W*$)")
"""Of what a program says when it fails, what comes behind the reason."""
_NO_SESSION = re.compile(
    r"\b(no|not|invalid|unknown)\b.{0,40}\b(session|conversation|thread|rollout)"
    r"|(session|conversation|thread|rollout)\b.{0,60}\b(not found|not exist|unknown|invalid|expired|no longer)\b",
    re.IGNORECASE,
)
"""In the words of all that were tried: no conversation found, no rollout found, session not found, and so on."""


def _left(folder: Path, start: Start, redact: Redaction) -> dict[str, str]:
    found = {}
    for name in start.leaves:
        with contextlib.suppress(OSError):
            found[name] = redact(read_plain(folder / name, limit=_LARGEST_LEFT).decode(errors="replace"))
    return found

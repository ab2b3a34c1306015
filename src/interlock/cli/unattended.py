"""A run that nobody sits in front of: who else hears of it, who is called, and how it goes on in the background.

Whoever the settings name hears what the journal says, and cannot touch the run: one that fails is told, once, and hears
no more.

`[notify]`: somebody who is elsewhere is called when a run waits, has ended, or is in trouble.  A notice is one program,
started and left alone while the run goes on: the command of the settings, or apprise.  It has its time; when the
process that executes the run is done, what still hangs is ended.  That a notice did not work is one line.

`--detach`: the process is forked before the work begins.  It has a session of its own at once, and the caller's streams
until the run is at work: what refuses the run (an input, a lock, an agent that is not there), or ends it before any
work, is said to the caller as ever, with its exit code.  With the first piece of work it lets go: from there on its
words go to a file of the run folder, and the run's id, sent through a pipe, lets the caller return.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from interlock import __version__
from interlock.agents.environment import agent_environment, without_our_own
from interlock.cli.live import WORK, PlainView, title
from interlock.cli.output import complain, envelope, gate_json, print_json, print_lines, ring
from interlock.engine.folder import RunFolder
from interlock.engine.nesting import only_people
from interlock.errors import ConfigInvalid
from interlock.telemetry import printable, tell

if TYPE_CHECKING:
    from interlock.agents import AgentNews
    from interlock.cli.door import Door, Errand
    from interlock.engine.identity import Identity
    from interlock.engine.journal import Line
    from interlock.settings import NotifySettings
    from interlock.telemetry.traces import Traces


class Listener(Protocol):
    """Somebody who hears the lines that a process adds to a journal."""

    def line(self, line: Line) -> None: ...

    def close(self) -> str | None:
        """The process is done with the run; what is to be said about it, if anything."""
        ...


class HeardView:
    """A view that passes everything on, and tells the lines to whom the settings name."""

    def __init__(self, door: Door, view: PlainView) -> None:
        self._door, self._view = door, view
        self._listeners: list[Listener] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._part()

    def begin(self, identity: Identity, lines: list[Line], *, resumed: bool) -> None:
        self.turn_to(identity, lines)
        self._view.begin(identity, lines, resumed=resumed)

    def turn_to(self, identity: Identity, lines: list[Line]) -> None:
        """From now on it is this run that is heard of, with what happened in it before."""
        self._part()  # a run that ends in here may be followed by another
        self._listeners = list(self._named(identity, lines))

    def line(self, line: Line) -> None:
        self._view.line(line)
        for listener in tuple(self._listeners):
            try:
                listener.line(line)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is not the run's
                self._listeners.remove(listener)
                self._view.remark(f"{type(listener).__name__.lower()} hear no more of this run: {error}")

    def news(self, key: str, news: AgentNews) -> None:
        self._view.news(key, news)

    def say(self, text: str | bytes) -> None:
        self._view.say(text)

    def remark(self, text: str) -> None:
        self._view.remark(text)

    def _named(self, identity: Identity, lines: list[Line]) -> Iterator[Listener]:
        settings = self._door.setup.settings
        yield Notices(self._door, identity, settings.notify, self._view.remark)
        if url := settings.telemetry.otlp:
            yield _traces(url, identity, lines)

    def _part(self) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            if said := listener.close():
                self._view.remark(f"[telemetry] otlp: {said}")


def _traces(url: str, identity: Identity, lines: list[Line]) -> Traces:
    try:
        from interlock.telemetry.traces import Traces
    except ImportError as missing:
        raise ConfigInvalid(
            f"traces need OpenTelemetry: {missing}",
            where="telemetry.otlp",
            remedy="Install interlock with its extra, interlock[otel], or leave the setting out.",
        ) from missing
    traces = Traces(url, run_id=identity.run_id, playbook=identity.playbook, key=identity.key, version=__version__)
    traces.begin(lines)
    return traces


LIMIT_S: Final = 30.0
"""A notice that takes longer is ended."""
PARTING_S: Final = 10.0
"""So long the process that executes the run stays for the notices of its end."""
LOOK_S: Final = 0.05
APPRISE: Final = "from apprise.cli import main; main()"
TROUBLE: Final = ("run.paused", "run.fault")


@dataclass(frozen=True)
class Notice:
    """What somebody is to know."""

    kind: str
    """``gate``, ``end`` or ``trouble``."""
    text: str
    facts: Mapping[str, Any]


def noticed(identity: Identity, line: Line) -> Notice | None:
    """What a line of the journal is to somebody who is elsewhere; None for most of them."""
    what, data = f"{identity.playbook} {identity.key}", line.data
    match line.event:
        case "gate.opened":
            kind, text, status = "gate", f"{what} waits: {data['question']}", "waiting"
        case "run.end":
            reason = data.get("reason")
            why = f": {reason}" if isinstance(reason, str) and reason else ""
            kind, text, status = "end", f"{what} is {data['status']}{why}", str(data["status"])
        case event if event in TROUBLE or (event == "dispatch.end" and data.get("outcome") == "FAIL"):
            kind, text, status = "trouble", f"{what}: {tell(line).text}", "running"
        case _:
            return None
    text = printable(text, 400)
    facts = {
        "kind": kind,
        "text": text,
        "at": line.ts,
        "run_id": identity.run_id,
        "playbook": identity.playbook,
        "key": identity.key,
        "status": "waiting" if line.event == "run.paused" else "interrupted" if line.event == "run.fault" else status,
        "step": line.key,
        "gate": gate_json({**data, "key": line.key}) if kind == "gate" else None,
    }
    return Notice(kind, text, facts)


class Notices:
    """Calls somebody at what the settings name."""

    def __init__(self, door: Door, identity: Identity, settings: NotifySettings, tell: Callable[[str], None]) -> None:
        self._door, self._identity, self._settings, self._tell = door, identity, settings, tell
        self._calls: list[Notifier] = []
        self._complained = False

    def line(self, line: Line) -> None:
        self._look()
        if (notice := noticed(self._identity, line)) is not None:
            self._call(notice)

    def close(self) -> None:
        """Wait a while for those who are being called, and no longer."""
        end = time.monotonic() + PARTING_S
        try:
            while self._look() and time.monotonic() < end:
                time.sleep(LOOK_S)
        finally:
            for call in self._calls:
                call.kill()
            self._look()

    def _call(self, notice: Notice) -> None:
        """Whoever sits at the terminal hears its bell; whoever is elsewhere is called in their own way."""
        if notice.kind == "gate" and sys.stderr.isatty() and not self._door.json:
            ring()
        settings = self._settings
        if notice.kind not in settings.on:
            return
        if settings.command:
            self._start("command", settings.command, notice, {})
        if settings.urls:
            if find_spec("apprise") is None:
                self._complain("[notify] urls need apprise: install interlock[notify]")
                return
            # Not as arguments: addresses have passwords in them, and everybody sees arguments.
            program = (sys.executable, "-P", "-c", APPRISE, "--title", "interlock", "--body", notice.text)
            self._start("urls", program, notice, {"APPRISE_URLS": " ".join(settings.urls)})

    def _start(self, name: str, argv: Sequence[str], notice: Notice, more: Mapping[str, str]) -> None:
        about = {f"NOTICE_{one.upper()}": str(notice.facts[one]) for one in ("kind", "run_id", "playbook", "status")}
        environ = without_our_own(self._door.environ, self._door.root) if name == "command" else self._door.environ
        env = agent_environment(environ, {"NOTICE": notice.text, **about, **more}, {})
        try:
            with tempfile.TemporaryFile() as facts:  # a pipe that nobody reads would keep us waiting
                facts.write(json.dumps(notice.facts, default=str).encode())
                facts.seek(0)
                process = subprocess.Popen(
                    argv,
                    cwd=self._door.root,
                    env=env,
                    stdin=facts,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:
            self._complain(f"[notify] {name} did not work: {printable(str(error))}")
        else:
            self._calls.append(Notifier(name, process, time.monotonic() + LIMIT_S))

    def _look(self) -> bool:
        """Whether a call is still going on; one that has taken too long is ended, one that failed is told."""
        going_on = []
        for call in self._calls:
            if call.process.poll() is None and time.monotonic() > call.until:
                call.kill()
            if call.process.poll() is None:
                going_on.append(call)
            elif call.failed:
                self._complain(f"[notify] {call.name} did not work: {call.failed}")
        self._calls = going_on
        return bool(going_on)

    def _complain(self, text: str) -> None:
        if not self._complained:
            self._complained = True
            self._tell(text)


@dataclass
class Notifier:
    """One program that tells somebody."""

    name: str
    process: subprocess.Popen[bytes]
    until: float
    killed: bool = False

    def kill(self) -> None:
        """End it, with all that it started and did not part from it."""
        if self.process.poll() is None:
            self.killed = True
            with suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    @property
    def failed(self) -> str:
        """Why somebody may not have been reached; empty where they were."""
        if self.killed:
            return "it took too long and was ended"
        return f"exit code {self.process.returncode}" if self.process.returncode else ""


WORDS: Final = "detached.log"
"""The file of the run folder that has what a process in the background would have said to a terminal."""


class DetachedView(PlainView):
    """Plain lines: for the caller until the run is at work, then for the run folder."""

    def __init__(self, errand: Errand, caller: int, *, root: Path, keep_output: bool, verbose: bool) -> None:
        super().__init__(errand, keep_output=keep_output, verbose=verbose)
        self._root = root
        self._caller: int | None = caller

    def line(self, line: Line) -> None:
        if line.event in WORK and self._caller is not None:
            self._let_go(self._caller, line.run)
            self._caller = None
        super().line(line)

    def _let_go(self, caller: int, run_id: str) -> None:
        _speak_into(words_of(self._root, run_id))
        with suppress(OSError), open(caller, "wb", buffering=0) as pipe:  # the caller may have gone meanwhile
            pipe.write(run_id.encode())


def words_of(root: Path, run_id: str) -> Path:
    return RunFolder(root, run_id).path / WORDS


def in_the_background(door: Door, work: Callable[[PlainView], int]) -> int:
    """Do the work in a process of its own; returns in both: when the run is at work, and when the work is done."""
    only_people(door.environ, door.root, "leave a run in the background")
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    ours, theirs = os.pipe()
    if worker := os.fork():
        os.close(theirs)
        return _told(door, worker, ours)
    os.close(ours)
    os.setsid()
    _keep_nothing_of_the_caller()
    return work(DetachedView(door.errand, theirs, root=door.root, keep_output=door.json, verbose=door.verbose))


def _told(door: Door, worker: int, words: int) -> int:
    """What the process in the background said of itself: that the run is at work, or, by its exit code, why not."""
    while True:
        try:
            if run_id := os.read(words, 4096).decode():
                break
            code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
            return code if code >= 0 else 128 - code
        except KeyboardInterrupt:  # the start is given up: the process ends as one at this terminal would
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGINT)
    return _gone_on(door, run_id)


def _gone_on(door: Door, run_id: str) -> int:
    from interlock.cli.runs import shown_path

    identity = door.find(run_id).identity
    if door.json:
        print_json(envelope(identity, status="running", exit_code=0, reason="goes on in the background"))
    else:
        print_lines([run_id])
    complain(
        f"{title(identity)} goes on in the background, as run {run_id}.",
        f"  watch it: {door.spoken(f'watch {run_id}')}",
        f"  end it: {door.spoken(f'cancel {run_id}')}",
        f"  its output: {shown_path(words_of(door.root, run_id))}",
    )
    return 0


def _keep_nothing_of_the_caller() -> None:
    """No input, and none of the descriptors that the caller left open: somebody may wait for their end."""
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for place in Path("/dev/fd").iterdir():
        with suppress(OSError):  # that of the listing itself
            if (number := int(place.name)) > 2 and os.get_inheritable(number):
                os.close(number)


def _speak_into(file: Path) -> None:
    """From now on both streams go to the end of this file; nowhere, where it cannot be written."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    flags = os.O_WRONLY | os.O_CLOEXEC
    try:
        handle = os.open(file, flags | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
    except OSError:
        handle = os.open(os.devnull, flags)
    for number in (1, 2):
        os.dup2(handle, number)
    os.close(handle)

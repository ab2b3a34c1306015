"""`[notify]`: somebody who is elsewhere is called when a run waits, has ended, or is in trouble.

A notice is one program, started and left alone while the run goes on: the command of the settings, or apprise.  It has
its time; when the process that executes the run is done, what still hangs is ended.  Nothing of it reaches the run:
that a notice did not work is one line.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from interlock.agents.environment import agent_environment, without_our_own
from interlock.cli.output import gate_json, ring
from interlock.telemetry import printable, tell

if TYPE_CHECKING:
    from interlock.cli.door import Door
    from interlock.engine.identity import Identity
    from interlock.engine.journal import Line
    from interlock.settings import NotifySettings

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

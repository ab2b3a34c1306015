"""The bench on which playbooks are tested, ours and anybody's (OWN-03): a cast that does as told, a world in memory.

    bench = Bench(MINE)
    bench.cast.acts["writer"] = [said({"status": "done"}, {"a.txt": b"1"})]
    assert bench.start(what="it").status is Status.COMPLETE

Processes may die behind any line (`dies_at`, `cut_off_anywhere`) and be resumed; `rehearsed` plays every path.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock.agents.values import Ask, CommandExit, Exit, Usage
from interlock.documents.model import Model
from interlock.engine.folder import Message
from interlock.engine.holds import broken
from interlock.engine.journal import Line, Memory
from interlock.engine.playbook import Playbook
from interlock.engine.playing import Player
from interlock.engine.rehearsal import explore
from interlock.engine.run import Limits
from interlock.engine.simulation import Act, Clean, Files, Simulated, begin, drive, simulated
from interlock.engine.view import GateView, View
from interlock.engine.world import Command, Toolbox
from interlock.finding.bundle import read
from interlock.finding.library import Found, loaded

VERSION = "1.0"


def said(form: Mapping[str, Any] | str | None = None, files: Files | None = None, **more: Any) -> Act:
    """An agent's act: a form or a text, and files that it leaves."""
    words = {"text": form} if isinstance(form, str) else {"text": "", "form": None if form is None else dict(form)}
    usage = more.pop("usage", Usage(input_tokens=100, output_tokens=10, cost_usd=0.01))
    return Act(files or {}, Exit(**{"finished": True, "exit": 0, "usage": usage, **words, **more}))


def verdict(word: str = "accept", **more: Any) -> Act:
    """A judge's word on the one criterion `it works`, with a green check of its own."""
    met = [{"criterion": "it works", "met": word == "accept"}]
    return said({"verdict": word, "criteria": met, "checks": [{"command": "look", "result": "green"}], **more})


Happens = Act | Callable[[Ask, Files], Act]


class Cast(Clean):
    """Agents do what is listed for them, call by call, then their best; so do commands and the person."""

    def __init__(self) -> None:
        self.acts: dict[str, list[Happens]] = {}
        """Role, or member -> its calls."""
        self.asks: list[Ask] = []
        self.commands: dict[str, Callable[[Files], CommandExit] | list[CommandExit]] = {}
        self.ran: list[tuple[str, Files, bool]] = []
        self.decisions: list[dict[str, Any] | None] = []
        """What the person at the terminal says to each question; None: nobody is there."""
        self.moments: dict[str, list[Callable[[], Any]]] = {}

    def agent(self, ask: Ask, key: str, files: Files) -> Act:
        self.asks.append(ask)
        for name in (ask.env["INTERLOCK_MEMBER"], ask.role.name):
            if self.acts.get(name):
                happens = self.acts[name].pop(0)
                return happens(ask, files) if callable(happens) else happens
        return super().agent(ask, key, files)

    def command(self, command: Command, tree: Any, files: Files, *, own: bool) -> CommandExit:
        self.ran.append((command.line, dict(files), own))
        known = self.commands.get(command.line)
        if known is None:
            return super().command(command, tree, files, own=own)
        if isinstance(known, list):
            return known.pop(0) if len(known) > 1 else known[0]
        return known(files)

    def person(self, gate: GateView) -> Message | None:
        told = self.decisions.pop(0) if self.decisions else None
        return None if told is None else Message(**{"what": "answer", "who": "ann", "at": gate.at, **told})

    def moment(self, what: str) -> str:
        for name, waiting in self.moments.items():
            if waiting and what.startswith(name):
                waiting.pop(0)()
        return ""


class Died(BaseException):
    """The process died."""


@dataclass
class Bench:
    """One run, through as many processes as it takes."""

    playbook: Playbook
    files: Files | None = None
    head: Files | None = None
    commands: Sequence[Command] = (Command("test", "pytest", "found"),)
    limits: Limits = field(default_factory=Limits)
    dies_at: int = 0
    """The line behind which the process dies; 0: none."""

    def __post_init__(self) -> None:
        self.cast = Cast()
        tools = Toolbox(list(self.commands))
        self.world = Simulated(self.files, head=self.head, cast=self.cast, toolbox=tools, branch="refs/heads/main")
        self.news: list[tuple[str, Any]] = []

    def player(self) -> Player:
        self._lines = 0
        more = {"limits": self.limits, "hear": lambda key, news: self.news.append((key, news))}
        return simulated(self.playbook, self.world, told=self._told, **more)

    def _told(self, event: Any, key: str) -> None:
        self._lines += 1
        if self._lines == self.dies_at:
            raise Died

    def start(self, **inputs: Any) -> View:
        """The first process."""
        self.last = player = self.player()
        given = self.playbook.inputs(**inputs)
        caps = {loop: min(most, getattr(given, f"{loop}s", most)) for loop, most in self.playbook.caps.items()}
        return self._in_process(lambda: begin(player, given, caps, run="run-1", version=VERSION))

    def resume(self, *, version: str = VERSION, **more: Any) -> View:
        """Another process goes on."""
        self.last = player = self.player()
        return self._in_process(lambda: player.resume(version, **more))

    def _in_process(self, begin: Callable[[], None]) -> View:
        def process() -> View:
            begin()
            return drive(self.last.play())

        return contextvars.copy_context().run(process)

    def says(self, what: str, **more: Any) -> None:
        """A person leaves a message in the inbox."""
        number = f"{len(self.world.folder.said) + 1:03d}"
        message = {"what": what, "who": "ann", "at": self.world.now(), **more}
        self.world.folder.said[number] = Message.model_validate(message)

    @property
    def lines(self) -> list[Line]:
        return self.last.recorder.journal.lines

    def events(self, *kinds: str) -> list[Any]:
        return [line.event for line in self.lines if line.event.e in kinds]

    def briefs(self, agent: str) -> list[str]:
        return [ask.brief for ask in self.cast.asks if ask.role.name == agent]

    def text(self, path: str) -> str:
        return self.world.files.get(path, b"").decode()


def cut_off_anywhere(make: Callable[[], Bench]) -> Iterator[tuple[int, Bench, Bench]]:
    """The run undisturbed, and with a power cut behind each of its lines, resumed."""
    usual = make()
    usual.start()
    for line in range(1, len(usual.lines) + 1):
        bench = make()
        bench.dies_at = line
        with suppress(Died):
            bench.start()
        bench.dies_at = 0
        medium = bench.world.folder.medium
        assert isinstance(medium, Memory)
        del medium.content[medium.safe :]
        again = bench.player()
        ended = {line.key for line in again.recorder.journal.lines if line.event.e == "done"}
        paid = len(bench.world.paid)
        if again.view.start is None:
            bench.start()
        elif again.view.ended is None:
            bench.resume()
        else:
            bench.last = again
        twice = ended & {marker.partition("/")[2] for marker in bench.world.paid[paid:]}
        assert not twice, f"killed behind line {line}: {twice} ended, and is called again"
        yield line, usual, bench


def playbook_in(folder: Path) -> Playbook:
    """The playbook of a folder, for its own tests: they are code of that folder themselves, so nobody is asked."""
    return loaded(read(folder), folder, Found(folder.name, "path", str(folder), folder))


def rehearsed(playbook: Playbook, inputs: Model, deviations: int = 1) -> list[str]:
    """What does not hold on some path, with what happened there; empty: all of it holds."""
    paths = explore(playbook, inputs, deviations=deviations)
    return [f"{why}: {dict(path.schedule)}" for path in paths for why in broken(path)]

"""Every path of a playbook, played by the engine that plays it for real, in the simulated world (PROOF-01).

A *path* is a schedule of deviations (see `stage`).  The clean one is played first; each path tells what else could have
happened on it, and the next ones deviate once more, at a later occasion.  What must hold on all of them is in `holds`.
"""

from __future__ import annotations

import contextvars
import gc
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial

from pydantic import ValidationError

from interlock.agents import answers
from interlock.documents.model import Model
from interlock.engine import events as ev
from interlock.engine.forms import schema
from interlock.engine.playbook import Playbook
from interlock.engine.playing import Player
from interlock.engine.prompts import Prompts
from interlock.engine.run import Limits
from interlock.engine.simulation import Simulated, begin, drive
from interlock.engine.stage import DIES, TEST, UNSAVED, Died, Endless, Stage
from interlock.engine.view import View
from interlock.engine.world import Command, Toolbox
from interlock.errors import BadInput
from interlock.workspace.values import Tree

LIMITS = Limits(rate_limit_wait_s=6 * 3600)
MOST_PROCESSES = 40
FILES = {"lib.py": b"x = 1\n", TEST: b"assert x\n"}
Make = Callable[[Stage], Simulated]


def project(stage: Stage) -> Simulated:
    """A project with a check, and with work that a person has not committed."""
    toolbox = Toolbox([Command("test", "make test", "found")])
    return Simulated({**FILES, UNSAVED: b"not committed\n"}, head=FILES, cast=stage, toolbox=toolbox, branch="main")


@dataclass(eq=False)
class Path:
    """One path: what happened on it in place of the usual, and how it went; once played it changes no more."""

    playbook: Playbook
    inputs: Model
    caps: Mapping[str, int]
    limits: Limits
    stage: Stage
    usual: Path | None = None
    """Where a death of the process is the last of its deviations: the same without it."""
    view: View = field(default_factory=View)
    refused: str = ""
    """Bad input: nothing of the run is left."""
    fault: str = ""

    @property
    def schedule(self) -> Mapping[str, str]:
        return self.stage.schedule

    @property
    def calls(self) -> int:
        """Of agents."""
        return self.stage.began.total()

    @cached_property
    def lines(self) -> list[tuple[str, ev.Event]]:
        return [(line.key, line.event) for line in self.stage.player.recorder.journal.lines]

    @cached_property
    def deciding(self) -> set[str]:
        """The commands that the engine ran to decide, before and after."""
        return {event.command for _, event in self.lines if isinstance(event, ev.Based | ev.Proved)}

    def green(self, line: str, tree: Tree | None, *, own: bool = False) -> bool | None:
        """How a command really ended on a tree, the last time; None: nobody knows."""
        came = self.stage.runs.get((line, tree or Tree(""), own))
        return None if came is None or (came.timed_out and line not in self.deciding) else came.exit == 0

    def further(self) -> Iterator[tuple[str, str]]:
        """What else could have happened, behind the last thing that did."""
        came = list(self.stage.offers)
        behind = max((came.index(one) for one in self.schedule if one in came), default=-1)
        yield from ((one, name) for one in came[behind + 1 :] for name in self.stage.offers[one])

    def play(self) -> Path:
        """To its end: who dies is resumed, who waits is answered."""
        again = False
        for _ in range(MOST_PROCESSES):
            try:
                contextvars.copy_context().run(self._process, again)
            except Died:
                continue
            except BadInput as error:
                self.refused = error.what
                break
            except (Exception, Endless) as error:  # noqa: BLE001 - whatever it is, the path is broken, and says so
                self.fault = f"{type(error).__name__}: {error}"
                break
            if not self.stage.comes_back(self.view):
                break
            again = self.view.ended is not None
        return self

    def _process(self, again: bool) -> None:
        settings = self.playbook.settings() if self.playbook.settings else None
        prompts, told = Prompts(self.playbook.prompts), self.stage.told
        player = Player(self.playbook, self.stage.world, prompts, settings=settings, limits=self.limits, told=told)
        self.stage.enters(player)
        self.view = player.view
        if self.view.start is None:
            begin(player, self.inputs, self.caps)
        elif self.view.ended is None or again:
            player.resume("simulated")
        else:  # it died behind its last line
            return
        drive(player.play())


def play(
    playbook: Playbook,
    inputs: Model,
    schedule: Mapping[str, str],
    *,
    caps: Mapping[str, int] | None = None,
    limits: Limits = LIMITS,
    make: Make = project,
    usual: Path | None = None,
    forms: dict[str, dict[str, object]] | None = None,
) -> Path:
    """The path of that schedule."""
    stage = Stage(playbook, schedule, {} if forms is None else forms)
    stage.world = make(stage)
    stage.theirs = dict(stage.world.files)
    return Path(playbook, inputs, caps or playbook.caps, limits, stage, usual).play()


def explore(
    playbook: Playbook,
    inputs: Model,
    *,
    deviations: int = 1,
    caps: Mapping[str, int] | None = None,
    limits: Limits = LIMITS,
    make: Make = project,
    sample: int = 0,
    seed: int = 0,
    only: Callable[[str], bool] = lambda name: True,
) -> Iterator[Path]:
    """Every path with at most so many deviations, each once.

    Args:
        sample: of the paths with that many deviations only so many, drawn by the seed.
        only: which deviations there are, by name.
    """
    forms: dict[str, dict[str, object]] = {}
    played = partial(play, playbook, inputs, caps=caps, limits=limits, make=make, forms=forms)
    with _collecting_rarely():
        paths = [played({})]
        yield paths[0]
        for depth in range(1, deviations + 1):
            more = [(path, one, name) for path in paths for one, name in path.further() if only(name)]
            if sample and depth == deviations and len(more) > sample:
                more = random.Random(seed).sample(more, sample)
            paths = []
            for path, one, name in more:
                longer = played({**path.schedule, one: name}, usual=path if name == DIES else None)
                yield longer
                if depth < deviations:
                    paths.append(longer)


@contextmanager
def _collecting_rarely() -> Iterator[None]:
    """What paths leave in circles is looked for seldom, and there alone: that is a fifth of the time."""
    usual = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(100_000, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


def variants(playbook: Playbook) -> Iterator[Model]:
    """The best inputs that the playbook's form of them takes, and each with one field otherwise."""
    form = schema(playbook.inputs)
    for value in (answers.best(form), *(one.value for one in answers.deviations(form))):
        try:
            inputs = playbook.inputs.model_validate(value)
            if playbook.check is not None:
                playbook.check(inputs, lambda branch: "")
        except (ValidationError, BadInput):
            continue
        yield inputs

"""Every path of a playbook, played by the engine that plays it for real, in the simulated world (PROOF-01).

A *path* is a schedule of deviations (see `stage`).  The clean one is played first; each path tells what else could have
happened on it, and the next ones deviate once more, at a later occasion.  What must hold on all of them is in `holds`.
"""

from __future__ import annotations

import contextvars
import random
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from interlock.agents import answers
from interlock.documents.model import Model
from interlock.engine import events as ev
from interlock.engine import simulation
from interlock.engine.forms import schema
from interlock.engine.playbook import Playbook
from interlock.engine.run import Limits
from interlock.engine.simulation import TEST, Simulated, begin, drive, simulated
from interlock.engine.stage import DIES, FULL, UNSAVED, Died, Endless, Stage
from interlock.engine.view import View
from interlock.engine.world import Command, Toolbox
from interlock.errors import BadInput, WorkspaceFailed
from interlock.workspace.values import Tree

LIMITS = Limits(rate_limit_wait_s=6 * 3600)
MOST_PROCESSES = 40
FILES = {**simulation.FILES, TEST: b"assert x\n"}
Make = Callable[[Stage], Simulated]


def project(stage: Stage) -> Simulated:
    """A project with a check, and with work that a person has not committed."""
    toolbox = Toolbox([Command("test", "make test", "found")])
    return Simulated({**FILES, UNSAVED: b"not committed\n"}, head=FILES, cast=stage, toolbox=toolbox, branch="main")


class Path(Stage):
    """One path: what happens on it in place of the usual, and how it went.

    Args:
        usual: where its last deviation only cuts a process off: the same path without it.
    """

    def __init__(
        self,
        playbook: Playbook,
        inputs: Model,
        schedule: Mapping[str, str],
        *,
        usual: Path | None = None,
        caps: Mapping[str, int] | None = None,
        limits: Limits = LIMITS,
        make: Make = project,
    ) -> None:
        super().__init__(playbook.rows, schedule)
        self.playbook, self.inputs, self.usual = playbook, inputs, usual
        self.caps, self.limits = caps or playbook.caps, limits
        self.world = make(self)
        brought = {path: text.encode() for path, text in {**playbook.brings, **playbook.files}.items()}
        self.world.head |= brought
        self.world.files |= brought
        self.theirs = dict(self.world.files)
        self.wrote = [(UNSAVED, self.theirs.get(UNSAVED, b""))]
        self.view = View()
        self.refused = ""
        """Bad input: nothing of the run is left."""
        self.fault = ""

    @property
    def calls(self) -> int:
        """Of agents."""
        return self.began.total()

    @cached_property
    def lines(self) -> list[tuple[str, ev.Event]]:
        return [(line.key, line.event) for line in self.player.recorder.journal.lines]

    @cached_property
    def deciding(self) -> set[str]:
        """The commands that the engine ran to decide, before and after."""
        ran = [event for _, event in self.lines if isinstance(event, ev.Based | ev.Proved)]
        return {event.command for event in ran if getattr(event, "word", "") != "told"}

    def green(self, line: str, tree: Tree | None) -> bool | None:
        """Whether a command was green on a tree, the last time it really ran; None: it did not."""
        came = self.ended_at_all(line, tree)
        return False if came is None and line in self.deciding and (line, tree, False) in self.runs else came

    def ended_at_all(self, line: str, tree: Tree | None, *, own: bool = False) -> bool | None:
        """The same, but None where its last run was ended by its deadline."""
        came = self.runs.get((line, tree or Tree(""), own))
        return None if came is None or came.timed_out else came.exit == 0

    def further(self) -> Iterator[tuple[str, str]]:
        """The deviations that could be added to this path: those that come after its last one."""
        came = list(self.offers)
        behind = max((came.index(one) for one in self.schedule if one in came), default=-1)
        yield from ((one, name) for one in came[behind + 1 :] for name in self.offers[one])

    def play(self) -> Path:
        """To its end: who dies or fails is resumed, who waits is answered."""
        again = False
        for _ in range(MOST_PROCESSES):
            try:
                contextvars.copy_context().run(self._process, again)
            except (Died, WorkspaceFailed):
                continue
            except BadInput as error:
                self.refused = error.what
                break
            except (Exception, Endless) as error:  # noqa: BLE001 - whatever it is, the path is broken, and says so
                self.fault = f"{type(error).__name__}: {error}"
                break
            if not self.comes_back(self.view):
                break
            again = self.view.ended is not None
        return self

    def _process(self, again: bool) -> None:
        self.player = simulated(self.playbook, self.world, limits=self.limits, told=self.told)
        self.view = self.player.view
        self.came.clear()
        if self.view.start is None:
            begin(self.player, self.inputs, self.caps)
        elif self.view.ended is None or again:
            self.player.resume("simulated")
        else:  # it died behind its last line
            return
        drive(self.player.play())


def explore(
    playbook: Playbook,
    inputs: Model,
    *,
    deviations: int = 1,
    sample: int = 0,
    seed: int = 0,
    only: Callable[[str], bool] = lambda name: True,
    **setting: Any,
) -> Iterator[Path]:
    """Every path with at most so many deviations, each once.

    Args:
        sample: of the paths with that many deviations only so many, drawn by the seed.
        only: which deviations there are, by name.
        setting: caps, limits and project, as `Path` takes them.
    """
    paths = [Path(playbook, inputs, {}, **setting).play()]
    yield paths[0]
    for depth in range(1, deviations + 1):
        more = [(path, one, name) for path in paths for one, name in path.further() if only(name)]
        if sample and depth == deviations and len(more) > sample:
            more = random.Random(seed).sample(more, sample)
        paths = []
        for path, one, name in more:
            usual = path if name in (DIES, FULL) else None
            longer = Path(playbook, inputs, {**path.schedule, one: name}, usual=usual, **setting).play()
            yield longer
            if depth < deviations:
                paths.append(longer)


def _changed(form: Any, value: Any) -> dict[str, Any]:
    """What of a form's values is not at its best."""
    best = answers.best(form)
    return {name: one for name, one in value.items() if one != best.get(name)} if isinstance(value, dict) else {}


def variants(playbook: Playbook) -> Iterator[Model]:
    """The best inputs that the playbook's form of them takes, and each with one field otherwise."""
    form, best = schema(playbook.inputs), answers.best(schema(playbook.inputs)) | dict(playbook.example)
    others = (_changed(form, one.value) for one in answers.deviations(form))
    for value in (best, *({**best, **changed} for changed in others if changed)):
        try:
            inputs = playbook.inputs.model_validate(value)
            if playbook.check is not None:
                playbook.check(inputs, lambda branch: "")
        except (ValidationError, BadInput):
            continue
        yield inputs

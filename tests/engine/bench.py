"""A stage for the engine: playbooks of a test's own on the bench that is everybody's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import pytest

from interlock import testing
from interlock.agents.values import CommandExit
from interlock.documents.model import Model
from interlock.engine.folder import InMemory
from interlock.engine.forms import Form, Judgement
from interlock.engine.holds import broken
from interlock.engine.playbook import Playbook
from interlock.engine.rehearsal import Path
from interlock.engine.run import Outcome, Row, Run
from interlock.engine.simulation import Clean, begin
from interlock.engine.view import View
from interlock.playbooks.task import TASK
from interlock.testing import VERSION, Cast, Died, cut_off_anywhere, said, verdict

__all__ = ["VERSION", "Bench", "Cast", "Died", "cut_off_anywhere", "said", "verdict"]
SAMPLED = pytest.mark.parametrize("sample", [60, pytest.param(0, id="all", marks=pytest.mark.long)])
"""Of the paths of a playbook the quick tests play some, drawn by a seed."""
GREEN, RED = CommandExit(exit=0), CommandExit(exit=1, out="1 failed")


def wrong(paths: Iterable[Path]) -> list[tuple[dict[str, str], list[str]]]:
    """What does not hold, by the path that shows it."""
    return [(dict(path.schedule), why) for path in paths if (why := broken(path))]


class Nothing(Model):
    """Inputs of a playbook that takes none."""


class Done(Form):
    status: str = "done"
    takes_back: list[str] = []


WRITER = Row("writer", "do", Done, writes=("**",))
JUDGE = Row("judge", "judge", Judgement, judges=True)


def small(
    play: Callable[[Run, Any], Awaitable[Outcome]], *rows: Row, caps: Mapping[str, int] | None = None, **more: Any
) -> Playbook:
    """A playbook of a test's own."""
    return Playbook(
        name="small",
        play=play,
        inputs=more.pop("inputs", Nothing),
        rows=rows or (WRITER, JUDGE),
        caps=caps or {},
        headline=lambda inputs: "A small thing",
        key=lambda inputs, where: "small",
        texts={"do": "Do it. {{ words | default('') }}", "judge": "Judge it."},
        **more,
    )


@dataclass
class Bench(testing.Bench):
    """One run, through as many processes as it takes: of `task`, where nobody says of what."""

    playbook: Playbook = TASK

    def start(self, **inputs: Any) -> View:
        known = {"request": "Make it work"} if self.playbook is TASK else {}
        return super().start(**known, **inputs) if "request" not in inputs else super().start(**inputs)

    def begins(self, inputs: Model, **identity: Any) -> View:
        """A run that takes over what another one left."""
        self.last = player = self.player()
        return self._in_process(lambda: begin(player, inputs, **identity))

    def forgets(self) -> None:
        """What the engine has recorded is not here, as for another run or in another clone."""
        self.world.folder = InMemory()

    def dies(self, line: int, **inputs: Any) -> Self:
        """The next process dies behind that line of its own."""
        self.dies_at = line
        with pytest.raises(Died):
            self.resume(**inputs) if hasattr(self, "last") else self.start(**inputs)
        self.dies_at = 0
        return self

    def acts(self, who: str, *acts: Any) -> Self:
        """What they do, call by call; None: their best."""
        best: Any = lambda ask, files: Clean().agent(ask, ask.marker, files)  # noqa: E731
        self.cast.acts[who] = [best if act is None else act for act in acts]
        return self

"""What the commands share: where the person stands, which run they mean, and that it is a person."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.errors import BadInput, InterlockError, Refused

if TYPE_CHECKING:  # what lists the commands imports this
    from interlock.app import Place
    from interlock.engine.afterwards import Work
    from interlock.engine.runs import Entry
    from interlock.engine.view import View


@dataclass
class Door:
    """One call of the command line."""

    dir: str = ""
    """As `-C` was given."""
    json: bool = False
    verbose: bool = False
    runner: str = ""
    budget: float | None = None
    detach: bool = False

    @cached_property
    def place(self) -> Place:
        from interlock.app import Place

        return Place(self.folder, {"limits.budget_usd": self.budget})

    @cached_property
    def folder(self) -> Path:
        try:
            folder = (Path.cwd() / self.dir).resolve()
        except FileNotFoundError:
            raise BadInput("the folder you are in is gone", remedy="Change into the workspace again: cd DIR") from None
        if not folder.is_dir():
            raise BadInput("there is no such folder", where=f"-C {self.dir}", expected="a folder")
        return folder

    # --- which run

    def find(self, name: str) -> Entry:
        """The run that a person means; left out: the only one that waits, else the latest."""
        if not name and len(waiting := self.place.runs.waiting()) == 1:
            return waiting[0]
        return self.place.runs.find(name or "latest")

    def meant(
        self, words: Sequence[str], default: Callable[[], Entry], has: Callable[[View, str], bool]
    ) -> tuple[Entry, str]:
        """A run, and what of it; either may be left out."""
        if len(words) > 2:
            raise BadInput("too many words", found=" ".join(words), expected="[RUN], and what of it")
        if not words:
            return default(), ""
        try:
            return self.place.runs.find(words[0]), "".join(words[1:])
        except Refused:
            if len(words) == 1 and self.place.runs.all() and has((entry := default()).view(), words[0]):
                return entry, words[0]
            raise

    def waiting(self, name: str) -> Entry:
        """The run to decide about; left out: the only one that waits."""
        if name:
            return self.place.runs.find(name)
        waiting = self.place.runs.waiting()
        if len(waiting) == 1:
            return waiting[0]
        if not waiting:
            raise Refused("no run waits for a decision", remedy="See how they stand: interlock runs")
        raise Refused(
            f"{len(waiting)} runs wait for a decision",
            expected=f"one of {', '.join(entry.id for entry in waiting)}",
            remedy=f"Say which one, for example: interlock show {waiting[0].id}",
        )

    def first(self, has: Callable[[View], object], what: str) -> Entry:
        """The latest run of which something holds."""
        for entry in self.place.runs.all():
            try:
                if has(entry.view()):
                    return entry
            except InterlockError:  # one that cannot be read is not meant
                continue
        raise Refused(f"no run here has {what}", remedy="List them: interlock runs")

    def inside(self, path: str) -> str:
        """A path as it is typed here, from the workspace's top."""
        return os.path.relpath(self.folder / path, self.place.workspace.top)

    def work(self, view: View) -> Work:
        """What of its work only the trees know; what keeps it from being told is told."""
        from interlock.engine.afterwards import Work

        try:
            return self.place.work(view)
        except (InterlockError, OSError) as error:
            return Work(problem=f"what it changed cannot be read: {error}")

    # --- who

    def people_only(self, what: str) -> None:
        """An agent inside a dispatch cannot start, approve or steer runs; it sees why (RUN-20)."""
        if inside_dispatch():
            raise Refused(
                f"an agent inside a run cannot {what}",
                where="INTERLOCK_DISPATCH",
                expected="a person, at a terminal of their own",
                remedy="Say in your answer what is to be done: a person reads it.",
            )


def inside_dispatch() -> bool:
    """Whether this process was started by a dispatch, also if it took the variables away, or sits in a layer."""
    import psutil

    from interlock.agents.process_tree import MARKER
    from interlock.workspace.layers.bubblewrap import within

    if MARKER in os.environ or "INTERLOCK_DISPATCH" in os.environ or within():
        return True
    try:
        parents = psutil.Process().parents()
    except psutil.Error:
        return False
    for parent in parents:
        with suppress(psutil.Error, OSError):
            if MARKER in parent.environ():
                return True
    return False

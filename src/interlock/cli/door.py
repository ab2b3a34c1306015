"""What the commands share: where the person stands, which run they mean, and that it is a person."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.cli import output, text
from interlock.errors import BadInput, InterlockError, Refused

if TYPE_CHECKING:  # what lists the commands imports this
    from interlock.app import Place, Saved
    from interlock.engine.afterwards import Work
    from interlock.engine.folder import Message
    from interlock.engine.runs import Entry, Runs
    from interlock.engine.view import View
    from interlock.errors import Status
    from interlock.workspace.place import Workspace
    from interlock.workspace.trees import Trees


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
    heard: str = ""
    """Who takes up what was said to a run of elsewhere."""

    @cached_property
    def place(self) -> Place:
        from interlock.app import Place

        place = Place(self.folder, {"limits.budget_usd": self.budget}, self._speak, self._hold)
        place.runs = self.runs
        return place

    @cached_property
    def folder(self) -> Path:
        try:
            folder = (Path.cwd() / self.dir).resolve()
        except FileNotFoundError:
            raise BadInput("the folder you are in is gone", remedy="Change into the workspace again: cd DIR") from None
        if not folder.is_dir():
            raise BadInput("there is no such folder", where=f"-C {self.dir}", expected="a folder")
        return folder

    # --- to look at runs takes neither settings nor what works on them

    @cached_property
    def workspace(self) -> Workspace:
        from interlock.workspace.place import Workspace

        return Workspace.find(self.folder)

    @cached_property
    def runs(self) -> Runs:
        from interlock.engine.runs import Runs

        return Runs(self.workspace.own, self._look)

    def _look(self, name: str) -> None:
        """Renew what is known of runs of elsewhere, where a run is named that is not here."""
        if not re.search(r"-\d{8}", name):
            return
        from interlock.fleet.far import look
        from interlock.settings import reaches_out

        try:
            settings, trust = self.place.settings, self.place.library.trust
            parts = reaches_out(settings)
            if not parts or trust.allows(self.workspace.top / settings.file, parts):
                look(self.place, name)
        except BadInput:  # no remote, no repository: there is no elsewhere
            return
        except InterlockError as error:
            output.complain(f"{error.what}: runs of elsewhere are as they were last seen here")

    def _hold(self, entry: Entry) -> AbstractAsyncContextManager[Saved | None]:
        if not entry.held.get("claim"):
            return nullcontext()
        from interlock.fleet.holding import held

        return held(self.place, entry)

    def _speak(self, entry: Entry, message: Message) -> None:
        if not entry.is_far:
            return entry.folder.say(message)
        from interlock.fleet import far

        self.heard = far.say(self.place, entry, message)
        return None

    @cached_property
    def trees(self) -> Trees:
        from interlock.workspace.trees import Trees

        return Trees(self.workspace)

    # --- which run

    def find(self, name: str) -> Entry:
        """The run that a person means; left out: the only one that waits, else the latest."""
        waiting = [] if name else self.runs.waiting()
        return waiting[0] if len(waiting) == 1 else self.runs.find(name or "latest")

    def waiting(self, name: str) -> Entry:
        """The run to decide about; left out: the only one that waits."""
        waiting = self.runs.waiting()
        if name or len(waiting) == 1:
            return self.find(name)
        if not waiting:
            raise Refused("no run waits for a decision", remedy="See how they stand: interlock runs")
        raise Refused(
            f"{len(waiting)} runs wait for a decision",
            expected=f"one of {', '.join(entry.id for entry in waiting)}",
            remedy=f"Say which one, for example: interlock show {waiting[0].id}",
        )

    def meant(
        self, words: Sequence[str], default: Callable[[], Entry], has: Callable[[View, str], bool]
    ) -> tuple[Entry, str]:
        """A run, and what of it; either may be left out."""
        if len(words) > 2:
            raise BadInput("too many words", found=" ".join(words), expected="[RUN], and what of it")
        if not words:
            return default(), ""
        try:
            return self.runs.find(words[0]), "".join(words[1:])
        except Refused:
            if len(words) == 1 and self.runs.all() and has((entry := default()).view(), words[0]):
                return entry, words[0]
            raise

    def first(self, has: Callable[[View], object], what: str) -> Entry:
        """The latest run of which something holds."""
        for entry in self.runs.all():
            try:
                if has(entry.view()):
                    return entry
            except InterlockError:  # one that cannot be read is not meant
                continue
        raise Refused(f"no run here has {what}", remedy="List them: interlock runs")

    # --- what is answered

    def says(self, facts: Mapping[str, Any], lines: Iterable[str] = ()) -> None:
        """On stdout: as JSON, or in lines."""
        output.print_json(facts) if self.json else output.print_lines(lines)

    def done(self, entry: Entry, *rows: str, worked_on: bool = False, **facts: Any) -> int:
        """What came of a command about a run, in words; with the run as it stands then, for programs."""
        output.tell(*rows)
        if self.json:
            output.print_json(self.facts(entry, entry.view(), 0, worked_on=worked_on) | facts)
        return 0

    def facts(self, entry: Entry, view: View, code: int | None = None, *, worked_on: bool = False) -> dict[str, Any]:
        """A run as it stands, for programs."""
        said = entry.output(view).decode("utf-8", "replace")
        return view.to_json(worked_on=worked_on, output=said) | ({} if code is None else {"exit_code": code})

    def inside(self, path: str) -> str:
        """A path as it is typed here, from the workspace's top."""
        return os.path.relpath(self.folder / path, self.workspace.top)

    def work(self, view: View) -> Work:
        """What of its work only the trees know; what keeps it from being told is told."""
        from interlock.engine.afterwards import Work, work

        try:
            return work(view, lambda pair: self.trees.between(pair.base, pair.work))
        except (InterlockError, OSError) as error:
            return Work(problem=f"what it changed cannot be read: {error}")

    def ending(self, view: View, status: Status) -> list[str]:
        """How a run stands and what leads on, as it is typed from here."""
        from interlock.cli import screens

        rows = screens.ending(view, self.work(view), status, self.shown(view))
        if not self.is_latest(view.run):
            rows = [re.sub(r"\binterlock diff$", f"interlock diff {view.run}", row) for row in rows]
        if view.gate and any(message.gate for _, message in self.runs.find(view.run).folder.messages()):
            kept = takewhile(lambda row: not row.startswith("  next"), rows)  # it is decided: that is taken up
            rows = [*kept, f"  next    interlock resume {view.run}"]
        return [output.here(row, self.dir) for row in rows]

    def is_latest(self, run: str) -> bool:
        """Whether it is meant where no name is said; one of elsewhere never is."""
        return [run] == [entry.id for entry in self.runs.all()[:1]]

    def shown(self, view: View) -> dict[str, str]:
        """Of each document that a gate shows: its size, and whether it is as it was when it was asked and decided."""
        from interlock.documents.files import read, sha256

        def about(path: str, digest: str) -> str:
            content = read(self.workspace.top, path)
            size = "no such file" if content is None else text.size(len(content))
            if digest != sha256(content):
                return f"{size}, changed since it was asked"
            last = before[-1].get(path) if before else None
            return size if last is None else f"{size}, {'as' if last == digest else 'changed since'} you saw it"

        gate = view.gate
        before = [one.shown for one in view.gates.values() if gate and one.gate == gate.gate and one.decision]
        return {path: about(path, digest) for path, digest in gate.shown.items()} if gate else {}

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

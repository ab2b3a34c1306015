"""A run at work in this process: begun, watched, asked at its gates, ended in order, what came of it told (RUN-12)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from interlock.agents import clients
from interlock.agents.process_tree import kill_everything
from interlock.app import Watcher, said_as, who
from interlock.cli import failures, output, screens, text
from interlock.cli.away import Away
from interlock.cli.commands import is_argument
from interlock.cli.detached import in_the_background
from interlock.cli.door import Door
from interlock.cli.live import POLL_S, PlainView
from interlock.cli.output import attended, complain, confirmed, print_json, put_beside, tell, write_output
from interlock.cli.screens import Told
from interlock.cli.trusting import may_work
from interlock.documents.model import Model
from interlock.engine.folder import Message
from interlock.engine.playbook import Playbook
from interlock.engine.runs import Entry
from interlock.engine.view import GateView, View
from interlock.errors import BadInput, Exit, InterlockError, Status
from interlock.workspace.layers.bubblewrap import laid

Begin = Callable[[Watcher], Awaitable[tuple[Entry, View]]]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MOST_COPIED = 5_000_000_000
EARLIER = 3
"""Runs that tell how long such a run usually takes."""


def run_playbook(door: Door, playbook: Playbook, given: dict[str, Any], *, dry: bool) -> int:
    """`run PLAYBOOK ...`, or what it would take."""
    inputs, flags, note = understood(door, playbook, given)
    if dry:
        from interlock.cli.planning import plan

        return plan(door, playbook, inputs)
    nested = playbook.nests and bool(laid(door.workspace.top))
    if not nested:  # what is trusted is not known in there, and nothing reaches out of it
        may_work(door)
    _copies(door)

    def begin(watcher: Watcher) -> Awaitable[tuple[Entry, View]]:
        return door.place.run(playbook, inputs, watcher, runner=door.runner, said=note, flags=flags)

    return work(door, begin, playbook.name, playbook.source, nested=nested)


def understood(door: Door, playbook: Playbook, given: dict[str, Any]) -> tuple[Model, Model | None, str]:
    """What was typed: the playbook's inputs, what it takes of one process, and a person's words."""
    fields, said = playbook.inputs.model_fields, {name: one for name, one in given.items() if one not in (None, ())}
    arguments = [name for name, field in fields.items() if is_argument(field)]
    words = {name: " ".join(given[name]) for name in arguments if given[name] or fields[name].is_required()}
    inputs = door.place.inputs(playbook, {name: one for name, one in said.items() if name in fields} | words)
    if playbook.check is not None:  # before anybody is asked anything
        playbook.check(inputs, door.place.refuses_commits)
    own = {name: one for name, one in said.items() if name not in fields}
    return inputs, said_as(playbook.flags, own) if playbook.flags else None, str(own.get("note", ""))


def _copies(door: Door) -> None:
    """Copies that would take much of the disk are asked for (TREE-11)."""
    made = door.place.layers.maker()
    if made.confined or made.shares_blocks or made.cost_bytes <= MOST_COPIED:
        return
    cost = text.size(made.cost_bytes)
    if not confirmed(f"Each agent gets a private copy of {cost}. Go on?"):
        raise BadInput(f"each agent would get a private copy of {cost}", where=made.why, remedy=made.remedy or None)


def work(door: Door, begin: Begin, name: str, source: str, *, nested: bool = False) -> int:
    """Do the work here, or in a process of its own that outlives this one (`--detach`).

    Args:
        name: of the playbook.
        source: where it was found, if it is one's own.
        nested: an agent delegates, within its own layer.
    """
    preface = list(_preface(door, source.rpartition(" ")[0] or name))
    view = in_the_background(door, preface) if door.detach else view_of(door, name, preface)
    if isinstance(view, int):  # for the caller that is all; the process that has the view goes on
        return view
    away = Away(door)
    asking = Asking(door, view, away) if attended() and not door.json and not door.detach else None
    watcher = Watcher(view.hear, view.told, asking.ask if asking else None)
    error: InterlockError | None = None
    with view:
        try:
            entry, came = asyncio.run(_until_told(begin(watcher), view, asking))
        except (asyncio.CancelledError, InterlockError) as problem:
            error = problem if isinstance(problem, InterlockError) else None
            if view.view is None or not (door.runs.path / view.view.run / "journal.jsonl").exists():
                raise error or KeyboardInterrupt from None
            entry = door.runs.find(view.view.run)
            came = entry.view()
    tell(*(failures.told(error) if error else ()))
    code = finish(door, entry, came, error)
    if not nested:  # who is away is told of the run that this one belongs to
        tell(*away.hears(entry, came))
    return code


def view_of(door: Door, playbook: str, preface: Sequence[Told] = ()) -> PlainView:
    """The view that fits where stderr goes."""
    how: dict[str, Any] = {"runs": door.runs.path, "verbose": door.verbose, "preface": preface}
    if output.columns(sys.stderr) is None or os.environ.get("TERM", "") in ("", "dumb"):
        return PlainView(**how)
    from interlock.cli.picture import LiveView

    return LiveView(usual_s=screens.middle([view.seconds for view in earlier(door, playbook)]), **how)


def _preface(door: Door, playbook: str) -> Iterator[Told]:
    """Who was found where nobody chose, and roles that are not ours (AGENT-01, AGENT-02)."""
    with suppress(InterlockError):  # said by who needs it
        roles = door.place.roles(door.place.playbook(playbook, here=door.place.workspace.top), door.runner)
        if not (door.runner or door.place.settings.runner):
            yield "agents", (found := clients.first_found(os.environ, Path.home())).name, found.text
        yield from (("role", role.name, role.source) for role in roles if role.source)


def earlier(door: Door, playbook: str) -> list[View]:
    """The last complete runs of a playbook, as far as they can be read."""
    found: list[View] = []
    for entry in door.runs.all():
        if len(found) == EARLIER:
            break
        if entry.first.get("playbook") == playbook and (head := entry.head()) and head.status is Status.COMPLETE:
            with suppress(InterlockError):
                found.append(entry.view())
    return found


async def _until_told(
    work: Awaitable[tuple[Entry, View]], view: PlainView, asking: Asking | None
) -> tuple[Entry, View]:
    """The first signal ends agents in order and saves; the second ends all at once (RUN-12)."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)

    def stop() -> None:
        if asking is not None and asking.later():
            return
        for number in SIGNALS:
            loop.add_signal_handler(number, stop_at_once)
        view.step_aside()
        complain("Ending in order: agents have 5 seconds. Once more ends at once.")
        task.cancel()

    def stop_at_once() -> None:
        kill_everything()
        view.step_aside()
        os._exit(int(Exit.INTERRUPTED))

    for number in SIGNALS:
        loop.add_signal_handler(number, stop)
    return await task


def finish(door: Door, entry: Entry, view: View, error: InterlockError | None = None) -> int:
    """Say how a run stands now that this process is done with it; the exit code."""
    status = view.status_now(worked_on=False)
    code = int(error.exit_code if error else view.ended.exit if view.ended else status.exit)
    tell("", *door.ending(view, status))
    if door.json:
        print_json(door.facts(entry, view, code) | ({"error": error.to_json()} if error else {}))
        return code
    write_output(entry.output(view))
    held = [change.path for change in door.work(view).held] if view.held and view.status.has_ended else []
    if held and confirmed(f"Deliver the guarded {text.few(held)}, too?"):  # a person's word alone does (TREE-08)
        tell(f"Delivered: {text.few(door.place.move(entry, 'apply', held).paths)}")
    return code


# --- asked in place


class Asking:
    """The person at this terminal decides at gates; q, the end of input and Ctrl-C mean later."""

    def __init__(self, door: Door, view: PlainView, away: Away) -> None:
        self._door, self._view, self._away = door, view, away
        self._line: asyncio.Future[str | None] | None = None

    def later(self) -> bool:
        """Answers a question that is open with: later. False: there is none."""
        if self._line is None or self._line.done():
            return False
        self._line.set_result(None)
        return True

    async def ask(self, gate: GateView) -> Message | None:
        self._view.step_aside()
        view = self._view.view
        assert view is not None
        rows = list(screens.asked(gate, self._door.shown(view)))[1:]  # the question itself was told
        tell(*screens.block([*rows, *screens.judged(view), *(("note", one, "") for one in view.warnings)]))
        tell(f"  look    interlock diff {view.run}")
        entry = self._door.runs.find(view.run)
        elsewhere = asyncio.ensure_future(self._said_elsewhere(entry))
        away = asyncio.ensure_future(asyncio.to_thread(self._away.hears, entry, view, ends=False))
        decided = await self._decided(gate.choices)
        elsewhere.cancel()
        if away.done():
            tell(*away.result())
        if decided is None:
            complain("")
            return None
        choice, note = decided
        what: Any = choice if choice in ("approve", "reject") and choice in gate.choices else "answer"
        seen: dict[str, Any] = {"gate": gate.gate, "opening": gate.opening, "shown": gate.shown}
        return Message(what=what, who=who(), at=datetime.now(UTC), choice=choice, note=note, **seen)

    async def _said_elsewhere(self, entry: Entry) -> None:
        """What is said in another terminal meanwhile counts: the question here gives way to it."""
        while True:
            if any(entry.folder.messages()):
                self.later()
            await asyncio.sleep(POLL_S)

    async def _decided(self, choices: Sequence[str]) -> tuple[str, str] | None:
        """A choice and words; None: later."""
        free = tuple(choices) == ("*",)
        keys = {choice[0]: choice for choice in reversed(choices)}
        names = ["Your answer"] if free else [f"[{choice[0]}]{choice[1:]}" for choice in choices]
        while (said := await self._read("  ".join([*names, "[q]uit: "]))) not in (None, "q", "quit"):
            if free and said:
                return said, ""
            if (choice := keys.get(said or "", said)) in choices and choice:
                must = choice == "reject"
                asks = "What is to be changed? " if must else "A note for whoever works next (or Enter): "
                note = await self._read(asks)
                if note is None:
                    return None
                if note or not must:
                    return choice, note
        return None

    async def _read(self, prompt: str) -> str | None:
        """A line; None: later. In the loop, so that a signal can end the waiting."""
        put_beside(prompt)
        loop = asyncio.get_running_loop()
        line: asyncio.Future[str | None] = loop.create_future()
        self._line = line

        def came() -> None:
            try:
                raw = os.read(sys.stdin.fileno(), 65536)
            except OSError:
                raw = b""
            if not line.done():
                line.set_result(raw.decode("utf-8", "replace").strip() if raw else None)

        loop.add_reader(sys.stdin.fileno(), came)
        try:
            return await line
        finally:
            loop.remove_reader(sys.stdin.fileno())

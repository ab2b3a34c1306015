"""One process plays a run: from its first unrecorded verb to its end, or to where it stops (RUN-08, RUN-12).

The same in the real and in the simulated world: `interlock.app` or `engine.simulation` puts the parts together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from interlock.documents.model import Model
from interlock.engine import delivery, keys, receipt
from interlock.engine import events as ev
from interlock.engine.folder import Folder
from interlock.engine.halts import Cancelled, Parked
from interlock.engine.journal import Journal
from interlock.engine.playbook import Playbook
from interlock.engine.prompts import Prompts
from interlock.engine.replay import Recorder, Told
from interlock.engine.run import Outcome, Run, Stop
from interlock.engine.view import View
from interlock.engine.world import World
from interlock.errors import BadInput, Diverged, InterlockError, JournalDamaged, Status, WorkspaceFailed
from interlock.workspace.values import Landing, Tree


class Player:
    """A run in this process."""

    def __init__(
        self, playbook: Playbook, world: World, prompts: Prompts, *, told: Told = lambda event, key: None, **more: Any
    ) -> None:
        """`more`: what the `Run` takes beside."""
        self.playbook, self.world = playbook, world
        self.recorder = Recorder(Journal(world.folder.medium), world.folder, world.now, told)
        self._prompts, self._more = prompts, more

    @property
    def view(self) -> View:
        return self.recorder.view

    def begin(self, inputs: Model, **identity: Any) -> None:
        """The first event of the run; `identity` is what of `RunStarted` the playbook does not say."""
        given, headline = inputs.model_dump(mode="json"), self.playbook.headline(inputs)
        about: dict[str, Any] = {"playbook": self.playbook.name, "headline": headline, "at": self.world.now()}
        self.recorder.add("", ev.RunStarted(inputs=given, **about, **identity))

    def warn(self, text: str) -> None:
        self.recorder.add("", ev.Warned(text=text))

    def words(self, text: str, who: str) -> ev.Words | None:
        """What a person says at the start or with a resume; None: nothing."""
        return ev.Words(text=text, who=who, at=self.world.now()) if text.strip() else None

    def resume(
        self,
        version: str,
        *,
        said: ev.Words | None = None,
        accepted: bool = False,
        changed: tuple[str, ...] = (),
        **options: Any,
    ) -> None:
        """Note that this process goes on with the run; what failed in one that ended stopped is done again."""
        if self.recorder.journal.torn:
            torn = "the last line of the journal was torn by a crash, and is cut"
            self.recorder.add("", ev.Left(how="cut", what=torn))
            changed = (*changed, torn)
        if (ended := self.view.ended) is not None:
            forgotten = () if ended.at_a_verb else self.recorder.again(ended.again)
            self.recorder.add("", ev.Reopened(forgotten=forgotten, why="resumed: what failed is done again"))
            for file, message in self.world.folder.messages():
                why = "the run had ended when it was said"
                self.recorder.add("", ev.Refused(what=message.what, who=message.who, why=why), sync=True)
                self.world.folder.taken(file)
        if version != self.view.version:
            changed = (*changed, f"interlock is {version} now; {self.view.version} worked on this run before")
        resumed = ev.Resumed(version=version, said=said, accepted=accepted, changed=changed, options=options)
        self.recorder.add("", resumed, sync=True)

    async def play(self) -> View:
        """Until the playbook ends, or this process has to stop.

        Raises:
            BadInput: before the first agent was paid for: nothing of the run counts.
            InterlockError: the run stays open where it is.
        """
        try:
            inputs = self.playbook.inputs.model_validate(self._start.inputs)
        except ValidationError:
            raise self.recorder.diverged("inputs", "it does not take the run's inputs any more") from None
        run = Run(self.recorder, self.world, self._prompts, **self._more)
        keys.begin()
        try:
            try:
                outcome = await self.playbook.play(run, inputs)
            except Stop as stop:
                outcome = stop.outcome
            self.recorder.require_all_asked("")
        except Parked as parked:
            paused = ev.Paused(status=parked.status, why=parked.why, remedy=parked.remedy, until=parked.until)
            self.recorder.add("", paused, sync=True)
        except Cancelled as cancelled:
            _end(self.recorder, Outcome("cancelled", str(cancelled)))
            self.world.folder.taken(cancelled.file)
        except asyncio.CancelledError:
            if not await self._told_to_end():
                self._leave(ev.Left(how="interrupted"))
                raise
        except (Diverged, JournalDamaged):
            raise
        except BadInput as error:
            if not self.view.began:
                raise
            _end(self.recorder, Outcome.stopped(_in_a_line(error)), at_a_verb=True)
        except InterlockError as error:
            self._leave(ev.Paused(status="failed", why=_in_a_line(error), remedy=error.remedy or ""))
            raise
        except Exception as error:
            self._leave(ev.Left(how="fault", what=f"{type(error).__name__}: {error}"[:500]))
            raise
        else:
            _end(self.recorder, outcome)
        return self.view

    async def _told_to_end(self) -> bool:
        """Whether a person's word cancelled this task; if so the run ends, a delivery under way finished first."""
        for file, message in self.world.folder.messages():
            if message.what == "cancel":
                if (begun := delivery.cut_off(self.recorder)) is not None:
                    delivery.finished(self.recorder, *begun, await self.world.finish(begun[1].base, begun[1].work))
                _end(self.recorder, Outcome("cancelled", f"cancelled by {message.who}"))
                self.world.folder.taken(file)
                return True
        return False

    @property
    def _start(self) -> ev.RunStarted:
        assert self.view.start is not None
        return self.view.start

    def _leave(self, event: ev.Event) -> None:
        """Note why this process ends; what is wrong may keep that from being noted, too."""
        with suppress(WorkspaceFailed):
            self.recorder.add("", event, sync=True)


def cancel(
    folder: Folder, now: Callable[[], datetime], who: str, finish: Callable[[Tree, Tree], Landing] | None = None
) -> None:
    """End a run that nobody works on; takes neither its playbook nor settings, which may be broken.

    Args:
        finish: brings a delivery over which a process died to its end.
    """
    recorder = Recorder(Journal(folder.medium), folder, now)
    if finish is not None and (begun := delivery.cut_off(recorder)) is not None:
        delivery.finished(recorder, *begun, finish(begun[1].base, begun[1].work))
    _end(recorder, Outcome("cancelled", f"cancelled by {who}"))


def _end(recorder: Recorder, outcome: Outcome, *, at_a_verb: bool = False) -> None:
    """The run has ended: its output, its report, its last line."""
    folder, view = recorder.folder, recorder.view
    output = outcome.output or "".join(folder.get(digest).decode() + "\n" for digest in view.said.values())
    digest = folder.put(output.encode("utf-8", "backslashreplace")) if output else None
    ended = ev.Ended(
        status=outcome.status,  # type: ignore[arg-type]
        exit=int(Status(outcome.status).exit if outcome.exit is None else outcome.exit),
        reason=outcome.reason,
        output=digest,
        next=outcome.next,
        at_a_verb=at_a_verb,
        again=outcome.again,
    )
    recorder.add("", ended, sync=True)
    folder.keep("", "report.md", receipt.markdown(view).encode("utf-8", "backslashreplace"))


def _in_a_line(error: InterlockError) -> str:
    return f"{error.what} ({error.where})" if error.where else error.what

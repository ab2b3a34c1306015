"""Calling a playbook in this process: the one place where errors and endings become a status (EN-24, EN-25)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from interlock.engine import scopes
from interlock.engine.identity import Identity
from interlock.engine.journal import Line
from interlock.engine.model import Ending, Status, Stop
from interlock.engine.objects import pack
from interlock.engine.options import Before, Halted
from interlock.engine.recording import RESUME, Recording
from interlock.engine.run import Run
from interlock.errors import AgentFailed, BadInput, Diverged, InterlockError, WorkspaceFailed


@dataclass(frozen=True)
class Finished:
    """How a process of a run ended; how the run itself did is its `Ending`, and stands in the journal."""

    status: Status
    reason: str = ""
    output: str | bytes = ""
    gate: Mapping[str, Any] | None = None
    error: InterlockError | None = None
    before: Before | None = None
    playbook: str = field(default="", compare=False)
    key: str = field(default="", compare=False)
    run_id: str | None = field(default=None, compare=False)
    """None for a run that never came into being."""
    started_at: str | None = field(default=None, compare=False)
    finished_at: str | None = field(default=None, compare=False)
    """When this process left the run; of one that had ended before, when that was."""
    lines: Sequence[Line] = field(default=(), compare=False, repr=False)

    @classmethod
    def of(cls, identity: Identity, lines: Sequence[Line], status: Status, reason: str, **more: Any) -> Self:
        """How a process of this run ended."""
        return cls(
            status,
            reason,
            playbook=identity.playbook,
            key=identity.key,
            started_at=identity.started_at,
            lines=lines,
            **{"run_id": identity.run_id, **more},
        )

    @property
    def exit_code(self) -> int:
        return self.status.exit_code


async def play(run: Recording, *, resume: int = 0, begun: bool = False) -> Finished:
    """Call the playbook until it ends, waits or is stopped.

    Args:
        resume: which resume this is, 0 for a first start.
        begun: what a resume begins with has happened.
    """
    scopes.begin()
    run.resumed = resume
    playbook, face = run.playbook, Run(run)
    try:
        inputs = playbook.parse_inputs(run.identity.inputs)
        if resume and not begun and playbook.on_resume is not None:
            with face.step(f"{RESUME}{resume}"):
                await playbook.on_resume(face, inputs, resume)
        try:
            ending = await playbook.function(face, inputs)
        except Stop as stop:
            ending = stop.ending
        run.check_consumed()
    except Halted as halt:
        return _finished(run, halt.status, halt.reason, gate=halt.gate, before=halt.before)
    except Diverged:
        raise
    except BadInput as error:
        if run.journal.held:
            raise
        return _end(run, Ending.stopped(error.what), error)
    except AgentFailed as error:
        if run.journal.held:
            raise
        return _end(run, Ending.failed(error.what), error)
    except asyncio.CancelledError:
        _note(run, "run.interrupted", {})
        return _finished(run, Status.INTERRUPTED, "interrupted; the state is saved")
    except OSError as error:
        raise _fault(run, WorkspaceFailed.of(error)) from error
    except InterlockError as error:
        raise _fault(run, error) from None
    return _end(run, ending, None)


def _end(run: Recording, ending: Ending, error: InterlockError | None) -> Finished:
    if not run.journal.held:
        facts = {name: pack(value, run.world.records.objects) for name, value in ending.to_json().items()}
        run.journal.append("run.end", data=facts)
    return _finished(run, ending.status, ending.reason, output=ending.output, error=error)


def _finished(run: Recording, status: Status, reason: str, **more: Any) -> Finished:
    journal, now = run.journal, run.world.now().isoformat(timespec="milliseconds")
    if journal.held:
        more["run_id"] = None
    return Finished.of(run.identity, journal.lines, status, reason, finished_at=now, **more)


def _fault(run: Recording, error: InterlockError) -> InterlockError:
    """The run stays open: what failed is not its work, and `resume` goes on when it is mended."""
    _note(run, "run.fault", {"what": error.what})
    return error


def _note(run: Recording, event: str, data: Mapping[str, Any]) -> None:
    """Say in the journal why this process stops, if it still takes a line: the disk may be full."""
    if not run.journal.held:
        with suppress(InterlockError, OSError):
            run.journal.append(event, data=data)

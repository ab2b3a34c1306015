"""`run` and `resume`: runs that go on in this process, and how they ended."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.commands import CARRIES, RUN, Note, RunName, command
from interlock.cli.door import Door, finish
from interlock.cli.elsewhere import check_ours, far_run, spoken_to
from interlock.cli.failures import here, told
from interlock.cli.gates import as_queued, ask, decide, gate_lines
from interlock.cli.history import branch_line, change_lines, readable_changes
from interlock.cli.live import PlainView, view_for
from interlock.cli.output import as_text, complain, envelope, print_json, write_output
from interlock.cli.playbooks import Moving, Playbooks, group, moves
from interlock.cli.unattended import HeardView
from interlock.engine.glances import ENDED_WELL
from interlock.errors import ConfigInvalid, InterlockError, Refused
from interlock.telemetry import (
    State,
    cost_line,
    in_words,
    indented,
    lined,
    printable,
    seconds_between,
    standing,
    totals,
)

if TYPE_CHECKING:
    from interlock.engine import Playbook
    from interlock.engine.changes import Changes
    from interlock.engine.folder import KnownRun
    from interlock.engine.playing import Finished
    from interlock.engine.runs import Runs
    from interlock.fleet.steering import FarRun

    Work = Callable[[Runs], Coroutine[Any, Any, Finished]]


run = group(Playbooks, "run", "Run a playbook, or go on with the run that is open for the same inputs.", RUN)


def start(door: Door, playbook: Playbook, said: Mapping[str, Any]) -> int:
    """Run a playbook as somebody asks for it, or go on with the run that is open for the same."""
    asked = playbook.asked(said, door.setup.asking(playbook))
    inputs, door = asked.inputs, replace(door, new_run=door.new_run or asked.afresh)
    door.errand.playbook, door.errand.key = playbook.name, playbook.key(inputs)
    if door.dry_run:
        from interlock.cli.plan import show_next

        return show_next(door, playbook, inputs)
    call = door.call(flags=asked.flags, note=asked.note)
    return carry(door, lambda runs: runs.run(playbook, inputs, call))


def carry(door: Door, work: Work) -> int:
    """Do the work with somebody watching, or in the background, and hand over how it ended."""
    if door.detach:
        from interlock.cli.unattended import in_the_background

        return in_the_background(door, partial(_carried, door, work))
    return _carried(door, work, view_for(door))


def _carried(door: Door, work: Work, view: PlainView) -> int:
    """Do the work in this process; whoever sits at a terminal decides there."""
    with HeardView(door, view) as heard:
        with view:
            finished = finish(work(door.runs(heard)))
        code = deliver(door, finished, view.said, asks=door.can_ask)
    run_id, gate = finished.run_id, finished.gate
    if run_id is None or gate is None or not door.can_ask or (said := ask(door, run_id, gate)) is None:
        return code
    return decide(door, run_id, said.choice, said.note, go_on=True)


@command("resume", example="interlock resume latest", honours=CARRIES, panel=RUN, cls=Moving)
def resume(
    door: Door,
    run: RunName,
    retry: Annotated[bool, typer.Option("--retry", help="Do again what failed in a run that has ended.")] = False,
    accept_recorded: Annotated[
        bool,
        typer.Option(
            "--accept-recorded", help="Go on with what is recorded, although the playbook or its inputs differ now."
        ),
    ] = False,
    note: Note = "",
) -> int:
    """Go on with a run that waits, was interrupted or has crashed; finished work is not repeated."""
    asked = door.errand.moves
    if (far := far_run(door, spoken_to(door, run), "resume a run")) is not None:
        return _resume_far(door, far, retry=retry, accept_recorded=accept_recorded, note=note)
    if door.dry_run:
        if retry or accept_recorded or asked or note:
            raise ConfigInvalid(
                "--dry-run shows what comes next; it takes no option that moves the run", where="command line"
            )
        from interlock.cli.plan import next_of_run

        return next_of_run(door, run)
    playbook = door.library.again(door.find(run).identity)  # whoever must be asked is asked before it goes on
    if asked:
        check_moves(door, run, playbook, asked)
    check_ours(door, run)
    call = door.call(retry=retry, accept_recorded=accept_recorded, flags=asked, note=note)
    return carry(door, lambda runs: runs.resume(run, call))


def _resume_far(door: Door, far: FarRun, *, retry: bool, accept_recorded: bool, note: str) -> int:
    """A run of the fleet goes on where it is worked on, as it was submitted."""
    identity = far.known.identity
    here = {"--dry-run": door.dry_run, "--runner": door.runner, "--take-over": door.take_over}
    if strange := next((name for name, given in here.items() if given), None):
        raise ConfigInvalid(
            f"{strange} means nothing to a run of the fleet",
            where="command line",
            remedy=f"To go on with it here: {door.spoken(f'take {far.run_id}')}",
        )
    if asked := door.errand.moves:
        check_moves(door, far.run_id, door.library.again(identity), asked)
    call = door.call(retry=retry, accept_recorded=accept_recorded, flags=asked, note=note)
    said = {"note": call.note, "who": call.who, "flags": dict(call.flags), "budget": call.budget_usd}
    finish(far.resume({**said, "retry": call.retry, "accept_recorded": call.accept_recorded}))
    if door.json:
        print_json(as_queued(far.known))
    complain(f"Run {far.run_id}: queued; a worker goes on with it.", f"  see: {door.spoken(f'watch {far.run_id}')}")
    return 0


def check_moves(door: Door, name: str, playbook: Playbook, asked: Mapping[str, Any]) -> None:
    """Options that move a task mean something to its playbook, and only where its run has ended (EN-19)."""
    known = door.find(name)
    own = {question.field: question for question in playbook.questions(playbook.moves)}
    names = {question.field: question.name for question in (*moves(), *own.values())}
    option = f"--{names[next(iter(asked))]}"
    if asked.keys() - own.keys():
        raise ConfigInvalid(f"{option} means nothing to playbook {known.identity.playbook}", where="command line")
    if standing(known.folder.lines()).state is not State.ENDED:
        raise Refused(
            f"run {known.identity.run_id} is open; {option} is for one that has stopped",
            remedy=f"End it first: {door.spoken(f'cancel {known.identity.run_id}')}",
        )


def deliver(door: Door, finished: Finished, said: Sequence[str | bytes], *, asks: bool) -> int:
    """Hand the end of a run over to whoever called; the exit code.

    Args:
        asks: a decision is asked for right behind it, so that nobody needs to be told how to decide.
    """
    if door.json:
        print_json(as_json(finished, said))
    else:
        write_output(finished.output)
        if ends_inside_a_line(finished.output) and sys.stdout.isatty():
            complain("")
    complain(*summary(door, finished, asks=asks))
    return finished.exit_code


def ended_at(finished: Finished) -> str | None:
    """When the run ended, which may be long before this process looked at it; else when this process left it."""
    last = finished.lines[-1] if finished.lines else None
    return last.ts if last is not None and last.event == "run.end" else finished.finished_at


def ends_inside_a_line(output: str | bytes) -> bool:
    return isinstance(output, bytes) and output != b"" and not output.endswith(b"\n")


def as_json(finished: Finished, said: Sequence[str | bytes] = ()) -> dict[str, Any]:
    """The end of a run as the one object of ``--json``."""
    error = {} if finished.error is None else {"error": {"what": finished.error.what, **dict(finished.error.parts())}}
    return envelope(
        finished,
        status=finished.status.value,
        exit_code=finished.exit_code,
        reason=finished.reason,
        output="".join(map(as_text, _with_newlines(said))) + as_text(finished.output),
        gate=finished.gate,
        sums=totals(finished.lines),
        finished_at=ended_at(finished),
        **error,
    )


def _with_newlines(said: Sequence[str | bytes]) -> list[str | bytes]:
    """Each output as stdout would have had it."""
    return [text + "\n" if isinstance(text, str) and text and not text.endswith("\n") else text for text in said]


def summary(door: Door, finished: Finished, *, asks: bool) -> list[str]:
    """The last lines on stderr, which stay: how it ended, what it took, how to go on."""
    sums = totals(finished.lines)
    lines: list[str] = []
    if finished.error is not None:
        lines += told(finished.error.what, dict(finished.error.parts()), door.errand)
    what = printable(f"{finished.playbook} {finished.key}", 100)
    took = ""
    if finished.started_at and (end := ended_at(finished)):
        took = f" after {in_words(seconds_between(finished.started_at, end))}"
    dispatches = f"{sums.dispatches} {'dispatch' if sums.dispatches == 1 else 'dispatches'}"
    cost = f", cost {cost_line(sums)}" if sums.dispatches else ""
    lines.append(f"{what}: {finished.status.value}{took}; {dispatches}{cost}")
    if finished.reason and finished.error is None and finished.gate is None:
        label = "reached" if finished.status.value in ENDED_WELL else "reason"
        lines.append(f"  {label}: {indented(lined(here(finished.reason, door.errand)), '    ')}")
    if finished.run_id is None:
        return lines
    known = _known(door, finished.run_id)
    changes = readable_changes(known, finished.lines) if known is not None else None
    if finished.gate is not None:
        return [*lines, *gate_lines(door, finished.run_id, finished.gate, commands=not asks)]
    if changes is not None:
        lines += change_lines(changes)
    if known is not None and known.folder.elsewhere() is not None:
        return [*lines, f"  next: {door.spoken(f'fetch {finished.run_id}')}"]
    if finished.started_at and sums.dispatches and (branch := branch_line(door.root, finished.started_at)):
        lines.append(f"  branch: {branch}")
    is_open = standing(finished.lines).state is not State.ENDED
    return [*lines, f"  next: {door.spoken(f'{_next(finished.status.value, changes, is_open)} {finished.run_id}')}"]


def _next(status: str, changes: Changes | None, is_open: bool) -> str:
    """The one command that helps most now."""
    if is_open:
        return "resume"
    if status in ENDED_WELL:
        return "diff" if changes is not None and (changes.code or changes.documentation) else "show"
    return "why"


def _known(door: Door, run_id: str) -> KnownRun | None:
    """The run; None where it cannot be read any more."""
    try:
        return door.find(run_id)
    except (InterlockError, OSError):
        return None

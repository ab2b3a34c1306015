"""What people say to a run: approve, reject, answer, cancel."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.completion import complete_run
from interlock.cli.desk import Desk, finish
from interlock.cli.envelope import envelope
from interlock.cli.options import Note, RunName, command
from interlock.cli.output import as_text, complain, print_json, write_output
from interlock.cli.panels import DECIDING
from interlock.cli.running import carry
from interlock.cli.views import PlainView
from interlock.errors import ConfigInvalid, Refused
from interlock.telemetry import indented, lined, printable, totals

if TYPE_CHECKING:
    from interlock.engine.folder import Known
    from interlock.engine.model import Ending

WaitingRun = Annotated[
    str,
    typer.Argument(
        metavar="[RUN]",
        help="The run: its id, the beginning of it, or 'latest'. Default: the only one that waits.",
        autocompletion=complete_run,
        show_default=False,
    ),
]
GoOn = Annotated[bool, typer.Option("--resume", help="Go on with the run at once, in this process.")]


def add(app: typer.Typer) -> None:
    @command(
        app,
        "approve",
        example='interlock approve latest --note "looks good" --resume',
        honours=("runner",),
        panel=DECIDING,
    )
    def approve(
        desk: Desk,
        run: WaitingRun = "",
        note: Note = "",
        resume: GoOn = False,
        record_in_task: Annotated[
            bool, typer.Option("--record-in-task", help="Also fill in the approval field of the task's own file.")
        ] = False,
    ) -> int:
        """Approve what a waiting run shows; it is recorded at once, and the run can go on."""
        return decide(desk, run, "record" if record_in_task else "approve", note, go_on=resume)

    @command(
        app,
        "reject",
        example='interlock reject latest --note "the plan forgets the tests"',
        honours=("runner",),
        panel=DECIDING,
    )
    def reject(desk: Desk, run: WaitingRun = "", note: Note = "", resume: GoOn = False) -> int:
        """Reject what a waiting run shows, and say why."""
        if not note.strip():
            raise ConfigInvalid(
                "a rejection needs a reason",
                where="option --note",
                expected="--note TEXT",
                remedy=f'For example: {desk.spoken(f"reject {run}".rstrip())} --note "the plan forgets the tests"',
            )
        return decide(desk, run, "reject", note, go_on=resume)

    @command(app, "answer", example="interlock answer latest stash", honours=("runner",), panel=DECIDING)
    def answer(
        desk: Desk,
        choice: Annotated[
            list[str],
            typer.Argument(
                metavar="[RUN] CHOICE",
                help="The run, if several wait; then one of the gate's choices, or a text.",
                autocompletion=complete_run,
                show_default=False,
            ),
        ],
        note: Note = "",
        resume: GoOn = False,
    ) -> int:
        """Answer the question at which a run waits."""
        if len(choice) > 2:
            raise ConfigInvalid(
                "an answer is one word or one text in quotes",
                where="command line",
                found=printable(" ".join(choice)),
                remedy=f"For example: {desk.spoken(shlex.join(('answer', choice[0], ' '.join(choice[1:]))))}",
            )
        return decide(desk, choice[0] if len(choice) == 2 else "", choice[-1], note, go_on=resume)

    @command(app, "cancel", example="interlock cancel latest", panel=DECIDING)
    def cancel(desk: Desk, run: RunName) -> int:
        """End a run for good: whoever works on it is interrupted; documents stay as they are."""
        known = _find(desk, run)
        view = PlainView(desk.occasion, keep_output=True)

        async def end() -> None:
            await desk.application(view).cancel(known.identity.run_id)

        finish(end())
        if desk.json:
            print_json(_object(known, "stopped", "cancelled"))
        complain(f"Run {known.identity.run_id} is cancelled.")
        return 0


def decide(desk: Desk, name: str, choice: str, note: str, *, go_on: bool) -> int:
    """Record a decision, say how it goes on and, if asked for, go on."""
    known = _find(desk, name)
    run_id = known.identity.run_id
    view = PlainView(desk.occasion, keep_output=desk.json)

    gate = finish(desk.application(view).decide(run_id, choice, note=note))
    verb = {"approve": "approved", "record": "approved", "reject": "rejected"}.get(
        choice, f"answered with {printable(choice, 60)}"
    )
    if gate.handed_over:
        complain(f"Gate {gate.gate} of {run_id}: {verb}; handed over to the process that works on the run.")
        if desk.json:
            print_json(_object(known, "running", "handed over"))
        return 0
    complain(f"Gate {gate.gate} of {run_id}: {verb}, recorded.")
    ending = _ending(known)
    if go_on and ending is None:
        call = desk.call()
        return carry(desk, lambda app: app.resume(run_id, call))
    if ending is not None:
        return _ended(desk, known, ending, view.said, go_on=go_on)
    complain(f"  go on with: {desk.spoken(f'resume {run_id}')}")
    if desk.json:
        print_json(_object(known, "waiting", f"{verb}; resume goes on"))
    return 0


def _ended(desk: Desk, known: Known, ending: Ending, said: list[str | bytes], *, go_on: bool) -> int:
    """Nothing was left to do behind the decision: the run has ended with it."""
    code = ending.status.exit_code if go_on else 0
    reason = f": {indented(lined(ending.reason), '  ')}" if ending.reason else ""
    if desk.json:
        output = "".join(map(as_text, (*said, ending.output)))
        print_json(_object(known, ending.status.value, ending.reason, output=output, exit_code=code))
    else:
        write_output(ending.output)
    complain(f"With that the run has ended: {ending.status.value}{reason}")
    return code


def _ending(known: Known) -> Ending | None:
    from interlock.engine import Ending
    from interlock.engine.lifecycle import ended_as
    from interlock.engine.objects import unpack

    lines = known.folder.lines()
    if ended_as(lines) is None:
        return None
    end = next(line for line in reversed(lines) if line.event == "run.end")
    return Ending.from_json(unpack(end.data, known.folder.objects))


def _find(desk: Desk, name: str) -> Known:
    """The run that is meant; without a name, the only one that waits."""
    from interlock.engine.folder import find_run

    known = find_run(desk.root, name) if name else only_waiting(desk)
    identity, occasion = known.identity, desk.occasion
    occasion.playbook, occasion.key = identity.playbook, identity.key
    occasion.run_id, occasion.started_at = identity.run_id, identity.started_at
    return known


def only_waiting(desk: Desk) -> Known:
    """The one run of the workspace that waits for a decision; `Refused` where there is none, or more than one."""
    from interlock.engine.folder import known_runs
    from interlock.engine.people import waiting_gate

    waiting = [known for known in known_runs(desk.root) if waiting_gate(known.folder.lines()) is not None]
    if len(waiting) == 1:
        return waiting[0]
    if not waiting:
        raise Refused("no run waits for a decision", remedy=f"See how they stand with: {desk.spoken('runs')}")
    ids = [known.identity.run_id for known in waiting]
    raise Refused(
        f"{len(ids)} runs wait for a decision",
        expected=f"one of {', '.join(ids)}",
        remedy=f"Say which one, for example: {desk.spoken(f'show {ids[-1]}')}",
    )


def _object(known: Known, status: str, reason: str, *, output: str = "", exit_code: int = 0) -> dict[str, Any]:
    """The one object of ``--json``: how the run stands after what was said to it."""
    identity, lines = known.identity, known.folder.lines()
    return envelope(
        status=status,
        exit_code=exit_code,
        reason=reason,
        run_id=identity.run_id,
        playbook=identity.playbook,
        key=identity.key,
        output=output,
        sums=totals(lines),
        started_at=identity.started_at,
        finished_at=lines[-1].ts if lines else None,
    )

"""Runs that go on in this process: `run`, `resume`, and their dry run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.desk import Desk, finish
from interlock.cli.envelope import envelope
from interlock.cli.gates import ask, can_ask, gate_lines
from interlock.cli.options import RUNS, Note, RunName, command
from interlock.cli.output import as_text, print_json, print_lines
from interlock.cli.panels import RUNNING
from interlock.cli.playbooks import Moving, moves
from interlock.cli.result import deliver
from interlock.cli.views import view_for
from interlock.errors import ConfigInvalid, Refused

if TYPE_CHECKING:
    from interlock.engine import Playbook
    from interlock.engine.playing import Finished
    from interlock.engine.runs import Runs


def start(desk: Desk, playbook: Playbook, said: Mapping[str, Any]) -> int:
    """Run a playbook as somebody asks for it, or go on with the run that is open for the same."""
    asked = playbook.asked(said, desk.asking(playbook))
    inputs, desk = asked.inputs, replace(desk, new_run=desk.new_run or asked.afresh)
    desk.occasion.playbook, desk.occasion.key = playbook.name, playbook.key(inputs)
    if desk.dry_run:
        return _show_plan(desk, playbook, inputs)
    call = desk.call(flags=asked.flags, note=asked.note)
    return carry(desk, lambda runs: runs.run(playbook, inputs, call))


def carry(desk: Desk, work: Callable[[Runs], Awaitable[Finished]]) -> int:
    """Do the work with somebody watching, and hand over how it ended; whoever sits at a terminal decides there."""

    async def watched() -> Finished:
        return await work(desk.runs(view))

    with view_for(desk) as view:
        finished = finish(watched())
    code = deliver(desk, finished, view.said)
    run_id, gate = finished.run_id, finished.gate
    if run_id is None or gate is None or not can_ask(desk) or (said := ask(desk, run_id, gate)) is None:
        return code
    from interlock.cli.people import decide

    return decide(desk, run_id, said.choice, said.note, go_on=True)


def add_resume(app: typer.Typer) -> None:
    @command(app, "resume", example="interlock resume latest", honours=RUNS, panel=RUNNING, cls=Moving)
    def resume(
        desk: Desk,
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
        asked = desk.occasion.moves
        if desk.dry_run:
            if retry or accept_recorded or asked or note:
                raise ConfigInvalid(
                    "--dry-run shows what comes next; it takes no option that moves the run", where="command line"
                )
            return _plan_of_run(desk, run)
        if asked:
            check_moves(desk, run, asked)
        call = desk.call(retry=retry, accept_recorded=accept_recorded, flags=asked, note=note)
        return carry(desk, lambda runs: runs.resume(run, call))


def check_moves(desk: Desk, name: str, asked: Mapping[str, Any]) -> None:
    """Options that move a task mean something to its playbook, and only where its run has ended (EN-19)."""
    from interlock.engine.asking import questions
    from interlock.engine.folder import find_run
    from interlock.engine.lifecycle import ended_as
    from interlock.playbooks import load

    known = find_run(desk.root, name)
    names = {question.field: question.name for question in moves()}
    option = f"--{names[next(iter(asked))]}"
    if set(asked) - {question.field for question in questions(load(known.identity.playbook).moves)}:
        raise ConfigInvalid(f"{option} means nothing to playbook {known.identity.playbook}", where="command line")
    if ended_as(known.folder.lines()) is None:
        raise Refused(
            f"run {known.identity.run_id} is open; {option} is for one that has stopped",
            remedy=f"End it first: {desk.spoken(f'cancel {known.identity.run_id}')}",
        )


def _plan_of_run(desk: Desk, name: str) -> int:
    from interlock.engine.folder import find_run
    from interlock.playbooks import load

    identity = find_run(desk.root, name).identity
    playbook = load(identity.playbook)
    return _show_plan(desk, playbook, playbook.parse_inputs(identity.inputs))


def _show_plan(desk: Desk, playbook: Playbook, inputs: Any) -> int:
    from interlock.engine.runs import Quiet

    async def plan() -> Finished:
        return await desk.runs(Quiet()).plan(playbook, inputs)

    found = finish(plan())
    if desk.json:
        print_json(
            envelope(
                status="complete",
                exit_code=0,
                reason="dry run: nothing was changed",
                run_id=found.run_id,
                playbook=playbook.name,
                key=playbook.key(inputs),
                gate=found.gate,
                plan=_next(found),
            )
        )
    else:
        print_lines(_plan_lines(desk, playbook, inputs, found))
    return 0


def _next(plan: Finished) -> dict[str, Any]:
    before = plan.before
    if before is not None:
        from interlock.engine.model import plain

        return {"next": before.verb, "key": before.key, **plain(before.detail)}
    if plan.gate is not None:
        return {"next": "decision", "key": plan.gate["key"]}
    return {"next": "end", "status": plan.status.value, "reason": plan.reason, "output": as_text(plan.output)}


def _plan_lines(desk: Desk, playbook: Playbook, inputs: Any, plan: Finished) -> list[str]:
    what = f"{playbook.name} {playbook.key(inputs)}"
    where = f"run {plan.run_id} goes on" if plan.run_id else "a new run starts"
    lines = [f"{what}: {where} (dry run: nothing was changed)"]
    following = _next(plan)
    brief = following.pop("brief", None)
    lines += [f"  {name}: {_shown(value)}" for name, value in following.items() if value not in (None, "", [], {})]
    if plan.gate is not None and plan.run_id is not None:
        lines += gate_lines(desk, plan.run_id, plan.gate)
    if brief is not None:
        lines += ["", "The brief that the agent would get:", "", brief.rstrip("\n")]
    return lines


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

"""`interlock run harness [TASK] [--until STAGE] [--max-stages N] [--fallback STAGE]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.desk import Desk
from interlock.cli.options import STARTS, command
from interlock.cli.playbooks import Door
from interlock.cli.running import start
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.app import Application

FIRST = "interlock run harness TASK-001"
MOVES = ("from", "reset_remediation", "note")


def add(run: typer.Typer) -> None:
    @command(run, "harness", example=FIRST, honours=STARTS)
    def harness(
        desk: Desk,
        task: Annotated[
            str,
            typer.Argument(
                metavar="[TASK]",
                help="The task: its id, or its file in harness/tasks. Default: the one in harness/run-state.md.",
                show_default=False,
            ),
        ] = "",
        until: Annotated[
            str | None, typer.Option("--until", metavar="STAGE", help="Stop after this stage.", show_default=False)
        ] = None,
        max_stages: Annotated[
            int | None,
            typer.Option("--max-stages", min=1, metavar="N", help="Stop after so many stages.", show_default=False),
        ] = None,
        fallback: Annotated[
            str | None,
            typer.Option(
                "--fallback",
                metavar="STAGE",
                help="A person supplies the artifact of this stage; it is checked like any other.",
                show_default=False,
            ),
        ] = None,
    ) -> int:
        """Carry one task of harness/tasks through specification, design, plan, build, QA and approval."""
        from interlock.app import person
        from interlock.playbooks.harness import HarnessInputs
        from interlock.playbooks.harness.opening import working_stage

        bounds = {"until": working_stage(until, "--until").value if until else None, "max_stages": max_stages}
        supplied = working_stage(fallback, "--fallback").value if fallback else ""
        inputs = HarnessInputs(task_id(desk.root, task), supplied, person() if supplied else "")
        return start(desk, "harness", inputs, bounds)


def task_id(root: Path, named: str) -> str:
    """The task that a person means: the one they named, or else the one in run-state."""
    from interlock.documents import Store
    from interlock.engine.folder import HOME
    from interlock.playbooks.harness.opening import asked_for
    from interlock.playbooks.harness.run_state import PATH

    return asked_for(named, Store(root, root / HOME / "attic").read(PATH))


async def examine(application: Application) -> list[InterlockError]:
    """What would keep the task in run-state, or else every task there is, from being run: each is played in memory."""
    from interlock.documents import Store
    from interlock.engine.folder import HOME
    from interlock.playbooks import load
    from interlock.playbooks.harness import HarnessInputs
    from interlock.playbooks.harness.lifecycle import WORKING
    from interlock.playbooks.harness.standards import CONTRACTS, contract_for, parse_contracts
    from interlock.playbooks.harness.task_file import FOLDER

    root, playbook, found = application.root, load("harness"), dict[str, InterlockError]()
    store = Store(root, root / HOME / "attic")
    try:
        tasks = [task_id(root, "")]
    except InterlockError as error:
        tasks = [path.rpartition("/")[2].removesuffix(".md") for path in store.list(FOLDER, "*.md")]
        if not tasks:
            return [error]
    for task in tasks:
        try:
            await application.plan(playbook, HarnessInputs(task))
        except InterlockError as error:
            found.setdefault(error.what, error)
    if not found:
        contracts = parse_contracts(store.read(CONTRACTS))
        for stage in WORKING:
            try:
                contract_for(contracts, stage)
            except InterlockError as error:
                found.setdefault(error.what, error)
    return list(found.values())


DOOR = Door("harness", add, FIRST, examine, MOVES)

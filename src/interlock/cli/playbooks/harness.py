"""`interlock run harness [TASK]`: with bounds, with a person in an agent's place, and with the ways out of a stop."""

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
MOVES = ("from", "reset_remediation")


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
        check: Annotated[
            list[str] | None,
            typer.Option(
                "--check",
                metavar="COMMAND",
                help="A command that must pass, run by interlock itself; may be given several times. "
                "Default: check_commands of the settings.",
                show_default=False,
            ),
        ] = None,
        note: Annotated[
            str,
            typer.Option(
                "--note",
                metavar="TEXT",
                help="Let a blocked task go on, with these words for whoever works next.",
                show_default=False,
            ),
        ] = "",
        from_: Annotated[
            str | None,
            typer.Option(
                "--from", metavar="STAGE", help="Let the task go on from an earlier stage.", show_default=False
            ),
        ] = None,
        reset_remediation: Annotated[
            bool, typer.Option("--reset-remediation", help="Let the task go on with its remediations counted anew.")
        ] = False,
        park: Annotated[
            bool, typer.Option("--park", help="Put the task in harness/run-state.md aside, to go on with it later.")
        ] = False,
        start_over: Annotated[
            bool, typer.Option("--start-over", help="Begin the task anew; its run-state is set aside.")
        ] = False,
        mend_report: Annotated[
            bool, typer.Option("--mend-report", help="Make broken chains of the run report anew from its rows.")
        ] = False,
    ) -> int:
        """Carry one task of harness/tasks through specification, design, plan, build, QA and approval."""
        from interlock.app import person
        from interlock.playbooks.harness import HarnessInputs
        from interlock.playbooks.harness.opening import working_stage

        flags = {
            "until": working_stage(until, "--until").value if until else None,
            "max_stages": max_stages,
            "park": park,
        }
        supplied = working_stage(fallback, "--fallback").value if fallback else ""
        inputs = HarnessInputs(
            task_id(desk.root, task),
            supplied,
            person() if supplied else "",
            check="\n".join(check or ()),
            resumed=bool(note.strip() or from_ or reset_remediation),
            note=note.strip(),
            from_stage=working_stage(from_, "--from").value if from_ else "",
            reset_remediation=reset_remediation,
            start_over=start_over,
            mend_report=mend_report,
        )
        return start(desk, "harness", inputs, flags, note=note)


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
    return list(found.values())


DOOR = Door("harness", add, FIRST, examine, MOVES)

"""`interlock run ticket "ABC-12 fix the login error so that users can sign in"`."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from interlock.cli.desk import Desk
from interlock.cli.options import STARTS, command
from interlock.cli.playbooks import Door
from interlock.cli.running import start

FIRST = 'interlock run ticket "ABC-12 fix the login error so that users can sign in"'


class Dirty(StrEnum):
    """What becomes of uncommitted code at the git gate."""

    STASH = "stash"
    CARRY = "carry"
    ABORT = "abort"


def add(run: typer.Typer) -> None:
    @command(run, "ticket", example=FIRST, honours=STARTS)
    def ticket(
        desk: Desk,
        words: Annotated[
            list[str],
            typer.Argument(metavar="REQUEST", help="What is to be done, with the ticket's id.", show_default=False),
        ],
        jira: Annotated[
            str | None, typer.Option("--jira", metavar="ID", help="The ticket, if the request names none or several.")
        ] = None,
        build: Annotated[
            str | None,
            typer.Option("--build", metavar="CMD", help="Command that builds; 'none' if nothing is built."),
        ] = None,
        test: Annotated[
            str | None, typer.Option("--test", metavar="CMD", help="Command that tests; 'none' if nothing is tested.")
        ] = None,
        base: Annotated[
            str | None,
            typer.Option(
                "--base", metavar="NAME", help="Where the work begins; default: the remote's or the main branch."
            ),
        ] = None,
        dirty: Annotated[
            Dirty | None,
            typer.Option("--dirty", help="What becomes of uncommitted code; without it you are asked."),
        ] = None,
        max_parallel_tasks: Annotated[
            int | None, typer.Option("--max-parallel-tasks", min=1, max=8, help="Most tasks side by side.")
        ] = None,
        no_fast_path: Annotated[
            bool, typer.Option("--no-fast-path", help="Let no graph skip the task-executor and the review.")
        ] = False,
        retry: Annotated[
            bool, typer.Option("--retry", help="Give tasks that used up their attempts as many again.")
        ] = False,
        fresh: Annotated[
            bool, typer.Option("--fresh", help="Start over: what is there of the ticket is set aside.")
        ] = False,
    ) -> int:
        """Plan, build, test, review and commit the work of one ticket on a branch of its own."""
        from interlock.playbooks.ticket import TicketInputs

        inputs = TicketInputs(
            " ".join(words),
            jira=jira,
            build=build,
            test=test,
            base=base,
            max_parallel=max_parallel_tasks,
            fast_path=not no_fast_path,
            fresh=fresh,
            retry=retry,
        )
        desk = replace(desk, new_run=desk.new_run or fresh)
        return start(desk, "ticket", inputs, {"dirty": dirty.value} if dirty else None)


DOOR = Door("ticket", add, FIRST)

"""All commands, put together."""

from __future__ import annotations

import typer
from typer.core import TyperGroup

from interlock.cli import doctor, explaining, looking, people, recovering, rehearsing, running, setting_up, showing
from interlock.cli.options import HELP, before
from interlock.cli.panels import RUNNING
from interlock.cli.playbooks import Playbooks


class RunFirst(TyperGroup):
    """Lists `run` before everything else: that is what a newcomer looks for."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return sorted(self.commands, key=lambda name: name != "run")


def build() -> typer.Typer:
    """The command line with a sub-command of `run` for every playbook."""
    top = typer.Typer(
        name="interlock",
        cls=RunFirst,
        callback=before,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings=HELP,
        epilog="First steps: interlock init, then: interlock doctor",
    )
    run = typer.Typer(
        cls=Playbooks,
        callback=lambda: None,
        help="Run a playbook, or go on with the run that is open for the same inputs.",
        no_args_is_help=True,
        context_settings=HELP,
    )
    top.add_typer(run, name="run", rich_help_panel=RUNNING)
    running.add_resume(top)
    for part in (looking, showing, explaining, people, setting_up, rehearsing, doctor, recovering):
        part.add(top)
    return top


app = build()

"""`interlock run router "/implement 259 be brief"`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.desk import Desk
from interlock.cli.options import STARTS, command
from interlock.cli.playbooks import Door
from interlock.cli.running import start
from interlock.errors import DocumentInvalid, InterlockError

if TYPE_CHECKING:
    from interlock.app import Application

COMMANDS = ("research", "plan", "implement", "revise")
TASK_LIST = ".opencode/specs/TODO.md"
FIRST = 'interlock run router "/implement 259 be brief"'
SAMPLE = 50
"""Tasks that `validate` tries; the same code that would run them looks at each."""


def add(run: typer.Typer) -> None:
    @command(run, "router", example=FIRST, honours=STARTS)
    def router(
        desk: Desk,
        words: Annotated[
            list[str],
            typer.Argument(
                metavar="COMMAND",
                help="/research, /plan, /implement or /revise, the task's number, and a text for the agent.",
                show_default=False,
            ),
        ],
    ) -> int:
        """Hand one task of .opencode/specs/TODO.md to the agent that its command file names, and print its answer."""
        from interlock.playbooks.router import RouterInputs

        return start(desk, "router", RouterInputs(" ".join(words)))


async def examine(application: Application) -> list[InterlockError]:
    """What would keep the tasks of the list from being routed: each is played up to its dispatch, in memory."""
    from interlock.playbooks import load
    from interlock.playbooks.router import RouterInputs

    playbook, found = load("router"), dict[str, InterlockError]()
    numbers = _numbers(application.root / TASK_LIST)
    if not numbers:
        return [
            DocumentInvalid(
                f"{TASK_LIST} has no task",
                path=TASK_LIST,
                expected="headings like: ### 259. Title",
                remedy="Write one, or get an example with: interlock init --playbook router --example",
            )
        ]
    for word in COMMANDS:
        for number in numbers[:SAMPLE]:
            try:
                await application.plan(playbook, RouterInputs(f"/{word} {number}"))
            except InterlockError as error:
                found.setdefault(error.what, error)
    return list(found.values())


def _numbers(task_list: Path) -> list[str]:
    try:
        text = task_list.read_text("utf-8", "replace")
    except OSError:
        return []
    return list(dict.fromkeys(re.findall(r"^### (\d+)\.", text, re.MULTILINE)))


DOOR = Door("router", add, FIRST, examine)

"""`interlock run roadmap [--file roadmap.json] [--once]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.desk import Desk
from interlock.cli.options import STARTS, command
from interlock.cli.playbooks import Door
from interlock.cli.running import start
from interlock.errors import ConfigInvalid, InterlockError

if TYPE_CHECKING:
    from interlock.app import Application
    from interlock.settings import Settings

FIRST = "interlock run roadmap"
MINE = "roadmap/"


def add(run: typer.Typer) -> None:
    @command(run, "roadmap", example=f"{FIRST} --once", honours=STARTS)
    def roadmap(
        desk: Desk,
        file: Annotated[
            Path | None,
            typer.Option(
                "--file",
                metavar="FILE",
                help="The roadmap, inside the workspace. Default: roadmap.json in its top folder.",
                show_default=False,
            ),
        ] = None,
        once: Annotated[bool, typer.Option("--once", help="Work on one item, report, and end.")] = False,
        fail_fast: Annotated[
            bool, typer.Option("--fail-fast", help="Skip Review when Testing failed, as [roadmap] fail_fast does.")
        ] = False,
    ) -> int:
        """Work through a roadmap, one ready item at a time, until all pass, one is blocked, or none can be selected."""
        from interlock.engine.host import Quiet
        from interlock.playbooks.roadmap import RoadmapInputs

        inputs = RoadmapInputs() if file is None else RoadmapInputs(within(desk, file))
        refuse_strangers(desk.application(Quiet()).settings)
        return start(desk, "roadmap", inputs, {"once": once, "fail_fast": fail_fast})


def within(desk: Desk, file: Path) -> str:
    """The file as seen from the workspace: named from where the person is, or from the folder that -C names."""
    from interlock.documents import relative

    return relative(desk.root, file if desk.workspace is not None else Path.cwd() / file)


def refuse_strangers(settings: Settings) -> None:
    """Only the five agents can be called: settings for another one would never take effect."""
    from interlock.playbooks.roadmap.decisions import AGENTS

    strange = [name for name in settings.agents if name.startswith(MINE) and name.removeprefix(MINE) not in AGENTS]
    if strange:
        raise ConfigInvalid(
            f"roadmap has no agent {strange[0].removeprefix(MINE)!r}",
            where=f'interlock.toml: [agents."{strange[0]}"]',
            expected=f"one of {', '.join(AGENTS)}",
            found=strange[0].removeprefix(MINE),
        )


async def examine(application: Application) -> list[InterlockError]:
    """What would keep the roadmap from running: it is played up to its first dispatch, in memory."""
    from interlock.playbooks import load
    from interlock.playbooks.roadmap import RoadmapInputs

    try:
        refuse_strangers(application.settings)
        await application.plan(load("roadmap"), RoadmapInputs())
    except InterlockError as error:
        return [error]
    return []


DOOR = Door("roadmap", add, FIRST, examine)

"""`init` and `validate`: getting a workspace ready, and proving that it is."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.completion import complete_playbook
from interlock.cli.desk import Desk, finish
from interlock.cli.failures import told
from interlock.cli.options import PlaybookName, command
from interlock.cli.output import complain, print_json
from interlock.cli.panels import WORKSHOP
from interlock.cli.rooms import room_of
from interlock.errors import ConfigInvalid, InterlockError
from interlock.settings import FILE_NAME

if TYPE_CHECKING:
    from interlock.app import Application

BROKEN = 2

HEAD = """\
# Settings of interlock. Everything has a default; every key is in the reference of settings.
"""

NO_RUNNER = """\
# Who does the agents' work. Name a program: it gets the brief on standard input, works in this folder, and its
# standard output is its answer. In the arguments {agent} is the name of the role.
#
# runner = "mine"
# [runners.mine]
# type = "command"
# argv = ["python3", "tools/agent.py", "{agent}"]

# To try a playbook without any agent: the scripted runner plays a scenario, or simply does every part well.
#
# runner = "scripted"
# [runners.scripted]
# type = "scripted"
# scenario = "scenario.yaml"
"""


def add(app: typer.Typer) -> None:
    @command(
        app,
        "init",
        example="interlock init --playbook router --runner scripted",
        honours=("runner",),
        panel=WORKSHOP,
    )
    def init(
        desk: Desk,
        playbook: Annotated[
            str | None,
            typer.Option(
                "--playbook",
                metavar="NAME",
                help="Also write the example documents of this playbook.",
                autocompletion=complete_playbook,
                show_default=False,
            ),
        ] = None,
    ) -> int:
        """Set a workspace up: interlock.toml and, if asked for, example documents; nothing is overwritten."""
        written, kept, runner = set_up(desk, playbook)
        advice = _next(desk, playbook, runner)
        if desk.json:
            print_json({"workspace": str(desk.root), "written": written, "kept": kept, "next": advice})
        else:
            typer.echo("\n".join([*(f"written  {path}" for path in written), *(f"kept     {path}" for path in kept)]))
        complain(*advice)
        return 0

    @command(app, "validate", example="interlock validate router", honours=("runner",), panel=WORKSHOP)
    def validate(desk: Desk, playbook: PlaybookName) -> int:
        """Check that a playbook could run here: settings, agents, runners and documents; nothing is started."""
        problems = finish(problems_of(desk, playbook))
        if desk.json:
            listed = [{"what": one.what, **dict(one.parts())} for one in problems]
            print_json({"playbook": playbook, "ok": not problems, "problems": listed})
        elif not problems:
            typer.echo(f"{playbook}: ready to run in {desk.root}")
        for one in problems:
            complain(*told(one.what, dict(one.parts())))
        return BROKEN if problems else 0


def set_up(desk: Desk, playbook: str | None) -> tuple[list[str], list[str], str | None]:
    """Write what is missing; the paths written, those that were there already, and the runner that is set."""
    from interlock.documents import Store
    from interlock.engine.folder import GITIGNORE, HOME
    from interlock.engine.host import Quiet

    application = desk.application(Quiet())
    runner = _runner(application, desk.runner)
    files = {FILE_NAME: HEAD + (NO_RUNNER if runner is None else f'\nrunner = "{runner}"\n')}
    files |= {f"{HOME}/.gitignore": GITIGNORE}
    files |= _examples(playbook) if playbook is not None else {}
    store = Store(desk.root, desk.root / HOME / "attic")
    written, kept = [], []
    for path, text in files.items():
        if store.facts(path).exists:
            kept.append(path)
        else:
            store.write(path, text)
            written.append(path)
    return written, kept, runner


def _runner(application: Application, asked: str | None) -> str | None:
    """The runner for new settings: the one asked for, else the first installed agent that can be called."""
    from interlock.settings import READY_RUNNERS

    if asked is not None:
        application.setup.make_runner(asked)
        return asked
    for name in READY_RUNNERS:
        if name != "scripted" and shutil.which(name):
            try:
                application.setup.make_runner(name)
            except ConfigInvalid:
                continue
            return name
    return None


def _examples(playbook: str) -> Mapping[str, str]:
    """The example documents that a playbook offers in its room."""
    offered = getattr(room_of(playbook), "example_files", None)
    return dict(offered()) if offered is not None else {}


def _next(desk: Desk, playbook: str | None, runner: str | None) -> list[str]:
    from interlock.cli.playbooks import doors

    lines = []
    if runner is None and not _has_runner(desk):
        lines.append(f'Next: name a runner in {FILE_NAME} (type = "command": any program), or try --runner scripted.')
    door = doors().get(playbook or "")
    first = door.first if door is not None else "interlock run PLAYBOOK ..."
    scripted = " --runner scripted" if door is not None and runner is None and not _has_runner(desk) else ""
    return [*lines, f"Then: {desk.spoken('doctor')}", f"First run: {first}{scripted}"]


def _has_runner(desk: Desk) -> bool:
    """Whether the settings that are there name a runner already."""
    from interlock.engine.host import Quiet

    try:
        desk.application(Quiet()).setup.default_runner()
    except InterlockError:
        return False
    return True


async def problems_of(desk: Desk, name: str) -> list[InterlockError]:
    """All that would keep the playbook from running here, each once."""
    from interlock.cli.playbooks import doors
    from interlock.engine.host import Quiet
    from interlock.playbooks import load

    playbook = load(name)
    application = desk.application(Quiet())
    found: dict[str, InterlockError] = {}
    try:
        setup = application.setup
        setup.book(playbook).bind_all(playbook.agents)
        setup.make_runner(setup.default_runner())
    except InterlockError as error:
        return [error]
    if (door := doors().get(name)) is not None:
        for problem in await door.examine(application):
            found.setdefault(problem.what, problem)
    return list(found.values())

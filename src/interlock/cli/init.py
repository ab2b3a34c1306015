"""`init` and `validate`: getting a workspace ready, and proving that it is."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.commands import WORKSHOP, PlaybookName, command, complete_playbook
from interlock.cli.door import Door, finish
from interlock.cli.failures import told
from interlock.cli.output import complain, print_json, print_lines
from interlock.cli.playbooks import room_of
from interlock.engine.folder import GITIGNORE, HOME
from interlock.errors import ConfigInvalid, InterlockError
from interlock.mcp.editors import EDITORS, Registration, registration
from interlock.settings import FILE_NAME

if TYPE_CHECKING:
    from interlock.agents.coding.finding import InstalledAgent
    from interlock.app import FromSettings
    from interlock.engine.definition import Playbook
    from interlock.finding.purity import Touch

BROKEN = 2
EditorName = StrEnum("EditorName", {name.upper(): name for name in EDITORS})  # type: ignore[misc]

HEAD = """\
# Settings of interlock. Everything has a default; every key is in the reference of settings.
# Agents work in layers, never in your tree. What they may see and reach beside it: [sandbox] mode, network, home.
"""

NO_RUNNER = """\
# Who does the agents' work. No coding agent was found on PATH. interlock knows these: runner = "claude", "codex",
# "copilot", "opencode", "gemini" or "qwen". Or name a program of your own: it gets the brief on standard input, works
# in this folder, and its standard output is its answer. In the arguments {agent} is the name of the role.
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


OF_PLAYBOOK: Mapping[str, str] = {
    "roadmap": """
[roadmap]
# Who checks an item before it is done: "agents" say how their commands ended, "engine" also runs the named ones itself.
verify = "engine"
""",
}
"""What the settings of a new workspace say for a playbook, beside the defaults."""


@command(
    "init",
    example="interlock init --playbook router --example --runner scripted",
    honours=("runner", "trust"),
    panel=WORKSHOP,
)
def init(
    door: Door,
    playbook: Annotated[
        str | None,
        typer.Option(
            "--playbook",
            metavar="NAME",
            help="Also write what this playbook needs.",
            autocompletion=complete_playbook,
            show_default=False,
        ),
    ] = None,
    example: Annotated[
        bool, typer.Option("--example", help="Also write the playbook's example documents, to try it out with them.")
    ] = False,
    roles: Annotated[
        bool, typer.Option("--roles", help="Also copy the playbook's roles to .interlock/agents/, to be edited.")
    ] = False,
    editor: Annotated[
        list[EditorName] | None,
        typer.Option(
            "--editor", help="Also register the MCP server with this client; may be repeated.", metavar="NAME"
        ),
    ] = None,
) -> int:
    """Set a workspace up: interlock.toml for the agents found here; nothing is overwritten."""
    if (roles or example) and playbook is None:
        option = "--roles" if roles else "--example"
        raise ConfigInvalid(f"{option} needs to know whose", where="command line", remedy="Add --playbook NAME.")
    clients = [registration(door.root, str(one)) for one in dict.fromkeys(editor or ())]
    agents = finish(_installed(door))
    further = dict[str, str]()
    if playbook is not None:
        known = door.playbook(playbook)
        further |= _offered(known, "setup_files")
        further |= _offered(known, "example_files") if example else {}
        further |= _role_files(known) if roles else {}
    # Commands that an example names are as invented as its tasks.
    written, kept, runner = set_up(door, further, agents, None if example else playbook)
    registered = [one.editor.path for one in clients if one.needed]
    for one in clients:
        one.write()
    written += registered
    kept += [one.editor.path for one in clients if not one.needed]
    advice = [*_registered(door, clients), *_next(door, playbook, runner, example=example)]
    found = {one.agent.name: {"version": one.version, "signed_in": one.signed_in} for one in agents}
    door.answer(
        {"workspace": str(door.root), "agents": found, "written": written, "kept": kept, "next": advice},
        [
            *(f"found    {one.agent.name}: {one.text}" for one in agents),
            *(f"written  {path}" for path in written),
            *(f"kept     {path}" for path in kept),
        ],
    )
    complain(*advice)
    return 0


def _registered(door: Door, clients: Sequence[Registration]) -> Iterator[str]:
    """What is to be known where a client was told of the server."""
    for one in clients:
        if one.other:
            yield f"{one.editor.path} has a server interlock of its own: it was left as it is."
    if clients and shutil.which("interlock", path=door.environ.get("PATH")) is None:
        yield "interlock is not on PATH: a client that starts it will not find it."
    for one in clients:
        yield f"{one.editor.title} knows the server in this folder now; it may ask you whether you trust it."


@command("validate", example="interlock validate router", honours=("runner", "trust"), panel=WORKSHOP)
def validate(door: Door, playbook: PlaybookName) -> int:
    """Check that a playbook could run here: settings, agents, runners and documents; nothing is started."""
    problems = finish(problems_of(door, door.playbook(playbook)))
    complain(*door.library.namesakes(playbook))
    if door.json:
        listed = [{"what": one.what, **dict(one.parts())} for one in problems]
        print_json({"playbook": playbook, "ok": not problems, "problems": listed})
    elif not problems:
        print_lines([f"{playbook}: ready to run in {door.root}"])
    for one in problems:
        complain(*told(one.what, dict(one.parts())))
    return BROKEN if problems else 0


async def _installed(door: Door) -> list[InstalledAgent]:
    from interlock.agents.coding.finding import installed_agents

    return await installed_agents(door.environ)


def set_up(
    door: Door, further: Mapping[str, str], agents: list[InstalledAgent], playbook: str | None
) -> tuple[list[str], list[str], str | None]:
    """Write what is missing of settings and `further` files: the paths written, those kept, the runner that is set."""
    from interlock.documents import Store

    runner = _runner(door.setup, door.runner, agents)
    chosen = NO_RUNNER if runner is None else _chosen(runner, agents)
    files = {FILE_NAME: HEAD + chosen + OF_PLAYBOOK.get(playbook or "", "")}
    files |= {f"{HOME}/.gitignore": GITIGNORE}
    files |= further
    store = Store(door.root, door.root / HOME / "attic")
    written, kept = [], []
    for path, text in files.items():
        if store.facts(path).exists:
            kept.append(path)
        else:
            store.write(path, text)
            written.append(path)
    return written, kept, runner


def _runner(setup: FromSettings, asked: str | None, agents: list[InstalledAgent]) -> str | None:
    """The runner for new settings: the one asked for, else the installed agent that is most likely to answer."""
    from interlock.agents.coding.finding import choice_of

    if asked is not None:
        setup.make_runner(asked)
        return asked
    best = choice_of(agents)
    return best.agent.name if best is not None else None


def _chosen(runner: str, agents: list[InstalledAgent]) -> str:
    """The line that chooses, and as comments what else is there."""
    lines = ["", f'runner = "{runner}"']
    others = [one for one in agents if one.agent.name != runner]
    if others:
        lines += ["", "# Also found on PATH; an agent of a playbook can have one of its own:", "#"]
        lines += [f"#   {one.agent.name}: {one.text}" for one in others]
        lines += ["#", "# [agents.r-security]", f'# runner = "{others[0].agent.name}"']
    return "\n".join(lines) + "\n"


def _offered(playbook: Playbook, what: str) -> Mapping[str, str]:
    """Files that a playbook offers in its room: `setup_files`, which it needs, or `example_files`."""
    offered = getattr(room_of(playbook), what, None)
    return dict(offered()) if offered is not None else {}


def _role_files(playbook: Playbook) -> dict[str, str]:
    """The roles that a playbook brings along, at the paths where a team's own are found first."""
    folder = playbook.folder / "agents"
    files = folder.iterdir() if folder.is_dir() else ()
    roles = sorted((file for file in files if file.name.endswith(".md")), key=lambda file: file.name)
    return {f"{HOME}/agents/{playbook.name}/{file.name}": file.read_text(encoding="utf-8") for file in roles}


def _next(door: Door, playbook: str | None, runner: str | None, *, example: bool) -> list[str]:

    lines = []
    if runner is None and not _has_runner(door):
        lines.append(f"Next: install a coding agent, or name a program in {FILE_NAME}, or try --runner scripted.")
    lines.append(f"Then: {door.spoken('doctor')}")
    if playbook is None:
        return [*lines, f"Then: {door.spoken('run --help')}"]
    known = door.playbook(playbook)
    if example or not _offered(known, "example_files"):
        scripted = " --runner scripted" if runner is None and not _has_runner(door) else ""
        first = f"run {playbook} {known.first}".rstrip()
        return [*lines, f"First run: {door.spoken(first)}{scripted}"]
    return [*lines, f"How to run it: {door.spoken(f'run {playbook} --help')}"]


def _has_runner(door: Door) -> bool:
    """Whether the settings that are there name a runner already."""
    try:
        door.setup.default_runner()
    except InterlockError:
        return False
    return True


async def problems_of(door: Door, playbook: Playbook) -> list[InterlockError]:
    """All that would keep the playbook from running here, each once."""
    from interlock.engine import prompts
    from interlock.engine.runs import Quiet
    from interlock.finding.purity import touches

    setup, runs = door.setup, door.runs(Quiet())
    found: dict[str, InterlockError] = {one.what: one for one in map(_beside_the_verbs, touches(playbook))}
    try:
        setup.check_agents(playbook)
        setup.roster(playbook).bind_all(playbook.agents)
        setup.make_runner(setup.default_runner())
        prompts.check(playbook, setup.documents)
    except InterlockError as error:
        return [*found.values(), error]
    try:
        for inputs in playbook.samples(setup.asking(playbook)):
            try:
                await runs.plan(playbook, inputs)
            except InterlockError as error:
                found.setdefault(error.what, error)
    except InterlockError as error:
        found.setdefault(error.what, error)
    return list(found.values())


def _beside_the_verbs(touch: Touch) -> InterlockError:
    return ConfigInvalid(
        f"the playbook {touch.what} at line {touch.line} of {touch.file}",
        where=f"{touch.file}:{touch.line}",
        expected="nothing but the verbs of its run",
        remedy=f"Use what can be replayed: {touch.instead}.",
    )

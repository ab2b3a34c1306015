"""`init`, `doctor`, `mcp`: getting a workspace and its editors ready, and what would keep a run from working here."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.commands import WORKSHOP, command
from interlock.cli.door import Door, complete_playbook, finish
from interlock.cli.failures import BROKEN
from interlock.cli.output import complain
from interlock.cli.playbooks import room_of
from interlock.documents import few
from interlock.engine.folder import GITIGNORE, HOME, known_runs, unreadable_runs
from interlock.errors import ConfigInvalid, InterlockError
from interlock.finding import Origin
from interlock.mcp.editors import EDITORS, Registration, registration
from interlock.settings import FILE_NAME
from interlock.settings.location import is_repository
from interlock.telemetry import printable

if TYPE_CHECKING:
    from interlock.agents.coding.catalogue import KnownAgent
    from interlock.agents.coding.finding import InstalledAgent
    from interlock.agents.coding.probing import NoAnswer
    from interlock.app import FromSettings
    from interlock.engine.definition import Playbook
    from interlock.settings import SandboxSettings, Settings
    from interlock.workspace import Probe

OLDEST_PYTHON, OLDEST_GIT = (3, 11), (2, 38)
SHOWN = 8


class Condition(StrEnum):
    OK = "ok"
    NOTE = "note"
    """Works, but worth knowing."""
    BROKEN = "broken"


@dataclass(frozen=True)
class Diagnosis:
    """One thing that was looked at."""

    subject: str
    state: Condition
    text: str
    remedy: str | None = None


@command("doctor", example="interlock doctor", honours=("runner",), panel=WORKSHOP)
def doctor(
    door: Door,
    ask: Annotated[
        bool, typer.Option("--ask/--no-ask", help="Ask each coding agent that runs would use a one-line question.")
    ] = True,
) -> int:
    """Check Python, git, settings, sandbox, agents, roles, playbooks, snapshots, locks and journals here."""
    checks = finish(examine(door, ask=ask))
    broken = any(check.state is Condition.BROKEN for check in checks)
    facts = {"ok": not broken, "workspace": str(door.root), "checks": [asdict(check) for check in checks]}
    door.answer(facts, _lines(checks))
    return BROKEN if broken else 0


async def examine(door: Door, *, ask: bool) -> list[Diagnosis]:
    """Everything that can be looked at without changing anything; `ask`: the agents are called too."""
    setup = door.setup
    checks = [python(), git(), *workspace(door.root)]
    try:
        settings = setup.settings
    except ConfigInvalid as error:
        checks += settings_problems(error)
    else:
        place = door.root / "interlock.toml"
        found = "interlock.toml" if place.exists() else "no interlock.toml: all defaults"
        checks.append(Diagnosis("settings", Condition.OK, found))
        checks += sandbox(setup.probe, settings, Path(door.environ.get("HOME") or Path.home()))
        checks += await runners(setup, ask=ask)
        checks += roles(setup)
        checks += own_playbooks(setup)
        checks.append(await uncovered(door.root, settings))
    return [*checks, *locks(door.root), *journals(door.root)]


def python() -> Diagnosis:
    import platform

    good = sys.version_info >= OLDEST_PYTHON
    return Diagnosis("python", Condition.OK if good else Condition.BROKEN, f"Python {platform.python_version()}")


def git() -> Diagnosis:
    """The program git: snapshots are made with it."""
    import subprocess

    remedy = f"Install git {'.'.join(map(str, OLDEST_GIT))} or later."
    try:
        said = subprocess.run(["git", "version"], capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return Diagnosis("git", Condition.BROKEN, f"git cannot be started: {error}", remedy)
    numbers = re.search(r"(\d+)\.(\d+)", said)
    good = numbers is not None and (int(numbers[1]), int(numbers[2])) >= OLDEST_GIT
    return Diagnosis("git", Condition.OK if good else Condition.BROKEN, said, None if good else remedy)


def workspace(root: Path) -> Iterator[Diagnosis]:
    inside = any(is_repository(folder) for folder in (root, *root.parents))
    yield Diagnosis("workspace", Condition.OK, str(root))
    if not inside:
        text = "no git repository: runs work, but commits are not possible"
        yield Diagnosis("workspace", Condition.NOTE, text, "git init")


def settings_problems(error: ConfigInvalid) -> Iterator[Diagnosis]:
    problems = getattr(error, "problems", None)
    if problems is None:
        where = f"{error.where}: " if error.where else ""
        yield Diagnosis("settings", Condition.BROKEN, f"{where}{error.what}", error.remedy)
    for problem in problems or ():
        yield Diagnosis("settings", Condition.BROKEN, str(problem))


def sandbox(probe: Probe, settings: Settings, home: Path) -> Iterator[Diagnosis]:
    """How agents and commands are kept apart here; for each runner with settings of its own too (LY-10, LY-12)."""
    own = {
        name: settings.sandbox_for(name) for name, table in settings.runners.items() if table.sandbox.model_fields_set
    }
    yield maker(probe, settings.sandbox)
    for name, table in {"": settings.sandbox, **own}.items():
        yield from limits(probe, table, home, runner=name)
    from interlock.workspace import UNPROMISED

    if not probe.confined or any(table.mode == "off" for table in (settings.sandbox, *own.values())):
        yield Diagnosis("sandbox", Condition.NOTE, UNPROMISED)


def maker(probe: Probe, table: SandboxSettings) -> Diagnosis:
    """Who makes the layers, why this one, and how to get a better one."""
    if table.mode == "off":
        text = "copy: switched off, so agents work in a private copy and are not confined."
        return Diagnosis("sandbox", Condition.NOTE, text, 'Set mode = "auto" in [sandbox].')
    if probe.confined:
        text = " ".join(filter(None, (f"{probe.maker}: agents are confined by the kernel.", probe.why, probe.remedy)))
        return Diagnosis("sandbox", Condition.OK, text)
    if table.mode == "strict":
        text = f"mode strict, and agents cannot be confined here: no run will start. {probe.why}"
        remedy = " ".join(filter(None, (probe.remedy, 'Or allow a private copy: mode = "auto" in [sandbox].')))
        return Diagnosis("sandbox", Condition.BROKEN, text, remedy)
    text = f"{probe.maker}: agents work in a private copy and are not confined. {probe.why}"
    return Diagnosis("sandbox", Condition.NOTE, text, probe.remedy or None)


def limits(probe: Probe, table: SandboxSettings, home: Path, *, runner: str) -> Iterator[Diagnosis]:
    """What programs are allowed to see and reach, and what of it cannot be held here."""
    whose, key = (f"runner {runner}: ", f"runners.{runner}.sandbox") if runner else ("", "sandbox")
    shown = ", ".join(("logins, tool chains", *(printable(place, 60) for place in table.home)))
    text = f"{whose}mode {table.mode}, network {table.network}, of HOME: {shown}"
    confined = probe.confined and table.mode != "off"
    if confined or (table.mode == "strict" and not runner):  # the maker's line has said that nothing starts
        yield Diagnosis("sandbox", Condition.OK, text)
    elif table.mode == "strict":
        yield Diagnosis(
            "sandbox", Condition.BROKEN, f"{text}; it cannot be confined here, so it is not called", probe.remedy
        )
    elif table.network != "open":
        remedy = f'To have no run rather than an open network: mode = "strict" in [{key}].'
        yield Diagnosis("sandbox", Condition.NOTE, f"{text}; without confinement the network stays open", remedy)
    else:
        yield Diagnosis("sandbox", Condition.OK, text)
    for place in table.home:
        if not (home / place).exists():
            yield Diagnosis(
                "sandbox", Condition.NOTE, f"{key}.home: {printable(place, 60)} is not there", "Correct the path."
            )


async def runners(setup: FromSettings, *, ask: bool) -> list[Diagnosis]:
    """Each runner that an agent can get here, and whether it works; then the coding agents that nobody uses here."""
    import asyncio

    from interlock.agents.coding.finding import installed_agents

    settings, checks = setup.settings, list[Diagnosis]()
    names = dict.fromkeys(settings.runners)
    names |= dict.fromkeys(one.runner for one in settings.agents.values() if one.runner)
    try:
        default = setup.default_runner()
        names = {default: None, **names}
    except ConfigInvalid as error:
        default = None
        checks.append(Diagnosis("runner", Condition.BROKEN, error.what, error.remedy))
    labels = {name: f"{name} (default)" if name == default else name for name in names}
    checks += await asyncio.gather(*(runner(setup, name, label, ask=ask) for name, label in labels.items()))
    used = {getattr(settings.runners.get(name), "type", name) for name in names}
    for found in await installed_agents(setup.environ):
        if found.agent.name not in used:
            text = f"{found.agent.name}: {found.text}; not used here"
            checks.append(Diagnosis("agent", Condition.OK, text, f"interlock doctor --runner {found.agent.name}"))
    return checks


async def runner(setup: FromSettings, name: str, label: str, *, ask: bool) -> Diagnosis:
    """One runner: found, version and mode of a coding agent, and its answer to a one-line question."""
    from interlock.agents.coding.catalogue import known
    from interlock.agents.coding.probing import NoAnswer, probe
    from interlock.settings import AcpAgent, CodingAgent

    try:
        table, made = setup.settings.runner_named(name), setup.make_runner(name)
        health = await made.health()
    except InterlockError as error:
        return Diagnosis("runner", Condition.BROKEN, f"{label}: {error.what}", error.remedy)
    text = f"{label}: {health.text}"
    if not isinstance(table, CodingAgent | AcpAgent):
        return Diagnosis("runner", Condition.OK if health.ok else Condition.BROKEN, text, health.remedy)
    agent = known(table.type) if isinstance(table, CodingAgent) else None
    mode = (table.mode if isinstance(table, CodingAgent) else None) or (agent.mode if agent else "acp")
    if not health.ok:
        remedy = f"{agent.install}, or name its program: runners.{name}.program" if agent else health.remedy
        return Diagnosis("runner", Condition.BROKEN, text, remedy)
    if not ask:
        return Diagnosis("runner", Condition.OK, f"{text}; mode {mode}; not asked")
    if sys.stderr.isatty():
        complain(f"{label} is asked a question; that may take a minute")
    answer = await probe(made, model=table.model)
    if answer.ok:
        return Diagnosis("runner", Condition.OK, f"{text}; mode {mode}; answers in {answer.seconds:.1f} s")
    text = f"{text}; mode {mode}; does not answer: {printable(answer.text, 300)}"
    state = Condition.NOTE if answer.failure is NoAnswer.LIMIT else Condition.BROKEN
    by_hand = shlex.join([setup.program_of(table), *table.args])
    return Diagnosis("runner", state, text, unanswered(answer.failure, name, table.model, agent, by_hand))


def unanswered(failure: NoAnswer | None, name: str, model: str | None, agent: KnownAgent | None, command: str) -> str:
    """What a person can do about an agent that is there and does not answer."""
    from interlock.agents.coding.probing import NoAnswer

    by_hand = f"Run it by hand and see what it says: {command}"
    match failure:
        case NoAnswer.LIMIT:
            return "Nothing: it will answer again later."
        case NoAnswer.ACCESS:
            return agent.sign_in if agent else f"Sign in with its own program. {by_hand}"
        case NoAnswer.REQUEST:
            return f"Correct runners.{name}.model, which is {model!r}. {by_hand}" if model else by_hand
        case NoAnswer.START:
            return f"{by_hand}. Or name another program: runners.{name}.program"
    return f"Check the network. {by_hand}"


def roles(setup: FromSettings) -> Iterator[Diagnosis]:
    """Where each role comes from: the team's one by one, the shipped ones counted."""
    shipped: Counter[str] = Counter()
    listed: set[str] = set()
    for source in reversed(setup.library.sources()):  # a file may count under two names: the bare one is it
        if source.place == "shipped":
            shipped[source.playbook or ""] += 1
            continue
        if source.source in listed:
            continue
        listed.add(source.source)
        name = f"{source.playbook}/{source.role}" if source.playbook else source.role
        if source.problem is None:
            yield Diagnosis("role", Condition.OK, f"{name}: {source.source}")
        else:
            yield Diagnosis("role", Condition.BROKEN, f"{name}: {source.source}: {source.problem}", "Correct the file.")
    for playbook, count in shipped.items():
        yield Diagnosis("role", Condition.OK, f"{playbook}: {count} shipped roles")


def own_playbooks(setup: FromSettings) -> Iterator[Diagnosis]:
    """The playbooks that do not ship: whether they can be used, who trusts them, and names that are taken twice."""
    for one in setup.finding.listing():
        name, remedy = one.found.name, f"Read it, then: interlock validate {one.found.name} --trust"
        if one.problem is not None:
            text = f"{name}: {one.problem.where or one.found}: {one.problem.what}"
            yield Diagnosis("playbook", Condition.BROKEN, text, one.problem.remedy)
        elif not one.trusted:
            yield Diagnosis("playbook", Condition.NOTE, f"{name}: {one.found}; not trusted, so it is not used", remedy)
        elif one.found.origin is not Origin.SHIPPED:
            yield Diagnosis("playbook", Condition.OK, f"{name}: {one.found}")
        for text in setup.finding.namesakes(name):
            yield Diagnosis(
                "playbook", Condition.NOTE, text, f"Give one of them another name, or ask for it by its path: {name}"
            )


async def uncovered(root: Path, settings: Settings) -> Diagnosis:
    """Ignored files that snapshots do not cover: what is done to them in a layer is not held to a scope (EN-33)."""
    import tempfile

    from interlock.workspace import Scope, Workspace

    watched = Scope(settings.workspace.watch)
    with tempfile.TemporaryDirectory(prefix="interlock-doctor-") as home:  # looking must leave no trace
        index = await Workspace(root, Path(home), watch=settings.workspace.watch).index_of("")
        names = [name for name in await index.left_out() if not watched.covers(name.rstrip("/"))]
    if not names:
        return Diagnosis("snapshots", Condition.OK, "every file of the workspace is covered")
    return Diagnosis(
        "snapshots",
        Condition.NOTE,
        f"ignored by git, so held to no scope (judges' changes are dropped, code writers' are kept): {_some(names)}",
        "Cover those that agents must not change: [workspace] watch = [...] in interlock.toml.",
    )


def locks(root: Path) -> Iterator[Diagnosis]:
    from interlock.engine.locks import holders

    dead = [run for run, (lock, _) in holders(root / HOME).items() if lock.is_free()]
    if not dead:
        yield Diagnosis("locks", Condition.OK, "no lock of a dead process")
    for run in dead:
        text = f"the process of {run} died; the next one takes its lock over"
        yield Diagnosis("locks", Condition.NOTE, text, f"interlock resume {run}")


def journals(root: Path) -> Iterator[Diagnosis]:
    try:
        runs = known_runs(root)
    except InterlockError as error:
        yield Diagnosis("journals", Condition.BROKEN, error.what, error.remedy)
        return
    for known in runs:
        if findings := known.folder.verify():
            text = f"{known.identity.run_id}: {findings[0]}"
            yield Diagnosis("journals", Condition.BROKEN, text, f"interlock recover {known.identity.run_id}")
    for problem in unreadable_runs(root):
        yield Diagnosis("journals", Condition.BROKEN, problem.what, problem.remedy)
    yield Diagnosis("journals", Condition.OK, f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} looked at")


def _some(names: Iterable[str]) -> str:
    return few([printable(name, 60) for name in names], SHOWN)


def _lines(checks: Iterable[Diagnosis]) -> Iterator[str]:
    marks = {Condition.OK: "ok    ", Condition.NOTE: "note  ", Condition.BROKEN: "BROKEN"}
    for check in checks:
        yield f"{marks[check.state]}  {check.subject:<10}  {check.text}"
        if check.remedy and check.state is not Condition.OK:
            yield f"{'':20}to do: {check.remedy}"


# -- a workspace is made ready

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
    from interlock.agents.coding.finding import installed_agents

    if (roles or example) and playbook is None:
        option = "--roles" if roles else "--example"
        raise ConfigInvalid(f"{option} needs to know whose", where="command line", remedy="Add --playbook NAME.")
    clients = [registration(door.root, str(one)) for one in dict.fromkeys(editor or ())]
    agents = finish(installed_agents(door.environ))
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


@command("mcp", example="interlock mcp", panel=WORKSHOP)
def mcp(door: Door) -> int:
    """Serve this workspace to an editor's chat or a coding agent, by MCP on standard input and output."""
    from interlock.engine.nesting import only_people

    only_people(door.environ, door.root, "open this door")
    try:
        from interlock.mcp.server import serve
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ConfigInvalid(
            "the server for MCP needs the official SDK, which is not installed",
            where="interlock mcp",
            found=f"no module {missing.name}",
            remedy="Install interlock with its extra: pip install 'interlock[mcp]'",
        ) from missing
    if sys.stdin.isatty():
        complain(
            "This speaks MCP on its standard input: a client starts it, not a person.",
            f"  register it: {door.spoken('init --editor claude')}   (or codex, vscode, cursor)",
        )
    serve(door.root, door.environ)
    return 0

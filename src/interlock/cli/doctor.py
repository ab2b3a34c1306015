"""`doctor` and `recover`: what interlock finds here, what would keep a run from working, and damaged records."""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlock.cli.commands import WORKSHOP, RunName, command
from interlock.cli.door import Door, finish
from interlock.cli.output import complain
from interlock.documents import few
from interlock.engine.folder import HOME, RunFolder, known_runs, run_folders, unreadable_runs
from interlock.errors import ConfigInvalid, InterlockError, Locked
from interlock.finding import Origin
from interlock.settings.location import is_repository
from interlock.telemetry import printable

if TYPE_CHECKING:
    from interlock.agents.coding.catalogue import KnownAgent
    from interlock.agents.coding.probing import NoAnswer
    from interlock.app import FromSettings
    from interlock.engine.salvage import Salvaged
    from interlock.settings import SandboxSettings, Settings
    from interlock.workspace import Probe

BROKEN = 2
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


@command("recover", example="interlock recover latest", panel=WORKSHOP)
def recover(door: Door, run: RunName) -> int:
    """Put the damaged records of a run back as far as they are whole; what was found is kept beside them."""
    exactly = [folder for folder in run_folders(door.root) if folder.run_id == run]
    folder = exactly[0] if exactly else door.find(run).folder  # also one whose ``run.json`` cannot be read
    said = mend(door, folder)
    door.answer({"run_id": folder.run_id, **asdict(said)}, _told(door, folder, said))
    return 0


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


# -- putting records back


def mend(door: Door, folder: RunFolder) -> Salvaged:
    """Recover the run, with its lock held."""
    from interlock.engine.journal import stamp_now
    from interlock.engine.locks import holders, run_lock
    from interlock.engine.nesting import only_people
    from interlock.engine.salvage import put_back_identity, salvage

    only_people(door.environ, door.root, "recover a run")
    _, holder = holders(door.root / HOME).get(folder.run_id, (None, None))
    if holder is not None and holder.lives:
        raise Locked(
            f"{folder.run_id} is being worked on by {holder}",
            holder=holder.to_json(),
            remedy=f"Wait until it has stopped, or end it: {door.spoken(f'cancel {folder.run_id}')}",
        )
    wrong = put_back_identity(folder)
    identity = folder.identity()
    lock = run_lock(door.root / HOME, identity.playbook, identity.key)
    lock.acquire(folder.run_id)
    try:
        said = salvage(folder, stamp_now)
    finally:
        lock.release()
    if wrong is None:
        return said
    return replace(said, findings=(wrong, *said.findings), mended=("run.json", *said.mended))


def _told(door: Door, folder: RunFolder, said: Salvaged) -> list[str]:
    if not said.findings:
        return [f"{folder.run_id}: nothing is damaged; nothing was changed."]
    lines = [f"{folder.run_id}: {said.lines} lines of its journal are whole."]
    lines += [f"  was wrong: {finding}" for finding in said.findings]
    if said.dropped:
        lines.append(f"  gone: {said.dropped} lines; what they stood for happens again")
    lines += [f"  put back: {name}" for name in said.mended]
    lines += [f"  kept as it was found: {folder.shown(folder.path / name)}" for name in said.aside]
    return [*lines, f"  go on with: {door.spoken(f'resume {folder.run_id}')}"]

"""Puts it together: settings, roles, runners and the engine, for one workspace."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import resources
from pathlib import Path
from typing import Any

from interlock import __version__
from interlock.agents import Book, CommandRunner, RoleLibrary, Runner, Scenario, ScriptedRunner
from interlock.agents.coding.asking import Configured
from interlock.agents.coding.catalogue import KNOWN, make_runner, on_path
from interlock.agents.coding.catalogue import known as known_agent
from interlock.agents.environment import Redaction, without_our_own
from interlock.agents.runner import Needs
from interlock.documents import Store
from interlock.engine.asking import Asking
from interlock.engine.definition import Playbook
from interlock.engine.dry_run import Plan, dry_run
from interlock.engine.folder import HOME, Known, RunFolder, find_run, known_runs
from interlock.engine.host import NOTHING_SPECIAL, Again, Call, Finished, Host, View
from interlock.engine.journal import Tripwire, no_tripwire
from interlock.engine.lifecycle import ended_as
from interlock.engine.options import Options
from interlock.engine.people import Waiting
from interlock.engine.real import RealWorld
from interlock.engine.world import World
from interlock.errors import BadInput, ConfigInvalid, InterlockError
from interlock.playbooks import load
from interlock.settings import AcpAgent, CodingAgent, Command, Scripted, Settings, load_settings
from interlock.workspace import (
    UNPROMISED,
    Bounds,
    Confinement,
    Mode,
    Network,
    Probe,
    Workspace,
    open_layers,
    protected_names,
)


@dataclass(frozen=True)
class Setup:
    """Makes worlds and options from settings."""

    root: Path
    settings: Settings
    environ: Mapping[str, str]
    runner: str | None = None
    """The runner that this process was told to use for all agents."""
    lenient: bool = False
    """Agents that cannot be called are no error before one of them is."""
    tell: Callable[[str], None] = lambda _text: None
    """Hears what a person should know while they wait."""

    def world(self, folder: RunFolder, playbook: Playbook, inputs: Any) -> World:
        book = self.book(playbook)
        if not self.lenient:
            self.check(book, playbook)
        workspace = Workspace(
            self.root,
            self.root / HOME,
            documents=(*playbook.documents(inputs), *playbook.state(inputs)),
            watch=self.settings.workspace.watch,
            tell=self.tell,
        )
        return RealWorld(
            folder,
            workspace,
            book,
            environ=self.environ,
            confine=self.confinement,
            redaction=self.redaction,
        )

    def check(self, book: Book, playbook: Playbook) -> None:
        """`ConfigInvalid` for all that keeps agents from being called here, together."""
        problems: list[InterlockError] = []
        for look in (
            partial(self.check_agents, playbook),
            partial(book.bind_all, playbook.agents),
            self.check_confinement,
        ):
            try:
                look()
            except ConfigInvalid as problem:
                problems += [problem, *problem.also]
        if problems:
            problems[0].also = tuple(problems[1:])
            raise problems[0]

    def check_agents(self, playbook: Playbook) -> None:
        """`ConfigInvalid` for settings of an agent that the playbook does not have: they would never take effect."""
        known = set(playbook.agents)
        for name in self.settings.agents if known else ():
            room, _, agent = name.rpartition("/")
            if room == playbook.name and agent not in known:
                raise ConfigInvalid(
                    f"{playbook.name} has no agent {agent!r}",
                    where=f'interlock.toml: [agents."{name}"]',
                    expected=f"one of {', '.join(playbook.agents)}",
                    found=agent,
                )

    def check_confinement(self) -> None:
        """`ConfigInvalid` where the settings ask for confinement and this machine cannot give it (LY-12)."""
        asked = {self.settings.sandbox.mode, *(table.sandbox.mode for table in self.settings.runners.values())}
        if Mode.STRICT not in asked or self.probe.confined:
            return
        raise ConfigInvalid(
            "agents cannot be confined here, and the settings ask for it",
            where="[sandbox] mode",
            expected='confinement, since mode is "strict"',
            found=self.probe.why,
            remedy=self.probe.remedy or 'Set mode = "auto".',
        )

    @property
    def probe(self) -> Probe:
        """How programs are kept apart here."""
        return open_layers(Workspace(self.root, self.root / HOME), environ=self.environ).probe()

    def confinement(self, runner: Runner | None) -> Confinement:
        """What a program may see and reach: an agent's, or (without one) a command's."""
        sandbox = self.settings.sandbox_for(runner.name if runner is not None else None)
        needs = runner.needs() if runner is not None else Needs()
        home = needs.home or Path(self.environ.get("HOME") or Path.home())
        return Confinement(
            mode=Mode(sandbox.mode),
            network=Network(sandbox.network),
            home=home,
            login=needs.login,
            shown=(*needs.shown, *(home / place for place in sandbox.home)),
            hosts=(*needs.hosts, *sandbox.hosts),
            bounds=Bounds(sandbox.max_bytes, sandbox.max_files),
        )

    @property
    def redaction(self) -> Redaction:
        """Takes the secrets out of everything that is recorded: those of the environment and of the runners' own."""
        own = (runner.env for runner in self.settings.runners.values() if not isinstance(runner, Scripted))
        return Redaction(self.environ, *own)

    def options(self, playbook: Playbook) -> Options:
        return Options(
            budget_usd=self.settings.limits.budget_usd,
            budget_tokens=self.settings.limits.budget_tokens,
            max_parallel=self.settings.limits.parallel(playbook.max_parallel),
            rate_limit_wait_s=self.settings.limits.rate_limit_wait_s,
            protected=protected_names(self.settings.sandbox.protected),
            settings=getattr(self.settings, playbook.name, None),
        )

    def book(self, playbook: Playbook) -> Book:
        return Book(
            playbook.name,
            self.library,
            facts=lambda agent: self._facts(playbook.name, agent),
            default_runner=self.default_runner,
            make_runner=self.make_runner,
            needs_roles=playbook.needs_roles,
        )

    @property
    def library(self) -> RoleLibrary:
        return RoleLibrary(self.root, [resources.files("interlock.playbooks")])

    def _facts(self, playbook: str, agent: str) -> Any:
        facts = self.settings.agent(playbook, agent)
        return facts if self.runner is None else facts.model_copy(update={"runner": self.runner})

    def default_runner(self) -> str:
        """The runner for agents that settings say nothing of: the one that is set, else the first agent on PATH."""
        if name := self.configured_runner or self.found_runner:
            return name
        raise ConfigInvalid(
            "no runner is configured, and no coding agent is found on PATH",
            where="interlock.toml",
            expected='runner = "NAME", or one of these programs: ' + ", ".join(agent.program for agent in KNOWN),
            remedy=(
                f"Install one, for instance {KNOWN[0].title}: {KNOWN[0].install}. Or name a program that acts as the "
                'agent: [runners.mine] with type = "command" and argv = ["program", "argument"]. '
                "Or try it without any agent: --runner scripted"
            ),
        )

    @property
    def configured_runner(self) -> str | None:
        """The runner that somebody named: this process was told it, or the settings have it."""
        only = next(iter(self.settings.runners)) if len(self.settings.runners) == 1 else None
        return self.runner or self.settings.runner or only

    @property
    def found_runner(self) -> str | None:
        """The first known coding agent on PATH."""
        agent = next(on_path(self.environ.get("PATH")), None)
        return agent.name if agent is not None else None

    def make_runner(self, name: str) -> Runner:
        """The runner of this name; `ConfigInvalid` when it cannot be made."""
        match self.settings.runner_named(name):
            case Command() as table:
                return CommandRunner(name, table.argv, table.env, self.environ, root=self.root)
            case Scripted() as table:
                return ScriptedRunner(self._scenario(table.scenario), name=name, inherit=self.environ)
            case CodingAgent() as table:
                configured = Configured(name, self.program_of(table), table.args, table.model, table.env)
                return make_runner(table.type, configured, self.environ, table.mode)
            case AcpAgent() as table:
                configured = Configured(name, self.program_of(table), table.args, table.model, table.env)
                return make_runner("acp", configured, self.environ)

    def program_of(self, table: CodingAgent | AcpAgent) -> str:
        """What is started for a coding agent: a name on PATH, or a path, which counts from the workspace."""
        if isinstance(table, AcpAgent):
            program = table.program
        else:
            program = table.program or known_agent(table.type).program_for(table.mode)
        # Calls start in layers, questions of `doctor` in folders of their own: all must find the same file.
        return str(self.root / program) if "/" in program else program

    def _scenario(self, path: str | None) -> Scenario | None:
        if path is None:
            return None
        document = Store(self.root, self.root / HOME / "attic").read(path)
        return Scenario.parse(document.require("Scenario").text, path)


class Application:
    """What the doors can ask for, in one workspace."""

    def __init__(
        self,
        root: Path,
        view: View,
        *,
        environ: Mapping[str, str],
        runner: str | None = None,
        overrides: Mapping[str, object] | None = None,
        tripwire: Tripwire = no_tripwire,
        again: Again | None = None,
    ) -> None:
        self.root = root.resolve()
        self.view = view
        self.environ = without_our_own(environ, self.root)
        self._runner = runner
        self._overrides = overrides or {}
        self._tripwire = tripwire
        self._again = again

    @cached_property
    def settings(self) -> Settings:
        return load_settings(self.root, self.environ, self._overrides)

    @cached_property
    def setup(self) -> Setup:
        return Setup(self.root, self.settings, self.environ, self._runner, tell=self.view.remark)

    @cached_property
    def host(self) -> Host:
        return Host(
            self.root,
            self.setup,
            self.view,
            environ=self.environ,
            version=__version__,
            tripwire=self._tripwire,
            again=self._again,
        )

    async def run(self, playbook: Playbook, inputs: Any, call: Call = NOTHING_SPECIAL) -> Finished:
        self._say_found_runner()
        self._say_what_is_not_promised()
        try:
            return self._with_caution(await self.host.run(playbook, inputs, call))
        except ConfigInvalid as problem:
            problem.also += tuple(await self._others(playbook, inputs))
            raise

    async def resume(self, name: str, call: Call = NOTHING_SPECIAL) -> Finished:
        known = self.find(name)
        self._say_found_runner()
        if ended_as(known.folder.lines()) is None:
            self._say_what_is_not_promised()
        return self._with_caution(await self.host.resume(known, self.playbook_of(known), call))

    async def decide(self, name: str, choice: str, *, note: str = "", who: str | None = None) -> Waiting:
        known = self.find(name)
        return await self.host.decide(known, self.playbook_of(known), choice, who=who or person(), note=note)

    async def cancel(self, name: str) -> None:
        known = self.find(name)
        await self.host.cancel(known, self.playbook_of(known))

    async def plan(self, playbook: Playbook, inputs: Any) -> Plan:
        """What would happen next, without doing it."""
        return await dry_run(self.host, self.setup, playbook, inputs, version=__version__)

    def asking(self, playbook: Playbook, who: str) -> Asking:
        """This place, for a playbook that looks at it before it knows its inputs."""
        documents = Store(self.root, self.root / HOME / "attic")
        return Asking(documents, self.setup.options(playbook).settings, self.environ, who)

    async def _others(self, playbook: Playbook, inputs: Any) -> list[InterlockError]:
        """What else would keep the playbook from starting, once its agents can be called (EV-27)."""
        setup = replace(self.setup, lenient=True)
        try:
            await dry_run(self.host, setup, playbook, inputs, version=__version__)
        except ConfigInvalid:  # the same once more, where the first agent would have been called
            return []
        except BadInput as other:
            return [other, *other.also]
        except InterlockError:
            return []
        return []

    def _say_found_runner(self) -> None:
        """Nobody named a runner: whoever pays for the agent is told which one is used."""
        if self.setup.configured_runner is None and (name := self.setup.found_runner):
            self.view.remark(
                f'agents are called with {name}, found on PATH (to choose: runner = "..." in interlock.toml)'
            )

    def _say_what_is_not_promised(self) -> None:
        """Once, at the start: where the kernel does not confine agents, people should know (LY-12)."""
        if self.settings.sandbox.mode == "off":
            self.view.remark(f"agents are not confined, since [sandbox] mode is off: {UNPROMISED}.")
        elif not (probe := self.setup.probe).confined:
            self.view.remark(f"agents are not confined here ({probe.why}): {UNPROMISED}. {probe.remedy}".rstrip())

    def _with_caution(self, finished: Finished) -> Finished:
        """Whoever decides at a gate is told when what it shows was made without confinement."""
        if finished.close.gate is None:
            return finished
        if self.settings.sandbox.mode == "off" or not self.setup.probe.confined:
            self.view.remark(f"before you decide: agents were not confined; {UNPROMISED}.")
        return finished

    def find(self, name: str) -> Known:
        return find_run(self.root, name)

    def runs(self) -> list[Known]:
        return known_runs(self.root)

    def playbook_of(self, known: Known) -> Playbook:
        return load(known.identity.playbook)


def person() -> str:
    """Who decides: the user of this process."""
    return f"{getpass.getuser()}@{socket.gethostname()}"

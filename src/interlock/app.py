"""Puts it together: settings, roles, runners and the engine, for one workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from importlib import resources
from pathlib import Path
from typing import Any

from interlock.agents import CommandRunner, RoleLibrary, Roster, Runner, Scenario, ScriptedRunner
from interlock.agents.coding.asking import Configured
from interlock.agents.coding.catalogue import KNOWN, make_runner, on_path
from interlock.agents.coding.catalogue import known as known_agent
from interlock.agents.environment import Redaction, without_our_own
from interlock.agents.runner import ClientNeeds
from interlock.documents import Store
from interlock.engine import prompts
from interlock.engine.asking import Asking
from interlock.engine.definition import Playbook
from interlock.engine.folder import HOME, RunFolder
from interlock.engine.identity import Identity
from interlock.engine.options import Options
from interlock.engine.people import person
from interlock.engine.real_world import RealWorld
from interlock.engine.runs import Runs, Setup, View
from interlock.engine.world import World
from interlock.errors import ConfigInvalid, InterlockError
from interlock.finding.library import Library
from interlock.playbooks import settings_model
from interlock.settings import (
    AcpAgent,
    AnyProgram,
    CodingAgent,
    SandboxSettings,
    Scripted,
    Settings,
    SettingsTable,
    load_settings,
)
from interlock.settings.location import FILE_NAME
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

Tables = tuple[tuple[str, type[SettingsTable] | None], ...]


@dataclass(frozen=True)
class FromSettings(Setup):
    """What runs need, as the settings of their workspace say."""

    root: Path
    environ: Mapping[str, str]
    runner: str | None = None
    """The runner that this process was told to use for all agents."""
    overrides: Mapping[str, object] = field(default_factory=dict)
    playbooks: tuple[Playbook, ...] = ()
    """Playbooks that the program itself brings along."""
    found: Library | None = None
    """The playbooks that can be asked for here; unset: those that can be used without asking anybody."""
    sandbox: SandboxSettings | None = None
    """How programs are kept apart here, whatever the workspace says: for one whose settings others wrote."""
    lenient: bool = False
    """Agents that cannot be called are no error before one of them is."""
    tell: Callable[[str], None] = lambda _text: None
    """Hears what a person should know while they wait."""

    @cached_property
    def finding(self) -> Library:
        return self.found or Library(self.root, self.environ, given=self.playbooks)

    @property
    def settings(self) -> Settings:
        """The settings in force, with the tables of the playbooks that are loaded by now."""
        found = self._settings(tuple(self.finding.tables().items()))
        return found if self.sandbox is None else found.kept_apart(self.sandbox)

    @cached_property
    def _settings(self) -> Callable[[Tables], Settings]:
        return cache(lambda own: load_settings(self.root, self.environ, self.overrides, settings_model(dict(own))))

    def playbook(self, identity: Identity) -> Playbook:
        return self.finding.again(identity)

    def leniently(self) -> FromSettings:
        return replace(self, lenient=True)

    def remarks(self) -> Iterator[str]:
        """Who pays for an agent that nobody named is told which one it is; and who is not protected, so (LY-12)."""
        if self.configured_runner is None and (name := self.found_runner):
            yield f'agents are called with {name}, found on PATH (to choose: runner = "..." in interlock.toml)'
        if self.settings.sandbox.mode == "off":
            yield f"agents are not confined, since [sandbox] mode is off: {UNPROMISED}."
        elif not (probe := self.probe).confined:
            yield f"agents are not confined here ({probe.why}): {UNPROMISED}. {probe.remedy}".rstrip()

    def caution(self) -> str:
        if self.settings.sandbox.mode != "off" and self.probe.confined:
            return ""
        return f"before you decide: agents were not confined; {UNPROMISED}."

    def asking(self, playbook: Playbook) -> Asking:
        """This place, for a playbook that looks at it before it knows its inputs."""
        return Asking(self.documents, self.options(playbook).settings, self.environ, person())

    @property
    def documents(self) -> Store:
        return Store(self.root, self.root / HOME / "attic")

    def world(self, folder: RunFolder, playbook: Playbook, inputs: Any) -> World:
        roster = self.checked_roster(playbook)
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
            roster,
            roster_of=self.checked_roster,
            environ=self.environ,
            confine=self.confinement,
            redaction=self.redaction,
        )

    def checked_roster(self, playbook: Playbook) -> Roster:
        """The agents of a playbook; all of them, and those of playbooks that it calls, can be called here, unless this
        is lenient."""
        roster = self.roster(playbook)
        if not self.lenient:
            self.check((playbook, roster), *((other, self.roster(other)) for other in playbook.all_called))
        return roster

    def check(self, *playbooks: tuple[Playbook, Roster]) -> None:
        """`ConfigInvalid` for all that keeps agents from being called here, together."""
        problems: list[InterlockError] = []
        looks: list[Callable[[], None]] = [partial(self.check_agents, playbook) for playbook, _ in playbooks]
        looks += [partial(roster.bind_all, playbook.agents) for playbook, roster in playbooks]
        looks += [partial(prompts.check, playbook, self.documents) for playbook, _ in playbooks]
        for look in (*looks, self.check_confinement):
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
        if Mode.STRICT in asked:
            self.probe.check(Mode.STRICT)

    @property
    def probe(self) -> Probe:
        """How programs are kept apart here."""
        return open_layers(Workspace(self.root, self.root / HOME), environ=self.environ).probe()

    def confinement(self, runner: Runner | None) -> Confinement:
        """What a program may see and reach: an agent's, or (without one) a command's."""
        sandbox = self.settings.sandbox_for(runner.name if runner is not None else None)
        needs = runner.needs() if runner is not None else ClientNeeds()
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
        """Takes the secrets out of everything that is recorded: those of the environment, of the runners' own, and the
        database of the fleet."""
        own = (runner.env for runner in self.settings.runners.values() if not isinstance(runner, Scripted))
        return Redaction(self.environ, *own).with_values(self.settings.fleet.secrets)

    def options(self, playbook: Playbook) -> Options:
        return Options(
            budget_usd=self.settings.limits.budget_usd,
            budget_tokens=self.settings.limits.budget_tokens,
            max_parallel=self.settings.limits.parallel(playbook.max_parallel),
            rate_limit_wait_s=self.settings.limits.rate_limit_wait_s,
            protected=protected_names(self.settings.sandbox.protected),
            settings=self.table(playbook),
            tables=self.table,
        )

    def table(self, playbook: Playbook) -> Any:
        """The playbook's own settings."""
        return self.settings.of(playbook.name)

    def roster(self, playbook: Playbook) -> Roster:
        return Roster(
            playbook.name,
            self.library,
            facts=lambda agent: self._facts(playbook.name, agent),
            default_runner=self.default_runner,
            make_runner=self.make_runner,
            needs_roles=playbook.needs_roles,
            runners=playbook.runners,
        )

    @property
    def library(self) -> RoleLibrary:
        return RoleLibrary(self.root, [resources.files("interlock.playbooks")], self.finding.homes())

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
            case AnyProgram() as table:
                return CommandRunner(name, table.argv, table.env, self.environ, root=self.root)
            case Scripted() as table:
                return ScriptedRunner(self._scenario(table.scenario), name=name, inherit=self.environ)
            case CodingAgent() as table:
                mode = known_agent(table.type).mode_of(table.mode, f"{FILE_NAME}: runners.{name}.mode")
                configured = Configured(name, self.program_of(table), table.args, table.model, table.env)
                return make_runner(table.type, configured, self.environ, mode)
            case AcpAgent() as table:
                configured = Configured(name, self.program_of(table), table.args, table.model, table.env)
                return make_runner("acp", configured, self.environ)

    def programs_of(self, playbook: Playbook) -> tuple[str, ...]:
        """The programs that its agents are called with; one of several where nobody chose: ``claude|codex``."""
        found = dict[str, None]()
        for one in (playbook, *playbook.all_called):
            for agent in one.agents:
                name = self._facts(one.name, agent).runner or one.runners.get(agent) or self.configured_runner
                match None if name is None else self.settings.runner_named(name):
                    case None:
                        found["|".join(known.program for known in KNOWN)] = None
                    case AnyProgram() as table:
                        found[table.argv[0]] = None
                    case Scripted():
                        continue
                    case table:
                        found[self.program_of(table)] = None
        inside = str(self.root) + "/"  # what lies in the workspace travels with it
        return tuple(one for one in found if "/" not in one or (one.startswith("/") and not one.startswith(inside)))

    def model_of(self, runner: str) -> str | None:
        """The model that the settings of a runner name; None: what its program takes by itself."""
        return getattr(self.settings.runner_named(runner), "model", None)

    def program_of(self, table: CodingAgent | AcpAgent) -> str:
        """What is started for a coding agent: a name on PATH, or a path, which counts from the workspace."""
        if isinstance(table, AcpAgent):
            program = table.program
        else:
            agent = known_agent(table.type)
            program = table.program or agent.program_for(table.mode or agent.mode)
        # Calls start in layers, questions of `doctor` in folders of their own: all must find the same file.
        return str(self.root / program) if "/" in program else program

    def _scenario(self, path: str | None) -> Scenario | None:
        if path is None:
            return None
        return Scenario.parse(self.documents.read(path).require("Scenario").text, path)


def open_runs(root: Path, view: View, *, environ: Mapping[str, str], **more: Any) -> Runs:
    """The runs of a workspace, for a door.

    Args:
        more: `runner`, `overrides`, `playbooks`, `found` and `sandbox` of `FromSettings`; the rest is for `Runs`.
    """
    root = root.resolve()
    environ = without_our_own(environ, root)
    chosen = {name: more.pop(name) for name in ("runner", "overrides", "playbooks", "found", "sandbox") if name in more}
    setup = FromSettings(root, environ, tell=view.remark, **chosen)
    return Runs(root, setup, view, environ=environ, **more)

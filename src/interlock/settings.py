"""All that can be set in `interlock.toml`: one frozen tree, read by `settings_file`; paths in it count from the top."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    Strict,
    create_model,
    model_validator,
)

from interlock.documents.model import Model
from interlock.documents.reading import pointer
from interlock.errors import ConfigInvalid, unknown

FILE = "interlock.toml"
CLIENTS = tuple(sorted(file.stem for file in Path(__file__).parent.glob("agents/clients/[!_]*.py")))
"""Coding agents: the modules there."""
READY = (*CLIENTS, "scripted")
"""Runners that can be named without a table of their own."""
if TYPE_CHECKING:
    RunnerType = str
else:
    RunnerType = Literal[(*CLIENTS, "acp", "command", "scripted")]


def _must(hold: Callable[[Any], bool], said: str) -> AfterValidator:
    def checked(value: Any) -> Any:
        if not hold(value):
            raise ValueError(said)
        return value

    return AfterValidator(checked)


_HOST = re.compile(r"(\*\.)?[\w-]+(\.[\w-]+)*(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?", re.ASCII)
_ADDRESS = re.compile(r"https?://[^\s/]+(/\S*)?")


def _below_home(value: str) -> str:
    path = PurePosixPath(value.removeprefix("~/"))
    if not path.name or ".." in path.parts or path.parts[0].startswith("~"):
        raise ValueError("expected a file or folder below HOME, or an absolute path, without '..'; not HOME as a whole")
    return str(path)


def _can_be_set(variable: str) -> bool:
    return variable != "" and "=" not in variable and not variable.startswith("INTERLOCK_")


Plain = Annotated[str, _must(lambda text: "\0" not in text, "a NUL character cannot be passed to a program")]
Name = Annotated[Plain, Field(min_length=1)]
FileName = Annotated[Name, _must(lambda name: "/" not in name, "expected the name of a file, not a path")]
Glob = Annotated[
    Plain,
    _must(
        lambda glob: glob[:1] not in ("", "/", "~") and ".." not in glob.split("/"),
        "a path pattern must be relative, inside the workspace, without '..'",
    ),
]
Host = Annotated[Plain, _must(_HOST.fullmatch, "expected HOST, HOST:PORT or *.DOMAIN, without a scheme and a path")]
Homely = Annotated[Plain, AfterValidator(_below_home)]
Variable = Annotated[
    Plain, _must(_can_be_set, "a variable needs a name without '=' that does not begin with INTERLOCK_")
]
Address = Annotated[Plain, _must(_ADDRESS.fullmatch, "expected an address that begins with http:// or https://")]
T = TypeVar("T")
Many = Annotated[tuple[T, ...], Strict(False)]
"""TOML has lists; strict models would want a tuple."""
Globs = Annotated[Many[Glob], BeforeValidator(lambda said: [said] if isinstance(said, str) else said)]
Argv = Annotated[Many[Plain], _must(lambda argv: argv and argv[0], "the first item must be the program to start")]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Network = Literal["open", "none", "model"]


class Table(Model):
    """A table of `interlock.toml`; that of a playbook, too."""

    model_config = ConfigDict(strict=True)


class Runner(Table):
    """A coding agent, or any program, and how it is started."""

    type: RunnerType
    argv: Argv | None = Field(
        default=None, description="Of `acp` and `command`: what is started; `{agent}` is filled in."
    )
    program: Name | None = Field(default=None, description="Program of the others; a path counts from the workspace.")
    scenario: Name | None = Field(default=None, description="Of `scripted`: its YAML scenario.")
    model: Name | None = Field(default=None, description="Model to ask for; unset: the agent's own choice.")
    env: dict[Variable, Plain] = Field(default={}, description="Variables that it gets.")
    network: Network | None = Field(default=None, description="What it reaches; unset: as `sandbox.network`.")
    hosts: Many[Host] = Field(default=(), description="What it reaches beside its model, where `network` is `model`.")

    @model_validator(mode="after")
    def _fits(self) -> Runner:
        if self.type in ("acp", "command") and self.argv is None:
            raise ValueError(f"argv is missing: what a runner of type {self.type!r} starts")
        if self.type not in ("acp", "command") and self.argv is not None:
            raise ValueError(f"argv is for types 'acp' and 'command'; one of type {self.type!r} has program")
        return self


class Agent(Table):
    """What differs for one agent; all that is unset comes from its role, the runner and the playbook."""

    runner: Name | None = None
    model: Name | None = None
    timeout_s: Seconds | None = Field(default=None, description="Deadline of one call.")
    writes: Globs | None = Field(default=None, description="What it may change; narrows the role's scope.")
    role: Name | None = Field(default=None, description="A role file, from the workspace, in place of ours.")


class Limits(Table):
    max_parallel: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Agents side by side; lowers a playbook's own number, never raises it."
    )
    budget_usd: Annotated[float, Field(gt=0)] | None = Field(default=None, description="Most that a run spends.")
    budget_tokens: Annotated[int, Field(ge=1)] | None = Field(default=None, description="The same, in tokens.")
    rate_limit_wait_s: float = Field(
        default=691_200, ge=0, le=2_592_000, description="How long a service's limit is waited for."
    )


class SandboxSettings(Table):
    mode: Literal["auto", "strict", "off"] = Field(
        default="auto", description="Confined where the kernel allows it; confined or not at all; a private copy alone."
    )
    network: Network = Field(default="open", description="What programs reach: all, nothing, their model's hosts.")
    hosts: Many[Host] = Field(default=(), description="What `model` lets through besides: HOST, HOST:PORT, *.DOMAIN.")
    home: Many[Homely] = Field(
        default=(), description="Further files and folders of HOME (or absolute) that programs may read."
    )
    env: Many[Variable] = Field(default=(), description="Variables that look like keys and are handed on all the same.")
    max_bytes: int = Field(default=4_000_000_000, ge=1, description="Most that a layer may hold; beyond: no work.")
    max_files: int = Field(default=400_000, ge=1)
    guarded: Many[FileName] | None = Field(
        default=None, description="Files that steer agents or tools, by name; unset: `CLAUDE.md` and its like."
    )
    max_untracked_bytes: int = Field(default=32_000_000, ge=1, description="Larger untracked files are in no snapshot.")


class EvidenceSettings(Table):
    replay: Literal["all", "named", "off"] = Field(default="all", description="Which checks of a judge are run again.")
    replay_s: Seconds = Field(default=600, description="Limit of each.")
    weakened: Literal["tell", "ask"] = Field(default="tell", description="Where a green rests on changed checks.")
    junit: Globs = Field(default=(), description="Where commands leave JUnit reports, beside `TEST-*.xml`.")


class Web(Table):
    address: Address | None = Field(default=None, description="Where people reach the page; stands in notices.")


class Notify(Table):
    command: Argv | None = Field(default=None, description="Called with the run as JSON at gates, ends, trouble.")


class Telemetry(Table):
    otlp: Address | None = Field(default=None, description="Collector that gets runs as traces, by OTLP over HTTP.")


class Fleet(Table):
    remote: Name = Field(default="origin", description="Carries runs: a remote that git knows, or an address.")
    database: Name | None = Field(default=None, description="PostgreSQL that places runs; best in the environment.")
    labels: Many[Name] = Field(
        default=(), description="What a worker was started with (`--label`) that takes runs of this workspace."
    )
    programs: Many[Name] = Field(default=(), description="What it has on PATH, beside what runners start.")


class Settings(Table):
    """All that can be set."""

    runner: Name | None = Field(default=None, description="For all agents; unset: the first one found.")
    judges: Name | None = Field(default=None, description="For agents that judge; unset: as `runner`.")
    runners: dict[Name, Runner] = {}
    agents: dict[Name, Agent] = Field(default={}, description="By role, or `playbook/role`.")
    commands: dict[Name, Name] = Field(default={}, description="`setup` prepares; any other name counts.")
    limits: Limits = Limits()
    sandbox: SandboxSettings = SandboxSettings()
    evidence: EvidenceSettings = EvidenceSettings()
    web: Web = Web()
    notify: Notify = Notify()
    telemetry: Telemetry = Telemetry()
    fleet: Fleet = Fleet()

    _file: str = PrivateAttr("")
    _in_file: dict[tuple[str, ...], Any] = PrivateAttr(default_factory=dict)

    @property
    def file(self) -> str:
        """The file that counts, from the workspace; empty where there is none."""
        return self._file

    def of(self, playbook: str) -> Any:
        """The playbook's own table; None where it has none."""
        return getattr(self, playbook) if playbook in type(self).model_fields.keys() - Settings.model_fields else None

    def agent(self, playbook: str, role: str) -> Agent:
        """What is set for a role: `playbook/role` over `role`, field by field."""
        general, own = (self.agents.get(name, Agent()) for name in (role, f"{playbook}/{role}"))
        return general.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})

    def runner_named(self, name: str) -> Runner:
        """The runner's table, or the plain one of a client that is known; ConfigInvalid names those there are."""
        if (found := self.runners.get(name)) is not None:
            return found
        if name in READY:
            return Runner.model_validate({"type": name})
        raise unknown(
            f"runner {name!r} is not known",
            name,
            sorted({*self.runners, *READY}),
            kind=ConfigInvalid,
            remedy=f"Add [{pointer(('runners', name))}] with its type to {FILE}.",
        )

    def secrets(self) -> dict[str, str]:
        """Values that must be in no record, by what they are called there (RUN-18)."""
        database = {"fleet.database.password": self.fleet.database} if self.fleet.database else {}
        return database | {
            f"runners.{name}.env.{key}": value for name, each in self.runners.items() for key, value in each.env.items()
        }


def reaches_out(settings: Settings) -> dict[str, Any]:
    """What of the file reaches out of a layer, by dotted name: it counts only after a person trusted it (OWN-06)."""
    return {pointer(keys): value for keys, value in settings._in_file.items() if _reaches_out(keys, value)}


def _reaches_out(keys: tuple[str, ...], value: Any) -> bool:
    match keys:
        case (
            ("notify" | "telemetry" | "fleet", *_)
            | ("runners", _, "program" | "argv" | "env" | "hosts", *_)
            | ("sandbox", "hosts" | "home" | "env" | "guarded", *_)
        ):
            return True
        case ("sandbox", "mode"):
            return bool(value == "off")
        case ("sandbox", "max_bytes" | "max_files" as name):
            return bool(value > SandboxSettings.model_fields[name].default)
        case ("runners", _, "network"):
            return bool(value == "open")
    return False


def with_tables(tables: Mapping[str, type[Model]]) -> type[Settings]:
    """The model of all settings, with these tables of playbooks; its JSON Schema is that of `interlock.toml`."""
    fields: dict[str, Any] = {name: (table, Field(default_factory=table)) for name, table in tables.items()}
    return create_model("Settings", __base__=Settings, __doc__=Settings.__doc__, **fields)

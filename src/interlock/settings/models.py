"""The tables of `interlock.toml`, as frozen pydantic models; each playbook has its own in its folder.

Caps (CM-18, EN-45): a setting that is a cap has the playbook's own number as its upper bound, so that a file can
lower it and never raise it.  `Limits.parallel` does the same for the one cap that differs by playbook.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import unquote

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, Strict, create_model

from interlock.errors import ConfigInvalid
from interlock.settings.location import FILE_NAME


def _text(value: str) -> str:
    if "\0" in value:
        raise ValueError("a NUL character cannot be passed to a program")
    return value


def _glob(value: str) -> str:
    if not value or value.startswith(("/", "~")) or ".." in value.replace("\\", "/").split("/"):
        raise ValueError("a path pattern must be relative, inside the workspace, without '..'")
    return value


def _place(value: str) -> str:
    path = PurePosixPath(value.removeprefix("~/"))
    if not path.name or ".." in path.parts or path.parts[0].startswith("~"):
        raise ValueError("expected a file or folder below HOME, or an absolute path, without '..'; not HOME as a whole")
    return str(path)


def _file_name(value: str) -> str:
    if not value or value in (".", "..") or "/" in value:
        raise ValueError("expected the name of a file or folder, without '/'")
    return value


def _host(value: str) -> str:
    if not re.fullmatch(r"(\*\.)?[\w-]+(\.[\w-]+)*(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?", value, re.ASCII):
        raise ValueError("expected HOST, HOST:PORT or *.DOMAIN, without a scheme and a path")
    return value


def _variable(value: str) -> str:
    if not value or "=" in value or value.startswith("INTERLOCK_"):
        raise ValueError("a variable needs a name without '=' that does not begin with INTERLOCK_")
    return value


def _argv(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value or not value[0]:
        raise ValueError("the first item must be the program to start")
    return value


def template(*fields: str) -> Callable[[str], str]:
    """A check that a text names nothing in braces but these fields."""

    def check(value: str) -> str:
        if re.search("[{}]", re.sub(rf"{{({'|'.join(fields)})}}", "", value)):
            raise ValueError(f"only {', '.join(f'{{{name}}}' for name in fields)} can stand in braces")
        return value

    return check


_Text = Annotated[str, AfterValidator(_text)]
Name = Annotated[_Text, Field(min_length=1)]
Texts = Annotated[tuple[_Text, ...], Strict(False)]  # TOML has lists; strict mode would want a tuple
Globs = Annotated[tuple[Annotated[_Text, AfterValidator(_glob)], ...], Strict(False)]
_Places = Annotated[tuple[Annotated[_Text, AfterValidator(_place)], ...], Strict(False)]
Hosts = Annotated[tuple[Annotated[_Text, AfterValidator(_host)], ...], Strict(False)]
FileNames = Annotated[tuple[Annotated[_Text, AfterValidator(_file_name)], ...], Strict(False)]
Environment = Annotated[
    Mapping[Annotated[_Text, AfterValidator(_variable)], _Text], AfterValidator(MappingProxyType), PlainSerializer(dict)
]
Seconds = Annotated[float, Field(gt=0, le=86_400)]


class SettingsTable(BaseModel):
    """A table of `interlock.toml`: immutable, strictly typed, without room for unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class RunnerSandbox(SettingsTable):
    """What one runner's programs may do; what is unset comes from `[sandbox]`."""

    mode: Literal["auto", "strict", "off"] | None = Field(
        default=None, description="How much confinement this runner needs; unset: as `sandbox.mode`."
    )
    network: Literal["open", "model", "none"] | None = Field(
        default=None, description="What this runner's programs reach; unset: as `sandbox.network`."
    )
    hosts: Hosts | None = Field(
        default=None, description="What this runner reaches beside its model; instead of `sandbox.hosts`."
    )
    home: _Places | None = Field(
        default=None, description="What this runner's programs may read of HOME; instead of `sandbox.home`."
    )


class SandboxSettings(SettingsTable):
    """What agents and commands may see, reach and change, beside their layer."""

    mode: Literal["auto", "strict", "off"] = Field(
        default="auto",
        description="Confined by the kernel where it allows that; confined or not at all; or merely a private copy.",
    )
    network: Literal["open", "model", "none"] = Field(
        default="open", description="What confined programs reach: everything, the hosts of their model, or nothing."
    )
    hosts: Hosts = Field(
        default=(),
        description="Hosts that `model` lets through beside the model's own: `HOST`, `HOST:PORT` or `*.DOMAIN`.",
    )
    home: _Places = Field(
        default=(),
        description="Further files and folders of HOME (or absolute paths) that confined programs may read.",
    )
    max_bytes: int = Field(
        default=4_000_000_000, ge=1, description="Most bytes that a layer may hold; over it, nothing is imported."
    )
    max_files: int = Field(
        default=400_000, ge=1, description="Most files that a layer may hold; over it, nothing is imported."
    )
    protected: FileNames | None = Field(
        default=None,
        description="Names of files and folders that no scope covers without naming them; `.git`, `.interlock` and "
        "`interlock.toml` always are; unset: interlock's own list.",
    )


_SANDBOX: Final = "What this runner's programs may do."


class CodingAgent(SettingsTable):
    """A coding agent that interlock knows how to call."""

    type: Literal["claude", "codex", "copilot", "opencode", "gemini", "qwen"] = Field(description="Kind of runner.")
    program: Name | None = Field(
        default=None,
        description="Program to start; a path counts from the workspace; unset: the agent's usual name, on PATH.",
    )
    args: Texts = Field(default=(), description="Further arguments, put after interlock's own.")
    model: Name | None = Field(default=None, description="Model to ask for; unset: the agent's own choice.")
    env: Environment = Field(default_factory=dict, description="Environment variables added for this runner.")
    mode: Literal["headless", "acp"] | None = Field(
        default=None,
        description="How the agent is spoken to: one call per dispatch, or a protocol session. Only `claude` and "
        "`codex` have both; unset: `headless`, and `acp` for `qwen`.",
    )
    sandbox: RunnerSandbox = Field(default_factory=RunnerSandbox, description=_SANDBOX)


class AcpAgent(SettingsTable):
    """Any program that speaks the Agent Client Protocol on its standard input and output."""

    type: Literal["acp"] = Field(description="Kind of runner.")
    program: Name = Field(description="Program to start.")
    args: Texts = Field(default=(), description="Its arguments.")
    model: Name | None = Field(default=None, description="Model to ask for; unset: the agent's own choice.")
    env: Environment = Field(default_factory=dict, description="Environment variables added for this runner.")
    sandbox: RunnerSandbox = Field(default_factory=RunnerSandbox, description=_SANDBOX)


class AnyProgram(SettingsTable):
    """Any program that speaks the plain protocol: brief on standard input, answer on standard output."""

    type: Literal["command"] = Field(description="Kind of runner.")
    argv: Annotated[Texts, AfterValidator(_argv)] = Field(
        description="Program and arguments; `{agent}` and the other fields of the call are filled in."
    )
    env: Environment = Field(default_factory=dict, description="Environment variables added for this runner.")
    sandbox: RunnerSandbox = Field(default_factory=RunnerSandbox, description=_SANDBOX)


class Scripted(SettingsTable):
    """The built-in player of scenarios; needs no agent at all."""

    type: Literal["scripted"] = Field(description="Kind of runner.")
    scenario: Name | None = Field(
        default=None, description="YAML scenario, relative to the workspace; unset: every agent does its part well."
    )
    sandbox: RunnerSandbox = Field(default_factory=RunnerSandbox, description=_SANDBOX)


RunnerSettings = CodingAgent | AcpAgent | AnyProgram | Scripted
Runners = Annotated[
    Mapping[Name, Annotated[RunnerSettings, Field(discriminator="type")]],
    AfterValidator(MappingProxyType),
    PlainSerializer(dict),
]

READY_RUNNERS: Final = ("claude", "codex", "copilot", "opencode", "gemini", "qwen", "scripted")
"""Usable by name without a table of their own."""


class AgentSettings(SettingsTable):
    """What differs for one agent; everything unset comes from the role, the runner and the playbook."""

    runner: Name | None = Field(default=None, description="Runner for this agent; unset: the default runner.")
    timeout_s: Seconds | None = Field(default=None, description="Deadline of one call, in seconds; unset: by its kind.")
    model: Name | None = Field(default=None, description="Model for this agent; unset: the runner's.")
    writes: Globs | None = Field(default=None, description="Paths the agent may change; unset: the role's scope.")


Agents = Annotated[Mapping[Name, AgentSettings], AfterValidator(MappingProxyType), PlainSerializer(dict)]


class Limits(SettingsTable):
    """Bounds of every run."""

    max_parallel: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Agents side by side; lowers the playbook's own number, never raises it."
    )
    budget_usd: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="Most that a run spends: agents get their share of it and are ended at it; unset: no budget.",
    )
    budget_tokens: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="The same in tokens, for agents that know no price; unset: no budget."
    )
    rate_limit_wait_s: float = Field(
        default=3600,
        ge=0,
        le=604_800,
        description="How long a dispatch waits in all for its agent's rate limit to pass; beyond that the run pauses.",
    )

    def parallel(self, own: int) -> int:
        """How many agents may work side by side where the playbook itself allows `own`."""
        return own if self.max_parallel is None else min(own, self.max_parallel)


class WorkspaceSettings(SettingsTable):
    """How the working tree is watched."""

    watch: Globs = Field(default=(), description="Ignored files that snapshots cover all the same.")


class NotifySettings(SettingsTable):
    """How a person who is elsewhere learns of a run."""

    on: Annotated[tuple[Literal["gate", "end", "trouble"], ...], Strict(False)] = Field(
        default=("gate", "end", "trouble"),
        description="What they are told: that a run waits for a decision, has ended, or that something went wrong.",
    )
    command: Annotated[Texts, AfterValidator(_argv)] | None = Field(
        default=None,
        description="Program and arguments: the facts come as JSON on its standard input, a sentence in `$NOTICE`.",
    )
    urls: Texts = Field(
        default=(),
        description="Where apprise sends the sentence, such as `ntfy://my-topic`; needs `interlock[notify]`.",
    )


def _collector(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/]+(/\S*)?", value):
        raise ValueError("expected http://HOST:PORT or https://HOST, where a collector takes OTLP over HTTP")
    return value


class TelemetrySettings(SettingsTable):
    """Where runs are sent as traces."""

    otlp: Annotated[Name, AfterValidator(_collector)] | None = Field(
        default=None,
        description="Collector that gets runs as traces and metrics, by OTLP over HTTP, such as "
        "`http://localhost:4318`; needs `interlock[otel]`; unset: nothing is sent.",
    )


class McpSettings(SettingsTable):
    """What clients of `interlock mcp` may do."""

    gates: Literal["command", "elicit"] = Field(
        default="command",
        description="Who decides at a gate: a person by a command of theirs, or also the person at the client, which "
        "asks them (MCP elicitation).",
    )


def _label(value: str) -> str:
    if not re.fullmatch(r"[\w.-]{1,40}", value):
        raise ValueError("expected a word of letters, digits, '.', '_' and '-', of at most 40 characters")
    return value


_Label = Annotated[_Text, AfterValidator(_label)]
_Labels = Annotated[tuple[_Label, ...], Strict(False)]


class FleetSettings(SettingsTable):
    """How runs reach other machines."""

    remote: Name = Field(default="origin", description="Remote, by name or address, that carries runs between clones.")
    database: Name | None = Field(
        default=None,
        repr=False,
        description="PostgreSQL database with the fleet's queue, as `postgresql://USER:PASSWORD@HOST/NAME`; needs "
        "`interlock[fleet]`. A secret: better in the environment, since agents can read `interlock.toml`.",
    )
    queue: _Label = Field(default="default", description="Queue that `submit` puts runs into.")
    labels: _Labels = Field(default=(), description="What a worker here has, such as `gpu`, for runs that ask for it.")
    repositories: Texts = Field(
        default=(),
        description="Addresses of the repositories that a worker here serves; unset: the remote of its folder.",
    )
    heartbeat_s: Seconds = Field(
        default=5.0,
        description="Seconds between two signs of life of a worker; one that gave none for five times as long counts "
        "as dead, and others go on with its run.",
    )
    poll_s: Seconds = Field(default=2.0, description="Seconds between two looks of a worker into the queue.")
    stall_s: Seconds = Field(
        default=60.0,
        description="A worker that reached neither database nor remote for so long ends its agents and itself.",
    )
    folder: Name | None = Field(
        default=None, description="Where a worker keeps its clones; unset: `.interlock/fleet` in its folder."
    )

    @property
    def secrets(self) -> dict[str, str]:
        """What must never be written down, by a name for it: an address with a password in it, and that password."""
        address = self.database or ""
        keyword = re.search(r"\bpassword\s*=\s*(?:'((?:[^'\\]|\\.)*)'|([^\s&]+))", address)
        in_url = re.match(r"\w+://[^/@]*?:([^/]*)@", address)
        passwords = [one for found in (keyword, in_url) if found for one in found.groups() if one]
        known = {"fleet.database": address} if passwords else {}
        for number, word in enumerate(passwords):
            known |= {f"fleet.database.{number}": word, f"fleet.database.{number}.plain": unquote(word)}
        return known


class Settings(SettingsTable):
    """Settings of interlock; `with_tables` adds those of playbooks."""

    runner: Name | None = Field(default=None, description="Default runner; unset: the first known agent on PATH.")
    runners: Runners = Field(default_factory=dict, description="Runners by name.")
    agents: Agents = Field(default_factory=dict, description="Agents by `role` or `playbook/role`.")
    limits: Limits = Field(default_factory=Limits)
    workspace: WorkspaceSettings = Field(default_factory=WorkspaceSettings)
    sandbox: SandboxSettings = Field(default_factory=SandboxSettings)
    notify: NotifySettings = Field(default_factory=NotifySettings)
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)
    mcp: McpSettings = Field(default_factory=McpSettings)
    fleet: FleetSettings = Field(default_factory=FleetSettings)

    def of(self, playbook: str) -> Any:
        """The playbook's own table; None where it has none."""
        return getattr(self, playbook, None)

    def agent(self, playbook: str, role: str) -> AgentSettings:
        """What is set for a role in a playbook: `playbook/role` over `role`, field by field (EN-43)."""
        general, own = (self.agents.get(name, AgentSettings()) for name in (role, f"{playbook}/{role}"))
        return general.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})

    def sandbox_for(self, runner: str | None = None) -> SandboxSettings:
        """What this runner's programs may do, its own table over `[sandbox]`; without a runner, what commands may."""
        own = self.runner_named(runner).sandbox.model_dump(exclude_none=True) if runner is not None else {}
        return self.sandbox.model_copy(update=own)

    def kept_apart(self, sandbox: SandboxSettings) -> Self:
        """The same, with programs kept apart as somebody else says, those of each runner too."""
        runners = {
            name: table.model_copy(update={"sandbox": type(table.sandbox)()}) for name, table in self.runners.items()
        }
        both = sandbox.model_copy(update={"protected": self.sandbox.protected})  # that protects the workspace itself
        return self.model_copy(update={"sandbox": both, "runners": runners})

    def runner_named(self, name: str) -> RunnerSettings:
        """The runner's table, or the defaults of a known agent; `ConfigInvalid` names the runners there are."""
        if (found := self.runners.get(name)) is not None:
            return found
        if name == "scripted":
            return Scripted(type="scripted")
        if name in READY_RUNNERS:
            return CodingAgent.model_validate({"type": name})
        raise ConfigInvalid(
            f"runner {name!r} is not known",
            expected=f"one of {', '.join(sorted({*self.runners, *READY_RUNNERS}))}",
            found=name,
            remedy=f"Add [runners.{quoted(name)}] with its type to {FILE_NAME}, or choose one of these.",
        )


OpenTable = dict[str, Any]
"""A table of a playbook that is not loaded: it may hold anything."""


def is_taken(name: str) -> bool:
    """Whether a table of a playbook cannot have this name, since the settings themselves have something under it."""
    return name in Settings.model_fields or hasattr(Settings, name)


def with_tables(tables: Mapping[str, type[SettingsTable] | None]) -> type[Settings]:
    """The settings of interlock with a table for each of these playbooks, by their names.

    What a table without a type holds is not looked at: its playbook says what may stand there when it is loaded.
    """
    return _with_tables(tuple(tables.items()))


@cache
def _with_tables(tables: tuple[tuple[str, type[SettingsTable] | None], ...]) -> type[Settings]:
    fields: dict[str, Any] = {
        name: (table, Field(default_factory=table)) if table is not None else (OpenTable, Field(default={}))
        for name, table in tables
    }
    return create_model("Settings", __base__=Settings, __doc__="Settings of interlock.", **fields)


REMOVED: Final[Mapping[tuple[str, ...], str]] = MappingProxyType(
    dict.fromkeys(
        (("workspace", "isolate"), ("workspace", "outbox")),
        "Every dispatch has a layer of its own now, from which only accepted work is imported: delete this line.",
    )
)
"""Settings that older files may still have, and what to do about each."""


def quoted(name: str) -> str:
    """A part of a dotted key as TOML wants it written."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else '"' + name.replace('"', '\\"') + '"'

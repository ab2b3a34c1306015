"""All commands, and how a function becomes one: its own parameters, plus the common options it honours."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from interlock.cli.door import Door, Errand
from interlock.cli.failures import Interrupted, ReaderGone
from interlock.cli.output import print_lines
from interlock.errors import ConfigInvalid
from interlock.telemetry.lines import printable

RUN: Final = "Run"
LOOK: Final = "Look"
DECIDE: Final = "Decide"
ELSEWHERE: Final = "On other machines"
WORKSHOP: Final = "Set up and check"
"""The groups in which the help lists the commands, in the order in which a newcomer meets them."""

HOMES = {
    "run": "run",
    "resume": "run",
    "plan": "plan",
    "watch": "history",
    "runs": "runs",
    "logs": "history",
    "report": "runs",
    "show": "runs",
    "diff": "history",
    "why": "history",
    "approve": "gates",
    "reject": "gates",
    "answer": "gates",
    "cancel": "gates",
    "web": "runs",
    "send": "moving",
    "take": "moving",
    "fetch": "moving",
    "submit": "submit",
    "worker": "submit",
    "fleet": "fleet",
    "init": "workshop",
    "adopt": "playbooks",
    "validate": "plan",
    "rehearse": "plan",
    "playbooks": "playbooks",
    "new": "playbooks",
    "doctor": "workshop",
    "recover": "runs",
    "mcp": "workshop",
}
"""Each command and its module here, in the order of the help."""


class Homes(Mapping[str, Any]):
    """The commands; each is imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        return getattr(import_module(f"interlock.cli.{HOMES[name]}"), name)

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)


class CommandGroup(TyperGroup):
    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.commands = Homes()  # type: ignore[assignment]

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return list(self.commands)


# -- what the shell offers for a half-typed word: never an error, a shell has no place to show one


def complete_run(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of the workspace's runs, the latest first."""
    from interlock.engine.folder import known_runs
    from interlock.errors import InterlockError
    from interlock.settings import find_workspace

    try:
        root = find_workspace(Path.cwd(), _workspace(context))
        names = [known.identity.run_id for known in reversed(known_runs(root))]
    except (InterlockError, OSError):
        return []
    return [name for name in ("latest", *names) if name.startswith(incomplete) and name.isprintable()] if names else []


def complete_playbook(context: typer.Context, incomplete: str) -> list[str]:
    """The playbooks that are here, by their names; none is loaded for it."""
    from interlock.errors import InterlockError
    from interlock.finding import Library
    from interlock.settings import find_workspace

    try:
        names = Library(find_workspace(Path.cwd(), _workspace(context)), os.environ).names()
    except (InterlockError, OSError):
        return []
    return [name for name in names if name.startswith(incomplete) and name.isprintable()]


def complete_runner(context: typer.Context, incomplete: str) -> list[str]:
    """The runners of interlock.toml, and those that need no table there."""
    from interlock.errors import InterlockError
    from interlock.settings import READY_RUNNERS, find_workspace, load_settings

    try:
        own = tuple(load_settings(find_workspace(Path.cwd(), _workspace(context)), os.environ).runners)
    except (InterlockError, OSError):
        own = ()
    return sorted({name for name in (*own, *READY_RUNNERS) if name.startswith(incomplete)})


def _workspace(context: typer.Context) -> Path | None:
    """The workspace that was typed so far, before or after the command."""
    while context is not None:
        if (typed := context.params.get("workspace")) is not None:
            return Path(typed)
        if context.parent is None:
            return None
        context = context.parent  # type: ignore[assignment]
    return None


# -- the common options


WorkspaceFolder = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        "-C",
        metavar="DIR",
        help="Workspace to work in. Default: the nearest parent folder with interlock.toml, else the git top level.",
        show_default=False,
    ),
]
WorkspaceFolders = Annotated[
    list[Path] | None,
    typer.Option(
        "--workspace",
        "-C",
        metavar="DIR",
        help="Workspace to show; may be given several times. Default: the one that all commands work in.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout; progress goes to stderr.")]
RunnerName = Annotated[
    str | None,
    typer.Option(
        "--runner",
        metavar="NAME",
        help="Runner for all agents, instead of what interlock.toml says.",
        autocompletion=complete_runner,
        show_default=False,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Show the next step and its brief; change nothing. The whole way: interlock plan."),
]
NewRun = Annotated[bool, typer.Option("--new-run", help="Start a new run although the last one is complete.")]
TakeOver = Annotated[
    bool, typer.Option("--take-over", help="Take over the lock of another machine that surely works no more.")
]
BudgetLimit = Annotated[
    float | None,
    typer.Option("--budget", metavar="USD", min=0.0, help="Wait for a person before spending more than this."),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Tell the bookkeeping too, and what agents say and do.")]
AcceptBaseline = Annotated[
    bool,
    typer.Option(
        "--accept-baseline", help="Named commands may fail before the work begins; only what fails newly counts."
    ),
]
NoPreflight = Annotated[
    bool, typer.Option("--no-preflight", help="Call agents without looking first whether they and the commands work.")
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="I have read the playbook: its code may be used, as it is now. Asked for once on a terminal."
    ),
]

Detach = Annotated[
    bool, typer.Option("--detach", help="Go on in the background, as a process of its own; see: interlock watch.")
]
Fields = Annotated[
    str | None,
    typer.Option(
        "--fields",
        metavar="NAME,...",
        help="With --json, which this implies: only these fields; of a field in a field, as totals.cost_usd.",
        show_default=False,
    ),
]

HELP = {"help_option_names": ["-h", "--help"]}
CARRIES = ("runner", "dry_run", "take_over", "budget", "accept_baseline", "no_preflight", "verbose", "trust", "detach")
"""What commands honour that carry a run on."""
STARTS = (*CARRIES, "new_run")
"""What commands honour that start one."""

RunName = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="The run: its id, the beginning of it, or 'latest'.",
        autocompletion=complete_run,
        show_default=False,
    ),
]
LatestRun = Annotated[
    str,
    typer.Argument(
        metavar="[RUN]",
        help="The run: its id, the beginning of it, or 'latest', which is the default.",
        autocompletion=complete_run,
        show_default=False,
    ),
]
"""For commands that only look: without a name the run that began last is meant."""
Note = Annotated[
    str,
    typer.Option(
        "--note", metavar="TEXT", help="Words for whoever works next; kept in the journal.", show_default=False
    ),
]
PlaybookName = Annotated[
    str,
    typer.Argument(
        metavar="PLAYBOOK",
        help="The playbook: its name, or a path.",
        autocompletion=complete_playbook,
        show_default=False,
    ),
]

_ALWAYS: Final[Mapping[str, Any]] = {"workspace": (WorkspaceFolder, None), "json": (Json, False)}
SEVERAL: Final[Mapping[str, Any]] = {"workspace": (WorkspaceFolders, None)}
"""For a command that shows several workspaces, and has nothing to say to programs."""
_ON_REQUEST = {
    "runner": (RunnerName, None),
    "dry_run": (DryRun, False),
    "new_run": (NewRun, False),
    "take_over": (TakeOver, False),
    "budget": (BudgetLimit, None),
    "accept_baseline": (AcceptBaseline, False),
    "no_preflight": (NoPreflight, False),
    "verbose": (Verbose, False),
    "detach": (Detach, False),
    "fields": (Fields, None),
    "trust": (Trust, False),
}
SWITCHES: Final = frozenset(
    f"--{name.replace('_', '-')}" for name, (_, default) in {**_ALWAYS, **_ON_REQUEST}.items() if default is False
)
"""Common options that take no value."""
_BEFORE = (*_ALWAYS, "runner", "dry_run")
"""Options that may also stand before the command."""


def command(
    name: str,
    *,
    example: str,
    honours: tuple[str, ...] = (),
    panel: str | None = None,
    always: Mapping[str, Any] = _ALWAYS,
    **more: Any,
) -> Callable[[Callable[..., int]], Any]:
    """Make a function ``(door, ...) -> exit code`` the command `name`, with the common options it honours.

    Its docstring is the help; `example` stands below the options.
    """

    def make(function: Callable[..., int]) -> Any:
        kinds = {**always, **{one: _ON_REQUEST[one] for one in honours}}

        def run(**given: Any) -> int:
            errand: Errand = given.pop("context").obj
            own = {one: given.pop(one) for one in kinds}
            check_words(given)
            try:
                code = function(Door.of(errand, own), **given)
                sys.stdout.flush()
            except BrokenPipeError as gone:
                raise ReaderGone from gone
            except KeyboardInterrupt as interrupt:
                raise Interrupted from interrupt
            return code

        _dress(run, function, kinds)
        app = typer.Typer(add_completion=False)
        how = {"epilog": f"Example: {example}", "rich_help_panel": panel, "context_settings": HELP, **more}
        app.command(name, **how)(run)
        return typer.main.get_command(app)

    return make


def check_words(given: Mapping[str, Any]) -> None:
    """Refuse text that no document could hold. Paths are no text: a file may be called as it likes."""
    for name, value in given.items():
        for word in value if isinstance(value, list) else [value]:
            try:
                word.encode() if isinstance(word, str) else None
            except UnicodeEncodeError:
                raise ConfigInvalid(
                    f"{name.strip('_').upper()} is not valid UTF-8",
                    where="command line",
                    expected="text in UTF-8",
                    found=printable(word),
                    remedy="Type it anew, in a terminal with a UTF-8 locale.",
                ) from None


def _dress(run: Any, function: Callable[..., int], kinds: dict[str, Any]) -> None:
    """Give `run` the face that typer reads: the function's own parameters, then the common ones."""
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("context", keyword, annotation=typer.Context),
        *(parameter.replace(kind=keyword) for parameter in own),
        *(
            inspect.Parameter(name, keyword, default=default, annotation=kind)
            for name, (kind, default) in kinds.items()
        ),
    ]
    run.__signature__ = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = function.__doc__
    run.__name__ = function.__name__


def before(
    context: typer.Context,
    workspace: WorkspaceFolder = None,
    json: Json = False,
    runner: RunnerName = None,
    dry_run: DryRun = False,
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version.")] = False,
) -> None:
    """Run development processes with coding agents: agents do the work, code decides."""
    if version:
        from interlock import __version__

        print_lines([f"interlock {__version__}"])
        raise typer.Exit
    context.obj = context.obj or Errand()
    given = {"workspace": workspace, "json": json, "runner": runner, "dry_run": dry_run}
    context.obj.given = {name: given[name] for name in _BEFORE}


def build() -> typer.Typer:
    """The command line."""
    return typer.Typer(
        name="interlock",
        cls=CommandGroup,
        callback=before,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings=HELP,
        epilog="First steps: interlock init, then: interlock doctor",
    )


app = build()

"""All commands, and how a function becomes one: its own parameters, plus the options of `Door` that it honours."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from interlock.cli.door import SHARED, Door, Errand, complete_playbook, complete_run
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
    "send": "fleet",
    "take": "fleet",
    "fetch": "fleet",
    "submit": "fleet",
    "worker": "fleet",
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


class PlainHelp:
    """Its help names what people type: a switch takes no value, and an argument is its name."""

    def get_params(self, ctx: typer.Context) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for one in found:
            if isinstance(one, TyperArgument) or one.is_flag:
                one.display_type_rich = lambda ctx: None
        return found


class TypedCommand(PlainHelp, TyperCommand):  # type: ignore[misc]
    pass


class CommandGroup(PlainHelp, TyperGroup):  # type: ignore[misc]
    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.commands = Homes()  # type: ignore[assignment]

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return list(self.commands)


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

_ALWAYS: Final = ("workspace", "json")
_BEFORE: Final = (*_ALWAYS, "runner", "dry_run")
"""Options that may also stand before the command."""


def command(
    name: str,
    *,
    example: str,
    honours: tuple[str, ...] = (),
    panel: str | None = None,
    several: bool = False,
    **more: Any,
) -> Callable[[Callable[..., int]], Any]:
    """Make a function ``(door, ...) -> exit code`` the command `name`, with the common options it honours.

    Its docstring is the help; `example` stands below the options.

    Args:
        several: it shows several workspaces, and has nothing to say to programs.
    """

    def make(function: Callable[..., int]) -> Any:
        kinds = _common(*_ALWAYS, *honours) if not several else [_WORKSPACES]

        def run(**given: Any) -> int:
            errand: Errand = given.pop("context").obj
            own = {one.name: given.pop(one.name) for one in kinds}
            check_words(given)
            try:
                code = function(Door.of(errand, own), **given)
                sys.stdout.flush()
            except BrokenPipeError as gone:
                raise ReaderGone from gone
            except KeyboardInterrupt as interrupt:
                raise Interrupted from interrupt
            return code

        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        _dress(run, function, [*own, *kinds])
        how = {"epilog": f"Example: {example}", "rich_help_panel": panel, "context_settings": HELP, **more}
        return made(run, name, **how)

    return make


def made(function: Callable[..., Any], name: str | None = None, **how: Any) -> Any:
    """The command that typer makes of a function."""
    app = typer.Typer(add_completion=False)
    app.command(name, **{"cls": TypedCommand, **how})(function)
    return typer.main.get_command(app)


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


def _common(*names: str) -> list[inspect.Parameter]:
    """Options that commands share, as typer reads them."""
    return [parameter(name, *SHARED[name]) for name in names]


def parameter(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """An argument or option, as typer reads it from a function."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


_WORKSPACES: Final = parameter(
    "workspace",
    Annotated[
        list[Path] | None,
        typer.Option(
            "--workspace",
            "-C",
            metavar="DIR",
            help="Workspace to show; may be given several times. Default: the one that all commands work in.",
            show_default=False,
        ),
    ],
    None,
)


def _dress(run: Any, function: Callable[..., Any], asked: Iterable[inspect.Parameter]) -> None:
    """Give `run` the face that typer reads: the name and the help of `function`, and what is asked for."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [parameter("context", typer.Context), *(one.replace(kind=keyword) for one in asked)]
    run.__signature__ = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = function.__doc__
    run.__name__ = function.__name__


def before(context: typer.Context, *, version: bool, **given: Any) -> None:
    """Run development processes with coding agents: agents do the work, code decides."""
    if version:
        from interlock import __version__

        print_lines([f"interlock {__version__}"])
        raise typer.Exit
    context.obj = context.obj or Errand()
    context.obj.given = given


_VERSION: Final = parameter(
    "version", Annotated[bool, typer.Option("--version", "-V", help="Print the version.")], False
)
_dress(before, before, [*_common(*_BEFORE), _VERSION])


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

"""`playbooks` and `new`; and the commands that playbooks become, of `run`, `plan` and `resume`.

What the types of a playbook say becomes arguments and options: of `run`, and of what moves a run with `resume`.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer
from typer.core import TyperGroup

from interlock.cli.commands import HELP, RUN, STARTS, WORKSHOP, PlainHelp, TypedCommand, command, made, parameter
from interlock.cli.door import SHARED, Door, option_of
from interlock.cli.output import at_terminal, complain, put_beside, wrapped
from interlock.errors import InterlockError
from interlock.playbooks import NAMES, load
from interlock.telemetry import printable

if TYPE_CHECKING:
    from interlock.engine import Playbook
    from interlock.engine.asking import Question
    from interlock.finding import Asks, Library, Offered, Request


@command("playbooks", example="interlock playbooks", panel=RUN)
def playbooks(door: Door) -> int:
    """List the playbooks that can be run here: purpose, origin and inputs; nothing of the workspace is executed."""
    listed = door.library.listing()
    door.answer([_facts(one) for one in listed], [line for one in listed for line in _lines(one)])
    return 0


def _facts(one: Offered) -> dict[str, Any]:
    return {
        "name": one.found.name,
        "origin": one.found.origin.value,
        "place": one.found.place,
        "purpose": one.purpose,
        "inputs": None if one.inputs is None else [asdict(asks) for asks in one.inputs],
        "trusted": one.trusted,
        "problem": None if one.problem is None else {"what": one.problem.what, **dict(one.problem.parts())},
        "hides": [str(hidden) for hidden in one.hides],
    }


def _lines(one: Offered) -> Iterator[str]:
    from interlock.finding import UNKNOWN

    yield from wrapped(f"{printable(one.found.name)}  {printable(one.purpose)}".rstrip())
    yield from wrapped(f"from: {printable(str(one.found))}{'' if one.trusted else ' (not trusted yet)'}", "  ")
    if one.problem is not None:
        yield from wrapped(f"cannot be used: {printable(one.problem.what, 300)}", "  ")
    else:
        asked = UNKNOWN if one.inputs is None else ", ".join(map(_asked, one.inputs)) or "none"
        yield from wrapped(f"inputs: {asked}", "  ")
    for hidden in one.hides:
        yield from wrapped(f"hides: {printable(str(hidden))}, which has the same name", "  ")


def _asked(asks: Asks) -> str:
    shown = f"{asks.name}: {asks.kind}"
    return printable(shown if asks.required else f"[{shown}]", 120)


@command("new", example="interlock new release", panel=WORKSHOP)
def new(
    door: Door,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called.", show_default=False)],
    yaml: Annotated[bool, typer.Option("--yaml", help="Declare the process in YAML, instead of Python.")] = False,
) -> int:
    """Write a new playbook to .interlock/playbooks/NAME/: it validates, rehearses and runs as it is."""
    from interlock.finding.starting import start

    written = start(door.root, name, yaml=yaml, trust=door.library.trust)
    steps = (
        f"rehearse {name}",
        f'run {name} "What is to be done" --runner scripted',
        f'run {name} "What is to be done"',
    )
    advice = [door.spoken(step) for step in steps]
    door.answer({"playbook": name, "written": written, "next": advice}, [f"written  {path}" for path in written])
    complain(
        "You made it, so it is trusted as it is; interlock asks again when a file of it has changed.",
        f"Its test: python -m pytest {written[0].rpartition('/')[0]}",
        *(f"Then: {one}" for one in advice),
    )
    return 0


class Playbooks(PlainHelp, TyperGroup):  # type: ignore[misc]
    """The sub-commands of `run`: a playbook is loaded when it is asked for, and only described where all are listed."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return [one.found.name for one in _listing(ctx)]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        listed = next((one for one in _listing(ctx) if one.found.name == cmd_name), None)
        if listed is None:
            return None
        if listed.found.origin.needs_trust or listed.problem is not None:
            return described(cmd_name, printable(listed.purpose))
        return self.command_of(_library(ctx)[0].load(cmd_name), cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        word, *rest = args
        if word.startswith("-"):
            return super().resolve_command(ctx, args)
        try:
            library, here = _library(ctx, rest)
            playbook = library.load(word, here)
        except (InterlockError, OSError):
            if ctx.resilient_parsing:  # a shell that completes has no place to show an error
                return None, None, rest
            raise
        return word, self.command_of(playbook, word), rest

    def command_of(self, playbook: Playbook, word: str) -> Any:
        """What the word stands for that names a playbook."""
        return command_for(playbook, word)


def _library(ctx: typer.Context | None, rest: Sequence[str] = ()) -> tuple[Library, Path]:
    """The playbooks that can be asked for, and from where paths are named; seen before the line is parsed."""
    from interlock.settings import find_workspace

    ahead, errand = peek(rest), ctx.obj if ctx is not None else None
    given = errand.given if errand is not None else {}
    completing = ctx is not None and ctx.resilient_parsing
    workspace = ahead.workspace or given.get("workspace")
    root = find_workspace(Path.cwd(), workspace)
    silent = ahead.json or bool(given.get("json")) or completing
    found = library(root, trust=ahead.trust and not completing, json=silent)
    if errand is not None:
        errand.library = found
    return found, root if workspace is not None else Path.cwd()


def library(root: Path, *, trust: bool, json: bool) -> Library:
    """The playbooks of a workspace, for somebody at the command line.

    Args:
        trust: they have said so already, with --trust.
        json: a program reads the answer: nobody is asked.
    """
    from interlock.finding import Library

    def consent(request: Request) -> bool:
        if trust:
            complain(f"Trusted from now on: {request.what}, digest {request.bundle.digest}")
            return True
        return not json and at_terminal() and asked(request)

    return Library(root, os.environ, consent=consent)


def asked(request: Request) -> bool:
    """What the person at the terminal says; anything but yes is no."""
    complain(f"{request.why}. It would be loaded and executed:", *request.lines)
    put_beside("Do you trust it? It can do what you can do. [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class Peek(NamedTuple):
    """What is said further along a command line that is not parsed yet."""

    workspace: Path | None
    trust: bool
    json: bool


def peek(arguments: Sequence[str]) -> Peek:
    """The options that decide which playbook is meant, and whether it may be loaded: before its own are known."""
    words = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    workspace = None
    for number, word in enumerate(words):
        if word in ("-C", "--workspace") and number + 1 < len(words):
            workspace = Path(words[number + 1])
        elif word.startswith("--workspace="):
            workspace = Path(word.partition("=")[2])
        elif word.startswith("-C") and len(word) > 2:
            workspace = Path(word[2:])
    return Peek(workspace, _trusting(words), "--json" in words)


def _trusting(words: Sequence[str]) -> bool:
    """Whether --trust is surely an option: behind one that may take a value, it may be somebody's text."""
    switches = {option_of(name) for name, (_, default) in SHARED.items() if default is False}
    return any(
        word == "--trust" and (not above.startswith("-") or "=" in above or above in switches)
        for above, word in zip(["", *words], words, strict=False)
    )


def _listing(ctx: typer.Context | None) -> Sequence[Offered]:
    """What there is; nothing of a workspace is loaded for it."""
    known = ctx.obj.library if ctx is not None and ctx.obj is not None else None
    try:
        return (known or _library(ctx)[0]).listing()
    except (InterlockError, OSError):
        return ()


def described(name: str, purpose: str) -> Any:
    """A command that stands in a list."""

    def listed() -> None:
        """Nobody calls it."""

    return made(listed, name, help=purpose)


def command_for(
    playbook: Playbook,
    word: str,
    *,
    spoken: str = "run {}",
    do: Callable[..., int] | None = None,
    honours: tuple[str, ...] = STARTS,
    panel: str | None = None,
    also: Sequence[inspect.Parameter] = (),
) -> Any:
    """The command that runs a playbook, or does something else with what is asked of it, asked for by this word.

    Args:
        spoken: what is typed for it, where it has a door of its own.
        also: further options, which `do` is given by name.
    """
    asked = [*playbook.questions(playbook.inputs), *playbook.questions(playbook.flags)]

    def run(door: Door, **said: Any) -> int:
        from interlock.cli.run import start

        more = {one.name: said[one.name] for one in also}
        return (do or start)(door, playbook, {one.field: _taken(door, one, said[one.field]) for one in asked}, **more)

    here = inspect.Parameter("door", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = inspect.Signature([here, *parameters(asked), *also])  # type: ignore[attr-defined]
    run.__doc__ = playbook.summary
    example = f"interlock {spoken.format(word)} {playbook.first}".rstrip()
    return command(word, example=example, honours=honours, panel=panel)(run)


class Moving(TypedCommand):
    """A command with what the playbooks offer to move a run that has stopped; they are imported when it is called."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[MOVES] = {one.field: one for one in (*moves(), *_own_moves(ctx, args))}
        return super().parse_args(ctx, args)

    def get_params(self, ctx: typer.Context) -> list[Any]:  # type: ignore[override]
        def nothing(**_moves: Any) -> None:
            """Only its parameters are wanted."""

        asked = ctx.meta.get(MOVES, {}).values() or moves()
        nothing.__signature__ = inspect.Signature(parameters(asked))  # type: ignore[attr-defined]
        return [*super().get_params(ctx)[:-1], *made(nothing).get_params(ctx)[:-1], *super().get_params(ctx)[-1:]]

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        said = {field: ctx.params.pop(field) for field in ctx.meta[MOVES]}
        ctx.obj.moves = {name: value for name, value in said.items() if value}
        return super().invoke(ctx)


MOVES = "interlock.moves"
"""Under this name a call of the program knows what can be said in it to move a run."""


def _own_moves(ctx: Any, args: Sequence[str]) -> tuple[Question, ...]:
    """What a playbook of one's own offers to move the run that is named on the line; nothing unless it is trusted."""
    from interlock.engine.folder import find_run

    for word in (word for word in args if not word.startswith("-")):
        try:
            library, _ = _library(ctx, args)
            playbook = library.again(find_run(library.root, word).identity, ask=peek(args).trust)
        except (InterlockError, OSError):  # another word, or said when the run is gone on with
            continue
        return playbook.questions(playbook.moves)
    return ()


@cache
def moves() -> tuple[Question, ...]:
    """What can be said to move a run, of whatever playbook that ships."""
    from interlock.engine.asking import questions

    found = {one.field: one for name in NAMES for one in questions(load(name).moves)}
    return tuple(found.values())


def parameters(asked: Iterable[Question]) -> list[inspect.Parameter]:
    """Questions as typer reads them from a function."""
    return [parameter(one.field, _annotation(one), _unsaid(one)) for one in asked]


def _unsaid(question: Question) -> Any:
    return inspect.Parameter.empty if question.required else None


def _annotation(question: Question) -> Any:
    option = question.option
    how: dict[str, Any] = {"help": option.help, "show_default": False}
    if option.metavar:
        how["metavar"] = option.metavar
    if option.argument:
        words: Any = Path if option.file else list[str]
        return Annotated[words if question.required else words | None, typer.Argument(**how)]
    kind: Any = Path if option.file else Literal[question.choices] if question.choices else question.kind
    return Annotated[
        (list[kind] if question.many else kind) | None,
        typer.Option(question.words, min=option.at_least, max=option.at_most, **how),
    ]


def _taken(door: Door, question: Question, value: Any) -> Any:
    """What was typed, as the playbook wants it."""
    if question.option.file and value is not None:
        from interlock.documents import relative

        return relative(door.root, value if door.workspace is not None else Path.cwd() / value)
    if question.option.argument:
        return " ".join(value) if value else None
    if question.denies and value is not None:
        return not value
    return value or None if question.many else value


def room_of(playbook: Playbook) -> ModuleType:
    """Where a playbook may offer `setup_files()`, `example_files()`, `rehearsal()`, `narrowed(inputs)`: its package,
    its `rehearsing.py` or its own module."""
    module = playbook.function.__module__
    package = module.rpartition(".")[0] or module
    names = (package, f"{package}.rehearsing", module) if package != module else (module,)
    found = (import_module(name) for name in names if name in sys.modules or find_spec(name) is not None)
    return next((room for room in found if hasattr(room, "rehearsal")), import_module(package))


def group(kind: type[Playbooks], name: str, help: str, panel: str) -> Any:
    """A command with a sub-command for every playbook."""
    made = typer.Typer(
        cls=kind,
        callback=lambda: None,
        help=help,
        no_args_is_help=True,
        context_settings=HELP,
    )
    above = typer.Typer(add_completion=False, callback=lambda: None)
    above.add_typer(made, name=name, rich_help_panel=panel)
    return typer.main.get_group(above).commands[name]


def __getattr__(name: str) -> Any:
    """`adopt`, a short door to `run adopt`: made when it is asked for."""
    if name == "adopt":
        return command_for(load("adopt"), "adopt", spoken="{}", panel=WORKSHOP)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""What the types of playbooks say on the command line: arguments and options of `run`, and what moves with `resume`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

from interlock.cli.desk import Desk
from interlock.cli.options import HELP, STARTS, command

if TYPE_CHECKING:
    from interlock.engine.asking import Question


class Playbooks(TyperGroup):
    """The sub-commands of `run`; a playbook is imported when it is asked for."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        from interlock import playbooks

        return list(playbooks.NAMES)

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        return command_for(cmd_name) if cmd_name in self.list_commands(ctx) else None


@cache
def command_for(name: str) -> Any:
    """The command that runs a playbook."""
    from interlock import playbooks
    from interlock.engine.asking import questions

    playbook = playbooks.load(name)
    asked = [*questions(playbook.inputs), *questions(playbook.flags)]

    def run(desk: Desk, **said: Any) -> int:
        from interlock.cli.running import start

        return start(desk, playbook, {one.field: _taken(desk, one, said[one.field]) for one in asked})

    here = inspect.Parameter("desk", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = inspect.Signature([here, *parameters(asked)])  # type: ignore[attr-defined]
    run.__doc__ = playbook.summary
    app = typer.Typer(add_completion=False, context_settings=HELP)
    command(app, name, example=f"interlock run {name} {playbook.first}".rstrip(), honours=STARTS)(run)
    return typer.main.get_command(app)


class Moving(TyperCommand):
    """A command with what the playbooks offer to move a run that has stopped; they are imported when it is called."""

    def get_params(self, ctx: typer.Context) -> list[Any]:  # type: ignore[override]
        def nothing(**_moves: Any) -> None:
            """Only its parameters are wanted."""

        nothing.__signature__ = inspect.Signature(parameters(moves()))  # type: ignore[attr-defined]
        app = typer.Typer(add_completion=False)
        app.command()(nothing)
        return [*super().get_params(ctx)[:-1], *typer.main.get_command(app).params, *super().get_params(ctx)[-1:]]

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        said = {one.field: ctx.params.pop(one.field) for one in moves()}
        ctx.obj.moves = {name: value for name, value in said.items() if value}
        return super().invoke(ctx)


@cache
def moves() -> tuple[Question, ...]:
    """What can be said to move a run, of whatever playbook."""
    from interlock import playbooks
    from interlock.engine.asking import questions

    found = {one.field: one for name in playbooks.NAMES for one in questions(playbooks.load(name).moves)}
    return tuple(found.values())


def parameters(asked: Iterable[Question]) -> list[inspect.Parameter]:
    """Questions as typer reads them from a function."""
    return [
        inspect.Parameter(one.field, inspect.Parameter.KEYWORD_ONLY, default=_unsaid(one), annotation=_annotation(one))
        for one in asked
    ]


def _unsaid(question: Question) -> Any:
    return inspect.Parameter.empty if question.required else None


def _annotation(question: Question) -> Any:
    option = question.option
    how: dict[str, Any] = {"help": option.help, "show_default": False}
    if option.metavar:
        how["metavar"] = option.metavar
    if option.argument:
        return Annotated[list[str] if question.required else list[str] | None, typer.Argument(**how)]
    kind: Any = Path if option.file else Literal[question.choices] if question.choices else question.kind
    return Annotated[
        (list[kind] if question.many else kind) | None,
        typer.Option(question.words, min=option.at_least, max=option.at_most, **how),
    ]


def _taken(desk: Desk, question: Question, value: Any) -> Any:
    """What was typed, as the playbook wants it."""
    if question.option.argument:
        return " ".join(value) if value else None
    if question.option.file and value is not None:
        from interlock.documents import relative

        return relative(desk.root, value if desk.workspace is not None else Path.cwd() / value)
    if question.denies and value is not None:
        return not value
    return value or None if question.many else value

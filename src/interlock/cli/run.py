"""`run` and `resume`: runs that go on in this process, and their dry run.

What the types of a playbook say becomes arguments and options: of `run`, and of what moves a run with `resume`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

from interlock import playbooks
from interlock.cli.beside import HeardView
from interlock.cli.commands import CARRIES, HELP, RUN, STARTS, Note, RunName, command
from interlock.cli.door import Door, finish
from interlock.cli.elsewhere import check_ours, find_far
from interlock.cli.gates import as_queued, ask, can_ask, decide, gate_lines
from interlock.cli.output import as_text, complain, envelope, print_json, print_lines
from interlock.cli.progress import PlainView, view_for
from interlock.cli.result import deliver
from interlock.cli.steering import FarRun
from interlock.errors import ConfigInvalid, InterlockError, Refused
from interlock.telemetry import State, printable, standing

if TYPE_CHECKING:
    from interlock.engine import Playbook
    from interlock.engine.asking import Question
    from interlock.engine.playing import Finished
    from interlock.engine.runs import Runs
    from interlock.finding import Library, Offered


class Playbooks(TyperGroup):
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
    from interlock.cli.trusting import library, peek
    from interlock.settings import find_workspace

    ahead, occasion = peek(rest), ctx.obj if ctx is not None else None
    given = occasion.given if occasion is not None else {}
    completing = ctx is not None and ctx.resilient_parsing
    workspace = ahead.workspace or given.get("workspace")
    root = find_workspace(Path.cwd(), workspace)
    silent = ahead.json or bool(given.get("json")) or completing
    found = library(root, trust=ahead.trust and not completing, json=silent)
    if occasion is not None:
        occasion.library = found
    return found, root if workspace is not None else Path.cwd()


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

    app = typer.Typer(add_completion=False)
    app.command(name, help=purpose)(listed)
    return typer.main.get_command(app)


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
        more = {one.name: said[one.name] for one in also}
        return (do or start)(door, playbook, {one.field: _taken(door, one, said[one.field]) for one in asked}, **more)

    here = inspect.Parameter("door", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = inspect.Signature([here, *parameters(asked), *also])  # type: ignore[attr-defined]
    run.__doc__ = playbook.summary
    example = f"interlock {spoken.format(word)} {playbook.first}".rstrip()
    return command(word, example=example, honours=honours, panel=panel)(run)


class Moving(TyperCommand):
    """A command with what the playbooks offer to move a run that has stopped; they are imported when it is called."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[MOVES] = {one.field: one for one in (*moves(), *_own_moves(ctx, args))}
        return super().parse_args(ctx, args)

    def get_params(self, ctx: typer.Context) -> list[Any]:  # type: ignore[override]
        def nothing(**_moves: Any) -> None:
            """Only its parameters are wanted."""

        asked = ctx.meta.get(MOVES, {}).values() or moves()
        nothing.__signature__ = inspect.Signature(parameters(asked))  # type: ignore[attr-defined]
        app = typer.Typer(add_completion=False)
        app.command()(nothing)
        return [*super().get_params(ctx)[:-1], *typer.main.get_command(app).params, *super().get_params(ctx)[-1:]]

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        said = {field: ctx.params.pop(field) for field in ctx.meta[MOVES]}
        ctx.obj.moves = {name: value for name, value in said.items() if value}
        return super().invoke(ctx)


MOVES = "interlock.moves"
"""Under this name a call of the program knows what can be said in it to move a run."""


def _own_moves(ctx: Any, args: Sequence[str]) -> tuple[Question, ...]:
    """What a playbook of one's own offers to move the run that is named on the line; nothing unless it is trusted."""
    from interlock.cli.trusting import peek
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


run = group(Playbooks, "run", "Run a playbook, or go on with the run that is open for the same inputs.", RUN)


def start(door: Door, playbook: Playbook, said: Mapping[str, Any]) -> int:
    """Run a playbook as somebody asks for it, or go on with the run that is open for the same."""
    asked = playbook.asked(said, door.setup.asking(playbook))
    inputs, door = asked.inputs, replace(door, new_run=door.new_run or asked.afresh)
    door.occasion.playbook, door.occasion.key = playbook.name, playbook.key(inputs)
    if door.dry_run:
        return _show_plan(door, playbook, inputs)
    call = door.call(flags=asked.flags, note=asked.note)
    return carry(door, lambda runs: runs.run(playbook, inputs, call))


def carry(door: Door, work: Callable[[Runs], Awaitable[Finished]]) -> int:
    """Do the work with somebody watching, or in the background, and hand over how it ended."""
    if door.detach:
        from interlock.cli.detached import in_the_background

        return in_the_background(door, partial(_carried, door, work))
    return _carried(door, work, view_for(door))


def _carried(door: Door, work: Callable[[Runs], Awaitable[Finished]], view: PlainView) -> int:
    """Do the work in this process; whoever sits at a terminal decides there."""

    async def watched() -> Finished:
        return await work(door.runs(heard))

    with HeardView(door, view) as heard:
        with view:
            finished = finish(watched())
        code = deliver(door, finished, view.said, asks=can_ask(door))
    run_id, gate = finished.run_id, finished.gate
    if run_id is None or gate is None or not can_ask(door) or (said := ask(door, run_id, gate)) is None:
        return code
    return decide(door, run_id, said.choice, said.note, go_on=True)


@command("resume", example="interlock resume latest", honours=CARRIES, panel=RUN, cls=Moving)
def resume(
    door: Door,
    run: RunName,
    retry: Annotated[bool, typer.Option("--retry", help="Do again what failed in a run that has ended.")] = False,
    accept_recorded: Annotated[
        bool,
        typer.Option(
            "--accept-recorded", help="Go on with what is recorded, although the playbook or its inputs differ now."
        ),
    ] = False,
    note: Note = "",
) -> int:
    """Go on with a run that waits, was interrupted or has crashed; finished work is not repeated."""
    asked = door.occasion.moves
    if (far := FarRun.of(door, find_far(door, run), "resume a run")) is not None:
        return _resume_far(door, far, retry=retry, accept_recorded=accept_recorded, note=note)
    if door.dry_run:
        if retry or accept_recorded or asked or note:
            raise ConfigInvalid(
                "--dry-run shows what comes next; it takes no option that moves the run", where="command line"
            )
        return _plan_of_run(door, run)
    playbook = door.library.again(door.find(run).identity)  # whoever must be asked is asked before it goes on
    if asked:
        check_moves(door, run, playbook, asked)
    check_ours(door, run)
    call = door.call(retry=retry, accept_recorded=accept_recorded, flags=asked, note=note)
    return carry(door, lambda runs: runs.resume(run, call))


def _resume_far(door: Door, far: FarRun, *, retry: bool, accept_recorded: bool, note: str) -> int:
    """A run of the fleet goes on where it is worked on, as it was submitted."""
    identity = far.known.identity
    here = {"--dry-run": door.dry_run, "--runner": door.runner, "--take-over": door.take_over}
    if strange := next((name for name, given in here.items() if given), None):
        raise ConfigInvalid(
            f"{strange} means nothing to a run of the fleet",
            where="command line",
            remedy=f"To go on with it here: {door.spoken(f'take {far.run_id}')}",
        )
    if asked := door.occasion.moves:
        check_moves(door, far.run_id, door.library.again(identity), asked)
    call = door.call(retry=retry, accept_recorded=accept_recorded, flags=asked, note=note)
    far.resume(
        {
            "note": call.note,
            "who": call.who,
            "retry": call.retry,
            "accept_recorded": call.accept_recorded,
            "flags": dict(call.flags),
            "budget_usd": call.budget_usd,
        }
    )
    if door.json:
        print_json(as_queued(far.known))
    complain(f"Run {far.run_id}: queued; a worker goes on with it.", f"  see: {door.spoken(f'watch {far.run_id}')}")
    return 0


def check_moves(door: Door, name: str, playbook: Playbook, asked: Mapping[str, Any]) -> None:
    """Options that move a task mean something to its playbook, and only where its run has ended (EN-19)."""
    known = door.find(name)
    own = {question.field: question for question in playbook.questions(playbook.moves)}
    names = {question.field: question.name for question in (*moves(), *own.values())}
    option = f"--{names[next(iter(asked))]}"
    if asked.keys() - own.keys():
        raise ConfigInvalid(f"{option} means nothing to playbook {known.identity.playbook}", where="command line")
    if standing(known.folder.lines()).state is not State.ENDED:
        raise Refused(
            f"run {known.identity.run_id} is open; {option} is for one that has stopped",
            remedy=f"End it first: {door.spoken(f'cancel {known.identity.run_id}')}",
        )


def _plan_of_run(door: Door, name: str) -> int:
    identity = door.find(name).identity
    playbook = door.library.again(identity)
    return _show_plan(door, playbook, playbook.parse_inputs(identity.inputs))


def _show_plan(door: Door, playbook: Playbook, inputs: Any) -> int:
    from interlock.engine.runs import Quiet

    async def plan() -> Finished:
        return await door.runs(Quiet()).plan(playbook, inputs)

    found = finish(plan())
    if door.json:
        print_json(
            envelope(
                status="complete",
                exit_code=0,
                reason="dry run: nothing was changed",
                run_id=found.run_id,
                playbook=playbook.name,
                key=playbook.key(inputs),
                gate=found.gate,
                plan=following(found),
            )
        )
    else:
        print_lines(_plan_lines(door, playbook, inputs, found))
    return 0


def following(plan: Finished) -> dict[str, Any]:
    """What a dry run found to come next."""
    before = plan.before
    if before is not None:
        from interlock.engine.model import plain

        return {"next": before.verb, "key": before.key, **plain(before.detail)}
    if plan.gate is not None:
        return {"next": "decision", "key": plan.gate["key"]}
    return {"next": "end", "status": plan.status.value, "reason": plan.reason, "output": as_text(plan.output)}


def _plan_lines(door: Door, playbook: Playbook, inputs: Any, plan: Finished) -> list[str]:
    what = f"{playbook.name} {playbook.key(inputs)}"
    where = f"run {plan.run_id} goes on" if plan.run_id else "a new run starts"
    lines = [f"{what}: {where} (dry run: nothing was changed)"]
    coming = following(plan)
    brief = coming.pop("brief", None)
    lines += [f"  {name}: {_shown(value)}" for name, value in coming.items() if value not in (None, "", [], {})]
    if plan.gate is not None and plan.run_id is not None:
        lines += gate_lines(door, plan.run_id, plan.gate)
    if brief is not None:
        lines += ["", "The brief that the agent would get:", "", brief.rstrip("\n")]
    return lines


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

"""What can be typed: every command with its arguments and options (CLI-01).

Nothing heavy is imported here: a command imports what it does when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from interlock.cli.door import Door
from interlock.errors import BadInput, nearest

F = TypeVar("F", bound=Callable[..., Any])
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 80}


class Commands(click.Group):
    """`interlock "REQUEST"` is `run task`; one word that is no command names the nearest one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word in self.commands:
            return super().resolve_command(ctx, args)
        if len(word.split()) > 1:
            return "run task", Playbooks.command(run, ctx, "task"), args
        near = nearest(word, self.commands)
        raise BadInput(
            f"there is no command {word!r}",
            expected='a command, or a request in quotes: interlock "mend the failing test"',
            remedy=f"{f'Did you mean: interlock {near}? ' if near else ''}A request: interlock run task {word}",
        )


class Playbooks(click.Group):
    """One command a playbook; its options come from its inputs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from interlock.app import SHIPPED

        return sorted(SHIPPED)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        return self.command(ctx, cmd_name)

    def command(self, ctx: click.Context, name: str) -> click.Command:  # type: ignore[override]
        from interlock.app import playbook_named
        from interlock.cli.starting import options_of, run_playbook

        playbook = playbook_named(name)
        dry = self.name == "plan"

        def begin(**given: Any) -> int:
            return run_playbook(_door(given), playbook, given, dry=dry or given.pop("dry_run", False))

        command = click.Command(
            name, callback=begin, params=options_of(playbook.inputs), help=playbook.summary, context_settings=HELP
        )
        for option in (*(() if dry else (_DRY,)), *_RUNS):
            option(command)
        return command


def _door(given: dict[str, Any]) -> Door:
    """What all commands share, taken out of what was given to one."""
    facts = click.get_current_context().find_root().obj or {}
    shared = {name: given.pop(name) for name in ("json", "verbose", "runner", "budget", "detach") if name in given}
    return Door(dir=facts.get("dir", ""), **{name: value for name, value in shared.items() if value is not None})


def _runs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of runs for a half-typed word. Never an error: a shell has no place to show one."""
    try:
        names = [entry.id for entry in _door({}).place.runs.all()]
    except Exception:  # noqa: BLE001
        return []
    return [name for name in (*names, *(["latest"] if names else [])) if name.startswith(incomplete)]


def _runners(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from interlock.settings import READY

    try:
        own = tuple(_door({}).place.settings.runners)
    except Exception:  # noqa: BLE001
        own = ()
    return sorted({name for name in (*own, *READY) if name.startswith(incomplete)})


def flag(*names: str, help: str) -> Callable[[F], F]:
    return click.option(*names, is_flag=True, help=help)


RUN = click.argument("run", required=False, default="", metavar="[RUN]", shell_complete=_runs)
JSON = flag("--json", help="One JSON object on stdout.")
VERBOSE = flag("-v", "--verbose", help="Tell the machinery, too.")
RUNNER = click.option("--runner", metavar="NAME", help="Who does the agents' work.", shell_complete=_runners)
BUDGET = click.option("--budget", type=float, metavar="USD", help="Most that the run spends; then it waits.")
DETACH = flag("--detach", help="Go on in the background.")
NOTE = click.option("--note", default="", metavar="TEXT", help="Your words for whoever works next.")
_DRY = flag("--dry-run", help="Show what it would take, as `plan` does; change nothing.")
_RUNS = (DETACH, BUDGET, RUNNER, JSON, VERBOSE)
WORKS = (DETACH, JSON, VERBOSE)


def using(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Several options at once, in the order in which help shows them."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        from interlock.cli.main import version

        click.echo(version())
        context.exit()


@click.group(cls=Commands, context_settings=HELP, invoke_without_command=False)
@click.option("-C", "dir", metavar="DIR", help="Stand in this folder.", default="")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Say which it is.")
@click.pass_context
def app(context: click.Context, dir: str) -> None:
    """Runs development processes with coding agents: agents do the work, code decides.

    interlock "mend the failing test" does it, runs your checks and has it judged.
    """
    context.obj = context.obj if isinstance(context.obj, dict) else {}
    context.obj["dir"] = dir


@app.group(cls=Playbooks, context_settings=HELP, subcommand_metavar="PLAYBOOK ...")
def run() -> None:
    """Run a playbook, or go on with its open run."""


@app.group(cls=Playbooks, context_settings=HELP, subcommand_metavar="PLAYBOOK ...")
def plan() -> None:
    """Show what a run would take; change nothing."""


@app.command(context_settings=HELP)
@using(
    RUN,
    NOTE,
    click.option("--check", multiple=True, metavar="CMD", help="A mended check, in place of the first, the second ..."),
    BUDGET,
    RUNNER,
    flag("--accept-recorded", help="Go on although what is recorded is no longer what is asked."),
    *WORKS,
)
def resume(run: str, note: str, check: Sequence[str], accept_recorded: bool, **given: Any) -> int:
    """Go on with a run, also with one that was stopped."""
    from interlock.cli.starting import resume as go_on

    return go_on(_door(given), run, note=note, check=check, accepted=accept_recorded)


@app.command(context_settings=HELP)
@using(
    flag("--all", help="All of them, not only the latest 20."),
    click.option("--status", metavar="STATUS", help="Only those that stand so."),
    click.option("--playbook", metavar="NAME", help="Only those of this playbook."),
    flag("--clean", help="Remove what ended runs left behind, and whole runs that are old."),
    click.option("--older", type=click.IntRange(0), metavar="DAYS", help="With --clean: how old; 30 if not given."),
    flag("--dry-run", help="With --clean: only say what would be removed."),
    JSON,
)
def runs(all: bool, status: str | None, playbook: str | None, clean: bool, **given: Any) -> int:
    """List the runs here, the latest last."""
    older, dry = given.pop("older"), given.pop("dry_run")
    if not clean and (older is not None or dry):
        raise click.UsageError("--older and --dry-run go with --clean")
    if clean:
        from interlock.cli.cleaning import clean_up

        return clean_up(_door(given), 30 if older is None else older, dry=dry)
    from interlock.cli.looking import list_runs

    return list_runs(_door(given), all=all, status=status, playbook=playbook)


@app.command(context_settings=HELP)
@using(
    click.argument("words", nargs=-1, metavar="[RUN] [STEP]", shell_complete=_runs),
    flag("--log", help="Every step as it happened, with its time."),
    flag("--markdown", help="The receipt, fit for a pull request."),
    JSON,
    VERBOSE,
)
def show(words: Sequence[str], log: bool, markdown: bool, **given: Any) -> int:
    """Show how a run or a step stands, and on what evidence."""
    from interlock.cli import looking

    return looking.show(_door(given), words, log=log, markdown=markdown)


@app.command(context_settings=HELP)
@using(RUN, VERBOSE)
def watch(run: str, **given: Any) -> int:
    """Follow a run that works, until it stops."""
    from interlock.cli import looking

    return looking.watch(_door(given), run)


@app.command(context_settings=HELP)
@using(
    click.argument("words", nargs=-1, metavar="[RUN] [AGENT]", shell_complete=_runs),
    flag("--stat", help="Files and their lines only."),
)
def diff(words: Sequence[str], stat: bool) -> int:
    """What a run changed: delivered, pending, or by one agent."""
    from interlock.cli import looking

    return looking.diff(_door({}), words, stat=stat)


_ONLY = flag("--only", help="Record it; do not go on with the run.")


@app.command(context_settings=HELP)
@using(RUN, NOTE, _ONLY, *WORKS)
def approve(run: str, note: str, only: bool, **given: Any) -> int:
    """Approve what a run waits with, and go on."""
    from interlock.cli.starting import decide

    return decide(_door(given), run, "approve", note=note, only=only)


@app.command(context_settings=HELP)
@using(RUN, NOTE, _ONLY, *WORKS)
def reject(run: str, note: str, only: bool, **given: Any) -> int:
    """Reject it, with what is to be changed, and go on."""
    from interlock.cli.starting import decide

    return decide(_door(given), run, "reject", note=note, only=only)


@app.command(context_settings=HELP)
@using(click.argument("words", nargs=-1, required=True, metavar="[RUN] TEXT"), NOTE, _ONLY, *WORKS)
def answer(words: Sequence[str], note: str, only: bool, **given: Any) -> int:
    """Answer the question that a run waits with, and go on."""
    from interlock.cli.starting import decide

    if len(words) > 2:
        raise click.UsageError("an answer is one word, or one text in quotes")
    return decide(_door(given), "" if len(words) == 1 else words[0], "answer", choice=words[-1], note=note, only=only)


@app.command(context_settings=HELP)
@using(click.argument("run", metavar="RUN", shell_complete=_runs), JSON)
def cancel(run: str, **given: Any) -> int:
    """End a run for good."""
    from interlock.cli.starting import cancel as end

    return end(_door(given), run)


_PATHS = click.argument("paths", nargs=-1, metavar="[PATH]...")
_AGAIN = (RUN, _PATHS, flag("--dry-run", help="Only say what would change."), JSON)


@app.command(context_settings=HELP)
@using(*_AGAIN)
def undo(run: str, paths: Sequence[str], dry_run: bool, **given: Any) -> int:
    """Take what a run delivered out of your tree again."""
    from interlock.cli.starting import again

    return again(_door(given), "undo", run, paths, dry=dry_run)


@app.command(context_settings=HELP)
@using(*_AGAIN)
def apply(run: str, paths: Sequence[str], dry_run: bool, **given: Any) -> int:
    """Bring refused, held-back or undone work into your tree."""
    from interlock.cli.starting import again

    return again(_door(given), "apply", run, paths, dry=dry_run)


@app.command(context_settings=HELP)
@using(JSON)
def playbooks(**given: Any) -> int:
    """List the playbooks."""
    from interlock.cli import looking

    return looking.list_playbooks(_door(given))


@app.command(context_settings=HELP)
@using(
    click.argument("playbook", metavar="PLAYBOOK"),
    click.option("--deviations", type=click.IntRange(0, 3), default=1, metavar="K", help="At most so many; 1."),
    JSON,
)
def rehearse(playbook: str, deviations: int, **given: Any) -> int:
    """Play every path of a playbook in a simulated world."""
    from interlock.cli import planning

    return planning.rehearse(_door(given), playbook, deviations)


@app.command(context_settings=HELP)
@using(click.option("--completion", type=click.Choice(("bash", "zsh", "fish")), help="Print a shell's completion."), JSON)
def init(completion: str | None, **given: Any) -> int:
    """Write interlock.toml for the agent that is here."""
    from interlock.cli import init as making

    return making.completion(app, completion) if completion else making.init(_door(given))


@app.command(context_settings=HELP)
@using(
    click.option("--mend", metavar="RUN", help="Cut a damaged journal before its first bad line.", shell_complete=_runs),
    flag("--no-ask", help="Ask the agent no question."),
    RUNNER,
    JSON,
)
def doctor(mend: str | None, no_ask: bool, **given: Any) -> int:
    """Say what would keep runs from working here."""
    from interlock.cli import doctor as looking

    return looking.mend(_door(given), mend) if mend else looking.doctor(_door(given), ask=not no_ask)

"""What can be typed: every command with its arguments and options, as a table (CLI-01).

Nothing heavy is imported here: a command imports what does it when it is called.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.door import Door
from interlock.cli.output import stands_in
from interlock.errors import BadInput, nearest

if TYPE_CHECKING:  # what lists the commands imports this
    from pydantic.fields import FieldInfo

    from interlock.engine.playbook import Playbook


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
            return "run task", self.commands["run"].get_command(ctx, "task"), args  # type: ignore[attr-defined]
        near = nearest(word, self.commands)
        raise BadInput(
            f"there is no command {word!r}",
            expected='a command, or a request in quotes: interlock "mend the failing test"',
            remedy=f"{f'Did you mean: interlock {near}?' if near else 'All commands: interlock --help'}\n"
            f"A request: interlock run task {shlex.quote(word)}",
        )


class Playbooks(click.Group):
    """One command a playbook; its options come from its inputs. Help and completion ask nothing."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from interlock.app import SHIPPED

        hidden = {found.name for found in _typed(ctx).place.library if found.origin != "shipped"}
        return sorted(SHIPPED.keys() - hidden)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        ctx.meta["asks"] = not {"-h", "--help"} & set(args)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
        from interlock.cli.trusting import asked
        from interlock.cli.working import run_playbook
        from interlock.finding.trust import nobody

        if len(cmd_name.split()) > 1:
            request = f"A request: interlock {self.name} task {shlex.quote(cmd_name)}"
            raise BadInput(f"a playbook's name is missing before {cmd_name!r}", remedy=request)
        playbook = _typed(ctx).place.playbook(cmd_name, asked if ctx.meta.get("asks") else nobody)
        dry = self.name == "plan"

        def begin(**given: Any) -> int:
            if runs := given.pop("against", ()):
                from interlock.cli.planning import compare

                return compare(_door(given), playbook, runs)
            if self.name == "submit":
                from interlock.cli.fleet import submit

                return submit(_door(given), playbook, given)
            return run_playbook(_door(given), playbook, given, dry=given.pop("dry_run", dry))

        *own, budget, runner = options_of(playbook)
        works = [_JSON] if self.name == "submit" else [_AGAINST if dry else _DRY, *_WORKS]
        params = [*own, *works, budget, runner]
        names = ["--help", *(name for one in params for name in one.opts)]
        if odd := next((name for name in names if names.count(name) > 1), None):
            what, where = f"an input of this playbook cannot be called {odd.lstrip('-')!r}", playbook.source
            raise BadInput(what, where=where.partition(" ")[0], expected="a name that no option of `run` has")
        made = click.Command(cmd_name, callback=begin, params=params, help=playbook.summary)
        made.short_help = playbook.summary  # is wrapped in the list; made of a long help it is cut
        return made


def options_of(playbook: Playbook) -> list[click.Parameter]:
    """What can be said to start it: its inputs as arguments and options, by their types, with their descriptions."""
    fields = {**playbook.inputs.model_fields, **(playbook.flags.model_fields if playbook.flags else {})}
    return [*(_option_of(name, field) for name, field in fields.items()), _BUDGET, _RUNNER]


def _option_of(name: str, field: FieldInfo) -> click.Parameter:
    word, about, how = name.strip("_").replace("_", "-"), field.description or "", dict[str, Any]()
    if is_argument(field):
        return click.Argument([name], nargs=-1, metavar=name.upper() if field.is_required() else f"[{name.upper()}]")
    if field.annotation is bool:
        how = {"is_flag": True, "flag_value": not field.default}
        if field.default:
            word, about = f"no-{word}", f"Leave out: {about[:1].lower()}{about[1:]}"
    elif "tuple" in str(field.annotation):
        how = {"multiple": True, "metavar": "CMD"}
    else:
        how = {"type": int, "metavar": "N"} if field.annotation is int else {"type": str, "metavar": "TEXT"}
    return click.Option([f"--{word}", name], default=None, help=about, **how)


def is_argument(field: FieldInfo) -> bool:
    """Whether an input is said by the words behind the playbook's name: as it says, else where it must be given."""
    said = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    return bool(said.get("argument", field.is_required()))


def _door(given: dict[str, Any]) -> Door:
    """What all commands share, taken out of what was given to one."""
    shared = {name: given.pop(name) for name in ("json", "verbose", "runner", "budget", "detach") if name in given}
    return _typed(click.get_current_context(), **{name: value for name, value in shared.items() if value is not None})


def _typed(context: click.Context, **shared: Any) -> Door:
    return Door(dir=context.find_root().params.get("dir") or "", **shared)


# --- arguments and options


def _runs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """What a shell offers for a half-typed run; never an error, which it has no place to show."""
    try:
        names = [entry.id for entry in _typed(context).runs.all()]
    except Exception:  # noqa: BLE001
        return []
    return [name for name in (*names, *(["latest"] if names else [])) if name.startswith(incomplete)]


def _option(*names: str, **how: Any) -> click.Option:
    return click.Option(names, is_flag="metavar" not in how and "type" not in how, **how)


def _words(name: str, shown: str, **how: Any) -> click.Argument:
    return click.Argument([name], metavar=shown, shell_complete=_runs, **how)


_RUN = _words("run", "[RUN]", required=False, default="")
_JSON = _option("--json", help="One JSON object on stdout.")
_VERBOSE = _option("-v", "--verbose", help="Tell the machinery, too.")
_WORKS = (_option("--detach", help="Go on in the background."), _JSON, _VERBOSE)
_BUDGET = _option("--budget", type=float, metavar="USD", help="Most that the run spends, in USD; then it waits.")
_RUNNER = _option("--runner", metavar="NAME", help="Who does the agents' work.")
_NOTE = _option("--note", default="", metavar="TEXT", help="Your words for whoever works next.")
_DRY = _option("--dry-run", help="Show what it would take, as `plan` does; change nothing.")
_AGAINST = _option("--against", multiple=True, metavar="RUN", help="Play a recorded run with it as it is now.")
_DECIDE = (_NOTE, _option("--only", help="Record it; do not go on with the run."), _RUNNER, *_WORKS)
_PATHS = click.Argument(["paths"], nargs=-1, metavar="[PATH]...")
_AGAIN = (_RUN, _PATHS, _option("--dry-run", "dry", help="Only say what would change."), _JSON)


# --- the commands


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.option("-C", "dir", metavar="DIR", help="Stand in this folder.", default="")
@click.version_option(package_name="interlock", message="interlock %(version)s", help="Say which it is.")
def app(dir: str) -> None:
    """Runs development processes with coding agents: agents do the work, code decides.

    interlock "mend the failing test" does it, runs your checks and has it judged.
    """
    stands_in.set(dir)


def _command(name: str, does: str, help: str, *, group: click.Group = app, **constant: Any) -> Callable[..., None]:
    """Add a command, called again with its parameters; `does`: the module and the function that gets what was given."""
    module, _, function = does.rpartition(".")

    def call(**given: Any) -> int:
        door = _door(given)
        result: int = getattr(import_module(f"interlock.{module}"), function)(door, **given, **constant)
        return result

    def takes(*params: click.Parameter) -> None:
        group.add_command(click.Command(name, callback=call, params=list(params), help=help))

    return takes


def _playbooks(name: str, help: str, group: click.Group = app) -> None:
    group.add_command(Playbooks(name, help=help, subcommand_metavar="PLAYBOOK ..."))


_playbooks("run", "Run a playbook, or go on with its open run.")
_command("resume", "cli.starting.resume", "Go on with a run, also with one that was stopped.")(
    _RUN,
    _NOTE,
    _option("--check", multiple=True, metavar="CMD", help="A mended check, in place of the first, second, ..."),
    _BUDGET,
    _RUNNER,
    _option("--accept-recorded", "accepted", help="Go on although what is recorded is not what is asked now."),
    _option("--from", "from_", default="", metavar="STAGE", help="Of a playbook with stages: go back to this one."),
    _option("--fallback", default="", metavar="STAGE", help="Of one too: you did this stage, no agent is called."),
    *_WORKS,
)
_playbooks("plan", "Show what a run would take; change nothing.")
_command("runs", "cli.looking.list_runs", "List the runs here, the latest last.")(
    _option("--all", "every", help="All of them, not only the latest 20."),
    _option("--status", metavar="STATUS", help="Only those that stand so."),
    _option("--playbook", metavar="NAME", help="Only those of this playbook."),
    _option("--clean", help="Remove what ended runs left behind, and whole runs that are old."),
    _option("--older", type=click.IntRange(0), metavar="DAYS", help="With --clean: how old; 30 if not given."),
    _option("--dry-run", "dry", help="With --clean: only say what would be removed."),
    _JSON,
)
_command("show", "cli.looking.show", "Show how a run or a step stands, and on what evidence.")(
    _words("words", "[RUN] [STEP]", nargs=-1),
    _option("--log", help="Every step as it happened, with its time."),
    _option("--markdown", help="The receipt, fit for a pull request."),
    _option("--html", default="", metavar="FILE", help="The run's page, as one file."),
    _JSON,
    _VERBOSE,
)
_command("watch", "cli.looking.watch", "Follow a run that works, until it stops.")(_RUN, _VERBOSE)
_command("diff", "cli.looking.diff", "What a run changed: delivered, pending, or by one agent.")(
    _words("words", "[RUN] [AGENT]", nargs=-1),
    _option("--stat", help="Files and their lines only."),
)
_command("approve", "cli.starting.decide", "Approve what a run waits with, and go on.", what="approve")(_RUN, *_DECIDE)
_command("reject", "cli.starting.decide", "Reject it, with --note, and go on.", what="reject")(_RUN, *_DECIDE)
_command("answer", "cli.starting.answer", "Answer the question that a run waits with, and go on.")(
    _words("words", "[RUN] TEXT", nargs=-1, required=True),
    *_DECIDE,
)
_command("cancel", "cli.starting.cancel", "End a run for good.")(_words("run", "RUN"), _JSON)
_command("undo", "cli.starting.again", "Take what a run delivered out of your tree again.", how="undo")(*_AGAIN)
_command("apply", "cli.starting.again", "Bring refused, held-back or undone work into your tree.", how="apply")(*_AGAIN)
_command("playbooks", "cli.trusting.playbooks", "List the playbooks; write, trust or copy one.")(
    click.Argument(["words"], metavar="[new NAME | trust NAME | copy NAME]", nargs=-1),
    _option("--yaml", help="With new: one in YAML."),
)
_command("rehearse", "cli.planning.rehearse", "Play every path of a playbook in a simulated world.")(
    click.Argument(["playbook"], metavar="PLAYBOOK"),
    _option("--deviations", type=click.IntRange(0, 3), default=1, metavar="K", help="At most so many on a path; 1."),
    _JSON,
)
_command("init", "cli.making.init", "Write interlock.toml, and what a playbook needs.")(
    click.Argument(["playbook"], metavar="[PLAYBOOK]", required=False, default=""),
    _option("--completion", type=click.Choice(("bash", "zsh", "fish")), help="Print a shell's completion instead."),
)
_command("doctor", "cli.doctor.doctor", "Say what would keep runs from working here.")(
    _option("--mend", metavar="RUN", help="Cut a damaged journal before its first bad line.", shell_complete=_runs),
    _option("--no-ask", help="Ask the agent no question."),
    _RUNNER,
    _JSON,
)
_command("web", "web.serving.serve", "Serve the page: runs, gates and what changed, in a browser.")(
    _option("--open", help="Open a browser there."),
    _option("--port", type=click.IntRange(0, 65535), default=8765, metavar="N", help="8765 if not given; 0: any."),
    _option("--host", default="127.0.0.1", metavar="ADDR", help="Another address needs a proxy in front."),
    _option("--proxy-user", default="", metavar="HEADER", help="In which the proxy names the person."),
    _option("--proxy-secret", default="", metavar="FILE", help="What the proxy sends as x-interlock-proxy-secret."),
)
_command("mcp", "mcp.server.mcp", "Tools for the client of a coding agent, on standard streams.")(
    _option("--register", default="", metavar="CLIENT", help="Enter them with claude, codex, vscode or cursor."),
)


def _overview(**given: Any) -> int:
    """`interlock fleet` alone."""
    if click.get_current_context().invoked_subcommand is not None:
        return 0
    from interlock.cli.fleet import overview

    return overview(_door(given))


_FLEET = click.Group(
    "fleet",
    callback=_overview,
    invoke_without_command=True,
    params=[_JSON],
    help="Runs on other machines: who has them, who works.",
)
_ELSEWHERE = _words("run", "RUN")
app.add_command(_FLEET)
_playbooks("submit", "Give a run to workers.", _FLEET)
_command("work", "cli.fleet.work", "Be a worker: take runs of this repository, one after the other.", group=_FLEET)(
    _option("--name", default="", metavar="NAME", help="As others see it; else the machine and the folder."),
    _option("--label", "labels", multiple=True, metavar="LABEL", help="Something that it has, for runs that ask."),
)
_command("send", "cli.fleet.send", "Give a run away: it goes on where somebody takes it.", group=_FLEET)(_RUN, _JSON)
_command("take", "cli.fleet.take", "Bring a run here, with its workspace.", group=_FLEET)(
    _ELSEWHERE,
    _option("--over", help="Also from whoever has it: they can change nothing of it any more."),
    _JSON,
)
_command("fetch", "cli.fleet.fetch", "Bring its work as a branch, its documents, its folder.", group=_FLEET)(_ELSEWHERE)
_command("setup", "cli.fleet.setup", "Show what workers need; change nothing.", group=_FLEET)(
    _option("--database", help="Make the tables of the queue."),
)

"""`interlock run feature "REQUEST" [--slug SLUG] [--approval] [--check COMMAND] ...`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlock.cli.desk import Desk
from interlock.cli.options import STARTS, command
from interlock.cli.playbooks import Door
from interlock.cli.running import start

if TYPE_CHECKING:
    from interlock.playbooks.feature import FeatureInputs
    from interlock.settings import FeatureSettings

FIRST = 'interlock run feature "Add a greeting"'
Switch = bool | None


def add(run: typer.Typer) -> None:
    @command(run, "feature", example=FIRST, honours=STARTS)
    def feature(
        desk: Desk,
        request: Annotated[
            list[str], typer.Argument(metavar="REQUEST", help="What the feature should be.", show_default=False)
        ],
        slug: Annotated[
            str, typer.Option("--slug", metavar="SLUG", help="Name of its folder. Default: from the request.")
        ] = "",
        approval: Annotated[
            Switch,
            typer.Option("--approval/--no-approval", help="Wait for a person after research and after planning."),
        ] = None,
        approval_fallback: Annotated[
            str | None,
            typer.Option("--approval-fallback", metavar="wait|proceed", help="What to do instead of waiting."),
        ] = None,
        approve_replans: Annotated[
            Switch, typer.Option("--approve-replans/--no-approve-replans", help="Wait for approval of replans too.")
        ] = None,
        strict: Annotated[
            Switch, typer.Option("--strict/--no-strict", help="A verifier without a verdict is a reason to replan.")
        ] = None,
        post_mortem_on_halt: Annotated[
            Switch,
            typer.Option(
                "--post-mortem-on-halt/--no-post-mortem-on-halt", help="A post-mortem also after an early end."
            ),
        ] = None,
        scheduling: Annotated[
            str | None,
            typer.Option("--scheduling", metavar="barrier|eager", help="Whether sub-waves wait for each other."),
        ] = None,
        git: Annotated[
            Switch, typer.Option("--git/--no-git", help="Whether a missing git repository is worth a warning.")
        ] = None,
        check: Annotated[
            list[str] | None,
            typer.Option(
                "--check",
                metavar="COMMAND",
                help="A command that must pass, run by interlock itself; may be given several times. "
                "Default: check_commands of the settings.",
                show_default=False,
            ),
        ] = None,
    ) -> int:
        """Take a feature request through research, design, implementation in waves, verification and review."""
        from interlock.engine.host import Quiet

        given = {
            "approval_fallback": approval_fallback,
            "approve_replans": approve_replans,
            "strict": strict,
            "post_mortem_on_halt": post_mortem_on_halt,
            "scheduling": scheduling,
            "git": git,
            "check_commands": check or [],
        }
        settings = desk.application(Quiet()).settings.feature
        variable = desk.environ.get("APPROVAL_MODE")
        inputs = inputs_of(" ".join(request), slug, approval, variable, given, settings)
        return start(desk, "feature", inputs)


def inputs_of(
    request: str,
    slug: str,
    approval: bool | None,
    variable: str | None,
    given: Mapping[str, Any],
    settings: FeatureSettings,
) -> FeatureInputs:
    """What was asked for: options over the variable APPROVAL_MODE over settings; fixed for the whole run."""
    from interlock.playbooks.feature import FeatureInputs, approval_mode

    chosen: dict[str, Any] = {
        name: getattr(settings, name) if value is None else value for name, value in given.items()
    }
    return FeatureInputs(request, slug, approval_mode(approval, variable, settings.approval), **chosen)


DOOR = Door("feature", add, FIRST)

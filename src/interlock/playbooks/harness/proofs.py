"""The commands that people named for a task: run before anything is paid, and again before anything counts.

Settings and options say which they are, and may say something else after a stop: each look takes them as they are then.
What is known of the untouched tree is a row of the report: so a run that goes on from the documents alone does not take
what was accepted as failing for the work of Build, and one in the same workspace compares what Build changed with what
was there before, also when it begins behind Build.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from interlock.engine import Checks, NamedCommand, Proof, Run, named_commands
from interlock.playbooks.harness.inputs import HarnessInputs
from interlock.playbooks.harness.run_report import Fact, RunReport, of_kind
from interlock.playbooks.harness.run_state import RunState

DOCUMENTS = "harness/**"
NOTHING_KNOWN: Mapping[str, Any] = {"tree": None, "known": {}, "defined": {}}


def named_now(run: Run, inputs: HarnessInputs) -> tuple[NamedCommand, ...]:
    return named_commands(run, inputs.check, run.settings.check_commands, "harness")


async def look_first(run: Run, inputs: HarnessInputs, state: RunState, report: RunReport | None) -> Checks:
    """The commands of a run that is about to call agents; it ends here where that would only waste what it costs.

    Once code was written, the tree is no more the one from which the task set out: then only agents are looked at.

    Args:
        report: of the task as it goes on; None where it begins.
    """
    checks = Checks(run, named_now(run, inputs), besides=(DOCUMENTS, *state.artifacts.values()))
    anew = report is not None and accepts_tree(run)
    checks.go_on_from(recorded(run, report, anew=anew))
    if not state.built:
        await checks.preflight()
    elif state.row.agent:
        await Checks(run, ()).preflight()
    if anew and checks.commands:
        await checks.start()
    return checks


def accepts_tree(run: Run) -> bool:
    """Whether a person takes the tree as it is now for the one from which the task set out."""
    return bool(run.settle_once("baseline", {"anew": bool(run.flags.get("accept_baseline"))})["anew"])


async def prove(run: Run, checks: Checks, inputs: HarnessInputs, *, as_before: bool = True) -> tuple[Proof, ...]:
    """How the commands that are named now end on the tree as it is."""
    checks.commands = named_now(run, inputs)
    return await checks.prove(as_before=as_before)


def uncompared(checks: Checks, state: RunState) -> bool:
    """Whether nobody can say what the commands did before the work."""
    return bool(checks.commands) and not checks.compares and state.built


def red(proofs: Iterable[Proof]) -> tuple[Proof, ...]:
    return tuple(proof for proof in proofs if not proof.ok)


# -- what is known of the tree from which the task set out, as a row of the report


def as_row(run: Run, baseline: Mapping[str, Any]) -> str:
    """The baseline, as one cell; empty when there is nothing to know."""
    if not baseline["known"] and baseline["tree"] is None:
        return ""
    # A cell has single spaces only.
    return json.dumps({"run": run.identity.run_id, **baseline}, sort_keys=True).replace("  ", " \\u0020")


def recorded(run: Run, report: RunReport | None, *, anew: bool) -> Mapping[str, Any]:
    """What was known when the task set out. Its tree is known in the workspace of the run that saw it, and only there.

    Args:
        anew: what fails stays known, but the tree is not that one any more.
    """
    rows = of_kind(report, Fact.BASELINE) if report is not None else ()
    known = json.loads(rows[-1]) if rows else {"run": "", **NOTHING_KNOWN}
    here = known["run"] in run.identity.before and not anew
    return known if here else {**NOTHING_KNOWN, "known": known["known"]}

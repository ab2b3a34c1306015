"""The commands that people named for a task: run before anything is paid, and again before anything counts.

Settings and options say which they are, and may say something else after a stop: each look takes them as they are then.
What was accepted as failing on the untouched tree is a row of the report, so that a run that goes on from the documents
alone does not take it for the work of Build.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from interlock.engine import Checks, Named, Proof, Run, named_commands
from interlock.playbooks.harness.inputs import HarnessInputs
from interlock.playbooks.harness.lifecycle import Stage
from interlock.playbooks.harness.run_report import Kind, RunReport, of_kind
from interlock.playbooks.harness.run_state import RunState

DOCUMENTS = "harness/**"


def named_now(run: Run, inputs: HarnessInputs) -> tuple[Named, ...]:
    return named_commands(run, inputs.check, run.settings.check_commands, "harness")


async def look_first(run: Run, inputs: HarnessInputs, state: RunState, report: RunReport | None) -> Checks:
    """The commands of a run that is about to call agents; it ends here where that would only waste what it costs.

    Once Build has worked, the tree is no more the one from which the task set out: then only agents are looked at.
    """
    checks = Checks(run, named_now(run, inputs), besides=(DOCUMENTS, *state.artifacts.values()))
    if Stage.BUILD not in state.completed:
        await checks.preflight()
        return checks
    checks.go_on_from({"tree": None, "known": known_failures(report)})
    if not Stage.QA.before(state.stage):
        await Checks(run, ()).preflight()
    return checks


async def prove(run: Run, checks: Checks, inputs: HarnessInputs, *, as_before: bool = True) -> tuple[Proof, ...]:
    """How the commands that are named now end on the tree as it is."""
    checks.commands = named_now(run, inputs)
    return await checks.prove(as_before=as_before)


def red(proofs: Iterable[Proof]) -> tuple[Proof, ...]:
    return tuple(proof for proof in proofs if not proof.ok)


# -- what is known to fail, as a row of the report


def as_row(baseline: Mapping[str, Any]) -> str:
    """Commands with what fails in each, as one cell; empty when nothing was accepted as failing."""
    known = baseline["known"]
    # A cell has single spaces only.
    return json.dumps(known, sort_keys=True).replace("  ", " \\u0020") if known else ""


def known_failures(report: RunReport | None) -> dict[str, list[str]]:
    """What was accepted as failing when the task set out."""
    rows = of_kind(report, Kind.KNOWN) if report is not None else ()
    return dict(json.loads(rows[-1])) if rows else {}

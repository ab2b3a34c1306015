"""What every step of the ticket's process shares: how an agent is asked, checked, and told of as failed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from interlock.documents import Document
from interlock.engine.model import Dispatch, Ending, Report
from interlock.engine.run import Run
from interlock.errors import EngineFault
from interlock.playbooks.ticket.briefs import CODE_WRITING
from interlock.playbooks.ticket.git import Branch, Repository
from interlock.playbooks.ticket.ledger import Ledger, Stop


async def ask(ledger: Ledger, spec: Dispatch, branch: Branch | None = None) -> Report:
    """Call an agent and put down what was found of its work. Nobody who writes code is called without a branch."""
    if spec.agent in CODE_WRITING and (branch is None or not ledger.data["git_gate_completed"]):
        raise EngineFault(f"{spec.name} writes code and was called before the git gate", where="O4.5")
    report = await ledger.run.dispatch(spec)
    ledger.run.note(
        "artifact.check",
        agent=spec.name,
        artifacts=sorted(report.artifacts),
        outcome=report.outcome,
        complaints=report.complaints,
    )
    return report


async def check_head(ledger: Ledger, repository: Repository, who: str) -> None:
    """Agents do not commit: a HEAD that moved stops the run, and nothing is reset."""
    now = await repository.head()
    if now != ledger.head:
        before, after = ledger.head or "(no commit)", now or "(no commit)"
        raise Stop(
            Ending.stopped(
                f"ERROR: HEAD moved from {before} to {after} while {who} worked; agents do not commit. Nothing was "
                "reset. STOPPING."
            )
        )


def failure(agent: str, report: Report, path: str) -> str:
    """Why an agent's work does not count, in the words of the process."""
    name = path.rsplit("/", 1)[-1]
    problems = [text.removeprefix(f"{path}: ") for text in report.complaints if text.startswith(f"{path}: ")]
    if problems and (found := problems[0]).startswith("malformed: "):
        return f"ERROR: {name}: {found.removeprefix('malformed: ')}"
    if problems:
        what = "plan" if name == "plan.md" else name
        return f"ERROR: {agent} produced no {what} at {path}. STOPPING."
    why = report.detail or "; ".join(report.complaints) or str(report.reason or report.outcome)
    return f"ERROR: {agent} failed: {why}. STOPPING."


def digest_of(document: Document) -> str:
    return document.digest


async def files_digest(run: Run, paths: Iterable[str]) -> str:
    """One SHA-256 that tells whether any of these files changed."""
    lines = [f"{path} {await run.look(path, digest_of)}" for path in sorted(paths)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()

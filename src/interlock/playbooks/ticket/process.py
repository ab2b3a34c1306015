"""What every step of the ticket's process shares: how an agent is asked, checked, and told of as failed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from interlock.contracts import ArtifactCheck, ArtifactClass, Reason
from interlock.documents import Document, DocumentState
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
    """People may commit while agents work: the ticket goes on from there. It stops where the next commit would come to
    lie on another branch, or on another history, than the work was begun on; nothing is reset."""
    now = await repository.head()
    if now == ledger.head:
        return
    moved = f"HEAD moved from {ledger.head or '(no commit)'} to {now or '(no commit)'} while {who} worked"
    if ledger.data["git_gate_completed"] and (why := await gone_from(ledger.data["branch"], ledger.head, repository)):
        go_on = f"Nothing was reset. Put it right and go on with: {again(ledger)}. STOPPING."
        raise Stop(Ending.stopped(f"ERROR: {moved}: {why}. {go_on}"))
    ledger.run.warn(f"{moved}: somebody committed, and the ticket goes on from there")
    ledger.head = now


def again(ledger: Ledger) -> str:
    """The command that goes on with this ticket."""
    return f"interlock resume {ledger.run.identity.run_id}"


async def gone_from(branch: str, commit: str, repository: Repository) -> str:
    """Why the repository is not on this branch with this commit in it any more; empty when it is."""
    if await repository.branch() != branch:
        return f"{branch} is not checked out any more"
    if commit and not await repository.contains(branch, commit):
        return f"{branch} does not contain that commit any more"
    return ""


async def write_anew(run: Run, path: str, text: str) -> None:
    """Begin a document; what somebody has put there before goes to the attic."""
    if (await run.read(path)).state is not DocumentState.MISSING:
        await run.set_aside(path)
    await run.write(path, text, expect="")


def failure(agent: str, report: Report, path: str) -> str:
    """Why an agent's work does not count, in the words of the process."""
    name = path.rsplit("/", 1)[-1]
    flaw = flaw_of(report, path)
    if flaw is not None and flaw.cls is ArtifactClass.MALFORMED:
        return f"ERROR: {name}: {flaw.detail}"
    if flaw is not None:
        return f"ERROR: {agent} produced no {'plan' if name == 'plan.md' else name} at {path}. STOPPING."
    why = report.detail or "; ".join(report.complaints) or str(report.reason or report.outcome)
    return f"ERROR: {agent} failed: {why}. STOPPING."


def flaw_of(report: Report, path: str) -> ArtifactCheck | None:
    """What is wrong with this document, where that is why its author's work does not count."""
    decides = report.reason is Reason.CONTRACT_VIOLATION
    return next((found for found in report.flaws if found.path == path), None) if decides else None


def digest_of(document: Document) -> str:
    return document.digest


async def files_digest(run: Run, paths: Iterable[str]) -> str:
    """One SHA-256 that tells whether any of these files changed."""
    lines = [f"{path} {await run.look(path, digest_of)}" for path in sorted(paths)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()

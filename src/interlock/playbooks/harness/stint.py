"""What one run does for a task: what it was given, how far it is to go, and what it has done so far."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.engine import Checks, Proof, Run, pause
from interlock.playbooks.harness.inputs import HarnessInputs
from interlock.playbooks.harness.ledger import Ledger
from interlock.playbooks.harness.run_state import RunState


@dataclass
class Stint:
    """The part of one run in the life of a task."""

    inputs: HarnessInputs
    checks: Checks
    prose: tuple[str, ...] = ()
    """Standards without anything that a program can compare: agents get them to read."""
    executed: int = 0
    last: str | None = None
    """The stage that was carried out last."""
    rejections: int = 0
    red: tuple[Proof, ...] = ()
    """What was red when the task was last judged."""

    async def stop_at_bound(self, run: Run, ledger: Ledger) -> None:
        """A bounded run stops here, with its status kept; an option of this process, so nothing of it is replayed."""
        until = run.flags.get("until") or run.settings.until
        most = run.flags.get("max_stages") or run.settings.max_stages
        bound = ledger.state.lifecycle.named(until) if until else None
        after = bound_reached(ledger.state, bound, most, self.executed, self.last)
        if after is None or not run.live:
            return
        reason = f"Bounded orchestration test: stopped after {after}"
        with run.step("bounded", replayed=False):
            await ledger.commit(ledger.state.told(f"{reason}.", stop_reason=reason), at=ledger.stamp())
        pause(run, reason)


def bound_reached(state: RunState, until: str | None, most: int | None, executed: int, last: str | None) -> str | None:
    """The stage after which a bounded run stops here; None when it goes on."""
    if until is not None and (last == until or state.lifecycle.before(until, state.stage)):
        return until
    if most is not None and executed >= most:
        return last or (state.completed[-1] if state.completed else None)
    return None
